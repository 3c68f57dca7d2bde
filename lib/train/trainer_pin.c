/* SPDX-License-Identifier: MIT */
/* Members at the places that a plan gives them (pins.h). */
#include "train/trainer_place_state.h"

/* Index of the member with this name that may have a place, -1: none. */
static int find(const struct spot_trainer *c, const char *name)
{
    const struct spot_peer *const peer = spot_group_find_name(c->group, name);
    const struct spot_member *const member =
        peer ? spot_machine_find(c->machine, spot_peer_id(peer)) : NULL;

    return member && spot_view_may_place(c->view, member) ? (int)(member - c->machine->member) : -1;
}

/* The pins apply only to the grid that the plan asks for. */
static size_t count(const struct spot_trainer *c, const struct spot_grid *grid)
{
    return spot_grid_equal(grid, &c->want) ? c->pins.n : 0;
}

static void report_absent(const struct spot_trainer *c, struct spot_pin *pin, bool is_here)
{
    if (!is_here && !pin->is_reported)
        c->options->warn("the plan gives '%s' the place d %lld, p %lld, m %lld, but no member of "
                         "that name is available; the coordinator chooses another",
                         pin->name, (long long)pin->d, (long long)pin->p, (long long)pin->m);
    pin->is_reported = !is_here;
}

bool spot_trainer_breaks_pin(const struct spot_trainer *c)
{
    const struct spot_grid grid = spot_form_grid(&c->form);
    bool breaks = false;

    for (size_t i = 0; i < count(c, &grid); i++) {
        const int node = find(c, c->pins.pin[i].name);

        report_absent(c, &c->pins.pin[i], node >= 0);
        breaks |= node >= 0 && c->form.member[spot_pin_position(&grid, &c->pins.pin[i])] !=
                                   c->machine->member[node].id;
    }
    return breaks;
}

bool spot_trainer_pin(const struct spot_trainer *c, int *node_of_position)
{
    const struct spot_grid grid = spot_form_grid(&c->form);
    const size_t n_position = (size_t)spot_grid_size(&grid);
    bool is_moved = false;

    for (size_t i = 0; i < count(c, &grid); i++) {
        const size_t at = spot_pin_position(&grid, &c->pins.pin[i]);
        const int node = find(c, c->pins.pin[i].name);

        report_absent(c, &c->pins.pin[i], node >= 0);
        is_moved |= node >= 0 && spot_pin_put(node_of_position, n_position, at, node);
    }
    return is_moved;
}

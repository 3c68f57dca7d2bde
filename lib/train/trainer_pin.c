/* SPDX-License-Identifier: MIT */
/* The places that a plan gives to members by name (place[] of spot.plan/1). */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "train/trainer_state.h"

static bool is_same(const struct spot_trainer *c, const struct spot_plan_doc *plan)
{
    if (c->n_pin != plan->n_place)
        return false;
    for (size_t i = 0; i < c->n_pin; i++) {
        const struct spot_trainer_pin *const pin = &c->pin[i];
        const struct spot_plan_place *const at = &plan->place[i];

        if (pin->d != at->d || pin->p != at->p || pin->m != at->m || strcmp(pin->name, at->node))
            return false;
    }
    return true;
}

bool spot_trainer_take_pins(struct spot_trainer *c, const struct spot_plan_doc *plan)
{
    if (is_same(c, plan))
        return false;
    free(c->pin);
    c->n_pin = plan->n_place;
    c->pin = spot_xcalloc(c->n_pin + 1, sizeof(*c->pin));
    for (size_t i = 0; i < c->n_pin; i++) {
        const struct spot_plan_place *const at = &plan->place[i];

        c->pin[i] = (struct spot_trainer_pin){ .d = at->d, .p = at->p, .m = at->m };
        strncpy(c->pin[i].name, at->node, sizeof(c->pin[i].name) - 1);
    }
    return true;
}

/* Index of the member with this name that may have a place, -1: none. */
static int find(const struct spot_trainer *c, const char *name)
{
    const struct spot_peer *const peer = spot_group_find_name(c->group, name);
    const struct spot_member *const member =
        peer ? spot_machine_find(c->machine, spot_peer_id(peer)) : NULL;

    return member && spot_view_may_place(c->view, member) ? (int)(member - c->machine->member) : -1;
}

static size_t position_of(const struct spot_grid *grid, const struct spot_trainer_pin *pin)
{
    return (size_t)((pin->d * grid->P + pin->p) * grid->M + pin->m);
}

/* The pins are of the grid that the plan asks for, and of no other. */
static size_t count(const struct spot_trainer *c, const struct spot_grid *grid)
{
    return spot_grid_equal(grid, &c->want) ? c->n_pin : 0;
}

static void tell_absent(const struct spot_trainer *c, struct spot_trainer_pin *pin, bool is_here)
{
    if (!is_here && !pin->is_told)
        c->options->warn("the plan gives '%s' the place d %lld, p %lld, m %lld, but no member of "
                         "that name can have one; the coordinator chooses who gets it",
                         pin->name, (long long)pin->d, (long long)pin->p, (long long)pin->m);
    pin->is_told = !is_here;
}

bool spot_trainer_breaks_pin(const struct spot_trainer *c)
{
    const struct spot_grid grid = spot_form_grid(&c->form);
    bool breaks = false;

    for (size_t i = 0; i < count(c, &grid); i++) {
        const int node = find(c, c->pin[i].name);

        tell_absent(c, &c->pin[i], node >= 0);
        breaks |= node >= 0 &&
                  c->form.member[position_of(&grid, &c->pin[i])] != c->machine->member[node].id;
    }
    return breaks;
}

/* Put `node` at a position; the previous member goes to the node's old place, if it had one. */
static void put(int *node_of_position, size_t n_position, size_t position, int node)
{
    for (size_t k = 0; k < n_position; k++)
        if (node_of_position[k] == node)
            node_of_position[k] = node_of_position[position];
    node_of_position[position] = node;
}

bool spot_trainer_pin(const struct spot_trainer *c, int *node_of_position)
{
    const struct spot_grid grid = spot_form_grid(&c->form);
    const size_t n_position = (size_t)spot_grid_size(&grid);
    bool is_moved = false;

    for (size_t i = 0; i < count(c, &grid); i++) {
        const size_t at = position_of(&grid, &c->pin[i]);
        const int node = find(c, c->pin[i].name);

        tell_absent(c, &c->pin[i], node >= 0);
        if (node < 0 || node_of_position[at] == node)
            continue;
        put(node_of_position, n_position, at, node);
        is_moved = true;
    }
    return is_moved;
}

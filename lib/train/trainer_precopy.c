/* SPDX-License-Identifier: MIT */
/* Pre-copy: state moves before a new grid is formed. If the old grid can continue, it does:
 * before a step the first replica of a stage sends a few bundles to the members that will need
 * them, their receivers, while all members compute; from then on receivers get the sums and
 * apply the updates, as buddies do. When everything has been sent the new grid is formed, and
 * nothing is left to move. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "train/trainer_member_state.h"
#include "train/trainer_move_state.h"
#include "train/trainer_place_state.h"

/* The time until a leaving member's deadline must be this multiple of the moving time at the
 * measured rates, plus this many steps, since pre-copy begins and ends with a step. */
static const double enough = 4, pressing = 2, steps_around = 4;

/* --- whether pre-copy is possible and pays off ------------------------------------------ */

/* Bytes that a member is still to receive. */
static int64_t inflow(const struct spot_trainer *c, const struct spot_form *f, uint32_t id)
{
    int64_t n_byte = 0;

    for (size_t i = f->n_precopied; i < f->n_precopy; i++)
        if (f->precopy[i].to == id)
            n_byte += spot_trainer_bundle_byte(c, (int)f->precopy[i].bundle);
    return n_byte;
}

/* The time for which a leaving member is needed, if all remaining moves of the form leave through
 * one link, plus the steps around it. */
static double need_s(const struct spot_trainer *c, const struct spot_form *f, double times)
{
    double n_byte = 0;

    for (size_t i = 0; i < c->machine->n_member; i++)
        n_byte += (double)inflow(c, f, c->machine->member[i].id);
    return times * n_byte / spot_trainer_best_byte_per_s(c) + steps_around * c->step_s;
}

/* Time until the first deadline of a leaving member with a part in the form; INFINITY if none is
 * leaving. */
static double left_s(const struct spot_trainer *c, const struct spot_form *f)
{
    double least = INFINITY;

    for (size_t i = 0; i < c->machine->n_member; i++) {
        const struct spot_member *const m = &c->machine->member[i];

        if (m->is_leaving && spot_form_is_active(f, m->id))
            least = fmin(least, spot_peer_time_left_s(spot_trainer_member(c, m->id)->peer));
    }
    return least;
}

/* A leaving member continues to work if its deadline is known. */
static bool may_stay(const struct spot_trainer *c, const struct spot_member *m)
{
    return spot_view_may_place(c->view, m) ||
           (m->is_leaving && !spot_trainer_is_aside(c, m->id) &&
            isfinite(spot_peer_time_left_s(spot_trainer_member(c, m->id)->peer)));
}

static bool holds_stage(const struct spot_trainer *c, const struct spot_form *f, uint32_t id,
                        uint32_t p)
{
    const struct spot_member *const m = spot_machine_find(c->machine, id);

    if (!m || !may_stay(c, m))
        return false;
    for (uint32_t b = f->stage[p]; b < f->stage[p + 1]; b++)
        if (spot_trainer_member(c, id)->held[b] != c->form.step)
            return false;
    return true;
}

/* True if the old grid can continue. A lost buddy is replaced in the next grid. */
static bool can_go_on(const struct spot_trainer *c, struct spot_form *old)
{
    if (!old->D)
        return false;
    for (uint32_t i = 0; i < spot_form_size(old); i++)
        if (!holds_stage(c, old, old->member[i], spot_form_place(old, i).p))
            return false;
    for (uint32_t p = 0; p < old->P; p++)
        if (!holds_stage(c, old, old->buddy[p], p))
            old->buddy[p] = 0;
    return true;
}

/* True if only leaving members hold the bundle. */
static bool goes_with_leavers(const struct spot_trainer *c, uint32_t bundle)
{
    for (size_t i = 0; i < c->machine->n_member; i++) {
        const struct spot_member *const m = &c->machine->member[i];

        if (!m->is_leaving && spot_trainer_holds(c, m->id, (int)bundle, c->form.step))
            return false;
    }
    return true;
}

static void add_precopies(const struct spot_trainer *c, struct spot_form *old, bool is_held,
                          bool is_urgent)
{
    for (uint32_t b = 0; b < (uint32_t)c->n_bundle; b++)
        for (size_t i = 0; i < c->machine->n_member; i++) {
            const uint32_t id = c->machine->member[i].id;

            if (goes_with_leavers(c, b) == is_urgent && spot_form_keeps(&c->form, id, b) &&
                !spot_form_keeps(old, id, b) &&
                (spot_trainer_member(c, id)->held[b] == c->form.step) == is_held)
                old->precopy[old->n_precopy++] = (struct spot_precopy){ b, id };
        }
}

/* List the bundles that members keep in the new form but not in the old one. Those already held,
 * from interrupted moves, take effect at once; those held only by leaving members come first. */
static void list_precopies(const struct spot_trainer *c, struct spot_form *old)
{
    size_t n_held;

    old->n_precopied = old->n_precopy = 0;
    free(old->precopy);
    old->precopy = spot_xcalloc(c->machine->n_member * (size_t)c->n_bundle, sizeof(*old->precopy));
    add_precopies(c, old, true, false);
    n_held = old->n_precopy;
    add_precopies(c, old, false, true);
    add_precopies(c, old, false, false);
    old->n_precopied = n_held;
}

/* The maximum bytes that a member is to receive; -1 if a receiver cannot mirror, or nothing is to
 * be received. */
static int64_t most_inflow(const struct spot_trainer *c, const struct spot_form *f)
{
    int64_t most = -1;

    for (size_t i = 0; i < c->machine->n_member; i++) {
        const uint32_t id = c->machine->member[i].id;
        const int64_t n_byte = inflow(c, f, id);

        if (!n_byte)
            continue;
        if (spot_trainer_member(c, id)->cannot_mirror)
            return -1;
        most = n_byte > most ? n_byte : most;
    }
    return most;
}

/* Without pre-copy all members wait for the longest move; with it newcomers are unused for some
 * steps. The user can give a threshold in bytes instead. */
static bool is_worth_it(struct spot_trainer *c, const struct spot_form *old)
{
    const struct spot_grid now = spot_form_grid(old), then = spot_form_grid(&c->form);
    const int64_t most = most_inflow(c, old);

    if (most < 0)
        return false;
    return c->options->precopy_byte >= 0
               ? (double)most >= c->options->precopy_byte
               : spot_trainer_prefers_precopy(c, &now, &then, (double)most);
}

/* The initial number at a time; one if the user gives a threshold. */
static size_t first_precopies(const struct spot_trainer *c)
{
    const struct spot_form *const f = &c->form;
    double room = c->options->precopy_byte >= 0 ? 0
                                                : spot_trainer_best_byte_per_s(c) * c->step_s *
                                                      spot_movement_share(&c->movement);
    size_t n = 0;

    for (size_t i = f->n_precopied; i < f->n_precopy && room > 0; i++, n++)
        room -= (double)spot_trainer_bundle_byte(c, (int)f->precopy[i].bundle);
    return n > 1 ? n : 1;
}

/* --- the old grid again -------------------------------------------------------- */

static void take_roles(struct spot_trainer *c)
{
    for (size_t i = 0; i < c->machine->n_member; i++) {
        const uint32_t id = c->machine->member[i].id;

        spot_view_set_role(c->view, id,
                           spot_form_is_active(&c->form, id) ? SPOT_ROLE_ACTIVE : SPOT_ROLE_SPARE);
    }
}

static size_t count_leavers(const struct spot_trainer *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->machine->n_member; i++)
        n += c->machine->member[i].is_leaving;
    return n;
}

/* When all bundles are pre-copied the new grid follows, so that changing plans cannot delay it for
 * ever; unless further members are leaving, whose bundles are not pre-copied yet. */
static bool is_due(const struct spot_trainer *c)
{
    return c->movement.is_precopied && count_leavers(c) <= c->movement.n_leaver;
}

bool spot_trainer_precopy(struct spot_trainer *c, struct spot_form *old)
{
    const bool grid_is_due = is_due(c);
    const int64_t step = c->form.step;

    c->movement.is_precopied = c->movement.is_for_grid = false;
    if (grid_is_due || c->options->observer || !can_go_on(c, old))
        return false;
    list_precopies(c, old);
    if (!is_worth_it(c, old) || left_s(c, old) < need_s(c, old, enough))
        return false;
    spot_form_release(&c->form);
    c->form = *old;
    *old = (struct spot_form){ 0 };
    c->form.step = step;
    free(c->form.peer);
    free(c->form.transfer);
    c->form.transfer = NULL;
    c->form.n_peer = c->form.n_transfer = 0;
    take_roles(c);
    spot_trainer_list_peers(c);
    c->movement.is_for_grid = true;
    c->movement.n_leaver = count_leavers(c);
    return true;
}

/* React to an earlier deadline, or to slower steps. */
void spot_trainer_watch_deadlines(struct spot_trainer *c)
{
    if (c->movement.is_for_grid && !c->movement.is_precopied &&
        left_s(c, &c->form) < need_s(c, &c->form, pressing))
        spot_view_want_change(c->view);
}

void spot_trainer_pace_precopies(struct spot_trainer *c)
{
    c->movement.n_precopy = first_precopies(c);
    c->movement.usual_s = c->step_s;
}

/* --- during the steps ------------------------------------------------------------- */

void spot_trainer_precopy_some(struct spot_trainer *c)
{
    struct spot_form *const f = &c->form;

    if (f->n_precopied == f->n_precopy)
        return;
    f->n_precopied += c->movement.n_precopy < f->n_precopy - f->n_precopied
                          ? c->movement.n_precopy
                          : f->n_precopy - f->n_precopied;
    spot_view_send_active(c->view, SPOT_MSG_PRECOPY, f->n_precopied, NULL, 0);
}

/* Adjust the number at a time to the slowdown of steps. */
void spot_trainer_precopied(struct spot_trainer *c, double step_s)
{
    const struct spot_form *const f = &c->form;

    if (!f->n_precopy || (!c->movement.is_for_grid && f->n_precopied == f->n_precopy))
        return;
    spot_movement_pace(&c->movement, step_s);
    if (f->n_precopied < f->n_precopy || !c->movement.is_for_grid)
        return;
    c->movement.is_precopied = true;
    spot_view_want_change(c->view);
}

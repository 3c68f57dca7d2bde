/* SPDX-License-Identifier: MIT */
/* The value of a change of the grid, from this job's measurements: the speed of moves, the time to
 * form an epoch, the rate of losses of members. */
#include <math.h>

#include "common/clock.h"
#include "train/change_worth.h"
#include "train/grid_choice.h"
#include "train/trainer_move_state.h"
#include "train/trainer_place_state.h"

/* --- time to form an epoch ----------------------------------------------- */

void spot_trainer_note_formed(struct spot_trainer *c)
{
    double n_byte = 0;

    for (size_t i = 0; i < c->form.n_transfer; i++)
        n_byte += (double)spot_trainer_bundle_byte(c, (int)c->form.transfer[i].bundle);
    if (n_byte < SPOT_TRAINER_RATE_BYTE)
        c->movement.form_s = spot_clock_s() - c->movement.layout_s;
}

/* --- the value of a change ------------------------------------------------------ */

static struct spot_change_worth worth_of(struct spot_trainer *c, const struct spot_grid *now,
                                         const struct spot_grid *then, double n_byte)
{
    const double work = spot_grid_work(&c->config.shape, now, c->n_microbatch);

    spot_movement_members(&c->movement, c->machine->n_member);
    return (struct spot_change_worth){
        .now_per_s = 1 / c->step_s,
        .then_per_s = work / spot_grid_work(&c->config.shape, then, c->n_microbatch) / c->step_s,
        .form_s = c->movement.form_s,
        .moves_s = n_byte / spot_trainer_best_byte_per_s(c),
        .step_s = c->step_s,
        .lasts_s = spot_movement_lasts_s(&c->movement, (double)spot_grid_size(then)),
    };
}

bool spot_trainer_prefers_precopy(struct spot_trainer *c, const struct spot_grid *now,
                                  const struct spot_grid *then, double n_byte)
{
    struct spot_change_worth w;

    if (!(c->step_s > 0) || n_byte < SPOT_TRAINER_RATE_BYTE)
        return false;
    w = worth_of(c, now, then, n_byte);
    return spot_change_how(&w) == SPOT_CHANGE_PRECOPY;
}

/* --- newcomers ------------------------------------------------------------------- */

/* True for a member without a place that has all of a stage, so that it can take a place of that
 * stage without moves. */
static bool is_warm(const struct spot_trainer *c, uint32_t id)
{
    for (uint32_t p = 0; p < c->form.P; p++)
        if (spot_trainer_mirrors(c, id, p))
            return true;
    return false;
}

/* Bytes that members with new places lack if the stages are the same; with other stages they lack a
 * whole stage. */
static double lacked_byte(const struct spot_trainer *c, const struct spot_grid *then)
{
    int64_t n_warm = 0;
    double most = 0;

    for (size_t i = 0; i < c->machine->n_member; i++)
        if (spot_form_position(&c->form, c->machine->member[i].id) < 0)
            n_warm += is_warm(c, c->machine->member[i].id);
    if (then->P == c->form.P &&
        n_warm >= (int64_t)spot_grid_size(then) - (int64_t)spot_form_size(&c->form))
        return 0;
    for (uint32_t p = 0; p < c->form.P; p++) {
        double stage = 0;

        for (uint32_t b = c->form.stage[p]; b < c->form.stage[p + 1]; b++)
            stage += (double)spot_trainer_bundle_byte(c, (int)b);
        most = fmax(most, stage);
    }
    return most;
}

/* True if the grid only grows, by new members. */
static bool is_growth(const struct spot_trainer *c, const struct spot_grid *then)
{
    const struct spot_form *const f = &c->form;

    if (!f->D || c->machine->phase != SPOT_PHASE_RUN || !spot_grid_equal(&c->want, &c->formed_want))
        return false;
    for (uint32_t i = 0; i < spot_form_size(f); i++) {
        const struct spot_member *const m = spot_machine_find(c->machine, f->member[i]);

        if (!m || !spot_view_may_place(c->view, m))
            return false;
    }
    return spot_grid_size(then) > spot_form_size(f);
}

bool spot_trainer_puts_off(struct spot_trainer *c, const struct spot_grid *then)
{
    const struct spot_grid now = spot_form_grid(&c->form);
    struct spot_change_worth w;
    char grid[SPOT_GRID_TEXT];
    const bool was_put_off = c->movement.is_put_off;

    c->movement.is_put_off = false;
    if (c->options->observer || !(c->step_s > 0) || !is_growth(c, then))
        return false;
    w = worth_of(c, &now, then, lacked_byte(c, then));
    c->movement.is_put_off = !spot_change_pays(&w);
    if (c->movement.is_put_off && !was_put_off)
        c->options->warn("grid %s waits: a member leaves every %.3g s, and the grid would need "
                         "longer to pay for its change of %.3g s",
                         spot_grid_text(then, grid), w.lasts_s, w.form_s + w.moves_s);
    return c->movement.is_put_off;
}

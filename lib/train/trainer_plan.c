/* SPDX-License-Identifier: MIT */
/* The grid requested by a plan. */
#include "engine/kernel.h"
#include "model/plan_doc.h"
#include "train/trainer_place_state.h"

int spot_trainer_check_grid(const struct spot_trainer *c, const struct spot_grid *grid,
                            const char *what, enum spot_code code, struct spot_err *err)
{
    if (grid->D > c->n_microbatch || grid->P > c->n_bundle)
        return spot_err_set(err, code,
                            "%s: the job has %lld microbatches in a step and %d bundles to make "
                            "stages of",
                            what, (long long)c->n_microbatch, c->n_bundle);
    if (c->config.shape.n_shard % grid->M)
        return spot_err_set(err, code, "%s: M = %lld does not divide the job's %lld shards", what,
                            (long long)grid->M, (long long)c->config.shape.n_shard);
    if (grid->M > 1 && !spot_kernel_shares_stages(c->config.kernel))
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "%s: M > 1 needs kernel cuda-bf16-tp or cuda-fp32-tp, not %s", what,
                            c->config.kernel);
    return 0;
}

int spot_trainer_plan(void *job, const struct spot_plan_doc *plan, bool *changed,
                      struct spot_err *err)
{
    struct spot_trainer *const c = job;
    struct spot_grid want = plan->next;
    char grid[SPOT_GRID_TEXT], what[SPOT_GRID_TEXT + 24];

    if (plan->kind != SPOT_PLAN_TRAIN)
        return spot_err_set(err, SPOT_EINFEASIBLE, "the plan is for serving, but this job trains");
    want.M += !want.M;
    snprintf(what, sizeof(what), "the plan asks for %s", spot_grid_text(&want, grid));
    if (spot_trainer_check_grid(c, &want, what, SPOT_EINFEASIBLE, err))
        return -1;
    *changed = spot_pins_take(&c->pins, plan) || !spot_grid_equal(&c->want, &want);
    c->want = want;
    return 0;
}

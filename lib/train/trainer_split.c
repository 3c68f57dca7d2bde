/* SPDX-License-Identifier: MIT */
/* The microbatch split, by the measured speed of members. A slow member would delay every step;
 * with a split by speed all pipelines end together, and the bits do not change. */
#include <assert.h>

#include "train/grid_choice.h"
#include "train/trainer_member_state.h"
#include "train/trainer_place_state.h"

/* Old times decay, so that a machine that recovers gets its part back. */
static const double fade = 0.8;

/* The work of a member of stage p. */
static double stage_cost(const struct spot_trainer *c, uint32_t p)
{
    return spot_grid_cost(&c->config.shape, c->form.stage[p], c->form.stage[p + 1]) / c->form.M;
}

void spot_trainer_note_pace(struct spot_trainer *c, uint32_t id, double work_s)
{
    const struct spot_form *f = &c->form;
    const int64_t position = spot_form_position(f, id);
    struct spot_trainer_member *who = spot_trainer_member(c, id);
    struct spot_form_place at;

    /* the first step of an epoch touches new memory and is not representative */
    if (position < 0 || !c->drift.n_commit || !(work_s > 0 && work_s < 1e6))
        return;
    at = spot_form_place(f, position);
    who->paced_work =
        fade * who->paced_work + (f->share[at.d + 1] - f->share[at.d]) * stage_cost(c, at.p);
    who->paced_s = fade * who->paced_s + work_s;
}

/* Seconds of a microbatch in the slowest stage of each pipeline, time[D]; members not yet measured
 * count as average. False when none was measured. */
static bool pipeline_times(const struct spot_trainer *c, double *time)
{
    const struct spot_form *f = &c->form;
    double work = 0, work_s = 0;

    for (uint32_t i = 0; i < spot_form_size(f); i++) {
        const struct spot_trainer_member *who = spot_trainer_member(c, f->member[i]);

        work += who ? who->paced_work : 0;
        work_s += who ? who->paced_s : 0;
    }
    for (uint32_t i = 0; work > 0 && i < spot_form_size(f); i++) {
        const struct spot_form_place at = spot_form_place(f, i);
        const struct spot_trainer_member *who = spot_trainer_member(c, f->member[i]);
        const bool is_seen = who && who->paced_work > 0;
        const double pace_s = is_seen ? who->paced_s / who->paced_work : work_s / work;
        const double stage_s = pace_s * stage_cost(c, at.p);

        if ((at.p == 0 && at.m == 0) || stage_s > time[at.d])
            time[at.d] = stage_s;
    }
    return work > 0;
}

void spot_trainer_choose_split(struct spot_trainer *c)
{
    const struct spot_split_policy *policy = &c->options->shares;
    const uint32_t D = c->form.D;
    double time[SPOT_SPLIT_MAX];

    assert(D <= SPOT_SPLIT_MAX);
    spot_split_drift_begin(&c->drift);
    if (policy->kind == SPOT_SPLIT_GIVEN && policy->n_weight == D) {
        for (uint32_t d = 0; d < D; d++)
            time[d] = 1 / policy->weight[d];
        spot_split_by_time(c->n_microbatch, D, time, c->form.share);
    } else if (policy->kind == SPOT_SPLIT_MEASURED && pipeline_times(c, time)) {
        spot_split_by_time(c->n_microbatch, D, time, c->form.share);
    } else {
        spot_split_even(c->n_microbatch, D, c->form.share);
    }
}

/* Called at each commit. */
bool spot_trainer_split_drifts(struct spot_trainer *c)
{
    const struct spot_form *f = &c->form;
    double time[SPOT_SPLIT_MAX];
    uint32_t best[SPOT_SPLIT_MAX + 1];

    c->drift.n_commit++;
    if (c->options->shares.kind != SPOT_SPLIT_MEASURED || f->D < 2 || !pipeline_times(c, time))
        return false;
    spot_split_by_time(c->n_microbatch, f->D, time, best);
    return spot_split_drifts(&c->drift, spot_split_makespan(f->D, f->share, time),
                             spot_split_makespan(f->D, best, time));
}

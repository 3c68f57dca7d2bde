/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/share_state.h"

double share_unsaved(const struct share_state *s, const struct share_job *job, double time_s)
{
    const double every_s = s->play->checkpoint_s;
    const double done = job->lease_left - job->left;
    double saved_s, saved;

    if (!(every_s > 0) || job->type < 0)
        return 0;
    if (time_s < job->checkpoint_s)
        return done;
    saved_s = job->checkpoint_s + floor((time_s - job->checkpoint_s) / every_s + 1e-9) * every_s;
    saved = fmin(done, job->rate * fmax(0, saved_s - job->ready_s));
    return done - saved;
}

void share_lease_until(struct share_state *s, const struct share_job *job, double time_s)
{
    for (size_t k = 0; k < job->n_span; k++)
        s->outcome->span[job->span + k].end_s = time_s;
}

void share_lease_end(struct share_state *s, size_t i, double time_s)
{
    struct share_job *job = &s->job[i];
    const double lost = share_unsaved(s, job, time_s);

    if (job->type < 0)
        return;
    if (job->is_active && job->left > 0) {
        job->left += lost;
        s->outcome->lost_s += lost / job->rate * (double)job->scale;
    }
    free(job->worker);
    job->worker = NULL;
    job->type = -1;
}

/* --- who gets which workers --- */

struct floor_plan {
    bool *is_taken; /* [most workers of a type] */
    size_t *order;  /* [n_pick] */
};

/* Does it stay: the same type and scale, its workers there and free? */
static bool can_stay(const struct share_state *s, const struct share_pick *pick, const bool *taken)
{
    const struct share_job *job = &s->job[pick->job];

    if (job->type != pick->type || job->scale != pick->scale)
        return false;
    for (int64_t w = 0; w < job->scale; w++)
        if (taken[job->worker[w]] || job->worker[w] >= s->count[pick->type])
            return false;
    return true;
}

/* The lowest that are free; side by side where there is room, but as released. */
static int64_t first_worker(const struct share_state *s, const struct share_pick *pick,
                            const bool *taken)
{
    int64_t run = 0;

    for (int64_t w = 0; !s->play->is_released && w < s->count[pick->type]; w++) {
        run = taken[w] ? 0 : run + 1;
        if (run == pick->scale)
            return w + 1 - run;
    }
    return 0;
}

/* A span for each run of workers side by side. */
static void add_spans(struct share_state *s, const struct share_pick *pick)
{
    struct spot_share_outcome *o = s->outcome;
    struct share_job *job = &s->job[pick->job];

    job->span = o->n_span;
    for (int64_t w = 0; w < pick->scale; w++) {
        if (w && job->worker[w] == job->worker[w - 1] + 1) {
            o->span[o->n_span - 1].scale++;
            continue;
        }
        o->span = spot_xgrow(o->span, &o->cap_span, o->n_span + 1, sizeof(*o->span));
        o->span[o->n_span++] =
            (struct spot_share_span){ pick->job, (size_t)pick->type, job->worker[w],
                                      1,         s->now_s,           s->now_s };
    }
    job->n_span = o->n_span - job->span;
}

static void begin(struct share_state *s, const struct share_pick *pick, bool *taken)
{
    struct share_job *job = &s->job[pick->job];
    struct spot_share_outcome *o = s->outcome;
    int64_t n = 0;

    share_lease_end(s, pick->job, s->now_s);
    job->worker = spot_xcalloc((size_t)pick->scale, sizeof(*job->worker));
    for (int64_t w = first_worker(s, pick, taken); n < pick->scale; w++)
        if (!taken[w]) {
            taken[w] = true;
            job->worker[n++] = w;
        }
    if (isnan(job->start_s))
        job->start_s = s->now_s;
    else
        o->switches++;
    job->type = pick->type;
    job->scale = pick->scale;
    job->rate = pick->rate;
    job->lease_s = s->now_s;
    job->ready_s = s->now_s + s->play->switch_s;
    job->lease_left = job->left;
    /* Checkpoints keep their own time, not that of the rounds. */
    job->checkpoint_s =
        s->now_s +
        s->play->checkpoint_s *
            ((double)(spot_rng_mix(s->play->seed + pick->job, o->rounds) >> 11) * 0x1p-53);
    o->lost_s += s->play->switch_s * (double)pick->scale;
    add_spans(s, pick);
}

static void stay(struct share_state *s, const struct share_pick *pick, bool *taken)
{
    const struct share_job *job = &s->job[pick->job];

    for (int64_t w = 0; w < job->scale; w++)
        taken[job->worker[w]] = true;
    s->outcome->kept++;
}

/* As released: larger scales first, and of one scale who stays first. Ours: who stays first. */
static void place_type(struct share_state *s, int type, bool *taken)
{
    const bool ours = spot_share_is_ours(s->policy) || !s->play->is_released;
    bool *is_placed = spot_xcalloc(s->n_pick, sizeof(*is_placed));
    int64_t most = 0;

    for (size_t k = 0; k < s->n_pick; k++)
        if (s->pick[k].type == type && s->pick[k].scale > most)
            most = s->pick[k].scale;
    for (size_t k = 0; ours && k < s->n_pick; k++)
        if (s->pick[k].type == type && can_stay(s, &s->pick[k], taken)) {
            stay(s, &s->pick[k], taken);
            is_placed[k] = true;
        }
    for (int64_t scale = most; scale > 0; scale--)
        for (int fresh = ours; fresh < 2; fresh++)
            for (size_t k = 0; k < s->n_pick; k++) {
                const struct share_pick *pick = &s->pick[k];

                if (pick->type != type || pick->scale != scale || is_placed[k])
                    continue;
                if (!fresh && !can_stay(s, pick, taken))
                    continue;
                (fresh ? begin : stay)(s, pick, taken);
                is_placed[k] = true;
            }
    free(is_placed);
}

void share_lease_all(struct share_state *s)
{
    bool *is_picked = spot_xcalloc(s->n_job, sizeof(*is_picked));
    int64_t most = 1;

    for (size_t k = 0; k < s->n_pick; k++)
        is_picked[s->pick[k].job] = true;
    for (size_t i = 0; i < s->n_arrived; i++) {
        s->outcome->could_keep += s->job[i].is_active && s->job[i].type >= 0;
        if (!is_picked[i] && s->job[i].type >= 0) {
            s->outcome->preemptions += s->job[i].is_active;
            share_lease_end(s, i, s->now_s);
        }
    }
    for (size_t j = 0; j < s->n_type; j++)
        most = s->count[j] > most ? s->count[j] : most;
    for (size_t j = 0; j < s->n_type; j++) {
        bool *taken = spot_xcalloc((size_t)most, sizeof(*taken));

        place_type(s, (int)j, taken);
        free(taken);
    }
    free(is_picked);
}

/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "sim/share_state.h"

double share_unsaved(const struct spot_share_state *s, const struct spot_share_run *job,
                     double time_s)
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

struct spot_share_class *share_class_of(const struct spot_share_state *s, size_t i)
{
    return &s->outcome->of[s->play->jobs->job[i].priority];
}

void share_lease_end(struct spot_share_state *s, size_t i, double time_s)
{
    struct spot_share_run *job = &s->job[i];
    const double lost = share_unsaved(s, job, time_s);

    if (job->type < 0)
        return;
    if (job->is_active && job->left > 0) {
        job->left += lost;
        s->outcome->lost_s += lost / job->rate * (double)job->scale;
        share_class_of(s, i)->lost_s += lost / job->rate * (double)job->scale;
    }
    free(job->worker);
    job->worker = NULL;
    job->type = -1;
}

int64_t share_lease_held(const struct spot_share_state *s, size_t i, size_t type)
{
    if (s->held)
        return s->held[i * s->n_type + type];
    return s->job[i].type == (int)type ? s->job[i].scale : 0;
}

/* --- assignment of workers ---- */

struct floor_plan {
    bool *is_taken; /* [most workers of a type] */
    size_t *order;  /* [n_pick] */
};

/* True if a job can keep its workers: same type and scale, workers present and free. */
static bool can_stay(const struct spot_share_state *s, const struct spot_share_pick *pick,
                     const bool *taken)
{
    const struct spot_share_run *job = &s->job[pick->job];

    if (job->type != pick->type || job->scale != pick->scale)
        return false;
    for (int64_t w = 0; w < job->scale; w++)
        if (taken[job->worker[w]] || job->worker[w] >= s->count[pick->type])
            return false;
    return true;
}

/* The lowest free workers; adjacent ones where possible, except as released. */
static int64_t first_worker(const struct spot_share_state *s, const struct spot_share_pick *pick,
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

/* The last lease has ended; the new one has no workers yet. */
static void begin_lease(struct spot_share_state *s, const struct spot_share_pick *pick)
{
    struct spot_share_run *job = &s->job[pick->job];
    struct spot_share_outcome *o = s->outcome;

    share_lease_end(s, pick->job, s->now_s);
    job->worker = spot_xcalloc((size_t)pick->scale, sizeof(*job->worker));
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
    /* checkpoints are timed independently of rounds */
    job->checkpoint_s =
        s->now_s +
        s->play->checkpoint_s *
            ((double)(spot_rng_mix(s->play->seed + pick->job, o->rounds) >> 11) * 0x1p-53);
    o->lost_s += s->play->switch_s * (double)pick->scale;
    share_class_of(s, pick->job)->lost_s += s->play->switch_s * (double)pick->scale;
    share_class_of(s, pick->job)->starts++;
}

/* Assign workers of one type, following those of other types. */
static void claim(struct spot_share_state *s, const struct spot_share_pick *pick, int64_t *worker,
                  bool *taken)
{
    int64_t n = 0;

    for (int64_t w = first_worker(s, pick, taken); n < pick->scale; w++)
        if (!taken[w]) {
            taken[w] = true;
            worker[n++] = w;
        }
}

static void begin(struct spot_share_state *s, const struct spot_share_pick *pick, bool *taken)
{
    begin_lease(s, pick);
    claim(s, pick, s->job[pick->job].worker, taken);
}

static void stay(struct spot_share_state *s, const struct spot_share_pick *pick, bool *taken)
{
    const struct spot_share_run *job = &s->job[pick->job];

    for (int64_t w = 0; w < job->scale; w++)
        taken[job->worker[w]] = true;
    s->outcome->kept++;
}

/* Order as released: larger scales first, and at equal scale continuing jobs. Order of spot:
 * continuing jobs first. */
static void place_type(struct spot_share_state *s, int type, bool *taken)
{
    const bool ours = s->player->policy || !s->play->is_released;
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
                const struct spot_share_pick *pick = &s->pick[k];

                if (pick->type != type || pick->scale != scale || is_placed[k])
                    continue;
                if (!fresh && !can_stay(s, pick, taken))
                    continue;
                (fresh ? begin : stay)(s, pick, taken);
                is_placed[k] = true;
            }
    free(is_placed);
}

/* --- jobs on several types --- */

static bool can_stay_mixed(const struct spot_share_state *s, size_t i, bool *const *taken)
{
    const struct spot_share_run *job = &s->job[i];
    const int64_t *mix = s->mix + i * s->n_type, *worker = job->worker;

    if (job->type < 0 || memcmp(mix, s->held + i * s->n_type, s->n_type * sizeof(*mix)) != 0)
        return false;
    for (size_t j = 0; j < s->n_type; j++)
        for (int64_t w = 0; w < mix[j]; w++, worker++)
            if (taken[j][*worker] || *worker >= s->count[j])
                return false;
    return true;
}

static void stay_mixed(struct spot_share_state *s, size_t i, bool **taken)
{
    const int64_t *worker = s->job[i].worker;

    for (size_t j = 0; j < s->n_type; j++)
        for (int64_t w = 0; w < s->mix[i * s->n_type + j]; w++)
            taken[j][*worker++] = true;
    s->outcome->kept++;
}

static void begin_mixed(struct spot_share_state *s, const struct spot_share_pick *pick,
                        bool **taken)
{
    int64_t *worker;

    begin_lease(s, pick);
    worker = s->job[pick->job].worker;
    for (size_t j = 0; j < s->n_type; j++) {
        const int64_t n = s->mix[pick->job * s->n_type + j];
        const struct spot_share_pick part = { pick->job, (int)j, n, pick->rate };

        s->held[pick->job * s->n_type + j] = n;
        if (n)
            claim(s, &part, worker, taken[j]);
        worker += n;
    }
}

/* Continuing jobs get their workers first. */
static void place_mixed(struct spot_share_state *s, bool **taken)
{
    bool *is_placed = spot_xcalloc(s->n_pick, sizeof(*is_placed));

    for (size_t k = 0; k < s->n_pick; k++)
        if (can_stay_mixed(s, s->pick[k].job, taken)) {
            stay_mixed(s, s->pick[k].job, taken);
            is_placed[k] = true;
        }
    for (size_t k = 0; k < s->n_pick; k++)
        if (!is_placed[k])
            begin_mixed(s, &s->pick[k], taken);
    free(is_placed);
}

void share_lease_all(struct spot_share_state *s)
{
    bool *is_picked = spot_xcalloc(s->n_job, sizeof(*is_picked));
    bool *taken[SPOT_SHARE_TYPES_MAX];

    for (size_t k = 0; k < s->n_pick; k++)
        is_picked[s->pick[k].job] = true;
    for (size_t i = 0; i < s->n_arrived; i++) {
        s->outcome->could_keep += s->job[i].is_active && s->job[i].type >= 0;
        if (!is_picked[i] && s->job[i].type >= 0) {
            s->outcome->preemptions += s->job[i].is_active;
            share_class_of(s, i)->evictions += s->job[i].is_active;
            share_lease_end(s, i, s->now_s);
        }
    }
    for (size_t j = 0; j < s->n_type; j++)
        taken[j] = spot_xcalloc((size_t)s->play->cluster->type[j].count + 1, sizeof(**taken));
    for (size_t j = 0; !s->mix && j < s->n_type; j++)
        place_type(s, (int)j, taken[j]);
    if (s->mix)
        place_mixed(s, taken);
    for (size_t j = 0; j < s->n_type; j++)
        free(taken[j]);
    free(is_picked);
}

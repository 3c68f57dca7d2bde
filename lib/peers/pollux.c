/* SPDX-License-Identifier: MIT */
/* Pollux (Qiao et al., OSDI 2021; simulator/pollux.py of its artifact): before each round it
 * maximises the harmonic mean of all jobs' speedups over their fair share of workers. A job that
 * would have to restart counts less, the younger it is and the more often it has restarted. A job
 * may take at most twice the largest number of workers that it had before.
 *
 * Differences from the release: it searches with a genetic algorithm of 100 generations; here the
 * choice is optimal, by dynamic programming over workers. It fits a model of each job's steps to
 * observations; here the speeds are known. The node of a worker is ignored: nodes are filled
 * completely. With several types, each is filled separately with the jobs not placed yet, in their
 * order. */
#include "peers/share_peers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

#define DELAY_S 30.0
#define LEAST   1e-3 /* added to each speedup */
#define NODE    4.0  /* workers whose share counts as 1 */

/* History of a job. */
struct life {
    int64_t most; /* the most workers that it has had */
    int64_t had;  /* workers in the last round */
    int restarts; /* starts other than the first */
    bool has_begun;
};

static void open_lives(struct spot_share_state *s)
{
    s->own = spot_xcalloc(s->n_job, sizeof(struct life));
}

static void close_lives(struct spot_share_state *s)
{
    free(s->own);
}

/* The value for a job of each number [0, most] of workers of a type. */
struct worth {
    size_t job;
    int64_t most;
    double *value; /* [most + 1] */
};

static double rate_at(const struct spot_share_state *s, size_t i, size_t type, int64_t scale)
{
    const struct spot_share_job *job = &s->play->jobs->job[i];

    if (scale == job->scale)
        return s->play->rate[i * s->n_type + type];
    return s->play->speeds ? spot_job_rates_find(s->play->speeds, job->kind, scale,
                                                 s->play->cluster->type[type].name)
                           : 0;
}

static double harmonic(double speedup, double count)
{
    return -1 / (speedup * NODE / count + LEAST);
}

static void worth_init(const struct spot_share_state *s, const struct spot_share_view *v, size_t k,
                       size_t type, struct worth *w)
{
    const size_t i = v->job[k];
    const struct spot_share_job *job = &s->play->jobs->job[i];
    const struct life *life = &((const struct life *)s->own)[i];
    const double count = (double)s->count[type];
    const int64_t fair = (int64_t)ceil(count / (double)v->problem.n_job);
    const bool is_known = life->has_begun;
    const double left = fmax(0, v->want[k].age_s - life->restarts * DELAY_S);
    const double anew = life->has_begun ? left / (v->want[k].age_s + DELAY_S) : 1;
    double base = 0;

    w->job = i;
    w->most = job->scale_max < 2 * life->most ? job->scale_max : 2 * life->most;
    w->most = w->most < job->scale_min ? job->scale_min : w->most;
    w->most = w->most > s->count[type] ? s->count[type] : w->most;
    w->value = spot_xcalloc((size_t)w->most + 1, sizeof(double));
    for (int64_t n = fair; n > 0 && !(base > 0); n--)
        base = rate_at(s, i, type, n);
    for (int64_t n = 0; n <= w->most; n++) {
        const double rate = n >= job->scale_min ? rate_at(s, i, type, n) : 0;
        const double speedup = !(rate > 0)            ? 0
                               : is_known && base > 0 ? rate / base
                                                      : (double)n / (double)fair;
        const bool stays = v->want[k].on == (int)type && v->want[k].on_scale == n;

        w->value[n] = harmonic(stays ? speedup : speedup * anew, count);
    }
}

/* Choose numbers of workers, at most `count` together, with the largest sum of values. */
static void choose(const struct worth *w, size_t n, int64_t count, int64_t *chosen)
{
    const size_t width = (size_t)count + 1;
    double *best = spot_xcalloc(width, sizeof(double)), *next = spot_xcalloc(width, sizeof(double));
    int64_t *taken = spot_xcalloc(n * width, sizeof(*taken)), left = count;

    for (size_t k = 0; k < n; k++) {
        for (int64_t c = 0; c <= count; c++) {
            next[c] = -INFINITY;
            for (int64_t x = 0; x <= w[k].most && x <= c; x++)
                if (best[c - x] + w[k].value[x] > next[c]) {
                    next[c] = best[c - x] + w[k].value[x];
                    taken[k * width + (size_t)c] = x;
                }
        }
        memcpy(best, next, width * sizeof(*best));
    }
    for (size_t k = n; k-- > 0;) {
        chosen[k] = taken[k * width + (size_t)left];
        left -= chosen[k];
    }
    free(best);
    free(next);
    free(taken);
}

/* is_placed[k]: by index in the view. */
static void fill_type(struct spot_share_state *s, const struct spot_share_view *v, size_t type,
                      bool *is_placed)
{
    const size_t n = v->problem.n_job;
    struct worth *w = spot_xcalloc(n, sizeof(*w));
    size_t *of = spot_xcalloc(n, sizeof(*of)), n_open = 0;
    int64_t *chosen = spot_xcalloc(n, sizeof(*chosen));

    for (size_t k = 0; k < n; k++)
        if (!is_placed[k]) {
            worth_init(s, v, k, type, &w[n_open]);
            of[n_open++] = k;
        }
    choose(w, n_open, s->count[type], chosen);
    for (size_t k = 0; k < n_open; k++) {
        const double rate = chosen[k] ? rate_at(s, w[k].job, type, chosen[k]) : 0;

        if (rate > 0) {
            s->pick[s->n_pick++] = (struct spot_share_pick){ w[k].job, (int)type, chosen[k], rate };
            is_placed[of[k]] = true;
        }
        free(w[k].value);
    }
    free(w);
    free(of);
    free(chosen);
}

static void note_begins(struct spot_share_state *s, const struct spot_share_view *v)
{
    struct life *life = s->own;

    for (size_t k = 0; k < v->problem.n_job; k++)
        life[v->job[k]].had = v->want[k].on < 0 ? 0 : v->want[k].on_scale;
    for (size_t p = 0; p < s->n_pick; p++) {
        struct life *l = &life[s->pick[p].job];

        if (l->had != s->pick[p].scale) {
            l->restarts += l->has_begun;
            l->has_begun = true;
        }
        l->most = s->pick[p].scale > l->most ? s->pick[p].scale : l->most;
    }
}

static int pollux_pick(struct spot_share_state *s, struct spot_err *err)
{
    struct spot_share_view v;
    bool *is_placed;

    (void)err;
    spot_share_view_of(s, &v);
    is_placed = spot_xcalloc(v.problem.n_job, sizeof(*is_placed));
    for (size_t j = 0; v.problem.n_job && j < s->n_type; j++)
        if (s->count[j] > 0)
            fill_type(s, &v, j, is_placed);
    note_begins(s, &v);
    free(is_placed);
    spot_share_view_release(&v);
    return 0;
}

const struct spot_share_player spot_pollux_players[] = {
    { .name = "pollux",
      .about = "largest harmonic mean of speedups, workers given and taken",
      .pick = pollux_pick,
      .open = open_lives,
      .close = close_lives },
    { 0 },
};

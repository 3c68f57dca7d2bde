/* SPDX-License-Identifier: MIT */
#include "plan/serve_solver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/serve/serve_losses.h"
#include "plan/serve/serve_scatter.h"
#include "plan/serve_queue_model.h"

enum { SIZES = 11 }; /* batches of 1, 2, 4, ... SPOT_SERVE_BATCH_MAX */

/* By what factor another plan must be better than the current one: with the same shape; with
 * another shape; if all plans are too small. */
#define KEEP_COUNT   1.05
#define KEEP_SHAPE   1.15
#define KEEP_TOO_FEW 1.05
#define MISSED       1e6 /* scores of plans that meet the SLO (prices per hour) lie below this */
#define GROWS        1e12

int64_t spot_serve_unit_instances(const struct spot_job_serve *s,
                                  const struct spot_serve_shape *shape)
{
    return (shape->P * shape->M + s->gpus - 1) / s->gpus;
}

int64_t spot_serve_unit_pipelines(const struct spot_job_serve *s,
                                  const struct spot_serve_shape *shape)
{
    return spot_serve_unit_instances(s, shape) * s->gpus / (shape->P * shape->M);
}

int spot_serve_soonest(const struct spot_job_serve *s, struct spot_serve_shape *shape, int64_t n,
                       struct spot_serve_time *time)
{
    struct spot_serve_shape g = *shape;
    struct spot_serve_time t;
    bool is_found = false;

    for (g.B = 1; g.B < n;)
        g.B *= 2;
    for (g.prefill_parts = 1; g.prefill_parts <= g.B; g.prefill_parts *= 2)
        for (g.decode_parts = 1; g.decode_parts <= g.B; g.decode_parts *= 2) {
            if (spot_serve_time(s, &g, &t) || (is_found && t.request_s >= time->request_s))
                continue;
            *time = t;
            *shape = g;
            is_found = true;
        }
    return is_found ? 0 : -1;
}

/* A shape and the times of its batches by size. */
struct shape_times {
    struct spot_serve_shape shape; /* its B is a full batch */
    struct spot_serve_time time[SIZES];
    /* NULL: all batches of the size take the same time */
    struct spot_serve_scatter *scatter[SIZES];
    /* instances and pipelines in a unit, the smallest step in size */
    int64_t instances, pipelines;
};

static void free_times(struct shape_times *t)
{
    for (int k = 0; k < SIZES; k++)
        spot_serve_scatter_free(t->scatter[k]);
}

static double usd_per_h(const struct spot_serve_ask *ask, int64_t instances)
{
    return (ask->usd_per_h >= 0 ? ask->usd_per_h : 1) * (double)instances;
}

static double percentile_of(const struct spot_serve_limit *limit)
{
    return limit->percentile > 0 ? limit->percentile : 0.99;
}

static bool is_same_shape(const struct spot_serve_ask *ask, const struct spot_serve_offer *o)
{
    return o->shape.P == ask->current.P && o->shape.M == ask->current.M;
}

/* The pause of a change of shape, as far as the percentile counts it. */
static double pause_s(const struct spot_serve_ask *ask, const struct spot_serve_offer *o)
{
    const double share = 1 - percentile_of(&ask->slo.e2e);

    if (!ask->current_D || is_same_shape(ask, o))
        return 0;
    return ask->switch_s * fmin(1, (ask->switch_s + o->request_s) / fmax(ask->stay_s, 1) / share);
}

/* The delay caused by a loss for which no spare is left: the answer starts again, on another grid.
 * 0 if such losses are rarer than the percentile counts. */
static double exposed_s(const struct spot_serve_ask *ask, const struct spot_serve_offer *o)
{
    const double share = 1 - percentile_of(&ask->slo.e2e);
    const double beyond = spot_serve_share_beyond(ask, o->instances, o->spares);

    return beyond > share ? ask->switch_s + o->request_s : 0;
}

static double excess(double is_s, const struct spot_serve_limit *limit)
{
    return limit->limit_s > 0 ? is_s / limit->limit_s : 0;
}

static bool has_slo(const struct spot_serve_ask *ask)
{
    return ask->slo.e2e.limit_s > 0 || ask->slo.ttft.limit_s > 0;
}

/* The factor on the score of a plan other than the current one: it must be better by this much. */
static double keep(const struct spot_serve_ask *ask, const struct spot_serve_offer *o, bool grows)
{
    if (!ask->current_D || o->is_current)
        return 1;
    return grows ? KEEP_TOO_FEW : is_same_shape(ask, o) ? KEEP_COUNT : KEEP_SHAPE;
}

static void score(const struct spot_serve_ask *ask, struct spot_serve_offer *o)
{
    const double miss = fmax(excess(o->e2e_s, &ask->slo.e2e), excess(o->ttft_s, &ask->slo.ttft));

    o->keeps_slo = !has_slo(ask) || miss <= 1;
    if (isinf(o->e2e_s))
        o->score = GROWS * MISSED / o->request_per_s;
    else if (has_slo(ask))
        o->score = o->keeps_slo ? o->usd_per_h : MISSED * miss;
    else
        o->score = o->usd_per_h * o->e2e_s;
    o->score *= keep(ask, o, isinf(o->e2e_s));
}

/* The least score of so many instances, of which nothing else is known. */
static double score_from(const struct spot_serve_ask *ask, const struct shape_times *t,
                         double usd_per_h)
{
    return usd_per_h * (has_slo(ask) ? 1 : t->time[0].request_s);
}

/* most: the score above which a single unit is too dear; then the rest is left out. */
static bool fill_times(const struct spot_serve_ask *ask, int64_t P, int64_t M, double most,
                       struct shape_times *t)
{
    const struct spot_job_serve *s = ask->serve;

    *t = (struct shape_times){ .shape = { .P = P, .M = M } };
    t->instances = spot_serve_unit_instances(s, &t->shape);
    t->pipelines = spot_serve_unit_pipelines(s, &t->shape);
    for (int k = 0; (int64_t)1 << k <= s->max_batch; k++) {
        if (spot_serve_soonest(s, &t->shape, (int64_t)1 << k, &t->time[k]))
            return false;
        t->scatter[k] = spot_serve_scatter_new(ask, &t->shape, &t->time[k]);
        if (score_from(ask, t, usd_per_h(ask, t->instances)) > most)
            return false;
    }
    return true;
}

/* log2 of the usual batch size: as full as the request rate makes it. */
static int usual(const struct spot_serve_ask *ask, const struct shape_times *t, int64_t D)
{
    int k = 0;

    while ((int64_t)2 << k <= ask->serve->max_batch &&
           ask->demand.rate_per_s * t->time[k].request_s / (double)D > (double)((int64_t)1 << k))
        k++;
    return k;
}

/* The distribution of times after the wait: those of a usual batch or, with the probability that
 * all replicas are busy, of a full one. */
struct after {
    double first_s[2 * SPOT_SERVE_SCATTER_POINTS], request_s[2 * SPOT_SERVE_SCATTER_POINTS];
    double share[2 * SPOT_SERVE_SCATTER_POINTS];
    size_t n; /* 0: every batch takes the same time */
};

static void add_after(struct after *a, const struct spot_serve_scatter *s, double share)
{
    for (size_t i = 0; i < s->n && share > 0; i++, a->n++) {
        a->first_s[a->n] = s->first_s[i];
        a->request_s[a->n] = s->request_s[i];
        a->share[a->n] = share * s->share[i];
    }
}

/* The waiting time at one percentile, cached for repeated calls. */
struct wait {
    struct spot_serve_waits of;
    double percentile, wait_s; /* percentile 0: not computed yet */
};

static double wait_s(struct wait *w, double percentile)
{
    if (w->percentile != percentile)
        w->wait_s = spot_serve_waits_percentile(&w->of, percentile);
    w->percentile = percentile;
    return w->wait_s;
}

/* The time after which a share `percentile` of the requests are answered, without the time to drain
 * the backlog. */
static double left_s(struct wait *wait, double mean_s, const double *scattered_s,
                     const struct after *after, double percentile)
{
    return after->n ? spot_serve_waits_sojourn(&wait->of, scattered_s, after->share, after->n,
                                               percentile)
                    : mean_s + wait_s(wait, percentile);
}

/* Properties of a plan that are known before its queue is solved. */
struct outline {
    int k, full; /* log2 of the usual and of the full batch size */
    double drain_s;
};

static struct outline outline_of(const struct spot_serve_ask *ask, const struct shape_times *t,
                                 int64_t units, struct spot_serve_offer *o)
{
    const int64_t D = units * t->pipelines, B = t->shape.B;
    struct outline line = { .k = usual(ask, t, D) };

    while ((int64_t)1 << line.full < B)
        line.full++;
    *o = (struct spot_serve_offer){ .D = D,
                                    .shape = t->shape,
                                    .instances = units * t->instances,
                                    .request_s = t->time[line.full].request_s };
    o->request_per_s = (double)(D * B) / o->request_s;
    o->load = ask->demand.rate_per_s / o->request_per_s;
    o->spares = spot_serve_spares(ask, o->instances, 1 - percentile_of(&ask->slo.e2e));
    o->usd_per_h = usd_per_h(ask, o->instances + o->spares);
    o->is_current = ask->current_D == D && is_same_shape(ask, o);
    line.drain_s = pause_s(ask, o) + exposed_s(ask, o) + ask->demand.backlog / o->request_per_s;
    return line;
}

static void judge(const struct spot_serve_ask *ask, const struct shape_times *t,
                  const struct outline *line, struct spot_serve_offer *o)
{
    const struct spot_serve_time *time = &t->time[line->k];
    const struct spot_serve_scatter *scatter = t->scatter[line->k];
    static const struct after none = { .n = 0 };
    struct after after = { .n = 0 };
    /* where all replicas are busy anyway, starting them in turn is better than at random */
    const bool is_paced = ask->demand.rate_per_s * time->request_s >= (double)o->D;
    struct spot_serve_station station = { .replicas = o->D,
                                          .batch = t->shape.B,
                                          .service_s = time->request_s,
                                          .rate_per_s = ask->demand.rate_per_s,
                                          .is_paced = is_paced,
                                          .dispersion = ask->demand.dispersion };
    struct wait wait = { .percentile = 0 };

    o->pace_s = is_paced ? time->request_s / (double)o->D : 0;
    if (scatter) {
        const double busy = line->full > line->k ? spot_serve_station_busy(&station) : 0;

        station.dispersion = spot_serve_station_dispersion(&station, scatter->scv);
        add_after(&after, scatter, 1 - busy);
        add_after(&after, t->scatter[line->full], busy);
    }
    wait.of = spot_serve_waits_of(&station);
    o->e2e_s = line->drain_s + left_s(&wait, time->request_s, after.request_s, &after,
                                      percentile_of(&ask->slo.e2e));
    o->ttft_s = line->drain_s + left_s(&wait, time->prefill_s + time->decode_s, after.first_s,
                                       ask->slo.ttft.limit_s > 0 ? &after : &none,
                                       percentile_of(&ask->slo.ttft));
    o->p99_s = percentile_of(&ask->slo.e2e) == 0.99
                   ? o->e2e_s
                   : line->drain_s + left_s(&wait, time->request_s, after.request_s, &after, 0.99);
    o->mean_s = time->request_s + spot_serve_waits_mean(&wait.of);
    score(ask, o);
}

/* A lower bound of the score: with no wait. */
static double least_score(const struct spot_serve_ask *ask, const struct shape_times *t,
                          const struct outline *line, const struct spot_serve_offer *o)
{
    const double usual_s = t->scatter[line->k] ? 0 : t->time[line->k].request_s;

    if (ask->demand.rate_per_s * t->time[line->k].request_s >= (double)(o->D * t->shape.B))
        return 0; /* the queue grows */
    return o->usd_per_h * (has_slo(ask) ? 1 : line->drain_s + usual_s) * keep(ask, o, false);
}

/* True if no larger number of units can be better: the price only grows, and no answer is faster
 * than that to a single request. */
static bool is_hopeless(const struct spot_serve_ask *ask, const struct shape_times *t,
                        const struct spot_serve_offer *best, const struct spot_serve_offer *last)
{
    if (isinf(last->e2e_s) || has_slo(ask))
        return best->keeps_slo && !isinf(best->e2e_s) && last->usd_per_h > best->score;
    return last->usd_per_h * t->time[0].request_s > best->score;
}

static bool best_of_shape(const struct spot_serve_ask *ask, int64_t P, int64_t M,
                          struct spot_serve_offer *best)
{
    struct shape_times t;
    struct spot_serve_offer o;
    bool is_found = false;

    if (!fill_times(ask, P, M, INFINITY, &t)) {
        free_times(&t);
        return false;
    }
    for (int64_t units = 1; units * t.instances <= ask->instances; units++) {
        const struct outline line = outline_of(ask, &t, units, &o);

        judge(ask, &t, &line, &o);
        if (!is_found || o.score < best->score)
            *best = o;
        is_found = true;
        if (is_hopeless(ask, &t, best, &o))
            break;
    }
    free_times(&t);
    return is_found;
}

static int by_score(const void *a, const void *b)
{
    const struct spot_serve_offer *x = a, *y = b;

    if (x->score < y->score || x->score > y->score)
        return x->score < y->score ? -1 : 1;
    if (x->instances != y->instances)
        return x->instances < y->instances ? -1 : 1;
    if (x->shape.M != y->shape.M)
        return x->shape.M < y->shape.M ? -1 : 1;
    return x->shape.P < y->shape.P ? -1 : x->shape.P > y->shape.P;
}

/* True if a pipeline may have P stages of M ranks. */
static bool is_allowed(const struct spot_job_serve *s, int64_t P, int64_t M)
{
    return P * M >= s->gpus_min && s->stage_layers % P == 0;
}

/* Iterates over the shapes allowed on a number of GPUs: the next P, then the next cell of the
 * profile. */
struct shapes {
    size_t cell;
    int64_t P, M;
};

static bool next_shape(const struct spot_job_serve *s, int64_t gpus, struct shapes *at)
{
    for (;;) {
        const struct spot_serve_cell *cell = &s->cell[at->cell];

        if (at->cell == s->n_cell)
            return false;
        at->P++;
        at->M = cell->M;
        if (cell->B != 1 || at->P > s->stage_layers || at->P * at->M > gpus)
            *at = (struct shapes){ .cell = at->cell + 1 };
        else if (is_allowed(s, at->P, at->M))
            return true;
    }
}

struct spot_serve_offer *spot_serve_offers(const struct spot_serve_ask *ask, size_t *n)
{
    struct spot_serve_offer *list = spot_xcalloc(1, sizeof(*list)), o;
    struct shapes at = { 0 };
    size_t cap = 1;

    *n = 0;
    while (next_shape(ask->serve, ask->instances * ask->serve->gpus, &at)) {
        if (!best_of_shape(ask, at.P, at.M, &o))
            continue;
        list = spot_xgrow(list, &cap, *n + 1, sizeof(*list));
        list[(*n)++] = o;
    }
    qsort(list, *n, sizeof(*list), by_score);
    return list;
}

/* Replace *best by the best offer of this shape if that is better, or if there is none yet. Queues
 * are only solved for offers that may be better. */
static void better_of_shape(const struct spot_serve_ask *ask, int64_t P, int64_t M,
                            struct spot_serve_offer *best)
{
    struct spot_serve_offer o;
    struct shape_times t;
    const double score = best->D ? best->score : INFINITY;
    const int64_t most = fill_times(ask, P, M, score, &t) ? ask->instances / t.instances : 0;

    for (int64_t units = 1; units <= most; units++) {
        const struct outline line = outline_of(ask, &t, units, &o);

        if (best->D && score_from(ask, &t, o.usd_per_h) > best->score)
            break;
        if (best->D && least_score(ask, &t, &line, &o) > best->score)
            continue;
        judge(ask, &t, &line, &o);
        if (!best->D || by_score(&o, best) < 0)
            *best = o;
    }
    free_times(&t);
}

int spot_serve_offer_best(const struct spot_serve_ask *ask, struct spot_serve_offer *best)
{
    struct spot_serve_offer found = { 0 };
    struct shapes at = { 0 };

    /* the current shape is often the best; with it known, few others need to be evaluated */
    if (ask->current_D && is_allowed(ask->serve, ask->current.P, ask->current.M))
        better_of_shape(ask, ask->current.P, ask->current.M, &found);
    while (next_shape(ask->serve, ask->instances * ask->serve->gpus, &at))
        if (!ask->current_D || at.P != ask->current.P || at.M != ask->current.M)
            better_of_shape(ask, at.P, at.M, &found);
    if (found.D)
        *best = found;
    return found.D ? 0 : -1;
}

int spot_serve_offer_complete(const struct spot_serve_ask *ask, struct spot_serve_offer *offer)
{
    const struct spot_serve_offer is = *offer;
    struct shape_times t;
    int rc = -1;

    if (fill_times(ask, is.shape.P, is.shape.M, INFINITY, &t) && is.D >= t.pipelines) {
        const struct outline line = outline_of(ask, &t, is.D / t.pipelines, offer);

        judge(ask, &t, &line, offer);
        offer->spares = is.spares;
        offer->pace_s = is.pace_s;
        offer->usd_per_h = usd_per_h(ask, offer->instances + offer->spares);
        rc = 0;
    }
    free_times(&t);
    return rc;
}

double spot_serve_most(const struct spot_job_serve *s, int64_t gpus)
{
    double most = 0;

    for (size_t i = 0; i < s->n_cell; i++)
        for (int64_t P = 1, M = s->cell[i].M; P <= s->stage_layers && P * M <= gpus; P++)
            for (int64_t B = 1; is_allowed(s, P, M) && s->cell[i].B == 1 && B <= s->max_batch;
                 B *= 2) {
                struct spot_serve_shape shape = { .P = P, .M = M };
                struct spot_serve_time t;

                if (!spot_serve_soonest(s, &shape, B, &t))
                    most = fmax(most, (double)(gpus / (P * M) * B) / t.request_s);
            }
    return most;
}

int64_t spot_serve_least_gpus(const struct spot_job_serve *s)
{
    int64_t least = 0;

    for (size_t i = 0; i < s->n_cell; i++)
        for (int64_t P = 1; P <= s->stage_layers; P++)
            if (is_allowed(s, P, s->cell[i].M) && (!least || P * s->cell[i].M < least))
                least = P * s->cell[i].M;
    return least;
}

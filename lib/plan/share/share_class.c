/* SPDX-License-Identifier: MIT */
/* Jobs of high priority and spot jobs on one cluster. docs/design/20-share.md. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/share/share_value.h"

/* A spot job begins if its workers are taken within the next hour, or before its end, with at most
 * this probability, which grows while it waits: after as many of its own run times any risk is
 * taken. A stop counts as many worker-seconds more than it loses, since each is one more eviction.
 * Chosen on generated workloads: tests/bench/gfs.sh 1 2. */
#define RISK     0.4
#define GUARD_S  3600.0
#define PATIENCE 4.0
#define STOP_S   1800.0

struct classes {
    const struct spot_share_problem *problem;
    const struct spot_share_way *way;
    size_t n_way;
    const struct spot_share_terms *terms;
    const struct spot_share_demand *demand;
    double now_s;
    struct spot_share_choice *choice;
    int64_t *there; /* [n_type] unassigned workers */
    int64_t *lent;  /* [n_type] workers of spot jobs */
};

static enum spot_share_priority priority_of(const struct classes *c, size_t job)
{
    return c->problem->want[job].priority;
}

static bool stays(const struct classes *c, const struct spot_share_way *w)
{
    const struct spot_share_want *want = &c->problem->want[w->job];

    return want->on == (int)w->type && want->on_scale == w->scale;
}

static void take(struct classes *c, size_t w)
{
    const struct spot_share_way *way = &c->way[w];

    c->choice->way[way->job] = (ptrdiff_t)w;
    c->there[way->type] -= way->scale;
    if (priority_of(c, way->job) == SPOT_SHARE_SPOT)
        c->lent[way->type] += way->scale;
}

/* Worker-seconds that a stop of a running job costs: repeated work, the next start, and that it is
 * a stop. */
static double stop_cost(const struct classes *c, const struct spot_share_way *w)
{
    return (c->problem->want[w->job].unsaved / w->rate + c->terms->switch_s) * (double)w->scale +
           STOP_S;
}

void spot_share_victims(const int64_t *workers, const double *cost, size_t n, int64_t need,
                        bool *leaves)
{
    const size_t width = need > 0 ? (size_t)need + 1 : 1;
    double *best = spot_xcalloc(width, sizeof(*best)); /* least cost of each number of workers */
    bool *takes = spot_xcalloc(n * width, sizeof(*takes));
    int64_t all = 0;

    for (size_t i = 0; i < n; i++)
        all += workers[i];
    need = need > all ? all : need;
    for (int64_t k = 1; k <= need; k++)
        best[k] = INFINITY;
    for (size_t i = 0; i < n; i++)
        for (int64_t k = need; k > 0; k--) {
            const double with = best[k > workers[i] ? k - workers[i] : 0] + cost[i];

            takes[i * width + (size_t)k] = with < best[k];
            best[k] = fmin(best[k], with);
        }
    for (size_t i = n; i-- > 0;) {
        leaves[i] = need > 0 && takes[i * width + (size_t)need];
        if (leaves[i])
            need = need > workers[i] ? need - workers[i] : 0;
    }
    free(best);
    free(takes);
}

/* --- those that run --- */

static void keep_high(struct classes *c)
{
    for (size_t w = 0; w < c->n_way; w++)
        if (priority_of(c, c->way[w].job) == SPOT_SHARE_HIGH && stays(c, &c->way[w]) &&
            c->there[c->way[w].type] >= c->way[w].scale)
            take(c, w);
}

struct running {
    size_t n, *way;
    int64_t *workers;
    double *cost;
    bool *leaves;
};

static void running_init(const struct classes *c, struct running *r)
{
    *r = (struct running){ .way = spot_xcalloc(c->n_way, sizeof(*r->way)),
                           .workers = spot_xcalloc(c->n_way, sizeof(*r->workers)),
                           .cost = spot_xcalloc(c->n_way, sizeof(*r->cost)),
                           .leaves = spot_xcalloc(c->n_way, sizeof(*r->leaves)) };
}

static void running_release(struct running *r)
{
    free(r->way);
    free(r->workers);
    free(r->cost);
    free(r->leaves);
}

/* The spot jobs that run on a type. Returns their workers. */
static int64_t running_on(const struct classes *c, size_t type, struct running *r)
{
    int64_t sum = 0;

    r->n = 0;
    for (size_t w = 0; w < c->n_way; w++)
        if (c->way[w].type == type && priority_of(c, c->way[w].job) == SPOT_SHARE_SPOT &&
            stays(c, &c->way[w])) {
            r->way[r->n] = w;
            r->workers[r->n] = c->way[w].scale;
            r->cost[r->n++] = stop_cost(c, &c->way[w]);
            sum += c->way[w].scale;
        }
    return sum;
}

static void keep_spot(struct classes *c)
{
    struct running r;

    running_init(c, &r);
    for (size_t j = 0; j < c->problem->n_type; j++) {
        const int64_t need = running_on(c, j, &r) - c->there[j];

        spot_share_victims(r.workers, r.cost, r.n, need > 0 ? need : 0, r.leaves);
        for (size_t k = 0; k < r.n; k++)
            if (!r.leaves[k])
                take(c, r.way[k]);
    }
    running_release(&r);
}

/* --- those that begin --- */

struct offer {
    size_t way;
    double per_worker;
};

static int by_offer(const void *a, const void *b)
{
    const struct offer *x = a, *y = b;

    if (x->per_worker < y->per_worker || x->per_worker > y->per_worker)
        return x->per_worker > y->per_worker ? -1 : 1;
    return (x->way > y->way) - (x->way < y->way);
}

/* The part of the value of a start that is left when spot jobs must stop for it: half, if stopping
 * them costs as much as the work of the job. */
static double after_stops(const struct classes *c, const struct spot_share_way *w,
                          const struct running *r, int64_t there, int64_t running)
{
    const double left = c->problem->want[w->job].left / w->rate * (double)w->scale;
    const int64_t need = w->scale - (there - running);
    double cost = 0;

    if (need <= 0)
        return 1;
    spot_share_victims(r->workers, r->cost, r->n, need, r->leaves);
    for (size_t k = 0; k < r->n; k++)
        cost += r->leaves[k] ? r->cost[k] : 0;
    return left / (left + cost);
}

static void weigh_stops(struct classes *c)
{
    struct running r;

    running_init(c, &r);
    for (size_t j = 0; j < c->problem->n_type; j++) {
        const int64_t running = running_on(c, j, &r);

        for (size_t w = 0; w < c->n_way; w++)
            if (c->way[w].type == j && c->choice->way[c->way[w].job] < 0 &&
                priority_of(c, c->way[w].job) == SPOT_SHARE_HIGH)
                c->choice->value[w] *= after_stops(c, &c->way[w], &r, c->there[j], running);
    }
    running_release(&r);
}

/* The probability that jobs of high priority want the workers of a start before its end, or within
 * GUARD_S. */
static double risk_of(const struct classes *c, const struct spot_share_way *w)
{
    const double left_s =
        fmin(GUARD_S, c->problem->want[w->job].left / w->rate + c->terms->switch_s);
    const int64_t rest = c->problem->type[w->type].count - c->lent[w->type] - w->scale;

    return c->demand
               ? spot_share_demand_exceeds(c->demand, w->type, rest, c->now_s, c->now_s + left_s)
               : 0;
}

static bool may_begin(const struct classes *c, const struct spot_share_way *w)
{
    const struct spot_share_want *want = &c->problem->want[w->job];
    const double waited = want->age_s / (PATIENCE * (want->left / w->rate + c->terms->switch_s));

    if (priority_of(c, w->job) == SPOT_SHARE_HIGH)
        return true;
    c->choice->risk[w->job] = risk_of(c, w);
    return c->choice->risk[w->job] <= RISK + (1 - RISK) * fmin(1, waited);
}

/* The price of a type is what the best of those that wait would give for a worker. */
static void begin(struct classes *c, enum spot_share_priority priority)
{
    struct offer *offer = spot_xcalloc(c->n_way, sizeof(*offer));
    size_t n = 0;

    for (size_t w = 0; w < c->n_way; w++)
        if (c->choice->way[c->way[w].job] < 0 && priority_of(c, c->way[w].job) == priority &&
            c->choice->value[w] > 0)
            offer[n++] = (struct offer){ w, c->choice->value[w] / (double)c->way[w].scale };
    if (n)
        qsort(offer, n, sizeof(*offer), by_offer);
    for (size_t k = 0; k < n; k++) {
        const struct spot_share_way *w = &c->way[offer[k].way];

        if (c->choice->way[w->job] < 0 && c->there[w->type] >= w->scale && may_begin(c, w))
            take(c, offer[k].way);
    }
    for (size_t k = 0; k < n; k++) {
        double *price = &c->choice->price[c->way[offer[k].way].type];

        if (c->choice->way[c->way[offer[k].way].job] < 0)
            *price = fmax(*price, offer[k].per_worker);
    }
    free(offer);
}

int spot_share_classes(const struct spot_share_problem *problem, const struct spot_share_way *way,
                       size_t n_way, const struct spot_share_terms *terms,
                       const struct spot_share_demand *demand, double now_s,
                       struct spot_share_choice *choice, struct spot_err *err)
{
    struct classes c = { problem, way, n_way, terms, demand, now_s, choice, NULL, NULL };

    if (share_values(problem, way, n_way, terms, choice, err))
        return -1;
    c.there = spot_xcalloc(problem->n_type, sizeof(*c.there));
    c.lent = spot_xcalloc(problem->n_type, sizeof(*c.lent));
    for (size_t j = 0; j < problem->n_type; j++)
        c.there[j] = problem->type[j].count;
    choice->risk = spot_xcalloc(problem->n_job, sizeof(*choice->risk));
    for (size_t i = 0; i < problem->n_job; i++)
        choice->way[i] = SPOT_SHARE_NO_WAY;
    keep_high(&c);
    weigh_stops(&c);
    begin(&c, SPOT_SHARE_HIGH);
    keep_spot(&c);
    begin(&c, SPOT_SHARE_SPOT);
    for (size_t i = 0; i < problem->n_job; i++)
        choice->worth += choice->way[i] < 0 ? 0 : choice->value[choice->way[i]];
    choice->bound = NAN;
    free(c.there);
    free(c.lent);
    return 0;
}

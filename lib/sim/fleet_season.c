/* SPDX-License-Identifier: MIT */
#include "sim/fleet_season.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

enum {
    SEEN_LEAST = 16,
    RECENT = 192
}; /* observations needed for a lag; errors in the distribution */
static const size_t level[] = { 4, 16, 64 }; /* lengths of windows whose means are used */
enum { LEVELS = sizeof(level) / sizeof(level[0]) };
static const double keep = 0.9892280131939755; /* discount of errors: half after 64 ticks */

enum { PAST = 2048 }; /* number of past ticks that are searched for similar ones */
/* discount of a distribution's cost: half after 192 ticks */
static const double keep_cost = 0.9963963;
/* a distribution is preferred if its cost is below this part of the other */
static const double better = 0.98;
static const double above_most = 1.1; /* limit of forecasts, as a factor on the observed maximum */

/* Ways to obtain the distribution of a future tick. */
enum { BY_ERRORS, BY_LIKE, WAYS };

/* The possible loads of a tick, all sizes together. */
struct law {
    size_t n;
    double sum[SPOT_FLEET_LOADS], weight[SPOT_FLEET_LOADS];
};

struct spot_fleet_season {
    size_t n_bucket, n_ahead, n;
    double *load; /* [n][n_bucket] loads */
    double *sum;  /* [n] over sizes */
    double *all;  /* [n + 1] sum of sum[] before a tick */
    double most;  /* maximum of sum[] */
    size_t cap_load, cap_sum, cap_all;
    /* by lag, discounted: sum of errors, number */
    double off[SPOT_FLEET_LAGS + 1], seen[SPOT_FLEET_LAGS + 1];
    /* [WAYS][n_ahead][n_ahead + 1] the last distributions, by the tick that they are for */
    struct law *law;
    /* [WAYS][n_ahead][SPOT_FLEET_LOADS][n_bucket] loads of the newest distributions */
    double *may_come;
    double *cost; /* [WAYS][n_ahead] cost of fleets chosen by each distribution, discounted */
};

void spot_fleet_season_parts(size_t n, size_t from[SPOT_FLEET_LOADS + 1])
{
    static const size_t of_64[SPOT_FLEET_LOADS + 1] = { 0, 24, 40, 48, 56, 60, 62, 63, 64 };

    for (size_t i = 0; i <= SPOT_FLEET_LOADS; i++)
        from[i] = of_64[i] * n / 64;
}

struct spot_fleet_season *spot_fleet_season_new(size_t n_bucket, size_t n_ahead)
{
    struct spot_fleet_season *s = spot_xcalloc(1, sizeof(*s));

    s->n_bucket = n_bucket;
    s->n_ahead = n_ahead;
    s->law = spot_xcalloc(WAYS * n_ahead * (n_ahead + 1), sizeof(*s->law));
    s->may_come = spot_xcalloc(WAYS * n_ahead * SPOT_FLEET_LOADS * n_bucket, sizeof(double));
    s->cost = spot_xcalloc(WAYS * n_ahead, sizeof(double));
    s->all = spot_xgrow(NULL, &s->cap_all, 1, sizeof(double));
    s->all[0] = 0;
    return s;
}

void spot_fleet_season_free(struct spot_fleet_season *s)
{
    free(s->load);
    free(s->sum);
    free(s->all);
    free(s->law);
    free(s->may_come);
    free(s->cost);
    free(s);
}

/* A predictor: the mean of `width` consecutive ticks, of which the last is `lag` ticks before the
 * predicted one. */
struct teller {
    size_t lag, width;
};

/* The prediction for tick t, which must have enough ticks before it. */
static double told(const struct spot_fleet_season *s, struct teller teller, size_t t)
{
    const size_t end = t - teller.lag + 1;

    return (s->all[end] - s->all[end - teller.width]) / (double)teller.width;
}

/* off[RECENT]: recent errors, observed minus predicted. Returns their number. */
static size_t recent(const struct spot_fleet_season *s, struct teller teller, double *off)
{
    size_t n = 0;

    for (size_t t = s->n; t-- > teller.lag + teller.width - 1 && n < RECENT; n++)
        off[n] = s->sum[t] - told(s, teller, t);
    return n;
}

/* The best recent predictor; the previous tick if none is good enough. */
static struct teller best_teller(const struct spot_fleet_season *s, size_t ahead)
{
    struct teller best = { ahead, 1 };
    double least = HUGE_VAL, off[RECENT];

    for (size_t lag = ahead; lag <= SPOT_FLEET_LAGS && lag + SEEN_LEAST <= s->n; lag++)
        if (s->off[lag] < least * s->seen[lag]) {
            least = s->off[lag] / s->seen[lag];
            best.lag = lag;
        }
    for (size_t i = 0; i < LEVELS; i++) {
        const struct teller teller = { ahead, level[i] };
        const size_t n = recent(s, teller, off);
        double mean = 0;

        for (size_t j = 0; j < n; j++)
            mean += fabs(off[j]) / (double)n;
        if (n >= SEEN_LEAST && mean < least) {
            least = mean;
            best = teller;
        }
    }
    return best;
}

/* The mean load of ticks [from, until) plus `more`, divided among the sizes as in these ticks. */
static void spread(const struct spot_fleet_season *s, size_t from, size_t until, double more,
                   double *load)
{
    const double sum = s->all[until] - s->all[from], n = (double)(until - from);
    const double comes = fmin(above_most * s->most, fmax(0, sum / n + more));

    for (size_t b = 0; b < s->n_bucket; b++) {
        double of = 0;

        for (size_t t = from; t < until; t++)
            of += s->load[t * s->n_bucket + b];
        load[b] = comes * (sum > 0 ? of / sum : 1 / (double)s->n_bucket);
    }
}

/* The distribution from the recent errors of the best predictor. */
static void by_errors(const struct spot_fleet_season *s, size_t ahead, struct law *law,
                      double *load)
{
    const struct teller best = best_teller(s, ahead);
    const size_t until = s->n + ahead - best.lag, from = until - best.width;
    double off[RECENT] = { 0 };
    const size_t n = recent(s, best, off);
    size_t part[SPOT_FLEET_LOADS + 1];

    spot_fleet_season_parts(n, part);
    qsort(off, n, sizeof(*off), spot_num_compare);
    law->n = 0;
    for (size_t i = 0; i < SPOT_FLEET_LOADS; i++) {
        const size_t first = part[i], last = part[i + 1];
        double mean = 0;

        if (first == last)
            continue;
        for (size_t j = first; j < last; j++)
            mean += off[j] / (double)(last - first);
        spread(s, from, until, mean, load + law->n * s->n_bucket);
        law->weight[law->n++] = (double)(last - first) / (double)n;
    }
    if (law->n)
        return;
    spread(s, from, until, 0, load);
    law->weight[law->n++] = 1;
}

/* --- what followed similar ticks --- */

struct like {
    size_t tick;     /* tick number `ahead` ticks after the similar one */
    double far, sum; /* distance from the last tick; sum of that later tick */
};

static int by_far(const void *a, const void *b)
{
    const struct like *x = a, *y = b;
    const int by = spot_num_compare(&x->far, &y->far);

    return by ? by : (x->tick < y->tick) - (x->tick > y->tick);
}

static int by_sum(const void *a, const void *b)
{
    const struct like *x = a, *y = b;

    return spot_num_compare(&x->sum, &y->sum);
}

/* The ticks whose load was nearest to the current one: an eighth of all, and those equally near. */
static size_t find_like(const struct spot_fleet_season *s, size_t ahead, struct like *like)
{
    const double now = s->sum[s->n - 1];
    const size_t first = s->n > PAST + ahead ? s->n - PAST : ahead;
    size_t n = 0, least;

    for (size_t t = first; t < s->n; t++)
        like[n++] = (struct like){ t, fabs(s->sum[t - ahead] - now), s->sum[t] };
    qsort(like, n, sizeof(*like), by_far);
    least = n / 8 > SEEN_LEAST ? n / 8 : SEEN_LEAST;
    if (least >= n)
        return n;
    while (least < n && !(like[least].far > like[least - 1].far))
        least++;
    return least;
}

static void by_like(const struct spot_fleet_season *s, size_t ahead, struct law *law, double *load)
{
    struct like *like = spot_xcalloc(PAST + 1, sizeof(*like));
    const size_t n = find_like(s, ahead, like), n_bucket = s->n_bucket;
    size_t part[SPOT_FLEET_LOADS + 1];

    spot_fleet_season_parts(n, part);
    qsort(like, n, sizeof(*like), by_sum);
    law->n = 0;
    for (size_t i = 0; i < SPOT_FLEET_LOADS; i++) {
        const double many = (double)(part[i + 1] - part[i]);
        double *to = load + law->n * n_bucket;

        if (!(many > 0))
            continue;
        memset(to, 0, n_bucket * sizeof(double));
        for (size_t j = part[i]; j < part[i + 1]; j++)
            for (size_t b = 0; b < n_bucket; b++)
                to[b] += s->load[like[j].tick * n_bucket + b] / many;
        law->weight[law->n++] = many / (double)n;
    }
    free(like);
}

/* --- choosing the distribution --- */

static struct law *law_of(const struct spot_fleet_season *s, int way, size_t ahead, size_t tick)
{
    const size_t wide = s->n_ahead + 1;

    return &s->law[((size_t)way * s->n_ahead + ahead - 1) * wide + tick % wide];
}

static double *loads_of(const struct spot_fleet_season *s, int way, size_t ahead)
{
    return s->may_come + ((size_t)way * s->n_ahead + ahead - 1) * SPOT_FLEET_LOADS * s->n_bucket;
}

/* The cost of fleets sized for each load of the distribution: what they can serve, plus the excess
 * load weighted so that this size would be the optimal choice. */
static double cost_of(const struct law *law, double came)
{
    double cost = 0, above = 1;

    for (size_t i = 0; i < law->n; i++) {
        cost += law->sum[i] + fmax(0, came - law->sum[i]) / (above - law->weight[i] / 2);
        above -= law->weight[i];
    }
    return cost / (double)law->n;
}

static void look(struct spot_fleet_season *s, int way, size_t ahead)
{
    struct law *law = law_of(s, way, ahead, s->n - 1 + ahead);
    const double *load = loads_of(s, way, ahead);

    (way == BY_LIKE && s->n > ahead ? by_like : by_errors)(s, ahead, law, loads_of(s, way, ahead));
    for (size_t i = 0; i < law->n; i++) {
        law->sum[i] = 0;
        for (size_t b = 0; b < s->n_bucket; b++)
            law->sum[i] += load[i * s->n_bucket + b];
    }
}

void spot_fleet_season_step(struct spot_fleet_season *s, const double *load)
{
    double sum = 0;

    s->load = spot_xgrow(s->load, &s->cap_load, (s->n + 1) * s->n_bucket, sizeof(double));
    s->sum = spot_xgrow(s->sum, &s->cap_sum, s->n + 1, sizeof(double));
    memcpy(s->load + s->n * s->n_bucket, load, s->n_bucket * sizeof(double));
    for (size_t b = 0; b < s->n_bucket; b++)
        sum += load[b];
    for (size_t lag = 1; lag <= SPOT_FLEET_LAGS && lag <= s->n; lag++) {
        s->off[lag] = keep * s->off[lag] + fabs(sum - s->sum[s->n - lag]);
        s->seen[lag] = keep * s->seen[lag] + 1;
    }
    for (int way = 0; way < WAYS; way++)
        for (size_t h = 1; h <= s->n_ahead && h <= s->n; h++) {
            double *cost = &s->cost[(size_t)way * s->n_ahead + h - 1];

            *cost = keep_cost * *cost + cost_of(law_of(s, way, h, s->n), sum);
        }
    s->most = fmax(s->most, sum);
    s->sum[s->n++] = sum;
    s->all = spot_xgrow(s->all, &s->cap_all, s->n + 1, sizeof(double));
    s->all[s->n] = s->all[s->n - 1] + sum;
    for (int way = 0; way < WAYS; way++)
        for (size_t h = 1; h <= s->n_ahead; h++)
            look(s, way, h);
}

size_t spot_fleet_season_next(const struct spot_fleet_season *s, size_t ahead, double *load,
                              double *weight)
{
    const double *cost = s->cost + ahead - 1;
    const int way = cost[s->n_ahead] < better * cost[0] ? BY_LIKE : BY_ERRORS;
    const struct law *law = law_of(s, way, ahead, s->n - 1 + ahead);

    memcpy(weight, law->weight, law->n * sizeof(double));
    memcpy(load, loads_of(s, way, ahead), law->n * s->n_bucket * sizeof(double));
    return law->n;
}

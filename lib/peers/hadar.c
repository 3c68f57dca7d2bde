/* SPDX-License-Identifier: MIT */
#include "peers/hadar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

struct auction {
    const struct spot_share_problem *problem;
    const double *ideal_s;
    double *least, *most;  /* [n_type] price of the first worker; price when all are in use */
    double *price;         /* [n_type] */
    int64_t *used, *offer; /* [n_type] */
    /* [n_job] payoff per worker of its best offer in this round of the auction */
    double *payoff_of;
};

static double rate_on(const struct auction *a, size_t job, size_t type)
{
    return a->problem->rate[job * a->problem->n_type + type];
}

double spot_share_hadar_rate(const struct spot_share_problem *p, size_t job, const int64_t *workers)
{
    double rate = INFINITY;

    for (size_t j = 0; j < p->n_type; j++)
        if (workers[j])
            rate = fmin(rate, p->rate[job * p->n_type + j]);
    return isinf(rate) ? 0 : rate;
}

/* The utility of a job: its speed from arrival to end, as a share of the best possible. */
static double utility(const struct auction *a, size_t job, double rate)
{
    const struct spot_share_want *want = &a->problem->want[job];

    return want->weight * a->ideal_s[job] / (want->age_s + want->left / rate);
}

/* Prices range from a quarter of the least gain per worker of any job to the largest. */
static void set_range(struct auction *a)
{
    const struct spot_share_problem *p = a->problem;

    for (size_t j = 0; j < p->n_type; j++) {
        double least = INFINITY, most = 0;

        for (size_t i = 0; i < p->n_job; i++) {
            const double scale = (double)p->want[i].scale;

            if (!(rate_on(a, i, j) > 0))
                continue;
            for (size_t k = 0; k < p->n_type; k++)
                if (rate_on(a, i, k) > 0) {
                    const double of_worker = utility(a, i, rate_on(a, i, k)) / scale;

                    least = fmin(least, of_worker);
                    most = fmax(most, of_worker);
                }
        }
        a->least[j] = isinf(least) ? 0 : least / 4;
        a->most[j] = most;
    }
}

static void set_prices(struct auction *a)
{
    for (size_t j = 0; j < a->problem->n_type; j++) {
        const double count = (double)a->problem->type[j].count;

        a->price[j] = count > 0 && a->least[j] > 0
                          ? a->least[j] * pow(a->most[j] / a->least[j], (double)a->used[j] / count)
                          : 0;
    }
}

/* Collect the cheapest workers of at least this speed; of equal prices the faster, then the first.
 * Returns their cost, or NAN if there are too few. */
static double gather(const struct auction *a, size_t job, double slowest, int64_t *workers)
{
    const struct spot_share_problem *p = a->problem;
    int64_t wanted = p->want[job].scale;
    double cost = 0;

    memset(workers, 0, p->n_type * sizeof(*workers));
    while (wanted) {
        size_t best = p->n_type;
        int64_t n;

        for (size_t j = 0; j < p->n_type; j++) {
            const double rate = rate_on(a, job, j);

            if (!(rate >= slowest) || workers[j] || a->used[j] >= p->type[j].count)
                continue;
            if (best == p->n_type || a->price[j] < a->price[best] ||
                (a->price[j] <= a->price[best] && rate > rate_on(a, job, best)))
                best = j;
        }
        if (best == p->n_type)
            return NAN;
        n = p->type[best].count - a->used[best];
        n = n < wanted ? n : wanted;
        workers[best] = n;
        wanted -= n;
        cost += a->price[best] * (double)n;
    }
    return cost;
}

/* Write the offer with the highest payoff to workers; returns its payoff per worker, or 0 if none
 * has any. */
static double best_offer(const struct auction *a, size_t job, int64_t *workers)
{
    const size_t n_type = a->problem->n_type;
    double most = 0;

    for (size_t j = 0; j < n_type; j++) {
        double cost, payoff;

        if (!(rate_on(a, job, j) > 0))
            continue;
        cost = gather(a, job, rate_on(a, job, j), a->offer);
        if (isnan(cost))
            continue;
        payoff = utility(a, job, spot_share_hadar_rate(a->problem, job, a->offer)) - cost;
        if (payoff > most) {
            most = payoff;
            memcpy(workers, a->offer, n_type * sizeof(*workers));
        }
    }
    return most / (double)a->problem->want[job].scale;
}

/* Serve the job with the highest payoff per worker next; the workers that it takes make the rest
 * more expensive. */
static bool serve_next(struct auction *a, bool *is_served, int64_t *workers)
{
    const size_t n_type = a->problem->n_type;
    size_t best = a->problem->n_job;
    double most = 0;

    set_prices(a);
    for (size_t i = 0; i < a->problem->n_job; i++) {
        /* prices only rise, so payoffs only fall: the last is a bound */
        if (is_served[i] || a->payoff_of[i] <= most)
            continue;
        a->payoff_of[i] = best_offer(a, i, workers + i * n_type);
        if (a->payoff_of[i] > most) {
            most = a->payoff_of[i];
            best = i;
        }
    }
    if (best == a->problem->n_job)
        return false;
    is_served[best] = true;
    best_offer(a, best, workers + best * n_type);
    for (size_t j = 0; j < n_type; j++)
        a->used[j] += workers[best * n_type + j];
    return true;
}

void spot_share_hadar(const struct spot_share_problem *p, const double *ideal_s, int64_t *workers,
                      double *price)
{
    struct auction a = { .problem = p,
                         .ideal_s = ideal_s,
                         .least = spot_xcalloc(p->n_type, sizeof(double)),
                         .most = spot_xcalloc(p->n_type, sizeof(double)),
                         .price = price,
                         .used = spot_xcalloc(p->n_type, sizeof(int64_t)),
                         .offer = spot_xcalloc(p->n_type, sizeof(int64_t)),
                         .payoff_of = spot_xcalloc(p->n_job, sizeof(double)) };
    bool *is_served = spot_xcalloc(p->n_job, sizeof(*is_served));

    for (size_t i = 0; i < p->n_job; i++)
        a.payoff_of[i] = INFINITY;
    set_range(&a);
    while (serve_next(&a, is_served, workers))
        ;
    for (size_t i = 0; i < p->n_job; i++)
        if (!is_served[i])
            memset(workers + i * p->n_type, 0, p->n_type * sizeof(*workers));
    free(a.least);
    free(a.most);
    free(a.used);
    free(a.offer);
    free(a.payoff_of);
    free(is_served);
}

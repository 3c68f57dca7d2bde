/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/fleet.h"
#include "plan/lp.h"

/* Columns: counts of offers, then shares (or slices) bucket by bucket. */
static size_t share_column(const struct spot_fleet_demand *d, size_t b, size_t g)
{
    return d->n_offer + b * d->n_offer + g;
}

static const char *bucket_name(const struct spot_fleet_demand *d, size_t b, char text[32])
{
    if (d->bucket && d->bucket[b])
        return d->bucket[b];
    snprintf(text, 32, "%zu", b);
    return text;
}

/* Rows of each bucket's split, which adds up to `whole`, or to the column `scale` (0: none). */
static void add_splits(struct spot_lp *lp, const struct spot_fleet_demand *d, double whole,
                       size_t scale)
{
    size_t *column = spot_xcalloc(d->n_offer + 1, sizeof(*column));
    double *value = spot_xcalloc(d->n_offer + 1, sizeof(*value));

    for (size_t b = 0; b < d->n_bucket; b++) {
        size_t n = 0;

        for (size_t g = 0; g < d->n_offer; g++) {
            if (!(d->per_s[b * d->n_offer + g] > 0)) {
                spot_lp_range(lp, share_column(d, b, g), 0, 0);
                continue;
            }
            column[n] = share_column(d, b, g);
            value[n++] = 1;
        }
        if (scale) {
            column[n] = scale;
            value[n++] = -1;
        }
        spot_lp_row(lp, column, value, n, SPOT_LP_EQUAL, scale ? 0 : whole);
    }
    free(column);
    free(value);
}

/* Rows of each offer's load: sum rate y / per_s - rho n <= 0. */
static void add_loads(struct spot_lp *lp, const struct spot_fleet_demand *d, double whole)
{
    size_t *column = spot_xcalloc(d->n_bucket + 1, sizeof(*column));
    double *value = spot_xcalloc(d->n_bucket + 1, sizeof(*value));

    for (size_t g = 0; g < d->n_offer; g++) {
        size_t n = 0;

        column[n] = g;
        value[n++] = -d->rho;
        for (size_t b = 0; b < d->n_bucket; b++) {
            const double per_s = d->per_s[b * d->n_offer + g];

            if (!(per_s > 0) || !(d->rate_per_s[b] > 0))
                continue;
            column[n] = share_column(d, b, g);
            value[n++] = d->rate_per_s[b] / per_s / whole;
        }
        spot_lp_row(lp, column, value, n, SPOT_LP_AT_MOST, 0);
    }
    free(column);
    free(value);
}

static struct spot_lp *build(const struct spot_fleet_demand *d, bool is_relaxed)
{
    struct spot_lp *lp = spot_lp_new(d->n_offer * (1 + d->n_bucket));
    const double whole = d->slices > 0 ? (double)d->slices : 1;

    for (size_t g = 0; g < d->n_offer; g++) {
        spot_lp_cost(lp, g, d->offer[g].usd_per_h);
        if (d->offer[g].quota >= 0)
            spot_lp_range(lp, g, 0, (double)d->offer[g].quota);
        if (!is_relaxed)
            spot_lp_whole(lp, g);
        for (size_t b = 0; b < d->n_bucket && d->slices > 0 && !is_relaxed; b++)
            spot_lp_whole(lp, share_column(d, b, g));
    }
    add_splits(lp, d, whole, 0);
    add_loads(lp, d, whole);
    return lp;
}

/* The largest part of the load that the quotas can take, and which of them bind. */
static int tell_infeasible(const struct spot_fleet_demand *d, struct spot_err *err)
{
    const size_t scale = d->n_offer * (1 + d->n_bucket);
    struct spot_lp *lp = spot_lp_new(scale + 1);
    double rate_per_s = 0, part = 0;
    char binding[256] = "", *at = binding;
    size_t first_load;

    spot_lp_cost(lp, scale, -1);
    for (size_t g = 0; g < d->n_offer; g++)
        spot_lp_range(lp, g, 0, d->offer[g].quota >= 0 ? (double)d->offer[g].quota : 1e12);
    add_splits(lp, d, 1, scale);
    first_load = d->n_bucket;
    add_loads(lp, d, 1);
    if (spot_lp_solve(lp, 0, 0) == SPOT_LP_OPTIMAL) {
        part = spot_lp_x(lp)[scale];
        for (size_t g = 0; g < d->n_offer; g++)
            if (spot_lp_dual(lp)[first_load + g] < -1e-12 && at < binding + sizeof(binding) - 64)
                at += snprintf(at, 64, "%s%.40s (%lld)", at > binding ? ", " : "", d->offer[g].name,
                               (long long)d->offer[g].quota);
    }
    spot_lp_free(lp);
    for (size_t b = 0; b < d->n_bucket; b++)
        rate_per_s += d->rate_per_s[b];
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "the quotas cannot take %.4g requests/s: binding are those of %s; %.4g "
                        "requests/s would do",
                        rate_per_s, binding, floor(part * rate_per_s * 1e4) / 1e4);
}

static int check(const struct spot_fleet_demand *d, struct spot_err *err)
{
    char text[32];

    for (size_t b = 0; b < d->n_bucket; b++) {
        bool is_served = !(d->rate_per_s[b] > 0);

        for (size_t g = 0; g < d->n_offer; g++)
            is_served |= d->per_s[b * d->n_offer + g] > 0;
        if (!is_served)
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "bucket %.64s: no instance type can serve it; without it the rest "
                                "could be planned",
                                bucket_name(d, b, text));
    }
    return 0;
}

static void take(const struct spot_fleet_demand *d, const struct spot_lp *lp,
                 struct spot_fleet_answer *a)
{
    const double *x = spot_lp_x(lp);

    a->count = spot_xcalloc(d->n_offer, sizeof(*a->count));
    a->share = spot_xcalloc(d->n_bucket * d->n_offer, sizeof(*a->share));
    a->usd_per_h = 0;
    for (size_t g = 0; g < d->n_offer; g++) {
        a->count[g] = llround(x[g]);
        a->usd_per_h += (double)a->count[g] * d->offer[g].usd_per_h;
    }
    for (size_t b = 0; b < d->n_bucket; b++) {
        double sum = 0;

        for (size_t g = 0; g < d->n_offer; g++)
            sum += x[share_column(d, b, g)];
        for (size_t g = 0; g < d->n_offer && sum > 0; g++)
            a->share[b * d->n_offer + g] = x[share_column(d, b, g)] / sum;
    }
}

int spot_fleet_serve(const struct spot_fleet_demand *demand, double limit_s,
                     struct spot_fleet_answer *answer, struct spot_err *err)
{
    enum spot_lp_status status;
    struct spot_lp *lp;

    memset(answer, 0, sizeof(*answer));
    if (check(demand, err))
        return -1;
    lp = build(demand, true);
    status = spot_lp_solve(lp, limit_s, 0);
    answer->bound = status == SPOT_LP_OPTIMAL ? fmax(0, spot_lp_proven(lp, spot_lp_dual(lp))) : 0;
    spot_lp_free(lp);
    if (status == SPOT_LP_INFEASIBLE)
        return tell_infeasible(demand, err);
    lp = build(demand, false);
    status = spot_lp_solve(lp, limit_s, 0);
    if (status <= SPOT_LP_FOUND)
        take(demand, lp, answer);
    spot_lp_free(lp);
    answer->is_proven = status == SPOT_LP_OPTIMAL;
    if (answer->is_proven)
        answer->bound = answer->usd_per_h;
    if (status == SPOT_LP_INFEASIBLE)
        return tell_infeasible(demand, err);
    return status <= SPOT_LP_FOUND
               ? 0
               : spot_err_set(err, SPOT_ESYS, "the solver found no fleet in the time it had");
}

void spot_fleet_release(struct spot_fleet_answer *answer)
{
    free(answer->count);
    free(answer->share);
    memset(answer, 0, sizeof(*answer));
}

double spot_fleet_quota_worth(const struct spot_fleet_demand *demand,
                              const struct spot_fleet_answer *answer, size_t g, double limit_s)
{
    struct spot_fleet_offer *offer = spot_xcalloc(demand->n_offer, sizeof(*offer));
    struct spot_fleet_demand more = *demand;
    struct spot_fleet_answer other;
    double worth = NAN;

    memcpy(offer, demand->offer, demand->n_offer * sizeof(*offer));
    more.offer = offer;
    if (offer[g].quota >= 0) {
        offer[g].quota++;
        if (!spot_fleet_serve(&more, limit_s, &other, NULL)) {
            worth = answer->usd_per_h - other.usd_per_h;
            spot_fleet_release(&other);
        }
    }
    free(offer);
    return worth;
}

/* SPDX-License-Identifier: MIT */
/* Source: tyler-griggs/melange-release, melange/solver.py: the least cost of whole instances, with
 * whole slices of each bucket. Corrected: nothing. Quotas, which it does not have, are respected.
 */
#include "peers/melange.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/lp.h"

/* Columns: counts of offers, then slices bucket by bucket. */
static size_t slice_column(const struct spot_fleet_demand *d, size_t b, size_t g)
{
    return d->n_offer * (1 + b) + g;
}

static void add_columns(struct spot_lp *lp, const struct spot_fleet_demand *d)
{
    for (size_t g = 0; g < d->n_offer; g++) {
        spot_lp_cost(lp, g, d->offer[g].usd_per_h);
        spot_lp_whole(lp, g);
        if (d->offer[g].quota >= 0)
            spot_lp_range(lp, g, 0, (double)d->offer[g].quota);
        for (size_t b = 0; b < d->n_bucket; b++) {
            spot_lp_whole(lp, slice_column(d, b, g));
            if (!(d->per_s[b * d->n_offer + g] > 0))
                spot_lp_range(lp, slice_column(d, b, g), 0, 0);
        }
    }
}

static void add_rows(struct spot_lp *lp, const struct spot_fleet_demand *d, double slices)
{
    const size_t most = (d->n_bucket > d->n_offer ? d->n_bucket : d->n_offer) + 1;
    size_t *column = spot_xcalloc(most, sizeof(*column));
    double *value = spot_xcalloc(most, sizeof(*value));

    for (size_t b = 0; b < d->n_bucket; b++) { /* all slices of the bucket, if it has requests */
        bool is_served = d->rate_per_s[b] > 0;

        for (size_t g = 0; g < d->n_offer; g++) {
            is_served |= d->per_s[b * d->n_offer + g] > 0;
            column[g] = slice_column(d, b, g);
            value[g] = 1;
        }
        spot_lp_row(lp, column, value, d->n_offer, SPOT_LP_EQUAL, is_served ? slices : 0);
    }
    for (size_t g = 0; g < d->n_offer; g++) { /* load of the slices on an offer's instances */
        size_t n = 0;

        for (size_t b = 0; b < d->n_bucket; b++) {
            const double per_s = d->per_s[b * d->n_offer + g];

            if (!(per_s > 0))
                continue;
            column[n] = slice_column(d, b, g);
            value[n++] = d->rate_per_s[b] / slices / per_s / d->rho;
        }
        column[n] = g;
        value[n++] = -1;
        spot_lp_row(lp, column, value, n, SPOT_LP_AT_MOST, 0);
    }
    free(column);
    free(value);
}

static void report(const struct spot_lp *lp, const struct spot_fleet_demand *d, double slices,
                   struct spot_fleet_answer *a)
{
    const double *x = spot_lp_x(lp);

    a->count = spot_xcalloc(d->n_offer, sizeof(*a->count));
    a->share = spot_xcalloc(d->n_bucket * d->n_offer, sizeof(*a->share));
    for (size_t g = 0; g < d->n_offer; g++) {
        a->count[g] = (int64_t)llround(x[g]);
        for (size_t b = 0; b < d->n_bucket; b++)
            a->share[b * d->n_offer + g] = x[slice_column(d, b, g)] / slices;
    }
    a->usd_per_h = spot_lp_objective(lp);
}

int spot_melange_serve(const struct spot_fleet_demand *d, int64_t slices, double limit_s,
                       struct spot_fleet_answer *a, struct spot_err *err)
{
    struct spot_fleet_answer split;
    struct spot_lp *lp;
    enum spot_lp_status status;

    *a = (struct spot_fleet_answer){ 0 };
    if (spot_fleet_serve(
            d, limit_s, &split,
            err)) /* a demand that cannot be served with splitting cannot be served with slices */
        return -1;
    lp = spot_lp_new(d->n_offer * (1 + d->n_bucket));
    add_columns(lp, d);
    add_rows(lp, d, (double)slices);
    status = spot_lp_solve(lp, limit_s, 0);
    if (status == SPOT_LP_OPTIMAL || status == SPOT_LP_FOUND) {
        report(lp, d, (double)slices, a);
        a->is_proven = status == SPOT_LP_OPTIMAL;
        a->bound = a->is_proven ? a->usd_per_h : split.bound;
    }
    spot_lp_free(lp);
    spot_fleet_release(&split);
    if (!a->count)
        return status == SPOT_LP_INFEASIBLE
                   ? spot_err_set(err, SPOT_EINFEASIBLE, "the quotas hold no whole slices")
                   : spot_err_set(err, SPOT_ESYS, "nothing was found within %g s", limit_s);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "plan/fleet/fleet_bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "plan/fleet/fleet_part.h"
#include "plan/fleet/fleet_program.h"

/* The largest useful number of machines of offer g: alone it serves all that it can serve. */
static double most_of(const struct spot_fleet_demand *d, size_t g)
{
    double load = 0;

    for (size_t b = 0; b < d->n_bucket; b++)
        if (d->per_s[b * d->n_offer + g] > 0)
            load += d->rate_per_s[b] / d->per_s[b * d->n_offer + g];
    load = ceil(load / d->rho);
    return d->offer[g].quota >= 0 ? fmin(load, (double)d->offer[g].quota) : load;
}

/* The most that a machine of offer g earns per hour, with its most profitable bucket. */
static double earned(const struct spot_fleet_demand *d, size_t g, const double *price)
{
    double most = 0;

    for (size_t b = 0; b < d->n_bucket; b++)
        if (d->rate_per_s[b] > 0)
            most = fmax(most, price[b] * d->per_s[b * d->n_offer + g] / d->rate_per_s[b]);
    return most * d->rho;
}

/* A lower bound on the cost of a fleet, given a price in usd/h for serving each bucket completely.
 * Where an offer earns more than it costs, its whole quota counts as bought, or as much as it alone
 * could use (the dual program; valid for any prices). reduced [n_offer]: by how much a machine of
 * an offer costs more than it earns. */
static double bound_at(const struct spot_fleet_demand *d, const double *price, double *reduced)
{
    double bound = 0;

    for (size_t b = 0; b < d->n_bucket; b++)
        bound += d->rate_per_s[b] > 0 ? price[b] : 0;
    for (size_t g = 0; g < d->n_offer; g++) {
        reduced[g] = d->offer[g].usd_per_h - earned(d, g, price);
        if (reduced[g] < 0)
            bound += reduced[g] * most_of(d, g);
    }
    return bound;
}

/* Prices at which each bucket is served by its cheapest offer, ignoring quotas. */
static void cheapest_prices(const struct spot_fleet_demand *d, double *price)
{
    for (size_t b = 0; b < d->n_bucket; b++) {
        double least = INFINITY;

        for (size_t g = 0; g < d->n_offer; g++)
            if (d->per_s[b * d->n_offer + g] > 0)
                least = fmin(least, d->offer[g].usd_per_h / d->per_s[b * d->n_offer + g]);
        price[b] = isinf(least) ? 0 : least * d->rate_per_s[b] / d->rho;
    }
}

/* Keep the prices if they give a better bound. */
static void learn(const struct spot_fleet_demand *d, const double *price, const double *reduced,
                  double bound, struct spot_fleet_relaxed *r)
{
    if (!(bound > r->bound))
        return;
    r->bound = bound;
    memcpy(r->price, price, d->n_bucket * sizeof(*price));
    memcpy(r->reduced, reduced, d->n_offer * sizeof(*reduced));
}

/* Add the offers that would pay at these prices. Returns whether there was one. */
static bool join(const struct spot_fleet_demand *d, const double *reduced, bool *is_in)
{
    bool any = false;

    for (size_t g = 0; g < d->n_offer; g++)
        if (!is_in[g] && reduced[g] < -1e-9 * (1 + d->offer[g].usd_per_h))
            any = is_in[g] = true;
    return any;
}

static void keep(const struct spot_fleet_part *part, const struct spot_fleet_program *p,
                 const struct spot_lp *lp, struct spot_fleet_relaxed *r)
{
    double *count = spot_xcalloc(p->demand->n_offer, sizeof(*count));

    for (size_t i = 0; i < p->demand->n_offer; i++)
        count[p->order[i].offer] = spot_lp_x(lp)[spot_fleet_program_offer_column(p, i)];
    r->count = spot_xcalloc(part->whole->n_offer, sizeof(*r->count));
    for (size_t g = 0; g < part->whole->n_offer; g++)
        if (part->of[g] != SIZE_MAX)
            r->count[g] = count[part->of[g]];
    free(count);
}

enum spot_lp_status spot_fleet_relax(const struct spot_fleet_demand *d, bool *is_in,
                                     double deadline_s, struct spot_fleet_relaxed *r)
{
    double *price = spot_xcalloc(d->n_bucket, sizeof(*price));
    double *reduced = spot_xcalloc(d->n_offer, sizeof(*reduced));
    enum spot_lp_status status;
    bool again = true;
    double bound;

    *r = (struct spot_fleet_relaxed){ .price = spot_xcalloc(d->n_bucket, sizeof(*price)),
                                      .reduced = spot_xcalloc(d->n_offer, sizeof(*reduced)),
                                      .bound = -INFINITY };
    cheapest_prices(d, price);
    bound = bound_at(d, price, reduced);
    learn(d, price, reduced, bound, r);
    do {
        struct spot_fleet_part part;
        struct spot_fleet_program p;
        struct spot_lp *lp;

        spot_fleet_part_pick(&part, d, is_in);
        spot_fleet_program_init(&p, &part.demand);
        lp = spot_fleet_program_build(&p);
        status = spot_lp_solve(lp, fmax(1e-3, deadline_s - spot_clock_cpu_s()), 0);
        if (status == SPOT_LP_OPTIMAL) {
            bound = bound_at(d, spot_lp_dual(lp), reduced);
            learn(d, spot_lp_dual(lp), reduced, bound, r);
            again = join(d, reduced, is_in);
            if (!again)
                keep(&part, &p, lp, r);
        }
        spot_lp_free(lp);
        spot_fleet_program_release(&p);
        spot_fleet_part_release(&part);
    } while (status == SPOT_LP_OPTIMAL && again);
    free(price);
    free(reduced);
    return status;
}

void spot_fleet_relaxed_release(struct spot_fleet_relaxed *r)
{
    free(r->count);
    free(r->price);
    free(r->reduced);
    memset(r, 0, sizeof(*r));
}

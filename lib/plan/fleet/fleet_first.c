/* SPDX-License-Identifier: MIT */
#include "plan/fleet/fleet_first.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "plan/fleet/fleet_part.h"
#include "plan/fleet/fleet_program.h"

/* --- greedy --- */

struct choice {
    double key;
    size_t at;
};

static int by_key(const void *left, const void *right)
{
    const struct choice *a = left, *b = right;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* List the offers of bucket b, the cheapest per request first. Returns their number. */
static size_t offers_of(const struct spot_fleet_demand *d, size_t b, struct choice *choice)
{
    size_t n = 0;

    for (size_t g = 0; g < d->n_offer; g++) {
        const double per_s = d->per_s[b * d->n_offer + g];

        if (per_s > 0)
            choice[n++] = (struct choice){ d->offer[g].usd_per_h / per_s, g };
    }
    qsort(choice, n, sizeof(*choice), by_key);
    return n;
}

/* The part of bucket b that offer g serves with `room` machines, at most `left`. */
static double part_of(const struct spot_fleet_demand *d, size_t b, size_t g, double room,
                      double left)
{
    const double machines = d->rate_per_s[b] / d->per_s[b * d->n_offer + g] / d->rho;
    const double part = machines > 0 ? room / machines : 1;

    return fmin(part, left);
}

/* room [n_offer]: machines that may still be used; `part` is the fraction of them in use. Returns
 * whether everything is served. */
static bool answer_bucket(const struct spot_fleet_demand *d, size_t b, struct choice *choice,
                          double *room, double *share)
{
    const size_t n = offers_of(d, b, choice);
    double left = 1;

    for (size_t i = 0; i < n && left > 1e-12; i++) {
        const size_t g = choice[i].at;
        const double part = part_of(d, b, g, room[g], left);

        share[b * d->n_offer + g] = part;
        room[g] -= part * d->rate_per_s[b] / d->per_s[b * d->n_offer + g] / d->rho;
        room[g] = fmax(0, room[g]);
        left -= part;
    }
    return left <= 1e-12 || !(d->rate_per_s[b] > 0);
}

bool spot_fleet_first_greedy(const struct spot_fleet_demand *d, struct spot_fleet_answer *a)
{
    struct choice *order = spot_xcalloc(d->n_bucket, sizeof(*order));
    struct choice *choice = spot_xcalloc(d->n_offer, sizeof(*choice));
    double *room = spot_xcalloc(d->n_offer, sizeof(*room));
    bool ok = true;

    *a = (struct spot_fleet_answer){ .count = spot_xcalloc(d->n_offer, sizeof(*a->count)),
                                     .share = spot_xcalloc(d->n_bucket * d->n_offer,
                                                           sizeof(*a->share)) };
    for (size_t g = 0; g < d->n_offer; g++)
        room[g] = d->offer[g].quota >= 0 ? (double)d->offer[g].quota : INFINITY;
    for (size_t b = 0; b < d->n_bucket; b++)
        order[b] = (struct choice){ (double)offers_of(d, b, choice), b };
    qsort(order, d->n_bucket, sizeof(*order), by_key);
    for (size_t i = 0; i < d->n_bucket && ok; i++)
        ok = answer_bucket(d, order[i].at, choice, room, a->share);
    for (size_t g = 0; g < d->n_offer; g++) {
        double load = 0;

        for (size_t b = 0; b < d->n_bucket; b++)
            if (a->share[b * d->n_offer + g] > 0)
                load +=
                    d->rate_per_s[b] * a->share[b * d->n_offer + g] / d->per_s[b * d->n_offer + g];
        a->count[g] = llround(ceil(load / d->rho - 1e-9));
        a->count[g] += load > 0 && !a->count[g];
    }
    a->usd_per_h = spot_fleet_cost(d, a->count);
    free(order);
    free(choice);
    free(room);
    if (!ok)
        spot_fleet_release(a);
    return ok;
}

/* --- given counts --- */

bool spot_fleet_first_split(const struct spot_fleet_demand *d, const int64_t *count,
                            double deadline_s, struct spot_fleet_answer *a)
{
    const double left_s = deadline_s - spot_clock_cpu_s();
    bool *is_in = spot_xcalloc(d->n_offer, sizeof(*is_in)), ok;
    size_t *fixed; /* [offers of the part] columns */
    struct spot_fleet_program p;
    struct spot_fleet_part part;
    struct spot_lp *lp;

    for (size_t g = 0; g < d->n_offer; g++)
        is_in[g] = count[g] > 0;
    spot_fleet_part_pick(&part, d, is_in);
    fixed = spot_xcalloc(part.demand.n_offer, sizeof(*fixed));
    spot_fleet_program_init(&p, &part.demand);
    lp = spot_fleet_program_build(&p);
    for (size_t i = 0; i < part.demand.n_offer; i++)
        fixed[p.order[i].offer] = spot_fleet_program_offer_column(&p, i);
    for (size_t g = 0; g < d->n_offer; g++)
        if (is_in[g])
            spot_lp_range(lp, fixed[part.of[g]], (double)count[g], (double)count[g]);
    ok = left_s > 0 && spot_lp_solve(lp, left_s, 0) == SPOT_LP_OPTIMAL;
    if (ok) {
        spot_fleet_program_take(&p, lp, a);
        spot_fleet_part_expand(&part, a);
    }
    spot_lp_free(lp);
    spot_fleet_program_release(&p);
    spot_fleet_part_release(&part);
    free(fixed);
    free(is_in);
    return ok;
}

bool spot_fleet_first_round(const struct spot_fleet_demand *d, const double *count,
                            double deadline_s, struct spot_fleet_answer *a)
{
    int64_t *whole = spot_xcalloc(d->n_offer, sizeof(*whole));
    struct spot_fleet_program p;
    bool ok;

    spot_fleet_program_init(&p, d);
    for (size_t k = 0; k < p.n_kind; k++) {
        double left = 0;

        for (size_t i = p.kind[k].first; i < p.kind[k].first + p.kind[k].n; i++)
            left += count[p.order[i].offer];
        left = ceil(left - 1e-7);
        for (size_t i = p.kind[k].first; i < p.kind[k].first + p.kind[k].n; i++) {
            const size_t g = p.order[i].offer;

            whole[g] =
                llround(d->offer[g].quota < 0 ? left : fmin(left, (double)d->offer[g].quota));
            left -= (double)whole[g];
        }
    }
    spot_fleet_program_release(&p);
    ok = spot_fleet_first_split(d, whole, deadline_s, a);
    free(whole);
    return ok;
}

void spot_fleet_first_drop(const struct spot_fleet_demand *d, double deadline_s,
                           struct spot_fleet_answer *a)
{
    struct choice *choice = spot_xcalloc(d->n_offer, sizeof(*choice));
    int64_t *count = spot_xcalloc(d->n_offer, sizeof(*count));
    size_t n = 0;

    memcpy(count, a->count, d->n_offer * sizeof(*count));
    for (size_t g = 0; g < d->n_offer; g++)
        if (count[g] > 0 && d->offer[g].usd_per_h > 0)
            choice[n++] = (struct choice){ -d->offer[g].usd_per_h, g };
    qsort(choice, n, sizeof(*choice), by_key);
    for (size_t i = 0; i < n; i++) {
        struct spot_fleet_answer less;

        while (count[choice[i].at] > 0) {
            count[choice[i].at]--;
            if (!spot_fleet_first_split(d, count, deadline_s, &less)) {
                count[choice[i].at]++;
                break;
            }
            spot_fleet_release(a);
            *a = less;
            memcpy(count, a->count, d->n_offer * sizeof(*count));
        }
    }
    free(choice);
    free(count);
}

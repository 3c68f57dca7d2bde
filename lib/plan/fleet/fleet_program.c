/* SPDX-License-Identifier: MIT */
#include "plan/fleet/fleet_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

int spot_fleet_entry_compare(const struct spot_fleet_entry *x, const struct spot_fleet_entry *y)
{
    const struct spot_fleet_demand *d = x->demand;
    int order = strcmp(d->offer[x->offer].name, d->offer[y->offer].name);

    for (size_t b = 0; b < d->n_bucket && !order; b++) {
        const double *per_s = d->per_s + b * d->n_offer;

        order = (per_s[x->offer] > per_s[y->offer]) - (per_s[x->offer] < per_s[y->offer]);
    }
    return order;
}

static int by_kind_and_price(const void *a, const void *b)
{
    const struct spot_fleet_entry *x = a, *y = b;
    const struct spot_fleet_offer *offer = x->demand->offer;
    const double p = offer[x->offer].usd_per_h, q = offer[y->offer].usd_per_h;
    const int order = spot_fleet_entry_compare(x, y);

    return order    ? order
           : p != q ? (p > q) - (p < q)
                    : (x->offer > y->offer) - (x->offer < y->offer);
}

static int by_lead(const void *a, const void *b)
{
    const struct spot_fleet_kind *x = a, *y = b;

    return (x->lead > y->lead) - (x->lead < y->lead);
}

void spot_fleet_program_init(struct spot_fleet_program *p, const struct spot_fleet_demand *d)
{
    *p = (struct spot_fleet_program){ .demand = d };
    p->order = spot_xcalloc(d->n_offer, sizeof(*p->order));
    p->kind = spot_xcalloc(d->n_offer, sizeof(*p->kind));

    for (size_t g = 0; g < d->n_offer; g++)
        p->order[g] = (struct spot_fleet_entry){ d, g };
    qsort(p->order, d->n_offer, sizeof(*p->order), by_kind_and_price);
    for (size_t i = 0; i < d->n_offer; i++) {
        struct spot_fleet_kind *k = &p->kind[p->n_kind ? p->n_kind - 1 : 0];

        if (!i || spot_fleet_entry_compare(&p->order[i - 1], &p->order[i])) {
            k = &p->kind[p->n_kind++];
            *k = (struct spot_fleet_kind){ i, 0, p->order[i].offer };
        }
        k->n++;
        k->lead = k->lead < p->order[i].offer ? k->lead : p->order[i].offer;
    }
    qsort(p->kind, p->n_kind, sizeof(*p->kind), by_lead);
}

void spot_fleet_program_release(struct spot_fleet_program *p)
{
    free(p->order);
    free(p->kind);
}

static const struct spot_fleet_offer *offer_at(const struct spot_fleet_program *p, size_t i)
{
    return &p->demand->offer[p->order[i].offer];
}

/* The quota of all offers of a kind together; -1: no limit. */
int64_t spot_fleet_program_quota(const struct spot_fleet_program *p, size_t k)
{
    const struct spot_fleet_kind *kind = &p->kind[k];
    int64_t sum = 0;

    for (size_t i = kind->first; i < kind->first + kind->n; i++) {
        if (offer_at(p, i)->quota < 0 || __builtin_add_overflow(sum, offer_at(p, i)->quota, &sum))
            return -1;
    }
    return sum;
}

static double per_s_of(const struct spot_fleet_program *p, size_t b, size_t k)
{
    return p->demand->per_s[b * p->demand->n_offer + p->kind[k].lead];
}

/* Order of columns: counts of kinds, shares bucket by bucket, counts of offers. */
static size_t share_column(const struct spot_fleet_program *p, size_t b, size_t k)
{
    return p->n_kind + b * p->n_kind + k;
}

size_t spot_fleet_program_offer_column(const struct spot_fleet_program *p, size_t i)
{
    return p->n_kind * (1 + p->demand->n_bucket) + i;
}

/* Rows of each bucket's split: its shares add up to 1, or to the column `scale` (0: none). A bucket
 * without requests that no kind serves gets an empty row. */
static void add_splits(struct spot_lp *lp, const struct spot_fleet_program *p, size_t scale)
{
    size_t *column = spot_xcalloc(p->n_kind + 1, sizeof(*column));
    double *value = spot_xcalloc(p->n_kind + 1, sizeof(*value));

    for (size_t b = 0; b < p->demand->n_bucket; b++) {
        size_t n = 0;

        for (size_t k = 0; k < p->n_kind; k++) {
            if (!(per_s_of(p, b, k) > 0)) {
                spot_lp_range(lp, share_column(p, b, k), 0, 0);
                continue;
            }
            column[n] = share_column(p, b, k);
            value[n++] = 1;
        }
        if (!n && !(p->demand->rate_per_s[b] > 0)) {
            spot_lp_row(lp, column, value, n, SPOT_LP_EQUAL, 0);
            continue;
        }
        if (scale) {
            column[n] = scale;
            value[n++] = -1;
        }
        spot_lp_row(lp, column, value, n, SPOT_LP_EQUAL, scale ? 0 : 1);
    }
    free(column);
    free(value);
}

/* Rows of each kind's load: sum of rate y / per_s - rho n <= 0. */
static void add_loads(struct spot_lp *lp, const struct spot_fleet_program *p)
{
    const struct spot_fleet_demand *d = p->demand;
    size_t *column = spot_xcalloc(d->n_bucket + 1, sizeof(*column));
    double *value = spot_xcalloc(d->n_bucket + 1, sizeof(*value));

    for (size_t k = 0; k < p->n_kind; k++) {
        size_t n = 0;

        column[n] = k;
        value[n++] = -d->rho;
        for (size_t b = 0; b < d->n_bucket; b++) {
            const double per_s = per_s_of(p, b, k);

            if (!(per_s > 0) || !(d->rate_per_s[b] > 0))
                continue;
            column[n] = share_column(p, b, k);
            value[n++] = d->rate_per_s[b] / per_s;
        }
        spot_lp_row(lp, column, value, n, SPOT_LP_AT_MOST, 0);
    }
    free(column);
    free(value);
}

/* Rows of each kind's count: n = sum of the counts of its offers, which are whole numbers where n
 * is. */
static void add_offers(struct spot_lp *lp, const struct spot_fleet_program *p)
{
    size_t *column = spot_xcalloc(p->demand->n_offer + 1, sizeof(*column));
    double *value = spot_xcalloc(p->demand->n_offer + 1, sizeof(*value));

    for (size_t k = 0; k < p->n_kind; k++) {
        const struct spot_fleet_kind *kind = &p->kind[k];

        column[0] = k;
        value[0] = -1;
        for (size_t i = 0; i < kind->n; i++) {
            const struct spot_fleet_offer *offer = offer_at(p, kind->first + i);

            column[1 + i] = spot_fleet_program_offer_column(p, kind->first + i);
            value[1 + i] = 1;
            spot_lp_cost(lp, column[1 + i], offer->usd_per_h);
            if (offer->quota >= 0)
                spot_lp_range(lp, column[1 + i], 0, (double)offer->quota);
        }
        spot_lp_row(lp, column, value, 1 + kind->n, SPOT_LP_EQUAL, 0);
    }
    free(column);
    free(value);
}

struct spot_lp *spot_fleet_program_build(const struct spot_fleet_program *p)
{
    const struct spot_fleet_demand *d = p->demand;
    struct spot_lp *lp = spot_lp_new(p->n_kind * (1 + d->n_bucket) + d->n_offer);

    add_splits(lp, p, 0);
    add_loads(lp, p);
    add_offers(lp, p);
    return lp;
}

struct spot_lp *spot_fleet_program_most(const struct spot_fleet_program *p)
{
    const size_t scale = p->n_kind * (1 + p->demand->n_bucket);
    struct spot_lp *lp = spot_lp_new(scale + 1);

    spot_lp_cost(lp, scale, -1);
    for (size_t k = 0; k < p->n_kind; k++) {
        const int64_t quota = spot_fleet_program_quota(p, k);

        spot_lp_range(lp, k, 0, quota >= 0 ? (double)quota : 1e12);
    }
    add_splits(lp, p, scale);
    add_loads(lp, p);
    return lp;
}

double spot_fleet_cost(const struct spot_fleet_demand *d, const int64_t *count)
{
    double usd = 0;

    for (size_t g = 0; g < d->n_offer; g++)
        usd += (double)count[g] * d->offer[g].usd_per_h;
    return usd;
}

/* Take the cheapest offers first; every machine of a kind gets an equal load. */
static void take_kind(const struct spot_fleet_program *p, size_t k, const double *x,
                      struct spot_fleet_answer *a)
{
    const struct spot_fleet_demand *d = p->demand;
    const struct spot_fleet_kind *kind = &p->kind[k];
    const int64_t all = llround(x[k]);
    int64_t left = all;

    for (size_t b = 0; b < d->n_bucket && !all; b++) /* a bucket without requests */
        if (!(d->rate_per_s[b] > 0))
            a->share[b * d->n_offer + kind->lead] = x[share_column(p, b, k)];
    for (size_t i = kind->first; i < kind->first + kind->n && left; i++) {
        const struct spot_fleet_offer *offer = offer_at(p, i);
        const size_t g = p->order[i].offer;
        const int64_t n = offer->quota >= 0 && offer->quota < left ? offer->quota : left;

        a->count[g] = n;
        left -= n;
        for (size_t b = 0; b < d->n_bucket; b++)
            a->share[b * d->n_offer + g] = x[share_column(p, b, k)] * (double)n / (double)all;
    }
}

/* Scale the shares of a bucket to 1. A load too small to be counted may have been given to a kind
 * of which nothing is bought: it moves to one that is bought. */
static void settle(const struct spot_fleet_demand *d, size_t b, struct spot_fleet_answer *a)
{
    double *share = a->share + b * d->n_offer, sum = 0;
    size_t any = SIZE_MAX;

    for (size_t g = d->n_offer; g-- > 0;) {
        sum += share[g];
        any = a->count[g] && d->per_s[b * d->n_offer + g] > 0 ? g : any;
    }
    for (size_t g = 0; g < d->n_offer && sum > 0; g++)
        share[g] /= sum;
    if (!(sum > 0) && any != SIZE_MAX)
        share[any] = 1;
}

void spot_fleet_program_take(const struct spot_fleet_program *p, const struct spot_lp *lp,
                             struct spot_fleet_answer *a)
{
    const struct spot_fleet_demand *d = p->demand;

    a->count = spot_xcalloc(d->n_offer, sizeof(*a->count));
    a->share = spot_xcalloc(d->n_bucket * d->n_offer, sizeof(*a->share));
    for (size_t k = 0; k < p->n_kind; k++)
        take_kind(p, k, spot_lp_x(lp), a);
    a->usd_per_h = spot_fleet_cost(d, a->count);
    for (size_t b = 0; b < d->n_bucket; b++)
        settle(d, b, a);
}

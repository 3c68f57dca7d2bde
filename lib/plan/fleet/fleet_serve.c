/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/fleet.h"
#include "plan/lp.h"

/* Offers that answer alike, whatever their zone and market, are one kind: one whole count, one
 * share of each bucket, and the cheapest of its offers are taken first. So a catalogue of many
 * zones is no larger a program than one of its types. */
struct kind {
    size_t first, n, lead; /* order[first .. first + n); the one that the catalogue has first */
};

struct entry {
    const struct spot_fleet_demand *demand;
    size_t offer;
};

struct program {
    const struct spot_fleet_demand *demand;
    struct entry *order; /* [n_offer], kind by kind, the cheapest first */
    struct kind *kind;   /* [n_kind] */
    size_t n_kind;
};

static int by_kind(const struct entry *x, const struct entry *y)
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
    const struct entry *x = a, *y = b;
    const struct spot_fleet_offer *offer = x->demand->offer;
    const double p = offer[x->offer].usd_per_h, q = offer[y->offer].usd_per_h;
    const int order = by_kind(x, y);

    return order    ? order
           : p != q ? (p > q) - (p < q)
                    : (x->offer > y->offer) - (x->offer < y->offer);
}

static int by_lead(const void *a, const void *b)
{
    const struct kind *x = a, *y = b;

    return (x->lead > y->lead) - (x->lead < y->lead);
}

static struct program sort(const struct spot_fleet_demand *d)
{
    struct program p = { .demand = d,
                         .order = spot_xcalloc(d->n_offer, sizeof(*p.order)),
                         .kind = spot_xcalloc(d->n_offer, sizeof(*p.kind)) };

    for (size_t g = 0; g < d->n_offer; g++)
        p.order[g] = (struct entry){ d, g };
    qsort(p.order, d->n_offer, sizeof(*p.order), by_kind_and_price);
    for (size_t i = 0; i < d->n_offer; i++) {
        struct kind *k = &p.kind[p.n_kind ? p.n_kind - 1 : 0];

        if (!i || by_kind(&p.order[i - 1], &p.order[i])) {
            k = &p.kind[p.n_kind++];
            *k = (struct kind){ i, 0, p.order[i].offer };
        }
        k->n++;
        k->lead = k->lead < p.order[i].offer ? k->lead : p.order[i].offer;
    }
    qsort(p.kind, p.n_kind, sizeof(*p.kind), by_lead);
    return p;
}

static void release(struct program *p)
{
    free(p->order);
    free(p->kind);
}

static const struct spot_fleet_offer *offer_at(const struct program *p, size_t i)
{
    return &p->demand->offer[p->order[i].offer];
}

/* Of all its offers together; -1: as many as wanted. */
static int64_t quota_of(const struct program *p, const struct kind *kind)
{
    int64_t sum = 0;

    for (size_t i = kind->first; i < kind->first + kind->n; i++) {
        if (offer_at(p, i)->quota < 0 || __builtin_add_overflow(sum, offer_at(p, i)->quota, &sum))
            return -1;
    }
    return sum;
}

static double per_s_of(const struct program *p, size_t b, size_t k)
{
    return p->demand->per_s[b * p->demand->n_offer + p->kind[k].lead];
}

/* Columns: counts of kinds, shares (or slices) bucket by bucket, counts of offers as in order. */
static size_t share_column(const struct program *p, size_t b, size_t k)
{
    return p->n_kind + b * p->n_kind + k;
}

static size_t offer_column(const struct program *p, size_t i)
{
    return p->n_kind * (1 + p->demand->n_bucket) + i;
}

static const char *bucket_name(const struct spot_fleet_demand *d, size_t b, char text[32])
{
    if (d->bucket && d->bucket[b])
        return d->bucket[b];
    snprintf(text, 32, "%zu", b);
    return text;
}

/* Rows of each bucket's split, which adds up to `whole`, or to the column `scale` (0: none). */
static void add_splits(struct spot_lp *lp, const struct program *p, double whole, size_t scale)
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
        if (scale) {
            column[n] = scale;
            value[n++] = -1;
        }
        spot_lp_row(lp, column, value, n, SPOT_LP_EQUAL, scale ? 0 : whole);
    }
    free(column);
    free(value);
}

/* Rows of each kind's load: sum rate y / per_s - rho n <= 0. */
static void add_loads(struct spot_lp *lp, const struct program *p, double whole)
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
            value[n++] = d->rate_per_s[b] / per_s / whole;
        }
        spot_lp_row(lp, column, value, n, SPOT_LP_AT_MOST, 0);
    }
    free(column);
    free(value);
}

/* Rows of each kind's count, n = sum of its offers', which are whole where n is. */
static void add_offers(struct spot_lp *lp, const struct program *p)
{
    size_t *column = spot_xcalloc(p->demand->n_offer + 1, sizeof(*column));
    double *value = spot_xcalloc(p->demand->n_offer + 1, sizeof(*value));

    for (size_t k = 0; k < p->n_kind; k++) {
        const struct kind *kind = &p->kind[k];

        column[0] = k;
        value[0] = -1;
        for (size_t i = 0; i < kind->n; i++) {
            const struct spot_fleet_offer *offer = offer_at(p, kind->first + i);

            column[1 + i] = offer_column(p, kind->first + i);
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

static struct spot_lp *build(const struct program *p, bool is_relaxed)
{
    const struct spot_fleet_demand *d = p->demand;
    struct spot_lp *lp = spot_lp_new(p->n_kind * (1 + d->n_bucket) + d->n_offer);
    const double whole = d->slices > 0 ? (double)d->slices : 1;

    for (size_t k = 0; k < p->n_kind && !is_relaxed; k++) {
        spot_lp_whole(lp, k);
        for (size_t b = 0; b < d->n_bucket && d->slices > 0; b++)
            spot_lp_whole(lp, share_column(p, b, k));
    }
    add_splits(lp, p, whole, 0);
    add_loads(lp, p, whole);
    add_offers(lp, p);
    return lp;
}

/* The largest part of the load that the quotas can take, and which of them bind. */
static int tell_infeasible(const struct program *p, struct spot_err *err)
{
    const struct spot_fleet_demand *d = p->demand;
    const size_t scale = p->n_kind * (1 + d->n_bucket);
    struct spot_lp *lp = spot_lp_new(scale + 1);
    double rate_per_s = 0, part = 0;
    char binding[256] = "", *at = binding;
    size_t first_load;

    spot_lp_cost(lp, scale, -1);
    for (size_t k = 0; k < p->n_kind; k++) {
        const int64_t quota = quota_of(p, &p->kind[k]);

        spot_lp_range(lp, k, 0, quota >= 0 ? (double)quota : 1e12);
    }
    add_splits(lp, p, 1, scale);
    first_load = d->n_bucket;
    add_loads(lp, p, 1);
    if (spot_lp_solve(lp, 0, 0) == SPOT_LP_OPTIMAL) {
        part = spot_lp_x(lp)[scale];
        for (size_t k = 0; k < p->n_kind; k++)
            if (spot_lp_dual(lp)[first_load + k] < -1e-12 && at < binding + sizeof(binding) - 64)
                at += snprintf(at, 64, "%s%.40s (%lld)", at > binding ? ", " : "",
                               d->offer[p->kind[k].lead].name, (long long)quota_of(p, &p->kind[k]));
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

/* The cheapest offers first; each machine of a kind gets as much. */
static void take_kind(const struct program *p, size_t k, const double *x,
                      struct spot_fleet_answer *a)
{
    const struct spot_fleet_demand *d = p->demand;
    const struct kind *kind = &p->kind[k];
    const int64_t all = llround(x[k]);
    int64_t left = all;

    for (size_t b = 0; b < d->n_bucket && !all; b++) /* of a bucket that nobody asks for */
        a->share[b * d->n_offer + kind->lead] = x[share_column(p, b, k)];
    for (size_t i = kind->first; i < kind->first + kind->n && left; i++) {
        const struct spot_fleet_offer *offer = offer_at(p, i);
        const size_t g = p->order[i].offer;
        const int64_t n = offer->quota >= 0 && offer->quota < left ? offer->quota : left;

        a->count[g] = n;
        a->usd_per_h += (double)n * offer->usd_per_h;
        left -= n;
        for (size_t b = 0; b < d->n_bucket; b++)
            a->share[b * d->n_offer + g] = x[share_column(p, b, k)] * (double)n / (double)all;
    }
}

static void take(const struct program *p, const struct spot_lp *lp, struct spot_fleet_answer *a)
{
    const struct spot_fleet_demand *d = p->demand;

    a->count = spot_xcalloc(d->n_offer, sizeof(*a->count));
    a->share = spot_xcalloc(d->n_bucket * d->n_offer, sizeof(*a->share));
    a->usd_per_h = 0;
    for (size_t k = 0; k < p->n_kind; k++)
        take_kind(p, k, spot_lp_x(lp), a);
    for (size_t b = 0; b < d->n_bucket; b++) {
        double sum = 0;

        for (size_t g = 0; g < d->n_offer; g++)
            sum += a->share[b * d->n_offer + g];
        for (size_t g = 0; g < d->n_offer && sum > 0; g++)
            a->share[b * d->n_offer + g] /= sum;
    }
}

static int solve(const struct program *p, double limit_s, struct spot_fleet_answer *answer,
                 struct spot_err *err)
{
    enum spot_lp_status status;
    struct spot_lp *lp = build(p, true);

    status = spot_lp_solve(lp, limit_s, 0);
    answer->bound = status == SPOT_LP_OPTIMAL ? fmax(0, spot_lp_proven(lp, spot_lp_dual(lp))) : 0;
    spot_lp_free(lp);
    if (status == SPOT_LP_INFEASIBLE)
        return tell_infeasible(p, err);
    lp = build(p, false);
    status = spot_lp_solve(lp, limit_s, 0);
    if (status <= SPOT_LP_FOUND)
        take(p, lp, answer);
    spot_lp_free(lp);
    answer->is_proven = status == SPOT_LP_OPTIMAL;
    if (answer->is_proven)
        answer->bound = answer->usd_per_h;
    if (status == SPOT_LP_INFEASIBLE)
        return tell_infeasible(p, err);
    return status <= SPOT_LP_FOUND
               ? 0
               : spot_err_set(err, SPOT_ESYS, "the solver found no fleet in the time it had");
}

int spot_fleet_serve(const struct spot_fleet_demand *demand, double limit_s,
                     struct spot_fleet_answer *answer, struct spot_err *err)
{
    struct program p;
    int rc;

    memset(answer, 0, sizeof(*answer));
    if (check(demand, err))
        return -1;
    p = sort(demand);
    rc = solve(&p, limit_s, answer, err);
    release(&p);
    return rc;
}

void spot_fleet_release(struct spot_fleet_answer *answer)
{
    free(answer->count);
    free(answer->share);
    memset(answer, 0, sizeof(*answer));
}

/* What a fleet costs at least that has more of offer g than its quota: it holds all that is cheaper
 * and of its kind, too. */
static double least_beyond(const struct spot_fleet_demand *d, size_t g)
{
    const struct entry this = { d, g };
    double usd_per_h = d->offer[g].usd_per_h;

    for (size_t i = 0; i < d->n_offer; i++) {
        const struct entry other = { d, i };

        if (by_kind(&this, &other) || (i != g && d->offer[i].usd_per_h >= d->offer[g].usd_per_h))
            continue;
        if (d->offer[i].quota < 0)
            return INFINITY;
        usd_per_h += (double)d->offer[i].quota * d->offer[i].usd_per_h;
    }
    return usd_per_h;
}

double spot_fleet_quota_worth(const struct spot_fleet_demand *demand,
                              const struct spot_fleet_answer *answer, size_t g, double limit_s)
{
    struct spot_fleet_offer *offer;
    struct spot_fleet_demand more = *demand;
    struct spot_fleet_answer other;
    double worth = NAN;

    if (demand->offer[g].quota < 0)
        return NAN;
    if (least_beyond(demand, g) >= answer->usd_per_h)
        return 0;
    offer = spot_xcalloc(demand->n_offer, sizeof(*offer));
    memcpy(offer, demand->offer, demand->n_offer * sizeof(*offer));
    more.offer = offer;
    offer[g].quota++;
    if (!spot_fleet_serve(&more, limit_s, &other, NULL)) {
        worth = answer->usd_per_h - other.usd_per_h;
        spot_fleet_release(&other);
    }
    free(offer);
    return worth;
}

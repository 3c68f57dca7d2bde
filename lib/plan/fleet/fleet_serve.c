/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "plan/fleet.h"
#include "plan/fleet/fleet_bound.h"
#include "plan/fleet/fleet_first.h"
#include "plan/fleet/fleet_part.h"
#include "plan/fleet/fleet_program.h"
#include "plan/fleet_risk.h"

static const double least_part = 1e-8; /* least fraction of the load that counts as a bucket */
static const double rough_gap = 2e-3;

static const char *bucket_name(const struct spot_fleet_demand *d, size_t b, char text[32])
{
    if (d->bucket && d->bucket[b])
        return d->bucket[b];
    snprintf(text, 32, "%zu", b);
    return text;
}

/* Processor time left, never 0, which would mean no limit. */
static double left_s(double deadline_s)
{
    return fmax(1e-3, deadline_s - spot_clock_cpu_s());
}

/* The largest fraction of the load that the quotas can serve, and which quotas bind. INFINITY: time
 * ran out. */
static double most_part(const struct spot_fleet_demand *d, double deadline_s, char binding[256])
{
    char *at = binding;
    double part = INFINITY;
    struct spot_fleet_program p;
    struct spot_lp *lp;

    *binding = '\0';
    spot_fleet_program_init(&p, d);
    lp = spot_fleet_program_most(&p);
    if (spot_lp_solve(lp, left_s(deadline_s), 0) == SPOT_LP_OPTIMAL) {
        part = spot_lp_x(lp)[p.n_kind * (1 + d->n_bucket)];
        for (size_t k = 0; k < p.n_kind; k++)
            if (spot_lp_dual(lp)[d->n_bucket + k] < -1e-12 && at < binding + 256 - 64)
                at += snprintf(at, 64, "%s%.40s (%lld)", at > binding ? ", " : "",
                               d->offer[p.kind[k].lead].name,
                               (long long)spot_fleet_program_quota(&p, k));
    }
    spot_lp_free(lp);
    spot_fleet_program_release(&p);
    return part;
}

static double total_rate(const struct spot_fleet_demand *d)
{
    double rate_per_s = 0;

    for (size_t b = 0; b < d->n_bucket; b++)
        rate_per_s += d->rate_per_s[b];
    return rate_per_s;
}

static int tell_infeasible(const struct spot_fleet_demand *d, double deadline_s,
                           struct spot_err *err)
{
    const double rate_per_s = total_rate(d);
    char binding[256];
    const double part = most_part(d, deadline_s, binding);

    if (!*binding)
        return spot_err_set(err, SPOT_EINFEASIBLE, "the quotas cannot take %.4g requests/s",
                            rate_per_s);
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "the quotas cannot take %.4g requests/s: binding are those of %s; %.4g "
                        "requests/s would do",
                        rate_per_s, binding, floor(part * rate_per_s * 1e4) / 1e4);
}

/* Machines that bucket b needs alone: the least over all offers. */
static double least_machines(const struct spot_fleet_demand *d, size_t b)
{
    double least = INFINITY;

    for (size_t g = 0; g < d->n_offer; g++)
        if (d->per_s[b * d->n_offer + g] > 0)
            least = fmin(least, d->rate_per_s[b] / d->per_s[b * d->n_offer + g] / d->rho);
    return least;
}

static int check(const struct spot_fleet_demand *d, struct spot_err *err)
{
    char text[32];

    for (size_t b = 0; b < d->n_bucket; b++) {
        const double machines = d->rate_per_s[b] > 0 ? least_machines(d, b) : 0;

        if (isinf(machines))
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "bucket %.64s: no instance type can serve it; without it the rest "
                                "could be planned",
                                bucket_name(d, b, text));
        if (machines > SPOT_FLEET_MACHINES_MAX)
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "bucket %.64s: it would take %.4g machines, the most are %.0e",
                                bucket_name(d, b, text), machines, SPOT_FLEET_MACHINES_MAX);
    }
    return 0;
}

/* --- the answer --- */

/* A search that has a fleet before it branches. */
struct search {
    const struct spot_fleet_demand *demand;
    struct spot_fleet_answer *best; /* counts NULL: none found yet */
    struct spot_fleet_relaxed relaxed;
    double deadline_s; /* deadline in processor time */
    double bound;      /* the bound proven by branching; 0: none */
};

/* Keep the cheaper of both; of equals the later. Releases `other`. */
static void keep_cheaper(struct search *s, struct spot_fleet_answer *other)
{
    const struct spot_fleet_answer best = *s->best;

    if (!best.count || other->usd_per_h < best.usd_per_h + 1e-9) {
        *s->best = *other;
        *other = best;
    }
    spot_fleet_release(other);
}

/* Find fleets without branching, and the bound. The relaxed program begins with the offers of the
 * first fleet, or with all offers, unless even fractional machines are too few. */
static enum spot_lp_status first(struct search *s)
{
    const struct spot_fleet_demand *d = s->demand;
    struct spot_fleet_answer other;
    enum spot_lp_status status;
    bool *is_in;
    char binding[256];

    if (spot_fleet_first_greedy(d, &other))
        keep_cheaper(s, &other);
    else if (most_part(d, s->deadline_s, binding) < 1 - 1e-9)
        return SPOT_LP_INFEASIBLE;
    is_in = spot_xcalloc(d->n_offer, sizeof(*is_in));
    for (size_t g = 0; g < d->n_offer; g++)
        is_in[g] = !s->best->count || s->best->count[g] > 0;
    status = spot_fleet_relax(d, is_in, s->deadline_s, &s->relaxed);
    free(is_in);
    if (status == SPOT_LP_OPTIMAL &&
        spot_fleet_first_round(d, s->relaxed.count, s->deadline_s, &other))
        keep_cheaper(s, &other);
    if (s->best->count)
        spot_fleet_first_drop(d, s->deadline_s - left_s(s->deadline_s) / 2, s->best);
    return status;
}

/* The remaining decision in the terms of fleet_risk.h: one scenario in which everything is
 * available and nothing stays unserved. A bucket with a negligible load still needs a machine. */
struct exact {
    struct spot_fleet_part part;
    struct spot_fleet_program program; /* kinds that are part of it */
    struct spot_fleet_risk risk;
    const char **name;
    double *rate_per_s, *per_s, *usd_per_h;
    size_t *type;
    int64_t *quota;
    int32_t *there;
};

static const double certain = 1;

static void open_exact(struct exact *e, const struct spot_fleet_demand *d, const bool *is_in,
                       double limit_s)
{
    const struct spot_fleet_demand *p;
    const double all = total_rate(d);

    spot_fleet_part_pick(&e->part, d, is_in);
    p = &e->part.demand;
    spot_fleet_program_init(&e->program, p);
    e->name = spot_xcalloc(p->n_offer, sizeof(*e->name));
    e->rate_per_s = spot_xcalloc(d->n_bucket, sizeof(double));
    e->per_s = spot_xcalloc(d->n_bucket * e->program.n_kind, sizeof(double));
    e->usd_per_h = spot_xcalloc(p->n_offer, sizeof(double));
    e->type = spot_xcalloc(p->n_offer, sizeof(*e->type));
    e->quota = spot_xcalloc(p->n_offer, sizeof(*e->quota));
    e->there = spot_xcalloc(p->n_offer, sizeof(*e->there));
    for (size_t b = 0; b < d->n_bucket; b++) {
        e->rate_per_s[b] = d->rate_per_s[b] > 0 ? fmax(d->rate_per_s[b], least_part * all) : 0;
        for (size_t k = 0; k < e->program.n_kind; k++)
            e->per_s[b * e->program.n_kind + k] =
                p->per_s[b * p->n_offer + e->program.kind[k].lead];
    }
    for (size_t k = 0; k < e->program.n_kind; k++)
        for (size_t i = 0; i < e->program.kind[k].n; i++)
            e->type[e->program.order[e->program.kind[k].first + i].offer] = k;
    for (size_t g = 0; g < p->n_offer; g++) {
        e->name[g] = p->offer[g].name;
        e->usd_per_h[g] = p->offer[g].usd_per_h;
        e->quota[g] = p->offer[g].quota;
        e->there[g] = SPOT_FLEET_ALWAYS;
    }
    e->risk = (struct spot_fleet_risk){ .n_bucket = d->n_bucket,
                                        .n_type = e->program.n_kind,
                                        .n_offer = p->n_offer,
                                        .n_scenario = 1,
                                        .name = e->name,
                                        .rate_per_s = e->rate_per_s,
                                        .per_s = e->per_s,
                                        .type = e->type,
                                        .usd_per_h = e->usd_per_h,
                                        .quota = e->quota,
                                        .there = e->there,
                                        .prob = &certain,
                                        .rho = d->rho,
                                        .limit_s = limit_s };
}

static void close_exact(struct exact *e)
{
    spot_fleet_program_release(&e->program);
    spot_fleet_part_release(&e->part);
    free(e->name);
    free(e->rate_per_s);
    free(e->per_s);
    free(e->usd_per_h);
    free(e->type);
    free(e->quota);
    free(e->there);
}

/* Branch over the offers of which a fleet cheaper than the best may contain at least one machine,
 * with no more of each than such a fleet may contain. */
static enum spot_lp_status branch(struct search *s, double gap)
{
    const struct spot_fleet_demand *d = s->demand;
    const double over = s->best->count ? s->best->usd_per_h - s->relaxed.bound : INFINITY;
    bool *is_in = spot_xcalloc(d->n_offer, sizeof(*is_in));
    struct spot_fleet_answer other = { 0 };
    struct spot_fleet_risk_answer a;
    enum spot_lp_status status = SPOT_LP_FAILED;
    struct spot_err err;
    struct exact e;

    for (size_t g = 0; g < d->n_offer; g++)
        is_in[g] = s->relaxed.reduced[g] <= over + 1e-6 * (1 + d->offer[g].usd_per_h) ||
                   (s->best->count && s->best->count[g]);
    open_exact(&e, d, is_in, isinf(s->deadline_s) ? 0 : left_s(s->deadline_s));
    e.risk.gap = gap;
    e.risk.usd_most = s->best->count ? s->best->usd_per_h : 0;
    free(is_in);
    if (!spot_fleet_risk_solve(&e.risk, &a, &err)) {
        if (spot_fleet_first_split(&e.part.demand, a.count, s->deadline_s, &other)) {
            spot_fleet_part_expand(&e.part, &other);
            keep_cheaper(s, &other);
        }
        status = a.usd_per_h <= a.bound + 1e-9 ? SPOT_LP_OPTIMAL : SPOT_LP_FOUND;
        s->bound = fmax(s->bound, a.bound);
        spot_fleet_risk_release(&a);
    } else if (err.code == SPOT_EINFEASIBLE) {
        /* no fleet is cheaper than the best so far */
        status = s->best->count ? SPOT_LP_OPTIMAL : SPOT_LP_INFEASIBLE;
    }
    close_exact(&e);
    return status;
}

/* The gap between the best fleet and the bound so far. */
static double gap_of(const struct search *s)
{
    const double bound = fmax(s->bound, s->relaxed.bound);

    return s->best->count && bound > 0 ? s->best->usd_per_h / bound - 1 : 0;
}

static int search(const struct spot_fleet_demand *d, double deadline_s,
                  struct spot_fleet_answer *answer, struct spot_err *err)
{
    struct search s = { .demand = d, .best = answer, .deadline_s = deadline_s };
    enum spot_lp_status status = first(&s);

    if (status == SPOT_LP_OPTIMAL)
        status = SPOT_LP_FAILED; /* of fractional counts */
    /* with a nearly optimal fleet known, few offers remain to be decided */
    if (status != SPOT_LP_INFEASIBLE && spot_clock_cpu_s() < deadline_s)
        status = branch(&s, rough_gap);
    if (status == SPOT_LP_FOUND && spot_clock_cpu_s() < deadline_s)
        status = branch(&s, gap_of(&s) / 2);
    if (status != SPOT_LP_INFEASIBLE && spot_clock_cpu_s() < deadline_s)
        status = branch(&s, 0);
    answer->is_proven = status == SPOT_LP_OPTIMAL;
    answer->bound = answer->is_proven
                        ? answer->usd_per_h
                        : fmax(0, fmin(answer->usd_per_h, fmax(s.bound, s.relaxed.bound)));
    spot_fleet_relaxed_release(&s.relaxed);
    if (answer->count)
        return 0;
    return status == SPOT_LP_INFEASIBLE
               ? tell_infeasible(d, deadline_s, err)
               : spot_err_set(err, SPOT_ESYS, "the solver found no fleet in the time it had");
}

int spot_fleet_serve(const struct spot_fleet_demand *demand, double limit_s,
                     struct spot_fleet_answer *answer, struct spot_err *err)
{
    const double deadline_s = limit_s > 0 ? spot_clock_cpu_s() + limit_s : INFINITY;

    memset(answer, 0, sizeof(*answer));
    if (check(demand, err))
        return -1;
    if (total_rate(demand) > 0)
        return search(demand, deadline_s, answer, err);
    answer->count = spot_xcalloc(demand->n_offer, sizeof(*answer->count));
    answer->share = spot_xcalloc(demand->n_bucket * demand->n_offer, sizeof(*answer->share));
    answer->is_proven = true;
    return 0;
}

void spot_fleet_release(struct spot_fleet_answer *answer)
{
    free(answer->count);
    free(answer->share);
    memset(answer, 0, sizeof(*answer));
}

/* The least cost of a fleet with more of offer g than its quota; such a fleet also uses all cheaper
 * offers of its kind. */
static double least_beyond(const struct spot_fleet_demand *d, size_t g)
{
    const struct spot_fleet_entry this = { d, g };
    double usd_per_h = d->offer[g].usd_per_h;

    for (size_t i = 0; i < d->n_offer; i++) {
        const struct spot_fleet_entry other = { d, i };

        if (spot_fleet_entry_compare(&this, &other) ||
            (i != g && d->offer[i].usd_per_h >= d->offer[g].usd_per_h))
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
    if (answer->is_proven && least_beyond(demand, g) >= answer->usd_per_h)
        return 0;
    offer = spot_xcalloc(demand->n_offer, sizeof(*offer));
    memcpy(offer, demand->offer, demand->n_offer * sizeof(*offer));
    more.offer = offer;
    offer[g].quota++;
    if (!spot_fleet_serve(&more, limit_s, &other, NULL)) {
        if (answer->is_proven && other.is_proven)
            worth = answer->usd_per_h - other.usd_per_h;
        spot_fleet_release(&other);
    }
    free(offer);
    return worth;
}

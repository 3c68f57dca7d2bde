/* SPDX-License-Identifier: MIT */
/* spot-plan fleet under joint scenarios: the forecast of zones and types is turned into joint
 * counts, and the fleet is chosen for the worst of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/fleet_scenario.h"
#include "plan_fleet.h"
#include "trace/names.h"
#include "trace/region.h"

enum { QUOTAS_TRIED = 8 };

/* The arrays that spot_fleet_risk points to. */
struct problem {
    struct spot_fleet_risk risk;
    size_t *type, *series; /* [n_offer] */
    const char **name;     /* [n_offer] */
    double *per_s, *usd_per_h, *prob;
    int64_t *quota;
    int64_t *held; /* [n_offer] counts of --current */
    double held_usd_per_h;
    int32_t *there;
    struct spot_fleet_cap *cap;
    uint8_t *is_in; /* [n_cap][n_offer] */
    struct spot_json_doc json;
    struct spot_forecast forecast;
    struct spot_fleet_copula copula;
};

/* The share of scenarios that are not among the worst, and the accepted gap. */
static const double tail = 0.95, gap = 0.005;
/* Rank correlation of two series in different regions, and in the same one. */
static const double correlation = 0.15, region_correlation = 0.45;
/* The fleet grows if it was too small for up_s, and shrinks if a smaller one was enough for down_s.
 */
static const double up_s = 300, down_s = 1200;

static void find_types(const struct plan_fleet *s, struct problem *p)
{
    const size_t n = s->demand.n_offer;
    struct spot_names types = { 0 };

    for (size_t k = 0; k < n; k++)
        p->type[k] = spot_names_intern(&types, 0, s->offer[k].type);
    p->risk.n_type = types.n;
    spot_names_release(&types);
    p->per_s = spot_xcalloc(s->demand.n_bucket * p->risk.n_type, sizeof(double));
    for (size_t b = 0; b < s->demand.n_bucket; b++)
        for (size_t k = 0; k < n; k++)
            p->per_s[b * p->risk.n_type + p->type[k]] = s->per_s[b * n + k];
}

static void add_caps(const struct plan_fleet *s, struct problem *p)
{
    const size_t n = s->demand.n_offer;
    struct spot_names zones = { 0 };

    if (!s->o->zone_max)
        return;
    p->cap = spot_xcalloc(n, sizeof(*p->cap));
    p->is_in = spot_xcalloc(n * n, 1);
    for (size_t k = 0; k < n; k++)
        if (*s->offer[k].zone)
            p->is_in[spot_names_intern(&zones, 0, s->offer[k].zone) * n + k] = 1;
    for (size_t c = 0; c < zones.n; c++)
        p->cap[c] = (struct spot_fleet_cap){ p->is_in + c * n, (int64_t)s->o->zone_max };
    p->risk.n_cap = zones.n;
    spot_names_release(&zones);
}

/* Counts of the current fleet by offer; instances that the catalogue no longer has are released. */
static void count_held(struct plan_fleet *s, struct problem *p)
{
    p->held = spot_xcalloc(s->demand.n_offer, sizeof(*p->held));
    for (size_t i = 0; i < s->n_held; i++) {
        const struct spot_plan_buy *buy = &s->held[i];
        size_t k = 0;

        while (k < s->demand.n_offer && (strcmp(s->offer[k].zone, buy->zone) != 0 ||
                                         strcmp(s->offer[k].type, buy->type) != 0 ||
                                         s->offer[k].is_spot == buy->is_on_demand))
            k++;
        if (k < s->demand.n_offer) {
            p->held[k] += buy->count;
            p->held_usd_per_h += (double)buy->count * s->priced[k].usd_per_h;
        } else {
            snprintf(plan_fleet_why(s), PLAN_FLEET_WHY,
                     "%lld x %.40s in %.40s are held but not in the catalogue: released",
                     (long long)buy->count, buy->type, buy->zone);
        }
    }
}

/* Explain what the forecast says beyond counts: about requests and regions. */
static void explain_forecast(struct plan_fleet *s, const struct problem *p)
{
    const struct spot_forecast *f = &p->forecast;
    double *alike = spot_xcalloc(f->n_series, sizeof(double));

    spot_fleet_alike(&p->copula, alike);
    for (size_t i = 0; i < f->n_series; i++) {
        const char *zone = f->series[i].zone;
        bool is_first = fabs(alike[i] - p->copula.region) > 0;

        if (f->series[i].start && s->n_why < 16)
            snprintf(plan_fleet_why(s), PLAN_FLEET_WHY,
                     "%.64s in %.64s: what is not held is granted with %.2f",
                     f->series[i].instance_type, zone, f->series[i].start->granted);
        for (size_t j = 0; j < i; j++)
            is_first = is_first && !spot_region_is_same(zone, f->series[j].zone);
        if (is_first && s->n_why < 16)
            snprintf(plan_fleet_why(s), PLAN_FLEET_WHY,
                     "%.*s: its zones are lost together as the forecast says, their ranks "
                     "correlate by %.2f",
                     (int)spot_region_length(zone), zone, alike[i]);
    }
    free(alike);
}

static int read_forecast(struct plan_fleet *s, struct problem *p, struct spot_err *err)
{
    if (spot_json_load_path(&p->json, s->o->forecast, err) ||
        spot_forecast_read_instances(&p->json, &p->forecast, err))
        return -1;
    spot_prov_add(&s->prov, p->json.source, p->json.hash);
    for (size_t k = 0; k < s->demand.n_offer; k++) {
        if (!s->offer[k].is_spot)
            continue;
        p->series[k] = spot_fleet_series(&p->forecast, s->offer[k].zone, s->offer[k].type);
        if (p->series[k] == SIZE_MAX) {
            snprintf(plan_fleet_why(s), PLAN_FLEET_WHY,
                     "%.64s in %.64s: not in the forecast, so none is counted on", s->offer[k].type,
                     s->offer[k].zone);
            for (size_t w = 0; w < s->n_scenario; w++)
                p->there[w * s->demand.n_offer + k] = 0;
        }
    }
    p->copula = (struct spot_fleet_copula){ .forecast = &p->forecast,
                                            .all = correlation,
                                            .region = region_correlation,
                                            .seed = s->o->common.seed,
                                            .held = p->held };
    p->copula.steps = (int64_t)fmax(1, ceil(s->o->cold_start_s / p->forecast.interval_s - 1e-9));
    if (p->copula.steps > p->forecast.horizon)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--cold-start is %lld steps of the forecast, which has %lld",
                            (long long)p->copula.steps, (long long)p->forecast.horizon);
    if (!s->o->requests)
        s->time_s = p->forecast.n_series ? p->forecast.series[0].time_s : 0;
    spot_fleet_draw(&p->copula, p->series, s->demand.n_offer, 0, s->n_scenario, p->there,
                    s->demand.n_offer);
    explain_forecast(s, p);
    return 0;
}

static int build(struct plan_fleet *s, struct problem *p, struct spot_err *err)
{
    const size_t n = s->demand.n_offer;

    s->n_scenario = s->o->forecast ? PLAN_FLEET_SCENARIOS : 1;
    if (n * s->n_scenario > 1 << 24 || n > 2000)
        return spot_err_set(
            err, SPOT_EUSAGE,
            "%zu offers times %zu scenarios are too many: 2000 offers and %d in all", n,
            s->n_scenario, 1 << 24);
    p->type = spot_xcalloc(n, sizeof(*p->type));
    p->series = spot_xcalloc(n, sizeof(*p->series));
    p->name = spot_xcalloc(n, sizeof(*p->name));
    p->usd_per_h = spot_xcalloc(n, sizeof(double));
    p->quota = spot_xcalloc(n, sizeof(*p->quota));
    p->prob = spot_xcalloc(s->n_scenario, sizeof(double));
    p->there = spot_xcalloc(n * s->n_scenario, sizeof(*p->there));
    for (size_t k = 0; k < n; k++) {
        p->name[k] = s->offer[k].type;
        p->usd_per_h[k] = s->priced[k].usd_per_h;
        p->quota[k] = s->priced[k].quota;
        p->series[k] = SIZE_MAX;
    }
    for (size_t i = 0; i < n * s->n_scenario; i++)
        p->there[i] = SPOT_FLEET_ALWAYS;
    for (size_t w = 0; w < s->n_scenario; w++)
        p->prob[w] = 1 / (double)s->n_scenario;
    find_types(s, p);
    add_caps(s, p);
    count_held(s, p);
    if (s->o->forecast && read_forecast(s, p, err))
        return -1;
    p->risk.name = p->name;
    p->risk.n_bucket = s->demand.n_bucket;
    p->risk.n_offer = n;
    p->risk.n_scenario = s->n_scenario;
    p->risk.rate_per_s = s->rate_per_s;
    p->risk.per_s = p->per_s;
    p->risk.type = p->type;
    p->risk.usd_per_h = p->usd_per_h;
    p->risk.quota = p->quota;
    p->risk.there = p->there;
    p->risk.prob = p->prob;
    p->risk.cap = p->cap;
    p->risk.rho = s->o->rho;
    p->risk.tail = s->o->forecast ? tail : 0;
    p->risk.unserved = s->o->forecast ? s->o->unserved : 0;
    p->risk.gap = gap;
    p->risk.limit_s = s->o->limit_s;
    return 0;
}

static void release(struct problem *p)
{
    free(p->type);
    free(p->series);
    free(p->name);
    free(p->per_s);
    free(p->usd_per_h);
    free(p->prob);
    free(p->quota);
    free(p->held);
    free(p->there);
    free(p->cap);
    free(p->is_in);
    spot_forecast_release(&p->forecast);
    spot_json_release(&p->json);
}

/* Convert the answer to the form of a plan without risk: shares by offer, in proportion to counts.
 */
static void take(struct plan_fleet *s, const struct problem *p)
{
    const size_t n = s->demand.n_offer, n_type = p->risk.n_type;
    int64_t *sum = spot_xcalloc(n_type, sizeof(*sum));
    struct spot_fleet_answer *a = &s->answer;

    a->count = spot_xcalloc(n, sizeof(*a->count));
    a->share = spot_xcalloc(s->demand.n_bucket * n, sizeof(double));
    a->usd_per_h = s->risk.usd_per_h;
    a->bound = s->risk.bound;
    a->is_proven = s->risk.usd_per_h <= s->risk.bound * (1 + gap) + 1e-9;
    for (size_t k = 0; k < n; k++)
        sum[p->type[k]] += a->count[k] = s->risk.count[k];
    for (size_t b = 0; b < s->demand.n_bucket; b++)
        for (size_t k = 0; k < n; k++)
            if (a->count[k])
                a->share[b * n + k] = s->risk.share[b * n_type + p->type[k]] * (double)a->count[k] /
                                      (double)sum[p->type[k]];
    free(sum);
}

static void price(struct plan_fleet *s, const struct spot_fleet_risk *risk, const char *what)
{
    struct spot_fleet_risk_answer other;

    if (spot_fleet_risk_solve(risk, &other, NULL))
        return;
    snprintf(plan_fleet_why(s), PLAN_FLEET_WHY, "%s is worth %.4f usd/h, at most %.4f", what,
             fmax(0, s->risk.usd_per_h - other.usd_per_h),
             fmax(0, s->risk.usd_per_h - other.bound));
    spot_fleet_risk_release(&other);
}

/* In a program with whole counts, shadow prices are differences between optima. */
static void price_limits(struct plan_fleet *s, struct problem *p)
{
    struct spot_fleet_risk other = p->risk;
    char what[PLAN_FLEET_WHY / 2];
    size_t n = 0;

    for (size_t k = 0; k < s->demand.n_offer && n < QUOTAS_TRIED; k++) {
        if (p->quota[k] < 0 || s->risk.count[k] < p->quota[k])
            continue;
        p->quota[k]++;
        snprintf(what, sizeof(what), "one more of the quota of %.40s%s%.40s, %s", s->offer[k].type,
                 *s->offer[k].zone ? " in " : "", s->offer[k].zone,
                 s->offer[k].is_spot ? "spot" : "on demand");
        price(s, &p->risk, what);
        p->quota[k]--;
        n++;
    }
    if (s->o->zone_max) {
        for (size_t c = 0; c < p->risk.n_cap; c++)
            p->cap[c].most++;
        price(s, &p->risk, "one more machine a zone");
        for (size_t c = 0; c < p->risk.n_cap; c++)
            p->cap[c].most--;
    }
    if (!s->o->forecast)
        return;
    other.unserved = fmin(0.5, 2 * p->risk.unserved);
    snprintf(what, sizeof(what), "--unserved %.4g instead of %.4g", other.unserved,
             p->risk.unserved);
    if (other.unserved > p->risk.unserved)
        price(s, &other, what);
    other = p->risk;
    other.rho = fmin(1, p->risk.rho + 0.05);
    snprintf(what, sizeof(what), "--rho %.4g instead of %.4g", other.rho, p->risk.rho);
    if (other.rho > p->risk.rho)
        price(s, &other, what);
}

static void explain(struct plan_fleet *s, struct problem *p)
{
    const struct spot_fleet_risk_answer *a = &s->risk;

    snprintf(plan_fleet_why(s), PLAN_FLEET_WHY,
             "%zu scenarios: %.4g of the load is unserved in the worst %.4g %%, %.4g in the mean; "
             "something is in %.4g %% of them",
             s->n_scenario, a->cvar, 100 * (1 - p->risk.tail), a->mean_unserved,
             100 * a->short_prob);
    if (s->has_fresh)
        snprintf(plan_fleet_why(s), PLAN_FLEET_WHY,
                 "%llu others: %.4g in the worst %.4g %%, %.4g in the mean, something in %.4g %%",
                 (unsigned long long)PLAN_FLEET_FRESH, s->fresh.cvar, 100 * (1 - p->risk.tail),
                 s->fresh.mean_unserved, 100 * s->fresh.short_prob);
    snprintf(plan_fleet_why(s), PLAN_FLEET_WHY, "gap %.3f %% after %zu nodes, %zu cuts, %zu splits",
             100 * (a->bound > 0 ? a->usd_per_h / a->bound - 1 : 0), a->n_node, a->n_cut,
             a->n_recourse);
    if (s->o->explain)
        price_limits(s, p);
}

static void try_fresh(struct plan_fleet *s, struct problem *p)
{
    struct spot_fleet_risk fresh = p->risk;
    const size_t n = PLAN_FLEET_FRESH, wide = s->demand.n_offer;
    int32_t *there = spot_xcalloc(n * wide, sizeof(*there));
    double *prob = spot_xcalloc(n, sizeof(double));

    for (size_t i = 0; i < n * wide; i++)
        there[i] = p->there[i % wide]; /* offers of a series are drawn below */
    for (size_t w = 0; w < n; w++)
        prob[w] = 1 / (double)n;
    spot_fleet_draw(&p->copula, p->series, wide, s->n_scenario, n, there, wide);
    fresh.there = there;
    fresh.prob = prob;
    fresh.n_scenario = n;
    spot_fleet_risk_try(&fresh, s->risk.count, &s->fresh);
    s->has_fresh = true;
    free(there);
    free(prob);
}

/* Keep the current fleet until its delay is over. */
static void scale(struct plan_fleet *s, struct problem *p)
{
    struct spot_fleet_promise promise;
    enum spot_fleet_side side;
    const int64_t *held = p->held;
    const double usd_per_h = p->held_usd_per_h;

    spot_fleet_risk_try(&p->risk, held, &promise);
    side = promise.cvar > p->risk.unserved + 1e-9             ? SPOT_FLEET_UP
           : s->risk.usd_per_h < usd_per_h * (1 - gap) - 1e-9 ? SPOT_FLEET_DOWN
                                                              : SPOT_FLEET_SAME;
    if (!spot_fleet_scale_step(&s->scale, side, usd_per_h <= 0, s->time_s, up_s, down_s)) {
        snprintf(plan_fleet_why(s), PLAN_FLEET_WHY,
                 "held as it is: the load asks for %s since %g s, %.4f usd/h instead of %.4f",
                 spot_fleet_side_name[side], s->scale.since_s, s->risk.usd_per_h, usd_per_h);
        memcpy(s->risk.count, held, s->demand.n_offer * sizeof(*held));
        s->risk.usd_per_h = usd_per_h;
        s->risk.bound = fmin(s->risk.bound, usd_per_h);
        s->risk.cvar = promise.cvar;
        s->risk.mean_unserved = promise.mean_unserved;
        s->risk.short_prob = promise.short_prob;
        s->risk.usd_per_h_paid = promise.usd_per_h_paid;
        spot_fleet_risk_split(&p->risk, held, s->risk.share);
        s->is_waiting = true;
    }
}

int plan_fleet_solve_risk(struct plan_fleet *s, struct spot_err *err)
{
    struct problem p = { 0 };
    int rc = build(s, &p, err);

    if (s->o->time_s >= 0)
        s->time_s = s->o->time_s;

    if (!rc)
        rc = spot_fleet_risk_solve(&p.risk, &s->risk, err);
    if (!rc) {
        if (s->is_scaled)
            scale(s, &p);
        take(s, &p);
        if (s->o->forecast)
            try_fresh(s, &p);
        explain(s, &p);
    }
    release(&p);
    return rc;
}

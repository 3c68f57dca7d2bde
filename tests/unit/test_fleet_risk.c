/* SPDX-License-Identifier: MIT */
/* Goal: the cheapest fleet under joint scenarios, within its gap, that keeps its limit. Oracles:
 * every fleet of small catalogues, whose unserved load has a closed form; scenarios that the plan
 * has not seen; the distribution the scenarios were drawn from. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "plan/fleet_risk.h"
#include "plan/fleet_scale.h"
#include "plan/fleet_scenario.h"
#include "suite.h"

enum { OFFERS = 6, TYPES = 2, BUCKETS = 2, SCENES = 40, MOST = 3 };

/* Two types, each of which serves a bucket of its own: what is unserved is a sum of two parts. */
struct small {
    struct spot_fleet_risk risk;
    double rate_per_s[BUCKETS], per_s[BUCKETS * TYPES], usd_per_h[OFFERS], prob[SCENES];
    size_t type[OFFERS];
    int64_t quota[OFFERS];
    int32_t there[SCENES * OFFERS];
    const char *name[OFFERS];
    struct spot_fleet_cap cap;
    uint8_t is_in[OFFERS];
};

static void draw_small(struct small *s, uint64_t seed)
{
    struct spot_rng rng;

    memset(s, 0, sizeof(*s));
    spot_rng_init(&rng, seed, 0);
    for (size_t b = 0; b < BUCKETS; b++) {
        s->rate_per_s[b] = 1 + 4 * spot_rng_unit(&rng);
        s->per_s[b * TYPES + b] = 1 + 2 * spot_rng_unit(&rng);
    }
    for (size_t k = 0; k < OFFERS; k++) {
        s->type[k] = k % TYPES;
        s->name[k] = k % TYPES ? "b" : "a";
        s->usd_per_h[k] = (k < 2 ? 3 : 1) * (1 + 0.3 * spot_rng_unit(&rng));
        s->quota[k] = MOST;
        s->is_in[k] = k >= 2;
    }
    for (size_t w = 0; w < SCENES; w++) {
        s->prob[w] = 1.0 / SCENES;
        for (size_t k = 0; k < OFFERS; k++)
            s->there[w * OFFERS + k] =
                k < 2 ? SPOT_FLEET_ALWAYS : (int32_t)spot_rng_below(&rng, MOST + 1);
    }
    s->cap = (struct spot_fleet_cap){ s->is_in, 5 };
    s->risk = (struct spot_fleet_risk){ .n_bucket = BUCKETS,
                                        .n_type = TYPES,
                                        .n_offer = OFFERS,
                                        .n_scenario = SCENES,
                                        .n_cap = seed % 2,
                                        .name = s->name,
                                        .rate_per_s = s->rate_per_s,
                                        .per_s = s->per_s,
                                        .type = s->type,
                                        .usd_per_h = s->usd_per_h,
                                        .quota = s->quota,
                                        .there = s->there,
                                        .prob = s->prob,
                                        .cap = &s->cap,
                                        .rho = 0.9,
                                        .tail = seed % 3 ? 0.8 : 0,
                                        .unserved = 0.02 * (double)(seed % 5) };
}

static int downwards(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

/* By hand: equal scenarios, each type's bucket short by what its machines do not answer. */
static double cvar_by_hand(const struct small *s, const int64_t *count)
{
    const double total = s->rate_per_s[0] + s->rate_per_s[1];
    double lost[SCENES], left = (1 - s->risk.tail) * SCENES, sum = 0;

    for (size_t w = 0; w < SCENES; w++) {
        double have[TYPES] = { 0 };

        for (size_t k = 0; k < OFFERS; k++)
            have[s->type[k]] += (double)count[k] < s->there[w * OFFERS + k]
                                    ? (double)count[k]
                                    : s->there[w * OFFERS + k];
        lost[w] = 0;
        for (size_t b = 0; b < BUCKETS; b++)
            lost[w] +=
                fmax(0, s->rate_per_s[b] - s->risk.rho * have[b] * s->per_s[b * TYPES + b]) / total;
    }
    qsort(lost, SCENES, sizeof(double), downwards);
    for (size_t w = 0; w < SCENES && left > 1e-12; w++, left -= 1)
        sum += lost[w] * fmin(1, left);
    return sum / ((1 - s->risk.tail) * SCENES);
}

/* HUGE_VAL: no fleet keeps the limit. */
static double cheapest_of_all(const struct small *s)
{
    double best = HUGE_VAL;

    for (int i = 0; i < 4096; i++) {
        int64_t count[OFFERS], sum = 0;
        double usd = 0;

        for (size_t k = 0; k < OFFERS; k++) {
            count[k] = i >> (2 * k) & 3;
            usd += (double)count[k] * s->usd_per_h[k];
            sum += s->is_in[k] ? count[k] : 0;
        }
        if (usd < best && (!s->risk.n_cap || sum <= s->cap.most) &&
            cvar_by_hand(s, count) <= s->risk.unserved + 1e-9)
            best = usd;
    }
    return best;
}

START_TEST(no_fleet_of_all_is_cheaper)
{
    int found = 0, none = 0;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct spot_fleet_risk_answer a;
        struct spot_err err;
        struct small s;
        double best;

        draw_small(&s, seed);
        best = cheapest_of_all(&s);
        if (spot_fleet_risk_solve(&s.risk, &a, &err)) {
            ck_assert_msg(isinf(best), "seed %d: %s, but %g would do", (int)seed, err.msg, best);
            ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
            none++;
            continue;
        }
        ck_assert_msg(fabs(a.usd_per_h - best) < 1e-6, "seed %d: %g, not %g", (int)seed,
                      a.usd_per_h, best);
        ck_assert_double_eq_tol(a.cvar, cvar_by_hand(&s, a.count), 1e-9);
        ck_assert_double_le(a.bound, best + 1e-9);
        ck_assert_double_ge(a.bound, best - 1e-6);
        spot_fleet_risk_release(&a);
        found++;
    }
    ck_assert_int_gt(found, 10);
    ck_assert_int_gt(none, 0);
}
END_TEST

START_TEST(a_gap_asked_for_is_kept_and_the_bound_is_true)
{
    for (uint64_t seed = 2; seed <= 40; seed += 2) { /* without cap */
        struct spot_fleet_risk_answer a;
        struct small s;
        double best;

        draw_small(&s, seed);
        s.risk.gap = 0.1;
        best = cheapest_of_all(&s);
        if (spot_fleet_risk_solve(&s.risk, &a, NULL))
            continue;
        ck_assert_double_le(a.usd_per_h, a.bound * 1.1 + 1e-6);
        ck_assert_double_le(a.bound, best + 1e-9);
        ck_assert_double_ge(a.usd_per_h, best - 1e-9);
        spot_fleet_risk_release(&a);
    }
}
END_TEST

START_TEST(what_cannot_be_had_says_what_would_do)
{
    struct spot_fleet_risk_answer a;
    struct spot_err err;
    struct small s;

    draw_small(&s, 2);
    for (size_t b = 0; b < BUCKETS; b++)
        s.rate_per_s[b] *= 50;
    ck_assert_int_eq(spot_fleet_risk_solve(&s.risk, &a, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    ck_assert_ptr_nonnull(strstr(err.msg, "binding are"));
    ck_assert_ptr_nonnull(strstr(err.msg, "would do"));
    /* the load it names is one that can be planned, a tenth more is not */
    {
        const char *at = strstr(err.msg, " requests/s would do");
        const double total = s.rate_per_s[0] + s.rate_per_s[1];
        double part;

        while (at[-1] != ' ')
            at--;
        part = strtod(at, NULL) / total;
        ck_assert(part > 0 && part < 1);
        for (size_t b = 0; b < BUCKETS; b++)
            s.rate_per_s[b] *= part * (1 - 1e-6);
        ck_assert_int_eq(spot_fleet_risk_solve(&s.risk, &a, &err), 0);
        spot_fleet_risk_release(&a);
        for (size_t b = 0; b < BUCKETS; b++)
            s.rate_per_s[b] *= 1.1;
        ck_assert_int_eq(spot_fleet_risk_solve(&s.risk, &a, &err), -1);
    }
}
END_TEST

/* --- scenarios from a forecast --- */

enum { ZONES = 4, CAP = 6 };

static struct spot_forecast forecast_of(double gone)
{
    static struct spot_forecast_series series[ZONES];
    static double prob[ZONES * 2 * (CAP + 1)];
    static const char *const zone[ZONES] = { "us-east-1a", "us-east-1b", "us-west-2a",
                                             "eu-west-1a" };

    memset(prob, 0, sizeof(prob));
    for (size_t z = 0; z < ZONES; z++) {
        for (int step = 0; step < 2; step++) {
            double *p = prob + (z * 2 + (size_t)step) * (CAP + 1);

            p[0] = gone * (1 + step) / 2;
            p[CAP / 2] = gone / 2;
            p[CAP] = 1 - p[0] - p[CAP / 2];
        }
        series[z] = (struct spot_forecast_series){ .zone = zone[z],
                                                   .instance_type = "g",
                                                   .now = CAP,
                                                   .cap = CAP,
                                                   .prob = prob + z * 2 * (CAP + 1) };
    }
    return (struct spot_forecast){
        .interval_s = 300, .horizon = 2, .series = series, .n_series = ZONES
    };
}

START_TEST(scenarios_keep_each_distribution_and_correlate)
{
    enum { N = 20000 };
    static int32_t there[N * ZONES];
    const struct spot_forecast f = forecast_of(0.2);
    const struct spot_fleet_copula copula = { &f, 2, 0.2, 0.7, 7, NULL };
    const size_t series[ZONES] = { 0, 1, 2, 3 };
    double none[ZONES] = { 0 }, near_both = 0, far_both = 0;

    spot_fleet_draw(&copula, series, ZONES, 0, N, there, ZONES);
    for (size_t w = 0; w < N; w++) {
        for (size_t z = 0; z < ZONES; z++)
            none[z] += there[w * ZONES + z] == 0;
        near_both += there[w * ZONES] == 0 && there[w * ZONES + 1] == 0;
        far_both += there[w * ZONES] == 0 && there[w * ZONES + 2] == 0;
    }
    for (size_t z = 0; z < ZONES; z++)
        ck_assert_double_eq_tol(none[z] / N, 0.2, 0.01); /* the second step's is the least count */
    /* a normal pair below its fifth each, by quadrature: .1129 at .7, .0568 at .2 */
    ck_assert_double_eq_tol(near_both / N, 0.1129, 0.008);
    ck_assert_double_eq_tol(far_both / N, 0.0568, 0.006);
    ck_assert_uint_eq(spot_fleet_series(&f, "us-west-2a", "g"), 2);
    ck_assert_uint_eq(spot_fleet_series(&f, "us-west-2a", "h"), SIZE_MAX);
}
END_TEST

/* Two zones that a shock takes together: drawn as the forecast describes it, of one interval. */
START_TEST(zones_of_a_region_are_lost_together_as_often_as_the_forecast_says)
{
    enum { N = 40000 };
    static int32_t there[N * ZONES];

    for (int i = 0; i < 3; i++) {
        const double lift[] = { 4, 8, 1 }, q = 0.1, gone = 0.1;
        struct spot_forecast f = forecast_of(2 * gone);
        struct spot_forecast_change change[] = { { 0, 0, 1 - gone }, { CAP, 0, gone } };
        struct spot_forecast_region region = { .region = "us-east-1",
                                               .instance_type = "g",
                                               .zones = 2,
                                               .shock_prob = q,
                                               .loss_lift = lift[i],
                                               .calm_lift = (1 - q * lift[i]) / (1 - q) };
        const struct spot_fleet_copula copula = { .forecast = &f, .steps = 1, .region = 0.45 };
        const size_t series[ZONES] = { 0, 1, 2, 3 };
        double both = 0, said = 0, one = 0;
        struct spot_rng rng;

        f.region = &region;
        f.n_region = 1;
        for (size_t z = 0; z < ZONES; z++) {
            f.series[z].change = change;
            f.series[z].n_change = 2;
        }
        spot_rng_init(&rng, 3, (uint64_t)i);
        spot_fleet_draw(&copula, series, ZONES, 0, N, there, ZONES);
        for (size_t w = 0; w < N; w++) {
            const double x = spot_rng_unit(&rng) < q ? region.loss_lift : region.calm_lift;
            const bool first = spot_rng_unit(&rng) < gone * x,
                       second = spot_rng_unit(&rng) < gone * x;

            said += first && second;
            both += there[w * ZONES] == 0 && there[w * ZONES + 1] == 0;
            one += there[w * ZONES] == 0;
        }
        ck_assert_double_eq_tol(one / N, gone, 0.006);
        ck_assert_double_eq_tol(both / N, said / N, 0.005);
    }
}
END_TEST

/* A request is refused as often as the forecast says, what is held is not asked for. */
START_TEST(what_is_not_held_has_to_be_granted)
{
    enum { N = 20000 };
    static int32_t there[N * ZONES];
    const struct spot_forecast f = forecast_of(0.1);
    struct spot_forecast_start start = { .granted = 0.7 };
    const int64_t held[ZONES] = { 2, 0, 0, 0 };
    const struct spot_fleet_copula copula = { .forecast = &f, .steps = 1, .held = held };
    const size_t series[ZONES] = { 0, 1, 2, 3 };
    double count[ZONES][CAP + 1] = { { 0 } };

    f.series[0].start = f.series[1].start = &start;
    spot_fleet_draw(&copula, series, ZONES, 0, N, there, ZONES);
    for (size_t w = 0; w < N; w++)
        for (size_t z = 0; z < ZONES; z++)
            count[z][there[w * ZONES + z]]++;
    ck_assert_double_eq_tol(count[0][0] / N, 0.05, 0.01);
    ck_assert_double_eq_tol(count[0][2] / N, 0.25, 0.01);
    ck_assert_double_eq_tol(count[0][CAP] / N, 0.7, 0.01);
    ck_assert_double_eq_tol(count[1][0] / N, 0.3, 0.01);
    ck_assert_double_eq_tol(count[2][0] / N, 0.05, 0.01);
    ck_assert_double_eq_tol(count[2][CAP] / N, 0.9, 0.01);
}
END_TEST

/* A plan of n scenarios and what 20000 others make of it. */
static struct spot_fleet_promise promise_of(size_t n, uint64_t seed, double *cvar)
{
    enum { K = ZONES + 1, FRESH = 20000 };
    static int32_t there[FRESH * K];
    static double prob[FRESH];
    const struct spot_forecast f = forecast_of(0.06);
    const struct spot_fleet_copula copula = { &f, 1, 0.15, 0.45, seed, NULL };
    const size_t series[K] = { 0, 1, 2, 3, SIZE_MAX }, type[K] = { 0 };
    const double rate_per_s[] = { 10 }, per_s[] = { 1 };
    const double usd_per_h[K] = { 1, 1.01, 1.02, 1.03, 3.3 };
    const int64_t quota[K] = { -1, -1, -1, -1, -1 };
    const char *name[K] = { "g", "g", "g", "g", "g" };
    struct spot_fleet_risk risk = { .n_bucket = 1,
                                    .n_type = 1,
                                    .n_offer = K,
                                    .n_scenario = n,
                                    .name = name,
                                    .rate_per_s = rate_per_s,
                                    .per_s = per_s,
                                    .type = type,
                                    .usd_per_h = usd_per_h,
                                    .quota = quota,
                                    .there = there,
                                    .prob = prob,
                                    .rho = 1,
                                    .tail = 0.95,
                                    .unserved = 0.02 };
    struct spot_fleet_risk_answer a;
    struct spot_fleet_promise promise;
    struct spot_err err;

    for (size_t i = 0; i < (size_t)FRESH * K; i++)
        there[i] = SPOT_FLEET_ALWAYS;
    for (size_t w = 0; w < n; w++)
        prob[w] = 1 / (double)n;
    spot_fleet_draw(&copula, series, K, 0, n, there, K);
    ck_assert_msg(!spot_fleet_risk_solve(&risk, &a, &err), "%s", err.msg);
    *cvar += a.cvar;
    for (size_t w = 0; w < FRESH; w++)
        prob[w] = 1.0 / FRESH;
    spot_fleet_draw(&copula, series, K, 1000000, FRESH, there, K);
    risk.n_scenario = FRESH;
    spot_fleet_risk_try(&risk, a.count, &promise);
    spot_fleet_risk_release(&a);
    return promise;
}

START_TEST(few_scenarios_insure_too_little_and_many_keep_their_promise)
{
    static const size_t n[] = { 10, 50, 4000 };
    double fresh[3] = { 0 }, said[3] = { 0 };

    for (size_t i = 0; i < 3; i++)
        for (uint64_t seed = 1; seed <= 5; seed++)
            fresh[i] += promise_of(n[i], seed, &said[i]).cvar;
    ck_assert_double_gt(fresh[0], 1.5 * fresh[2]); /* far above what was allowed */
    ck_assert_double_gt(fresh[0] / 5, 0.02);
    ck_assert_double_gt(fresh[1], fresh[2]);
    ck_assert_double_le(fresh[2] / 5, 0.02 * 1.15);
    ck_assert_double_eq_tol(fresh[2], said[2], 0.15 * said[2]);
}
END_TEST

/* --- following a load --- */

START_TEST(a_fleet_follows_only_after_its_delay)
{
    struct spot_fleet_scale s = { SPOT_FLEET_SAME, 0 };

    ck_assert(!spot_fleet_scale_step(&s, SPOT_FLEET_UP, false, 20, 300, 1200));
    ck_assert(!spot_fleet_scale_step(&s, SPOT_FLEET_UP, false, 300, 300, 1200));
    ck_assert(spot_fleet_scale_step(&s, SPOT_FLEET_UP, false, 320, 300, 1200));
    /* taken: the clock starts anew */
    ck_assert(!spot_fleet_scale_step(&s, SPOT_FLEET_UP, false, 340, 300, 1200));
    /* one agreement, or the other side, and it starts anew */
    ck_assert(!spot_fleet_scale_step(&s, SPOT_FLEET_SAME, false, 630, 300, 1200));
    ck_assert(!spot_fleet_scale_step(&s, SPOT_FLEET_UP, false, 650, 300, 1200));
    ck_assert(!spot_fleet_scale_step(&s, SPOT_FLEET_DOWN, false, 940, 300, 1200));
    ck_assert(!spot_fleet_scale_step(&s, SPOT_FLEET_DOWN, false, 2139, 300, 1200));
    ck_assert(spot_fleet_scale_step(&s, SPOT_FLEET_DOWN, false, 2140, 300, 1200));
    /* nothing is held: at once */
    ck_assert(spot_fleet_scale_step(&s, SPOT_FLEET_UP, true, 2141, 300, 1200));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fleet_risk");

    tcase_set_timeout(tc, SUITE_TIMEOUT_S);
    add_tests(tc);
    return run_suite("fleet_risk", tc);
}

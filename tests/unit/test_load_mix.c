/* SPDX-License-Identifier: MIT */
/* Goal: the forecast of a load is never much worse than the best of what is simple, and better
 * where the load has a shape. Oracles: weights and spreads summed from their definitions, with the
 * score integrated; the regression by Cramer's rule over pairs listed anew; negative binomials by
 * their recursion from zero; loads whose law is known; a past before two futures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "forecast/backtest.h"
#include "forecast/models/fc_load_mix.h"
#include "forecast/models/fc_load_regress.h"
#include "forecast/predictor.h"
#include "forecast/score.h"
#include "suite.h"

enum { LEVELS = 9, TRENDS = 4, N = 40 };

static const double alpha[LEVELS] = { 1, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05 };

/* --- definitions, summed anew for each time --- */

/* A smoothed level at time t: weights a (1 - a)^age, scaled to 1. */
static double smoothed(const double *x, int t, double a)
{
    double sum = 0, weight = 0;

    for (int i = 0; i <= t; i++) {
        sum += a * pow(1 - a, t - i) * x[i];
        weight += a * pow(1 - a, t - i);
    }
    return sum / weight;
}

/* E|X - z| - E|X - X'| / 2 of a standard normal X: the score in its other form, summed. */
static double integrated_score(double z)
{
    const double step = 1e-3;
    double sum = 0;

    for (double s = -12 + step / 2; s < 12; s += step)
        sum += fabs(s - z) * exp(-s * s / 2) * step;
    return sum / sqrt(2 * acos(-1)) - 1 / sqrt(acos(-1));
}

/* The variance that a level has at time t: discounted squares of its own errors, and 5 of Poisson's
 * size. */
static double spread_of(const double *x, int t, double a, int lag)
{
    double sum = 5 * fmax(smoothed(x, t, a), 0.25), n = 5;

    for (int s = lag; s <= t; s++) {
        const double error = x[s] - smoothed(x, s - lag, a);

        sum += pow(0.95, t - s) * error * error;
        n += pow(0.95, t - s);
    }
    return sum / n;
}

static void draw(double *x, int n, uint64_t seed)
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    for (int i = 0; i < n; i++)
        x[i] = (double)spot_rng_below(&rng, 30) + 10 * (i > n / 2);
}

START_TEST(levels_and_spreads_are_what_their_definitions_say)
{
    struct spot_load_part part[SPOT_LOAD_EXPERTS];
    double x[N];

    draw(x, N, 3);
    for (int n = 1; n <= N; n += 13) {
        struct spot_load_mix *mix = spot_load_mix_new(x, (size_t)n);

        for (int step = 1; step <= 20; step += 3) {
            const int third = n > 3 ? (n - 1) / 3 : 1, lag = step < third ? step : third;
            double sum = 0;

            spot_load_mix_at(mix, step, part);
            for (int k = 0; k < LEVELS; k++) {
                ck_assert_double_eq_tol(part[k].mean, smoothed(x, n - 1, alpha[k]), 1e-9);
                ck_assert_double_eq_tol(part[k].var, spread_of(x, n - 1, alpha[k], lag), 1e-9);
            }
            for (int k = 0; k < SPOT_LOAD_EXPERTS; k++) {
                ck_assert(part[k].weight >= 0 && part[k].mean >= 0 && part[k].var >= 0);
                sum += part[k].weight;
            }
            ck_assert_double_eq_tol(sum, 1, 1e-12);
        }
        spot_load_mix_free(mix);
    }
}
END_TEST

/* What all experts said `lag` ahead of t, through the library, for its spreads (checked above). */
static void said(const double *x, int t, int lag, struct spot_load_part *part)
{
    struct spot_load_mix *mix = spot_load_mix_new(x, (size_t)t + 1);

    spot_load_mix_at(mix, lag, part);
    spot_load_mix_free(mix);
}

static int by_size(const void *a, const void *b)
{
    const double d = *(const double *)a - *(const double *)b;

    return (d > 0) - (d < 0);
}

/* Loss of each expert one step ahead over x [n]; the score by integration. */
static void near_losses(const double *x, int n, double *loss)
{
    struct spot_load_part part[SPOT_LOAD_EXPERTS];

    for (int k = 0; k < SPOT_LOAD_EXPERTS; k++)
        loss[k] = 0;
    for (int t = 1; t < n; t++) {
        double unit[SPOT_LOAD_EXPERTS], score[SPOT_LOAD_EXPERTS];

        said(x, t - 1, 1, part);
        for (int k = 0; k < SPOT_LOAD_EXPERTS; k++) {
            unit[k] = sqrt(fmax(fmax(part[k].var, part[k].mean), 0.25));
            score[k] = unit[k] * integrated_score((x[t] - part[k].mean) / unit[k]);
        }
        qsort(unit, SPOT_LOAD_EXPERTS, sizeof(*unit), by_size);
        for (int k = 0; k < SPOT_LOAD_EXPERTS; k++)
            loss[k] += pow(0.98, n - 1 - t) * score[k] / unit[SPOT_LOAD_EXPERTS / 2];
    }
}

START_TEST(weights_are_priors_times_what_losses_leave)
{
    static const double prior[] = { 0.3 / 9, 0.1 / 4, 0.3, 0.3 };
    struct spot_load_part part[SPOT_LOAD_EXPERTS];
    double x[N], loss[SPOT_LOAD_EXPERTS];

    draw(x, N, 4);
    near_losses(x, N, loss);
    said(x, N - 1, 1, part);
    for (int k = 1; k < SPOT_LOAD_EXPERTS; k++) {
        const double p = k < LEVELS ? prior[0] : k < LEVELS + TRENDS ? prior[1] : prior[k - 11];

        ck_assert_double_eq_tol(log(part[k].weight / part[0].weight),
                                log(p / prior[0]) + loss[0] - loss[k], 1e-5);
    }
}
END_TEST

/* --- the regression, from its definition --- */

static double window_mean(const double *x, int t, int len)
{
    double sum = 0;
    int n = 0;

    for (int i = t; i >= 0 && i >= t - len; i--, n++)
        sum += x[i];
    return sum / n;
}

/* Damped trend of .3, .03, .9, `step` on. */
static double trend(const double *x, int t, int step)
{
    double level = x[0], slope = 0, reach = 0;

    for (int i = 0; i <= t; i++) {
        const double error = x[i] - level - 0.9 * slope;

        level += 0.9 * slope + fmax(0.3, 1.0 / (i + 1)) * error;
        slope = 0.9 * slope + (i ? 0.03 * error : 0);
    }
    for (int i = 1; i <= step; i++)
        reach += pow(0.9, i);
    return fmax(0, level + slope * reach);
}

static void row_of(const double *x, int t, int step, double row[3])
{
    const double near = window_mean(x, t, 12);

    row[0] = near - window_mean(x, t, 60);
    row[1] = smoothed(x, t, 0.5) - near;
    row[2] = trend(x, t, step) - near;
}

static double det(double a[3][3])
{
    return a[0][0] * (a[1][1] * a[2][2] - a[1][2] * a[2][1]) -
           a[0][1] * (a[1][0] * a[2][2] - a[1][2] * a[2][0]) +
           a[0][2] * (a[1][0] * a[2][1] - a[1][1] * a[2][0]);
}

/* What is told at t: the ridge regression of all pairs up to then, by Cramer's rule. */
static double regressed(const double *x, int t, int step)
{
    double a[3][3] = { { 80, 0, 0 }, { 0, 80, 0 }, { 0, 0, 80 } }, c[3] = { 80, 0, 0 }, row[3];
    double mean = window_mean(x, t, 60);

    for (int s = step; s <= t; s++) {
        const double far = window_mean(x, s - step, 60);
        const double weight = pow(0.99, t - s) / fmax(far, 1);

        row_of(x, s - step, step, row);
        for (int i = 0; i < 3; i++) {
            c[i] += weight * row[i] * (x[s] - far);
            for (int k = 0; k < 3; k++)
                a[i][k] += weight * row[i] * row[k];
        }
    }
    row_of(x, t, step, row);
    for (int i = 0; i < 3; i++) {
        double b[3][3];

        memcpy(b, a, sizeof(b));
        for (int k = 0; k < 3; k++)
            b[k][i] = c[k];
        mean += row[i] * det(b) / det(a);
    }
    return fmax(0, mean);
}

START_TEST(the_regression_is_that_of_all_pairs_of_the_past)
{
    enum { LAST = 90 };
    static const int steps[] = { 1, 5, 12, 200 }; /* the last: no pair is so far apart */
    double x[LAST + 1];

    draw(x, LAST + 1, 5);
    for (int i = 0; i < 4; i++) {
        const int step = steps[i];
        struct spot_load_mix *mix = spot_load_mix_new(x, LAST + 1);
        const struct spot_load_part part = spot_load_regress(mix, step);
        double mean = regressed(x, LAST, step), square = 0, n = 8, spread = 0;

        spot_load_mix_free(mix);
        for (int s = step; s <= LAST; s++) {
            const double error = x[s] - regressed(x, s - step, step);

            square += pow(0.97, LAST - s) * error * error;
            n += pow(0.97, LAST - s);
        }
        for (int k = LAST; k >= LAST - 12; k--)
            spread += pow(x[k] - window_mean(x, LAST, 12), 2) / 13;
        ck_assert_double_eq_tol(part.mean, mean, 1e-9 * mean);
        ck_assert_double_eq_tol(part.var, (square + 8 * fmax(mean, spread / 2)) / n, 1e-7);
        if (step > LAST)
            ck_assert_double_eq_tol(part.mean, window_mean(x, LAST, 12), 1e-12);
    }
}
END_TEST

/* --- what comes later --- */

enum { PAST = 120, ALL = 150, LIMIT = 200 };

static void keep_dist(void *user, size_t origin, int step, const double *p)
{
    double *kept = user;

    if (origin < PAST)
        memcpy(kept + (origin * 12 + (size_t)step - 1) * (LIMIT + 1), p, (LIMIT + 1) * sizeof(*p));
}

static void backtest(int *y, double *kept)
{
    static double prob[12 * (LIMIT + 1)];
    struct spot_count_grid grid = { .interval_s = 10, .n = ALL, .y = y, .cap = LIMIT };
    size_t origin[ALL], n = 0;
    struct spot_score score[12] = { { 0 } };
    struct spot_backtest b = { .grid = &grid, .dist = keep_dist, .user = kept, .origin = origin };

    b.spec = (struct spot_fc_spec){ .day = 8640, .cap = LIMIT, .horizon = 12 };
    b.model = spot_forecaster_find("load", &b.spec, NULL);
    for (size_t t = 30; t + 12 < ALL; t += 7)
        origin[n++] = t;
    b.n_origin = n;
    spot_backtest_run(&b, score, prob);
}

START_TEST(what_comes_later_changes_nothing_that_was_told)
{
    const size_t n = (size_t)PAST * 12 * (LIMIT + 1);
    double *one = spot_xcalloc(n, sizeof(*one)), *other = spot_xcalloc(n, sizeof(*other));
    struct spot_rng rng;
    int y[ALL];
    double sum = 0;

    spot_rng_init(&rng, 3, 0);
    for (int t = 0; t < ALL; t++)
        y[t] = (int)spot_rng_below(&rng, 60);
    backtest(y, one);
    for (int t = PAST; t < ALL; t++)
        y[t] = 150 - y[t];
    backtest(y, other);
    for (size_t i = 0; i < n; i++)
        sum += one[i];
    ck_assert_double_eq_tol(sum, 13 * 12, 1e-6); /* origins 30, 37 .. 114, each with 12 laws */
    ck_assert_mem_eq(one, other, n * sizeof(*one));
    free(one), free(other);
}
END_TEST

/* --- loads whose law is known --- */

enum shape { STEADY, RAMP, JUMPS, SWING, SHAPES };

static double rate_at(enum shape shape, int t)
{
    switch (shape) {
    case RAMP:
        return 20 + t / 3.0;
    case JUMPS:
        return t / 40 % 2 ? 80 : 20;
    case SWING:
        return 50 + 35 * sin(t / 14.0);
    default:
        return 50;
    }
}

static int poisson(struct spot_rng *rng, double rate)
{
    double sum = 0;
    int n = -1;

    do {
        sum -= log1p(-spot_rng_unit(rng));
        n++;
    } while (sum < rate);
    return n;
}

/* Mean score of a model, `step` ahead. */
static double crps_of(const char *name, const int *y, int n, int step)
{
    static double prob[12 * 513];
    struct spot_fc_spec spec = { .day = 8640 };
    const struct spot_forecaster *model = spot_forecaster_find(name, &spec, NULL);
    struct spot_score sum = { 0 };
    struct spot_predictor *p;

    spec.cap = 512;
    spec.horizon = 12;
    p = spot_predictor_new(model, &spec);
    for (int t = 0; t + step < n; t++) {
        spot_predictor_observe(p, y[t]);
        if (t < 60 || t % 3)
            continue;
        spot_predictor_predict(p, prob);
        spot_score_add(&sum, prob + (step - 1) * 513, 512, y[t], y[t + step]);
    }
    spot_predictor_free(p);
    return sum.crps_sum / (double)sum.n;
}

START_TEST(it_is_nearly_as_good_as_the_best_of_what_is_simple_and_better_where_there_is_a_shape)
{
    static const char *const simple[] = { "last", "ma@12", "ma@60", "negbin@12", "negbin" };
    static const double most[SHAPES][2] = { /* of the best of them, 1 and 12 steps ahead */
                                            { 1.04, 1.03 },
                                            { 1.03, 1.03 },
                                            { 0.9, 1 },
                                            { 0.75, 0.87 }
    };
    enum { LONG = 600 };
    int y[LONG];

    for (int shape = 0; shape < SHAPES; shape++) {
        struct spot_rng rng;

        spot_rng_init(&rng, 9, (uint64_t)shape);
        for (int t = 0; t < LONG; t++)
            y[t] = poisson(&rng, rate_at((enum shape)shape, t));
        for (int far = 0; far < 2; far++) {
            double best = INFINITY, ours = crps_of("load", y, LONG, far ? 12 : 1);

            for (int k = 0; k < 5; k++)
                best = fmin(best, crps_of(simple[k], y, LONG, far ? 12 : 1));
            ck_assert_msg(ours <= most[shape][far] * best, "shape %d far %d: %.3f of %.3f: %.3f",
                          shape, far, ours, best, ours / best);
        }
    }
}
END_TEST

START_TEST(negbin_is_the_window_s_by_recursion_from_zero)
{
    enum { CAP = 100 };
    static const int y[] = { 50, 3, 9, 4, 12, 7, 2 }; /* the newest 6 count */
    const double mean = 37 / 6.0;
    struct spot_fc_spec spec = { .day = 8640 };
    const struct spot_forecaster *model = spot_forecaster_find("negbin@5", &spec, NULL);
    double prob[CAP + 1], var = 0, at, r;
    struct spot_predictor *p;

    spec.cap = CAP;
    spec.horizon = 1;
    p = spot_predictor_new(model, &spec);
    for (int i = 0; i < 7; i++) {
        spot_predictor_observe(p, y[i]);
        var += i ? (y[i] - mean) * (y[i] - mean) / 6 : 0;
    }
    spot_predictor_predict(p, prob);
    r = mean * mean / (var - mean);
    at = pow(r / (r + mean), r);
    for (int k = 0; k < CAP; k++) {
        ck_assert_double_eq_tol(prob[k], at, 1e-9);
        at *= (k + r) / (k + 1) * mean / (r + mean);
    }
    spot_predictor_free(p);
}
END_TEST

/* mpmath 1.4.1, 40 digits: Poisson's, and that of a variance of 47 squared. */
START_TEST(negbin_is_exact_where_its_size_is_large_or_without_end)
{
    enum { CAP = 4000 };
    static const int k[] = { 1900, 2000, 2100 };
    static const double want[2][3] = {
        { 0.0007198068548569778, 0.008920248895986241, 0.0007442234118916616 },
        { 0.0008700610015573349, 0.008487776464069319, 0.0008946611016333142 }
    };
    struct spot_fc_spec spec = { .cap = CAP, .horizon = 1, .day = 8640 };
    const struct spot_forecaster *model = spot_forecaster_find("negbin@5", &spec, NULL);
    static double prob[CAP + 1];

    for (int wide = 0; wide < 2; wide++) {
        struct spot_predictor *p = spot_predictor_new(model, &spec);

        for (int i = 0; i < 6; i++)
            spot_predictor_observe(p, 2000 + (wide ? i % 2 ? 47 : -47 : 0));
        spot_predictor_predict(p, prob);
        for (int i = 0; i < 3; i++)
            ck_assert_double_eq_tol(prob[k[i]], want[wide][i], 1e-11 * want[wide][i]);
        spot_predictor_free(p);
    }
}
END_TEST

/* Requests of `slots` intervals after those of n, by the mean of the forecast. */
static void forecast_cycle(double (*law)(int), double day, int n, double *mean, int slots)
{
    enum { CAP = 63 };
    struct spot_fc_spec spec = { .cap = CAP, .horizon = slots, .day = day };
    struct spot_predictor *const p = spot_predictor_new(spot_forecaster_named("load"), &spec);
    double *const prob = spot_xcalloc((size_t)slots * (CAP + 1), sizeof(*prob));
    struct spot_rng rng;

    spot_rng_init(&rng, 3, 0);
    for (int t = 0; t < n; t++) { /* binomial of 40: about the mean, with a spread */
        int y = 0;

        for (int k = 0; k < 40; k++)
            y += spot_rng_unit(&rng) < law(t) / 40;
        spot_predictor_observe(p, y);
    }
    spot_predictor_predict(p, prob);
    for (int h = 0; h < slots; h++) {
        mean[h] = 0;
        for (int k = 0; k <= CAP; k++)
            mean[h] += k * prob[h * (CAP + 1) + k];
    }
    spot_predictor_free(p);
    free(prob);
}

static double daily(int t)
{
    return t % 24 < 12 ? 24 : 4;
}

static double weekly(int t)
{
    return t % 28 < 20 ? 20 : 2; /* days of 4 intervals, of which the last two are quiet */
}

static double steady(int t)
{
    (void)t;
    return 14;
}

/* Is each interval that the law calls busy three times each quiet one? */
static bool is_by_the_clock(double (*law)(int), const double *mean, int n)
{
    double least = INFINITY, most = 0;

    for (int h = 0; h < n; h++) {
        least = law(h) > 10 ? fmin(least, mean[h]) : least;
        most = law(h) > 10 ? most : fmax(most, mean[h]);
    }
    return least > 3 * most;
}

START_TEST(a_load_that_follows_the_clock_is_told_by_the_clock)
{
    double mean[28];

    forecast_cycle(daily, 24, 17 * 24, mean, 24);
    ck_assert(is_by_the_clock(daily, mean, 24));
    forecast_cycle(weekly, 4, 20 * 28, mean, 28);
    ck_assert(is_by_the_clock(weekly, mean, 28));
}
END_TEST

/* Of two days there is none to try a cycle on, and a steady load has none to find. */
START_TEST(a_cycle_that_was_not_seen_twice_or_tells_nothing_is_not_made_up)
{
    double mean[24], low = INFINITY, high = 0;

    forecast_cycle(daily, 24, 2 * 24, mean, 24);
    for (int h = 1; h < 24; h++)
        ck_assert_double_lt(fabs(mean[h] - mean[h - 1]), 2); /* no step at noon */
    forecast_cycle(steady, 24, 5 * 24, mean, 24);
    for (int h = 0; h < 24; h++) {
        low = fmin(low, mean[h]);
        high = fmax(high, mean[h]);
    }
    ck_assert_double_lt(high - low, 1.5);
    ck_assert(low > 11 && high < 17);
}
END_TEST

int main(void)
{
    return run_suite("load_mix", add_tests(tcase_create("load_mix")));
}

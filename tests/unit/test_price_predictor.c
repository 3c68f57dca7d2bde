/* SPDX-License-Identifier: MIT */
/* Goal: honest distributions of prices, from nothing but the past. Oracles: every path of a small
 * history, its distributions counted by hand; every sequence of moves; the energy form of CRPS; the
 * same past with another future; the distribution a history was drawn from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "forecast/price_predictor.h"
#include "suite.h"
#include "trace/price_trace.h"

enum { STEPS = 6, SMALL = 24, LONG = 2000 };

/* --- how many moves --- */

START_TEST(moves_are_those_of_every_sequence)
{
    static const double hazard[] = { 0.1, 0.5, 0, 0.9, 1, 0.3 };
    enum { H = 8, AGES = sizeof(hazard) / sizeof(hazard[0]) };

    for (size_t age = 0; age < 7; age++) {
        double prob[H * (H + 1)];

        spot_price_moves(hazard, AGES, age, H, prob);
        for (int h = 1; h <= H; h++) {
            double want[H + 1] = { 0 };

            for (int path = 0; path < 1 << h; path++) {
                double p = 1;
                size_t at = age;
                int n = 0;

                for (int t = 0; t < h; t++) {
                    const double q = hazard[at < AGES ? at : AGES - 1];
                    const bool is_move = path >> t & 1;

                    p *= is_move ? q : 1 - q;
                    at = is_move ? 0 : at + 1;
                    n += is_move;
                }
                want[n] += p;
            }
            for (int k = 0; k <= h; k++)
                ck_assert_double_eq_tol(prob[(h - 1) * (H + 1) + k], want[k], 1e-12);
        }
    }
}
END_TEST

/* --- every path of a small history --- */

/* A history whose moves are one or two units of logarithm up or down: the grid of the model, a
 * quarter of the median move, holds them exactly. */
static const double unit = 0.125;

static void draw_small(double *y, size_t n, uint64_t seed, int *level)
{
    struct spot_rng rng;
    int at = 0;

    spot_rng_init(&rng, seed, 3);
    for (size_t i = 0; i < n; i++) {
        if (i && spot_rng_unit(&rng) < 0.4)
            at += (spot_rng_unit(&rng) < 0.5 ? -1 : 1) * (spot_rng_unit(&rng) < 0.7 ? 1 : 2);
        level[i] = at;
        y[i] = 3 * exp(unit * at);
    }
}

struct counted { /* what the history says, counted again and without the model's tables */
    int move[SMALL], n_move, class[SMALL];
    double median[2];
    int age;
    double exposed[64], moved[64];
};

static int by_int(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void count(const int *level, size_t n, struct counted *c)
{
    memset(c, 0, sizeof(*c));
    for (size_t i = 1; i < n; i++)
        if (level[i] != level[i - 1])
            c->move[c->n_move++] = level[i] - level[i - 1];
    for (int up = 0; up < 2; up++) {
        int size[SMALL], k = 0;

        for (int i = 0; i < c->n_move; i++)
            if ((c->move[i] > 0) == (up == 1))
                size[k++] = abs(c->move[i]);
        qsort(size, (size_t)k, sizeof(int), by_int);
        c->median[up] = k ? size[k / 2] : 0;
    }
    for (int i = 0; i < c->n_move; i++)
        c->class[i] = 2 * (c->move[i] > 0) + (abs(c->move[i]) > c->median[c->move[i] > 0]);
    for (size_t i = 1; i < n; i++) {
        size_t since = 0, k = i - 1;

        while (k && level[k] == level[k - 1]) {
            k--;
            since++;
        }
        if (!k)
            continue; /* no move before */
        c->exposed[since]++;
        c->moved[since] += level[i] != level[i - 1];
    }
    for (size_t k = n - 1; k && level[k] == level[k - 1]; k--)
        c->age++;
}

static double hazard_of(const struct counted *c, int age)
{
    const double mean = c->n_move / (SMALL - 1.0);

    return fmin(1, (c->moved[age] + 3 * mean) / (c->exposed[age] + 3));
}

static double next_of(const struct counted *c, int from, int to)
{
    double of = 0, both = 0, share = 0;

    for (int i = 0; i < c->n_move; i++)
        share += (c->class[i] == to) / (double)c->n_move;
    for (int i = 1; i < c->n_move; i++) {
        of += c->class[i - 1] == from;
        both += c->class[i - 1] == from && c->class[i] == to;
    }
    return (both + 4 * share) / (of + 4);
}

enum { REACH = 2 * STEPS };

static void walk_paths(const struct counted *c, int step, int age, int class, int at, double p,
                       double (*want)[2 * REACH + 1])
{
    const double hazard = hazard_of(c, age);

    if (step)
        want[step - 1][REACH + at] += p;
    if (step == STEPS)
        return;
    walk_paths(c, step + 1, age + 1, class, at, p * (1 - hazard), want);
    for (int to = 0; to < 4; to++) {
        int n = 0, sizes[5] = { 0 };

        for (int i = 0; i < c->n_move; i++)
            if (c->class[i] == to) {
                n++;
                sizes[c->move[i] + 2]++;
            }
        for (int k = 0; k < 5; k++)
            if (sizes[k])
                walk_paths(c, step + 1, 0, to, at + k - 2,
                           p * hazard * next_of(c, class, to) * sizes[k] / n, want);
    }
}

START_TEST(steps_are_the_sum_over_all_paths)
{
    for (uint64_t seed = 1; seed <= (is_long() ? 60 : 15); seed++) {
        struct spot_price_dist dist[STEPS] = { 0 };
        double y[SMALL], want[STEPS][2 * REACH + 1] = { 0 };
        int level[SMALL];
        struct counted c;

        draw_small(y, SMALL, seed, level);
        count(level, SMALL, &c);
        ck_assert_int_gt(c.n_move, 2);
        walk_paths(&c, 0, c.age, c.class[c.n_move - 1], 0, 1, want);
        spot_price_steps(y, SMALL, STEPS, dist);
        for (int h = 0; h < STEPS; h++) {
            double sum = 0;

            spot_price_dist_settle(&dist[h]);
            for (int k = -REACH; k <= REACH; k++) {
                const double price = y[SMALL - 1] * exp(unit * (k + 0.5));

                sum += want[h][REACH + k];
                ck_assert_double_eq_tol(spot_price_dist_below(&dist[h], price), sum, 1e-9);
            }
            ck_assert_double_eq_tol(sum, 1, 1e-9);
            spot_price_dist_release(&dist[h]);
        }
    }
}
END_TEST

/* --- scores --- */

START_TEST(crps_is_the_energy_of_points_and_twice_the_pinball_of_all_levels)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 4, 0);
    for (int again = 0; again < 50; again++) {
        struct spot_price_dist d = { 0 };
        const double y = 4 * spot_rng_unit(&rng) - 0.5;
        double energy = 0, pinball = 0;

        for (int i = 0; i < 7; i++)
            spot_price_dist_add(&d, (double)spot_rng_below(&rng, 12) / 4, spot_rng_unit(&rng));
        spot_price_dist_settle(&d);
        for (size_t i = 0; i < d.n; i++) {
            energy += d.point[i].prob * fabs(d.point[i].usd_per_h - y);
            for (size_t j = 0; j < d.n; j++)
                energy -= 0.5 * d.point[i].prob * d.point[j].prob *
                          fabs(d.point[i].usd_per_h - d.point[j].usd_per_h);
        }
        for (int k = 0; k < 4000; k++) {
            const double level = (k + 0.5) / 4000, q = spot_price_dist_quantile(&d, level);

            pinball += 2 * (y >= q ? level * (y - q) : (1 - level) * (q - y)) / 4000;
        }
        ck_assert_double_eq_tol(spot_price_dist_crps(&d, y), energy, 1e-12);
        ck_assert_double_eq_tol(pinball, energy, 2e-3);
        spot_price_dist_release(&d);
    }
}
END_TEST

/* --- nothing of the future --- */

static void draw_long(double *y, uint64_t seed)
{
    struct spot_rng rng;
    double at = 0, way = 0.01;
    int age = 0;

    spot_rng_init(&rng, seed, 9);
    for (size_t i = 0; i < LONG; i++) {
        if (age++ >= 4 && spot_rng_unit(&rng) < 0.5) { /* stands for 4, then moves, mostly on */
            way *= spot_rng_unit(&rng) < 0.25 ? -1 : 1;
            at += way * (0.5 + spot_rng_unit(&rng));
            age = 0;
        }
        y[i] = 2 * exp(at);
    }
}

static bool is_equal(const struct spot_price_dist *a, const struct spot_price_dist *b)
{
    return a->n == b->n && !memcmp(a->point, b->point, a->n * sizeof(*a->point));
}

START_TEST(what_comes_later_changes_nothing)
{
    static const size_t origin[] = { 0, 1, 29, 30, 200, 333, 700, 1200 };
    static double y[LONG], other[LONG];
    bool differs = false;

    draw_long(y, 1);
    for (int m = 0; m < SPOT_PRICE_MODELS; m++)
        for (size_t k = 0; k < sizeof(origin) / sizeof(origin[0]); k++) {
            struct spot_price_predictor a = { .model = (enum spot_price_model)m,
                                              .horizon = STEPS,
                                              .history = 200,
                                              .y = y },
                                        b = a;
            struct spot_price_dist x[STEPS] = { 0 }, z[STEPS] = { 0 };
            const size_t o = origin[k];

            b.y = other;
            memcpy(other, y, sizeof(y));
            for (size_t i = o + 1; i < LONG; i++) /* reversed, and far off */
                other[i] = 7 * y[LONG + o - i];
            spot_price_predictor_predict(&a, o, x);
            spot_price_predictor_predict(&b, o, z);
            for (int h = 0; h < STEPS; h++) {
                ck_assert(is_equal(&x[h], &z[h]));
                ck_assert_double_eq_tol(spot_price_dist_at_most(&x[h], 1e9), 1, 1e-9);
            }
            ck_assert_int_eq(spot_price_predictor_choice(&a, o),
                             spot_price_predictor_choice(&b, o));
            other[o] *= 2; /* and the test can tell */
            spot_price_predictor_predict(&b, o, z);
            differs |= !is_equal(&x[0], &z[0]);
            for (int h = 0; h < STEPS; h++) {
                spot_price_dist_release(&x[h]);
                spot_price_dist_release(&z[h]);
            }
            spot_price_predictor_release(&a);
            spot_price_predictor_release(&b);
        }
    ck_assert(differs);
}
END_TEST

/* --- the choice, and what it is worth --- */

static double crps_at(const double *y, enum spot_price_model model, size_t o)
{
    struct spot_price_predictor predictor = {
        .model = model, .horizon = STEPS, .history = 200, .y = y
    };
    struct spot_price_dist dist[STEPS] = { 0 };
    double crps = 0;

    spot_price_predictor_predict(&predictor, o, dist);
    for (size_t h = 0; h < STEPS; h++) {
        crps += spot_price_dist_crps(&dist[h], y[o + h + 1]);
        spot_price_dist_release(&dist[h]);
    }
    spot_price_predictor_release(&predictor);
    return crps / STEPS;
}

START_TEST(the_best_is_that_of_the_newest_known_outcomes)
{
    static double y[LONG];
    int chosen[SPOT_PRICE_MODELS] = { 0 };

    draw_long(y, 5);
    for (size_t i = 900; i < 1300; i++)
        y[i] = y[899]; /* here nothing moves, and `last` is hard to beat */
    for (size_t o = 40; o + STEPS < LONG; o += 97) {
        struct spot_price_predictor predictor = {
            .model = SPOT_PRICE_BEST, .horizon = STEPS, .history = 200, .y = y
        };
        const enum spot_price_model choice = spot_price_predictor_choice(&predictor, o);
        double sum[SPOT_PRICE_BEST] = { 0 };
        size_t trial[LONG], n = 0;

        for (size_t t = SPOT_PRICE_ORIGIN_MIN; t + STEPS <= o; t += STEPS / 2)
            trial[n++] = t;
        for (size_t k = n > SPOT_PRICE_TRIALS ? n - SPOT_PRICE_TRIALS : 0; k < n; k++)
            for (int m = 0; m < SPOT_PRICE_BEST; m++)
                sum[m] += crps_at(y, (enum spot_price_model)m, trial[k]) / y[trial[k]];
        if (n >= SPOT_PRICE_TRIALS_MIN)
            for (int m = 0; m < SPOT_PRICE_BEST; m++)
                ck_assert_double_le(sum[choice], sum[m] + 1e-12);
        else
            ck_assert_int_eq(choice, SPOT_PRICE_STEPS);
        chosen[choice]++;
        spot_price_predictor_release(&predictor);
    }
    ck_assert_int_gt(chosen[SPOT_PRICE_STEPS], 5);
}
END_TEST

START_TEST(steps_learn_the_law_that_drew_the_history)
{
    static double y[LONG];
    struct spot_score score = { 0 };
    double last = 0, steps = 0, pinball = 0;

    draw_long(y, 2);
    for (size_t o = 400; o + STEPS < LONG; o += 5) {
        struct spot_price_predictor predictor = {
            .model = SPOT_PRICE_STEPS, .horizon = STEPS, .history = 720, .y = y
        };
        struct spot_price_dist dist[STEPS] = { 0 };

        spot_price_predictor_predict(&predictor, o, dist);
        for (size_t h = 0; h < STEPS; h++) {
            spot_price_dist_score(&dist[h], y[o], y[o + h + 1], &score, &pinball);
            spot_price_dist_release(&dist[h]);
        }
        spot_price_predictor_release(&predictor);
        last += crps_at(y, SPOT_PRICE_LAST, o);
        steps += crps_at(y, SPOT_PRICE_STEPS, o);
    }
    ck_assert_double_lt(steps, 0.75 * last);
    ck_assert_double_gt(score.cover_sum / (double)score.n, 0.75);
    ck_assert_double_lt(score.cover_sum / (double)score.n, 0.85);
    ck_assert_double_eq_tol(2 * pinball / (double)score.n, score.crps_sum / (double)score.n,
                            0.02 * score.crps_sum / (double)score.n);
}
END_TEST

START_TEST(what_never_moved_stays_and_odd_histories_do_no_harm)
{
    static double y[600];

    for (int kind = 0; kind < 4; kind++)
        for (size_t o = 0; o < 600; o = 2 * o + 1) {
            struct spot_price_predictor predictor = {
                .model = SPOT_PRICE_STEPS, .horizon = 256, .history = 4000, .y = y
            };
            struct spot_price_dist *dist = calloc(256, sizeof(*dist));

            for (size_t i = 0; i < 600; i++)
                y[i] = kind == 0   ? 1
                       : kind == 1 ? (i % 2 ? 1e-9 : 1e6)           /* the widest there is */
                       : kind == 2 ? 1 + 1e-15 * (double)(i % 3)    /* moves of a rounding */
                                   : exp(0.01 * (double)(i % 601)); /* each interval, one way */
            spot_price_predictor_predict(&predictor, o, dist);
            for (size_t h = 0; h < 256; h++) {
                ck_assert_uint_ge(dist[h].n, 1);
                for (size_t i = 0; i < dist[h].n; i++)
                    ck_assert_msg(isfinite(dist[h].point[i].usd_per_h) &&
                                      dist[h].point[i].usd_per_h > 0 && dist[h].point[i].prob >= 0,
                                  "kind %d, origin %zu, step %zu: %g with %g", kind, o, h + 1,
                                  dist[h].point[i].usd_per_h, dist[h].point[i].prob);
                ck_assert_double_eq_tol(spot_price_dist_at_most(&dist[h], HUGE_VAL), 1, 1e-9);
                if (kind == 0)
                    ck_assert(dist[h].n == 1 && !(dist[h].point[0].usd_per_h < 1) &&
                              !(dist[h].point[0].usd_per_h > 1));
                spot_price_dist_release(&dist[h]);
            }
            free(dist);
            spot_price_predictor_release(&predictor);
        }
}
END_TEST

/* --- reading --- */

static int read_text(struct spot_price_trace *trace, const char *text, struct spot_err *err)
{
    FILE *in = tmpfile();
    int rc;

    ck_assert_ptr_nonnull(in);
    fputs(text, in);
    rewind(in);
    rc = spot_price_trace_read(trace, in, "p.csv", err);
    fclose(in);
    return rc;
}

START_TEST(rows_come_in_any_order_and_the_later_counts)
{
    struct spot_price_trace t;
    struct spot_err err;
    double start_s, *y;
    size_t n;

    ck_assert_int_eq(
        read_text(&t,
                  "price_usd_per_h,zone,instance_type,time_s,market,note\n"
                  "3,b,g,7200,spot,x\n1,a,g,0,spot,\n2,b,g,0,spot,\n9,b,g,0,on_demand,\n"
                  "5,b,g,7200,spot,\n4,b,g,3000,spot,\n",
                  &err),
        0);
    ck_assert_uint_eq(t.n_series, 3);
    ck_assert_str_eq(t.series[0].zone, "a");
    ck_assert(t.series[1].is_spot && !t.series[2].is_spot);
    ck_assert_uint_eq(t.series[1].n, 3);
    ck_assert_double_eq(t.series[1].row[2].usd_per_h, 5);
    ck_assert_double_eq(t.end_s, 7200);
    y = spot_price_grid(&t.series[1], 3600, false, t.end_s, 100, &n, &start_s);
    ck_assert(n == 3 && y[0] == 2 && y[1] == 4 && y[2] == 5 && start_s == 0);
    free(y);
    y = spot_price_grid(&t.series[0], 5000, false, t.end_s, 100, &n, &start_s);
    ck_assert(n == 2 && y[1] == 1 && start_s == 2200); /* it ends at the newest row of all */
    free(y);
    ck_assert_ptr_null(spot_price_grid(&t.series[1], 1e-3, false, t.end_s, 100, &n, &start_s));
    spot_price_trace_release(&t);
}
END_TEST

START_TEST(malformed_prices_are_refused_with_position)
{
    static const struct {
        const char *row, *says;
    } bad[] = { { "0,a,g,spot,-1\n", "p.csv:2:12" },
                { "0,a,g,spot,0\n", "p.csv:2:12" },
                { "0,a,g,spot,nan\n", "p.csv:2:12" },
                { "0,a,g,spot,2e6\n", "p.csv:2:12" },
                { "-1,a,g,spot,1\n", "p.csv:2:1" },
                { "0,a,g,spit,1\n", "spit" },
                { "0,a,g,spot\n", "p.csv:2" },
                { "", "no price" },
                { "0,a,g,spot,1\n1,a,g,,1\n", "p.csv:3" },
                { "0,\"a,g,spot,1\n", "p.csv" } };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct spot_price_trace t;
        struct spot_err err;
        char text[200];

        snprintf(text, sizeof(text), "time_s,zone,instance_type,market,price_usd_per_h\n%s",
                 bad[i].row);
        ck_assert_int_eq(read_text(&t, text, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, bad[i].says), "%zu: %s", i, err.msg);
        spot_price_trace_release(&t);
    }
}
END_TEST

int main(void)
{
    return run_suite("price_predictor", add_tests(tcase_create("price_predictor")));
}

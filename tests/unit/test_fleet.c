/* SPDX-License-Identifier: MIT */
/* Goal: the cheapest fleet for a load, Melange's as published, spotDNN's as released. Oracles:
 * the published solvers' and predictors' answers (shared reference data where it is there, the
 * example here); every plan of a small catalogue. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/rng.h"
#include "peers/melange.h"
#include "peers/spotdnn.h"
#include "plan/fleet.h"
#include "plan/fleet/fleet_bound.h"
#include "plan/fleet/fleet_first.h"
#include "plan/fleet/fleet_program.h"
#include "suite.h"

#define MELANGE "../shared/data/golden/melange/"
#define SPOTDNN "../shared/data/golden/spotdnn/"

static const struct spot_fleet_offer example_offer[] = { { "A10G", 1.01, -1 },
                                                         { "A100-80GB", 3.67, -1 } };
static const double example_per_s[] = { 2, 20, 1, 20, 5, 40, 2, 20 };
static const double example_weight[] = { .2, .1, .5, .2 };

static double example(double rate_per_s, int64_t slices, struct spot_fleet_answer *a)
{
    double rate[4];
    struct spot_err err;
    const struct spot_fleet_demand d = { 4, 2, NULL, rate, example_per_s, example_offer, 1.0 };

    for (int b = 0; b < 4; b++)
        rate[b] = example_weight[b] * rate_per_s;
    ck_assert_msg(
        !(slices ? spot_melange_serve(&d, slices, 0, a, &err) : spot_fleet_serve(&d, 0, a, &err)),
        "%s", err.msg);
    ck_assert(a->is_proven);
    return a->usd_per_h;
}

static int on_example(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    double rate, slices, a10g, a100, usd;
    struct spot_fleet_answer a;

    (*(int *)user)++;
    ck_assert(!spot_csv_real(row, 0, 0, 1e6, &rate, err) &&
              !spot_csv_real(row, 1, 0, 1e6, &slices, err) &&
              !spot_csv_real(row, 2, 0, 1e6, &a10g, err) &&
              !spot_csv_real(row, 3, 0, 1e6, &a100, err) &&
              !spot_csv_real(row, 4, 0, 1e6, &usd, err));
    ck_assert_double_eq_tol(example(rate, (int64_t)slices, &a), usd, 1e-9);
    ck_assert_int_eq(a.count[0], (int64_t)a10g);
    ck_assert_int_eq(a.count[1], (int64_t)a100);
    spot_fleet_release(&a);
    ck_assert_double_le(example(rate, 0, &a), usd + 1e-9);
    spot_fleet_release(&a);
    return 0;
}

static double next_number(FILE *in)
{
    char word[64], *end;
    double x;

    ck_assert_int_eq(fscanf(in, "%63s", word), 1);
    x = strtod(word, &end);
    ck_assert(end != word && !*end);
    return x;
}

START_TEST(melange_slices_as_published_and_any_split_never_dearer)
{
    static const char *const want[] = { "request_rate", "slice_factor", "n_A10G", "n_A100",
                                        "cost_usd_h" };
    struct spot_fleet_answer a;
    struct spot_err err;
    FILE *in = fopen(MELANGE "example_solver.csv", "r");
    int rows = 0;

    ck_assert_double_eq_tol(example(30, 1, &a), 6.70, 1e-9);
    spot_fleet_release(&a);
    ck_assert_double_eq_tol(example(30, 4, &a), 5.69, 1e-9);
    spot_fleet_release(&a);
    ck_assert_double_eq_tol(example(30, 0, &a), 4.68, 1e-9);
    spot_fleet_release(&a);
    if (!in)
        return;
    ck_assert_msg(!spot_csv_read(in, "example", want, 5, on_example, &rows, NULL, &err), "%s",
                  err.msg);
    ck_assert_int_eq(rows, 64);
    fclose(in);
}
END_TEST

START_TEST(continuous_instances_have_the_published_optimum)
{
    static const struct {
        const char *file;
        double usd_per_h;
    } row[] = { { "arena_120_32", 16.256 }, { "arena_40_32", 16.876 }, { "mixed_120_128", 160.094 },
                { "mixed_120_32", 40.546 }, { "mixed_40_32", 40.898 }, { "pubmed_120_32", 139.65 },
                { "pubmed_40_32", 141.044 } };

    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        static double rate[4096], per_s[4096 * 8];
        struct spot_fleet_offer offer[8];
        struct spot_fleet_answer a;
        struct spot_err err;
        struct spot_fleet_demand d = {
            .rate_per_s = rate, .per_s = per_s, .offer = offer, .rho = 1
        };
        char path[256];
        double total;
        FILE *in;

        snprintf(path, sizeof(path), MELANGE "instances/syn_%s_s1.txt", row[i].file);
        if (!(in = fopen(path, "r")))
            return;
        d.n_offer = (size_t)next_number(in);
        d.n_bucket = (size_t)next_number(in);
        (void)next_number(in); /* slices */
        total = next_number(in);
        for (size_t g = 0; g < d.n_offer; g++) {
            offer[g] = (struct spot_fleet_offer){ "type", 0, -1 };
            offer[g].usd_per_h = next_number(in);
        }
        for (size_t b = 0; b < d.n_bucket; b++) {
            rate[b] = next_number(in);
            rate[b] *= total;
            for (size_t g = 0; g < d.n_offer; g++)
                per_s[b * d.n_offer + g] = next_number(in);
        }
        fclose(in);
        ck_assert_msg(!spot_fleet_serve(&d, 0, &a, &err), "%s", err.msg);
        ck_assert_double_eq_tol(a.usd_per_h, row[i].usd_per_h, 1e-6);
        for (size_t g = 0; g < d.n_offer; g++) {
            double load = 0;

            for (size_t b = 0; b < d.n_bucket; b++)
                if (a.share[b * d.n_offer + g] > 0)
                    load += rate[b] * a.share[b * d.n_offer + g] / per_s[b * d.n_offer + g];
            ck_assert_double_le(load, (double)a.count[g] + 1e-5);
        }
        spot_fleet_release(&a);
    }
}
END_TEST

START_TEST(infeasible_names_what_binds_and_what_would_do)
{
    struct spot_fleet_offer offer[] = { { "A10G", 1.01, 2 }, { "A100-80GB", 3.67, 1 } };
    double rate[] = { 12, 6, 30, 12 }, none[] = { 2, 20, 0, 0, 5, 40, 2, 20 };
    struct spot_fleet_demand d = { 4, 2, NULL, rate, example_per_s, offer, 1.0 };
    struct spot_fleet_answer a;
    struct spot_err err;
    double part = 0;

    ck_assert_int_eq(spot_fleet_serve(&d, 0, &a, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    ck_assert_ptr_nonnull(strstr(err.msg, "A10G (2), A100-80GB (1)"));
    part = strtod(strstr(err.msg, "; ") + 2, NULL);
    ck_assert(part > 0);
    for (int b = 0; b < 4; b++)
        rate[b] *= part / 60;
    ck_assert_int_eq(spot_fleet_serve(&d, 0, &a, &err), 0);
    ck_assert(spot_fleet_quota_worth(&d, &a, 0, 0) >= 0);
    spot_fleet_release(&a);
    for (int b = 0; b < 4; b++)
        rate[b] *= 1.001;
    ck_assert_int_eq(spot_fleet_serve(&d, 0, &a, &err), -1);
    d.per_s = none;
    ck_assert_int_eq(spot_fleet_serve(&d, 0, &a, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "bucket 1: no instance type"));
}
END_TEST

/* --- offers of one kind --- */

enum { ZONES = 3, OFFERS = 2 * ZONES };

static double uniform(struct spot_rng *rng, double low, double high)
{
    return low + (high - low) * spot_rng_unit(rng);
}

/* Can so many of two types answer two buckets? The first takes most of what it is better at. */
static bool answers(const struct spot_fleet_demand *d, const int64_t *count)
{
    const double *per_s = d->per_s;
    const bool is_second = per_s[OFFERS] / per_s[OFFERS + ZONES] > per_s[0] / per_s[ZONES];
    double room = 0, other = 0;

    for (size_t g = 0; g < OFFERS; g++)
        *(g < ZONES ? &room : &other) += d->rho * (double)count[g];
    for (size_t i = 0; i < 2; i++) {
        const size_t b = is_second ? 1 - i : i;
        const double load = d->rate_per_s[b] / per_s[b * OFFERS];
        const double part = fmin(1, room / load);

        room -= part * load;
        other -= (1 - part) * d->rate_per_s[b] / per_s[b * OFFERS + ZONES];
    }
    return other >= -1e-9;
}

/* Of all fleets of at most `quota` each; INFINITY: none will do. */
static double cheapest(const struct spot_fleet_demand *d, const struct spot_fleet_offer *offer)
{
    int64_t count[OFFERS] = { 0 };
    double best = INFINITY;
    size_t g = 0;

    while (g < OFFERS) {
        double usd_per_h = 0;

        for (g = 0; g < OFFERS; g++)
            usd_per_h += (double)count[g] * offer[g].usd_per_h;
        if (usd_per_h < best && answers(d, count))
            best = usd_per_h;
        for (g = 0; g < OFFERS && count[g]++ == offer[g].quota; g++)
            count[g] = 0;
    }
    return best;
}

START_TEST(zones_of_a_type_are_taken_from_the_cheapest)
{
    size_t n_planned = 0, n_worth = 0;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct spot_fleet_offer offer[OFFERS], more[OFFERS];
        double rate[2], per_s[2 * OFFERS], least, load[OFFERS] = { 0 };
        struct spot_fleet_demand d = { 2, OFFERS, NULL, rate, per_s, offer, 0.9 };
        struct spot_fleet_answer a;
        struct spot_err err;
        struct spot_rng rng;

        spot_rng_init(&rng, seed, 16);
        for (size_t g = 0; g < OFFERS; g++)
            offer[g] = (struct spot_fleet_offer){ g < ZONES ? "small" : "large",
                                                  (g < ZONES ? 1 : 2.5) * uniform(&rng, 0.7, 1.3),
                                                  (int64_t)(3 * spot_rng_unit(&rng)) };
        for (size_t b = 0; b < 2; b++) {
            const double small = uniform(&rng, 0.5, 2), large = small * uniform(&rng, 1.5, 4);

            rate[b] = uniform(&rng, 0.5, 4);
            for (size_t g = 0; g < OFFERS; g++)
                per_s[b * OFFERS + g] = g < ZONES ? small : large;
        }
        least = cheapest(&d, offer);
        ck_assert_int_eq(spot_fleet_serve(&d, 0, &a, &err), isinf(least) ? -1 : 0);
        if (isinf(least))
            continue;
        n_planned++;
        ck_assert_double_eq_tol(a.usd_per_h, least, 1e-9);
        ck_assert(a.is_proven && answers(&d, a.count));
        for (size_t g = 0; g < OFFERS; g++) {
            ck_assert_int_le(a.count[g], offer[g].quota);
            for (size_t b = 0; b < 2; b++)
                load[g] += rate[b] * a.share[b * OFFERS + g] / per_s[b * OFFERS + g];
            ck_assert_double_le(load[g], 0.9 * (double)a.count[g] + 1e-6);
            memcpy(more, offer, sizeof(more));
            more[g].quota++;
            least = a.usd_per_h - cheapest(&d, more);
            ck_assert_double_eq_tol(spot_fleet_quota_worth(&d, &a, g, 0), least, 1e-9);
            n_worth += least > 0;
        }
        spot_fleet_release(&a);
    }
    ck_assert_uint_gt(n_planned, 20);
    ck_assert_uint_gt(n_worth, 20);
}
END_TEST

enum { DRAWN_OFFERS = 6, DRAWN_BUCKETS = 2 };

/* --- fleets found first --- */

/* A demand of few offers, of which half are equal but for their quotas. */
struct drawn {
    double rate[DRAWN_BUCKETS], per_s[DRAWN_BUCKETS * DRAWN_OFFERS];
    struct spot_fleet_offer offer[DRAWN_OFFERS];
    struct spot_fleet_demand demand;
};

static void draw(struct drawn *d, uint64_t seed)
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 1);
    for (int b = 0; b < DRAWN_BUCKETS; b++)
        d->rate[b] = 1 + (double)spot_rng_below(&rng, 9);
    for (int g = 0; g < DRAWN_OFFERS; g++) {
        const int like = g >= DRAWN_OFFERS / 2 ? g - DRAWN_OFFERS / 2 : g;

        d->offer[g] = (struct spot_fleet_offer){ "x", 1 + (double)spot_rng_below(&rng, 30) / 8,
                                                 (int64_t)spot_rng_below(&rng, 6) - 1 };
        for (int b = 0; b < DRAWN_BUCKETS; b++)
            d->per_s[b * DRAWN_OFFERS + g] = (double)spot_rng_below(&rng, 7) / 2;
        if (like == g)
            continue;
        d->offer[g].usd_per_h = d->offer[like].usd_per_h;
        for (int b = 0; b < DRAWN_BUCKETS; b++)
            d->per_s[b * DRAWN_OFFERS + g] = d->per_s[b * DRAWN_OFFERS + like];
    }
    d->demand = (struct spot_fleet_demand){ .n_bucket = DRAWN_BUCKETS,
                                            .n_offer = DRAWN_OFFERS,
                                            .rate_per_s = d->rate,
                                            .per_s = d->per_s,
                                            .offer = d->offer,
                                            .rho = 0.9 };
}

static void check_answers(const struct spot_fleet_demand *d, const struct spot_fleet_answer *a)
{
    for (size_t b = 0; b < d->n_bucket; b++) {
        double sum = 0;

        for (size_t g = 0; g < d->n_offer; g++) {
            sum += a->share[b * d->n_offer + g];
            ck_assert(a->share[b * d->n_offer + g] <= 0 || d->per_s[b * d->n_offer + g] > 0);
        }
        ck_assert_double_eq_tol(sum, 1, 1e-9);
    }
    for (size_t g = 0; g < d->n_offer; g++) {
        double load = 0;

        for (size_t b = 0; b < d->n_bucket; b++)
            if (a->share[b * d->n_offer + g] > 0)
                load +=
                    d->rate_per_s[b] * a->share[b * d->n_offer + g] / d->per_s[b * d->n_offer + g];
        ck_assert_double_le(load, d->rho * (double)a->count[g] + 1e-6);
        ck_assert(d->offer[g].quota < 0 || a->count[g] <= d->offer[g].quota);
    }
    ck_assert_double_eq_tol(spot_fleet_cost(d, a->count), a->usd_per_h, 1e-9);
}

/* The whole program without a limit is the oracle. */
START_TEST(fleets_found_first_answer_all_and_no_reduction_changes_the_optimum)
{
    int n_greedy = 0, n_round = 0, n_none = 0, n_above = 0;

    for (uint64_t seed = 0; seed < 300; seed++) {
        bool is_in[DRAWN_OFFERS] = { true, true, true, true, true, true };
        struct spot_fleet_answer best, other;
        struct spot_fleet_relaxed relaxed;
        struct spot_err err;
        struct drawn d;
        int rc;

        draw(&d, seed);
        rc = spot_fleet_serve(&d.demand, 0, &best, &err);
        if (spot_fleet_first_greedy(&d.demand, &other)) {
            ck_assert_int_eq(rc, 0);
            check_answers(&d.demand, &other);
            ck_assert_double_ge(other.usd_per_h, best.usd_per_h - 1e-9);
            n_greedy++;
            n_above += other.usd_per_h > best.usd_per_h + 1e-9;
            spot_fleet_release(&other);
        }
        if (rc) {
            n_none++;
            ck_assert_int_eq(spot_fleet_serve(&d.demand, 1e6, &other, &err), -1);
            ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
            continue;
        }
        ck_assert(!spot_fleet_serve(&d.demand, 1e6, &other, &err) && other.is_proven);
        check_answers(&d.demand, &other);
        ck_assert_double_eq_tol(other.usd_per_h, best.usd_per_h, 1e-9);
        spot_fleet_release(&other);
        ck_assert_int_eq(spot_fleet_relax(&d.demand, is_in, INFINITY, &relaxed), SPOT_LP_OPTIMAL);
        ck_assert_double_le(relaxed.bound, best.usd_per_h + 1e-6);
        if (spot_fleet_first_round(&d.demand, relaxed.count, INFINITY, &other)) {
            n_round++;
            check_answers(&d.demand, &other);
            ck_assert_double_ge(other.usd_per_h, best.usd_per_h - 1e-9);
            spot_fleet_first_drop(&d.demand, INFINITY, &other);
            check_answers(&d.demand, &other);
            ck_assert_double_ge(other.usd_per_h, best.usd_per_h - 1e-9);
            spot_fleet_release(&other);
        }
        spot_fleet_relaxed_release(&relaxed);
        spot_fleet_release(&best);
    }
    ck_assert_int_gt(n_none, 20);
    ck_assert_int_gt(n_greedy, 100);
    ck_assert_int_gt(n_above, 50);
    ck_assert_int_eq(n_round, 300 - n_none);
}
END_TEST

/* ResNet-110 on CIFAR-100, as released. */
static const struct spot_dnn_type resnet_type[] = {
    { 0.918, 0.38356424328464145, 1024, 0.543236074270557, 1, 2, 0, 0 },
    { 0.3612, 1.2056615023474178, 1024, 1.3653333333333333, 1, 5, 0, 0 },
    { 0.684, 0.8485220786408034, 1024, 1.005893909626719, 2, 5, 0, 0 },
    { 1.5676, 0.8737945850541847, 2048, 1.0265664160401002, 4, 8, 0, 0 },
    { 2.16, 3.7297142210235408, 8192, 3.873286052009456, 8, 5, 0, 0 },
};
static const struct spot_dnn_job resnet = {
    11.5, 142, 1200, 0, .8, -1.92, { 876.5, -.2, 2507.6, 0, .5 }, false, resnet_type, 5, 0, 0
};

static int on_predicted(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_dnn_speed s;
    int64_t count[5];
    double x[7];

    (*(int *)user)++;
    for (size_t i = 0; i < 5; i++)
        ck_assert(!spot_csv_int(row, i, 0, 99, &count[i], err));
    for (size_t i = 0; i < 7; i++)
        ck_assert(!spot_csv_real(row, 5 + i, -1e9, 1e12, &x[i], err));
    ck_assert(!spot_dnn_predict(&resnet, count, x[0], &s));
    ck_assert_double_eq_tol(s.contention, x[1], 1e-9);
    ck_assert_double_eq_tol(s.norm_batch, x[2], 1e-9);
    ck_assert_double_eq_tol(s.samples_per_s, x[3], 1e-9 * x[3]);
    ck_assert_double_eq_tol(s.iterations, x[4], 1e-9);
    ck_assert_double_eq_tol(s.time_s, x[5], 1e-9 * x[5]);
    ck_assert_double_eq_tol(s.usd, x[6], 1e-9);
    return 0;
}

static int on_searched(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    double loss, deadline_s;
    struct spot_dnn_speed s;
    int64_t count[5];
    char text[64];

    (*(int *)user)++;
    ck_assert(!spot_csv_real(row, 0, 0, 9, &loss, err) &&
              !spot_csv_real(row, 1, 0, 1e9, &deadline_s, err));
    for (int way = 0; way < 2; way++) {
        const int rc =
            (way ? spot_dnn_best : spot_dnn_window)(&resnet, loss, deadline_s, count, &s);

        snprintf(text, sizeof(text), "%d %d %d %d %d", (int)count[0], (int)count[1], (int)count[2],
                 (int)count[3], (int)count[4]);
        if (*row->field[2 + way * 2]) /* of the optimum empty where there is none */
            ck_assert_str_eq(text, row->field[2 + way * 2]);
        ck_assert_int_eq(rc, strcmp(row->field[3 + way * 2], "nan") ? 0 : -1);
        if (!rc) {
            snprintf(text, sizeof(text), "%.6f", s.usd);
            ck_assert_str_eq(text, row->field[3 + way * 2]);
        }
    }
    return 0;
}

START_TEST(spotdnn_predicts_and_searches_as_released)
{
    static const char *const predicted[] = { "n0_p2.xl",   "n1_g4dn.4xl", "n2_g3.8xl",
                                             "n3_g3.16xl", "n4_p2.8xl",   "objloss",
                                             "P",          "norm_batch",  "speed_img_s",
                                             "iters",      "time_s",      "cost_usd" };
    static const char *const searched[] = { "objloss",     "objtime_s", "window_plan",
                                            "window_cost", "opt_plan",  "opt_cost" };
    static const int64_t one[] = { 1, 0, 0, 0, 0 };
    struct spot_dnn_speed s;
    struct spot_err err;
    FILE *in = fopen(SPOTDNN "predictor.csv", "r");
    int rows = 0;

    ck_assert(!spot_dnn_predict(&resnet, one, 0.7, &s));
    ck_assert_double_eq(s.iterations, 10638);
    ck_assert_double_eq_tol(s.usd, 1.47987, 1e-9);
    if (!in)
        return;
    ck_assert_msg(!spot_csv_read(in, "predictor", predicted, 12, on_predicted, &rows, NULL, &err),
                  "%s", err.msg);
    ck_assert_int_eq(rows, 60);
    fclose(in);
    in = fopen(SPOTDNN "exhaustive_vs_window.csv", "r");
    ck_assert_msg(!spot_csv_read(in, "search", searched, 6, on_searched, &rows, NULL, &err), "%s",
                  err.msg);
    ck_assert_int_eq(rows, 60 + 8);
    fclose(in);
}
END_TEST

START_TEST(the_paper_counts_what_the_code_leaves_out)
{
    struct spot_dnn_job paper = resnet;
    static const int64_t two[] = { 2, 0, 0, 0, 0 };
    struct spot_dnn_speed code, s;

    paper.is_paper = true;
    paper.gamma[3] = 0;
    ck_assert(!spot_dnn_predict(&resnet, two, 0.7, &code) &&
              !spot_dnn_predict(&paper, two, 0.7, &s));
    /* two equal workers: R = 0.7071 (Table VI) under the root */
    ck_assert_double_eq_tol((s.iterations + 876.5) / (code.iterations + 876.5), sqrt(sqrt(0.5)),
                            1e-3);
    paper.b_pcie = 10000;
    ck_assert(!spot_dnn_predict(&paper, two, 0.7, &s));
    ck_assert_double_lt(s.samples_per_s, code.samples_per_s);
}
END_TEST

START_TEST(spotdnn_best_is_the_best_of_a_plain_loop)
{
    for (int trial = 0; trial < 6; trial++) {
        const double loss = 0.65 + 0.05 * trial, deadline_s = 1500 + 700 * trial;
        struct spot_dnn_speed best, s;
        int64_t count[5], n[5];
        double least = INFINITY;
        int rc;

        for (int k = 1; k < 3 * 6 * 6 * 9 * 6; k++) {
            int left = k;

            for (int i = 0; i < 5; i++) {
                n[i] = left % (int)(resnet_type[i].quota + 1);
                left /= (int)(resnet_type[i].quota + 1);
            }
            if (!spot_dnn_predict(&resnet, n, loss, &s) && s.time_s <= deadline_s && s.usd < least)
                least = s.usd;
        }
        rc = spot_dnn_best(&resnet, loss, deadline_s, count, &best);
        ck_assert_int_eq(rc, isinf(least) ? -1 : 0);
        if (!rc)
            ck_assert_double_eq(best.usd, least);
    }
}
END_TEST

int main(void)
{
    return run_suite("fleet", add_tests(tcase_create("fleet")));
}

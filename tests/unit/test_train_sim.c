/* SPDX-License-Identifier: MIT */
/* lane: compute, first */
/* Goal: the simulator accounts for every machine-second, reproduces the published decisions, and
 * the clairvoyant optimum is one. Oracles: the published runs (where they are there), exhaustive
 * search over all decision sequences of short traces, and the accounting identities. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../trace_family.h"
#include "common/csv_reader.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "peers/registry.h"
#include "sim_rig.h"

#define GOLDEN "../shared/data/golden/parcae/"
enum { N_MAX = 700 };

struct fixture {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    struct spot_sim_train sim;
    int available[N_MAX];
    int truth[N_MAX][2], fastest[N_MAX][2], predict[N_MAX][2]; /* published D, P */
    struct spot_sim_row row[N_MAX];
};

static void load(struct fixture *f, const char *job, int n_max)
{
    memset(f, 0, sizeof(*f));
    f->sim = load_sim(job, n_max, &f->job, &f->throughput, &f->table);
    f->sim.available = f->available;
    f->sim.notice_loss_s = f->sim.notice_gain_s = 120;
}

static void unload(struct fixture *f)
{
    unload_sim(&f->job, &f->throughput, &f->table);
}

static double run(struct fixture *f, const char *policy)
{
    return samples_of(&f->sim, policy, f->row);
}

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct fixture *f = user;
    const size_t i = f->sim.n_interval++;

    (void)err;
    f->available[i] = atoi(row->field[0]);
    for (size_t k = 0; k < 2; k++) {
        f->fastest[i][k] = atoi(row->field[1 + k]);
        f->truth[i][k] = atoi(row->field[3 + k]);
        f->predict[i][k] = atoi(row->field[5 + k]);
    }
    return 0;
}

static const struct published {
    const char *job, *path;
    int n_truth, n_anchor;
    int n_predict; /* at least: their run adds losses from a generator that nobody seeded */
    double truth, nowcast, persistence, fastest; /* fraction of ideal */
} published[] = {
    { "bert", GOLDEN "liveput_res_bert_gbs1024_mbs8.csv", 683, 683, 650, .9726, .9697, .9503,
      .8975 },
    { "gpt-6.7b", GOLDEN "liveput_res_gpt-6.7b_gbs64_mbs1.csv", 614, 614, 500, .9234, .9168, .9011,
      .4800 },
    { "gpt-1.5b", GOLDEN "liveput_res_gpt-1.5b_gbs128_mbs1.csv", 0, 683, 0, .9460, .9385, .8866,
      .7778 },
};

START_TEST(reproduces_the_published_decisions_and_fractions)
{
    static const char *const want[] = { "available",        "throughput_opt_D", "throughput_opt_P",
                                        "liveput_truth_D",  "liveput_truth_P",  "liveput_predict_D",
                                        "liveput_predict_P" };
    const struct published *p = &published[_i];
    struct fixture *f = spot_xcalloc(1, sizeof(*f));
    struct spot_err err = { 0 };
    FILE *in = fopen(p->path, "re");
    double ideal;
    int n_predict = 0;

    if (!in) {
        free(f);
        return;
    }
    load(f, p->job, 32);
    f->table.is_released = true;
    ck_assert(!spot_csv_read(in, p->path, want, 7, on_row, f, NULL, &err));
    fclose(in);
    run(f, "throughput");
    for (size_t i = 0; i < f->sim.n_interval; i++)
        ck_assert(f->row[i].d == f->fastest[i][0] && f->row[i].p == f->fastest[i][1]);
    run(f, "parcae-truth");
    for (int i = 0; i < p->n_truth; i++)
        ck_assert(f->row[i].d == f->truth[i][0] && f->row[i].p == f->truth[i][1]);
    run(f, "parcae");
    for (int i = 0; i < p->n_anchor; i++)
        n_predict += f->row[i].d == f->predict[i][0] && f->row[i].p == f->predict[i][1];
    ck_assert_int_ge(n_predict, p->n_predict);
    f->sim.n_interval = (size_t)p->n_anchor;
    ideal = run(f, "ideal");
    ck_assert_double_le(fabs(run(f, "parcae-truth") / ideal - p->truth), 2e-4);
    ck_assert_double_le(fabs(run(f, "nowcast") / ideal - p->nowcast), 2e-4);
    ck_assert_double_le(fabs(run(f, "persistence") / ideal - p->persistence), 2e-4);
    ck_assert_double_le(fabs(run(f, "throughput") / ideal - p->fastest), 2e-4);
    unload(f);
    free(f);
}
END_TEST

/* A trace of bursts within low..high. */
static void make_trace(struct fixture *f, size_t n, int low, int high, uint64_t seed)
{
    struct spot_rng rng;
    int now = (low + high) / 2;

    spot_rng_init(&rng, seed, 0);
    f->sim.n_interval = n;
    for (size_t i = 0; i < n; i++) {
        if (spot_rng_unit(&rng) < 0.3)
            now += (int)spot_rng_below(&rng, 7) - 3;
        now = now < low ? low : now > high ? high : now;
        f->available[i] = now;
    }
}

START_TEST(every_machine_second_goes_to_one_class_under_every_policy)
{
    const struct spot_sim_policy *policy = spot_registry_at("train", (size_t)_i);
    struct fixture *f = spot_xcalloc(1, sizeof(*f));

    for (int sampled = 0; sampled < 2; sampled++) {
        load(f, "gpt-6.7b", 32);
        make_trace(f, is_long() ? 300 : 60, 4, 32, 3); /* falls below the minimum of 12 */
        f->sim.is_sampled = sampled;
        run(f, policy->name);
        for (size_t i = 0; i < f->sim.n_interval; i++) {
            const struct spot_sim_row *r = &f->row[i];
            double sum = 0;

            for (int c = 0; c < SPOT_SIM_CLASSES; c++) {
                ck_assert_msg(r->class_s[c] >= -1e-9, "%s: interval %zu", policy->name, i);
                sum += r->class_s[c];
            }
            ck_assert_msg(fabs(sum - r->available * f->sim.interval_s) < 1e-6,
                          "%s: interval %zu: %g of %g machine-seconds", policy->name, i, sum,
                          r->available * f->sim.interval_s);
            ck_assert(r->samples >= 0 && r->lost_samples >= 0);
            ck_assert(r->d * r->p <= r->available);
        }
        unload(f);
    }
    free(f);
}
END_TEST

/* All sequences of grids of a short trace, by recursion. */
static double search(struct fixture *f, size_t i, int grid, double carry_s)
{
    const int n = i ? f->available[i - 1] : 0, n2 = f->available[i];
    const int lost = n > n2 ? n - n2 : 0;
    const struct spot_cost_state state = { n, grid, carry_s };
    double best = 0;

    for (int to = 0; to < f->table.n_grid; to++) {
        double total, left, samples;

        if (f->table.d[to] * f->table.p[to] > n2)
            continue;
        total = i ? spot_cost_total_s(&f->table, &state, to,
                                      spot_cost_row(&f->table, n, grid, lost)[to])
                  : f->table.restart_s[2 * to + SPOT_CHANGE_ADD];
        left = total > 60 ? total - 60 : 0;
        samples = left > 0 ? 0 : f->table.samples_per_s[to] * (60 - total);
        if (i + 1 < f->sim.n_interval)
            samples += search(f, i + 1, to, left);
        best = samples > best ? samples : best;
    }
    return best;
}

START_TEST(optimal_is_the_best_of_all_decision_sequences)
{
    struct fixture *f = spot_xcalloc(1, sizeof(*f));

    load(f, "gpt-6.7b", 16); /* 5 grids: 5^6 sequences */
    for (uint64_t seed = 0; seed < (is_long() ? 20 : 6); seed++) {
        make_trace(f, 6, 12, 16, seed);
        ck_assert_double_le(fabs(run(f, "optimal") / search(f, 0, SPOT_GRID_NONE, 0) - 1), 1e-12);
    }
    unload(f);
    free(f);
}
END_TEST

START_TEST(no_policy_that_migrates_beats_optimal)
{
    static const char *const name[] = { "parcae-truth", "nowcast", "persistence", "spot",
                                        "throughput" };
    struct fixture *f = spot_xcalloc(1, sizeof(*f));

    for (uint64_t seed = 0; seed < (is_long() ? 4 : 2); seed++) {
        double best;

        load(f, seed % 2 ? "gpt-6.7b" : "vgg19", 32);
        make_trace(f, is_long() ? 200 : 60, 12, 32, seed);
        best = run(f, "optimal");
        for (size_t k = 0; k < sizeof(name) / sizeof(*name); k++)
            ck_assert_msg(run(f, name[k]) <= best * (1 + 1e-12), "%s, seed %d", name[k], (int)seed);
        unload(f);
    }
    free(f);
}
END_TEST

START_TEST(sampled_costs_average_to_the_expected_ones)
{
    enum { RUNS = 30 };
    struct fixture *f = spot_xcalloc(1, sizeof(*f));
    double expected, mean = 0, square = 0;

    load(f, _i ? "gpt-1.5b" : "bert", 32);
    f->job.cost.restore_s = _i ? 20 : 0; /* grids of two pipelines often lose a stage */
    make_trace(f, 60, 20, 32, 7);
    expected = run(f, "throughput"); /* decisions do not depend on who dies */
    ck_assert_double_gt(expected, 0);
    expected = run(f, "nowcast");
    f->sim.is_sampled = true;
    for (int k = 0; k < RUNS; k++) {
        double x;

        f->sim.seed = (uint64_t)k;
        x = run(f, "nowcast");
        mean += x / RUNS;
        square += x * x / RUNS;
    }
    ck_assert_double_le(fabs(mean - expected),
                        5 * sqrt(fmax(square - mean * mean, 0) / RUNS) + 1e-6 * expected);
    unload(f);
    free(f);
}
END_TEST

/* The remainder of a migration, a resume of 147 s say, is not made shorter by a change. */
START_TEST(a_change_never_shortens_an_unfinished_migration)
{
    struct fixture *f = spot_xcalloc(1, sizeof(*f));
    struct spot_rng rng;

    spot_rng_init(&rng, 3, 0);
    load(f, "gpt-6.7b", 32);
    for (int k = 0; k < 1000; k++) {
        const int from = (int)spot_rng_below(&rng, (uint64_t)f->table.n_grid);
        const int to = (int)spot_rng_below(&rng, (uint64_t)f->table.n_grid);
        const struct spot_cost_state s = { 32, from, 1 + 150 * spot_rng_unit(&rng) };
        const double cost = 1 + 60 * spot_rng_unit(&rng);
        double carried;

        f->table.carries_rest = false;
        ck_assert_double_eq(spot_cost_total_s(&f->table, &s, to, cost),
                            cost + f->table.restart_s[2 * to + SPOT_CHANGE_REMOVE]);
        f->table.carries_rest = true;
        carried = spot_cost_total_s(&f->table, &s, to, cost);
        ck_assert_double_ge(carried, fmax(cost, s.carry_s));
        ck_assert_double_le(carried, cost + s.carry_s);
        ck_assert_double_eq(spot_cost_total_s(&f->table, &s, to, 0), s.carry_s);
    }
    unload(f);
    free(f);
}
END_TEST

START_TEST(on_demand_rents_what_its_grid_uses)
{
    struct fixture *f = spot_xcalloc(1, sizeof(*f));

    load(f, "gpt-6.7b", 32); /* the fastest grid of 32 is 2x12 */
    f->sim.n_interval = 3;
    f->available[0] = 20;
    f->available[1] = f->available[2] = 32;
    run(f, "on-demand");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(f->row[i].available, 24);
        ck_assert_int_eq(f->row[i].spares, 0);
        ck_assert_double_eq_tol(f->row[i].usd, 24 * f->job.cost.on_demand_usd_per_h / 60, 1e-9);
    }
    unload(f);
    free(f);
}
END_TEST

static void load_family(struct fixture *f, const char *job, int nth, double notice_loss_s)
{
    const struct family_spec spec = family_nth(20261123, nth, 480);

    load(f, job, 32);
    f->table.carries_rest = true;
    f->sim.notice_loss_s = notice_loss_s;
    f->sim.notice_gain_s = 0;
    f->sim.n_interval = 480;
    family_draw(&spec, f->available);
}

/* To resume takes two intervals and a half; the program took a change in between for a way to drop
 * what was left, went from 1x14 to 1x15 to 1x13 and lost 2 % of the trace. */
START_TEST(what_is_left_of_a_resume_is_not_run_away_from)
{
    struct fixture *f = spot_xcalloc(1, sizeof(*f));
    double ideal, nowcast;

    load_family(f, "gpt-6.7b", 187, _i ? 120 : 0);
    ideal = run(f, "ideal");
    nowcast = run(f, "nowcast");
    ck_assert_double_gt(run(f, "spot"), nowcast - .0005 * ideal);
    unload(f);
    free(f);
}
END_TEST

/* Two levels 14 instances apart: a gain of 14 that was taken for one of eight found the program
 * waiting for 3x8, then on its way to 3x10; it lacked 0.36 and 0.17 % of these traces. What it
 * lacks now is .15 %, and on the other it leads. */
static const struct {
    const char *job;
    int nth;
    double notice_loss_s;
} levels[] = { { "gpt-1.5b", 349, 30 }, { "gpt-6.7b", 29, 0 } };

START_TEST(large_changes_are_expected_as_large_as_they_were)
{
    struct fixture *f = spot_xcalloc(1, sizeof(*f));
    double ideal, nowcast;

    load_family(f, levels[_i].job, levels[_i].nth, levels[_i].notice_loss_s);
    ideal = run(f, "ideal");
    nowcast = run(f, "nowcast");
    ck_assert_double_gt(run(f, "spot"), nowcast - .002 * ideal);
    unload(f);
    free(f);
}
END_TEST

START_TEST(a_run_is_a_function_of_its_inputs)
{
    struct fixture *f = spot_xcalloc(1, sizeof(*f));
    double first;

    load(f, "vgg19", 32);
    make_trace(f, 40, 8, 32, 2);
    first = run(f, "spot");
    ck_assert_double_eq(run(f, "spot"), first);
    unload(f);
    free(f);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    int n = 0;

    while (spot_registry_at("train", (size_t)n))
        n++;
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, reproduces_the_published_decisions_and_fractions, 0, 3);
    tcase_add_loop_test(tc, every_machine_second_goes_to_one_class_under_every_policy, 0, n);
    tcase_add_test(tc, optimal_is_the_best_of_all_decision_sequences);
    tcase_add_test(tc, no_policy_that_migrates_beats_optimal);
    tcase_add_loop_test(tc, sampled_costs_average_to_the_expected_ones, 0, 2);
    tcase_add_test(tc, a_change_never_shortens_an_unfinished_migration);
    tcase_add_test(tc, on_demand_rents_what_its_grid_uses);
    tcase_add_loop_test(tc, large_changes_are_expected_as_large_as_they_were, 0,
                        sizeof(levels) / sizeof(*levels));
    tcase_add_loop_test(tc, what_is_left_of_a_resume_is_not_run_away_from, 0, is_long() ? 2 : 1);
    tcase_add_test(tc, a_run_is_a_function_of_its_inputs);
    return run_case("train_sim", tc);
}

/* SPDX-License-Identifier: MIT */
/* Goal: a job that is guarded is never further behind the safe policy than its bound, whatever the
 * program does that it may follow. Oracles: the inequality of docs/design/06-liveput.md after every
 * interval, on every short trace of a few counts, with programs that ask for anything; and a search
 * for the trace and the program that hurt most. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../trace_family.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "sim/sim_policy.h"
#include "sim_rig.h"

enum { N_MAX = 16, COUNTS = 4, SHORT = 6, LONG = 40 };

struct fixture {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    struct spot_sim_train sim;
    int available[LONG], ask[LONG];
    struct spot_sim_program program;
    struct spot_sim_row shadow[LONG], safe[LONG], row[LONG];
    double fastest; /* samples per second */
};

/* Counts between which the fastest grid changes, and one on which the larger job cannot run. */
static const struct {
    const char *job;
    int count[COUNTS];
} played[] = { { "gpt-6.7b", { 11, 12, 14, 16 } }, { "vgg19", { 3, 6, 7, 8 } } };

static void load(struct fixture *f, const char *job, double notice_loss_s)
{
    memset(f, 0, sizeof(*f));
    f->sim = load_sim(job, N_MAX, &f->job, &f->throughput, &f->table);
    f->table.carries_rest = true;
    f->sim.available = f->available;
    f->sim.notice_loss_s = notice_loss_s;
    for (int g = 0; g < f->table.n_grid; g++)
        f->fastest = fmax(f->fastest, f->table.samples_per_s[g]);
}

static void unload(struct fixture *f)
{
    unload_sim(&f->job, &f->throughput, &f->table);
}

/* The grid that ask[] has, whatever the job runs. */
static int ask(struct spot_sim_program *program, size_t i, const struct spot_sim_state *state)
{
    const struct fixture *f =
        (const struct fixture *)(const void *)((const char *)program -
                                               offsetof(struct fixture, program));

    (void)state;
    return f->ask[i];
}

static void play(struct fixture *f)
{
    struct spot_err err = { 0 };

    f->program.ask = ask;
    ck_assert(!spot_sim_train_run(&f->sim, spot_sim_policy_find("nowcast", &err), f->safe, &err));
    for (size_t i = 0; i < f->sim.n_interval; i++)
        f->shadow[i] = f->row[i] = (struct spot_sim_row){ .available = f->safe[i].available,
                                                          .gained = f->safe[i].gained,
                                                          .lost = f->safe[i].lost };
    spot_sim_guard(&f->sim, &f->program, f->safe, f->shadow, f->row);
}

/* The budget, after the program's shadow led by lead_s at most, and one switch; where losses are
 * not told an interval more. */
static double bound_s(const struct fixture *f, double lead_s, double wait_s)
{
    return 10 + 3 * fmin(lead_s, 20) + wait_s + (f->sim.notice_loss_s > 0 ? 0 : f->sim.interval_s);
}

/* Plays the trace under the guard. Returns the most that it was behind, in seconds of the fastest
 * grid, after checking it against the bound everywhere. */
static double guard(struct fixture *f)
{
    double got = 0, safe_got = 0, program_got = 0, wait_s = 0, lead_s = 0, ideal = 0, most = 0;

    play(f);
    for (size_t i = 0; i < f->sim.n_interval; i++) {
        const struct spot_sim_row *r = &f->row[i];
        int d, p;

        ideal += spot_throughput_best(&f->throughput, r->available, &d, &p);
        got += r->samples;
        safe_got += f->safe[i].samples;
        program_got += f->shadow[i].samples;
        wait_s = fmax(wait_s, r->cost_s + (i ? f->row[i - 1].carry_s : 0));
        if (ideal > 0)
            lead_s = fmax(lead_s, (program_got - safe_got) / (ideal / (double)(i + 1)));
        most = fmax(most, (safe_got - got) / f->fastest);
        ck_assert_double_le((safe_got - got) / f->fastest,
                            bound_s(f, lead_s, wait_s) * (1 + 1e-12));
    }
    return most;
}

/* Asks for anything, now and then for what it asked for before. */
static void draw_asks(struct fixture *f, struct spot_rng *rng)
{
    for (size_t i = 0; i < f->sim.n_interval; i++)
        f->ask[i] = i && spot_rng_below(rng, 2)
                        ? f->ask[i - 1]
                        : (int)spot_rng_below(rng, (uint64_t)f->table.n_grid + 1) - 1;
}

START_TEST(no_short_trace_and_no_program_break_the_bound)
{
    static const double notice_s[] = { 0, 30 };
    const int programs = is_long() ? 20 : 1;
    struct fixture *f = spot_xcalloc(1, sizeof(*f));
    struct spot_rng rng;
    double most = 0;

    spot_rng_init(&rng, 17, (uint64_t)_i);
    load(f, played[_i / 2].job, notice_s[_i % 2]);
    f->sim.n_interval = SHORT;
    for (int trace = 0; trace < 1 << 2 * SHORT; trace++) {
        for (int i = 0; i < SHORT; i++)
            f->available[i] = played[_i / 2].count[trace >> 2 * i & 3];
        for (int k = 0; k < programs; k++) {
            draw_asks(f, &rng);
            most = fmax(most, guard(f));
        }
    }
    ck_assert_double_gt(most, 10); /* or nobody tried */
    unload(f);
    free(f);
}
END_TEST

/* Change a few counts and asks of the worst so far; keep what is worse. */
START_TEST(no_search_for_the_worst_breaks_the_bound)
{
    const int steps = is_long() ? 20000 : 700;
    static const double notice_s[] = { 0, 30 };
    struct fixture *f = spot_xcalloc(1, sizeof(*f));
    int count[LONG], ask[LONG];
    struct spot_rng rng;
    double most = 0;

    spot_rng_init(&rng, 23, (uint64_t)_i);
    load(f, played[_i / 2].job, notice_s[_i % 2]);
    f->sim.n_interval = LONG;
    for (int i = 0; i < LONG; i++)
        f->available[i] = N_MAX;
    draw_asks(f, &rng);
    for (int k = 0; k < steps; k++) {
        double x;

        memcpy(count, f->available, sizeof(count));
        memcpy(ask, f->ask, sizeof(ask));
        for (int change = 0; change < 3; change++) {
            const uint64_t i = spot_rng_below(&rng, LONG);

            if (spot_rng_below(&rng, 2))
                f->available[i] = played[_i / 2].count[spot_rng_below(&rng, COUNTS)];
            else
                f->ask[i] = (int)spot_rng_below(&rng, (uint64_t)f->table.n_grid + 1) - 1;
        }
        x = guard(f);
        if (x >= most) {
            most = x;
        } else {
            memcpy(f->available, count, sizeof(count));
            memcpy(f->ask, ask, sizeof(ask));
        }
    }
    ck_assert_double_gt(most, 15);
    unload(f);
    free(f);
}
END_TEST

/* The worst that `bench_regret gpt-6.7b search guarded 60 7` found with 30 s of notice: when the
 * job was allowed to be behind before it turned (it lacked 0.124 points), and by the rule as it is.
 */
static const struct {
    struct family_spec spec;
    double ideal, least, most; /* samples; points of ideal behind nowcast */
} found[] = {
    { { FAMILY_WALK, 3362569151192863174, 32, 480, 0.73891774968365154, 0.1159635735085098,
        0.18499536389663693, 0.016086447619395948, 13.384173333000346, 2.579348730558122 },
      314053,
      -1,
      0 },
    { { FAMILY_WALK, 12267036858681263003U, 32, 480, 1, 0.067763149227114627, 0.045254570455950244,
        0.029578207899427, 16.716076900950224, 1.6445250122023942 },
      319536,
      0,
      0.03 },
};

START_TEST(what_the_search_found_is_a_little)
{
    const int n = found[_i].spec.n;
    struct spot_sim_row *row = spot_xcalloc((size_t)n, sizeof(*row));
    int *count = spot_xcalloc((size_t)n, sizeof(*count));
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    struct spot_sim_train sim = load_sim("gpt-6.7b", 32, &job, &throughput, &table);
    double ideal, lacks;

    table.carries_rest = true;
    family_draw(&found[_i].spec, count);
    sim.available = count;
    sim.n_interval = (size_t)n;
    sim.notice_loss_s = 30;
    ideal = samples_of(&sim, "ideal", row);
    lacks = 100 * (samples_of(&sim, "nowcast", row) - samples_of(&sim, "guarded", row)) / ideal;
    ck_assert_double_eq_tol(ideal, found[_i].ideal, 1); /* or it is another trace */
    ck_assert_double_ge(lacks, found[_i].least);
    ck_assert_double_lt(lacks, found[_i].most);
    unload_sim(&job, &throughput, &table);
    free(count);
    free(row);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, no_short_trace_and_no_program_break_the_bound, 0, 4);
    tcase_add_loop_test(tc, no_search_for_the_worst_breaks_the_bound, 0, 4);
    tcase_add_loop_test(tc, what_the_search_found_is_a_little, 0, sizeof(found) / sizeof(*found));
    return run_case("guarded", tc);
}

/* SPDX-License-Identifier: MIT */
/* Goal: a limit on the risk of losing a stage holds now and in all that is expected of the future.
 * Oracles: every set of victims, and a plain recursion that may use allowed grids only. */
#include <math.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/liveput_dp.h"
#include "plan/train/train_score.h"
#include "suite.h"

enum { NOW = 8, N_MAX = 9 };

struct rig {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_change_dist dist;
    struct spot_change change[4];
    struct spot_train_question q;
    struct spot_cost_table table;
    struct spot_liveput_dp dp;
};

static void load(struct rig *r, double max_loss_prob)
{
    struct spot_err err = { 0 };

    memset(r, 0, sizeof(*r));
    ck_assert_msg(!spot_job_doc_load(&r->job, "examples/jobs/bert.json", &err), "%s", err.msg);
    ck_assert(!spot_throughput_init(&r->throughput, &r->job, N_MAX, SPOT_THROUGHPUT_BOTH, &err));
    r->change[0] = (struct spot_change){ 0, 0, 0.6 };
    r->change[1] = (struct spot_change){ 0, 1, 0.2 };
    r->change[2] = (struct spot_change){ 1, 1, 0.05 };
    r->change[3] = (struct spot_change){ 3, 0, 0.15 };
    r->dist = (struct spot_change_dist){
        .now = NOW, .cap = N_MAX, .interval_s = 60, .horizon = 3, .change = r->change, .n_change = 4
    };
    r->q = (struct spot_train_question){ .job = &r->job,
                                         .throughput = &r->throughput,
                                         .dist = &r->dist,
                                         .max_loss_prob = max_loss_prob,
                                         .horizon = 3 };
    spot_cost_table_init(&r->table, &r->job, &r->throughput);
    spot_liveput_dp_init(&r->dp, &r->table, 60, true);
    r->dp.n_context = 1;
}

static void unload(struct rig *r)
{
    spot_liveput_dp_release(&r->dp);
    spot_cost_table_release(&r->table);
    spot_throughput_release(&r->throughput);
    spot_job_doc_release(&r->job);
}

/* Some stage of D x P on n instances loses every replica: over all sets of victims. Of the NOW that
 * the forecast tells of, `held` are here. */
static double risk(const struct rig *r, int held, int n, int d, int p)
{
    double sum = 0;

    for (int i = 0; i < 4; i++) {
        double all = 0, gone = 0;

        for (unsigned from = 0; from < 1U << NOW; from++) { /* who is taken of those there are */
            const int here = __builtin_popcount(from & ((1U << held) - 1));
            const int lost = here < n ? here : n;
            double sets = 0, bad = 0;

            if (__builtin_popcount(from) != r->change[i].lost)
                continue;
            for (unsigned set = 0; set < 1U << n; set++) { /* which of the n */
                int worst = 0;

                if (__builtin_popcount(set) != lost)
                    continue;
                for (int k = 0; k < p && !worst; k++) {
                    int left = d;

                    for (int j = 0; j < d; j++)
                        left -= (int)(set >> (j * p + k) & 1);
                    worst = !left;
                }
                sets++;
                bad += worst;
            }
            all++;
            gone += bad / sets;
        }
        sum += r->change[i].prob * gone / all;
    }
    return sum;
}

START_TEST(what_is_shut_is_what_all_sets_of_victims_say)
{
    static const double limit[] = { 1e-9, 0.003, 0.02, 0.1 };
    struct rig r;
    int n_shut = 0;

    load(&r, limit[_i]);
    for (int held = NOW; held >= 4; held -= 4) {
        bool *is_shut = spot_train_shut(&r.q, held, &r.dp);

        for (int n = 1; n <= N_MAX; n++)
            for (int i = 0; i < r.dp.n_fit[n]; i++) {
                const int g = r.dp.by_size[i];
                const double x = risk(&r, held, n, r.table.d[g], r.table.p[g]);

                if (fabs(x - limit[_i]) > 1e-12) /* no rounding decides */
                    ck_assert_msg(is_shut[n * r.dp.n_grid + i] == (x > limit[_i]),
                                  "%d held, %dx%d of %d: %g", held, r.table.d[g], r.table.p[g], n,
                                  x);
                n_shut += is_shut[n * r.dp.n_grid + i];
            }
        free(is_shut);
    }
    ck_assert_int_gt(n_shut, 0);
    unload(&r);
}
END_TEST

START_TEST(without_a_limit_nothing_is_shut)
{
    struct rig r;

    load(&r, 1);
    ck_assert_ptr_null(spot_train_shut(&r.q, NOW, &r.dp));
    unload(&r);
}
END_TEST

/* Expected samples of h more intervals, only allowed grids taken, or nothing run. */
static double expectimax(struct rig *r, const struct spot_count_chain *chain, int n, int from,
                         int h)
{
    struct spot_count_step s;
    double sum = 0;

    if (!h)
        return 0;
    spot_count_chain_step(chain, n, 0, &s);
    for (int change = -n; change <= N_MAX - n; change++) {
        const double prob = change < 0 ? s.lost[-change] : change ? s.gained[change] : s.still;
        const double *cost = spot_cost_row(&r->table, n, from, change < 0 ? -change : 0);
        double best;

        if (prob <= 0)
            continue;
        best = expectimax(r, chain, n + change, SPOT_GRID_NONE, h - 1);
        for (int i = 0; i < r->dp.n_fit[n + change]; i++) {
            const int to = r->dp.by_size[i];

            if (!r->dp.is_shut || !r->dp.is_shut[(n + change) * r->dp.n_grid + i])
                best = fmax(best, r->table.samples_per_s[to] * (60 - cost[to]) +
                                      expectimax(r, chain, n + change, to, h - 1));
        }
        sum += prob * best;
    }
    return sum;
}

START_TEST(the_future_keeps_the_limit)
{
    enum { H = 2 };
    struct spot_count_chain chain;
    double with[2];

    for (int limited = 0; limited < 2; limited++) {
        struct rig r;

        load(&r, limited ? 0.02 : 1);
        r.dp.is_shut = spot_train_shut(&r.q, NOW, &r.dp);
        spot_train_chain(&r.dist, N_MAX, r.table.lost_max, &chain);
        spot_liveput_dp_finish(&r.dp, &chain, H);
        with[limited] = 0;
        for (int i = 0; i < r.dp.n_fit[NOW]; i++) {
            const double want = expectimax(&r, &chain, NOW, r.dp.by_size[i], H);
            const double got = spot_liveput_dp_value(&r.dp, 0, NOW)[i];

            if (r.dp.is_shut && r.dp.is_shut[NOW * r.dp.n_grid + i]) {
                ck_assert_double_le(got, -1e300);
                continue;
            }
            ck_assert_msg(fabs(got - want) <= 1e-9 * fabs(want), "%.12g, recursion %.12g", got,
                          want);
            with[limited] = fmax(with[limited], got);
        }
        unload(&r);
    }
    ck_assert_double_lt(with[1], with[0]); /* it costs something here */
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_is_shut_is_what_all_sets_of_victims_say, 0, 4);
    tcase_add_test(tc, without_a_limit_nothing_is_shut);
    tcase_add_test(tc, the_future_keeps_the_limit);
    return run_suite("train_risk", tc);
}

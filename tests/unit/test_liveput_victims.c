/* SPDX-License-Identifier: MIT */
/* Goal: who goes, where it is known at the notice, is used as the program says. Oracle: every set
 * of victims. */
#include <math.h>
#include <string.h>

#include "liveput_rig.h"

enum { LONG_S = 200 }; /* no change outlasts it */

/* The victims of each stage when the instances of `set` go: instance i < D * P is in stage i % P.
 */
static int stages_hit(const struct spot_cost_table *t, int from, unsigned set, int *dead)
{
    int worst = 0;

    memset(dead, 0, 8 * sizeof(*dead));
    for (int i = 0; i < t->d[from] * t->p[from]; i++)
        if (set >> i & 1 && ++dead[i % t->p[from]] > worst)
            worst = dead[i % t->p[from]];
    return worst;
}

/* Expected samples of h more intervals, over every set of victims. The choice may depend on how
 * many pipelines survive (knows = 1), on everything (2), or on the number of victims alone (0). */
static double recourse(struct spot_cost_table *t, const struct spot_count_chain *chain, int n,
                       int from, int context, int h, int knows);

static double recourse_after(struct spot_cost_table *t, const struct spot_count_chain *chain, int n,
                             int from, int change, int context, int h, int knows)
{
    const int lost = change < 0 ? -change : 0, next = spot_count_chain_after(context, change);
    double sum = 0, all = 0, then[16];

    for (int to = 0; to < t->n_grid; to++)
        then[to] =
            fits(t, to, n + change) ? recourse(t, chain, n + change, to, next, h - 1, knows) : 0;
    for (unsigned known = 0; known < (knows == 2 ? 1U << n : knows ? 8U : 1U); known++) {
        double best = -INFINITY, sets = 0;

        for (int to = 0; to < t->n_grid; to++) {
            double x = 0, n_set = 0;

            for (unsigned set = 0; set < 1U << n; set++) {
                int dead[8];
                const unsigned worst = (unsigned)stages_hit(t, from, set, dead);

                if (__builtin_popcount(set) != lost ||
                    (knows && (knows == 2 ? set : worst) != known))
                    continue;
                n_set++;
                x += t->samples_per_s[to] * (LONG_S - spot_cost_drawn_s(t, from, lost, dead, to));
            }
            sets = n_set;
            if (fits(t, to, n + change) && n_set > 0)
                best = fmax(best, x + n_set * then[to]);
        }
        all += sets;
        sum += sets > 0 ? best : 0;
    }
    return sum / all;
}

static double recourse(struct spot_cost_table *t, const struct spot_count_chain *chain, int n,
                       int from, int context, int h, int knows)
{
    struct spot_count_step s;
    double sum = 0;

    if (!h)
        return 0;
    spot_count_chain_step(chain, n, context, &s);
    for (int change = -2; change <= 2; change++) {
        const double prob = change < 0 ? s.lost[-change] : change ? s.gained[change] : s.still;

        if (prob > 0)
            sum += prob * recourse_after(t, chain, n, from, change, context, h, knows);
    }
    return sum;
}

/* Losses of up to two from four or more: the count stays within 2..6. */
static void rough_chain(struct spot_count_chain *chain)
{
    static const int way[] = { 6, 4, 5, 5, 3, 4, 6, 5 };

    spot_count_chain_init(chain, 6);
    for (int k = 0; k < 80; k++)
        spot_count_chain_observe(chain, way[k % 8], way[(k + 1) % 8]);
    memset(chain->size, 0, sizeof(chain->size));
    chain->size[0][1] = chain->size[0][2] = chain->size[1][1] = chain->size[1][2] = 1;
}

/* Six instances, transfers that cost more than restarts: what died matters. */
static void load_costly(struct fixture *f, double restore_s)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_job_doc_parse(&f->job, rig_job_text, strlen(rig_job_text), "t", &err), "%s",
                  err.msg);
    f->job.cost.rendezvous_s = 1;
    f->job.cost.restore_s = restore_s;
    f->job.cost.p2p[0].y = 0.4;
    ck_assert(!spot_throughput_init(&f->throughput, &f->job, 6, SPOT_THROUGHPUT_BOTH, &err));
    spot_cost_table_init(&f->table, &f->job, &f->throughput);
}

START_TEST(outcomes_are_all_sets_of_victims_by_what_survives)
{
    struct fixture f;

    load_costly(&f, 3);
    for (int from = 0; from < f.table.n_grid; from++)
        for (int n = f.table.d[from] * f.table.p[from]; n <= 6; n++)
            for (int lost = 0; lost <= n; lost++) {
                const struct spot_cost_outcomes *o = spot_cost_outcomes(&f.table, n, from, lost);
                const double *mean = spot_cost_row(&f.table, n, from, lost);

                for (int to = 0; to < f.table.n_grid; to++) {
                    double sets[8] = { 0 }, cost[8] = { 0 }, all = 0, sum = 0, ours = 0;

                    for (unsigned set = 0; set < 1U << n; set++) {
                        int dead[8], m;
                        double c;

                        if (__builtin_popcount(set) != lost)
                            continue;
                        m = f.table.d[from] - stages_hit(&f.table, from, set, dead);
                        c = spot_cost_drawn_s(&f.table, from, lost, dead, to);
                        ck_assert_double_le(c, spot_cost_limit_s(&f.table, lost));
                        sets[m]++;
                        cost[m] += c;
                        all++;
                        sum += c;
                    }
                    ck_assert_msg(fabs(mean[to] - sum / all) <= 1e-9 * (1 + mean[to]),
                                  "%dx%d -> %dx%d, %d of %d lost: %.9g s, enumeration %.9g",
                                  f.table.d[from], f.table.p[from], f.table.d[to], f.table.p[to],
                                  lost, n, mean[to], sum / all);
                    for (int i = 0; i < o->n; i++) {
                        const int m = o->pipelines[i];
                        const double c = spot_cost_outcome_s(&f.table, o, i, to);

                        ck_assert_double_le(fabs(o->prob[i] - sets[m] / all), 1e-12);
                        ck_assert_double_le(fabs(c - cost[m] / sets[m]), 1e-9 * (1 + c));
                        ours += o->prob[i];
                    }
                    ck_assert_double_le(fabs(ours - 1), 1e-12);
                }
            }
    unload(&f);
}
END_TEST

START_TEST(who_goes_is_used_as_enumeration_uses_it)
{
    enum { H = 2 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    double gain = 0;

    load_costly(&f, _i ? 20 : 0);
    rough_chain(&chain);
    spot_liveput_dp_init(&dp, &f.table, LONG_S, true);
    dp.sees_victims = true;
    spot_liveput_dp_finish(&dp, &chain, H);
    for (int from = 0; from < f.table.n_grid; from++) {
        const double want = recourse(&f.table, &chain, 6, from, 3, H, 1);
        const double blind = recourse(&f.table, &chain, 6, from, 3, H, 0);
        const double all = recourse(&f.table, &chain, 6, from, 3, H, 2);
        const double got = spot_liveput_dp_value(&dp, 3, 6)[dp.rank[from]];

        ck_assert_msg(fabs(got - want) <= 1e-9 * fabs(want), "grid %d: %.12g, enumeration %.12g",
                      from, got, want);
        ck_assert_double_le(blind, want * (1 + 1e-12));
        ck_assert_double_le(want, all * (1 + 1e-12));
        gain = fmax(gain, want / blind - 1);
    }
    ck_assert_double_gt(gain, 1e-4); /* it does matter here */
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

START_TEST(the_choice_at_a_notice_is_the_best_for_those_who_go)
{
    static const int change[] = { -2, 1 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    int differ = 0;

    load_costly(&f, 0);
    rough_chain(&chain);
    spot_liveput_dp_init(&dp, &f.table, LONG_S, true);
    dp.sees_victims = true;
    spot_liveput_dp_finish(&dp, &chain, 1);
    for (int from = 0; from < f.table.n_grid; from++)
        for (unsigned set = 0; set < 1U << 6; set++) {
            double cost[16], best = -INFINITY;
            int dead[8], first = -1;
            struct spot_liveput_choice c;

            if (__builtin_popcount(set) != 2)
                continue;
            stages_hit(&f.table, from, set, dead);
            for (int to = 0; to < f.table.n_grid; to++) {
                double x;

                cost[to] = spot_cost_drawn_s(&f.table, from, 2, dead, to);
                if (!fits(&f.table, to, 4))
                    continue;
                x = f.table.samples_per_s[to] * (LONG_S - cost[to]) +
                    recourse_after(&f.table, &chain, 4, to, 1, 0, 2, 1);
                if (x > best) {
                    best = x;
                    first = to;
                }
            }
            c = spot_liveput_dp_after(&dp, &(struct spot_liveput_view){ .n = 6,
                                                                        .from = from,
                                                                        .context = 3,
                                                                        .n_known = 2,
                                                                        .change = change,
                                                                        .cost_s = cost });
            ck_assert_msg(fabs(c.samples - best) <= 1e-9 * best, "%.12g, enumeration %.12g",
                          c.samples, best);
            differ += c.grid != first;
        }
    ck_assert_int_eq(differ, 0);
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, outcomes_are_all_sets_of_victims_by_what_survives);
    tcase_add_loop_test(tc, who_goes_is_used_as_enumeration_uses_it, 0, 2);
    tcase_add_test(tc, the_choice_at_a_notice_is_the_best_for_those_who_go);
    return run_case("liveput_victims", tc);
}

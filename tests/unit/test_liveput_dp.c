/* SPDX-License-Identifier: MIT */
/* Goal: both optimisers find what exhaustive search finds. Oracles: all sequences of grids for the
 * published recurrence, and a plain recursion over all events and grids for the stochastic
 * program. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/liveput_inner.h"
#include "plan/parcae.h"
#include "suite.h"

/* Two layers, cheap and dear changes; 4 instances: grids 1x1 .. 4x1, 1x2, 2x2. */
static const char job_text[] =
    "{\"schema\":\"spot.job/1\",\"name\":\"t\",\"kind\":\"train\",\"global_batch\":8,"
    "\"layers\":[{\"params\":40},{\"params\":60}],"
    "\"cost\":{\"move_byte_per_param\":1,\"p2p\":[{\"byte\":1,\"s\":0.1}],\"process_s\":2,"
    "\"rendezvous_s\":7,\"add_per_group_s\":1,\"remove_per_group_s\":0.3},"
    "\"profile\":[{\"D\":1,\"P\":1,\"step_s\":8},{\"D\":2,\"P\":1,\"step_s\":4.2},"
    "{\"D\":3,\"P\":1,\"step_s\":3.1},{\"D\":1,\"P\":2,\"step_s\":4.6},"
    "{\"D\":2,\"P\":2,\"step_s\":2.4}]}";

struct fixture {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
};

static void load(struct fixture *f)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_job_doc_parse(&f->job, job_text, strlen(job_text), "t", &err), "%s",
                  err.msg);
    ck_assert(!spot_throughput_init(&f->throughput, &f->job, 4, SPOT_THROUGHPUT_TABLE, &err));
    spot_cost_table_init(&f->table, &f->job, &f->throughput);
}

static void unload(struct fixture *f)
{
    spot_cost_table_release(&f->table);
    spot_throughput_release(&f->throughput);
    spot_job_doc_release(&f->job);
}

static bool fits(const struct spot_cost_table *t, int g, int n)
{
    return t->d[g] * t->p[g] <= n;
}

/* Best samples of a known future, every sequence tried. */
static double best_known(struct spot_cost_table *t, int n, int from, double carry_s,
                         const int *change, int n_step, double interval_s)
{
    const struct spot_parcae_state state = { n, from, carry_s };
    const int n2 = n_step ? n + change[0] : 0, lost = n_step && change[0] < 0 ? -change[0] : 0;
    double best = 0;

    for (int to = 0; n_step && to < t->n_grid; to++) {
        double total, left, x;

        if (!fits(t, to, n2))
            continue;
        total = spot_parcae_total_s(t, &state, to, spot_cost_row(t, n, from, lost)[to]);
        left = total > interval_s ? total - interval_s : 0;
        x = (left > 0 ? 0 : t->samples_per_s[to] * (interval_s - total)) +
            best_known(t, n2, to, left, change + 1, n_step - 1, interval_s);
        best = x > best ? x : best;
    }
    return best;
}

START_TEST(the_published_optimiser_finds_the_best_sequence)
{
    static const int future[][4] = { { 0, -1, 0, 0 }, { -1, -1, 1, 2 },  { 0, 0, -3, 3 },
                                     { -2, 0, 1, 0 }, { 0, -1, -1, -1 }, { -3, 1, 1, 1 } };
    struct fixture f;

    load(&f);
    for (size_t k = 0; k < sizeof(future) / sizeof(*future); k++)
        for (int from = 0; from < f.table.n_grid; from++) {
            int gained[4], lost[4];
            double value = 0, best;

            for (int i = 0; i < 4; i++) {
                gained[i] = future[k][i] > 0 ? future[k][i] : 0;
                lost[i] = future[k][i] < 0 ? -future[k][i] : 0;
            }
            /* intervals long enough that no migration outlasts one: then the recurrence with one
             * value per state is exact */
            spot_parcae_choose(&f.table, &(struct spot_parcae_state){ 4, from, 0 }, gained, lost, 4,
                               60, &value);
            best = best_known(&f.table, 4, from, 0, future[k], 4, 60);
            ck_assert_double_le(fabs(value - best), 1e-9 * best);
        }
    unload(&f);
}
END_TEST

/* Expected samples of h more intervals, all events and grids tried. */
static double expectimax(struct spot_cost_table *t, const struct spot_count_chain *chain, int n,
                         int from, int context, int h, bool has_notice);

static double after(struct spot_cost_table *t, const struct spot_count_chain *chain, int n,
                    int from, int change, int to, int context, int h, bool has_notice)
{
    const double cost = spot_cost_row(t, n, from, change < 0 ? -change : 0)[to];

    return t->samples_per_s[to] * (60 - cost) + expectimax(t, chain, n + change, to,
                                                           spot_count_chain_after(context, change),
                                                           h - 1, has_notice);
}

/* `to` cut to what fits: here P = 1 or 2 and n >= 2, so fewer pipelines always fit. */
static int cut(const struct spot_cost_table *t, int to, int n)
{
    return fits(t, to, n) ? to : spot_cost_grid(t, n / t->p[to], t->p[to]);
}

static double expectimax(struct spot_cost_table *t, const struct spot_count_chain *chain, int n,
                         int from, int context, int h, bool has_notice)
{
    struct spot_count_step s;
    double sum = 0, best = -INFINITY;

    if (!h)
        return 0;
    spot_count_chain_step(chain, n, context, &s);
    for (int change = -SPOT_CHAIN_SIZE_MAX; has_notice && change <= SPOT_CHAIN_SIZE_MAX; change++) {
        const double prob = change < 0 ? s.lost[-change] : change ? s.gained[change] : s.still;

        if (prob <= 0)
            continue;
        best = -INFINITY;
        for (int to = 0; to < t->n_grid; to++)
            if (fits(t, to, n + change))
                best = fmax(best, after(t, chain, n, from, change, to, context, h, has_notice));
        sum += prob * best;
    }
    if (has_notice)
        return sum;
    for (int to = 0; to < t->n_grid; to++) {
        sum = 0;
        for (int change = -SPOT_CHAIN_SIZE_MAX; change <= SPOT_CHAIN_SIZE_MAX; change++) {
            const double prob = change < 0 ? s.lost[-change] : change ? s.gained[change] : s.still;

            if (prob > 0)
                sum += prob * after(t, chain, n, from, change, cut(t, to, n + change), context, h,
                                    has_notice);
        }
        best = fmax(best, sum);
    }
    return best;
}

/* Losses of 1 from 3 or more only: the count stays within 2..4. */
static void gentle_chain(struct spot_count_chain *chain)
{
    spot_count_chain_init(chain, 4);
    for (int k = 0; k < 40; k++) {
        spot_count_chain_observe(chain, 4, 3);
        spot_count_chain_observe(chain, 3, 3);
        spot_count_chain_observe(chain, 3, 4);
        spot_count_chain_observe(chain, 4, 4);
    }
    memset(chain->size, 0, sizeof(chain->size));
    chain->size[0][1] = chain->size[1][1] = 1;
}

START_TEST(the_program_agrees_with_a_plain_recursion)
{
    enum { H = 2 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;

    load(&f);
    gentle_chain(&chain);
    spot_liveput_dp_init(&dp, &f.table, 60, _i == 0);
    dp.is_finite = true;
    ck_assert_int_eq(spot_liveput_dp_solve(&dp, &chain, H), H);
    for (int from = 0; from < f.table.n_grid; from++)
        for (int c = 0; c < SPOT_CHAIN_CONTEXTS; c++) {
            const double want = expectimax(&f.table, &chain, 4, from, c, H, _i == 0);
            const double got =
                dp.value[((size_t)c * 5 + 4) * (size_t)(dp.n_grid + 1) + (size_t)dp.rank[from]];

            ck_assert_msg(fabs(got - want) <= 1e-9 * fabs(want),
                          "notice %d, grid %d, context %d: %.12g, recursion %.12g", _i == 0, from,
                          c, got, want);
        }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

/* --- who goes is known at the notice --- */

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
static void load_dear(struct fixture *f, double restore_s)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_job_doc_parse(&f->job, job_text, strlen(job_text), "t", &err), "%s",
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

    load_dear(&f, 3);
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
                        const double c = o->cost_s[i * f.table.n_grid + to];

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

    load_dear(&f, _i ? 20 : 0);
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

    load_dear(&f, 0);
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

/* Samples of a known future and then nothing; every sequence tried, to suspend included. */
static double best_way(struct spot_cost_table *t, int n, int from, double carry_s,
                       const int *change, int n_known, double interval_s, int *first)
{
    const struct spot_parcae_state state = { n, from, carry_s };
    const int n2 = n_known ? n + change[0] : 0, lost = n_known && change[0] < 0 ? -change[0] : 0;
    double best;
    int next;

    if (!n_known)
        return 0;
    *first = SPOT_GRID_NONE;
    best = best_way(t, n2, SPOT_GRID_NONE, 0, change + 1, n_known - 1, interval_s, &next);
    for (int to = 0; to < t->n_grid; to++) {
        double total, left, x;

        if (!fits(t, to, n2))
            continue;
        total = spot_parcae_total_s(t, &state, to, spot_cost_row(t, n, from, lost)[to]);
        left = total > interval_s ? total - interval_s : 0;
        x = (left > 0 ? 0 : t->samples_per_s[to] * (interval_s - total)) +
            best_way(t, n2, to, left, change + 1, n_known - 1, interval_s, &next);
        if (x > best) {
            best = x;
            *first = to;
        }
    }
    return best;
}

START_TEST(known_changes_are_planned_for_exactly_even_where_migrations_outlast_intervals)
{
    static const int future[][4] = { { 0, -1, 0, 0 }, { -1, -1, 1, 1 },  { 0, 0, -3, 3 },
                                     { -2, 0, 1, 0 }, { 0, -1, -1, -1 }, { -1, 0, 0, 0 } };
    static const double interval_s[] = { 4, 11, 60 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;

    load(&f);
    spot_count_chain_init(&chain, 4);
    spot_liveput_dp_init(&dp, &f.table, interval_s[_i], true);
    spot_liveput_dp_solve(&dp, &chain, 50); /* to be forgotten */
    spot_liveput_dp_finish(&dp, &chain, 0);
    for (size_t k = 0; k < sizeof(future) / sizeof(*future); k++)
        for (int from = 0; from < f.table.n_grid; from++)
            for (int n_known = 1; n_known <= 4; n_known++)
                for (double carry_s = 0; carry_s < 9; carry_s += 4) {
                    const struct spot_liveput_view view = { .n = 4,
                                                            .from = from,
                                                            .carry_s = carry_s,
                                                            .n_known = n_known,
                                                            .change = future[k] };
                    const struct spot_liveput_choice c = spot_liveput_dp_after(&dp, &view);
                    int first;
                    const double best = best_way(&f.table, 4, from, carry_s, future[k], n_known,
                                                 interval_s[_i], &first);

                    ck_assert_msg(fabs(c.samples - best) <= 1e-9 * fmax(1, fabs(best)),
                                  "future %zu, grid %d, %d known, %g s left: %.12g, search %.12g",
                                  k, from, n_known, carry_s, c.samples, best);
                }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

/* --- what an interval does not finish --- */

/* Expected samples of h more intervals with carry_s of a migration unfinished: the published rules
 * for what is left, all events and grids tried, to suspend included. */
struct owing {
    struct spot_cost_table *t;
    const struct spot_count_chain *chain;
    double interval_s;
    bool has_notice;
};

static double owing_max(const struct owing *o, int n, int from, double carry_s, int context, int h);

static double owing_after(const struct owing *o, int n, int from, double carry_s, int change,
                          int to, int context, int h)
{
    const struct spot_parcae_state state = { n, from, carry_s };
    const int next = spot_count_chain_after(context, change);
    double total;

    if (to == SPOT_GRID_NONE)
        return owing_max(o, n + change, to, 0, next, h - 1);
    total = spot_parcae_total_s(o->t, &state, to,
                                spot_cost_row(o->t, n, from, change < 0 ? -change : 0)[to]);
    return o->t->samples_per_s[to] * fmax(0, o->interval_s - total) +
           owing_max(o, n + change, to, fmax(0, total - o->interval_s), next, h - 1);
}

static double owing_max(const struct owing *o, int n, int from, double carry_s, int context, int h)
{
    struct spot_count_step s;
    double best[16] = { 0 }, most = -INFINITY, sum = 0;

    if (!h)
        return 0;
    spot_count_chain_step(o->chain, n, context, &s);
    for (int change = -1; change <= 1; change++) {
        const double prob = change < 0 ? s.lost[1] : change ? s.gained[1] : s.still;
        double here = -INFINITY;

        for (int to = SPOT_GRID_NONE; prob > 0 && to < o->t->n_grid; to++) {
            const int grid = to == SPOT_GRID_NONE ? to : cut(o->t, to, n + change);
            const double x = owing_after(o, n, from, carry_s, change, grid, context, h);

            if (to == grid)
                here = fmax(here, x);
            best[to + 1] += prob * x;
        }
        sum += prob > 0 ? prob * here : 0;
    }
    for (int i = 0; i <= o->t->n_grid; i++)
        most = fmax(most, best[i]);
    return o->has_notice ? sum : most;
}

START_TEST(what_an_interval_does_not_finish_is_in_the_state)
{
    enum { H = 3 };
    static const double interval_s[] = { 4, 7, 11, 14 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    const struct owing o = { &f.table, &chain, interval_s[_i / 2], _i % 2 };
    double matters = 0, coarse = 0;

    load(&f);
    gentle_chain(&chain);
    for (int fine = 0; fine < 2; fine++) {
        spot_liveput_dp_init(&dp, &f.table, o.interval_s, o.has_notice);
        dp.node_per_span = fine ? 257 : dp.node_per_span;
        spot_liveput_dp_finish(&dp, &chain, H);
        for (int from = 0; from < f.table.n_grid; from++)
            for (int c = 0; c < SPOT_CHAIN_CONTEXTS; c += 4)
                for (int k = 0; k * 0.37 * o.interval_s <= fmin(dp.left_max_s, 8 * o.interval_s);
                     k++) {
                    const double left_s = k * 0.37 * o.interval_s;
                    const double want = owing_max(&o, 4, from, left_s, c, H);
                    const double free = owing_max(&o, 4, from, 0, c, H);
                    const double got = spot_liveput_owing(&dp, spot_liveput_dp_value(&dp, c, 4),
                                                          dp.rank[from], left_s);
                    const double off = fabs(got - want) / free;

                    if (!fine)
                        coarse = fmax(coarse, off);
                    else
                        ck_assert_msg(off <= 1e-3, "grid %d, context %d, %g s: %.9g, want %.9g",
                                      from, c, left_s, got, want);
                    if (left_s > 0)
                        matters = fmax(matters, (free - want) / free);
                }
        spot_liveput_dp_release(&dp);
    }
    ck_assert_double_gt(matters, 0.1);
    ck_assert_double_le(coarse, 0.03); /* of three intervals */
    unload(&f);
}
END_TEST

START_TEST(the_choice_with_a_migration_unfinished_is_the_best)
{
    enum { H = 2 };
    static const double interval_s[] = { 5, 9 };
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    const struct owing o = { &f.table, &chain, interval_s[_i], false };

    load(&f);
    gentle_chain(&chain);
    spot_liveput_dp_init(&dp, &f.table, o.interval_s, false);
    dp.node_per_span = 257;
    spot_liveput_dp_finish(&dp, &chain, H);
    for (int from = 0; from < f.table.n_grid; from++)
        for (double left_s = 0; left_s < 16; left_s += 1.7) {
            struct spot_count_step step;
            struct spot_liveput_choice c;
            double want;

            spot_count_chain_step(&chain, 4, 2, &step);
            c = spot_liveput_dp_before(&dp, 4, from, left_s, 2, &step);
            want = owing_max(&o, 4, from, left_s, 2, H + 1);
            ck_assert_msg(fabs(c.samples - want) <= 1e-3 * want, "grid %d, %g s: %.9g, want %.9g",
                          from, left_s, c.samples, want);
        }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

START_TEST(a_run_that_ends_has_the_values_of_a_plain_recursion)
{
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;

    load(&f);
    gentle_chain(&chain);
    spot_liveput_dp_init(&dp, &f.table, 60, true);
    spot_liveput_dp_solve(&dp, &chain, 50);
    for (int left = 2; left >= 0; left--) {
        spot_liveput_dp_finish(&dp, &chain, left);
        for (int from = 0; from < f.table.n_grid; from++) {
            const double want = expectimax(&f.table, &chain, 4, from, 3, left, true);
            const double got =
                dp.value[((size_t)3 * 5 + 4) * (size_t)(dp.n_grid + 1) + (size_t)dp.rank[from]];

            ck_assert_double_le(fabs(got - want), 1e-9 * fabs(want));
        }
    }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

START_TEST(a_still_world_keeps_the_fastest_grid_and_never_pays)
{
    const int none = 0;
    struct fixture f;
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;
    struct spot_count_step still = { .still = 1 };
    int d, p;

    load(&f);
    spot_count_chain_init(&chain, 4);
    spot_count_chain_fix(&chain, &still);
    spot_liveput_dp_init(&dp, &f.table, 60, true);
    spot_liveput_dp_solve(&dp, &chain, 200);
    spot_throughput_best(&f.throughput, 4, &d, &p);
    for (int from = 0; from < f.table.n_grid; from++) {
        const struct spot_liveput_choice c = spot_liveput_dp_after(
            &dp,
            &(struct spot_liveput_view){ .n = 4, .from = from, .n_known = 1, .change = &none });

        ck_assert_int_eq(c.grid, spot_cost_grid(&f.table, d, p)); /* a change pays off for ever */
    }
    spot_liveput_dp_release(&dp);
    unload(&f);
}
END_TEST

START_TEST(the_chain_is_a_law_in_every_context_and_count)
{
    struct spot_count_chain chain;

    spot_count_chain_init(&chain, 12);
    for (int k = 0; k < 200; k++)
        spot_count_chain_observe(&chain, 6 + k * 7 % 5, 6 + (k + 1) * 7 % 5);
    for (int c = 0; c < SPOT_CHAIN_CONTEXTS; c++)
        for (int n = 0; n <= 12; n++) {
            struct spot_count_step s;
            double sum;

            spot_count_chain_step(&chain, n, c, &s);
            sum = s.still;
            for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
                ck_assert(s.lost[k] >= 0 && s.gained[k] >= 0);
                ck_assert(k <= n || s.lost[k] == 0);
                ck_assert(n + k <= 12 || s.gained[k] == 0);
                sum += s.lost[k] + s.gained[k];
            }
            ck_assert_double_le(fabs(sum - 1), 1e-12);
        }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, the_published_optimiser_finds_the_best_sequence);
    tcase_add_loop_test(tc, the_program_agrees_with_a_plain_recursion, 0, 2);
    tcase_add_loop_test(
        tc, known_changes_are_planned_for_exactly_even_where_migrations_outlast_intervals, 0, 3);
    tcase_add_loop_test(tc, what_an_interval_does_not_finish_is_in_the_state, 0, 8);
    tcase_add_loop_test(tc, the_choice_with_a_migration_unfinished_is_the_best, 0, 2);
    tcase_add_test(tc, outcomes_are_all_sets_of_victims_by_what_survives);
    tcase_add_loop_test(tc, who_goes_is_used_as_enumeration_uses_it, 0, 2);
    tcase_add_test(tc, the_choice_at_a_notice_is_the_best_for_those_who_go);
    tcase_add_test(tc, a_run_that_ends_has_the_values_of_a_plain_recursion);
    tcase_add_test(tc, a_still_world_keeps_the_fastest_grid_and_never_pays);
    tcase_add_test(tc, the_chain_is_a_law_in_every_context_and_count);
    return run_case("liveput_dp", tc);
}

/* SPDX-License-Identifier: MIT */
/* Goal: expected migration costs are exact. Oracle: every loss vector of a grid, priced by the
 * published rules one by one and weighted by the number of victim sets that give it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "model/job_doc.h"
#include "plan/train/repartition.h"
#include "suite.h"

static double choose(int n, int k)
{
    double c = k < 0 || k > n ? 0 : 1;

    for (int i = 1; i <= k; i++)
        c = c * (n - k + i) / i;
    return c;
}

/* Sums over loss vectors, by victims. */
struct oracle {
    const struct spot_migrate_cost *cost;
    int d, p, to, most, j_max;
    bool is_same;
    int lost[64];
    double value[65], hold[65];
};

static void enumerate(struct oracle *o, int k, int used, double ways)
{
    if (k == o->p) {
        int holds = 0;
        const double v =
            o->is_same ? spot_repartition_same_drawn(o->cost, o->d, o->p, o->to, o->lost, &holds)
                       : spot_repartition_other_drawn(o->cost, o->d, o->p, o->to, o->lost);

        o->value[used] += ways * v;
        o->hold[used] += ways * holds;
        return;
    }
    for (int a = 0; a <= o->d && a <= o->most && used + a <= o->j_max; a++) {
        o->lost[k] = a;
        enumerate(o, k + 1, used + a, ways * choose(o->d, a));
    }
}

static void agree_up_to(const struct spot_migrate_cost *cost, int d, int p, int to, bool is_same,
                        int j_max, int most)
{
    struct oracle o = { .cost = cost, .d = d, .p = p, .to = to, .most = most, .is_same = is_same };
    double hold[65] = { 0 }, got[65];

    o.j_max = j_max < d * p ? j_max : d * p;
    enumerate(&o, 0, 0, 1);
    if (is_same)
        spot_repartition_same(cost, d, p, to, most, o.j_max, hold, got);
    else
        spot_repartition_other(cost, d, p, to, most, o.j_max, got);
    for (int j = 0; j <= o.j_max; j++) {
        const double all = choose(d * p, j);

        ck_assert_msg(fabs(got[j] - o.value[j] / all) <= 1e-9 * (1 + got[j]) &&
                          fabs(hold[j] - o.hold[j] / all) <= 1e-9,
                      "%dx%d -> %s%d, %d victims, %d of a stage: %.12g, enumeration gives %.12g", d,
                      p, is_same ? "D=" : "P=", to, j, most, got[j], o.value[j] / all);
    }
}

static void agree(const struct spot_migrate_cost *cost, int d, int p, int to, bool is_same,
                  int j_max)
{
    for (int most = 0; most <= d; most++)
        agree_up_to(cost, d, p, to, is_same, j_max, most);
}

static const char *const job_name[] = { "bert", "gpt-6.7b", "resnet152", "vgg19", "gpt-1.5b" };

static void load(struct spot_job_doc *job, const char *name)
{
    struct spot_err err = { 0 };
    char path[64];

    snprintf(path, sizeof(path), "examples/jobs/%s.json", name);
    ck_assert_msg(!spot_job_doc_load(job, path, &err), "%s", err.msg);
}

START_TEST(agrees_with_enumeration_of_every_loss_vector_on_small_grids)
{
    struct spot_job_doc job;
    struct spot_migrate_cost cost;

    load(&job, job_name[_i]);
    spot_migrate_cost_init(&cost, &job, 10);
    for (int d = 1; d <= 5; d++)
        for (int p = 1; d * p <= 10; p++) {
            for (int keep = 1; keep <= d + 2; keep++)
                agree(&cost, d, p, keep, true, 10);
            for (int p2 = 1; p2 <= 8 && p <= 8; p2++)
                if (p2 != p)
                    agree(&cost, d, p, p2, false, 10);
        }
    spot_migrate_cost_release(&cost);
    spot_job_doc_release(&job);
}
END_TEST

/* Parcae's release, instance by instance: stage k takes the unused survivor that lacks least, the
 * lowest of those that lack alike; what the last one lacks is fetched. */
static double by_node(const struct spot_migrate_cost *cost, int size, int p, int p2, unsigned used)
{
    double lacks = 0;

    for (int k = 0; k < p2; k++) {
        double most = -1;
        int at = -1;

        for (int i = 0; i < size; i++) {
            const double overlap = spot_migrate_overlap(cost, p, i % p, p2, k);

            if (!(used >> i & 1) && overlap > most) {
                most = overlap;
                at = i;
            }
        }
        if (at < 0)
            break;
        used |= 1U << at;
        lacks = cost->params[p2 * cost->p_max + k] - most;
    }
    return spot_migrate_p2p_s(&cost->job->cost, lacks * cost->job->cost.move_byte_per_param);
}

/* The most victims of a stage. */
static int worst_of(unsigned dead, int size, int p)
{
    int worst = 0;

    for (int q = 0; q < p; q++) {
        int n = 0;

        for (int i = q; i < size; i += p)
            n += dead >> i & 1;
        worst = n > worst ? n : worst;
    }
    return worst;
}

static void agree_by_node(const struct spot_migrate_cost *cost, int d, int p, int p2, int most,
                          int j_max)
{
    double value[16] = { 0 }, got[16];
    int n[16] = { 0 };

    for (unsigned dead = 0; dead < 1U << d * p; dead++) {
        const int j = __builtin_popcount(dead);

        if (j > j_max)
            continue;
        n[j]++;
        value[j] += worst_of(dead, d * p, p) <= most ? by_node(cost, d * p, p, p2, dead) : 0;
    }
    spot_repartition_by_node(cost, d, p, p2, most, j_max, got);
    for (int j = 0; j <= j_max; j++)
        ck_assert_msg(fabs(got[j] - value[j] / n[j]) <= 1e-9 * (1 + got[j]),
                      "%dx%d -> P=%d, %d victims, %d of a stage: %.12g, enumeration gives %.12g", d,
                      p, p2, j, most, got[j], value[j] / n[j]);
}

START_TEST(ties_by_instance_agree_with_every_set_of_victims)
{
    struct spot_job_doc job;
    struct spot_migrate_cost cost;

    load(&job, job_name[_i]);
    spot_migrate_cost_init(&cost, &job, 14);
    for (int d = 1; d <= 5; d++)
        for (int p = 1; d * p <= 10; p++)
            for (int p2 = 1; p2 <= 12; p2++)
                for (int most = 0; p2 != p && most <= d; most++)
                    agree_by_node(&cost, d, p, p2, most, d * p);
    agree_by_node(&cost, 2, 7, 9, 2, 6);
    agree_by_node(&cost, 7, 2, 5, 7, 6);
    agree_by_node(&cost, 3, 4, 9, 1, 6);
    spot_migrate_cost_release(&cost);
    spot_job_doc_release(&job);
}
END_TEST

START_TEST(agrees_with_enumeration_up_to_six_victims_on_real_grids)
{
    static const int grid[][3] = { { 2, 12, 13 }, { 2, 13, 12 }, { 4, 7, 9 },  { 4, 6, 13 },
                                   { 1, 16, 12 }, { 3, 9, 6 },   { 1, 12, 16 } };
    struct spot_job_doc job;
    struct spot_migrate_cost cost;

    load(&job, "gpt-1.5b");
    spot_migrate_cost_init(&cost, &job, 32);
    for (size_t i = 0; i < sizeof(grid) / sizeof(*grid); i++) {
        agree(&cost, grid[i][0], grid[i][1], grid[i][2], false, 5);
        for (int keep = 1; keep <= grid[i][0] + 1; keep++)
            agree(&cost, grid[i][0], grid[i][1], keep, true, 5);
    }
    spot_migrate_cost_release(&cost);
    spot_job_doc_release(&job);
}
END_TEST

/* With as many stages as layers the last stage is empty, and layers may have no parameters. */
START_TEST(stages_without_parameters_have_survivors_too)
{
    static const char *const layers[] = {
        "{\"params\":40},{\"params\":60}",
        "{\"params\":9},{\"params\":0},{\"params\":0},{\"params\":0},{\"params\":5}",
        "{\"params\":0},{\"params\":0},{\"params\":7},{\"params\":3}",
    };
    const int n_layer[] = { 2, 5, 4 };
    struct spot_err err = { 0 };
    struct spot_migrate_cost cost;
    struct spot_job_doc job;
    char text[512];

    snprintf(text, sizeof(text),
             "{\"schema\":\"spot.job/1\",\"name\":\"t\",\"kind\":\"train\",\"global_batch\":2,"
             "\"layers\":[%s],"
             "\"cost\":{\"move_byte_per_param\":1,\"p2p\":[{\"byte\":1,\"s\":1}]}}",
             layers[_i]);
    ck_assert_msg(!spot_job_doc_parse(&job, text, strlen(text), "t", &err), "%s", err.msg);
    spot_migrate_cost_init(&cost, &job, n_layer[_i]);
    for (int d = 1; d <= 3; d++)
        for (int p = 1; p <= n_layer[_i]; p++)
            for (int p2 = 1; p2 <= n_layer[_i]; p2++)
                if (p2 != p)
                    agree(&cost, d, p, p2, false, 10);
    spot_migrate_cost_release(&cost);
    spot_job_doc_release(&job);
}
END_TEST

/* The whole of a stage's life: one victim of 1 x 2 that keeps 1: the dead stage is fetched. */
START_TEST(prices_a_hand_made_case)
{
    static const char text[] =
        "{\"schema\":\"spot.job/1\",\"name\":\"t\",\"kind\":\"train\",\"global_batch\":2,"
        "\"layers\":[{\"params\":10},{\"params\":30},{\"params\":5}],"
        "\"cost\":{\"move_byte_per_param\":1,\"p2p\":[{\"byte\":1,\"s\":1}]}}";
    struct spot_err err = { 0 };
    struct spot_migrate_cost cost;
    struct spot_job_doc job;
    double hold[3], move[3], fetch[3];

    ck_assert_msg(!spot_job_doc_parse(&job, text, strlen(text), "t", &err), "%s", err.msg);
    spot_migrate_cost_init(&cost, &job, 3);
    /* P = 2: L - 1 = 2, chunk 1, first stage 2 layers: 40 and 5 parameters. */
    ck_assert_double_eq(cost.params[2 * 3], 40);
    ck_assert_double_eq(cost.params[2 * 3 + 1], 5);
    spot_repartition_same(&cost, 1, 2, 1, 1, 2, hold, move);
    ck_assert_double_eq(hold[0], 1);
    ck_assert_double_eq(hold[1], 0);
    ck_assert_double_eq(move[1], (40 + 5) / 2.0);
    ck_assert_double_eq(move[2], 45);
    /* 1 x 2 -> P = 1: the first stage's holder lacks 5; if it died the other lacks 40. */
    spot_repartition_other(&cost, 1, 2, 1, 1, 2, fetch);
    ck_assert_double_eq(fetch[0], 5);
    ck_assert_double_eq(fetch[1], (5 + 40) / 2.0);
    ck_assert_double_eq(fetch[2], 0); /* nobody is left to fetch: new instances get a broadcast */
    spot_migrate_cost_release(&cost);
    spot_job_doc_release(&job);
}
END_TEST

/* One pipeline of P unequal stages to one stage, which takes the largest survivor: with the stages
 * in the order of their size, the first i dead and the next alive are C(P - i - 1, j - i) victim
 * sets. So many stages stand in one window that their 2^P loss vectors could not be told one by
 * one. */
START_TEST(a_wide_window_is_seen_stage_by_stage)
{
    enum { P = 60 };
    struct spot_migrate_cost cost;
    struct spot_err err = { 0 };
    struct spot_job_doc job;
    double fetch[P + 1], sum = 0;
    char text[8192];
    int n = snprintf(text, sizeof(text),
                     "{\"schema\":\"spot.job/1\",\"name\":\"t\",\"kind\":\"train\","
                     "\"global_batch\":2,\"cost\":{\"move_byte_per_param\":1,"
                     "\"p2p\":[{\"byte\":1,\"s\":1}]},\"layers\":[");

    for (int k = 0; k <= P; sum += k ? 99 + k : 0, k++) /* the first stage has two layers */
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%s{\"params\":%d}", k ? "," : "",
                      k ? 99 + k : 0);
    snprintf(text + n, sizeof(text) - (size_t)n, "]}");
    ck_assert_msg(!spot_job_doc_parse(&job, text, strlen(text), "t", &err), "%s", err.msg);
    spot_migrate_cost_init(&cost, &job, P);
    spot_repartition_other(&cost, 1, P, 1, 1, P, fetch);
    for (int j = 0; j <= P; j++) {
        double want = 0;

        for (int i = 0; i <= j && i < P; i++) /* the last stage is the largest */
            want += choose(P - i - 1, j - i) / choose(P, j) * (sum - (100 + P - 1 - i));
        ck_assert_double_eq_tol(fetch[j], want, 1e-9 * sum);
    }
    spot_migrate_cost_release(&cost);
    spot_job_doc_release(&job);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("exact");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, agrees_with_enumeration_of_every_loss_vector_on_small_grids, 0,
                        sizeof(job_name) / sizeof(*job_name));
    tcase_add_loop_test(tc, ties_by_instance_agree_with_every_set_of_victims, 0,
                        sizeof(job_name) / sizeof(*job_name));
    tcase_add_loop_test(tc, stages_without_parameters_have_survivors_too, 0, 3);
    add_tests(tc);
    return run_case("repartition", tc);
}

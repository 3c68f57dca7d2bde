/* SPDX-License-Identifier: MIT */
/* Goal: a score that starts from the last placement's, and from senders that decided before, is
 * that of a placement looked at alone; what is given up on is worse than the limit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/rng.h"
#include "plan/migration/migration_inner.h"
#include "suite.h"

enum { NODES_MAX = 24, PLACEMENTS = 60 };

static int below(struct spot_rng *rng, int n)
{
    return (int)spot_rng_below(rng, (uint64_t)n);
}

/* A grid of at most n positions; the old one says where they are. */
static void draw_layout(struct spot_layout *layout, struct spot_rng *rng, int n, bool is_old)
{
    const int m = 1 << below(rng, 3), p = 1 + below(rng, n / m), d = 1 + below(rng, n / m / p);
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    fprintf(out,
            "{\"schema\":\"spot.layout/1\",\"model\":{\"layers\":24,\"width\":256,\"ffn\":1024,"
            "\"heads\":8,\"kv_heads\":8,\"head_dim\":32,\"vocab\":5000,\"positions\":128},"
            "\"components\":[{\"name\":\"w\",\"byte_per_param\":2},"
            "{\"name\":\"o\",\"byte_per_param\":12,\"zero\":%s}],"
            "\"grid\":{\"D\":%d,\"P\":%d,\"M\":%d},\"place\":[",
            below(rng, 2) ? "true" : "false", d, p, m);
    for (int q = 0; q < d * p * m && is_old; q++)
        fprintf(out, "%s{\"node\":\"n%d\",\"d\":%d,\"p\":%d,\"m\":%d}", q ? "," : "", q, q / m / p,
                q / m % p, q % m);
    fputs("]}", out);
    fclose(out);
    ck_assert_msg(!spot_layout_parse(layout, text, n_byte, "layout", &err), "%s", err.msg);
    free(text);
}

/* All nodes, in two zones, traffic between which costs in half of the cases. */
static void draw_cluster(struct spot_cluster *cluster, struct spot_rng *rng, int n)
{
    const bool has_price = below(rng, 2);
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    fputs("{\"schema\":\"spot.cluster/1\",\"nodes\":[", out);
    for (int i = 0; i < n; i++)
        fprintf(out,
                "%s{\"node\":\"n%d\",\"zone\":\"%c\",\"out_byte_per_s\":%de6,"
                "\"in_byte_per_s\":%de6}",
                i ? "," : "", i, 'a' + below(rng, 2), 1 + below(rng, 3), 1 + below(rng, 9));
    fputs("]", out);
    if (has_price)
        fputs(",\"egress\":[{\"from\":\"a\",\"to\":\"b\",\"usd_per_gb\":0.25}]", out);
    fputs("}", out);
    fclose(out);
    ck_assert_msg(!spot_cluster_parse(cluster, text, n_byte, "cluster", &err), "%s", err.msg);
    free(text);
}

static void shuffle(struct spot_rng *rng, int *node, int n)
{
    for (int i = n - 1; i > 0; i--) {
        const int k = below(rng, i + 1), old = node[i];

        node[i] = node[k];
        node[k] = old;
    }
}

static void check_score(struct spot_migration *s, struct spot_migration *alone, const int *node,
                        double give_up_s)
{
    struct spot_place_score want, got;

    memset(alone->cuts_of, 0, (size_t)(alone->n_set + alone->n_node) * sizeof *alone->cuts_of);
    want = spot_migration_score(alone, node, INFINITY);
    got = spot_migration_score(s, node, give_up_s);
    ck_assert_int_eq(got.byte, want.byte);
    ck_assert_int_eq(got.n_touched, want.n_touched);
    if (want.makespan_s > give_up_s * (1 + 1e-11)) {
        ck_assert_double_gt(got.makespan_s, give_up_s);
        return;
    }
    ck_assert_double_le(fabs(got.makespan_s - want.makespan_s), 1e-12 * want.makespan_s);
    ck_assert_double_le(fabs(got.usd - want.usd), 1e-6 * want.usd + 1e-9);
}

/* Exchanges of a few nodes, each from the last, and now and then all of them. */
static void walk(struct spot_rng *rng, struct spot_migration *s, struct spot_migration *alone,
                 int n)
{
    int node[NODES_MAX];
    double least_s = INFINITY;

    for (int i = 0; i < n; i++)
        node[i] = i;
    spot_migration_steps_begin(s);
    ck_assert_ptr_nonnull(s->steps);
    for (int k = 0; k < PLACEMENTS; k++) {
        const int i = below(rng, n);

        shuffle(rng, node + i, k % 20 ? (i + 3 < n ? 3 : n - i) : n - i);
        check_score(s, alone, node, k % 3 ? least_s : INFINITY);
        least_s = fmin(least_s, spot_migration_score(alone, node, INFINITY).makespan_s);
    }
    spot_migration_steps_end(s);
}

START_TEST(scores_in_a_row_equal_scores_alone)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 41, 0);
    for (int k = 0; k < 150; k++) {
        const int n = 8 + below(&rng, NODES_MAX - 7);
        struct spot_layout from, to;
        struct spot_cluster cluster;
        struct spot_migration_problem p;
        struct spot_migration s, alone;

        draw_layout(&from, &rng, n, true);
        draw_layout(&to, &rng, n, false);
        draw_cluster(&cluster, &rng, n);

        ck_assert_int_eq(spot_migration_of_layouts(&p, &from, &to, &cluster, NULL), 0);
        ck_assert_int_eq(spot_migration_init(&s, &p, NULL), 0);
        ck_assert_int_eq(spot_migration_init(&alone, &p, NULL), 0);
        walk(&rng, &s, &alone, n);
        spot_migration_release(&s), spot_migration_release(&alone);
        spot_migration_problem_release(&p);
        spot_layout_release(&from), spot_layout_release(&to), spot_cluster_release(&cluster);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("scores");

    tcase_add_test(tcase, scores_in_a_row_equal_scores_alone);
    return run_suite("migration_score", tcase);
}

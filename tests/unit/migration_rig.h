/* SPDX-License-Identifier: MIT */
/* migration_rig.h - random cases of the planner of moves, and their answers by enumeration: every
 * placement, and for each the time by Hall's condition over every set of senders. */
#ifndef SPOT_TEST_MIGRATION_RIG_H
#define SPOT_TEST_MIGRATION_RIG_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "plan/migration.h"

static inline void solve(struct spot_migration_problem *problem, const struct spot_layout *from,
                         const struct spot_layout *to, const struct spot_cluster *cluster,
                         struct spot_migration_plan *plan)
{
    struct spot_err err;

    ck_assert_msg(!spot_migration_of_layouts(problem, from, to, cluster, &err) &&
                      !spot_migrate(problem, plan, &err),
                  "%s", err.msg);
}

static inline int below(struct spot_rng *rng, int n)
{
    return (int)spot_rng_below(rng, (uint64_t)n);
}

struct random_case {
    struct spot_migration_problem problem;
    struct spot_layout from, to;
    struct spot_cluster cluster;
};

/* D x P x M with at most n positions. */
static inline void draw_grid(struct spot_rng *rng, int n, int *grid)
{
    do {
        grid[0] = 1 + below(rng, n);
        grid[1] = 1 + below(rng, 3);
        grid[2] = 1 + below(rng, 3);
    } while (grid[0] * grid[1] * grid[2] > n);
}

static inline void parse_random_layout(struct spot_layout *layout, struct spot_rng *rng,
                                       const int *model, int n_position, bool is_old)
{
    int grid[3];
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    draw_grid(rng, n_position, grid);
    fprintf(out,
            "{\"schema\":\"spot.layout/1\",\"model\":{\"layers\":%d,\"width\":12,\"ffn\":%d,"
            "\"heads\":4,\"kv_heads\":%d,\"head_dim\":3,\"vocab\":%d,\"positions\":%d,"
            "\"tied\":%s,\"bias\":%s,\"gated\":%s},"
            "\"components\":[{\"name\":\"w16\",\"byte_per_param\":2},"
            "{\"name\":\"m\",\"byte_per_param\":4,\"zero\":%s}],"
            "\"grid\":{\"D\":%d,\"P\":%d,\"M\":%d},\"partition\":\"%s\","
            "\"kv\":[{\"name\":\"a\",\"d\":%d,\"tokens\":40}],\"place\":[",
            model[0], model[1], model[2], model[3], model[4], model[5] & 1 ? "true" : "false",
            model[5] & 2 ? "true" : "false", model[5] & 4 ? "true" : "false",
            below(rng, 2) ? "true" : "false", grid[0], grid[1], grid[2],
            below(rng, 2) ? "equal" : "balanced", below(rng, grid[0]));
    for (int q = 0; q < grid[0] * grid[1] * grid[2] && is_old; q++)
        fprintf(out, "%s{\"node\":\"n%d\",\"d\":%d,\"p\":%d,\"m\":%d}", q ? "," : "", q,
                q / grid[2] / grid[1], q / grid[2] % grid[1], q % grid[2]);
    fputs("]}", out);
    fclose(out);
    ck_assert_msg(!spot_layout_parse(layout, text, n_byte, "random", &err), "%s", err.msg);
    free(text);
}

static inline void draw_case(struct random_case *c, struct spot_rng *rng)
{
    static const int kv_heads[] = { 1, 2, 4 };
    const int n = 1 + below(rng, 5), n_able = 1 + below(rng, n), slots = 1 + (below(rng, 4) == 0);
    const int model[] = { 3 + below(rng, 4),  5 + below(rng, 20), kv_heads[below(rng, 3)],
                          7 + below(rng, 30), below(rng, 5),      below(rng, 8) };
    const bool is_even = below(rng, 2);
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    parse_random_layout(&c->from, rng, model, 5, true);
    parse_random_layout(&c->to, rng, model, n_able * slots < 5 ? n_able * slots : 5, false);
    fputs("{\"schema\":\"spot.cluster/1\",\"nodes\":[", out);
    for (int i = 0; i < n; i++)
        fprintf(out,
                "%s{\"node\":\"n%d\",\"out_byte_per_s\":%d,\"in_byte_per_s\":%d,"
                "\"slots\":%d,\"leaving\":%s}",
                i ? "," : "", i, is_even ? 1000 : 500 + below(rng, 1000),
                is_even ? 1000 : 500 + below(rng, 1000), slots, i < n_able ? "false" : "true");
    fputs("]}", out);
    fclose(out);
    ck_assert_msg(!spot_cluster_parse(&c->cluster, text, n_byte, "random", &err), "%s", err.msg);
    free(text);
}

/* Bit i: node n<i> of the old places has the part. */
static inline unsigned holders_of(const struct random_case *c, const struct spot_reshard_part *part)
{
    unsigned set = 0;

    for (int h = 0; h < part->n_holder; h++)
        if ((size_t)part->holder[h] < c->cluster.n_node)
            set |= 1U << part->holder[h];
    return set;
}

/* Hall: for every set of nodes, what only they hold must leave through their links. */
static inline double brute_time(const struct random_case *c, const struct spot_reshard *r,
                                const int *node)
{
    double in[8] = { 0 }, only[256] = { 0 }, time_s = 0;
    const unsigned n = (unsigned)c->cluster.n_node;
    const bool is_shared = c->cluster.links && !strcmp(c->cluster.links, "shared");

    for (size_t k = 0; k < r->n_part; k++) {
        const unsigned holders = holders_of(c, &r->part[k]);
        unsigned wants = 0;

        for (int w = 0; w < r->part[k].n_want; w++)
            wants |= 1U << node[r->part[k].want[w]];
        for (unsigned i = 0; i < n && holders; i++)
            if (wants & ~holders & 1U << i) {
                in[i] += (double)r->part[k].byte;
                only[holders] += (double)r->part[k].byte;
            }
    }
    for (unsigned i = 0; i < n; i++)
        time_s = fmax(time_s, in[i] / c->cluster.node[i].in_byte_per_s);
    for (unsigned set = 1; set < 1U << n; set++) {
        double byte = 0, rate = 0;

        for (unsigned sub = set; sub; sub = (sub - 1) & set)
            byte += only[sub];
        for (unsigned i = 0; i < n; i++) {
            const struct spot_cluster_node *at = &c->cluster.node[i];

            rate += set >> i & 1 ? at->out_byte_per_s : 0;
            if (is_shared && set >> i & 1)
                byte += in[i] / at->in_byte_per_s * at->out_byte_per_s;
        }
        time_s = fmax(time_s, byte / rate);
    }
    return time_s;
}

/* Position q of those that share a node, n at a time, starts such a group, or joins it. */
static inline double brute_least(const struct random_case *c, const struct spot_reshard *r,
                                 int together, int q, int *node)
{
    double least = INFINITY;

    if (q == r->n_new)
        return brute_time(c, r, node);
    for (int i = 0; i < (int)c->cluster.n_node; i++) {
        int n = 0;

        for (int p = 0; p < q; p++)
            n += node[p] == i;
        node[q] = i;
        if (!c->cluster.node[i].is_leaving && n < c->cluster.node[i].slots &&
            (q % together == 0 || node[q - 1] == i))
            least = fmin(least, brute_least(c, r, together, q + 1, node));
    }
    return least;
}

/* Where the move of part k to a node that begins at byte `at` ends; `at` if there is none. */
static inline int64_t continue_from(const struct spot_migration_plan *plan, size_t k, int to,
                                    int64_t at)
{
    for (size_t i = 0; i < plan->n_move; i++)
        if (plan->move[i].part == k && plan->move[i].to == to && plan->move[i].begin == at)
            return plan->move[i].end;
    return at;
}

/* Every byte that a position's node lacks arrives exactly once, from a node that has it. */
static inline void check_moves(const struct random_case *c, const struct spot_migration_plan *plan)
{
    const struct spot_reshard *r = &c->problem.reshard;
    int64_t total = 0;

    for (size_t k = 0; k < plan->n_move; k++) {
        const struct spot_migration_move *m = &plan->move[k];

        ck_assert(holders_of(c, &r->part[m->part]) >> m->from & 1);
        ck_assert(m->begin < m->end && m->end <= r->part[m->part].byte);
        total += m->end - m->begin;
    }
    ck_assert_int_eq(total, plan->total_byte);
    for (size_t k = 0; k < r->n_part; k++) {
        const unsigned holders = holders_of(c, &r->part[k]);

        for (int w = 0; w < r->part[k].n_want; w++) {
            const int to = plan->node_of_position[r->part[k].want[w]];
            int64_t got = 0, next;

            while ((next = continue_from(plan, k, to, got)) > got)
                got = next;
            ck_assert_int_eq(got, holders && !(holders >> to & 1) ? r->part[k].byte : 0);
        }
    }
}

#endif /* SPOT_TEST_MIGRATION_RIG_H */

/* SPDX-License-Identifier: MIT */
/* bench_place - how far plans of random changes of grid are from their lower bounds: the
 * distribution of the gap, the share proved optimal, and CPU time; and the same of changes as a job
 * that runs asks about them: whole bundles, in a hurry.
 *
 * usage: bench_place [CASES [NODES_MIN NODES_MAX [SEED]]]   (default 1000 9 16 1)
 *        bench_place live [CASES [SEED]]                    (default 200 1) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/rng.h"
#include "plan/migration.h"

enum links { EQUAL, MIXED, IN_AND_OUT, LINKS };
static const char *const links_name[LINKS] = { "equal", "1-3 GB/s", "1-3 in, out" };

static int below(struct spot_rng *rng, int n)
{
    return (int)spot_rng_below(rng, (uint64_t)n);
}

/* D x P x M of at most n and more than 2 / 3 of n positions. */
static void draw_grid(struct spot_rng *rng, int n, int *grid)
{
    do {
        grid[0] = 1 + below(rng, n);
        grid[1] = 1 + below(rng, n < 12 ? n : 12);
        grid[2] = 1 << below(rng, 3);
    } while (grid[0] * grid[1] * grid[2] > n || 3 * grid[0] * grid[1] * grid[2] <= 2 * n);
}

static void make_layout(struct spot_layout *layout, struct spot_rng *rng, int n, bool zero,
                        bool is_old)
{
    int grid[3];
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    draw_grid(rng, n, grid);
    fprintf(out,
            "{\"schema\":\"spot.layout/1\",\"model\":{\"layers\":24,\"width\":2048,\"ffn\":8192,"
            "\"heads\":16,\"kv_heads\":16,\"head_dim\":128,\"vocab\":50257,\"positions\":1024},"
            "\"components\":[{\"name\":\"w16\",\"byte_per_param\":2},"
            "{\"name\":\"master\",\"byte_per_param\":12,\"zero\":%s}],"
            "\"grid\":{\"D\":%d,\"P\":%d,\"M\":%d},\"place\":[",
            zero ? "true" : "false", grid[0], grid[1], grid[2]);
    for (int q = 0; q < grid[0] * grid[1] * grid[2] && is_old; q++)
        fprintf(out, "%s{\"node\":\"n%d\",\"d\":%d,\"p\":%d,\"m\":%d}", q ? "," : "", q,
                q / grid[2] / grid[1], q / grid[2] % grid[1], q % grid[2]);
    fputs("]}", out);
    fclose(out);
    if (spot_layout_parse(layout, text, n_byte, "layout", &err)) {
        fprintf(stderr, "bench_place: %s\n", err.msg);
        exit(1);
    }
    free(text);
}

/* Nodes 0..n-1 without the n_lost that are gone. */
static void make_cluster(struct spot_cluster *cluster, struct spot_rng *rng, int n, int n_lost,
                         enum links links)
{
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    fputs("{\"schema\":\"spot.cluster/1\",\"nodes\":[", out);
    for (int i = 0, left = n, lose = n_lost, n_put = 0; i < n; i++, left--) {
        const int rate = links == EQUAL ? 1 : 1 + below(rng, 3);
        const int in = links == IN_AND_OUT ? 1 + below(rng, 3) : rate;

        if (below(rng, left) < lose) {
            lose--;
            continue;
        }
        fprintf(out, "%s{\"node\":\"n%d\",\"out_byte_per_s\":%de9,\"in_byte_per_s\":%de9}",
                n_put++ ? "," : "", i, rate, in);
    }
    fputs("]}", out);
    fclose(out);
    if (spot_cluster_parse(cluster, text, n_byte, "cluster", &err)) {
        fprintf(stderr, "bench_place: %s\n", err.msg);
        exit(1);
    }
    free(text);
}

struct outcome {
    double gap, ms;
    bool is_proved;
};

static struct outcome plan_one(struct spot_rng *rng, int n_min, int n_max, enum links links)
{
    const int n = n_min + below(rng, n_max - n_min + 1), n_lost = below(rng, 3);
    const bool zero = below(rng, 2);
    struct spot_layout from, to;
    struct spot_cluster cluster;
    struct spot_migration_problem problem;
    struct spot_migration_plan plan;
    struct spot_err err;
    struct outcome o;
    double start_s;

    make_layout(&from, rng, n, zero, true);
    make_layout(&to, rng, n - n_lost, zero, false);
    make_cluster(&cluster, rng, n, n_lost, links);
    start_s = spot_clock_cpu_s();
    if (spot_migration_of_layouts(&problem, &from, &to, &cluster, &err) ||
        spot_migrate(&problem, &plan, &err)) {
        fprintf(stderr, "bench_place: %s\n", err.msg);
        exit(1);
    }
    o.ms = (spot_clock_cpu_s() - start_s) * 1e3;
    o.gap = plan.bound_s > 0 ? fmax(plan.makespan_s / plan.bound_s - 1, 0) : 0;
    o.is_proved = o.gap <= 1e-9;
    spot_migration_plan_release(&plan), spot_migration_problem_release(&problem);
    spot_layout_release(&from), spot_layout_release(&to), spot_cluster_release(&cluster);
    return o;
}

/* --- as a job that runs asks --- */

enum { BUNDLES_MAX = 98 };

struct live {
    int n, grid[2]; /* members; D x P before, the rest spares */
    int n_bundle;
    bool has_rates; /* links of 1, 2 and 4 GB/s, as measured */
};

/* The first of P stages with b below its end. */
static int stage_of(int b, int n_stage, int n_bundle)
{
    return b * n_stage / n_bundle;
}

/* Some of the members are gone, some leave; the new grid has a random number of stages, and as many
 * replicas as there are members for. */
static int draw_live(struct spot_rng *rng, const struct live *live, uint8_t *holds, uint8_t *needs,
                     struct spot_cluster_node *node)
{
    const int n_bundle = live->n_bundle, n_stage = live->grid[1];
    int n_able = 0, stages, replicas;

    memset(holds, 0, (size_t)live->n * (size_t)n_bundle);
    for (int i = 0; i < live->n; i++) {
        const int fate = i ? below(rng, 16) : 2; /* 0: gone and back with nothing, 1: it leaves */
        const double rate = 1e9 * (live->has_rates ? 1 << below(rng, 3) : 1);

        node[i] = (struct spot_cluster_node){ .out_byte_per_s = rate,
                                              .in_byte_per_s = rate,
                                              .slots = 1,
                                              .is_leaving = fate == 1,
                                              .deadline_s = fate == 1 ? 30 : INFINITY };
        n_able += fate != 1;
        for (int b = 0; b < n_bundle && i < live->grid[0] * n_stage && fate; b++)
            holds[i * n_bundle + b] = stage_of(b, n_stage, n_bundle) == i % n_stage;
    }
    stages = 1 + below(rng, n_able < 2 * n_stage ? n_able : 2 * n_stage);
    replicas = n_able / stages;
    for (int q = 0; q < replicas * stages; q++)
        for (int b = 0; b < n_bundle; b++)
            needs[q * n_bundle + b] = stage_of(b, stages, n_bundle) == q % stages;
    return replicas * stages;
}

static struct outcome plan_live(struct spot_rng *rng, const struct live *live)
{
    static uint8_t holds[64 * BUNDLES_MAX], needs[64 * BUNDLES_MAX];
    static struct spot_cluster_node node[64];
    static int64_t byte[BUNDLES_MAX];
    const int n_position = draw_live(rng, live, holds, needs, node);
    const struct spot_cluster cluster = { .node = node, .n_node = (size_t)live->n };
    struct spot_migration_problem problem;
    struct spot_migration_plan plan;
    struct spot_err err;
    struct outcome o;
    double start_s;

    for (int b = 0; b < live->n_bundle; b++)
        byte[b] = b == 0 || b == live->n_bundle - 1 ? 400000000 : 100000000;
    start_s = spot_clock_cpu_s();
    spot_migration_of_bundles(
        &problem,
        &(struct spot_migration_bundles){ live->n, n_position, live->n_bundle, byte, holds, needs },
        &cluster);
    problem.effort = 300;
    if (spot_migrate(&problem, &plan, &err)) {
        fprintf(stderr, "bench_place: %s\n", err.msg);
        exit(1);
    }
    o.ms = (spot_clock_cpu_s() - start_s) * 1e3;
    o.gap = plan.bound_s > 0 ? fmax(plan.makespan_s / plan.bound_s - 1, 0) : 0;
    o.is_proved = o.gap <= 1e-9;
    spot_migration_plan_release(&plan);
    spot_migration_problem_release(&problem);
    return o;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double at(const double *sorted, int n, double share)
{
    return sorted[(int)(share * (n - 1) + 0.5)];
}

struct table {
    int n;
    double *gap, *ms;
    int n_proved;
};

static void add(struct table *t, struct outcome o)
{
    t->gap[t->n] = o.gap;
    t->ms[t->n++] = o.ms;
    t->n_proved += o.is_proved;
}

static void print_head(const char *first)
{
    printf("%-18s %8s %8s %8s %8s %8s %9s %9s %9s\n", first, "proved", "median", "p90", "p95",
           "most", "ms median", "ms p95", "ms most");
}

static void print_row(struct table *t, const char *name)
{
    const int n = t->n;

    qsort(t->gap, (size_t)n, sizeof *t->gap, by_value);
    qsort(t->ms, (size_t)n, sizeof *t->ms, by_value);
    printf("%-18s %8.3f %8.4f %8.4f %8.4f %8.4f %9.2f %9.2f %9.2f\n", name, (double)t->n_proved / n,
           at(t->gap, n, 0.5), at(t->gap, n, 0.9), at(t->gap, n, 0.95), t->gap[n - 1],
           at(t->ms, n, 0.5), at(t->ms, n, 0.95), t->ms[n - 1]);
    t->n = t->n_proved = 0;
}

static void run_live(int n, uint64_t seed, struct table *t)
{
    static const struct {
        const char *name;
        struct live live;
    } row[] = {
        { "4, 2x2", { 4, { 2, 2 }, 6, false } },
        { "5, 2x2, rates", { 5, { 2, 2 }, 26, true } },
        { "16, 4x4", { 16, { 4, 4 }, 26, false } },
        { "64, 8x8", { 64, { 8, 8 }, 50, false } },
        { "64, 8x8, rates", { 64, { 8, 8 }, 50, true } },
        { "64, 4x16, rates", { 64, { 4, 16 }, 98, true } },
    };

    printf("%d cases each, seed %llu\n", n, (unsigned long long)seed);
    print_head("members");
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        struct spot_rng rng;

        spot_rng_init(&rng, seed, r);
        for (int k = 0; k < n; k++)
            add(t, plan_live(&rng, &row[r].live));
        print_row(t, row[r].name);
    }
}

int main(int argc, char **argv)
{
    const bool is_live = argc > 1 && !strcmp(argv[1], "live");
    const int first = is_live ? 2 : 1, n = argc > first ? atoi(argv[first]) : is_live ? 200 : 1000;
    const int n_min = !is_live && argc > 3 ? atoi(argv[2]) : 9;
    const int n_max = !is_live && argc > 3 ? atoi(argv[3]) : 16;
    const char *seed_text = argv[is_live ? (argc > 3 ? 3 : argc) : argc > 4 ? 4 : argc];
    const uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 1;
    struct table t = { .gap = calloc((size_t)n, sizeof *t.gap),
                       .ms = calloc((size_t)n, sizeof *t.ms) };

    if (!t.gap || !t.ms || n < 1 || n_min < 1 || n_max < n_min)
        return 2;
    if (is_live) {
        run_live(n, seed, &t);
        return 0;
    }
    printf("%d cases each, %d to %d nodes, up to 2 lost, seed %llu\n", n, n_min, n_max,
           (unsigned long long)seed);
    print_head("links");
    for (int links = 0; links < LINKS; links++) {
        struct spot_rng rng;

        spot_rng_init(&rng, seed, (uint64_t)links);
        for (int k = 0; k < n; k++)
            add(&t, plan_one(&rng, n_min, n_max, (enum links)links));
        print_row(&t, links_name[links]);
    }
    free(t.gap), free(t.ms);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* bench_place - how far plans of random changes of grid are from their lower bounds: the
 * distribution of the gap, the share proved optimal, and CPU time.
 *
 * usage: bench_place [CASES [NODES_MIN NODES_MAX [SEED]]]   (default 1000 9 16 1) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
    struct spot_migration_plan plan;
    struct spot_err err;
    struct outcome o;
    double start_s;

    make_layout(&from, rng, n, zero, true);
    make_layout(&to, rng, n - n_lost, zero, false);
    make_cluster(&cluster, rng, n, n_lost, links);
    start_s = spot_clock_cpu_s();
    if (spot_migrate(&(struct spot_migration_problem){ &from, &to, &cluster, INFINITY, INFINITY },
                     &plan, &err)) {
        fprintf(stderr, "bench_place: %s\n", err.msg);
        exit(1);
    }
    o.ms = (spot_clock_cpu_s() - start_s) * 1e3;
    o.gap = plan.bound_s > 0 ? fmax(plan.makespan_s / plan.bound_s - 1, 0) : 0;
    o.is_proved = o.gap <= 1e-9;
    spot_migration_plan_release(&plan);
    spot_layout_release(&from), spot_layout_release(&to), spot_cluster_release(&cluster);
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

int main(int argc, char **argv)
{
    const int n = argc > 1 ? atoi(argv[1]) : 1000;
    const int n_min = argc > 3 ? atoi(argv[2]) : 9, n_max = argc > 3 ? atoi(argv[3]) : 16;
    const uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    double *gap = calloc((size_t)n, sizeof *gap), *ms = calloc((size_t)n, sizeof *ms);

    if (!gap || !ms || n < 1 || n_min < 1 || n_max < n_min)
        return 2;
    printf("%d cases each, %d to %d nodes, up to 2 lost, seed %llu\n", n, n_min, n_max,
           (unsigned long long)seed);
    printf("%-12s %8s %8s %8s %8s %8s %9s %9s %9s\n", "links", "proved", "median", "p90", "p95",
           "most", "ms median", "ms p95", "ms most");
    for (int links = 0; links < LINKS; links++) {
        int n_proved = 0;
        struct spot_rng rng;

        spot_rng_init(&rng, seed, (uint64_t)links);
        for (int k = 0; k < n; k++) {
            const struct outcome o = plan_one(&rng, n_min, n_max, (enum links)links);

            gap[k] = o.gap;
            ms[k] = o.ms;
            n_proved += o.is_proved;
        }
        qsort(gap, (size_t)n, sizeof *gap, by_value);
        qsort(ms, (size_t)n, sizeof *ms, by_value);
        printf("%-12s %8.3f %8.4f %8.4f %8.4f %8.4f %9.2f %9.2f %9.2f\n", links_name[links],
               (double)n_proved / n, at(gap, n, 0.5), at(gap, n, 0.9), at(gap, n, 0.95), gap[n - 1],
               at(ms, n, 0.5), at(ms, n, 0.95), ms[n - 1]);
    }
    free(gap), free(ms);
    return 0;
}

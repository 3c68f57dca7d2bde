/* SPDX-License-Identifier: MIT */
/* bench_deadline [GOLDEN TRACES [N]] - ours beside greedy, Uniform Progress and the offline optimum
 * on the published windows of four zones: mean USD of a 48 h job. N: every Nth window. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "peers/uniform_progress.h"
#include "trace/trace.h"

enum { ROWS = 12, POLICIES = 7 };
enum { ON_DEMAND, GREEDY, UNIFORM, NO_HYSTERESIS, SPOT, KNOWN, OFFLINE };

static const struct spot_deadline_policy *policy_at(int p)
{
    static const int at[POLICIES] = { 0, 4, 5, 6, 1, 2, 3 };

    return at[p] < 4 ? &spot_deadline_policies[at[p]] : &spot_uniform_progress[at[p] - 4];
}

static const double hour = 3600;
static struct {
    double deadline_h, restart_h, usd[POLICIES];
    double above; /* the most by which ours costs more than the better simple rule in a window */
    size_t n, late, off;
} sum[ROWS];
static const char *traces;
static int every = 1;
static char zone_read[64];
static uint8_t up[8192];
static size_t n_up;

static int load_zone(const char *zone, struct spot_err *err)
{
    struct spot_trace trace;
    char path[4096];

    if (!strcmp(zone, zone_read))
        return 0;
    snprintf(path, sizeof(path), "%s/%s.csv", traces, zone);
    if (spot_trace_load_path(&trace, path, err))
        return -1;
    n_up = trace.series[0].n;
    for (size_t i = 0; i < n_up; i++)
        up[i] = spot_trace_at(&trace.series[0], 600.0 * (double)i) > 0;
    snprintf(zone_read, sizeof(zone_read), "%s", zone);
    spot_trace_release(&trace);
    return 0;
}

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    double deadline_h, restart_h, golden[4];
    int64_t window, start;
    int k = 0;
    double usd[POLICIES];
    struct spot_deadline_play play = { .has_spot = up, .learn_ticks = 144 };

    (void)user;
    if (load_zone(row->field[0], err) || spot_csv_real(row, 1, 0, 1e6, &deadline_h, err) ||
        spot_csv_real(row, 2, 0, 1e6, &restart_h, err) ||
        spot_csv_int(row, 3, 0, 1e6, &window, err) || spot_csv_int(row, 4, 0, 8192, &start, err))
        return -1;
    for (size_t i = 0; i < 4; i++)
        if (spot_csv_real(row, 5 + i, 0, 1e6, &golden[i], err))
            return -1;
    if (window % every)
        return 0;
    while (k < ROWS && sum[k].n &&
           (sum[k].deadline_h != deadline_h || sum[k].restart_h != restart_h))
        k++;
    sum[k].deadline_h = deadline_h;
    sum[k].restart_h = restart_h;
    sum[k].n++;
    play.market = (struct spot_market){
        .work_s = 48 * hour,
        .deadline_s = deadline_h * hour,
        .tick_s = 600,
        .restart_s = { restart_h * hour },
        .restart_prob = { 1 },
        .n_restart = 1,
        .n_place = 1,
        .place = { { .spot_usd_per_h = 0.9731, .on_demand_usd_per_h = 3.06, .speed = 1 } }
    };
    play.n = n_up;
    play.start = (size_t)start;
    for (int p = 0; p < POLICIES; p++) {
        struct spot_deadline_result r;

        if (spot_deadline_play_run(&play, policy_at(p), &r, NULL, err))
            return -1;
        sum[k].usd[p] += usd[p] = r.usd;
        sum[k].late += r.is_late;
        if ((p == GREEDY && fabs(r.usd - golden[0]) > 1e-3) ||
            (p == UNIFORM && fabs(r.usd - golden[1]) > 1e-3) ||
            (p == NO_HYSTERESIS && fabs(r.usd - golden[2]) > 1e-3) ||
            (p == OFFLINE && fabs(r.usd - golden[3]) > 1e-3)) {
            if (sum[k].off++ < 2)
                fprintf(stderr, "%s %g %g window %lld %s: %.4f, golden %s %s %s %s\n",
                        row->field[0], deadline_h, restart_h, (long long)window, policy_at(p)->name,
                        r.usd, row->field[5], row->field[6], row->field[7], row->field[8]);
        }
    }
    sum[k].above = fmax(sum[k].above, usd[SPOT] - fmin(usd[GREEDY], usd[UNIFORM]));
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const want[] = { "zone",   "deadline_h",   "overhead_h",
                                        "window", "start_tick",   "greedy_usd",
                                        "up_usd", "up_nohys_usd", "opt_usd" };
    const char *golden = argc > 2 ? argv[1] : NULL;
    struct spot_err err = { 0 };
    FILE *in = golden ? fopen(golden, "re") : NULL;
    double way = 0, gain = 0;
    int rows = 0;

    traces = argc > 2 ? argv[2] : "";
    every = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1;
    if (!in) {
        printf("bench_deadline: no %s: left out\n", golden ? golden : "published windows");
        return 0;
    }
    if (spot_csv_read(in, golden, want, 9, on_row, NULL, NULL, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    fclose(in);
    printf("| deadline h | restart h | windows | greedy | uniform | no hysteresis | offline | ours "
           "| known law | way "
           "to offline | of known gain | at most dearer | late | off "
           "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int k = 0; k < ROWS && sum[k].n; k++) {
        const double n = (double)sum[k].n, *u = sum[k].usd;
        const double best = fmin(u[GREEDY], u[UNIFORM]);
        const double w = (best - u[SPOT]) / (best - u[OFFLINE]);
        const double g = (best - u[SPOT]) / (best - u[KNOWN]);

        printf("| %g | %g | %zu | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | "
               "%zu | "
               "%zu |\n",
               sum[k].deadline_h, sum[k].restart_h, sum[k].n, u[1] / n, u[2] / n, u[3] / n,
               u[6] / n, u[4] / n, u[5] / n, w, g, sum[k].above, sum[k].late, sum[k].off);
        way += w;
        gain += g;
        rows++;
    }
    printf("mean way to the optimum %.3f, mean share of the known law's gain %.3f\n", way / rows,
           gain / rows);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* bench_chain - is the chain that a plan follows over 12 steps a better forecast of what comes than
 * the steps' distributions taken apart, or than a Markov chain? Energy scores (Gneiting and Raftery
 * 2007) of drawn paths, mean over the forecasts of a series, and their ratios to those apart; then
 * how often the 80 % intervals of some steps hold. Markdown.
 *
 * usage: bench_chain INTERVAL_S TRACE...     traces of one series */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "forecast/backtest.h"
#include "forecast/forecast_make.h"
#include "plan/train/horizon.h"

enum { STEPS = 12, ORIGINS = 220, PATHS = 400, WAYS = 3 };
enum { APART, MARKOV, CHAIN };

/* u[] picks the counts, the same for all ways. */
static int draw(const double *pmf, int n, double u)
{
    int k = 0;

    for (; k < n - 1 && u >= pmf[k]; k++)
        u -= pmf[k];
    return k;
}

/* How often each count followed each so far; of one that was never left, that it stays. */
static void fit_markov(const int *y, size_t n, int width, double *next)
{
    memset(next, 0, (size_t)width * (size_t)width * sizeof(*next));
    for (int i = 0; i < width; i++)
        next[i * width + i] = 1;
    for (size_t t = 1; t < n; t++)
        next[y[t - 1] * width + y[t]] += 1;
    for (int i = 0; i < width; i++) {
        double sum = 0;

        for (int j = 0; j < width; j++)
            sum += next[i * width + j];
        for (int j = 0; j < width; j++)
            next[i * width + j] /= sum;
    }
}

static double distance(const int *a, const int *b)
{
    double sum = 0;

    for (int s = 0; s < STEPS; s++)
        sum += (double)((a[s] - b[s]) * (a[s] - b[s]));
    return sqrt(sum);
}

/* Of paths drawn in pairs. */
static double energy(int path[PATHS][STEPS], const int *y)
{
    double to = 0, apart = 0;

    for (int i = 0; i < PATHS; i++) {
        to += distance(path[i], y);
        apart += distance(path[i], path[(i + 1) % PATHS]);
    }
    return (to - apart / 2) / PATHS;
}

struct world {
    struct spot_count_grids all, now;
    struct spot_count_grid seen;
    struct spot_trackeds trackeds;
    const struct spot_forecaster *model;
    struct spot_fc_spec spec;
};

static void score(const struct spot_forecast_series *f, const int *y, size_t origin, double *sum)
{
    const int width = (int)f->cap + 1, now = (int)f->now;
    const struct spot_horizon_goal goal = { f->prob, width, 0 };
    double *next = spot_xcalloc((size_t)width * (size_t)width, sizeof(*next));
    static int path[WAYS][PATHS][STEPS];
    struct spot_count_chain chain;
    struct spot_horizon h;
    struct spot_rng rng;

    spot_count_chain_follow(&chain, f->chain, (int)f->cap);
    spot_horizon_init(&h, &chain, SPOT_CHAIN_CONTEXTS, 0, (int)f->cap, (int)f->cap, now,
                      f->chain->context, STEPS, &goal);
    fit_markov(y, origin + 1, width, next);
    spot_rng_init(&rng, 1, origin);
    for (int i = 0; i < PATHS; i++) {
        int at[WAYS] = { now, now, now };

        for (int s = 0; s < STEPS; s++) {
            const double u = spot_rng_unit(&rng);
            const double *of[WAYS] = { f->prob + s * width, next + at[MARKOV] * width,
                                       spot_horizon_next(&h, s + 1, at[CHAIN]) };

            for (int way = 0; way < WAYS; way++)
                path[way][i][s] = at[way] = draw(of[way], width, u);
        }
    }
    for (int way = 0; way < WAYS; way++)
        sum[way] += energy(path[way], y + origin + 1);
    spot_horizon_release(&h);
    free(next);
}

static int most_of(const int *y, size_t n)
{
    int most = 0;

    for (size_t i = 0; i < n; i++)
        most = y[i] > most ? y[i] : most;
    return most;
}

static void run(struct world *w, const char *name, double *log_sum)
{
    const struct spot_count_grid *g = &w->all.grid[0];
    size_t origin[ORIGINS], n = spot_backtest_origins(g, STEPS, 0, ORIGINS, origin), next = 0;
    struct spot_score step[STEPS] = { { 0 } };
    double sum[WAYS] = { 0 };

    w->seen = *g;
    w->now = (struct spot_count_grids){ 1, &w->seen };
    for (size_t t = 0; n && t <= origin[n - 1]; t++) {
        struct spot_forecast forecast = { .interval_s = g->interval_s, .model = "pool" };

        w->seen.n = t + 1;
        w->seen.is_open = false;
        w->seen.cap = most_of(g->y, t + 1);
        if (t < origin[next]) {
            spot_trackeds_take(&w->trackeds, w->model, w->spec, &w->seen);
            continue;
        }
        next++;
        spot_forecast_make(&forecast, w->model, &w->spec, &w->trackeds, &w->now, true, true);
        score(&forecast.series[0], g->y, t, sum);
        for (int s = 0; s < STEPS; s++) {
            const struct spot_forecast_series *f = &forecast.series[0];
            const int y = g->y[t + 1 + (size_t)s];

            spot_score_add(&step[s], f->prob + (size_t)s * ((size_t)f->cap + 1), (int)f->cap,
                           (int)f->now, y > f->cap ? (int)f->cap : y);
        }
        spot_forecast_release(&forecast);
    }
    printf("| %s | %zu | %.4f | %.4f | %.4f | %.3f | %.3f |", name, n, sum[APART] / (double)n,
           sum[MARKOV] / (double)n, sum[CHAIN] / (double)n, sum[MARKOV] / sum[APART],
           sum[CHAIN] / sum[APART]);
    for (int s = 0; s < STEPS; s += 3)
        printf(" %.3f |", step[s].cover_sum / (double)step[s].n);
    printf("\n");
    for (int way = 0; way < WAYS; way++)
        log_sum[way] += log(sum[way] / sum[APART]);
}

int main(int argc, char **argv)
{
    double log_sum[WAYS] = { 0 };

    printf("| energy score | n | apart | Markov | chain | Markov to apart | chain to apart | "
           "in the 80 %%, step 1 | 4 | 7 | 10 "
           "|\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 2; i < argc; i++) {
        struct world w = { .spec = { .horizon = STEPS } };
        struct spot_count_grid_ask ask = { .interval_s = atof(argv[1]), .is_whole = true };
        struct spot_trace trace;
        struct spot_err err;

        w.spec.day = 86400 / ask.interval_s;
        w.model = spot_forecaster_find("pool", &w.spec, &err);
        if (!w.model || spot_trace_load_path(&trace, argv[i], &err) ||
            spot_count_grids_make(&w.all, &ask, &trace, NULL, &err)) {
            fprintf(stderr, "bench_chain: %s\n", err.msg);
            return 1;
        }
        run(&w, argv[i], log_sum);
        spot_trackeds_release(&w.trackeds);
        spot_count_grids_release(&w.all);
        spot_trace_release(&trace);
    }
    if (argc > 3)
        printf("| geometric mean | | | | | %.3f | %.3f | | | | |\n",
               exp(log_sum[MARKOV] / (argc - 2)), exp(log_sum[CHAIN] / (argc - 2)));
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "forecast/backtest.h"

#include <math.h>

#include "common/clock.h"
#include "forecast/predictor.h"

size_t spot_backtest_origins(const struct spot_count_grid *g, size_t horizon, double from_s,
                             size_t n_wanted, size_t *origin)
{
    const double from = ceil((from_s - g->start_s) / g->interval_s - 1e-6);
    const size_t first =
        from > SPOT_BACKTEST_ORIGIN_MIN ? (size_t)fmin(from, 1e15) : SPOT_BACKTEST_ORIGIN_MIN;
    const size_t end = g->n > horizon ? g->n - horizon : 0;
    const size_t room = end > first ? end - first : 0;
    const size_t n = room < n_wanted ? room : n_wanted;

    for (size_t k = 0; k < n; k++)
        origin[k] =
            first + (n > 1 ? (size_t)((double)k * (double)(room - 1) / (double)(n - 1)) : 0);
    return n;
}

/* The mean over steps of what an origin adds. */
static double score_origin(const struct spot_backtest *b, size_t origin, const double *prob,
                           struct spot_score *step)
{
    const struct spot_count_grid *g = b->grid;
    double sum = 0;

    for (int h = 1; h <= b->spec.horizon; h++) {
        const double *p = prob + (size_t)(h - 1) * ((size_t)g->cap + 1);
        const double before = step[h - 1].crps_sum;

        spot_score_add(&step[h - 1], p, g->cap, g->y[origin], g->y[origin + (size_t)h]);
        sum += step[h - 1].crps_sum - before;
        if (b->dist)
            b->dist(b->user, origin, h, p);
    }
    return sum / b->spec.horizon;
}

/* What it costs to read the clock twice: a microsecond that is not the model's. */
static double clock_cost_s(void)
{
    double least_s = 1;

    for (int i = 0; i < 64; i++) {
        const double at = spot_clock_cpu_s();

        least_s = fmin(least_s, spot_clock_cpu_s() - at);
    }
    return least_s;
}

double spot_backtest_run(const struct spot_backtest *b, struct spot_score *step, double *crps,
                         double *prob)
{
    struct spot_fc_spec spec = b->spec;
    struct spot_predictor *predictor;
    const double clock_s = clock_cost_s();
    double observe_s = 0, predict_s = 0;
    size_t next = 0;

    spec.cap = b->grid->cap;
    predictor = spot_predictor_new(b->model, &spec);
    for (size_t k = 0; k < b->n_origin; k++) {
        double at = spot_clock_cpu_s();

        while (next <= b->origin[k])
            spot_predictor_observe(predictor, b->grid->y[next++]);
        observe_s += spot_clock_cpu_s() - at - clock_s;
        at = spot_clock_cpu_s();
        spot_predictor_predict(predictor, prob);
        predict_s += spot_clock_cpu_s() - at - clock_s;
        crps[k] = score_origin(b, b->origin[k], prob, step);
    }
    spot_predictor_free(predictor);
    return fmax(0, observe_s / (double)next + predict_s / (double)b->n_origin);
}

/* SPDX-License-Identifier: MIT */
#include "forecast/backtest.h"

#include <math.h>
#include <string.h>

#include "common/clock.h"

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

static void score_origin(const struct spot_backtest *b, size_t origin, const double *prob,
                         struct spot_score *step)
{
    const struct spot_count_grid *g = b->grid;

    for (int h = 1; h <= b->spec.horizon; h++) {
        const double *p = prob + (size_t)(h - 1) * ((size_t)g->cap + 1);

        spot_score_add(&step[h - 1], p, g->cap, g->y[origin], g->y[origin + (size_t)h]);
        if (b->dist)
            b->dist(b->user, origin, h, p);
    }
}

/* The time to read the clock twice, about a microsecond, which is subtracted from that of the
 * model. */
static double clock_cost_s(void)
{
    double least_s = 1;

    for (int i = 0; i < 64; i++) {
        const double at = spot_clock_cpu_s();

        least_s = fmin(least_s, spot_clock_cpu_s() - at);
    }
    return least_s;
}

/* Write a distribution over up to `cap` counts with zeros for the rest. */
static void widen(const struct spot_backtest *b, int cap, double *prob)
{
    const size_t narrow = (size_t)cap + 1, wide = (size_t)b->grid->cap + 1;

    for (size_t h = (size_t)b->spec.horizon; narrow < wide && h-- > 0;) {
        memmove(prob + h * wide, prob + h * narrow, narrow * sizeof(*prob));
        memset(prob + h * wide + narrow, 0, (wide - narrow) * sizeof(*prob));
    }
}

/* A model at an origin. It has observed the values up to there, and its cap is their maximum unless
 * the grid's cap was given. */
struct view {
    struct spot_predictor *predictor;
    size_t next; /* values observed */
    int cap;
};

static void look(struct view *v, const struct spot_backtest *b, size_t origin)
{
    const struct spot_count_grid *g = b->grid;
    struct spot_fc_spec own = b->spec;
    int most = g->has_cap ? g->cap : v->cap;

    for (size_t i = v->next; !g->has_cap && i <= origin; i++)
        most = g->y[i] > most ? g->y[i] : most;
    if (!v->predictor || most != v->cap) {
        spot_predictor_free(v->predictor);
        own.cap = v->cap = most;
        v->predictor = spot_predictor_new(b->model, &own);
        v->next = 0;
    }
    while (v->next <= origin)
        spot_predictor_observe(v->predictor, g->y[v->next++]);
}

double spot_backtest_run(const struct spot_backtest *b, struct spot_score *step, double *prob)
{
    struct view view = { 0 };
    const double clock_s = clock_cost_s();
    double observe_s = 0, predict_s = 0;

    for (size_t k = 0; k < b->n_origin; k++) {
        double at = spot_clock_cpu_s();

        look(&view, b, b->origin[k]);
        observe_s += spot_clock_cpu_s() - at - clock_s;
        at = spot_clock_cpu_s();
        spot_predictor_predict(view.predictor, prob);
        predict_s += spot_clock_cpu_s() - at - clock_s;
        widen(b, view.cap, prob);
        score_origin(b, b->origin[k], prob, step);
    }
    spot_predictor_free(view.predictor);
    return fmax(0, observe_s / (double)view.next + predict_s / (double)b->n_origin);
}

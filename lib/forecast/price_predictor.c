/* SPDX-License-Identifier: MIT */
#include "forecast/price_predictor.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

const char *const spot_price_model_name[SPOT_PRICE_MODELS] = { "last", "changes", "steps", "best" };

static void predict_changes(const double *y, size_t n, size_t horizon, struct spot_price_dist *dist)
{
    for (size_t h = 1; h <= horizon; h++) {
        struct spot_price_dist *d = &dist[h - 1];

        for (size_t i = h; i < n; i++) /* a ratio of 1 is exact: the current price */
            spot_price_dist_add(d, fmin(1e9, y[n - 1] * (y[i] / y[i - h])), 1);
        if (!d->n)
            spot_price_dist_add(d, y[n - 1], 1);
    }
}

static void predict_by(const struct spot_price_predictor *predictor, enum spot_price_model model,
                       size_t o, struct spot_price_dist *dist)
{
    const size_t first = o > predictor->history ? o - predictor->history : 0, n = o - first + 1;
    const double *y = predictor->y + first;

    for (size_t h = 0; h < predictor->horizon; h++)
        spot_price_dist_clear(&dist[h]);
    if (model == SPOT_PRICE_CHANGES)
        predict_changes(y, n, predictor->horizon, dist);
    else if (model == SPOT_PRICE_STEPS)
        spot_price_steps(y, n, predictor->horizon, dist);
    else
        for (size_t h = 0; h < predictor->horizon; h++)
            spot_price_dist_add(&dist[h], y[n - 1], 1);
    for (size_t h = 0; h < predictor->horizon; h++)
        spot_price_dist_settle(&dist[h]);
}

/* Trials are half a horizon apart, so that consecutive ones share half of their future. */
static size_t trial_origin(const struct spot_price_predictor *predictor, size_t k)
{
    return SPOT_PRICE_ORIGIN_MIN + k * ((predictor->horizon + 1) / 2);
}

static double score_trial(struct spot_price_predictor *predictor, enum spot_price_model model,
                          size_t o)
{
    double crps = 0;

    predict_by(predictor, model, o, predictor->scratch);
    for (size_t h = 0; h < predictor->horizon; h++)
        crps += spot_price_dist_crps(&predictor->scratch[h], predictor->y[o + h + 1]);
    return crps / (double)predictor->horizon /
           predictor->y[o]; /* as a ratio of prices, since levels change */
}

static void grow_trials(struct spot_price_predictor *predictor, size_t n)
{
    predictor->trial = spot_xrealloc(predictor->trial, n * SPOT_PRICE_BEST, sizeof(double));
    for (size_t i = predictor->n_trial * SPOT_PRICE_BEST; i < n * SPOT_PRICE_BEST; i++)
        predictor->trial[i] = NAN;
    predictor->n_trial = n;
}

enum spot_price_model spot_price_predictor_choice(struct spot_price_predictor *predictor, size_t o)
{
    double sum[SPOT_PRICE_BEST] = { 0 };
    enum spot_price_model best = SPOT_PRICE_STEPS;
    size_t n = 0;

    if (predictor->model != SPOT_PRICE_BEST)
        return predictor->model;
    while (trial_origin(predictor, n) + predictor->horizon <= o) /* its outcome is known */
        n++;
    if (n < SPOT_PRICE_TRIALS_MIN)
        return best;
    if (n > predictor->n_trial)
        grow_trials(predictor, n);
    for (size_t k = n > SPOT_PRICE_TRIALS ? n - SPOT_PRICE_TRIALS : 0; k < n; k++)
        for (int m = 0; m < SPOT_PRICE_BEST; m++) {
            double *crps = &predictor->trial[k * SPOT_PRICE_BEST + (size_t)m];

            if (isnan(*crps))
                *crps =
                    score_trial(predictor, (enum spot_price_model)m, trial_origin(predictor, k));
            sum[m] += *crps;
        }
    for (int m = 0; m < SPOT_PRICE_BEST; m++)
        if (sum[m] < sum[best])
            best = (enum spot_price_model)m;
    return best;
}

void spot_price_predictor_predict(struct spot_price_predictor *predictor, size_t o,
                                  struct spot_price_dist *dist)
{
    assert(predictor->horizon && predictor->horizon <= SPOT_PRICE_HORIZON_MAX &&
           predictor->history);
    predict_by(predictor, spot_price_predictor_choice(predictor, o), o, dist);
}

void spot_price_predictor_release(struct spot_price_predictor *predictor)
{
    for (size_t h = 0; h < SPOT_PRICE_HORIZON_MAX; h++)
        spot_price_dist_release(&predictor->scratch[h]);
    free(predictor->trial);
    memset(predictor, 0, sizeof(*predictor));
}

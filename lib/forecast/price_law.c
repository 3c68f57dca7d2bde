/* SPDX-License-Identifier: MIT */
#include "forecast/price_law.h"

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

        for (size_t i = h; i < n; i++) /* a ratio of 1 is exact: the price of now */
            spot_price_dist_add(d, fmin(1e9, y[n - 1] * (y[i] / y[i - h])), 1);
        if (!d->n)
            spot_price_dist_add(d, y[n - 1], 1);
    }
}

static void predict_by(const struct spot_price_law *law, enum spot_price_model model, size_t o,
                       struct spot_price_dist *dist)
{
    const size_t first = o > law->history ? o - law->history : 0, n = o - first + 1;
    const double *y = law->y + first;

    for (size_t h = 0; h < law->horizon; h++)
        spot_price_dist_clear(&dist[h]);
    if (model == SPOT_PRICE_CHANGES)
        predict_changes(y, n, law->horizon, dist);
    else if (model == SPOT_PRICE_STEPS)
        spot_price_steps(y, n, law->horizon, dist);
    else
        for (size_t h = 0; h < law->horizon; h++)
            spot_price_dist_add(&dist[h], y[n - 1], 1);
    for (size_t h = 0; h < law->horizon; h++)
        spot_price_dist_settle(&dist[h]);
}

/* Trials are half a horizon apart, so that two in a row share half of their future. */
static size_t trial_origin(const struct spot_price_law *law, size_t k)
{
    return SPOT_PRICE_ORIGIN_MIN + k * ((law->horizon + 1) / 2);
}

static double score_trial(struct spot_price_law *law, enum spot_price_model model, size_t o)
{
    double crps = 0;

    predict_by(law, model, o, law->scratch);
    for (size_t h = 0; h < law->horizon; h++)
        crps += spot_price_dist_crps(&law->scratch[h], law->y[o + h + 1]);
    return crps / (double)law->horizon / law->y[o]; /* a share of the price: levels change */
}

static void grow_trials(struct spot_price_law *law, size_t n)
{
    law->trial = spot_xrealloc(law->trial, n * SPOT_PRICE_BEST, sizeof(double));
    for (size_t i = law->n_trial * SPOT_PRICE_BEST; i < n * SPOT_PRICE_BEST; i++)
        law->trial[i] = NAN;
    law->n_trial = n;
}

enum spot_price_model spot_price_law_choice(struct spot_price_law *law, size_t o)
{
    double sum[SPOT_PRICE_BEST] = { 0 };
    enum spot_price_model best = SPOT_PRICE_STEPS;
    size_t n = 0;

    if (law->model != SPOT_PRICE_BEST)
        return law->model;
    while (trial_origin(law, n) + law->horizon <= o) /* its outcome is known */
        n++;
    if (n < SPOT_PRICE_TRIALS_MIN)
        return best;
    if (n > law->n_trial)
        grow_trials(law, n);
    for (size_t k = n > SPOT_PRICE_TRIALS ? n - SPOT_PRICE_TRIALS : 0; k < n; k++)
        for (int m = 0; m < SPOT_PRICE_BEST; m++) {
            double *crps = &law->trial[k * SPOT_PRICE_BEST + (size_t)m];

            if (isnan(*crps))
                *crps = score_trial(law, (enum spot_price_model)m, trial_origin(law, k));
            sum[m] += *crps;
        }
    for (int m = 0; m < SPOT_PRICE_BEST; m++)
        if (sum[m] < sum[best])
            best = (enum spot_price_model)m;
    return best;
}

void spot_price_law_predict(struct spot_price_law *law, size_t o, struct spot_price_dist *dist)
{
    assert(law->horizon && law->horizon <= SPOT_PRICE_HORIZON_MAX && law->history);
    predict_by(law, spot_price_law_choice(law, o), o, dist);
}

void spot_price_law_release(struct spot_price_law *law)
{
    for (size_t h = 0; h < SPOT_PRICE_HORIZON_MAX; h++)
        spot_price_dist_release(&law->scratch[h]);
    free(law->trial);
    memset(law, 0, sizeof(*law));
}

/* SPDX-License-Identifier: MIT */
/* models.h - the functions behind the table of forecaster.h; one family to a file. */
#ifndef SPOT_FORECAST_MODELS_MODELS_H
#define SPOT_FORECAST_MODELS_MODELS_H

#include "forecast/forecaster.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void spot_fc_predict_fn(const struct spot_fc_spec *, void *, const struct spot_fc_past *,
                                double *);
typedef void spot_fc_observe_fn(const struct spot_fc_spec *, void *, const struct spot_fc_past *);
typedef size_t spot_fc_state_fn(const struct spot_fc_spec *);
typedef bool spot_fc_sound_fn(const struct spot_fc_spec *, const void *);

spot_fc_predict_fn spot_last_predict, spot_ma_predict;           /* fc_simple.c */
spot_fc_predict_fn spot_ses_predict;                             /* fc_smooth.c */
spot_fc_predict_fn spot_ar_predict;                              /* fc_ar.c */
spot_fc_predict_fn spot_arima_predict;                           /* fc_arima.c */
spot_fc_predict_fn spot_empirical_predict;                       /* fc_empirical.c */
spot_fc_predict_fn spot_markov_predict, spot_birthdeath_predict; /* fc_chain.c */
spot_fc_state_fn spot_chain_state_byte;
spot_fc_observe_fn spot_chain_observe;
spot_fc_predict_fn spot_renewal_predict; /* fc_renewal.c */
spot_fc_state_fn spot_renewal_state_byte;
spot_fc_observe_fn spot_renewal_observe;
spot_fc_sound_fn spot_renewal_is_sound;
spot_fc_predict_fn spot_knn_predict; /* fc_knn.c */
spot_fc_state_fn spot_knn_state_byte;
spot_fc_observe_fn spot_knn_observe;
spot_fc_predict_fn spot_context_predict; /* fc_context.c */
spot_fc_state_fn spot_context_state_byte;
spot_fc_observe_fn spot_context_observe;
spot_fc_sound_fn spot_context_is_sound;
spot_fc_predict_fn spot_load_predict, spot_negbin_predict; /* fc_load.c */
spot_fc_predict_fn spot_pool_predict;                      /* fc_pool.c */
spot_fc_state_fn spot_pool_state_byte;
spot_fc_observe_fn spot_pool_observe;
spot_fc_sound_fn spot_pool_is_sound;

/* The part of `past` that spec->history changes span: at most history + 1 values. */
static inline struct spot_fc_past spot_fc_tail(const struct spot_fc_spec *spec,
                                               const struct spot_fc_past *past)
{
    struct spot_fc_past tail = *past;

    if (spec->history > 0 && tail.n > (size_t)spec->history + 1) {
        tail.y += tail.n - ((size_t)spec->history + 1);
        tail.n = (size_t)spec->history + 1;
    }
    return tail;
}

/* Row of step h (1..horizon) in an array [horizon * (cap + 1)]. */
static inline double *spot_fc_row(const struct spot_fc_spec *spec, double *prob, int h)
{
    return prob + (size_t)(h - 1) * ((size_t)spec->cap + 1);
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_MODELS_MODELS_H */

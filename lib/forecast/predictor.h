/* SPDX-License-Identifier: MIT */
/* predictor.h - one model applied to one series: takes values, gives distributions.
 *
 * Deterministic and causal: the answer is a function of the values observed so far.
 */
#ifndef SPOT_FORECAST_PREDICTOR_H
#define SPOT_FORECAST_PREDICTOR_H

#include <stdio.h>

#include "common/err.h"
#include "forecast/forecaster.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_predictor;

/* spec->cap 0..SPOT_FC_CAP_MAX, spec->horizon 1..SPOT_FC_HORIZON_MAX, both asserted.
 * Memory: O(SPOT_FC_PAST) and the model's state, whatever the number of values. */
struct spot_predictor *spot_predictor_new(const struct spot_forecaster *model,
                                          const struct spot_fc_spec *spec);
void spot_predictor_free(struct spot_predictor *predictor);

/* Observe the next value, clamped to 0..cap. */
void spot_predictor_observe(struct spot_predictor *predictor, int y);

/* prob [horizon * (cap + 1)], row-major: step h at row h - 1; each row sums to 1 within 1e-12.
 * At least one value must have been observed. */
void spot_predictor_predict(struct spot_predictor *predictor, double *prob);

/* Save what a predictor has learned: the newest values and the model's state, with runs of zeros
 * folded. Valid for this machine's byte order and this version's models. */
size_t spot_predictor_save(const struct spot_predictor *predictor, FILE *out);

/* Restore it into a predictor made with the same model and spec that has observed nothing. Returns
 * 0, or -1 with *err (SPOT_EDATA) for bytes that are truncated, too many or invalid. */
int spot_predictor_restore(struct spot_predictor *predictor, const void *data, size_t n_byte,
                           struct spot_err *err);

/* The values kept, [n], newest last, at full scale; to be passed on to a predictor with another
 * cap. Returns n. */
size_t spot_predictor_recent(const struct spot_predictor *predictor, int *y, size_t n_max);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_PREDICTOR_H */

/* SPDX-License-Identifier: MIT */
/* model_wire.h - reads indices of parts of a model from messages; an index that the model does not
 * have sets bad (comm/wire.h).
 */
#ifndef SPOT_TRAIN_MODEL_WIRE_H
#define SPOT_TRAIN_MODEL_WIRE_H

#include "comm/wire.h"
#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A bundle, below n_bundle; 0 when bad. */
uint32_t spot_get_bundle(struct spot_wire_in *in, uint32_t n_bundle);
/* A set of tensors of a bundle, one bit each; 0 when bad. */
uint32_t spot_get_tensors(struct spot_wire_in *in, const struct spot_shape *shape, uint32_t bundle);
/* A time in seconds, not negative and less than 1e6; 0 when bad. */
double spot_get_duration(struct spot_wire_in *in);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_MODEL_WIRE_H */

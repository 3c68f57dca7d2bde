/* SPDX-License-Identifier: MIT */
/* stage_split.h - the layers of a pipeline stage.
 *
 * Parcae's rule (liveput/model.py): with L layers and P stages, chunk = (L - 1) / P; the first
 * stage gets one more; the remainder goes, one layer each, to stages P-2, P-3, ...
 */
#ifndef SPOT_MODEL_STAGE_SPLIT_H
#define SPOT_MODEL_STAGE_SPLIT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Layers [first, end) of stage k of p; 1 <= p <= n_layer, 0 <= k < p. */
struct spot_stage_span {
    int first, end;
};

struct spot_stage_span spot_stage_split(int n_layer, int p, int k);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_STAGE_SPLIT_H */

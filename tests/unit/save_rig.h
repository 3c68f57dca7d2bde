/* SPDX-License-Identifier: MIT */
/* save_rig.h - all weights of a model into a file at once. */
#ifndef SPOT_TESTS_SAVE_RIG_H
#define SPOT_TESTS_SAVE_RIG_H

#include "weights/save.h"

/* bundle[L + 2]. Returns 0, or -1 with *err. */
static inline int save_weights(const char *path, const struct spot_shape *shape,
                               struct spot_bundle *const *bundle, enum spot_dtype dtype,
                               struct spot_err *err)
{
    struct spot_weights_out w;

    if (spot_weights_out_open(&w, path, shape, dtype, err))
        return -1;
    for (int b = 0; b < spot_shape_bundles(shape); b++)
        spot_weights_out_add(&w, bundle[b]);
    return spot_weights_out_finish(&w, 0, err);
}

#endif /* SPOT_TESTS_SAVE_RIG_H */

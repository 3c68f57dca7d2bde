/* SPDX-License-Identifier: MIT */
/* rig.h - arrays on the device of PTX, and what comes out held against double precision. */
#ifndef SPOT_TESTS_PTX_RIG_H
#define SPOT_TESTS_PTX_RIG_H

#include "engine/cuda/kernels.h"
#include "ptx/ptx.h"

/* Random numbers in [-size, size], rounded to `real`. */
void *rig_numbers(enum spot_real real, int64_t n, double size);
void *rig_room(enum spot_real real, int64_t n);
double rig_at(enum spot_real real, const void *x, int64_t i);
double rig_draw(void); /* in [-1, 1] */

/* x[i] must be `want`, up to the rounding of `real` and `slack`. Notes the first that is not. */
void rig_near(const char *what, enum spot_real real, const void *x, int64_t i, double want,
              double slack);
void rig_equal(const char *what, int64_t got, int64_t want);

/* What was noted since the last call, or the error of a launch; NULL: all is well. */
const char *rig_wrong(void);

typedef void rig_test(enum spot_real real);
rig_test rig_elements, rig_swiglu, rig_norms, rig_columns, rig_embedding, rig_classifier,
    rig_shards, rig_rows_attention, rig_flash_64, rig_flash_128, rig_rotation, rig_quantise,
    rig_update, rig_skinny, rig_serving_rows, rig_paged, rig_choose, rig_products;

#endif /* SPOT_TESTS_PTX_RIG_H */

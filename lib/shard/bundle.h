/* SPDX-License-Identifier: MIT */
/* bundle.h - the state of one bundle: three planes, the scale exponents, the step it is at.
 *
 * The state of a job is the set of its bundles. It is a pure function of (model, data, seed, step):
 * all holders of a bundle at step s have the same bits.
 */
#ifndef SPOT_SHARD_BUNDLE_H
#define SPOT_SHARD_BUNDLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "shard/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gradients of a mean loss are normally below 2^11 at the start; a unit of 2^-40 is small compared
 * with Adam's usual eps of 1e-8. */
enum { SPOT_EXPONENT_START = 40 };

enum spot_plane { SPOT_PLANE_MASTER, SPOT_PLANE_M, SPOT_PLANE_V, SPOT_PLANES };

struct spot_bundle {
    int index;
    int64_t step; /* updates applied; 0 is the initial state */
    struct spot_arena arena;
    float *plane[SPOT_PLANES];          /* each [arena.n_elem], 64-byte aligned */
    int32_t exponent[SPOT_TENSORS_MAX]; /* gradients are summed in units of 2^-exponent */
    int64_t *spare_sum;                 /* [arena.n_elem], not in use by a stage; NULL: none */
};

/* Bytes of the planes of a bundle. */
size_t spot_bundle_memory(const struct spot_arena *arena);

/* Zeroed planes. Returns 0, or -1 with *err (SPOT_ESYS) when out of memory. */
int spot_bundle_init(struct spot_bundle *bundle, const struct spot_shape *shape, int index,
                     struct spot_err *err);
/* The master plane alone, for weights that are not trained; the others are NULL. */
int spot_bundle_init_weights(struct spot_bundle *bundle, const struct spot_shape *shape, int index,
                             struct spot_err *err);
void spot_bundle_release(struct spot_bundle *bundle);

/* One with zeroed planes; NULL with *err as above. Release and free it; NULL is fine. */
struct spot_bundle *spot_bundle_new(const struct spot_shape *shape, int index,
                                    struct spot_err *err);
void spot_bundle_free(struct spot_bundle *bundle);

/* Memory for the sums of a bundle's gradients, [arena.n_elem], 64-byte aligned, zeroed or as the
 * last stage left it. For a large bundle its page faults are most of the time to create a stage, so
 * a stage that ends leaves it to the next one over the bundle. take returns NULL when out of
 * memory. */
int64_t *spot_bundle_take_sum(struct spot_bundle *bundle);
void spot_bundle_leave_sum(struct spot_bundle *bundle, int64_t *sum);
void spot_bundle_drop_sum(struct spot_bundle *bundle);
size_t spot_bundle_sum_memory(const struct spot_arena *arena);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_BUNDLE_H */

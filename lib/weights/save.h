/* SPDX-License-Identifier: MIT */
/* save.h - writes the weights of a job as a safetensors file under the names of its family. */
#ifndef SPOT_WEIGHTS_SAVE_H
#define SPOT_WEIGHTS_SAVE_H

#include "common/err.h"
#include "common/out.h"
#include "shard/bundle.h"
#include "shard/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names and layouts are those of the shape's family (hf_names.h), numbers are F32, or rounded to
 * BF16. __metadata__ has the model's config as one line. One bundle at a time. */
struct spot_weights_out {
    const struct spot_shape *shape;
    enum spot_dtype dtype;
    int next; /* bundle */
    struct spot_out out;
};

/* The shape is borrowed; a symbolic link at the path is replaced. Returns 0, or -1 with *err
 * (SPOT_ESYS). */
int spot_weights_out_open(struct spot_weights_out *weights, const char *path,
                          const struct spot_shape *shape, enum spot_dtype dtype,
                          struct spot_err *err);
/* Add bundle `next`; only its index, arena and master plane are used. */
void spot_weights_out_add(struct spot_weights_out *weights, const struct spot_bundle *bundle);
/* If rc is 0 and all bundles were added, the file is moved into place; else it is discarded.
 * Returns the resulting rc. */
int spot_weights_out_finish(struct spot_weights_out *weights, int rc, struct spot_err *err);

/* Add the numbers of a bundle's master plane to a hash, in the same way as spot_weights_open does
 * for the F32 file written from it; weights of norms that would lose bits in that file are added,
 * too. Bundles in ascending order give the hash of the model. Returns 0, or -1 if a number is not
 * finite. */
struct spot_hash_stream;
int spot_weights_hash(struct spot_hash_stream *hash, const struct spot_shape *shape,
                      const struct spot_bundle *bundle);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_SAVE_H */

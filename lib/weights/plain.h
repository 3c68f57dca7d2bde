/* SPDX-License-Identifier: MIT */
/* plain.h - the weights of a model in the layout of bundles, in one file beside its config.json.
 * For passing a model between processes of one host and one build: neither side transposes a
 * tensor, and opening the file reads only its head. A bundle's numbers are compared with their hash
 * when it is read. load.h takes such a file where a directory has one.
 */
#ifndef SPOT_WEIGHTS_PLAIN_H
#define SPOT_WEIGHTS_PLAIN_H

#include <stdint.h>

#include "common/err.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_PLAIN_NAME "model.bundles"

struct spot_hash_stream;

struct spot_plain {
    int fd; /* -1: none */
    int n_bundle;
    uint64_t xxh3;                /* see spot_weights_xxh3 */
    uint64_t *hash;               /* [n_bundle] of the plane of each */
    uint64_t *at_byte;            /* [n_bundle + 1] offsets of the planes */
    struct spot_hash_stream *all; /* while writing */
    int next;
};

/* Create DIR/model.bundles. Returns 0, or -1 with *err (SPOT_ESYS); release it in both cases. */
int spot_plain_create(struct spot_plain *p, const char *dir, const struct spot_shape *shape,
                      struct spot_err *err);
/* Write the next bundle: its master plane, [arena.n_elem], whose hash is known. Returns 0, or -1
 * with *err (SPOT_ESYS; SPOT_EDATA where a number is not finite). */
int spot_plain_add(struct spot_plain *p, const struct spot_shape *shape,
                   const struct spot_bundle *bundle, uint64_t hash, struct spot_err *err);
/* Finish the file; all bundles must have been written. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_plain_finish(struct spot_plain *p, const struct spot_shape *shape, struct spot_err *err);

/* Open DIR/model.bundles. Returns 1, 0 if there is none, or -1 with *err: SPOT_ESYS, SPOT_EDATA for
 * a file that is incomplete or of another shape. */
int spot_plain_open(struct spot_plain *p, const char *dir, const struct spot_shape *shape,
                    struct spot_err *err);
/* Fill the master plane. Returns 0, or -1 with *err: SPOT_ESYS, SPOT_EDATA where it is damaged. */
int spot_plain_read(const struct spot_plain *p, struct spot_bundle *bundle, struct spot_err *err);

void spot_plain_release(struct spot_plain *p); /* *p may be zeroed and never opened */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_PLAIN_H */

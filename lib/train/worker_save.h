/* SPDX-License-Identifier: MIT */
/* worker_save.h - makes bundles durable on request, while steps continue.
 *
 * A bundle is copied when it is requested, since the next step changes it; a thread encodes the
 * copy, writes it if the coordinator's directory is accessible from here, and reports. Bundles that
 * cannot be written here are sent to the coordinator; one warning is given until a write succeeds.
 */
#ifndef SPOT_TRAIN_WORKER_SAVE_H
#define SPOT_TRAIN_WORKER_SAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/mesh.h"
#include "common/err.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_objects;
struct spot_saver; /* NULL: an idle saver */

/* A request to save bundles. */
struct spot_save_order {
    struct spot_mesh *mesh;
    uint32_t epoch;
    const char *dir; /* of the generation; "": none accessible from here */
    uint64_t nonce;
    struct spot_objects *objects; /* of this worker, if `dir` is "command:OWNER" */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* called by the thread; NULL */
};

/* Copy the bundle and queue the copy for writing. Returns 0, or -1 with *err if out of memory or
 * threads; then nothing was done. */
int spot_saver_add(struct spot_saver **saver, const struct spot_save_order *order,
                   const struct spot_shape *shape, const struct spot_bundle *bundle,
                   struct spot_err *err);

/* True if spot_saver_stop was called. From any thread. */
bool spot_saver_stops(const struct spot_saver *saver);

/* Drop queued bundles and wait for the thread; afterwards it does not use the mesh. */
void spot_saver_stop(struct spot_saver **saver);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_WORKER_SAVE_H */

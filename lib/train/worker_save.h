/* SPDX-License-Identifier: MIT */
/* worker_save.h - bundles that this worker is asked to make durable, written beside the steps.
 *
 * A bundle is copied when it is asked for, since the next step changes it; a thread codes the copy,
 * writes it where the coordinator's directory is seen from here, and tells. What cannot be written
 * here is sent to the coordinator; why is warned of, once until something could be written.
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
struct spot_saver; /* NULL is an idle one */

/* What is asked for at once. */
struct spot_save_order {
    struct spot_mesh *mesh;
    uint32_t epoch;
    const char *dir; /* of the generation; "": none that is seen from here */
    uint64_t nonce;
    struct spot_objects *objects; /* of this worker, if `dir` is "command:OWNER" */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* called by the thread; NULL */
};

/* Take a copy of the bundle, to be written. Returns 0, or -1 with *err: no memory, no thread; then
 * nothing was taken. */
int spot_saver_add(struct spot_saver **saver, const struct spot_save_order *order,
                   const struct spot_shape *shape, const struct spot_bundle *bundle,
                   struct spot_err *err);

/* Is it given up? From any thread. */
bool spot_saver_stops(const struct spot_saver *saver);

/* Give up what is not written, and wait for the thread: the mesh is not used from now on. */
void spot_saver_stop(struct spot_saver **saver);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_WORKER_SAVE_H */

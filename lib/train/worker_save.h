/* SPDX-License-Identifier: MIT */
/* worker_save.h - writes bundles that this worker is asked to make durable, while steps continue.
 *
 * A bundle is copied when it is requested, since the next step changes it; a thread encodes the
 * copy, writes it if the coordinator's directory is accessible from here, and reports. What cannot
 * be written here is sent to the coordinator, with a warning once until a write succeeds.
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

/* A request to save bundles. */
struct spot_save_order {
    struct spot_mesh *mesh;
    uint32_t epoch;
    const char *dir; /* of the generation; "": none accessible from here */
    uint64_t nonce;
    struct spot_objects *objects; /* of this worker, if `dir` is "command:OWNER" */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* called by the thread; NULL */
};

/* Copy the bundle, to be written. Returns 0, or -1 with *err: no memory, no thread; then nothing
 * was done. */
int spot_saver_add(struct spot_saver **saver, const struct spot_save_order *order,
                   const struct spot_shape *shape, const struct spot_bundle *bundle,
                   struct spot_err *err);

/* Has it been told to stop? From any thread. */
bool spot_saver_stops(const struct spot_saver *saver);

/* Drop what is not written, and wait for the thread: it does not use the mesh afterwards. */
void spot_saver_stop(struct spot_saver **saver);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_WORKER_SAVE_H */

/* SPDX-License-Identifier: MIT */
/* state_sources.h - tells workers where to find state that no member holds: a worker with access to
 * the same files reads what it needs itself. On the worker's machine a path may be missing or refer
 * to other files, so only matching contents are used: a generation of this job and step with
 * exactly the coordinator's manifest, which has the hash of every bundle, or weights with these
 * hashes.
 */
#ifndef SPOT_TRAIN_STATE_SOURCES_H
#define SPOT_TRAIN_STATE_SOURCES_H

#include <limits.h>
#include <stdint.h>

#include "comm/wire.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_objects;

struct spot_state_sources {
    char state[PATH_MAX]; /* directory of generations; "": none accessible to others;
                             "command:OWNER": behind a command, as in object_store.h */
    uint64_t job;         /* its id, as in the manifests */
    char load[PATH_MAX];  /* initial weights; "": none */
    uint64_t *load_xxh3;  /* [n_load], hash of each of their bundles; n_load 0: none */
    uint32_t n_load;
};

/* A path usable by any process of this host; "" if there is no such file. */
void spot_state_sources_path(const char *path, char out[PATH_MAX]);

/* The number OWNER of "command:OWNER"; 0 for any other text. */
uint64_t spot_state_sources_owner(const char *state);

void spot_state_sources_put(struct spot_buf *out, const struct spot_state_sources *sources);
/* Sets `bad` when malformed. Release it in any case. */
void spot_state_sources_get(struct spot_wire_in *in, struct spot_state_sources *sources);
void spot_state_sources_release(struct spot_state_sources *sources);

/* Returns a bundle of the generation of a step with this manifest, or of the weights at step 0;
 * NULL with *err if not available here, or damaged. For state behind a command `objects` is this
 * process's access to it, or NULL. */
struct spot_bundle *spot_state_sources_restore(const struct spot_state_sources *sources,
                                               const struct spot_shape *shape, int index,
                                               int64_t step, uint64_t manifest,
                                               struct spot_objects *objects, struct spot_err *err);
struct spot_bundle *spot_state_sources_load(const struct spot_state_sources *sources,
                                            const struct spot_shape *shape, int index,
                                            struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_STATE_SOURCES_H */

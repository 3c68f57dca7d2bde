/* SPDX-License-Identifier: MIT */
/* state_sources.h - where the state that no member holds lies, as the coordinator tells a worker:
 * who sees the same files reads what it needs by itself.
 *
 * A path may name something else, or nothing, where the worker runs. What it finds counts only if
 * it is what was told: a generation of this job and step with the very manifest that the
 * coordinator has, which has the hash of every bundle, or weights with these hashes.
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
    char state[PATH_MAX]; /* directory of generations; "": none that others could see;
                             "command:OWNER": behind a command, as of object_store.h */
    uint64_t job;         /* whose they are, as their manifests name it */
    char load[PATH_MAX];  /* weights to start from; "": none */
    uint64_t *load_xxh3;  /* [n_load], hash of each bundle of them; 0 of them: none */
    uint32_t n_load;
};

/* A path as any process of this host may use it; "" where there is no such file. */
void spot_state_sources_path(const char *path, char out[PATH_MAX]);

/* The number in "command:OWNER", 0: it is no such text. */
uint64_t spot_state_sources_owner(const char *state);

void spot_state_sources_put(struct spot_buf *out, const struct spot_state_sources *sources);
/* Sets `bad` of what is malformed. To be released in any case. */
void spot_state_sources_get(struct spot_wire_in *in, struct spot_state_sources *sources);
void spot_state_sources_release(struct spot_state_sources *sources);

/* A bundle of the generation of a step with this manifest, or of the weights at step 0. Of state
 * behind a command `objects` are what this process has of it, or NULL. NULL with *err: nothing of
 * the kind is here, or it is damaged. */
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

/* SPDX-License-Identifier: MIT */
/* state_bucket.h - commits as generations behind a user's command (checkpoint/generation.h),
 * numbered in the order in which they were written.
 *
 *   bundle-0000       the records of all places (state_record.h), each preceded by its length
 *   bundle-0001, ...  each of their chunks once, in order; an object that has reached pack_byte is
 *                     followed by the next
 *
 * Replicas are stored once. Chunks are not shared between generations: in training nearly all of
 * them change, and if two coordinators write for a moment, the store stays valid only if neither
 * relies on objects that the other may delete. The two newest generations are kept.
 *
 * All functions block on the command. A bucket may be used by one thread at a time.
 */
#ifndef SPOT_HOST_STATE_BUCKET_H
#define SPOT_HOST_STATE_BUCKET_H

#include <stdint.h>

#include "checkpoint/state_command.h"
#include "common/err.h"
#include "host/state_record.h"
#include "host/state_store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_STATE_PACK_BYTE = 256 << 20 };

struct spot_state_bucket;

/* A commit of a run. */
struct spot_state_copy {
    char run_id[SPOT_RUN_ID_MAX]; /* 16 hex digits */
    struct spot_state_id id;
    uint32_t world;   /* number of its places */
    size_t pack_byte; /* target size of the objects of a copy to be put */
};

/* The command is borrowed. Runs nothing yet. */
struct spot_state_bucket *spot_state_bucket_new(const struct spot_state_command *command);
void spot_state_bucket_free(struct spot_state_bucket *bucket); /* may be NULL */

/* The run that owns the commits; "": none. Returns 0, or -1 with *err. */
int spot_state_bucket_owner(struct spot_state_bucket *bucket, char run_id[SPOT_RUN_ID_MAX],
                            struct spot_err *err);
/* Become the writer of that run's commits. Returns 0, or -1 with *err: SPOT_EUSAGE when the bucket
 * has commits of another run. */
int spot_state_bucket_claim(struct spot_state_bucket *bucket, const char *run_id,
                            struct spot_err *err);

/* The newest commit with a valid manifest; others are set aside. Returns 1, 0 when there is none,
 * -1 with *err. */
int spot_state_bucket_find(struct spot_state_bucket *bucket, struct spot_state_copy *copy,
                           struct spot_err *err);
/* Add all of a commit to the store. A damaged commit is set aside. Returns 0, or -1 with *err:
 * SPOT_EDATA if it was damaged. */
int spot_state_bucket_get(struct spot_state_bucket *bucket, struct spot_state_store *store,
                          struct spot_err *err);

/* Append the record of the next place of a commit to be put. */
void spot_state_bucket_add(struct spot_buf *records, const struct spot_state_record *record);
/* Put a commit that the store holds, as the newest; all but the two newest are deleted. `records`
 * are those of copy->world places, added in order. Chunks are read by spot_state_store_read:
 * another thread may use the store, if it does not remove them. Returns 0, or -1 with *err:
 * SPOT_ESYS, SPOT_EDATA if the store's bytes are damaged, SPOT_EPREEMPTED if the command was
 * aborted. After an error the commit is either complete or absent. */
int spot_state_bucket_put(struct spot_state_bucket *bucket, const struct spot_state_store *store,
                          const struct spot_state_copy *copy, const struct spot_buf *records,
                          struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_BUCKET_H */

/* SPDX-License-Identifier: MIT */
/* state_bucket.h - commits as generations of objects, behind a command of the user
 * (checkpoint/object_store.h), numbered in the order in which they were written.
 *
 *   bundle-0000       the records of all places (state_record.h), each behind its length
 *   bundle-0001, ...  each chunk that they name once, in their order; as soon as an object has
 *                     pack_byte the next one begins
 *   manifest.json     spot.commit/1, written last
 *
 * Replicas are put once. Chunks are not shared between generations: of a state that trains nearly
 * all change, and a store that two coordinators write for a moment stays sound only if nobody
 * relies on what the other may delete. The two newest generations stay.
 *
 * All of it waits for the command. One thread at a time may use a bucket.
 */
#ifndef SPOT_HOST_STATE_BUCKET_H
#define SPOT_HOST_STATE_BUCKET_H

#include <stdint.h>

#include "checkpoint/state_command.h"
#include "common/err.h"
#include "common/json.h"
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
    uint32_t world;   /* places that it has */
    size_t pack_byte; /* of its objects */
};

/* What docs/schema/commit.json is made from. */
extern const struct spot_doc_part spot_commit_part[];
/* Is the text a manifest? Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_commit_check(const char *text, size_t n_byte, struct spot_err *err);

/* The command is borrowed. Nothing is run. */
struct spot_state_bucket *spot_state_bucket_new(const struct spot_state_command *command);
void spot_state_bucket_free(struct spot_state_bucket *bucket); /* may be NULL */

/* Whose commits are there; "": nobody's. Returns 0, or -1 with *err. */
int spot_state_bucket_owner(struct spot_state_bucket *bucket, char run_id[SPOT_RUN_ID_MAX],
                            struct spot_err *err);
/* Become the one that writes commits of that run there. Returns 0, or -1 with *err: SPOT_EUSAGE
 * when they are another run's. */
int spot_state_bucket_claim(struct spot_state_bucket *bucket, const char *run_id,
                            struct spot_err *err);

/* The newest commit whose manifest is sound; others are set aside. Returns 1, 0 when there is none,
 * -1 with *err. */
int spot_state_bucket_find(struct spot_state_bucket *bucket, struct spot_state_copy *copy,
                           struct spot_err *err);
/* Add all of it to the store. Where it is damaged it is set aside. Returns 0, or -1 with *err:
 * SPOT_EDATA when it was. */
int spot_state_bucket_get(struct spot_state_bucket *bucket, struct spot_state_store *store,
                          struct spot_err *err);

/* The record of the next place of a commit that is to be put. */
void spot_state_bucket_add(struct spot_buf *records, const struct spot_state_record *record);
/* Put a commit that the store holds, as the newest; others than the two newest are deleted.
 * `records` are those of copy->world places, added in their order. Chunks are read by
 * spot_state_store_read: another thread may use the store, if it leaves them. Returns 0, or -1 with
 * *err: SPOT_ESYS, SPOT_EDATA where the store has other bytes than it was given, SPOT_EPREEMPTED
 * where the command was given up. It is whole then, or it is none. */
int spot_state_bucket_put(struct spot_state_bucket *bucket, const struct spot_state_store *store,
                          const struct spot_state_copy *copy, const struct spot_buf *records,
                          struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_BUCKET_H */

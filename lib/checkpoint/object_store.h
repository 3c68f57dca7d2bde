/* SPDX-License-Identifier: MIT */
/* object_store.h - generations as objects, behind a user's command (state_command.h): states of a
 * training job, numbered by their step, and commits of a foreign trainer (host/state_bucket.h).
 *
 *   owner                        "JOB NONCE": the job they belong to, and its current writer
 *   job.json                     describes the job (spot.training/1), for readers that have only
 *                                the store
 *   gen-STEP.NONCE/bundle-BBBB   bytes of bundle_io.h
 *   gen-STEP.NONCE/manifest.json written last: it makes the generation valid
 *   gen-STEP.NONCE/bad           it was found damaged, and no longer counts
 *
 * The command's claims are not trusted: before a manifest is written all sizes are checked, a
 * manifest is read back, and bytes are hashed as they are read. May be used by several threads.
 */
#ifndef SPOT_CHECKPOINT_OBJECT_STORE_H
#define SPOT_CHECKPOINT_OBJECT_STORE_H

#include <stdint.h>

#include "checkpoint/bundle_file.h"
#include "checkpoint/object_key.h"
#include "checkpoint/state_command.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_objects;

/* The command is borrowed. Runs nothing yet. */
struct spot_objects *spot_objects_new(const struct spot_state_command *command);
void spot_objects_free(struct spot_objects *objects); /* NULL is fine */

/* The job to which the generations belong; *job 0: unclaimed. Returns 0, or -1 with *err. */
int spot_objects_job(struct spot_objects *objects, uint64_t *job, struct spot_err *err);

/* Check that the generations are unclaimed, or this job's. Returns 0, or -1 with *err: SPOT_EUSAGE
 * if they are another job's. */
int spot_objects_check_job(struct spot_objects *objects, uint64_t job, struct spot_err *err);

/* Become the writer of this job's generations, after checking that they are this job's, and remove
 * what others left unfinished. Returns 0, or -1 with *err. */
int spot_objects_claim(struct spot_objects *objects, uint64_t job, struct spot_err *err);
/* The nonce of that claim; 0: not claimed. */
uint64_t spot_objects_owner(const struct spot_objects *objects);
/* Check that this store was claimed under that nonce. Returns 0, or -1 with *err. */
int spot_objects_check_owner(struct spot_objects *objects, uint64_t owner, struct spot_err *err);

/* A text that describes the job, written by the trainer. Put it, unless another process has claimed
 * the store (0, or -1 with *err). Get it: 1 with *text, n_byte and a NUL, freed by the caller; 0 if
 * there is none; -1 with *err. */
int spot_objects_put_note(struct spot_objects *objects, const char *text, struct spot_err *err);
int spot_objects_note(struct spot_objects *objects, char **text, size_t *n_byte,
                      struct spot_err *err);

/* Look up which generations exist. Returns 0, or -1 with *err. */
int spot_objects_look(struct spot_objects *objects, struct spot_err *err);
/* Steps of the generations found by the last look-up or committed since, newest first; *n of them,
 * freed by the caller. */
int64_t *spot_objects_list(struct spot_objects *objects, size_t *n);

/* The key of a bundle of a generation, -1: of its manifest; for messages. */
void spot_objects_name(struct spot_objects *objects, int64_t step, int bundle,
                       char key[SPOT_OBJECT_KEY_SIZE]);

/* The text of a manifest, n_byte long, freed by the caller; NULL with *err: SPOT_EDATA if there is
 * none. */
char *spot_objects_manifest(struct spot_objects *objects, int64_t step, size_t *n_byte,
                            struct spot_err *err);

/* Read a bundle of a generation. If a try fails halfway its bytes cannot be passed on again: then
 * it is an error. */
int spot_objects_get(struct spot_objects *objects, int64_t step, int bundle,
                     int (*take)(void *user, const void *data, size_t n_byte, struct spot_err *err),
                     void *user, struct spot_err *err);

/* Check that all objects exist with the sizes of written[n_bundle]. Returns 0, or -1 with *err
 * (SPOT_EDATA if not). */
int spot_objects_check(struct spot_objects *objects, int64_t step,
                       const struct spot_written *written, int n_bundle, struct spot_err *err);

/* Store a bundle of a new generation, piece by piece as in state_command.h; *written gets the size
 * and hash of the last try. */
int spot_objects_put(struct spot_objects *objects, int64_t step, uint64_t nonce, int bundle,
                     const struct spot_command_io *io, struct spot_written *written,
                     struct spot_err *err);

/* If all objects of written[n_bundle] exist, and no other process has claimed the store, write the
 * manifest. Returns 0, or -1 with *err. */
int spot_objects_commit(struct spot_objects *objects, int64_t step, uint64_t nonce,
                        const struct spot_written *written, int n_bundle, const char *manifest,
                        struct spot_err *err);

/* Delete the generation of a step: 0, or -1 with *err if a part of it remains, to be retried. An
 * uncommitted one is deleted as far as possible. */
int spot_objects_drop(struct spot_objects *objects, int64_t step, struct spot_err *err);
void spot_objects_drop_unfinished(struct spot_objects *objects, int64_t step, uint64_t nonce);
/* Mark the generation of a step as damaged. */
void spot_objects_set_aside(struct spot_objects *objects, int64_t step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_OBJECT_STORE_H */

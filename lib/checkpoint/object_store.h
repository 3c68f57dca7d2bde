/* SPDX-License-Identifier: MIT */
/* object_store.h - generations as objects, behind a command of the user (state_command.h): states
 * of a training job, numbered by their step, and commits of a foreign one (host/state_bucket.h).
 *
 *   owner                        "JOB NONCE": whose they are, and who writes them now
 *   job.json                     what the job is (spot.training/1), for who has the store alone
 *   gen-STEP.NONCE/bundle-BBBB   bytes of bundle_io.h
 *   gen-STEP.NONCE/manifest.json written last: then it is a generation
 *   gen-STEP.NONCE/bad           it was found damaged, and counts no more
 *
 * Nothing is believed that the command says: before a manifest is written all sizes are looked up,
 * a manifest is read again, and bytes are hashed as they are read. May be used by several threads.
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

/* The command is borrowed. Nothing is run. */
struct spot_objects *spot_objects_new(const struct spot_state_command *command);
void spot_objects_free(struct spot_objects *objects); /* NULL is fine */

/* Whose they are; *job 0: nobody has claimed it. Returns 0, or -1 with *err. */
int spot_objects_job(struct spot_objects *objects, uint64_t *job, struct spot_err *err);

/* Nobody's, or this job's? Returns 0, or -1 with *err: SPOT_EUSAGE where they are another job's. */
int spot_objects_check_job(struct spot_objects *objects, uint64_t job, struct spot_err *err);

/* Become the one that writes generations of this job, which is checked, and remove what others left
 * unfinished. Returns 0, or -1 with *err. */
int spot_objects_claim(struct spot_objects *objects, uint64_t job, struct spot_err *err);
/* The number under which that was done; 0: it was not. */
uint64_t spot_objects_owner(const struct spot_objects *objects);
/* Is this the store of who claimed it under that number? Returns 0, or -1 with *err. */
int spot_objects_check_owner(struct spot_objects *objects, uint64_t owner, struct spot_err *err);

/* A text that describes the job, written by the trainer. Put it, if nobody else has claimed the
 * store (0, or -1 with *err). Get it: 1 with *text, n_byte and a NUL, freed by the caller; 0 where
 * there is none; -1 with *err. */
int spot_objects_put_note(struct spot_objects *objects, const char *text, struct spot_err *err);
int spot_objects_note(struct spot_objects *objects, char **text, size_t *n_byte,
                      struct spot_err *err);

/* Look which generations there are. Returns 0, or -1 with *err. */
int spot_objects_look(struct spot_objects *objects, struct spot_err *err);
/* Steps of those that were there at the last look or were committed since, newest first; *n of
 * them, freed by the caller. */
int64_t *spot_objects_list(struct spot_objects *objects, size_t *n);

/* The key of a bundle of a generation, with -1 of its manifest; for messages. */
void spot_objects_name(struct spot_objects *objects, int64_t step, int bundle,
                       char key[SPOT_OBJECT_KEY_SIZE]);

/* The text of a manifest, n_byte of it, freed by the caller; NULL with *err: SPOT_EDATA where there
 * is none. */
char *spot_objects_manifest(struct spot_objects *objects, int64_t step, size_t *n_byte,
                            struct spot_err *err);

/* Bytes of a bundle of a generation; those of a try that failed half-way are not handed out again:
 * then it is an error. */
int spot_objects_get(struct spot_objects *objects, int64_t step, int bundle,
                     int (*take)(void *user, const void *data, size_t n_byte, struct spot_err *err),
                     void *user, struct spot_err *err);

/* Are objects of written[n_bundle] bytes there? 0, or -1 with *err (SPOT_EDATA: they are not). */
int spot_objects_check(struct spot_objects *objects, int64_t step,
                       const struct spot_written *written, int n_bundle, struct spot_err *err);

/* Put a bundle of a generation to be: what is given, piece by piece, as state_command.h has it. */
int spot_objects_put(struct spot_objects *objects, int64_t step, uint64_t nonce, int bundle,
                     const struct spot_command_io *io, struct spot_err *err);

/* Where objects of written[n_bundle] are there, and nobody else has claimed the store: write the
 * manifest. Returns 0, or -1 with *err. */
int spot_objects_commit(struct spot_objects *objects, int64_t step, uint64_t nonce,
                        const struct spot_written *written, int n_bundle, const char *manifest,
                        struct spot_err *err);

/* Delete the generation of a step: 0, or -1 with *err where a part of it stays, to be tried again.
 * One that is not committed is deleted as far as that can be done. */
int spot_objects_drop(struct spot_objects *objects, int64_t step, struct spot_err *err);
void spot_objects_drop_unfinished(struct spot_objects *objects, int64_t step, uint64_t nonce);
/* Mark it as bad. */
void spot_objects_set_aside(struct spot_objects *objects, int64_t step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_OBJECT_STORE_H */

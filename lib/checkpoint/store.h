/* SPDX-License-Identifier: MIT */
/* store.h - durable generations of a job's state, written beside the training.
 *
 * DIR/gen-STEP/ holds one file per bundle (bytes of bundle_io.h) and manifest.json with the hash
 * of each. A generation is written as DIR/gen-STEP.tmp, synced, and becomes one by its rename:
 * the commit marker. The newest two that are sound are kept. A thread writes; the caller never
 * waits for a disk. It also looks once a second whether the newest is still there, and makes a
 * directory that was deleted again when it writes the next.
 */
#ifndef SPOT_CHECKPOINT_STORE_H
#define SPOT_CHECKPOINT_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/bundle_file.h"
#include "checkpoint/generation.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_STORE_PATH = 2 * PATH_MAX };

struct spot_store;

/* Open or make DIR; NULL makes a private one under $TMPDIR that goes when the store is closed.
 * Generations of another job are refused (SPOT_EUSAGE) where none is of this one, so is a DIR that
 * another process has open (SPOT_ESYS). What a crash left half-written is removed. NULL with *err.
 *
 * With a command, borrowed as is what it points to, the generations are behind it, and DIR is for
 * the lock and whatever else the job has there. They are only read until they are claimed: then
 * this process is the one that writes there, what others left unfinished goes, and the newest is
 * that of a new look (0, or -1 with *err). */
struct spot_store *spot_store_open_behind(const char *dir, const char *command, double timeout_s,
                                          uint64_t job, int n_bundle, struct spot_err *err);
int spot_store_claim(struct spot_store *store, struct spot_err *err);
bool spot_store_is_behind(const struct spot_store *store);
/* What the job is, beside the generations behind a command. Returns 0, or -1 with *err. */
int spot_store_put_note(struct spot_store *store, const char *text, struct spot_err *err);
void spot_store_close(struct spot_store *store);

/* Where the state is, for people: 'DIR' in quotes, or words. */
const char *spot_store_place(const struct spot_store *store);
/* The directory; behind a command, "command:OWNER". */
void spot_store_source(const struct spot_store *store, char source[SPOT_STORE_PATH]);
const char *spot_store_dir(const struct spot_store *store);

/* Step of the newest durable generation, -1 if there is none. */
int64_t spot_store_newest(const struct spot_store *store);

/* Look whether that is still there: false, if it was deleted; the newest is then one that is left.
 */
bool spot_store_confirm(struct spot_store *store);

/* Call tick(user) while spot_store_verify works: it may take long. */
void spot_store_on_tick(struct spot_store *store, void (*tick)(void *user), void *user);

/* Read and verify every file of the newest generation; one that is torn or damaged is set aside
 * (renamed gen-STEP.bad) and named in *err, and the one before counts as newest.
 * Returns how many were set aside, or -1 with *err when the disk could not be read: nothing is set
 * aside for that. */
int spot_store_verify(struct spot_store *store, struct spot_err *err);

/* The newest is damaged, as was found out by reading it: it is set aside, and the one before counts
 * as newest. */
void spot_store_set_aside_newest(struct spot_store *store);

/* A bundle of the durable generation of a step, verified; freed by the caller. NULL with *err. */
uint8_t *spot_store_read(struct spot_store *store, int64_t step, int bundle, size_t *n_byte,
                         struct spot_err *err);

/* The same piece by piece, see generation.h. */
int spot_store_scan(struct spot_store *store, int64_t step, int bundle,
                    spot_generation_bytes_fn *fn, void *user, struct spot_err *err);

/* Hash of the manifest of a durable generation, which has those of all bundles; 0: there is none.
 */
uint64_t spot_store_manifest(const struct spot_store *store, int64_t step);

/* Start a generation, dropping an unfinished one; then put each bundle once: the thread writes it
 * as it comes. When all are there the thread makes them durable. */
void spot_store_begin(struct spot_store *store, int64_t step);
void spot_store_put(struct spot_store *store, int64_t step, int bundle, uint8_t *data_take,
                    size_t n_byte);
/* Of the generation that was begun: its holders may write its files to dir, where they find this
 * number (bundle_file.h). False where that cannot be: the directory is not there, or the step is
 * durable. What is not written there may still be put. */
bool spot_store_share(struct spot_store *store, char dir[SPOT_STORE_PATH], uint64_t *nonce);
/* That place again; false where there is none. Behind a command it is "command:OWNER", OWNER as of
 * object_store.h. */
bool spot_store_where(const struct spot_store *store, char dir[SPOT_STORE_PATH], uint64_t *nonce);
void spot_store_put_written(struct spot_store *store, int64_t step, uint64_t nonce, int bundle,
                            const struct spot_written *written);
/* Step of the generation of which bundles are missing, -1; is it one that holders write? */
int64_t spot_store_collecting(const struct spot_store *store);
bool spot_store_is_shared(const struct spot_store *store);
/* Has that not got this bundle yet? */
bool spot_store_lacks(const struct spot_store *store, int bundle);
/* Bytes that were put and are not yet written. */
size_t spot_store_queued_byte(const struct spot_store *store);
/* A generation is being collected or written. */
bool spot_store_is_busy(const struct spot_store *store);
/* Step of a generation that has come whole and will be durable or refused: nothing that happens to
 * members can stop it. -1 if there is none. */
int64_t spot_store_writing(const struct spot_store *store);
/* All bundles of `step` have come; they are being written or wait for the one before. */
bool spot_store_has_all(const struct spot_store *store, int64_t step);
/* Forget a generation of which bundles are missing. */
void spot_store_cancel(struct spot_store *store);
/* Leave a private directory there when the store is closed. */
void spot_store_keep(struct spot_store *store);

enum { SPOT_STORE_GONE = -2 };

/* Readable when the thread has news. spot_store_result then gives 1 with *step when that became
 * durable, and *err, where its code is not 0, is a warning: what else was found; -1 with *step and
 * *err when it could not be written; SPOT_STORE_GONE with *step and *err when the newest generation
 * was deleted, and newest is what is left; 0 when there is no news. */
int spot_store_fd(const struct spot_store *store);
int spot_store_result(struct spot_store *store, int64_t *step, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_STORE_H */

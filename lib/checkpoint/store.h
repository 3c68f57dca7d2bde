/* SPDX-License-Identifier: MIT */
/* store.h - durable generations of a job's state, written while training goes on.
 *
 * DIR/gen-STEP/ holds one file per bundle (bytes of bundle_io.h) and manifest.json with the hash of
 * each. A generation is written as DIR/gen-STEP.tmp, synced, and committed by its rename. The
 * newest two valid ones are kept. A thread writes; the caller never waits for a disk. Once a second
 * the thread also checks that the newest still exists; it recreates a deleted directory when it
 * writes the next.
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

/* Open or create DIR; NULL creates a private one under $TMPDIR that is removed when the store is
 * closed. Returns NULL with *err: SPOT_EUSAGE if DIR has generations of another job and none of
 * this one, SPOT_ESYS if another process has DIR open. Incomplete generations left by a crash are
 * removed.
 *
 * With a command, which is borrowed, generations are stored behind it, and DIR is used for the lock
 * and the job's other files. Generations there are only read until spot_store_claim makes this
 * process the only writer, removes unfinished ones of others and reads the newest again (0, or -1
 * with *err).
 *
 * gives_up(), may be NULL, is called several times a second in every wait for the store, also from
 * its thread. Once it returns true all waits end: commands are killed and their callers get
 * SPOT_EPREEMPTED, and closing the store abandons a thread that hangs in a file system. */
struct spot_store *spot_store_open_behind(const char *dir, const char *command, double timeout_s,
                                          bool (*gives_up)(void), uint64_t job, int n_bundle,
                                          struct spot_err *err);
int spot_store_claim(struct spot_store *store, struct spot_err *err);
bool spot_store_is_behind(const struct spot_store *store);
/* Store a description of the job beside the generations behind a command. Returns 0, or -1 with
 * *err. */
int spot_store_put_note(struct spot_store *store, const char *text, struct spot_err *err);
/* Waits until the thread has finished its current write, or gives_up() is true. */
void spot_store_close(struct spot_store *store);

/* The location of the state for messages: 'DIR' in quotes, or words. */
const char *spot_store_place(const struct spot_store *store);
/* The directory; behind a command, "command:OWNER". */
void spot_store_source(const struct spot_store *store, char source[SPOT_STORE_PATH]);
const char *spot_store_dir(const struct spot_store *store);

/* Step of the newest durable generation, -1 if there is none. */
int64_t spot_store_newest(const struct spot_store *store);

/* Check that the newest generation still exists: false if it was deleted; the newest is then one of
 * the remaining ones. */
bool spot_store_confirm(struct spot_store *store);

/* Have tick(user) called during spot_store_verify, which may take long. */
void spot_store_on_tick(struct spot_store *store, void (*tick)(void *user), void *user);

/* Read and verify every file of the newest generation; a damaged one is set aside (renamed
 * gen-STEP.bad) and named in *err, and the one before becomes the newest. Returns how many were set
 * aside, or -1 with *err when the disk could not be read: then none is set aside. */
int spot_store_verify(struct spot_store *store, struct spot_err *err);

/* The newest was found damaged when it was read: set it aside; the one before becomes the
 * newest. */
void spot_store_set_aside_newest(struct spot_store *store);

/* A bundle of the durable generation of a step, verified; freed by the caller. NULL with *err. */
uint8_t *spot_store_read(struct spot_store *store, int64_t step, int bundle, size_t *n_byte,
                         struct spot_err *err);

/* The same piece by piece, see generation.h. */
int spot_store_scan(struct spot_store *store, int64_t step, int bundle,
                    spot_generation_bytes_fn *fn, void *user, struct spot_err *err);

/* Hash of the manifest of a durable generation, which contains those of all bundles; 0 if there is
 * none. */
uint64_t spot_store_manifest(const struct spot_store *store, int64_t step);

/* Start a generation, dropping an unfinished one; `chain` is that of the commits up to its step, 32
 * hex digits, or "". Then put each bundle once: the thread writes them
 * as they arrive, and commits the generation when it has all of them. */
void spot_store_begin(struct spot_store *store, int64_t step, const char *chain);
/* The chain of commits of a durable generation; "" if unknown. */
void spot_store_chain(const struct spot_store *store, int64_t step, char chain[SPOT_HASH_HEX]);
void spot_store_put(struct spot_store *store, int64_t step, int bundle, uint8_t *data_take,
                    size_t n_byte);
/* For the generation just begun: let the holders write its files to dir, which they recognise by
 * the number nonce (bundle_file.h). False if that is impossible: the directory does not exist, or
 * the step is durable. Bundles that are not written there may still be put. */
bool spot_store_share(struct spot_store *store, char dir[SPOT_STORE_PATH], uint64_t *nonce);
/* The directory given by spot_store_share; false if there is none. Behind a command it is
 * "command:OWNER", OWNER as in object_store.h. */
bool spot_store_where(const struct spot_store *store, char dir[SPOT_STORE_PATH], uint64_t *nonce);
void spot_store_put_written(struct spot_store *store, int64_t step, uint64_t nonce, int bundle,
                            const struct spot_written *written);
/* Step of the generation that still lacks bundles, -1 if none; whether holders write it. */
int64_t spot_store_collecting(const struct spot_store *store);
bool spot_store_is_shared(const struct spot_store *store);
/* True if it still lacks this bundle. */
bool spot_store_lacks(const struct spot_store *store, int bundle);
/* Bytes that were put and not yet written. */
size_t spot_store_queued_byte(const struct spot_store *store);
/* A generation is being collected or written. */
bool spot_store_is_busy(const struct spot_store *store);
/* Step of a complete generation that is being written and no longer depends on members; -1 if there
 * is none. */
int64_t spot_store_writing(const struct spot_store *store);
/* All bundles of `step` have been put; they are being written or wait for the previous
 * generation. */
bool spot_store_has_all(const struct spot_store *store, int64_t step);
/* Drop a generation that lacks bundles. */
void spot_store_cancel(struct spot_store *store);
/* Keep a private directory when the store is closed. */
void spot_store_keep(struct spot_store *store);

enum { SPOT_STORE_GONE = -2 };

/* A descriptor that is readable when the thread has a result. spot_store_result returns 1 when the
 * generation of *step became durable, with a warning in *err if its code is not 0; -1 with *err
 * when it could not be written; SPOT_STORE_GONE with *err when the newest generation, of *step, was
 * deleted, and the newest is now one of the remaining ones; 0 when there is no result. */
int spot_store_fd(const struct spot_store *store);
int spot_store_result(struct spot_store *store, int64_t *step, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_STORE_H */

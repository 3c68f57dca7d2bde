/* SPDX-License-Identifier: MIT */
/* bundle_file.h - lets a holder write its bundle directly into the directory of a new generation.
 *
 * The coordinator creates the directory and writes an unguessable number into it; a holder that
 * finds that number under the path it was given sees the same directory, wherever it runs.
 */
#ifndef SPOT_CHECKPOINT_BUNDLE_FILE_H
#define SPOT_CHECKPOINT_BUNDLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_BUNDLE_FILE_NAME = 24 };

/* A file that has been synced. */
struct spot_written {
    size_t n_byte;
    struct spot_hash128 hash;
};

/* Write the number, which is not 0, to the directory; remove it. Returns 0, or -1 with *err
 * (SPOT_ESYS). */
int spot_bundle_file_mark(int dir_fd, uint64_t nonce, struct spot_err *err);
void spot_bundle_file_unmark(int dir_fd);
/* True if the directory contains the number. */
bool spot_bundle_file_sees(const char *dir, uint64_t nonce);

/* The file of a bundle: its name, and its path. */
void spot_bundle_file_name(int index, char name[SPOT_BUNDLE_FILE_NAME]);
void spot_bundle_file_path(const char *dir, int index, char *path, size_t size);

/* Write and sync the bytes of bundle_io.h, piece by piece, so that they are never in memory all at
 * once; goes_on(user) is called before each piece. Returns 0, or -1 with *err (SPOT_ESYS,
 * SPOT_EPREEMPTED if goes_on was false), leaving no file. */
int spot_bundle_file_write(const char *dir, const struct spot_bundle *bundle,
                           bool (*goes_on)(void *user), void *user, struct spot_written *written,
                           struct spot_err *err);

/* The same, as an object of a generation with this nonce in an object store behind a command. */
struct spot_objects;
int spot_bundle_object_write(struct spot_objects *objects, uint64_t nonce,
                             const struct spot_bundle *bundle, struct spot_written *written,
                             struct spot_err *err);

/* Check that a file of this size exists. Its content is checked when it is read. */
int spot_bundle_file_check(int dir_fd, int index, size_t n_byte, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_BUNDLE_FILE_H */

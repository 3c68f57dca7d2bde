/* SPDX-License-Identifier: MIT */
/* bundle_file.h - a bundle written by who holds it into the directory of a generation to be.
 *
 * The coordinator makes the directory and writes a number into it that nobody can guess; who finds
 * that number under the path it was told sees the same directory, wherever it runs.
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

/* A file that is on the disk. */
struct spot_written {
    size_t n_byte;
    struct spot_hash128 hash;
};

/* Write the number, not 0; take it away. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_bundle_file_mark(const char *dir, uint64_t nonce, struct spot_err *err);
void spot_bundle_file_unmark(const char *dir);
/* Is it there? */
bool spot_bundle_file_sees(const char *dir, uint64_t nonce);

/* Name of the file of a bundle. */
void spot_bundle_file_path(const char *dir, int index, char *path, size_t size);

/* Write and sync the bytes of bundle_io.h, piece by piece, so that all of them are never in memory;
 * goes_on(user) is asked before each. Returns 0, or -1 with *err (SPOT_ESYS, SPOT_EPREEMPTED where
 * it does not go on), and then no file is left. */
int spot_bundle_file_write(const char *dir, const struct spot_bundle *bundle,
                           bool (*goes_on)(void *user), void *user, struct spot_written *written,
                           struct spot_err *err);

/* The same to a store behind a command, as an object of a generation under this nonce. */
struct spot_objects;
int spot_bundle_object_write(struct spot_objects *objects, uint64_t nonce,
                             const struct spot_bundle *bundle, struct spot_written *written,
                             struct spot_err *err);

/* Is a file of so many bytes there? What is in it is found out when it is read. */
int spot_bundle_file_check(const char *dir, int index, size_t n_byte, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_BUNDLE_FILE_H */

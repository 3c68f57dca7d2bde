/* SPDX-License-Identifier: MIT */
/* partial_file.h - a file being received: FILE.part and FILE.journal, then FILE, complete or not at
 * all.
 *
 * Chunks may arrive in any order, from any thread, more than once, over any number of attempts.
 * Chunks that a killed receiver had synced are reused; every chunk kept from an earlier attempt is
 * first read and verified by its hash.
 */
#ifndef SPOT_SHARD_PARTIAL_FILE_H
#define SPOT_SHARD_PARTIAL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash.h"
#include "shard/chunk.h"
#include "shard/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_partial_options {
    uint64_t sync_byte; /* sync after this many bytes, default 64 MiB when 0 */
    double sync_s;      /* or this many seconds, default 0.2 when 0 */

    /* Called with `user` for each chunk of an earlier attempt that is verified, which takes long
     * for a large file; may be NULL. */
    void (*at_work)(void *user);
    void *user;
};

struct spot_partial;

/* Check that a file can be placed at `path`. -1 with *err: SPOT_EUSAGE for an empty name, SPOT_ESYS
 * if its directory does not exist or is not writable, or if something other than a regular file is
 * there, which the final rename would destroy. */
int spot_partial_check(const char *path, struct spot_err *err);

/* Open or reopen the partial file of one stream at `path`. header [n_header] is prefix and JSON.
 * NULL with *err: SPOT_EDATA for an invalid header, SPOT_ESYS when files cannot be created, `path`
 * is unsuitable, the disk is full or another process receives into the same file. */
struct spot_partial *spot_partial_open(const char *path, const struct spot_stream_info *info,
                                       const void *header, size_t n_header,
                                       const struct spot_partial_options *options,
                                       struct spot_err *err);

/* Close; received chunks are kept for the next attempt, as far as the disk allows. */
void spot_partial_free(struct spot_partial *partial);

const struct spot_st *spot_partial_st(const struct spot_partial *partial);
const struct spot_chunk_map *spot_partial_map(const struct spot_partial *partial);

/* True if chunk `seq` was received. */
bool spot_partial_has(struct spot_partial *partial, uint64_t seq);
uint64_t spot_partial_missing(struct spot_partial *partial);   /* chunks */
uint64_t spot_partial_have_byte(struct spot_partial *partial); /* raw bytes received */

/* Store a decoded chunk: raw [chunk->raw_byte], or the same in pieces. A duplicate with the same
 * hash is dropped. Returns 0, or -1 with *err: SPOT_EDATA when it differs from the stored one,
 * SPOT_ESYS. */
int spot_partial_put(struct spot_partial *partial, const struct spot_chunk *chunk, const void *raw,
                     struct spot_err *err);
int spot_partial_put_spans(struct spot_partial *partial, const struct spot_chunk *chunk,
                           const struct spot_spans *raw, struct spot_err *err);

/* With nothing missing: true if the sender's hashes [n_tensor] match the received data. If not,
 * everything is discarded, so that the next attempt starts from the beginning. */
bool spot_partial_agrees(struct spot_partial *partial, const struct spot_hash128 *hash);

/* With nothing missing: sync, rename to FILE, sync the directory, remove the journal. Returns 0,
 * or -1 with *err (SPOT_ESYS), also when FILE.part or FILE.journal is not the file that was
 * written. */
int spot_partial_commit(struct spot_partial *partial, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_PARTIAL_FILE_H */

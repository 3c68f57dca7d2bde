/* SPDX-License-Identifier: MIT */
/* partial_file.h - a file on its way in: FILE.part and FILE.journal, then FILE, whole or not at
 * all.
 *
 * Chunks may come in any order, from any thread, more than once, over any number of attempts.
 * What a killed receiver had synced is found again; every chunk kept from an earlier attempt is
 * read and hashed before it is believed.
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
    uint64_t sync_byte; /* make durable after so many bytes, default 64 MiB when 0 */
    double sync_s;      /* or so many seconds, default 0.2 when 0 */

    /* Called with `user` for each chunk of an earlier attempt that is read again, which for a big
     * file takes its time; NULL for nobody. */
    void (*at_work)(void *user);
    void *user;
};

struct spot_partial;

/* Can a file be put at `path`? -1 with *err: SPOT_EUSAGE for an empty name, SPOT_ESYS where
 * its directory is not there or may not be written to, or where something stands that is no regular
 * file, which the rename at the end would destroy. */
int spot_partial_check(const char *path, struct spot_err *err);

/* Open or reopen the partial file of one stream at `path`. header [n_header] is prefix and JSON.
 * NULL with *err: SPOT_EDATA for a wrong header, SPOT_ESYS when files cannot be made, when `path`
 * is no place for a file, when the disk has no room or another process receives into the same file.
 */
struct spot_partial *spot_partial_open(const char *path, const struct spot_stream_info *info,
                                       const void *header, size_t n_header,
                                       const struct spot_partial_options *options,
                                       struct spot_err *err);

/* Close; what has come stays for the next attempt, as far as the disk takes it. */
void spot_partial_free(struct spot_partial *partial);

const struct spot_st *spot_partial_st(const struct spot_partial *partial);
const struct spot_chunk_map *spot_partial_map(const struct spot_partial *partial);

/* Is chunk `seq` here? */
bool spot_partial_has(struct spot_partial *partial, uint64_t seq);
uint64_t spot_partial_missing(struct spot_partial *partial);   /* chunks */
uint64_t spot_partial_have_byte(struct spot_partial *partial); /* raw bytes here */

/* A decoded chunk: raw [chunk->raw_byte]. A second one with the same hash is dropped.
 * Returns 0, or -1 with *err: SPOT_EDATA when it differs from the one here, SPOT_ESYS. */
int spot_partial_put(struct spot_partial *partial, const struct spot_chunk *chunk, const void *raw,
                     struct spot_err *err);

/* With nothing missing: does the sender's word, hash [n_tensor], agree with what is here?
 * If not, everything is thrown away, so that the next attempt starts afresh: false. */
bool spot_partial_agrees(struct spot_partial *partial, const struct spot_hash128 *hash);

/* With nothing missing: sync, put the file in its place, sync the directory, drop the journal.
 * Returns 0, or -1 with *err (SPOT_ESYS), also when FILE.part or FILE.journal is not the file that
 * was written. */
int spot_partial_commit(struct spot_partial *partial, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_PARTIAL_FILE_H */

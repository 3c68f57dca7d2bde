/* SPDX-License-Identifier: MIT */
/* state_record.h - the commit of one place of a round: files, cut into chunks that are named by
 * their hash.
 *
 * A commit is identified by its round and its step. It is valid only if all places of the round
 * have a record of it: a restore takes every place from the same commit.
 */
#ifndef SPOT_HOST_STATE_RECORD_H
#define SPOT_HOST_STATE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/wire.h"
#include "common/err.h"
#include "common/hash.h"
#include "host/rank_env.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_STATE_CHUNK_BYTE = 1 << 20,
    SPOT_STATE_FILES_MAX = 1 << 16,
    SPOT_STATE_PATH_MAX = 1024,
    SPOT_STATE_DEPTH_MAX = 32, /* nesting of directories */
    SPOT_STATE_LINK = 0120777, /* as a mode: a symbolic link, its text is the content */
};

/* True for a relative path that stays within its directory. */
bool spot_state_path_is_below(const char *path);

struct spot_state_id {
    uint32_t round; /* restart_count of its ranks */
    uint64_t key;   /* drawn for that round: tells two rounds of the same number apart */
    uint64_t step;
};

/* Negative if a is older than b. */
int spot_state_id_compare(const struct spot_state_id *a, const struct spot_state_id *b);
void spot_state_id_put(struct spot_buf *out, const struct spot_state_id *id);
void spot_state_id_get(struct spot_wire_in *in, struct spot_state_id *id);

struct spot_state_file {
    char *path; /* relative to the state directory */
    uint32_t mode;
    uint64_t n_byte;
    uint64_t at_ns; /* modification time, by the clock of its node */
    size_t first_chunk;
};

/* The newest file of a state, for messages. */
struct spot_state_saved {
    uint64_t at_ns; /* 0: not known */
    char what[128]; /* name of the file, or of the directory that contains it; "": not known */
};

struct spot_state_record {
    char run_id[SPOT_RUN_ID_MAX];
    struct spot_state_id id;
    uint32_t place, world;        /* index and number of nodes */
    struct spot_state_file *file; /* [n_file], by path */
    size_t n_file;
    struct spot_hash128 *chunk; /* [n_chunk], those of a file are consecutive */
    size_t n_chunk;
};

void spot_state_record_release(struct spot_state_record *record);

uint64_t spot_state_record_byte(const struct spot_state_record *record);
struct spot_state_saved spot_state_record_saved(const struct spot_state_record *record);
/* "ckpt.pt (checkpoint 14, saved 16:40:37)", with the day if that is another one. */
enum { SPOT_STATE_DESCRIBED = 256 };
void spot_state_describe(uint64_t step, const struct spot_state_saved *saved,
                         char text[SPOT_STATE_DESCRIBED]);
void spot_state_saved_put(struct spot_buf *out, const struct spot_state_saved *saved);
void spot_state_saved_get(struct spot_wire_in *in, struct spot_state_saved *saved);
/* Number of chunks of a file, and bytes of the i-th: SPOT_STATE_CHUNK_BYTE for all but the last. */
size_t spot_state_file_chunks(const struct spot_state_file *file);
size_t spot_state_file_chunk_byte(const struct spot_state_file *file, size_t i);

/* Each distinct chunk of record[n_record], in the order of their files. Cost: O(n log n). */
struct spot_state_piece {
    struct spot_hash128 hash;
    size_t n_byte;
};
/* *n gets the number of pieces; freed by the caller. */
struct spot_state_piece *spot_state_record_pieces(const struct spot_state_record *record,
                                                  size_t n_record, size_t *n);

void spot_state_record_put(struct spot_buf *out, const struct spot_state_record *record);
/* Returns 0, or -1 with *err (SPOT_EDATA) for a malformed one or a path that is not below the
 * directory; *record is then empty. */
int spot_state_record_get(struct spot_wire_in *in, struct spot_state_record *record,
                          struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_RECORD_H */

/* SPDX-License-Identifier: MIT */
/* migrate.h - what the commands of spot-migrate that handle streams share. */
#ifndef SPOT_MIGRATE_MIGRATE_H
#define SPOT_MIGRATE_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "cli/tool.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/out.h"
#include "migrate_commands.h"
#include "shard/chunk.h"
#include "shard/range.h"
#include "shard/safetensors.h"
#include "shard/stream.h"

/* What pack does, for those that stream to standard output. */
struct pack_options {
    const struct spot_tool_common *common;
    enum spot_codec codec;
    uint64_t n_thread;
    uint32_t chunk_byte;
};
int pack_to_output(const struct pack_options *options, const char *path, struct spot_err *err);

/* --threads; 0, not given: one a processor, 64 at most. */
uint64_t threads_of(uint64_t given);

/* --- bytes in --- */

struct input {
    int fd;
    const char *name;        /* for messages */
    bool is_regular;         /* then it can be read at any place */
    uint64_t n_byte;         /* of a regular file */
    struct timespec changed; /* of it, when it was opened */
    uint64_t data_at;        /* behind the header of a safetensors file */
};

/* `path` NULL or "-" is stdin; a terminal is refused. Returns 0, or -1 with *err. */
int input_open(struct input *in, const char *path, struct spot_err *err);
void input_close(struct input *in);

/* Read until `data` [n_byte] is full or the input ends; *n_read says how far. */
int input_read(struct input *in, void *data, size_t n_byte, size_t *n_read, struct spot_err *err);

/* Exactly n_byte bytes, at a place of a regular file; a shorter file is SPOT_EDATA. */
int input_read_at(struct input *in, uint64_t at, void *data, size_t n_byte, struct spot_err *err);

/* Is a regular file what it was when it was opened, by its size and time of change? What is read
 * before it changes and after does not belong together. -1 with *err (SPOT_EDATA) if not. */
int input_unchanged(const struct input *in, struct spot_err *err);

/* Move on without looking; SPOT_EDATA when the input ends before. */
int input_skip(struct input *in, uint64_t n_byte, struct spot_err *err);

/* The header of a safetensors file, prefix and JSON, into `header`; the input stands behind it.
 * *st gets its meaning. A regular file must have exactly the size that the header announces. */
int input_safetensors(struct input *in, struct spot_buf *header, struct spot_st *st,
                      struct spot_err *err);

/* The data of a regular safetensors file, whose header was read so; that it changed meanwhile is an
 * error. Both are borrowed. */
struct spot_source input_source(struct input *in, const struct spot_buf *header);

/* All of a stream through its reader, to the end. */
int input_stream(struct input *in, struct spot_stream_reader *reader, struct spot_err *err);

/* --- bytes out --- */

/* As spot_out_open, but a terminal is refused. */
int output_open(struct spot_out *out, const char *path, struct spot_err *err);
int output_write(struct spot_out *out, const void *data, size_t n_byte, struct spot_err *err);

/* A file that appears when it is complete: until then its bytes may be written in any order, at
 * any place but where output_write writes, by several threads at once. */
bool output_is_file(const struct spot_out *out);
int output_write_at(struct spot_out *out, uint64_t at, const void *data, size_t n_byte,
                    struct spot_err *err);

/* --- progress: on stderr if that is a terminal, after the first second, erased at the end --- */

struct progress {
    bool is_on, is_shown;
    double start_s, next_s;
    uint64_t total_byte; /* 0 when unknown */
    uint64_t first_byte; /* done before we began */
};

void progress_start(struct progress *p, const struct spot_tool_common *common, uint64_t total_byte,
                    uint64_t first_byte);
void progress_show(struct progress *p, uint64_t done_byte);
void progress_end(struct progress *p);

#endif /* SPOT_MIGRATE_MIGRATE_H */

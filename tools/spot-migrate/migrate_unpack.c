/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "common/xalloc.h"
#include "migrate.h"
#include "shard/stream.h"

struct unpack {
    struct spot_tool_common common;
    const char *base_path;
    uint64_t n_thread;
    bool is_verify; /* write nothing */

    struct input in;
    struct base base;
    struct spot_out out;
    const struct spot_st *st;
    struct spot_buf old;
    struct progress progress;
    uint64_t n_chunk, data_at; /* where the data starts in the output */
};

static int on_header(void *user, const struct spot_st *st, const void *header, size_t n_header,
                     struct spot_err *err)
{
    struct unpack *u = user;

    u->st = st;
    u->data_at = n_header;
    progress_start(&u->progress, &u->common, st->data_byte, 0);
    return u->is_verify ? 0 : output_write(&u->out, header, n_header, err);
}

static const void *find_base(void *user, const struct spot_chunk *chunk)
{
    struct unpack *u = user;

    return base_get(&u->base, u->st, chunk, &u->old);
}

static int store(void *user, const struct spot_chunk *chunk, const void *raw, struct spot_err *err)
{
    struct unpack *u = user;

    return output_write_at(&u->out, u->data_at + chunk->raw_off, raw, chunk->raw_byte, err);
}

static int on_chunk(void *user, const struct spot_chunk *chunk, const void *raw,
                    struct spot_err *err)
{
    struct unpack *u = user;

    u->n_chunk++;
    progress_show(&u->progress, chunk->raw_off + chunk->raw_byte);
    return u->is_verify || output_is_file(&u->out)
               ? 0
               : output_write(&u->out, raw, chunk->raw_byte, err);
}

static int read_stream(struct unpack *u, struct spot_err *err)
{
    const struct spot_sink sink = { .begin = on_header,
                                    .base = find_base,
                                    .put = output_is_file(&u->out) ? store : NULL,
                                    .on_chunk = on_chunk,
                                    .user = u };
    struct spot_stream_reader *r = spot_stream_reader_new(&sink, u->in.name);
    int rc;

    spot_stream_reader_set_jobs(r, threads_of(u->n_thread));
    rc = input_stream(&u->in, r, err);
    progress_end(&u->progress);
    if (!rc && u->is_verify)
        spot_tool_info("%s: %zu tensors, %llu bytes in %llu chunks, all as they were sent",
                       u->in.name, u->st->n_tensor, (unsigned long long)u->st->data_byte,
                       (unsigned long long)u->n_chunk);
    spot_stream_reader_free(r);
    return rc;
}

static int run(struct unpack *u, const char *path, struct spot_err *err)
{
    int rc = -1;

    if (input_open(&u->in, path, err))
        return -1;
    if (base_open(&u->base, u->base_path, err))
        goto out;
    if (u->is_verify)
        rc = read_stream(u, err);
    else if (!output_open(&u->out, u->common.output, err))
        rc = spot_out_finish(&u->out, read_stream(u, err), err);
out:
    spot_buf_release(&u->old);
    base_close(&u->base);
    input_close(&u->in);
    return rc;
}

#define STREAM_OPTIONS(u)                                                 \
    { SPOT_OPT_GROUP, .help = "stream" }, SPOT_ROW_BASE(&(u)->base_path), \
        SPOT_ROW_THREADS(&(u)->n_thread)

static struct unpack unpack_run = { .common = SPOT_TOOL_COMMON_DEFAULT };

static const struct spot_opt unpack_option[] = {
    STREAM_OPTIONS(&unpack_run),
    SPOT_TOOL_OPTIONS_WRITE(&unpack_run.common,
                            "write here, complete or not at all (default: stdout)"),
    { SPOT_OPT_END },
};

static const struct spot_cli unpack_cli = {
    .name = "spot-migrate unpack",
    .n_operand_max = 1,
    .synopsis = "[options] [stream.szt]",
    .summary = "Restore the safetensors file of a stream byte for byte; every hash is checked.",
    .examples = "  spot-migrate unpack -o m.safetensors m.szt\n"
                "  spot-migrate pack a.safetensors | spot-migrate unpack | cmp - a.safetensors\n",
    .option = unpack_option,
    .reads = (const char *const[]){ "base", NULL },
    .writes = (const char *const[]){ "output", NULL },
};

static int migrate_unpack(char **operand, size_t n, struct spot_err *err)
{
    (void)n;
    return run(&unpack_run, operand[0], err);
}

const struct spot_command migrate_unpack_command = {
    .name = "unpack",
    .brief = "restore the original file from a stream",
    .cli = &unpack_cli,
    .common = &unpack_run.common,
    .run = migrate_unpack,
};

static struct unpack verify_run = { .common = SPOT_TOOL_COMMON_DEFAULT, .is_verify = true };

static const struct spot_opt verify_option[] = {
    STREAM_OPTIONS(&verify_run),
    { SPOT_OPT_GROUP, .help = "common" },
    SPOT_TOOL_OPTIONS_VERBOSITY(&verify_run.common),
    { SPOT_OPT_END },
};

static const struct spot_cli verify_cli = {
    .name = "spot-migrate verify",
    .n_operand_max = 1,
    .synopsis = "[options] [stream.szt]",
    .summary = "Check a stream: exit 0 if it is complete and every hash matches, else 3.",
    .examples = "  spot-migrate verify m.szt\n  spot-migrate verify -v <m.szt\n",
    .option = verify_option,
    .reads = (const char *const[]){ "base", NULL },
};

static int migrate_verify(char **operand, size_t n, struct spot_err *err)
{
    (void)n;
    return run(&verify_run, operand[0], err);
}

const struct spot_command migrate_verify_command = {
    .name = "verify",
    .brief = "check every hash of a stream",
    .cli = &verify_cli,
    .common = &verify_run.common,
    .run = migrate_verify,
};

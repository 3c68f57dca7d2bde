/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "migrate.h"
#include "shard/stream.h"

struct unpack {
    struct spot_tool_common common;
    uint64_t n_thread;

    struct input in;
    struct spot_out out;
    struct progress progress;
    uint64_t data_at; /* offset of the data in the output */
};

static int on_header(void *user, const struct spot_st *st, const void *header, size_t n_header,
                     struct spot_err *err)
{
    struct unpack *u = user;

    u->data_at = n_header;
    progress_start(&u->progress, &u->common, st->data_byte, 0);
    return output_write(&u->out, header, n_header, err);
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

    progress_show(&u->progress, chunk->raw_off + chunk->raw_byte);
    return output_is_file(&u->out) ? 0 : output_write(&u->out, raw, chunk->raw_byte, err);
}

static int read_stream(struct unpack *u, struct spot_err *err)
{
    const struct spot_sink sink = { .begin = on_header,
                                    .put = output_is_file(&u->out) ? store : NULL,
                                    .on_chunk = on_chunk,
                                    .user = u };
    struct spot_stream_reader *r = spot_stream_reader_new(&sink, u->in.name);
    int rc;

    spot_stream_reader_set_jobs(r, threads_of(u->n_thread));
    rc = input_stream(&u->in, r, err);
    progress_end(&u->progress);
    spot_stream_reader_free(r);
    return rc;
}

static int run(struct unpack *u, const char *path, struct spot_err *err)
{
    int rc = -1;

    if (input_open(&u->in, path, err))
        return -1;
    if (!output_open(&u->out, u->common.output, err))
        rc = spot_out_finish(&u->out, read_stream(u, err), err);
    input_close(&u->in);
    return rc;
}

static struct unpack unpack_run = { .common = SPOT_TOOL_COMMON_DEFAULT };

static const struct spot_opt unpack_option[] = {
    { SPOT_OPT_GROUP, .help = "stream" },
    SPOT_ROW_THREADS(&unpack_run.n_thread),
    SPOT_TOOL_OPTIONS_WRITE(&unpack_run.common,
                            "write here, complete or not at all (default: stdout)"),
    { SPOT_OPT_END },
};

static int migrate_unpack(char **operand, size_t n, struct spot_err *err)
{
    (void)n;
    return run(&unpack_run, operand[0], err);
}

const struct spot_cli migrate_unpack_command = {
    .name = "spot-migrate unpack",
    .brief = "restore the original file from a stream",
    .n_operand_max = 1,
    .synopsis = "[options] [stream.szt]",
    .summary = "Restore the safetensors file of a stream byte for byte; every hash is checked.",
    .examples = "  spot-migrate unpack -o m.safetensors m.szt\n"
                "  spot-migrate unpack m.szt >/dev/null # is it complete, does every hash match?\n",
    .option = unpack_option,
    .writes = (const char *const[]){ "output", NULL },
    .common = &unpack_run.common,
    .run = migrate_unpack,
};

/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/rows.h"
#include "common/xalloc.h"
#include "migrate.h"
#include "shard/lane.h"
#include "shard/stream.h"

struct pack {
    const struct pack_options *options;
    struct input in;
    struct spot_buf header;
    struct spot_st st;
    struct spot_source source; /* used for a regular file */
    struct spot_stream_writer *writer;
    struct spot_out out;
};

/* A chunk that is processed by a thread. */
struct slot {
    struct pack *pack;
    struct spot_coder coder;
    struct spot_chunk chunk;
    struct spot_buf raw, coded;
};

/* A pipe is read here, in order; a file is read in the threads. */
static int prepare(struct slot *s, uint64_t seq, struct spot_err *err)
{
    struct pack *p = s->pack;
    size_t got;

    spot_chunk_map_get(spot_stream_writer_map(p->writer), seq, &s->chunk);
    s->chunk.stream_id = spot_stream_writer_id(p->writer);
    s->raw.n = 0;
    if (p->in.is_regular)
        return 0;
    if (input_read(&p->in, spot_buf_more(&s->raw, s->chunk.raw_byte), s->chunk.raw_byte, &got, err))
        return -1;
    if (got < s->chunk.raw_byte)
        return spot_err_set(err, SPOT_EDATA, "%s: ends at byte %llu of %llu bytes of data",
                            p->in.name, (unsigned long long)(s->chunk.raw_off + got),
                            (unsigned long long)p->st.data_byte);
    return 0;
}

/* Runs in one of the threads. A file is read there too, just before its bytes are encoded: several
 * threads read at once, and the bytes are in the cache of the processor that needs them. */
static int encode(void *user, struct spot_err *err)
{
    struct slot *s = user;
    struct pack *p = s->pack;
    const void *raw =
        p->in.is_regular ? spot_source_get(&p->source, &s->chunk, &s->raw, err) : s->raw.data;

    if (!raw)
        return -1;
    s->coded.n = 0;
    return spot_chunk_encode(&s->coder, &s->chunk, p->options->codec, raw, &s->coded, err);
}

/* Keep every slot busy; write finished chunks in order. */
static int run_lane(struct pack *p, struct spot_lane *lane, struct spot_err *err)
{
    const uint64_t n_chunk = spot_chunk_map_count(spot_stream_writer_map(p->writer));
    struct progress progress;
    uint64_t given = 0, done = 0;
    struct slot *s;
    int rc = 0;

    progress_start(&progress, p->options->common, p->st.data_byte, 0);
    while (!rc && done < n_chunk) {
        s = given < n_chunk ? spot_lane_free_slot(lane) : NULL;
        if (s) {
            rc = prepare(s, given++, err);
            if (!rc)
                spot_lane_submit(lane);
            continue;
        }
        s = spot_lane_reap(lane, &rc, err);
        if (!rc)
            rc = output_write(&p->out, s->coded.data, s->coded.n, err);
        if (!rc)
            spot_stream_writer_note(p->writer, &s->chunk);
        progress_show(&progress, s->chunk.raw_off);
        done++;
    }
    progress_end(&progress);
    return rc;
}

static int run_chunks(struct pack *p, struct spot_err *err)
{
    struct slot *slot;
    struct spot_lane *lane;
    int n_worker, rc = -1;
    size_t n;
    void **list;

    /* raw, coded, planes */
    spot_lane_size(p->options->n_thread, 3 * (uint64_t)p->options->chunk_byte, &n_worker, &n);
    slot = spot_xcalloc(n, sizeof(*slot));
    list = spot_xcalloc(n, sizeof(*list));
    for (size_t i = 0; i < n; i++) {
        slot[i].pack = p;
        spot_coder_init(&slot[i].coder);
        list[i] = &slot[i];
    }
    lane = spot_lane_new(n_worker, list, n, encode, err);
    if (lane)
        rc = run_lane(p, lane, err);
    spot_lane_free(lane);
    for (size_t i = 0; i < n; i++) {
        spot_coder_release(&slot[i].coder);
        spot_buf_release(&slot[i].raw);
        spot_buf_release(&slot[i].coded);
    }
    free(list);
    free(slot);
    return rc;
}

/* Check that no bytes follow the n_data bytes of data, and that a regular file has not changed: the
 * end of the stream asserts that all of it belongs together. */
static int expect_end(struct input *in, uint64_t n_data, struct spot_err *err)
{
    char extra;
    size_t got;

    if (in->is_regular && input_skip(in, n_data, err))
        return -1;
    if (input_read(in, &extra, 1, &got, err) || input_unchanged(in, err))
        return -1;
    return got ? spot_err_set(err, SPOT_EDATA, "%s: more data than the header announces", in->name)
               : 0;
}

static int write_stream(struct pack *p, struct spot_err *err)
{
    const struct spot_stream_options options = { .codec = p->options->codec,
                                                 .chunk_byte = p->options->chunk_byte,
                                                 .source = p->in.name };
    struct spot_buf bytes = { 0 };
    int rc = -1;

    p->source = input_source(&p->in, &p->header);
    p->writer = spot_stream_writer_new(&options, p->header.data, p->header.n, &bytes, err);
    if (p->writer && !output_write(&p->out, bytes.data, bytes.n, err) && !run_chunks(p, err) &&
        !expect_end(&p->in, p->st.data_byte, err)) {
        bytes.n = 0;
        rc = spot_stream_writer_finish(p->writer, &bytes, err);
        if (!rc)
            rc = output_write(&p->out, bytes.data, bytes.n, err);
    }
    spot_stream_writer_free(p->writer);
    spot_buf_release(&bytes);
    return rc;
}

int pack_to_output(const struct pack_options *options, const char *path, struct spot_err *err)
{
    struct pack p = { .options = options };
    int rc = -1;

    if (input_open(&p.in, path, err))
        return -1;
    if (!input_safetensors(&p.in, &p.header, &p.st, err) &&
        !output_open(&p.out, options->common->output, err))
        rc = spot_out_finish(&p.out, write_stream(&p, err), err);
    spot_st_release(&p.st);
    spot_buf_release(&p.header);
    input_close(&p.in);
    return rc;
}

uint64_t threads_of(uint64_t given)
{
    const long n_cpu = sysconf(_SC_NPROCESSORS_ONLN);

    return given ? given : n_cpu < 1 ? 1 : n_cpu < 64 ? (uint64_t)n_cpu : 64;
}

static struct spot_tool_common common = SPOT_TOOL_COMMON_DEFAULT;
static const char *codec_name = "auto";
static bool is_compat;
static uint64_t n_thread;
static double chunk_byte = SPOT_CHUNK_BYTE;

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "pack" },
    SPOT_ROW_CODEC(&codec_name),
    SPOT_FLAG("compat", &is_compat, "no filter: 'zstd -dc' restores the file"),
    SPOT_SIZE("chunk", &chunk_byte, "size", "raw bytes per chunk (default: 1MiB)",
              SPOT_CHUNK_BYTE_MIN, SPOT_CHUNK_BYTE_MAX),
    SPOT_ROW_THREADS(&n_thread),
    SPOT_TOOL_OPTIONS_WRITE(&common, "write here, complete or not at all (default: stdout)"),
    { SPOT_OPT_END },
};

static int migrate_pack(char **operand, size_t n, struct spot_err *err)
{
    struct pack_options options = { .common = &common,
                                    .n_thread = threads_of(n_thread),
                                    .chunk_byte = (uint32_t)chunk_byte };

    (void)n;
    options.codec = is_compat || !strcmp(codec_name, "raw") ? SPOT_CODEC_RAW : SPOT_CODEC_PLANES;
    return pack_to_output(&options, operand[0], err);
}

const struct spot_cli migrate_pack_command = {
    .name = "spot-migrate pack",
    .brief = "turn safetensors into a verified .zst stream",
    .need = (const struct spot_opt_need[]){ { "codec", "!compat" }, { NULL, NULL } },
    .writes = (const char *const[]){ "output", NULL },
    .n_operand_max = 1,
    .choice = (const struct spot_opt_choice[]){ { "codec", "auto|planes|raw" }, { NULL, NULL } },
    .synopsis = "[options] [model.safetensors]",
    .summary =
        "Turn a safetensors file into a verified, compressed stream that is a valid .zst file.",
    .examples = "  spot-migrate pack m.safetensors >m.szt\n"
                "  spot-migrate pack --compat m.safetensors | zstd -dc | cmp - m.safetensors\n",
    .option = option,
    .common = &common,
    .run = migrate_pack,
};

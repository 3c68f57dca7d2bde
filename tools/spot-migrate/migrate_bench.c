/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/table.h"
#include "comm/fd_port.h"
#include "common/clock.h"
#include "common/rng.h"
#include "common/threads.h"
#include "common/xalloc.h"
#include "migrate.h"
#include "shard/chunk.h"
#include "shard/plane.h"

enum { CHUNK = 1 << 20, CHUNKS = 16, ROUNDS = 5 };

struct bench {
    struct spot_st st;
    struct spot_chunk_map map;
    struct spot_coder coder;
    unsigned char *raw, *back; /* [CHUNKS * CHUNK] */
    struct spot_buf out[CHUNKS];
};

/* Weights as a trained model has them, near enough: normal(0, 0.02). */
static void fill(struct bench *b, enum spot_dtype dtype, uint64_t seed)
{
    const size_t width = spot_dtype_byte(dtype);
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    for (size_t i = 0; i < (size_t)CHUNKS * CHUNK; i += width) {
        const float x = (float)(0.02 * spot_rng_normal(&rng));
        unsigned char bits[4];

        memcpy(bits, &x, 4);
        memcpy(b->raw + i, bits + 4 - width, width); /* bf16 is the upper half */
    }
}

static int bench_init(struct bench *b, enum spot_dtype dtype, uint64_t seed, struct spot_err *err)
{
    static char name[] = "w";
    const struct spot_st_tensor t = {
        .name = name,
        .dtype = dtype,
        .n_dim = 1,
        .dim = { (uint64_t)CHUNKS * CHUNK / spot_dtype_byte(dtype) },
    };
    struct spot_buf header = { 0 };
    int rc;

    memset(b, 0, sizeof(*b));
    spot_coder_init(&b->coder);
    b->raw = spot_xcalloc((size_t)CHUNKS * CHUNK, 1);
    b->back = spot_xcalloc((size_t)CHUNKS * CHUNK, 1);
    fill(b, dtype, seed);
    spot_st_write(&t, 1, &header);
    rc = spot_st_parse(&b->st, (const char *)header.data + SPOT_ST_PREFIX_BYTE,
                       header.n - SPOT_ST_PREFIX_BYTE, "bench", err);
    spot_buf_release(&header);
    return rc || spot_chunk_map_init(&b->map, &b->st, CHUNK, err) ? -1 : 0;
}

static void bench_release(struct bench *b)
{
    for (int i = 0; i < CHUNKS; i++)
        spot_buf_release(&b->out[i]);
    spot_chunk_map_release(&b->map);
    spot_st_release(&b->st);
    spot_coder_release(&b->coder);
    free(b->raw);
    free(b->back);
}

struct speed {
    double ratio, pack_s, unpack_s;
};

static int measure(struct bench *b, enum spot_codec codec, struct speed *best, struct spot_err *err)
{
    *best = (struct speed){ 0, INFINITY, INFINITY };
    for (int round = 0; round < ROUNDS; round++) {
        struct spot_chunk chunk[CHUNKS];
        const double start_s = spot_clock_cpu_s();
        double middle_s, end_s;
        size_t n = 0;

        for (int i = 0; i < CHUNKS; i++) {
            b->out[i].n = 0;
            spot_chunk_map_get(&b->map, (uint64_t)i, &chunk[i]);
            if (spot_chunk_encode(&b->coder, &chunk[i], codec, b->raw + (size_t)i * CHUNK, NULL,
                                  &b->out[i], err))
                return -1;
            n += b->out[i].n;
        }
        middle_s = spot_clock_cpu_s();
        for (int i = 0; i < CHUNKS; i++)
            if (spot_chunk_decode(&b->coder, &chunk[i], b->out[i].data + SPOT_CHUNK_HEAD_BYTE, NULL,
                                  b->back + (size_t)i * CHUNK, err))
                return -1;
        end_s = spot_clock_cpu_s();
        best->ratio = (double)CHUNKS * CHUNK / (double)n;
        best->pack_s = fmin(best->pack_s, middle_s - start_s);
        best->unpack_s = fmin(best->unpack_s, end_s - middle_s);
    }
    return 0;
}

/* memcpy both ways: what no codec can beat. */
static void measure_copy(struct bench *b, struct speed *best)
{
    *best = (struct speed){ 1, INFINITY, INFINITY };
    for (int round = 0; round < ROUNDS; round++) {
        const double start_s = spot_clock_cpu_s();
        double middle_s;

        memcpy(b->back, b->raw, (size_t)CHUNKS * CHUNK);
        middle_s = spot_clock_cpu_s();
        memcpy(b->raw, b->back, (size_t)CHUNKS * CHUNK);
        best->pack_s = fmin(best->pack_s, middle_s - start_s);
        best->unpack_s = fmin(best->unpack_s, spot_clock_cpu_s() - middle_s);
    }
}

struct source {
    int fd;
    const unsigned char *raw;
};

static void *write_all(void *user)
{
    const struct source *source = user;

    for (size_t at = 0; at < (size_t)CHUNKS * CHUNK;) {
        const ssize_t n = write(source->fd, source->raw + at, (size_t)CHUNKS * CHUNK - at);

        if (n <= 0)
            break;
        at += (size_t)n;
    }
    close(source->fd);
    return NULL;
}

/* Seconds, wall clock, for the data through a Unix socket between two threads; 0 if it fails. */
static double measure_socket(const struct bench *b)
{
    static unsigned char part[CHUNK];
    struct source source = { .raw = b->raw };
    pthread_t thread;
    int fd[2];
    double start_s;

    if (spot_fd_pair(fd))
        return 0;
    source.fd = fd[0];
    start_s = spot_clock_s();
    if (spot_thread_start(&thread, write_all, &source, NULL)) {
        close(fd[0]);
    } else {
        while (read(fd[1], part, sizeof(part)) > 0)
            ;
        pthread_join(thread, NULL);
    }
    close(fd[1]);
    return spot_clock_s() - start_s;
}

static void add_row(struct spot_table *table, const char *data, const char *way,
                    const struct speed *s)
{
    const double gb = 1e-9 * CHUNKS * CHUNK;

    spot_table_text(table, data);
    spot_table_text(table, way);
    spot_table_fixed(table, s->ratio, 3);
    spot_table_fixed(table, gb / s->pack_s, 2);
    spot_table_fixed(table, gb / s->unpack_s, 2);
}

static int bench_dtype(const char *name, enum spot_dtype dtype, uint64_t seed,
                       struct spot_table *table, struct spot_err *err)
{
    struct bench b;
    struct speed s;
    double link_s;
    int rc = bench_init(&b, dtype, seed, err);

    for (int codec = 0; codec < SPOT_CODECS && !rc; codec++) {
        rc = measure(&b, (enum spot_codec)codec, &s, err);
        if (!rc)
            add_row(table, name, spot_codec_name((enum spot_codec)codec), &s);
    }
    if (!rc && dtype == SPOT_DT_F32) {
        measure_copy(&b, &s);
        add_row(table, "any", "memcpy", &s);
        link_s = measure_socket(&b);
        s = (struct speed){ 1, link_s, link_s };
        if (link_s > 0)
            add_row(table, "any", "unix socket", &s);
    }
    bench_release(&b);
    return rc;
}

static int run(const struct spot_tool_common *common, struct spot_err *err)
{
    static const struct spot_column column[] = {
        { "data", false },           { "way", false }, { "ratio", true }, { "pack_gb_per_s", true },
        { "unpack_gb_per_s", true },
    };
    enum spot_format format;
    struct spot_table table;
    struct spot_out out;
    int rc;

    if (spot_format_parse(common->format, &format, err))
        return -1;
    if (format == SPOT_FORMAT_JSON)
        return spot_err_set(err, SPOT_EUSAGE, "--format json: jsonl has a row a line");
    if (format == SPOT_FORMAT_AUTO)
        format = !common->output && isatty(STDOUT_FILENO) ? SPOT_FORMAT_TABLE : SPOT_FORMAT_CSV;
    spot_table_init(&table, column, sizeof(column) / sizeof(column[0]));
    rc = bench_dtype("bf16", SPOT_DT_BF16, common->seed, &table, err);
    if (!rc)
        rc = bench_dtype("fp32", SPOT_DT_F32, common->seed, &table, err);
    spot_tool_info("loops: %s", spot_plane_ops()->name);
    if (!rc && !spot_out_open(&out, common->output, err)) {
        spot_table_print(&table, out.file, format);
        rc = spot_out_finish(&out, 0, err);
    } else {
        rc = -1;
    }
    spot_table_release(&table);
    return rc;
}

static struct spot_tool_common common = SPOT_TOOL_COMMON_DEFAULT;

static const struct spot_opt option[] = {
    SPOT_TOOL_OPTIONS(&common),
    { SPOT_OPT_END },
};

static const struct spot_cli cli = {
    .name = "spot-migrate bench",
    .synopsis = "[options]",
    .summary = "Measure ratio and speed of the codecs on one core, hashes included.",
    .examples = "  spot-migrate bench --format table\n",
    .option = option,
};

static int migrate_bench(char **operand, size_t n, struct spot_err *err)
{
    (void)operand;
    (void)n;
    return run(&common, err);
}

const struct spot_command migrate_bench_command = {
    .name = "bench",
    .brief = "measure codecs and copies on this machine",
    .cli = &cli,
    .common = &common,
    .run = migrate_bench,
};

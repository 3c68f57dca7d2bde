/* SPDX-License-Identifier: MIT */
/* bench_codec - ratio and speed of the codecs on one core, beside memcpy, zstd and lz4 on the same
 * bytes in the same run. Speeds are raw bytes by thread CPU time, best of several rounds. */
#define _GNU_SOURCE  /* RUSAGE_THREAD's clock: CLOCK_THREAD_CPUTIME_ID is POSIX, dlopen's path not \
                      */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include "../shard_rig.h"
#include "common/hash.h"
#include "common/rng.h"
#include "shard/codec.h"
#include "shard/plane.h"

enum { CHUNK = 1 << 20, CHUNKS = 32, ROUNDS = 5 };

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct lz4 {
    int (*compress)(const char *, char *, int, int);
    int (*decompress)(const char *, char *, int, int);
};

static void find_lz4(struct lz4 *lz4)
{
    void *lib = dlopen("liblz4.so.1", RTLD_NOW);

    memset(lz4, 0, sizeof(*lz4));
    if (lib) {
        *(void **)&lz4->compress = dlsym(lib, "LZ4_compress_default");
        *(void **)&lz4->decompress = dlsym(lib, "LZ4_decompress_safe");
    }
}

struct data {
    const char *name;
    enum spot_dtype dtype;
    unsigned char *raw, *back; /* [CHUNKS * CHUNK] */
    struct spot_st st;
    struct spot_chunk_map map;
};

static void fill(struct data *d)
{
    const size_t n = (size_t)CHUNKS * CHUNK, width = spot_dtype_byte(d->dtype);
    struct spot_rng rng;

    d->raw = malloc(n);
    d->back = calloc(n, 1);
    if (!d->raw || !d->back)
        abort();
    spot_rng_init(&rng, 1, 0);
    for (size_t i = 0; i < n; i += width) {
        const float x = (float)(0.02 * spot_rng_normal(&rng));
        unsigned char bits[4];

        memcpy(bits, &x, 4);
        memcpy(d->raw + i, bits + 4 - width, width);
    }
}

static void prepare(struct data *d)
{
    static char name[] = "w";
    const struct spot_st_tensor t = { .name = name,
                                      .dtype = d->dtype,
                                      .n_dim = 1,
                                      .dim = { (uint64_t)CHUNKS * CHUNK /
                                               spot_dtype_byte(d->dtype) } };
    struct spot_buf header = { 0 };

    fill(d);
    spot_st_write(&t, 1, &header);
    if (spot_st_parse(&d->st, (char *)header.data + 8, header.n - 8, "bench", NULL) ||
        spot_chunk_map_init(&d->map, &d->st, CHUNK, NULL))
        abort();
    spot_buf_release(&header);
}

struct result {
    double ratio, pack_s, unpack_s;
};

static void report(const struct data *d, const char *codec, struct result r, double zstd_pack_s,
                   double zstd_unpack_s)
{
    const double gb = 1e-9 * CHUNKS * CHUNK;

    printf("%-6s %-22s %7.3f %9.2f %9.2f %9.2f %9.2f\n", d->name, codec, r.ratio, gb / r.pack_s,
           gb / r.unpack_s, zstd_pack_s / r.pack_s, zstd_unpack_s / r.unpack_s);
}

/* One way to code a chunk; both return bytes made, 0 on failure. */
struct way {
    const char *name;
    enum { WAY_MEMCPY, WAY_HASH, WAY_ZSTD, WAY_LZ4, WAY_CODEC, WAY_CHUNK } kind;
    enum spot_codec codec;
};

struct bench {
    const struct data *data;
    struct spot_coder coder;
    struct lz4 lz4;
    ZSTD_CCtx *c;
    ZSTD_DCtx *d;
    struct spot_buf out[CHUNKS];
    struct spot_chunk chunk[CHUNKS];
    uint64_t sink;
};

static void pack(struct bench *b, const struct way *w, int i)
{
    const unsigned char *raw = b->data->raw + (size_t)i * CHUNK;
    struct spot_buf *out = &b->out[i];
    unsigned char *to;
    bool all_stored;

    out->n = 0;
    to = spot_buf_more(out, 2 * CHUNK);
    switch (w->kind) {
    case WAY_MEMCPY:
        memcpy(to, raw, CHUNK);
        out->n = CHUNK;
        break;
    case WAY_HASH:
        b->sink += spot_hash64(raw, CHUNK);
        out->n = CHUNK;
        break;
    case WAY_ZSTD:
        out->n = ZSTD_compressCCtx(b->c, to, 2 * CHUNK, raw, CHUNK, 1);
        break;
    case WAY_LZ4:
        out->n = (size_t)b->lz4.compress((const char *)raw, (char *)to, CHUNK, 2 * CHUNK);
        break;
    case WAY_CODEC:
        spot_chunk_map_get(&b->data->map, (uint64_t)i, &b->chunk[i]);
        if (spot_codec_encode(&b->coder, &b->chunk[i], w->codec, raw, out, &all_stored, NULL))
            abort();
        b->chunk[i].stored_byte = (uint32_t)out->n;
        break;
    case WAY_CHUNK:
        spot_chunk_map_get(&b->data->map, (uint64_t)i, &b->chunk[i]);
        if (spot_chunk_encode(&b->coder, &b->chunk[i], w->codec, raw, out, NULL))
            abort();
        break;
    }
}

static void unpack(struct bench *b, const struct way *w, int i)
{
    unsigned char *back = b->data->back + (size_t)i * CHUNK;
    const struct spot_buf *out = &b->out[i];
    bool all_stored;
    int rc = 0;

    switch (w->kind) {
    case WAY_MEMCPY:
        memcpy(back, out->data, CHUNK);
        break;
    case WAY_HASH:
        b->sink += spot_hash64(back, CHUNK);
        break;
    case WAY_ZSTD:
        rc = ZSTD_decompressDCtx(b->d, back, CHUNK, out->data, out->n) != CHUNK;
        break;
    case WAY_LZ4:
        rc = b->lz4.decompress((const char *)out->data, (char *)back, (int)out->n, CHUNK) != CHUNK;
        break;
    case WAY_CODEC:
        rc = spot_codec_view(&b->coder, &b->chunk[i], out->data, back, &all_stored, NULL);
        if (!rc)
            spot_spans_copy(&b->coder.spans, back);
        break;
    case WAY_CHUNK:
        rc = spot_chunk_decode(&b->coder, &b->chunk[i], out->data + SPOT_CHUNK_HEAD_BYTE, back,
                               NULL);
        break;
    }
    if (rc)
        abort();
}

static struct result measure(struct bench *b, const struct way *w)
{
    struct result best = { 0, 1e9, 1e9 };

    b->coder.has_frame_check = w->kind == WAY_CHUNK;
    for (int round = 0; round < ROUNDS; round++) {
        const double start_s = cpu_s();
        double middle_s, end_s;
        size_t n = 0;

        for (int i = 0; i < CHUNKS; i++)
            pack(b, w, i);
        middle_s = cpu_s();
        for (int i = 0; i < CHUNKS; i++)
            unpack(b, w, i);
        end_s = cpu_s();
        for (int i = 0; i < CHUNKS; i++)
            n += b->out[i].n;
        best.ratio = (double)CHUNKS * CHUNK / (double)n;
        best.pack_s = middle_s - start_s < best.pack_s ? middle_s - start_s : best.pack_s;
        best.unpack_s = end_s - middle_s < best.unpack_s ? end_s - middle_s : best.unpack_s;
    }
    if (w->kind != WAY_HASH && memcmp(b->data->raw, b->data->back, (size_t)CHUNKS * CHUNK) != 0)
        abort(); /* a benchmark of wrong answers is none */
    memset(b->data->back, 0, (size_t)CHUNKS * CHUNK);
    return best;
}

static const struct way way[] = {
    { "memcpy", WAY_MEMCPY, SPOT_CODEC_RAW },
    { "xxh3_64", WAY_HASH, SPOT_CODEC_RAW },
    { "zstd -1", WAY_ZSTD, SPOT_CODEC_RAW },
    { "lz4", WAY_LZ4, SPOT_CODEC_RAW },
    { "codec raw", WAY_CODEC, SPOT_CODEC_RAW },
    { "codec planes", WAY_CODEC, SPOT_CODEC_PLANES },
    { "chunk raw, verified", WAY_CHUNK, SPOT_CODEC_RAW },
    { "chunk planes, verified", WAY_CHUNK, SPOT_CODEC_PLANES },
};

static void bench_data(struct data *d)
{
    struct bench b = { .data = d };
    struct result zstd;

    prepare(d);
    spot_coder_init(&b.coder);
    find_lz4(&b.lz4);
    b.c = ZSTD_createCCtx();
    b.d = ZSTD_createDCtx();
    zstd = measure(&b, &way[2]);
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++)
        if (way[i].kind != WAY_LZ4 || (b.lz4.compress && b.lz4.decompress))
            report(d, way[i].name, measure(&b, &way[i]), zstd.pack_s, zstd.unpack_s);
    for (int i = 0; i < CHUNKS; i++)
        spot_buf_release(&b.out[i]);
    ZSTD_freeCCtx(b.c);
    ZSTD_freeDCtx(b.d);
    spot_coder_release(&b.coder);
    spot_chunk_map_release(&d->map);
    spot_st_release(&d->st);
    free(d->raw);
    free(d->back);
}

static void bench_memory(void)
{
    enum { ELEMENTS = CHUNKS * CHUNK / 4 };
    float *from = calloc(ELEMENTS, 4), *to = calloc(ELEMENTS, 4);
    const struct spot_shard_part part = { "p", SPOT_DT_F32, ELEMENTS, from };
    const struct spot_shard_place place = { "p", SPOT_DT_F32, ELEMENTS, to };
    struct spot_buf out = { 0 };
    double pack_s = 1e9, unpack_s = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        const double start_s = cpu_s();
        double middle_s, end_s;

        out.n = 0;
        if (encode_parts(&part, 1, SPOT_CODEC_RAW, &out, NULL))
            abort();
        middle_s = cpu_s();
        if (decode_parts(out.data, out.n, &place, 1, NULL))
            abort();
        end_s = cpu_s();
        pack_s = middle_s - start_s < pack_s ? middle_s - start_s : pack_s;
        unpack_s = end_s - middle_s < unpack_s ? end_s - middle_s : unpack_s;
    }
    printf("fp32   %-22s %7.3f %9.2f %9.2f\n", "parts of a bundle, raw", 1.0,
           4e-9 * ELEMENTS / pack_s, 4e-9 * ELEMENTS / unpack_s);
    spot_buf_release(&out);
    free(from);
    free(to);
}

int main(void)
{
    struct data bf16 = { .name = "bf16", .dtype = SPOT_DT_BF16 },
                fp32 = { .name = "fp32", .dtype = SPOT_DT_F32 };

    printf("normal(0, 0.02), %d chunks of %d KiB, one core, loops: %s\n", CHUNKS, CHUNK >> 10,
           spot_plane_ops()->name);
    printf("%-6s %-22s %7s %9s %9s %9s %9s\n", "data", "way", "ratio", "pack GB/s", "unp. GB/s",
           "x zstd -1", "x zstd -1");
    bench_data(&bf16);
    bench_data(&fp32);
    bench_memory();
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/le.h"
#include "shard/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(void *user, const struct spot_chunk *chunk, const void *raw, struct spot_err *err)
{
    uint64_t *n = user;

    (void)err;
    if (spot_hash64(raw, chunk->raw_byte) != chunk->hash)
        abort();
    *n += chunk->raw_byte;
    return 0;
}

static int read_raw(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err)
{
    (void)err;
    memcpy(data, (const unsigned char *)user + at, n_byte);
    return 0;
}

/* A small good stream, made once. */
static const struct spot_buf *good_stream(void)
{
    static struct spot_buf out;
    static char name[] = "w";
    const struct spot_st_tensor t = {
        .name = name, .dtype = SPOT_DT_BF16, .n_dim = 1, .dim = { 200 }
    };
    const struct spot_stream_options options = { .codec = SPOT_CODEC_PLANES, .chunk_byte = 128 };
    struct spot_buf header = { 0 };
    struct spot_stream_writer *w;
    struct spot_source source;
    unsigned char raw[400];
    int rc;

    if (out.n)
        return &out;
    for (size_t i = 0; i < sizeof(raw); i++)
        raw[i] = (unsigned char)(i % 2 ? 0x3c : i * 37);
    spot_st_write(&t, 1, &header);
    w = spot_stream_writer_new(&options, header.data, header.n, &out, NULL);
    source = (struct spot_source){ header.data, header.n, NULL, read_raw, raw };
    if (!w)
        abort();
    while ((rc = spot_stream_writer_next(w, &source, &out, NULL)) > 0)
        ;
    if (rc)
        abort();
    spot_stream_writer_free(w);
    spot_buf_release(&header);
    return &out;
}

/* Hashes are mended where a fuzzer cannot: else it never gets behind the first check. */
static void mend(struct spot_buf *s)
{
    for (size_t i = 0; i + SPOT_CHUNK_HEAD_BYTE <= s->n; i++)
        if (spot_le_get(s->data + i, 4) == 0x184D2A51)
            spot_le_put(s->data + i + 64, spot_hash64(s->data + i + 8, 56), 8);
}

/* Goal: no bytes crash the reader, and what it hands out matches its hash. The input is a list of
 * changes to a good stream: u16 place, u8 value; a first byte below 128 takes the input as it is.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t n = 0;
    const struct spot_sink sink = { .on_chunk = take, .user = &n };
    struct spot_stream_reader *r = spot_stream_reader_new(&sink, "fuzz");
    struct spot_buf bytes = { 0 };
    const bool is_patch = size && data[0] >= 128;

    if (is_patch) {
        spot_buf_add(&bytes, good_stream()->data, good_stream()->n);
        for (size_t i = 1; i + 3 <= size; i += 3)
            bytes.data[spot_le_get(data + i, 2) % bytes.n] = data[i + 2];
        if (data[0] & 1)
            mend(&bytes);
    } else {
        spot_buf_add(&bytes, data, size);
    }
    if (!spot_stream_reader_feed(r, bytes.data, bytes.n, NULL) &&
        !spot_stream_reader_finish(r, NULL) && is_patch && n != 400)
        abort();
    spot_stream_reader_free(r);
    spot_buf_release(&bytes);
    return 0;
}

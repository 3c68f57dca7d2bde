/* SPDX-License-Identifier: MIT */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_c_literalCompressionMode: Huffman without matches */
#define XXH_STATIC_LINKING_ONLY  /* XXH64_state_t on the stack */
#include "shard/zframe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "common/le.h"
#include "common/xalloc.h"

/* magic, descriptor, content size in four bytes */
enum { STORED_HEAD = 9, BLOCK_HEAD = 3, CHECK_BYTE = 4 };

/* The lowest level searches for matches least often, and in an exponent plane a match costs more
 * bits than it saves: 2.60 bits a byte where level -100 takes 2.76, and twice as fast (blocks of
 * 256 KiB, normal(0, 0.02)). */
enum { HUFFMAN_LEVEL = -ZSTD_TARGETLENGTH_MAX };
enum { DESCRIPTOR = 0xa0, HAS_CHECK = 0x04 }; /* 4-byte content size, single segment */

struct spot_zstd {
    ZSTD_CCtx *c;
    ZSTD_DCtx *d;
};

struct spot_zstd *spot_zstd_new(void)
{
    struct spot_zstd *z = spot_xcalloc(1, sizeof(*z));

    z->c = ZSTD_createCCtx();
    z->d = ZSTD_createDCtx();
    if (!z->c || !z->d)
        spot_no_memory("zstd");
    return z;
}

void spot_zstd_free(struct spot_zstd *z)
{
    if (!z)
        return;
    ZSTD_freeCCtx(z->c);
    ZSTD_freeDCtx(z->d);
    free(z);
}

/* memcpy in pieces that stay below the C library's threshold for `rep movsb`, which takes three
 * times as long on some processors when source and target are unluckily aligned; after a block
 * header the target always is. */
static void copy(unsigned char *to, const unsigned char *from, size_t n)
{
    enum { PIECE = 2048 };

    for (; n >= PIECE; n -= PIECE, to += PIECE, from += PIECE)
        memcpy(to, from, PIECE);
    if (n)
        memcpy(to, from, n);
}

static size_t block_count(size_t n_byte)
{
    return n_byte ? (n_byte + SPOT_ZFRAME_BLOCK - 1) / SPOT_ZFRAME_BLOCK : 1;
}

size_t spot_zframe_stored_byte(size_t n_byte, bool has_check)
{
    return STORED_HEAD + n_byte + block_count(n_byte) * BLOCK_HEAD + (has_check ? CHECK_BYTE : 0);
}

/* Bytes of the block at offset `at` of n_byte; *head gets its header: last flag, raw, size. */
static size_t block_at(size_t n_byte, size_t at, uint64_t *head)
{
    const size_t left = n_byte - at, n = left < SPOT_ZFRAME_BLOCK ? left : SPOT_ZFRAME_BLOCK;

    *head = (uint64_t)n << 3 | (n == left);
    return n;
}

unsigned char *spot_zframe_stored_at(unsigned char *frame, size_t at, size_t *run)
{
    *run = SPOT_ZFRAME_BLOCK - at % SPOT_ZFRAME_BLOCK;
    return frame + STORED_HEAD + at + (at / SPOT_ZFRAME_BLOCK + 1) * BLOCK_HEAD;
}

static void put(unsigned char *frame, size_t at, const void *data, size_t n_byte)
{
    const unsigned char *from = data;

    while (n_byte) {
        size_t run;
        unsigned char *to = spot_zframe_stored_at(frame, at, &run);

        run = run < n_byte ? run : n_byte;
        copy(to, from, run);
        from += run;
        at += run;
        n_byte -= run;
    }
}

/* zstd's checksum of the content of a stored frame. */
static uint64_t check_of(const unsigned char *frame, size_t n_byte)
{
    const unsigned char *from = frame + STORED_HEAD;
    XXH64_state_t state;
    size_t at = 0;

    XXH64_reset(&state, 0);
    do {
        uint64_t head;
        const size_t n = block_at(n_byte, at, &head);

        XXH64_update(&state, from + BLOCK_HEAD, n);
        from += BLOCK_HEAD + n;
        at += n;
    } while (at < n_byte);
    return XXH64_digest(&state) & 0xffffffff;
}

size_t spot_zframe_close(unsigned char *frame, size_t n_byte, bool has_check)
{
    unsigned char *to = frame + STORED_HEAD;
    size_t at = 0;

    assert(n_byte <= INT32_MAX);
    spot_le_put(frame, ZSTD_MAGICNUMBER, 4);
    frame[4] = (unsigned char)(DESCRIPTOR | (has_check ? HAS_CHECK : 0));
    spot_le_put(frame + 5, n_byte, 4);
    do {
        uint64_t head;
        const size_t n = block_at(n_byte, at, &head);

        spot_le_put(to, head, BLOCK_HEAD);
        to += BLOCK_HEAD + n;
        at += n;
    } while (at < n_byte);
    if (has_check)
        spot_le_put(to, check_of(frame, n_byte), CHECK_BYTE);
    return spot_zframe_stored_byte(n_byte, has_check);
}

void spot_zframe_store(const void *data, size_t n_byte, bool has_check, struct spot_buf *out)
{
    unsigned char *frame = spot_buf_more(out, spot_zframe_stored_byte(n_byte, has_check));

    put(frame, 0, data, n_byte);
    out->n += spot_zframe_close(frame, n_byte, has_check);
}

int spot_zframe_compress(struct spot_zstd *z, const void *data, size_t n_byte,
                         enum spot_zframe_mode mode, bool has_check, struct spot_buf *out,
                         struct spot_err *err)
{
    const size_t bound = ZSTD_compressBound(n_byte);
    size_t n;

    ZSTD_CCtx_reset(z->c, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(z->c, ZSTD_c_checksumFlag, has_check);
    ZSTD_CCtx_setParameter(z->c, ZSTD_c_compressionLevel,
                           mode == SPOT_ZFRAME_HUFFMAN ? HUFFMAN_LEVEL : 1);
    if (mode == SPOT_ZFRAME_HUFFMAN)
        ZSTD_CCtx_setParameter(z->c, ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
    n = ZSTD_compress2(z->c, spot_buf_more(out, bound), bound, data, n_byte);
    if (ZSTD_isError(n))
        return spot_err_set(err, SPOT_ESYS, "zstd: %s", ZSTD_getErrorName(n));
    out->n += n;
    return 0;
}

/* A stored frame is recognised by its first block; then every framing byte must be the one that
 * spot_zframe_store writes. Returns false if the frame is of another kind. */
static bool looks_stored(const unsigned char *frame, size_t n_frame, size_t *n_byte)
{
    uint64_t head;

    if (n_frame < STORED_HEAD + BLOCK_HEAD || (frame[4] | HAS_CHECK) != (DESCRIPTOR | HAS_CHECK))
        return false;
    *n_byte = spot_le_get(frame + 5, 4);
    block_at(*n_byte, 0, &head);
    return spot_le_get(frame + STORED_HEAD, BLOCK_HEAD) == head;
}

void spot_spans_add(struct spot_spans *spans, const void *at, size_t n)
{
    spans->span = spot_xgrow(spans->span, &spans->cap, spans->n + 1, sizeof(*spans->span));
    spans->span[spans->n++] = (struct spot_span){ at, n };
    spans->n_byte += n;
}

void spot_spans_clear(struct spot_spans *spans)
{
    spans->n = spans->n_byte = 0;
}

void spot_spans_release(struct spot_spans *spans)
{
    free(spans->span);
    memset(spans, 0, sizeof(*spans));
}

void spot_spans_copy(const struct spot_spans *spans, void *to)
{
    unsigned char *at = to;

    for (size_t i = 0; i < spans->n; i++) {
        if (spans->span[i].at != at) /* otherwise a compressed frame was decoded in place */
            copy(at, spans->span[i].at, spans->span[i].n);
        at += spans->span[i].n;
    }
}

static int view_stored(const unsigned char *frame, size_t n_frame, size_t n_byte,
                       enum spot_zframe_trust trust, struct spot_spans *spans, size_t *used,
                       struct spot_err *err)
{
    const bool has_check = frame[4] & HAS_CHECK;
    const unsigned char *from = frame + STORED_HEAD;
    size_t at = 0;

    *used = spot_zframe_stored_byte(n_byte, has_check);
    if (*used > n_frame)
        return spot_err_set(err, SPOT_EDATA, "stored frame is cut short");
    do {
        uint64_t head;
        const size_t n = block_at(n_byte, at, &head);

        if (spot_le_get(from, BLOCK_HEAD) != head)
            return spot_err_set(err, SPOT_EDATA, "stored frame has a damaged block header");
        spot_spans_add(spans, from + BLOCK_HEAD, n);
        from += BLOCK_HEAD + n;
        at += n;
    } while (at < n_byte);
    if (has_check && trust == SPOT_ZFRAME_CHECK &&
        spot_le_get(from, CHECK_BYTE) != check_of(frame, n_byte))
        return spot_err_set(err, SPOT_EDATA, "stored frame does not match its checksum");
    return 0;
}

int spot_zframe_view(struct spot_zstd *z, const void *frame, size_t n_frame,
                     enum spot_zframe_trust trust, void *room, size_t n_room,
                     struct spot_spans *spans, struct spot_zframe_result *result,
                     struct spot_err *err)
{
    unsigned long long content;
    size_t n_byte, used, made;

    if (n_frame < 4 || spot_le_get(frame, 4) != ZSTD_MAGICNUMBER)
        return spot_err_set(err, SPOT_EDATA, "expected a zstd frame");
    if (looks_stored(frame, n_frame, &n_byte)) {
        if (n_byte > n_room)
            return spot_err_set(err, SPOT_EDATA, "frame holds more than was declared");
        if (view_stored(frame, n_frame, n_byte, trust, spans, &used, err))
            return -1;
        *result = (struct spot_zframe_result){ used, n_byte, true };
        return 0;
    }
    content = ZSTD_getFrameContentSize(frame, n_frame);
    if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN ||
        content > n_room)
        return spot_err_set(err, SPOT_EDATA, "frame without a size, or larger than declared");
    used = ZSTD_findFrameCompressedSize(frame, n_frame);
    if (ZSTD_isError(used))
        return spot_err_set(err, SPOT_EDATA, "zstd: %s", ZSTD_getErrorName(used));
    ZSTD_DCtx_setParameter(z->d, ZSTD_d_forceIgnoreChecksum,
                           trust == SPOT_ZFRAME_TRUST ? ZSTD_d_ignoreChecksum
                                                      : ZSTD_d_validateChecksum);
    made = ZSTD_decompressDCtx(z->d, room, n_room, frame, used);
    if (ZSTD_isError(made))
        return spot_err_set(err, SPOT_EDATA, "zstd: %s", ZSTD_getErrorName(made));
    spot_spans_add(spans, room, made);
    *result = (struct spot_zframe_result){ used, made, false };
    return 0;
}

int spot_zframe_decode(struct spot_zstd *z, const void *frame, size_t n_frame, void *out,
                       size_t n_out, struct spot_zframe_result *result, struct spot_err *err)
{
    struct spot_spans spans = { 0 };
    const int rc =
        spot_zframe_view(z, frame, n_frame, SPOT_ZFRAME_CHECK, out, n_out, &spans, result, err);

    if (!rc)
        spot_spans_copy(&spans, out);
    spot_spans_release(&spans);
    return rc;
}

/* SPDX-License-Identifier: MIT */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_c_literalCompressionMode: Huffman without matches */
#include "shard/zframe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "common/le.h"

/* magic, descriptor, content size in four bytes */
enum { STORED_HEAD = 9, BLOCK_HEAD = 3, CHECK_BYTE = 4 };

/* The lowest level steps farthest between searches for a match, and a match in an exponent plane
 * costs more bits than it saves: 2.60 bits a byte where level -100 takes 2.76, and twice as fast
 * (blocks of 256 KiB, normal(0, 0.02)). */
enum { HUFFMAN_LEVEL = -ZSTD_TARGETLENGTH_MAX };
enum { DESCRIPTOR = 0xa0, HAS_CHECK = 0x04 }; /* 4-byte content size, single segment */

struct spot_zstd {
    ZSTD_CCtx *c;
    ZSTD_DCtx *d;
};

struct spot_zstd *spot_zstd_new(void)
{
    struct spot_zstd *z = calloc(1, sizeof(*z));

    if (!z || !(z->c = ZSTD_createCCtx()) || !(z->d = ZSTD_createDCtx()))
        abort();
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
 * times as long on some processors when source and target are unluckily aligned; behind a block
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

static void put_head(unsigned char *at, size_t n_byte, bool has_check)
{
    spot_le_put(at, ZSTD_MAGICNUMBER, 4);
    at[4] = (unsigned char)(DESCRIPTOR | (has_check ? HAS_CHECK : 0));
    spot_le_put(at + 5, n_byte, 4);
}

/* Bytes of the block at offset `at` of n_byte; *head gets its header: last flag, raw, size. */
static size_t block_at(size_t n_byte, size_t at, uint64_t *head)
{
    const size_t left = n_byte - at, n = left < SPOT_ZFRAME_BLOCK ? left : SPOT_ZFRAME_BLOCK;

    *head = (uint64_t)n << 3 | (n == left);
    return n;
}

void spot_zframe_store(const void *data, size_t n_byte, bool has_check, struct spot_buf *out)
{
    const size_t total = spot_zframe_stored_byte(n_byte, has_check);
    const unsigned char *from = data;
    unsigned char *to = spot_buf_more(out, total);
    size_t at = 0;

    assert(n_byte <= INT32_MAX);
    put_head(to, n_byte, has_check);
    to += STORED_HEAD;
    do {
        uint64_t head;
        const size_t n = block_at(n_byte, at, &head);

        spot_le_put(to, head, BLOCK_HEAD);
        copy(to + BLOCK_HEAD, from + at, n);
        to += BLOCK_HEAD + n;
        at += n;
    } while (at < n_byte);
    if (has_check)
        spot_le_put(to, XXH64(data, n_byte, 0) & 0xffffffff, CHECK_BYTE);
    out->n += total;
}

int spot_zframe_compress(struct spot_zstd *z, const void *data, size_t n_byte,
                         enum spot_zframe_mode mode, int level, struct spot_buf *out,
                         struct spot_err *err)
{
    const size_t bound = ZSTD_compressBound(n_byte);
    size_t n;

    ZSTD_CCtx_reset(z->c, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(z->c, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(z->c, ZSTD_c_compressionLevel,
                           mode == SPOT_ZFRAME_HUFFMAN ? HUFFMAN_LEVEL : level);
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

static int decode_stored(const unsigned char *frame, size_t n_frame, size_t n_byte,
                         unsigned char *out, struct spot_zframe_result *result,
                         struct spot_err *err)
{
    const bool has_check = frame[4] & HAS_CHECK;
    const unsigned char *from = frame + STORED_HEAD;
    size_t at = 0;

    *result = (struct spot_zframe_result){ .used_byte = spot_zframe_stored_byte(n_byte, has_check),
                                           .made_byte = n_byte,
                                           .is_stored = true };
    if (result->used_byte > n_frame)
        return spot_err_set(err, SPOT_EDATA, "stored frame is cut short");
    do {
        uint64_t head;
        const size_t n = block_at(n_byte, at, &head);

        if (spot_le_get(from, BLOCK_HEAD) != head)
            return spot_err_set(err, SPOT_EDATA, "stored frame has a damaged block header");
        copy(out + at, from + BLOCK_HEAD, n);
        from += BLOCK_HEAD + n;
        at += n;
    } while (at < n_byte);
    if (has_check && spot_le_get(from, CHECK_BYTE) != (XXH64(out, n_byte, 0) & 0xffffffff))
        return spot_err_set(err, SPOT_EDATA, "stored frame does not match its checksum");
    return 0;
}

int spot_zframe_decode(struct spot_zstd *z, const void *frame, size_t n_frame, void *out,
                       size_t n_out, struct spot_zframe_result *result, struct spot_err *err)
{
    unsigned long long content;
    size_t n_byte, used, made;

    if (n_frame < 4 || spot_le_get(frame, 4) != ZSTD_MAGICNUMBER)
        return spot_err_set(err, SPOT_EDATA, "expected a zstd frame");
    if (looks_stored(frame, n_frame, &n_byte)) {
        if (n_byte > n_out)
            return spot_err_set(err, SPOT_EDATA, "frame holds more than was declared");
        return decode_stored(frame, n_frame, n_byte, out, result, err);
    }
    content = ZSTD_getFrameContentSize(frame, n_frame);
    if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN || content > n_out)
        return spot_err_set(err, SPOT_EDATA, "frame without a size, or larger than declared");
    used = ZSTD_findFrameCompressedSize(frame, n_frame);
    if (ZSTD_isError(used))
        return spot_err_set(err, SPOT_EDATA, "zstd: %s", ZSTD_getErrorName(used));
    made = ZSTD_decompressDCtx(z->d, out, n_out, frame, used);
    if (ZSTD_isError(made))
        return spot_err_set(err, SPOT_EDATA, "zstd: %s", ZSTD_getErrorName(made));
    *result = (struct spot_zframe_result){ .used_byte = used, .made_byte = made };
    return 0;
}

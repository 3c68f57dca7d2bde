/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* fopencookie */
#include "common/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "common/xalloc.h"

enum {
    IN_BYTE = 1 << 16,
    FREE_BYTE = 64 << 20,
    TIMES_MAX = 200,
    WINDOW_LOG_MAX = 25,
};

struct spot_unpack_state {
    FILE *from;
    const char *source, *kind;
    char in[IN_BYTE];
    size_t begin, end;                     /* input not decompressed yet */
    uint64_t n_in, n_out, n_free, n_times; /* see spot_unpack_limit */
    bool is_between;                       /* between two members or frames: the input may end */
    z_stream gzip;
    ZSTD_DCtx *zstd;   /* NULL: gzip */
    const char *fault; /* NULL: none so far */
    char too_long[96];
};

/* A decompression step: fills out [room]. Returns the number of bytes, -1 with `fault`. */
typedef ssize_t step_fn(struct spot_unpack_state *s, char *out, size_t room);

static ssize_t step_gzip(struct spot_unpack_state *s, char *out, size_t room)
{
    z_stream *z = &s->gzip;
    int rc;

    if (s->is_between && inflateReset(z) != Z_OK)
        return -1;
    z->next_in = (Bytef *)s->in + s->begin;
    z->avail_in = (uInt)(s->end - s->begin);
    z->next_out = (Bytef *)out;
    z->avail_out = (uInt)room;
    rc = inflate(z, Z_NO_FLUSH);
    s->begin = s->end - z->avail_in;
    s->is_between = rc == Z_STREAM_END;
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR) {
        s->fault = "damaged";
        return -1;
    }
    return (ssize_t)(room - z->avail_out);
}

static ssize_t step_zstd(struct spot_unpack_state *s, char *out, size_t room)
{
    ZSTD_inBuffer from = { s->in, s->end, s->begin };
    ZSTD_outBuffer to = { out, room, 0 };
    const size_t rc = ZSTD_decompressStream(s->zstd, &to, &from);

    s->begin = from.pos;
    if (ZSTD_isError(rc)) {
        s->fault = ZSTD_getErrorName(rc);
        return -1;
    }
    s->is_between = rc == 0;
    return (ssize_t)to.pos;
}

static ssize_t fail(struct spot_unpack_state *s, const char *fault)
{
    if (!s->fault)
        s->fault = fault;
    errno = EBADMSG;
    return -1;
}

/* Read more input when none is left; 0 at its end. */
static ssize_t refill(struct spot_unpack_state *s)
{
    if (s->begin < s->end)
        return 1;
    s->begin = 0;
    s->end = fread(s->in, 1, IN_BYTE, s->from);
    s->n_in += s->end;
    return ferror(s->from) ? -1 : s->end > 0;
}

static ssize_t read_cookie(void *cookie, char *out, size_t room)
{
    struct spot_unpack_state *s = cookie;
    bool is_starved = false;
    ssize_t got = 0;

    if (s->fault)
        return fail(s, s->fault);
    while (!got) {
        const ssize_t more = refill(s);

        if (more < 0)
            return -1;
        if (!more && s->is_between)
            return 0;
        if (!more && is_starved)
            return fail(s, "cut short");
        is_starved = !more; /* the decompressor may still have output */
        got = (s->zstd ? step_zstd : step_gzip)(s, out, room < UINT32_MAX ? room : UINT32_MAX);
    }
    if (got < 0)
        return fail(s, "damaged");
    s->n_out += (uint64_t)got;
    if (s->n_out > s->n_free && s->n_out / s->n_times > s->n_in) {
        snprintf(s->too_long, sizeof(s->too_long),
                 "more than %llu MiB and %llu times its compressed size",
                 (unsigned long long)(s->n_free >> 20), (unsigned long long)s->n_times);
        return fail(s, s->too_long);
    }
    return got;
}

static bool start_decoder(struct spot_unpack_state *s, bool is_zstd)
{
    s->kind = is_zstd ? "zstd" : "gzip";
    if (!is_zstd)
        return inflateInit2(&s->gzip, 16 + MAX_WBITS) == Z_OK;
    s->zstd = ZSTD_createDCtx();
    return s->zstd &&
           !ZSTD_isError(ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX));
}

static void free_state(struct spot_unpack_state *s)
{
    if (s->zstd)
        ZSTD_freeDCtx(s->zstd);
    else
        inflateEnd(&s->gzip);
    free(s);
}

/* Length of the prefix of `magic` with which the input begins; the caller puts the bytes back. */
static size_t look(FILE *in, unsigned char *seen, size_t n)
{
    static const unsigned char gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
    size_t n_seen = 0;
    int c;

    while (n_seen < n && (c = getc(in)) != EOF) {
        seen[n_seen++] = (unsigned char)c;
        if ((n_seen > sizeof(gzip) || memcmp(seen, gzip, n_seen) != 0) &&
            memcmp(seen, zstd, n_seen) != 0)
            break;
    }
    return n_seen;
}

int spot_unpack_open(struct spot_unpack *unpack, FILE *in, const char *source, struct spot_err *err)
{
    const cookie_io_functions_t io = { .read = read_cookie };
    unsigned char seen[4];
    const size_t n_seen = look(in, seen, sizeof(seen));
    const bool is_gzip = n_seen > 2 && seen[0] == 0x1f && seen[1] == 0x8b;
    const bool is_zstd = n_seen == 4 && seen[0] == 0x28 && seen[3] == 0xfd;
    struct spot_unpack_state *s;

    *unpack = (struct spot_unpack){ .in = in };
    if (!is_gzip && !is_zstd) {
        for (size_t i = n_seen; i-- > 0;) /* glibc accepts any number of pushed back bytes */
            ungetc(seen[i], in);
        return 0;
    }
    s = spot_xcalloc(1, sizeof(*s));
    s->from = in;
    s->source = source;
    s->n_free = FREE_BYTE;
    s->n_times = TIMES_MAX;
    memcpy(s->in, seen, n_seen);
    s->n_in = s->end = n_seen;
    unpack->in = start_decoder(s, is_zstd) ? fopencookie(s, "r", io) : NULL;
    if (!unpack->in) {
        free_state(s);
        errno = ENOMEM;
        return spot_err_sys(err, "cannot read %s", source);
    }
    setvbuf(unpack->in, NULL, _IOFBF, IN_BYTE);
    unpack->state = s;
    return 0;
}

void spot_unpack_limit(struct spot_unpack *unpack, uint64_t n_free, uint64_t n_times)
{
    if (!unpack->state)
        return;
    unpack->state->n_free = n_free;
    unpack->state->n_times = n_times;
}

int spot_unpack_close(struct spot_unpack *unpack, int rc, struct spot_err *err)
{
    struct spot_unpack_state *s = unpack->state;

    if (!s)
        return rc;
    fclose(unpack->in);
    if (s->fault)
        rc = spot_err_set(err, SPOT_EDATA, "%s: bad %s data after %llu bytes of text: %s",
                          s->source, s->kind, (unsigned long long)s->n_out, s->fault);
    free_state(s);
    *unpack = (struct spot_unpack){ 0 };
    return rc;
}

/* SPDX-License-Identifier: MIT */
#include "comm/wire.h"

#include <string.h>

#include "common/le.h"
#include "common/utf8.h"

static void put_little(struct spot_buf *out, uint64_t value, size_t n)
{
    uint8_t byte[8];

    spot_le_put(byte, value, (int)n);
    spot_buf_add(out, byte, n);
}

void spot_put_u8(struct spot_buf *out, uint8_t value)
{
    put_little(out, value, 1);
}

void spot_put_u32(struct spot_buf *out, uint32_t value)
{
    put_little(out, value, 4);
}

void spot_put_u64(struct spot_buf *out, uint64_t value)
{
    put_little(out, value, 8);
}

void spot_put_i64(struct spot_buf *out, int64_t value)
{
    put_little(out, (uint64_t)value, 8);
}

void spot_put_f64(struct spot_buf *out, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_little(out, bits, 8);
}

void spot_put_text(struct spot_buf *out, const char *text)
{
    const size_t n = strlen(text);

    spot_put_u32(out, (uint32_t)n);
    spot_buf_add(out, text, n);
}

struct spot_wire_in spot_wire_in(const void *data, size_t n)
{
    return (struct spot_wire_in){ .at = data, .end = (const uint8_t *)data + n };
}

const uint8_t *spot_get_bytes(struct spot_wire_in *in, size_t n)
{
    const uint8_t *at = in->at;

    if (in->bad || n > (size_t)(in->end - in->at)) {
        in->bad = true;
        return NULL;
    }
    in->at += n;
    return at;
}

static uint64_t get_little(struct spot_wire_in *in, size_t n)
{
    const uint8_t *byte = spot_get_bytes(in, n);

    return byte ? spot_le_get(byte, (int)n) : 0;
}

uint8_t spot_get_u8(struct spot_wire_in *in)
{
    return (uint8_t)get_little(in, 1);
}

uint32_t spot_get_u32(struct spot_wire_in *in)
{
    return (uint32_t)get_little(in, 4);
}

uint64_t spot_get_u64(struct spot_wire_in *in)
{
    return get_little(in, 8);
}

int64_t spot_get_i64(struct spot_wire_in *in)
{
    return (int64_t)get_little(in, 8);
}

double spot_get_f64(struct spot_wire_in *in)
{
    const uint64_t bits = get_little(in, 8);
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

uint32_t spot_get_count(struct spot_wire_in *in, size_t each)
{
    const uint32_t n = spot_get_u32(in);

    if (in->bad || (each && n > (size_t)(in->end - in->at) / each)) {
        in->bad = true;
        return 0;
    }
    return n;
}

void spot_get_text(struct spot_wire_in *in, char *text, size_t cap)
{
    const uint32_t n = spot_get_count(in, 1);
    const uint8_t *byte;

    text[0] = '\0';
    if (n >= cap)
        in->bad = true;
    byte = spot_get_bytes(in, n);
    if (!byte || memchr(byte, '\0', n)) {
        in->bad = true;
        return;
    }
    memcpy(text, byte, n);
    text[n] = '\0';
}

void spot_get_plain(struct spot_wire_in *in, char *text, size_t cap)
{
    spot_get_text(in, text, cap);
    spot_utf8_make_plain(text);
}

bool spot_wire_in_done(const struct spot_wire_in *in)
{
    return !in->bad && in->at == in->end;
}

/* SPDX-License-Identifier: MIT */
/* wire.h - little-endian messages, written by appending and read by a cursor that cannot overrun.
 *
 * A reader that meets a short or invalid message sets `bad` and returns zeros from then on, so a
 * parser reads all fields straight through and checks once.
 */
#ifndef SPOT_COMM_WIRE_H
#define SPOT_COMM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

void spot_put_u8(struct spot_buf *out, uint8_t value);
void spot_put_u32(struct spot_buf *out, uint32_t value);
void spot_put_u64(struct spot_buf *out, uint64_t value);
void spot_put_i64(struct spot_buf *out, int64_t value);
void spot_put_f64(struct spot_buf *out, double value);
void spot_put_text(struct spot_buf *out, const char *text); /* u32 length, bytes */

struct spot_wire_in {
    const uint8_t *at, *end;
    bool bad;
};

struct spot_wire_in spot_wire_in(const void *data, size_t n);
uint8_t spot_get_u8(struct spot_wire_in *in);
uint32_t spot_get_u32(struct spot_wire_in *in);
uint64_t spot_get_u64(struct spot_wire_in *in);
int64_t spot_get_i64(struct spot_wire_in *in);
double spot_get_f64(struct spot_wire_in *in);

/* Read a count of items of at least `each` bytes; bad if the message is too short for them. */
uint32_t spot_get_count(struct spot_wire_in *in, size_t each);

/* A pointer to the next n bytes of the message; NULL if the message is too short. */
const uint8_t *spot_get_bytes(struct spot_wire_in *in, size_t n);

/* Read a text of less than cap bytes without NUL into text[cap]; "" when bad. */
void spot_get_text(struct spot_wire_in *in, char *text, size_t cap);
/* The same, made safe to print (common/utf8.h), for untrusted text that is shown. */
void spot_get_plain(struct spot_wire_in *in, char *text, size_t cap);

/* True if nothing was bad and nothing is left over. */
bool spot_wire_in_done(const struct spot_wire_in *in);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_WIRE_H */

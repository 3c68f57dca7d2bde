/* SPDX-License-Identifier: MIT */
/* hash.h - XXH3, the one checksum of the toolkit; not a defence against forgery. */
#ifndef SPOT_COMMON_HASH_H
#define SPOT_COMMON_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_HASH_HEX = 33 }; /* 32 hex digits and a NUL */

struct spot_hash128 {
    uint64_t high, low;
};

uint64_t spot_hash64(const void *data, size_t n_byte);
struct spot_hash128 spot_hash128(const void *data, size_t n_byte);

static inline bool spot_hash128_equal(struct spot_hash128 a, struct spot_hash128 b)
{
    return a.high == b.high && a.low == b.low;
}

/* The canonical form: 32 lower-case hex digits, high half first. */
void spot_hash128_hex(struct spot_hash128 hash, char hex[SPOT_HASH_HEX]);

/* A hash over pieces, equal to that of their concatenation. */
struct spot_hash_stream;
struct spot_hash_stream *spot_hash_stream_new(void);
void spot_hash_stream_add(struct spot_hash_stream *stream, const void *data, size_t n_byte);
uint64_t spot_hash_stream_64(const struct spot_hash_stream *stream);
struct spot_hash128 spot_hash_stream_128(const struct spot_hash_stream *stream);
void spot_hash_stream_free(struct spot_hash_stream *stream);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_HASH_H */

/* SPDX-License-Identifier: MIT */
#include "common/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>
/* The library's plain functions use SSE2; its dispatching functions are 2.4 times as fast with
 * AVX-512. This header exists only where the dispatching functions do. */
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#endif

#include "common/xalloc.h"

struct spot_hash_stream {
    XXH3_state_t *state;
};

uint64_t spot_hash64(const void *data, size_t n_byte)
{
    return XXH3_64bits(data, n_byte);
}

static struct spot_hash128 ours(XXH128_hash_t h)
{
    return (struct spot_hash128){ .high = h.high64, .low = h.low64 };
}

struct spot_hash128 spot_hash128(const void *data, size_t n_byte)
{
    return ours(XXH3_128bits(data, n_byte));
}

void spot_hash128_hex(struct spot_hash128 hash, char hex[SPOT_HASH_HEX])
{
    snprintf(hex, SPOT_HASH_HEX, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}

struct spot_hash_stream *spot_hash_stream_new(void)
{
    struct spot_hash_stream *stream = spot_xcalloc(1, sizeof(*stream));

    stream->state = XXH3_createState();
    if (!stream->state)
        spot_no_memory("a hash");
    XXH3_128bits_reset(stream->state);
    return stream;
}

void spot_hash_stream_add(struct spot_hash_stream *stream, const void *data, size_t n_byte)
{
    XXH3_128bits_update(stream->state, data, n_byte);
}

uint64_t spot_hash_stream_64(const struct spot_hash_stream *stream)
{
    return XXH3_64bits_digest(stream->state);
}

struct spot_hash128 spot_hash_stream_128(const struct spot_hash_stream *stream)
{
    return ours(XXH3_128bits_digest(stream->state));
}

void spot_hash_stream_free(struct spot_hash_stream *stream)
{
    if (!stream)
        return;
    XXH3_freeState(stream->state);
    free(stream);
}

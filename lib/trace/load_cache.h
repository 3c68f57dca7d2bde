/* SPDX-License-Identifier: MIT */
/* load_cache.h - simulates a prefix cache of a load's prompts. It holds blocks and drops the least
 * recently used. A prompt uses its blocks from the last to the first, so that no block is dropped
 * before those that depend on it, as in our server. Each operation costs the blocks of a prompt.
 */
#ifndef SPOT_TRACE_LOAD_CACHE_H
#define SPOT_TRACE_LOAD_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "trace/load_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_load_cache;

/* A cache of `token` tokens, in whole blocks. The load is borrowed. */
struct spot_load_cache *spot_load_cache_new(const struct spot_load *load, int64_t token);
void spot_load_cache_free(struct spot_load_cache *cache);

/* Returns the number of cached tokens at the beginning of request i's prompt, at most all but the
 * last, which is always computed. */
int32_t spot_load_cache_found(const struct spot_load_cache *cache, size_t i);

/* Mark request i's prompt as used now. */
void spot_load_cache_use(struct spot_load_cache *cache, size_t i);

void spot_load_cache_clear(struct spot_load_cache *cache);

/* The cached tokens of each request in order, with one cache: [load->n], free() it. NULL if the
 * load has no blocks, or `token` is 0. */
int32_t *spot_load_cached(const struct spot_load *load, int64_t token);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_LOAD_CACHE_H */

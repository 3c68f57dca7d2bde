/* SPDX-License-Identifier: MIT */
/* load_cache.h - which prompts of a load a cache of prefixes would hold.
 *
 * It holds blocks, and drops those that were not used for longest. A prompt uses its blocks, the
 * last first: so none is dropped before those that need it, as in our server. Each operation costs
 * the blocks of a prompt.
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

/* Of whole blocks in `token` tokens. The load is borrowed. */
struct spot_load_cache *spot_load_cache_new(const struct spot_load *load, int64_t token);
void spot_load_cache_free(struct spot_load_cache *cache);

/* Tokens of the begin of request i's prompt that are there, at most all but one: the last is
 * computed, to go on from. */
int32_t spot_load_cache_found(const struct spot_load_cache *cache, size_t i);

/* Its prompt is used now. */
void spot_load_cache_use(struct spot_load_cache *cache, size_t i);

void spot_load_cache_clear(struct spot_load_cache *cache);

/* What one cache finds of each request, in their order: [load->n], free() it. NULL if the load has
 * no blocks, or `token` is 0. */
int32_t *spot_load_cached(const struct spot_load *load, int64_t token);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_LOAD_CACHE_H */

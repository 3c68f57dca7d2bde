/* SPDX-License-Identifier: MIT */
#include "trace/load_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"

enum { BLOCKS_MAX = 1 << 27 };

#define NONE UINT32_MAX

/* The blocks in the cache, in hash buckets by number and in a ring by last use. */
struct held {
    uint32_t id, next; /* number; next block in its bucket */
    uint32_t newer, older;
};

struct spot_load_cache {
    const struct spot_load *load;
    struct held *held; /* [n] of `room` */
    uint32_t n, room, cap;
    uint32_t newest, oldest;
    uint32_t *bucket; /* [n_bucket], a power of two */
    size_t n_bucket;
};

struct spot_load_cache *spot_load_cache_new(const struct spot_load *load, int64_t token)
{
    struct spot_load_cache *c = spot_xcalloc(1, sizeof(*c));
    const int64_t room = load->block_token ? token / load->block_token : 0;

    c->load = load;
    c->room = (uint32_t)(room < BLOCKS_MAX ? room : BLOCKS_MAX);
    for (c->n_bucket = 1; c->n_bucket < c->room && c->n_bucket < load->n_block; c->n_bucket *= 2)
        ;
    c->bucket = spot_xcalloc(c->n_bucket, sizeof(*c->bucket));
    spot_load_cache_clear(c);
    return c;
}

void spot_load_cache_free(struct spot_load_cache *c)
{
    if (!c)
        return;
    free(c->held);
    free(c->bucket);
    free(c);
}

void spot_load_cache_clear(struct spot_load_cache *c)
{
    c->n = 0;
    c->newest = c->oldest = NONE;
    memset(c->bucket, 0xFF, c->n_bucket * sizeof(*c->bucket));
}

static uint32_t *bucket_of(const struct spot_load_cache *c, uint32_t id)
{
    return &c->bucket[spot_rng_mix(0, id) & (c->n_bucket - 1)];
}

static uint32_t find(const struct spot_load_cache *c, uint32_t id)
{
    uint32_t k = *bucket_of(c, id);

    while (k != NONE && c->held[k].id != id)
        k = c->held[k].next;
    return k;
}

static void unlink_use(struct spot_load_cache *c, uint32_t k)
{
    const struct held *h = &c->held[k];

    if (h->newer == NONE)
        c->newest = h->older;
    else
        c->held[h->newer].older = h->older;
    if (h->older == NONE)
        c->oldest = h->newer;
    else
        c->held[h->older].newer = h->newer;
}

static void make_newest(struct spot_load_cache *c, uint32_t k)
{
    c->held[k].newer = NONE;
    c->held[k].older = c->newest;
    if (c->newest == NONE)
        c->oldest = k;
    else
        c->held[c->newest].newer = k;
    c->newest = k;
}

/* A place for another block; if none is free, that of the least recently used. */
static uint32_t take_place(struct spot_load_cache *c)
{
    const uint32_t k = c->n < c->room ? c->n : c->oldest;
    size_t cap = c->cap;

    if (k == c->n) {
        c->held = spot_xgrow(c->held, &cap, (size_t)c->n + 1, sizeof(*c->held));
        c->cap = (uint32_t)cap;
        c->n++;
        return k;
    }
    for (uint32_t *at = bucket_of(c, c->held[k].id);; at = &c->held[*at].next)
        if (*at == k) {
            *at = c->held[k].next;
            break;
        }
    unlink_use(c, k);
    return k;
}

int32_t spot_load_cache_found(const struct spot_load_cache *c, size_t i)
{
    const int64_t prompt = c->load->prompt_token[i];
    size_t n, k = 0;
    const uint32_t *block = spot_load_blocks(c->load, i, &n);
    int64_t token;

    while (k < n && find(c, block[k]) != NONE)
        k++;
    token = (int64_t)k * c->load->block_token;
    return (int32_t)(token < prompt ? token : prompt - 1);
}

void spot_load_cache_use(struct spot_load_cache *c, size_t i)
{
    size_t n;
    const uint32_t *block = spot_load_blocks(c->load, i, &n);

    for (size_t j = n; c->room && j-- > 0;) {
        uint32_t k = find(c, block[j]);

        if (k != NONE) {
            unlink_use(c, k);
        } else {
            uint32_t *at = bucket_of(c, block[j]);

            k = take_place(c);
            c->held[k].id = block[j];
            c->held[k].next = *at;
            *at = k;
        }
        make_newest(c, k);
    }
}

int32_t *spot_load_cached(const struct spot_load *load, int64_t token)
{
    struct spot_load_cache *c;
    int32_t *found;

    if (!load->block_token || token < 1)
        return NULL;
    c = spot_load_cache_new(load, token);
    found = spot_xcalloc(load->n, sizeof(*found));
    for (size_t i = 0; i < load->n; i++) {
        found[i] = spot_load_cache_found(c, i);
        spot_load_cache_use(c, i);
    }
    spot_load_cache_free(c);
    return found;
}

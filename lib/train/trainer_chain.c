/* SPDX-License-Identifier: MIT */
/* The chain of commits, by which events of steps and generations can be checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "train/trainer_evidence_state.h"

void spot_trainer_open_chain(struct spot_trainer *c)
{
    const int64_t step = c->journal->tail.step;
    struct spot_hash128 hash;

    if (step > 0 && spot_chain_parse(c->journal->chain, &hash))
        spot_chain_put(&c->chain, step, hash);
    if (step > 1 && spot_chain_parse(c->journal->chain_before, &hash))
        spot_chain_put(&c->chain, step - 1, hash);
}

/* The chain up to a step; false if unknown. */
static bool find_chain(const struct spot_trainer *c, int64_t step, struct spot_hash128 *hash)
{
    char hex[SPOT_HASH_HEX];

    if (!step) {
        *hash = spot_chain_begin(c->job);
        return true;
    }
    if (spot_chain_find(&c->chain, step, hash))
        return true;
    if (step != spot_store_newest(c->saver.store))
        return false;
    spot_store_chain(c->saver.store, step, hex);
    return spot_chain_parse(hex, hash);
}

void spot_trainer_chain_hex(const struct spot_trainer *c, int64_t step, char hex[SPOT_HASH_HEX])
{
    struct spot_hash128 hash;

    *hex = '\0';
    if (spot_evidence_of_kernel(c->config.kernel) && find_chain(c, step, &hash))
        spot_hash128_hex(hash, hex);
}

static void put_tags(const struct spot_trainer *c, struct spot_jw *jw, bool is_sum)
{
    char tags[SPOT_EVIDENCE_TAGS];

    spot_jw_array(jw, is_sum ? "sums" : "state");
    for (int b = 0; b < c->n_bundle; b++) {
        const struct spot_evidence *const e = &c->vote[b].evidence;
        struct spot_arena arena;

        spot_arena_of(&c->config.shape, b, &arena);
        spot_evidence_tags(is_sum ? e->sum : e->state, arena.n_tensor, tags);
        spot_jw_str(jw, NULL, tags);
    }
    spot_jw_end(jw);
}

static void put_hex64(struct spot_jw *jw, const char *key, uint64_t hash)
{
    char hex[20];

    snprintf(hex, sizeof(hex), "%016" PRIx64, hash);
    spot_jw_str(jw, key, hex);
}

void spot_trainer_put_chain(struct spot_trainer *c, struct spot_jw *jw,
                            const struct spot_step_parameters *parameters)
{
    const uint64_t hash = spot_step_parameters_hash(parameters);
    struct spot_evidence *evidence;
    struct spot_hash128 chain;
    char hex[SPOT_HASH_HEX];
    bool is_anew;

    if (!spot_evidence_of_kernel(c->config.kernel))
        return;
    is_anew = !find_chain(c, c->machine->round, &chain);
    if (is_anew)
        chain = spot_chain_begin(c->job);
    evidence = spot_xcalloc((size_t)c->n_bundle, sizeof(*evidence));
    for (int b = 0; b < c->n_bundle; b++)
        evidence[b] = c->vote[b].evidence;
    chain = spot_chain_next(chain, &c->config.shape, evidence, c->samples_xxh3, hash);
    free(evidence);
    spot_chain_put(&c->chain, c->machine->round + 1, chain);
    if (!jw)
        return;
    spot_hash128_hex(chain, hex);
    spot_jw_str(jw, "chain", hex);
    if (is_anew)
        spot_jw_bool(jw, "anew", true);
    put_hex64(jw, "samples_xxh3", c->samples_xxh3);
    put_hex64(jw, "parameters_xxh3", hash);
    put_tags(c, jw, false);
    put_tags(c, jw, true);
}

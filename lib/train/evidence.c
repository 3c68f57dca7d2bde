/* SPDX-License-Identifier: MIT */
#include "train/evidence.h"

#include <stdio.h>
#include <string.h>

bool spot_evidence_of_kernel(const char *kernel)
{
    return strncmp(kernel, "cuda", 4) != 0;
}

/* --- of a bundle ------------------------------------------------------------ */

static int shards_of(const struct spot_arena *arena, int t)
{
    return arena->tensor[t].is_sharded ? arena->n_shard : 1;
}

static size_t elements_of(const struct spot_arena *arena, int t)
{
    return (size_t)(arena->tensor[t].rows * arena->tensor[t].cols);
}

/* Combine two hashes. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    const uint64_t both[2] = { a, b };

    return spot_hash64(both, sizeof(both));
}

uint64_t spot_evidence_state(const struct spot_bundle *bundle, int t)
{
    const size_t n_byte = elements_of(&bundle->arena, t) * sizeof(float);
    uint64_t hash = (uint64_t)(int64_t)bundle->exponent[t];

    for (int p = 0; p < SPOT_PLANES; p++)
        for (int s = 0; s < shards_of(&bundle->arena, t); s++)
            hash =
                fold(hash, spot_hash64(bundle->plane[p] + spot_arena_offset(&bundle->arena, t, s),
                                       n_byte));
    return hash;
}

uint64_t spot_evidence_sum(const struct spot_arena *arena, const int64_t *sum, int t)
{
    uint64_t hash = 0;

    for (int s = 0; s < shards_of(arena, t); s++)
        hash = fold(hash, spot_hash64(sum + spot_arena_offset(arena, t, s),
                                      elements_of(arena, t) * sizeof(*sum)));
    return hash;
}

void spot_evidence_take(struct spot_evidence *e, const struct spot_bundle *bundle,
                        const int64_t *sum)
{
    for (int t = 0; t < bundle->arena.n_tensor; t++) {
        e->state[t] = spot_evidence_state(bundle, t);
        e->sum[t] = spot_evidence_sum(&bundle->arena, sum, t);
    }
}

int spot_evidence_differs(const uint64_t *a, const uint64_t *b, int n_tensor)
{
    for (int t = 0; t < n_tensor; t++)
        if (a[t] != b[t])
            return t;
    return -1;
}

void spot_evidence_put(struct spot_buf *out, const struct spot_evidence *e, int n_tensor)
{
    for (int t = 0; t < n_tensor; t++) {
        spot_put_u64(out, e->state[t]);
        spot_put_u64(out, e->sum[t]);
    }
}

void spot_evidence_get(struct spot_wire_in *in, struct spot_evidence *e, int n_tensor)
{
    *e = (struct spot_evidence){ 0 };
    for (int t = 0; t < n_tensor; t++) {
        e->state[t] = spot_get_u64(in);
        e->sum[t] = spot_get_u64(in);
    }
}

void spot_evidence_tags(const uint64_t *hash, int n_tensor, char tags[SPOT_EVIDENCE_TAGS])
{
    tags[0] = '\0';
    for (int t = 0; t < n_tensor; t++)
        snprintf(tags + (size_t)t * SPOT_EVIDENCE_TAG, SPOT_EVIDENCE_TAG + 1, "%04x",
                 (unsigned)(hash[t] & 0xffff));
}

/* --- of a commit ------------------------------------------------------------ */

struct spot_step_parameters spot_step_parameters(const struct spot_adamw *adamw, double scale,
                                                 float loss)
{
    return (struct spot_step_parameters){ .lr = adamw->lr,
                                          .weight_decay = adamw->weight_decay,
                                          .beta1 = adamw->beta1,
                                          .beta2 = adamw->beta2,
                                          .eps = adamw->eps,
                                          .scale = scale,
                                          .loss = (double)loss };
}

uint64_t spot_step_parameters_hash(const struct spot_step_parameters *p)
{
    return spot_hash64(p, sizeof(*p)); /* doubles, no padding */
}

struct spot_hash128 spot_chain_begin(uint64_t job)
{
    struct spot_buf text = { 0 };
    struct spot_hash128 hash;

    spot_put_text(&text, "spot.chain/1");
    spot_put_u64(&text, job);
    hash = spot_hash128(text.data, text.n);
    spot_buf_release(&text);
    return hash;
}

struct spot_hash128 spot_chain_next(struct spot_hash128 before, const struct spot_shape *shape,
                                    const struct spot_evidence *bundle, uint64_t samples,
                                    uint64_t parameters)
{
    struct spot_buf text = { 0 };
    struct spot_hash128 hash;

    spot_put_u64(&text, before.high);
    spot_put_u64(&text, before.low);
    spot_put_u64(&text, samples);
    spot_put_u64(&text, parameters);
    for (int b = 0; b < spot_shape_bundles(shape); b++) {
        struct spot_arena arena;

        spot_arena_of(shape, b, &arena);
        spot_evidence_put(&text, &bundle[b], arena.n_tensor);
    }
    hash = spot_hash128(text.data, text.n);
    spot_buf_release(&text);
    return hash;
}

static bool parse_half(const char *hex, uint64_t *half)
{
    *half = 0;
    for (int i = 0; i < 16; i++) {
        const char *const digits = "0123456789abcdef";
        const char *const at = hex[i] ? strchr(digits, hex[i]) : NULL;

        if (!at)
            return false;
        *half = *half << 4 | (uint64_t)(at - digits);
    }
    return true;
}

bool spot_chain_parse(const char *hex, struct spot_hash128 *hash)
{
    return strlen(hex) == SPOT_HASH_HEX - 1 && parse_half(hex, &hash->high) &&
           parse_half(hex + 16, &hash->low);
}

void spot_chain_put(struct spot_chain *chain, int64_t step, struct spot_hash128 hash)
{
    chain->link[step % SPOT_CHAIN_KEPT].step = step;
    chain->link[step % SPOT_CHAIN_KEPT].hash = hash;
}

bool spot_chain_find(const struct spot_chain *chain, int64_t step, struct spot_hash128 *hash)
{
    *hash = chain->link[step % SPOT_CHAIN_KEPT].hash;
    return step > 0 && chain->link[step % SPOT_CHAIN_KEPT].step == step;
}

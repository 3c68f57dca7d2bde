/* SPDX-License-Identifier: MIT */
/* infer_pass.h - shared by the passes of a run: the division of work, and the products.
 *
 * If there are more tokens than one tile holds, they are divided evenly into tiles of up to
 * SPOT_TILE; inputs of fp32 products are then packed, so that a tile reads them in order. A single
 * tile reads rows.
 */
#ifndef SPOT_ENGINE_CPU_INFER_PASS_H
#define SPOT_ENGINE_CPU_INFER_PASS_H

#include "engine/infer_state.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_infer_work {
    struct spot_infer *f;
    int thread, n_thread;
    int bundle, layer; /* layer: its index within this stage */
};

/* Compute the activation of a token in own shard s: n numbers `act` from the inputs `pre`. */
void spot_infer_activate(const struct spot_infer_work *w, float *act, float *pre, int64_t n, int s);

/* Wait for the other threads. */
void spot_infer_meet(const struct spot_infer_work *w);

/* The tensor of the current bundle, in own shard `shard` (-1: replicated); NULL: the image lacks
 * it. */
const void *spot_infer_own(const struct spot_infer_work *w, const char *name, int shard);

/* --- tiles of n tokens --- */

static inline int64_t spot_infer_tiles(int64_t n)
{
    return (n + SPOT_TILE - 1) / SPOT_TILE;
}

static inline int64_t spot_infer_tile_begin(int64_t n, int64_t tile)
{
    return n * tile / spot_infer_tiles(n);
}

/* Number of units by which n tokens are distributed to threads between products: tiles, or single
 * tokens if there is one tile. */
static inline int64_t spot_infer_deals(int64_t n)
{
    return n > SPOT_TILE ? spot_infer_tiles(n) : n;
}

static inline int64_t spot_infer_deal_begin(int64_t n, int64_t deal)
{
    return n > SPOT_TILE ? spot_infer_tile_begin(n, deal) : deal;
}

/* --- products --- */

/* Inputs of a product: rows [token][stride], in q8 as blocks, else packed if there are tiles. */
struct spot_infer_input {
    float *x;
    int64_t stride, n_in; /* n_in: inputs of a shard */
    /* the product to which adapters are applied; SPOT_LORA_PRODUCTS: none */
    enum spot_lora_product product;
};

/* n rows of the inputs of one shard, x[n][stride] with n_in inputs each. They are prepared as rows
 * from `row` on, as inputs from `begin` on, or in q8 as blocks from `first_block` on. */
struct spot_infer_rows {
    float *x;
    int64_t stride, n_in, begin, first_block, row;
};

/* Prepare the rows of unit `deal` of n for a product; for bf16, x is rounded in place. */
void spot_infer_ready(const struct spot_infer *f, const struct spot_infer_rows *rows, int64_t n,
                      int64_t deal);

/* Outputs are sharded: out[n][own shard][stride], n_out of them per shard; one input for all. */
void spot_infer_by_outputs(const struct spot_infer_work *w, const char *name,
                           const struct spot_infer_input *in, float *out, int64_t stride,
                           int64_t n_out, int64_t n);

/* Inputs are sharded: x[token][own shard][stride]; f->sum gets the sum over all shards, rows of C
 * rounded up to panels. */
void spot_infer_by_inputs(const struct spot_infer_work *w, const char *name,
                          const struct spot_infer_input *in);

/* One panel against n rows: c[n][c_row]; `after` is the address that this thread reads next. */
void spot_infer_panel(const struct spot_infer *f, const uint8_t *panel, const uint8_t *after,
                      const struct spot_infer_rows *in, int64_t n, float *c, int64_t c_row);

/* part[0] = the sum of part[0..n), each of n_elem, in the order of the tree. */
void spot_infer_add_tree(const struct spot_vec *vec, float *part, int64_t stride, int n,
                         int64_t n_elem);

/* Replace sums over own shards by sums over all shards of the tensor group. */
void spot_infer_exchange(const struct spot_infer_work *w, int64_t n_elem);

/* --- adapters, in fp32 for any type of weights: low = A x for each token whose sequence has one,
 * before x is prepared; then c += B low --- */

/* x is a token's input of the product, of own shard s (0 where all shards have one input). */
void spot_infer_lower(const struct spot_infer_work *w, enum spot_lora_product product, int64_t t,
                      int s, const float *x, int64_t n_in);
/* c[n][c_row] are 64 outputs of tokens t..: panel number `panel` of the adapter's B. */
void spot_infer_raise(const struct spot_infer_work *w, enum spot_lora_product product, int64_t t,
                      int64_t n, int s, int64_t panel, float *c, int64_t c_row);

/* --- a mixture of experts: choose experts for a token from its row of norm; then compute from norm
 * to sum --- */

void spot_infer_route(const struct spot_infer_work *w, int64_t t);
void spot_infer_experts(const struct spot_infer_work *w);

/* --- attention of a layer: qkv to att --- */

void spot_infer_attend(const struct spot_infer_work *w);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CPU_INFER_PASS_H */

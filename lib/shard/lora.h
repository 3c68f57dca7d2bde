/* SPDX-License-Identifier: MIT */
/* lora.h - a low-rank adapter (Hu et al., arXiv:2106.09685) laid out by canonical shards: some
 * products become y = W x + B (A x).
 *
 * The parts of a fused product, such as q, k and v, have their ranks one after another in one A;
 * B has zeros where an output is not of the part.
 */
#ifndef SPOT_SHARD_LORA_H
#define SPOT_SHARD_LORA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_LORA_PANEL = 64 }; /* adjacent outputs */

enum spot_lora_product {
    SPOT_LORA_QKV,
    SPOT_LORA_UP, /* QKV and UP: outputs are divided into shards */
    SPOT_LORA_PROJ,
    SPOT_LORA_DOWN, /* PROJ and DOWN: inputs are divided into shards */
    SPOT_LORA_PRODUCTS
};

struct spot_lora_part {
    int64_t rank; /* 0: no adapter in this product */
    float *a;     /* [rank][n_in]; inputs in shards: [shard][rank][n_in of a shard] */
    float *b; /* outputs in shards: [shard][panel][rank][64], else [panel][rank][64]; includes the
                 adapter's scale */
    int32_t *span; /* [shard][panel][2]: the range of ranks that are not 0 there */
};

struct spot_lora {
    int64_t n_layer;
    struct spot_lora_part *part; /* [n_layer][SPOT_LORA_PRODUCTS] */
    uint64_t hash;               /* hash of all its numbers */
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_LORA_H */

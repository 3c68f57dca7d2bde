/* SPDX-License-Identifier: MIT */
/* decoder_shapes.h - small shapes that have, together, each feature of model/decoder.h but experts.
 */
#ifndef SPOT_TESTS_DECODER_SHAPES_H
#define SPOT_TESTS_DECODER_SHAPES_H

#include "model/shape.h"

#define RMS_LAYERS \
    .norm = SPOT_NORM_RMS, .positions = SPOT_POSITIONS_ROTARY, .is_gated = 1, .activation

/* Norms of each head, heads of a width of their own. */
#define SHAPE_HEAD_NORM                                                                     \
    {                                                                                       \
        .n_layer = 2, .width = 24, .n_head = 4, .seq = 13, .vocab = 19, .n_shard = 2,       \
        .n_kv_head = 2, .head_dim = 10, .ffn = 34, .rope_theta = 1e4, .norm_eps = 1e-3,     \
        .kind = { RMS_LAYERS = SPOT_SILU, .bare = SPOT_BARE_ALL, .qk_norm = SPOT_QK_HEAD }, \
    }
/* Norms around, two bases of positions, windows, scaled embeddings, a GELU gate. */
#define SHAPE_AROUND                                                                   \
    {                                                                                  \
        .n_layer = 3, .width = 32, .n_head = 8, .seq = 11, .vocab = 19, .n_shard = 4,  \
        .n_kv_head = 4, .head_dim = 6, .ffn = 36, .rope_theta = 1e4, .norm_eps = 1e-4, \
        .kind = { RMS_LAYERS = SPOT_GELU_TANH,                                         \
                  .bare = SPOT_BARE_ALL,                                               \
                  .norm_place = SPOT_NORM_AROUND,                                      \
                  .qk_norm = SPOT_QK_HEAD,                                             \
                  .rope_scaling = SPOT_ROPE_LINEAR,                                    \
                  .rope_factor = 8,                                                    \
                  .rope_theta_local = 100,                                             \
                  .window = 4,                                                         \
                  .local = { 3, 3 },                                                   \
                  .attention_scale = .3,                                               \
                  .embed_scale = 5 },                                                  \
    }
/* Capped scores and logits, and all that may lie between a product and the residual. */
#define SHAPE_CAPPED                                                                 \
    {                                                                                \
        .n_layer = 2, .width = 24, .n_head = 4, .seq = 9, .vocab = 21, .n_shard = 2, \
        .n_kv_head = 4, .ffn = 30, .rope_theta = 1e4,                                \
        .kind = { RMS_LAYERS = SPOT_GELU_ERF,                                        \
                  .norm_place = SPOT_NORM_AROUND,                                    \
                  .residual_scale = .7,                                              \
                  .attention_cap = .5,                                               \
                  .logit_cap = .6,                                                   \
                  .logit_scale = 1.4,                                                \
                  .window = 5,                                                       \
                  .local = { 2, 1 } },                                               \
    }
/* Norms after halves, and of all heads together. */
#define SHAPE_AFTER                                                                             \
    {                                                                                           \
        .n_layer = 2, .width = 24, .n_head = 12, .seq = 7, .vocab = 17, .n_shard = 6,           \
        .n_kv_head = 6, .ffn = 36, .rope_theta = 1e4, .norm_eps = 1e-4,                         \
        .kind = { RMS_LAYERS = SPOT_SILU, .bare = SPOT_BARE_ALL, .norm_place = SPOT_NORM_AFTER, \
                  .qk_norm = SPOT_QK_WHOLE },                                                   \
    }
/* All biases, multipliers, a part of a head that turns, layers that do not. */
#define SHAPE_SCALED                                                                  \
    {                                                                                 \
        .n_layer = 2, .width = 32, .n_head = 4, .seq = 10, .vocab = 19, .n_shard = 1, \
        .n_kv_head = 2, .ffn = 20, .rope_theta = 1e4,                                 \
        .kind = { RMS_LAYERS = SPOT_SILU, .rotary_dim = 4,                            \
                  .unturned = { 2, 2 },   .rope_scaling = SPOT_ROPE_LLAMA3,           \
                  .rope_factor = 8,       .rope_low = 1,                              \
                  .rope_high = 4,         .rope_original = 32,                        \
                  .embed_scale = 3,       .residual_scale = .4,                       \
                  .attention_scale = .2,  .logit_scale = .5 },                        \
    }
/* Blocks of queries with a window, positions that are scaled in size as well. */
#define SHAPE_WINDOW                                                                   \
    {                                                                                  \
        .n_layer = 1, .width = 32, .n_head = 4, .seq = 101, .vocab = 13, .n_shard = 2, \
        .n_kv_head = 2, .ffn = 24, .rope_theta = 1e6,                                  \
        .kind = { RMS_LAYERS = SPOT_SILU,                                              \
                  .bare = SPOT_BARE_PROJ | SPOT_BARE_MLP,                              \
                  .rope_scaling = SPOT_ROPE_YARN,                                      \
                  .rope_factor = 4,                                                    \
                  .rope_low = 1,                                                       \
                  .rope_high = 32,                                                     \
                  .rope_original = 32,                                                 \
                  .window = 17,                                                        \
                  .local = { 1, 1 } },                                                 \
    }
/* GPT-2's layers with the other GELU and an MLP of another width. */
#define SHAPE_ERF                                                                               \
    {                                                                                           \
        .n_layer = 1, .width = 24, .n_head = 4, .seq = 9, .vocab = 19, .n_shard = 2, .ffn = 34, \
        .kind = { .activation = SPOT_GELU_ERF },                                                \
    }

#endif /* SPOT_TESTS_DECODER_SHAPES_H */

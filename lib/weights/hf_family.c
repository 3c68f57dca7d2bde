/* SPDX-License-Identifier: MIT */
#include "weights/hf_family.h"

#include <stddef.h>
#include <string.h>

#define ROTARY(without_bias)                                                           \
    .norm = SPOT_NORM_RMS, .bare = (without_bias), .positions = SPOT_POSITIONS_ROTARY, \
    .activation = SPOT_SILU, .is_gated = 1

enum {
    BIASES = SPOT_HF_READS_ATTENTION_BIAS | SPOT_HF_READS_MLP_BIAS,
    QWEN_WINDOW = SPOT_HF_READS_WINDOW | SPOT_HF_ASKS_WINDOW,
    GEMMA = SPOT_HF_READS_ATTENTION_BIAS | SPOT_HF_READS_HEAD_DIM | SPOT_HF_READS_WINDOW |
            SPOT_HF_READS_CAPS | SPOT_HF_SCALES_EMBEDDING,
};

/* The first two are the rows of SPOT_DECODER_GPT2 and SPOT_DECODER_LLAMA. Defaults are those of the
 * configuration classes of transformers 5. */
static const struct spot_hf_family families[] = {
    { .type = "gpt2",
      .architecture = "GPT2LMHeadModel",
      .files = SPOT_HF_IS_CONV,
      .activation = "gelu_new",
      .seq = 1024,
      .eps = 1e-5,
      .is_tied = true },
    { .type = "llama",
      .architecture = "LlamaForCausalLM",
      .reads = BIASES | SPOT_HF_READS_HEAD_DIM | SPOT_HF_READS_ROTARY_PART,
      .kind = { ROTARY(SPOT_BARE_ALL) },
      .activation = "silu",
      .seq = 2048,
      .eps = 1e-6,
      .theta = 1e4 },
    { .type = "mistral",
      .architecture = "MistralForCausalLM",
      .reads = SPOT_HF_READS_HEAD_DIM | SPOT_HF_READS_WINDOW,
      .kind = { ROTARY(SPOT_BARE_ALL) },
      .activation = "silu",
      .seq = 131072,
      .n_kv_head = 8,
      .window = 4096,
      .eps = 1e-6,
      .theta = 1e4 },
    { .type = "qwen2",
      .architecture = "Qwen2ForCausalLM",
      .reads = QWEN_WINDOW,
      .kind = { ROTARY(SPOT_BARE_PROJ | SPOT_BARE_MLP) },
      .activation = "silu",
      .seq = 32768,
      .n_kv_head = 32,
      .window = 4096,
      .eps = 1e-6,
      .theta = 1e4 },
    { .type = "qwen3",
      .architecture = "Qwen3ForCausalLM",
      .reads = QWEN_WINDOW | SPOT_HF_READS_ATTENTION_BIAS | SPOT_HF_READS_HEAD_DIM,
      .kind = { ROTARY(SPOT_BARE_ALL), .qk_norm = SPOT_QK_HEAD },
      .activation = "silu",
      .seq = 32768,
      .n_kv_head = 32,
      .head_dim = 128,
      .window = 4096,
      .eps = 1e-6,
      .theta = 1e4 },
    { .type = "smollm3",
      .architecture = "SmolLM3ForCausalLM",
      .reads = QWEN_WINDOW | BIASES | SPOT_HF_READS_UNTURNED,
      .kind = { ROTARY(SPOT_BARE_ALL) },
      .activation = "silu",
      .seq = 32768,
      .n_kv_head = 4,
      .eps = 1e-6,
      .theta = 2e6,
      .is_tied = true },
    { .type = "phi3",
      .architecture = "Phi3ForCausalLM",
      .reads = SPOT_HF_READS_WINDOW | SPOT_HF_READS_ROTARY_PART,
      .files = SPOT_HF_IS_FUSED,
      .kind = { ROTARY(SPOT_BARE_ALL) },
      .activation = "silu",
      .seq = 4096,
      .eps = 1e-5,
      .theta = 1e4 },
    { .type = "gemma2",
      .architecture = "Gemma2ForCausalLM",
      .reads = GEMMA,
      .files = SPOT_HF_NORM_IS_REST,
      .kind = { ROTARY(SPOT_BARE_ALL), .norm_place = SPOT_NORM_AROUND, .attention_cap = 50,
                .logit_cap = 30 },
      .activation = "gelu_pytorch_tanh",
      .seq = 8192,
      .n_kv_head = 4,
      .head_dim = 256,
      .window = 4096,
      .local_period = 2,
      .eps = 1e-6,
      .theta = 1e4,
      .is_tied = true },
    { .type = "gemma3_text",
      .architecture = "Gemma3ForCausalLM",
      .reads = GEMMA,
      .files = SPOT_HF_NORM_IS_REST,
      .kind = { ROTARY(SPOT_BARE_ALL), .norm_place = SPOT_NORM_AROUND, .qk_norm = SPOT_QK_HEAD,
                .rope_theta_local = 1e4 },
      .activation = "gelu_pytorch_tanh",
      .seq = 131072,
      .n_kv_head = 4,
      .head_dim = 256,
      .window = 4096,
      .local_period = 6,
      .eps = 1e-6,
      .theta = 1e6,
      .is_tied = true },
    { .type = "gemma3", /* with a vision part; reads the keys of gemma3_text, in text_config */
      .architecture = "Gemma3ForConditionalGeneration",
      .reads = SPOT_HF_READS_TEXT_CONFIG,
      .files = SPOT_HF_NORM_IS_REST },
    { .type = "olmo2",
      .architecture = "Olmo2ForCausalLM",
      .reads = SPOT_HF_READS_ATTENTION_BIAS,
      .kind = { ROTARY(SPOT_BARE_ALL), .norm_place = SPOT_NORM_AFTER, .qk_norm = SPOT_QK_WHOLE },
      .activation = "silu",
      .seq = 2048,
      .eps = 1e-5,
      .theta = 1e4 },
    { .type = "olmo3",
      .architecture = "Olmo3ForCausalLM",
      .reads = SPOT_HF_READS_ATTENTION_BIAS | SPOT_HF_READS_WINDOW,
      .kind = { ROTARY(SPOT_BARE_ALL), .norm_place = SPOT_NORM_AFTER, .qk_norm = SPOT_QK_WHOLE,
                .rope_theta_local = 5e5 },
      .activation = "silu",
      .seq = 2048,
      .window = 4096,
      .local_period = 4,
      .eps = 1e-5,
      .theta = 5e5 },
    { .type = "granite",
      .architecture = "GraniteForCausalLM",
      .reads = BIASES | SPOT_HF_READS_MULTIPLIERS,
      .kind = { ROTARY(SPOT_BARE_ALL) },
      .activation = "silu",
      .seq = 2048,
      .eps = 1e-6,
      .theta = 1e4 },
    { .type = "mixtral",
      .architecture = "MixtralForCausalLM",
      .reads = SPOT_HF_READS_HEAD_DIM | SPOT_HF_READS_WINDOW | SPOT_HF_READS_EXPERTS,
      .files = SPOT_HF_IS_MIXTRAL,
      .kind = { ROTARY(SPOT_BARE_ALL), .is_renormed = 1 },
      .activation = "silu",
      .seq = 131072,
      .n_kv_head = 8,
      .eps = 1e-5,
      .theta = 1e6,
      .n_expert = 8,
      .n_chosen = 2 },
    { .type = "qwen3_moe",
      .architecture = "Qwen3MoeForCausalLM",
      .reads = QWEN_WINDOW | SPOT_HF_READS_ATTENTION_BIAS | SPOT_HF_READS_HEAD_DIM |
               SPOT_HF_READS_EXPERTS | SPOT_HF_READS_SPARSE,
      .kind = { ROTARY(SPOT_BARE_ALL), .qk_norm = SPOT_QK_HEAD },
      .activation = "silu",
      .seq = 32768,
      .n_kv_head = 4,
      .window = 4096,
      .eps = 1e-6,
      .theta = 1e4,
      .n_expert = 128,
      .n_chosen = 8,
      .expert_ffn = 768 },
    { .type = "qwen2_moe",
      .architecture = "Qwen2MoeForCausalLM",
      .reads = QWEN_WINDOW | SPOT_HF_READS_QKV_BIAS | SPOT_HF_READS_EXPERTS | SPOT_HF_READS_SPARSE |
               SPOT_HF_READS_SHARED,
      .kind = { ROTARY(SPOT_BARE_PROJ | SPOT_BARE_MLP) },
      .activation = "silu",
      .seq = 32768,
      .n_kv_head = 16,
      .window = 4096,
      .local_period = 2,
      .eps = 1e-6,
      .theta = 1e4,
      .n_expert = 60,
      .n_chosen = 4,
      .expert_ffn = 1408,
      .shared_ffn = 5632 },
    { .type = "olmoe",
      .architecture = "OlmoeForCausalLM",
      .reads = SPOT_HF_READS_ATTENTION_BIAS | SPOT_HF_READS_EXPERTS | SPOT_HF_READS_CLIP,
      .kind = { ROTARY(SPOT_BARE_ALL), .qk_norm = SPOT_QK_WHOLE },
      .activation = "silu",
      .seq = 4096,
      .eps = 1e-5,
      .theta = 1e4,
      .n_expert = 64,
      .n_chosen = 8 },
};
enum { N_FAMILY = sizeof(families) / sizeof(families[0]) };

const struct spot_hf_family *spot_hf_family(int64_t i)
{
    return i >= 0 && i < N_FAMILY ? &families[i] : NULL;
}

const struct spot_hf_family *spot_hf_family_of(const struct spot_shape *shape)
{
    return spot_hf_family(shape->kind.family);
}

int spot_hf_family_find(const char *type)
{
    for (int i = 0; i < N_FAMILY; i++)
        if (!strcmp(families[i].type, type))
            return i;
    return -1;
}

int spot_hf_family_kind(const char *type, struct spot_decoder *kind)
{
    const int i = spot_hf_family_find(type);

    if (i < 0)
        return -1;
    *kind = families[i].kind;
    kind->family = i;
    return 0;
}

const char *spot_hf_family_list(void)
{
    return "gpt2, llama, mistral, qwen2, qwen3, smollm3, phi3, gemma2, gemma3_text, gemma3, olmo2, "
           "olmo3, granite, mixtral, qwen3_moe, qwen2_moe, olmoe";
}

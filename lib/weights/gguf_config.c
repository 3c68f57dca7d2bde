/* SPDX-License-Identifier: MIT */
/* Makes config.json and generation_config.json. Settings that the file does not contain are those
 * of llama.cpp's src/llama-model.cpp: windows and bases of Gemma, scales of its largest models. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/gguf_docs.h"
#include "weights/hf_family.h"

/* general.architecture and the name in transformers. */
static const struct architecture {
    const char *name, *type;
} architectures[] = {
    { "gpt2", "gpt2" },   { "llama", "llama" },        { "qwen2", "qwen2" },
    { "qwen3", "qwen3" }, { "qwen3moe", "qwen3_moe" }, { "smollm3", "smollm3" },
    { "phi3", "phi3" },   { "gemma2", "gemma2" },      { "gemma3", "gemma3_text" },
    { "olmo2", "olmo2" }, { "granite", "granite" },
};

struct reader {
    const struct spot_gguf *g;
    struct spot_jw *jw;
    char name[64]; /* general.architecture, the prefix of keys */
    const char *type;
};

static const char *key_of(const struct reader *r, const char *key, char full[128])
{
    snprintf(full, 128, "%s.%s", r->name, key);
    return full;
}

static bool get_int(const struct reader *r, const char *key, int64_t *x)
{
    char full[128];

    return spot_gguf_int(r->g, key_of(r, key, full), x);
}

static bool get_real(const struct reader *r, const char *key, double *x)
{
    char full[128];

    return spot_gguf_real(r->g, key_of(r, key, full), x);
}

static int refuse_missing(const struct reader *r, const char *key, struct spot_err *err)
{
    return spot_err_set(err, SPOT_EDATA, "%s: %s.%s is missing", r->g->path, r->name, key);
}

/* Values that are copied: their key, our key, and whether it is required. */
struct copy {
    const char *from, *to;
    bool is_needed, is_real;
};

static int put_all(const struct reader *r, const struct copy *c, struct spot_err *err)
{
    for (; c->from; c++) {
        int64_t i;
        double x;

        if (c->is_real && get_real(r, c->from, &x))
            spot_jw_real(r->jw, c->to, x);
        else if (!c->is_real && get_int(r, c->from, &i))
            spot_jw_int(r->jw, c->to, i);
        else if (c->is_needed)
            return refuse_missing(r, c->from, err);
    }
    return 0;
}

static const struct copy gpt2_copy[] = {
    { "embedding_length", "n_embd", true, false },
    { "block_count", "n_layer", true, false },
    { "attention.head_count", "n_head", true, false },
    { "context_length", "n_positions", true, false },
    { "feed_forward_length", "n_inner", false, false },
    { "attention.layer_norm_epsilon", "layer_norm_epsilon", true, true },
    { 0 },
};
static const struct copy common_copy[] = {
    { "embedding_length", "hidden_size", true, false },
    { "block_count", "num_hidden_layers", true, false },
    { "attention.head_count", "num_attention_heads", true, false },
    { "attention.head_count_kv", "num_key_value_heads", false, false },
    { "feed_forward_length", "intermediate_size", true, false },
    { "context_length", "max_position_embeddings", true, false },
    { "attention.layer_norm_rms_epsilon", "rms_norm_eps", true, true },
    { "rope.freq_base", "rope_theta", false, true },
    { "expert_count", "num_experts", false, false },
    { "expert_used_count", "num_experts_per_tok", false, false },
    { "expert_feed_forward_length", "moe_intermediate_size", false, false },
    { "attn_logit_softcapping", "attn_logit_softcapping", false, true },
    { "final_logit_softcapping", "final_logit_softcapping", false, true },
    { "embedding_scale", "embedding_multiplier", false, true },
    { "residual_scale", "residual_multiplier", false, true },
    { "attention.scale", "attention_multiplier", false, true },
    { "logit_scale", "logits_scaling", false, true },
    { 0 },
};

static bool is_type(const struct reader *r, const char *type)
{
    return !strcmp(r->type, type);
}

static bool is_gemma(const struct reader *r)
{
    return is_type(r, "gemma2") || is_type(r, "gemma3_text");
}

/* The size of the vocabulary, from the embedding tensor. */
static int put_vocabulary(const struct reader *r, struct spot_err *err)
{
    const struct spot_gguf_tensor *const embed = spot_gguf_find(r->g, "token_embd.weight");

    if (!embed)
        return spot_err_set(err, SPOT_EDATA, "%s: no tensor token_embd.weight", r->g->path);
    spot_jw_int(r->jw, "vocab_size", (int64_t)embed->dim[1]);
    spot_jw_bool(r->jw, "tie_word_embeddings", !spot_gguf_find(r->g, "output.weight"));
    return 0;
}

/* --- rotary positions ---------------------------------------------------- */

/* Llama 3's scaling is stored as divisors of frequencies. They must be those of its parameters:
 * 8192 original positions, factors 1 and 4, and the largest divisor. */
static int put_divisors(const struct reader *r, const struct spot_gguf_tensor *t,
                        struct spot_err *err)
{
    const double original = 8192, pi = 3.14159265358979323846;
    const int64_t n = (int64_t)t->dim[0];
    float x[4096], most = 1;
    double theta = 1e4;

    if (n < 1 || n > (int64_t)(sizeof(x) / sizeof(x[0])))
        return spot_err_set(err, SPOT_EDATA, "%s: rope_freqs.weight has %lld numbers", r->g->path,
                            (long long)n);
    if (spot_gguf_read(r->g, t, 0, (size_t)n, x, err))
        return -1;
    get_real(r, "rope.freq_base", &theta);
    for (int64_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < n; i++) {
        const double length = 2 * pi * pow(theta, (double)i / (double)n);
        const double smooth = (original / length - 1) / (4 - 1);
        const double by = smooth >= 1   ? 1
                          : smooth <= 0 ? (double)most
                                        : 1 / ((1 - smooth) / (double)most + smooth);

        if (fabs((double)x[i] - by) > 1e-3 * by)
            return spot_err_set(err, SPOT_EDATA,
                                "%s: rope_freqs.weight: number %lld is %g, expected %g of the "
                                "scaling llama3 by %g",
                                r->g->path, (long long)i, (double)x[i], by, (double)most);
    }
    if (most == 1)
        return 0;
    spot_jw_object(r->jw, "rope_scaling");
    spot_jw_str(r->jw, "rope_type", "llama3");
    spot_jw_real(r->jw, "factor", (double)most);
    spot_jw_real(r->jw, "low_freq_factor", 1);
    spot_jw_real(r->jw, "high_freq_factor", 4);
    spot_jw_int(r->jw, "original_max_position_embeddings", (int64_t)original);
    spot_jw_end(r->jw);
    return 0;
}

static int put_rope(const struct reader *r, struct spot_err *err)
{
    const struct spot_gguf_tensor *const divisors = spot_gguf_find(r->g, "rope_freqs.weight");
    struct spot_gguf_text type = { 0 };
    char key[128];
    int64_t original;
    double factor;

    if (divisors)
        return put_divisors(r, divisors, err);
    if (!spot_gguf_text(r->g, key_of(r, "rope.scaling.type", key), &type) ||
        (type.n == 4 && !memcmp(type.at, "none", 4)))
        return 0;
    if (!get_real(r, "rope.scaling.factor", &factor))
        return refuse_missing(r, "rope.scaling.factor", err);
    spot_jw_object(r->jw, "rope_scaling");
    spot_jw_text(r->jw, "rope_type", type.at, type.n);
    spot_jw_real(r->jw, "factor", factor);
    if (get_int(r, "rope.scaling.original_context_length", &original))
        spot_jw_int(r->jw, "original_max_position_embeddings", original);
    spot_jw_end(r->jw);
    return 0;
}

/* --- what differs by family ---------------------------------------------- */

/* Gemma's largest models scale attention by another width than that of a head. */
static int put_gemma(const struct reader *r, struct spot_err *err)
{
    int64_t d, layers, width, heads;

    if (!get_int(r, "attention.key_length", &d))
        return refuse_missing(r, "attention.key_length", err);
    if (!get_int(r, "block_count", &layers) || !get_int(r, "embedding_length", &width) ||
        !get_int(r, "attention.head_count", &heads) || heads < 1)
        return refuse_missing(r, "attention.head_count", err);
    if ((is_type(r, "gemma2") && layers == 46) || (is_type(r, "gemma3_text") && layers == 62))
        d = width / heads;
    spot_jw_int(r->jw, "query_pre_attn_scalar", d);
    return 0;
}

static int put_windows(const struct reader *r, struct spot_err *err)
{
    int64_t window;

    if (is_gemma(r) && !get_int(r, "attention.sliding_window", &window))
        return refuse_missing(r, "attention.sliding_window", err);
    if (is_gemma(r) || is_type(r, "phi3")) {
        if (get_int(r, "attention.sliding_window", &window) && window > 0)
            spot_jw_int(r->jw, "sliding_window", window);
        else
            spot_jw_null(r->jw, "sliding_window");
    }
    return 0;
}

static int put_heads(const struct reader *r, struct spot_err *err)
{
    int64_t d, turned, width, heads;

    if (!get_int(r, "embedding_length", &width) || !get_int(r, "attention.head_count", &heads) ||
        heads < 1)
        return refuse_missing(r, "attention.head_count", err);
    if (!get_int(r, "attention.key_length", &d))
        d = width / heads;
    else
        spot_jw_int(r->jw, "head_dim", d);
    if (get_int(r, "rope.dimension_count", &turned) && turned < d)
        spot_jw_real(r->jw, "partial_rotary_factor", (double)turned / (double)d);
    return 0;
}

static int put_common(const struct reader *r, struct spot_err *err)
{
    static const char *const bias[][2] = { { "blk.0.attn_q.bias", "attention_bias" },
                                           { "blk.0.ffn_up.bias", "mlp_bias" } };

    if (put_all(r, common_copy, err) || put_heads(r, err) || put_windows(r, err) ||
        put_rope(r, err) || (is_gemma(r) && put_gemma(r, err)))
        return -1;
    for (size_t i = 0; i < 2; i++)
        if (!is_type(r, "qwen2") && spot_gguf_find(r->g, bias[i][0]))
            spot_jw_bool(r->jw, bias[i][1], true);
    if (is_type(r, "qwen3_moe"))
        spot_jw_bool(r->jw, "norm_topk_prob", true);
    return 0;
}

static int find_type(struct reader *r, struct spot_err *err)
{
    struct spot_gguf_text name;
    int64_t n_expert = 0;

    if (!spot_gguf_text(r->g, "general.architecture", &name) || name.n >= sizeof(r->name))
        return spot_err_set(err, SPOT_EDATA, "%s: general.architecture is missing", r->g->path);
    memcpy(r->name, name.at, name.n);
    for (size_t i = 0; i < sizeof(architectures) / sizeof(architectures[0]); i++)
        if (!strcmp(r->name, architectures[i].name))
            r->type = architectures[i].type;
    if (!r->type)
        return spot_err_set(err, SPOT_EDATA,
                            "%s: general.architecture '%s' is not supported; in GGUF gpt2, llama, "
                            "qwen2, qwen3, qwen3moe, smollm3, phi3, gemma2, "
                            "gemma3, olmo2 and granite are",
                            r->g->path, r->name);
    if (is_type(r, "llama") && get_int(r, "expert_count", &n_expert) && n_expert > 0)
        r->type = "mixtral";
    return 0;
}

int spot_gguf_config(const struct spot_gguf *g, struct spot_jw *jw, struct spot_err *err)
{
    struct reader r = { .g = g, .jw = jw };
    const struct spot_hf_family *family;

    if (find_type(&r, err))
        return -1;
    family = spot_hf_family(spot_hf_family_find(r.type));
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "model_type", r.type);
    spot_jw_array(jw, "architectures");
    spot_jw_str(jw, NULL, family->architecture);
    spot_jw_end(jw);
    if (put_vocabulary(&r, err) ||
        (is_type(&r, "gpt2") ? put_all(&r, gpt2_copy, err) : put_common(&r, err)))
        return -1;
    spot_jw_end(jw);
    return 0;
}

int spot_gguf_generation_config(const struct spot_gguf *g, struct spot_jw *jw, struct spot_err *err)
{
    static const char *const key[] = { "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id" };
    int64_t id, before = -1;

    (void)err;
    spot_jw_object(jw, NULL);
    spot_jw_array(jw, "eos_token_id");
    for (size_t i = 0; i < sizeof(key) / sizeof(key[0]); i++)
        if (spot_gguf_int(g, key[i], &id) && id != before) {
            spot_jw_int(jw, NULL, id);
            before = id;
        }
    spot_jw_end(jw);
    spot_jw_end(jw);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Writes a shape as its family's config.json, from which hf_config.c reads the same shape. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "weights/hf_config.h"
#include "weights/hf_family.h"

/* The shortest decimal number x with f(x) == y, so that reading it gives y again to the bit. */
static double found(double y, double (*f)(double), double near)
{
    char text[32];

    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, near);
        if (f(strtod(text, NULL)) == y)
            return strtod(text, NULL);
    }
    return near;
}

static double inverse(double x)
{
    return 1 / x;
}

static double inverse_root(double x)
{
    return 1 / sqrt(x);
}

/* Writes "3.0", since transformers does not accept 3 as a float. */
static void put_float(struct spot_jw *jw, const char *key, double x)
{
    char text[SPOT_NUM_TEXT + 2];

    spot_num_format(x, text);
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    spot_jw_raw(jw, key, text);
}

static void put_or_null(struct spot_jw *jw, const char *key, double x)
{
    if (x == 0)
        spot_jw_null(jw, key);
    else
        put_float(jw, key, x);
}

static double or_one(double x)
{
    return x == 0 ? 1 : x;
}

static const char *activation_of(const struct spot_shape *shape, bool is_conv)
{
    switch (shape->kind.activation) {
    case SPOT_SILU:
        return "silu";
    case SPOT_GELU_ERF:
        return "gelu";
    default:
        return is_conv ? "gelu_new" : "gelu_pytorch_tanh";
    }
}

/* --- GPT-2 --- */

static void put_conv(struct spot_jw *jw, const struct spot_shape *s)
{
    static const char *const no_dropout[] = { "resid_pdrop", "embd_pdrop", "attn_pdrop" };

    spot_jw_int(jw, "n_layer", s->n_layer);
    spot_jw_int(jw, "n_head", s->n_head);
    spot_jw_int(jw, "n_embd", s->width);
    spot_jw_int(jw, "n_positions", s->seq);
    if (s->ffn)
        spot_jw_int(jw, "n_inner", s->ffn);
    spot_jw_real(jw, "layer_norm_epsilon", spot_shape_norm_eps(s));
    spot_jw_str(jw, "activation_function", activation_of(s, true));
    for (size_t i = 0; i < sizeof(no_dropout) / sizeof(no_dropout[0]); i++)
        spot_jw_real(jw, no_dropout[i], 0);
}

/* --- all others --- */

/* A share x such that floor(d x) is n. */
static double share_of(int64_t n, int64_t d)
{
    double share = (double)n / (double)d;

    while ((int64_t)((double)d * share) < n)
        share = nextafter(share, 1);
    return share;
}

/* There are no positions beyond the original ones, so the long factors are not used. */
static void put_divisors(struct spot_jw *jw, const struct spot_shape *s)
{
    const size_t n = (size_t)spot_shape_rotary(s) / 2;

    spot_jw_reals(jw, "short_factor", s->kind.rope_divisor, n);
    spot_jw_reals(jw, "long_factor", s->kind.rope_divisor, n);
    spot_jw_int(jw, "original_max_position_embeddings", s->kind.rope_original);
}

static void put_scaling(struct spot_jw *jw, const struct spot_shape *s)
{
    const struct spot_decoder *const k = &s->kind;
    static const char *const name[] = { "default", "linear", "llama3", "yarn", "longrope" };
    const bool is_llama3 = k->rope_scaling == SPOT_ROPE_LLAMA3;

    assert(k->rope_scaling < (int64_t)(sizeof(name) / sizeof(name[0])));
    /* transformers before 5 has rope_scaling, later ones read it as well */
    spot_jw_object(jw, k->rope_scaling ? "rope_scaling" : "rope_parameters");
    spot_jw_str(jw, "rope_type", name[k->rope_scaling]);
    spot_jw_real(jw, "rope_theta", s->rope_theta);
    if (k->rotary_dim)
        put_float(jw, "partial_rotary_factor", share_of(k->rotary_dim, spot_shape_head_dim(s)));
    if (k->rope_scaling == SPOT_ROPE_LONG)
        put_divisors(jw, s);
    else if (k->rope_scaling)
        spot_jw_real(jw, "factor", k->rope_factor);
    if (k->rope_scaling == SPOT_ROPE_LLAMA3 || k->rope_scaling == SPOT_ROPE_YARN) {
        spot_jw_real(jw, is_llama3 ? "low_freq_factor" : "beta_slow", k->rope_low);
        spot_jw_real(jw, is_llama3 ? "high_freq_factor" : "beta_fast", k->rope_high);
        spot_jw_int(jw, "original_max_position_embeddings", k->rope_original);
    }
    if (k->rope_gain != 0)
        spot_jw_real(jw, "attention_factor", k->rope_gain);
    if (k->rope_is_whole)
        spot_jw_bool(jw, "truncate", false);
    spot_jw_end(jw);
}

static void put_rotary(struct spot_jw *jw, const struct spot_shape *s, unsigned reads)
{
    const struct spot_decoder *const k = &s->kind;

    spot_jw_real(jw, "rope_theta", s->rope_theta);
    if (k->rope_theta_local == 0 || k->rope_scaling)
        put_scaling(jw, s);
    if (reads & SPOT_HF_READS_CAPS && spot_hf_family_of(s)->kind.rope_theta_local != 0)
        spot_jw_real(jw, "rope_local_base_freq",
                     k->rope_theta_local != 0 ? k->rope_theta_local : s->rope_theta);
    if (reads & SPOT_HF_READS_ROTARY_PART)
        put_float(jw, "partial_rotary_factor",
                  k->rotary_dim ? share_of(k->rotary_dim, spot_shape_head_dim(s)) : 1);
    if (!(reads & SPOT_HF_READS_UNTURNED))
        return;
    spot_jw_array(jw, "no_rope_layers"); /* 1: positions are rotated */
    for (int64_t i = 0; i < s->n_layer; i++)
        spot_jw_int(jw, NULL, !spot_layer_in(&k->unturned, i));
    spot_jw_end(jw);
}

static void put_window(struct spot_jw *jw, const struct spot_shape *s, unsigned reads)
{
    const struct spot_decoder *const k = &s->kind;
    const bool has = k->local.period != 0;

    if (!(reads & SPOT_HF_READS_WINDOW))
        return;
    if (has)
        spot_jw_int(jw, "sliding_window", k->window);
    else
        spot_jw_null(jw, "sliding_window");
    if (reads & SPOT_HF_ASKS_WINDOW)
        spot_jw_bool(jw, "use_sliding_window", has);
    if (!(reads & SPOT_HF_ASKS_WINDOW) && !spot_hf_family_of(s)->local_period)
        return; /* of all layers */
    spot_jw_array(jw, "layer_types");
    for (int64_t i = 0; i < s->n_layer; i++)
        spot_jw_str(jw, NULL, spot_layer_in(&k->local, i) ? "sliding_attention" : "full_attention");
    spot_jw_end(jw);
}

static void put_scales(struct spot_jw *jw, const struct spot_shape *s, unsigned reads)
{
    const struct spot_decoder *const k = &s->kind;

    if (reads & SPOT_HF_READS_CAPS) {
        spot_jw_real(
            jw, "query_pre_attn_scalar",
            found(k->attention_scale, inverse_root, 1 / (k->attention_scale * k->attention_scale)));
        put_or_null(jw, "attn_logit_softcapping", k->attention_cap);
        put_or_null(jw, "final_logit_softcapping", k->logit_cap);
    }
    if (reads & SPOT_HF_READS_MULTIPLIERS) {
        put_float(jw, "embedding_multiplier", or_one(k->embed_scale));
        put_float(jw, "attention_multiplier", or_one(k->attention_scale));
        put_float(jw, "residual_multiplier", or_one(k->residual_scale));
        put_float(jw, "logits_scaling",
                  k->logit_scale == 0 ? 1 : found(k->logit_scale, inverse, 1 / k->logit_scale));
    }
}

static void put_linear(struct spot_jw *jw, const struct spot_shape *s, unsigned reads)
{
    spot_jw_int(jw, "num_hidden_layers", s->n_layer);
    spot_jw_int(jw, "num_attention_heads", s->n_head);
    spot_jw_int(jw, "num_key_value_heads", spot_shape_kv_heads(s));
    spot_jw_int(jw, "hidden_size", s->width);
    spot_jw_int(jw, "intermediate_size", spot_shape_ffn(s));
    spot_jw_int(jw, "max_position_embeddings", s->seq);
    if (reads & SPOT_HF_READS_HEAD_DIM)
        spot_jw_int(jw, "head_dim", spot_shape_head_dim(s));
    spot_jw_real(jw, "rms_norm_eps", spot_shape_norm_eps(s));
    spot_jw_str(jw, reads & SPOT_HF_READS_CAPS ? "hidden_activation" : "hidden_act",
                activation_of(s, false));
    if (reads & SPOT_HF_READS_ATTENTION_BIAS)
        spot_jw_bool(jw, "attention_bias", !(s->kind.bare & SPOT_BARE_PROJ));
    if (reads & SPOT_HF_READS_MLP_BIAS)
        spot_jw_bool(jw, "mlp_bias", !(s->kind.bare & SPOT_BARE_MLP));
    put_rotary(jw, s, reads);
    put_window(jw, s, reads);
    put_scales(jw, s, reads);
}

void spot_hf_config_put(struct spot_jw *jw, const struct spot_shape *shape)
{
    const struct spot_hf_family *const family = spot_hf_family_of(shape);

    assert(!shape->kind.n_expert);
    spot_jw_array(jw, "architectures");
    spot_jw_str(jw, NULL, family->architecture);
    spot_jw_end(jw);
    spot_jw_str(jw, "model_type", family->type);
    if (family->files & SPOT_HF_IS_CONV)
        put_conv(jw, shape);
    else
        put_linear(jw, shape, family->reads);
    spot_jw_int(jw, "vocab_size", shape->vocab);
    spot_jw_bool(jw, "tie_word_embeddings", shape->is_tied);
}

char *spot_hf_config_text(const struct spot_shape *shape)
{
    char *text = NULL;
    size_t n;
    FILE *const out = open_memstream(&text, &n);
    struct spot_jw jw;

    if (!out)
        return NULL;
    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_hf_config_put(&jw, shape);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL); /* cannot fail: finite numbers, in memory */
    fclose(out);
    text[n - 1] = '\0'; /* the end of the line */
    return text;
}

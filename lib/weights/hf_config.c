/* SPDX-License-Identifier: MIT */
#include "weights/hf_config_state.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "weights/hf_config.h"

#define AT(member) offsetof(struct spot_hf_values, member)

static const struct spot_field kind_field[] = {
    { "model_type", SPOT_F_STR, AT(kind), NULL, 0, 0, true },
    { 0 },
};

static const struct spot_field gpt2_field[] = {
    { "n_embd", SPOT_F_INT, AT(width), "1", 1, 1 << 16, true },
    { "n_layer", SPOT_F_INT, AT(n_layer), "1", 1, SPOT_LAYERS_MAX, true },
    { "n_head", SPOT_F_INT, AT(n_head), "1", 1, 1 << 10, true },
    { "vocab_size", SPOT_F_INT, AT(vocab), "1", 1, 1 << 20, true },
    { "n_positions", SPOT_F_INT, AT(seq), "1", 1, 1 << 30, false },
    { "n_inner", SPOT_F_INT, AT(ffn), "1", 1, 1 << 18, false },
    { "activation_function", SPOT_F_STR, AT(activation), NULL, 0, 0, false },
    { "layer_norm_epsilon", SPOT_F_REAL, AT(eps), "1", 1e-12, 1e-2, false },
    { "tie_word_embeddings", SPOT_F_BOOL, AT(is_tied), NULL, 0, 0, false },
    { "scale_attn_weights", SPOT_F_BOOL, AT(scales), NULL, 0, 0, false },
    { "add_cross_attention", SPOT_F_BOOL, AT(crosses), NULL, 0, 0, false },
    { "scale_attn_by_inverse_layer_idx", SPOT_F_BOOL, AT(scales_by_layer), NULL, 0, 0, false },
    { 0 },
};

static const struct spot_field common_field[] = {
    { "hidden_size", SPOT_F_INT, AT(width), "1", 1, 1 << 16, true },
    { "num_hidden_layers", SPOT_F_INT, AT(n_layer), "1", 1, SPOT_LAYERS_MAX, true },
    { "num_attention_heads", SPOT_F_INT, AT(n_head), "1", 1, 1 << 10, true },
    { "num_key_value_heads", SPOT_F_INT, AT(n_kv_head), "1", 1, 1 << 10, false },
    { "intermediate_size", SPOT_F_INT, AT(ffn), "1", 1, 1 << 18, true },
    { "vocab_size", SPOT_F_INT, AT(vocab), "1", 1, 1 << 20, true },
    { "max_position_embeddings", SPOT_F_INT, AT(seq), "1", 1, 1 << 30, false },
    { "hidden_act", SPOT_F_STR, AT(activation), NULL, 0, 0, false },
    { "rms_norm_eps", SPOT_F_REAL, AT(eps), "1", 1e-12, 1e-2, false },
    { "rope_theta", SPOT_F_REAL, AT(theta), "1", 1, 1e9, false },
    { "tie_word_embeddings", SPOT_F_BOOL, AT(is_tied), NULL, 0, 0, false },
    { 0 },
};

/* Tables of keys that a family reads or not. */
static const struct spot_field attention_bias_field[] = {
    { "attention_bias", SPOT_F_BOOL, AT(attention_bias), NULL, 0, 0, false },
    { 0 },
};
static const struct spot_field mlp_bias_field[] = {
    { "mlp_bias", SPOT_F_BOOL, AT(mlp_bias), NULL, 0, 0, false },
    { 0 },
};
static const struct spot_field head_dim_field[] = {
    { "head_dim", SPOT_F_INT, AT(head_dim), "1", 1, 1 << 12, false },
    { 0 },
};
static const struct spot_field rotary_field[] = {
    { "partial_rotary_factor", SPOT_F_REAL, AT(rotary_share), "1", 0, 1, false },
    { "original_max_position_embeddings", SPOT_F_INT, AT(original), "1", 1, 1 << 30, false },
    { 0 },
};
static const struct spot_field window_field[] = {
    { "sliding_window", SPOT_F_INT, AT(window), "1", 0, 1 << 30, false },
    { "use_sliding_window", SPOT_F_BOOL, AT(uses_window), NULL, 0, 0, false },
    { "max_window_layers", SPOT_F_INT, AT(window_layers), "1", 0, 1 << 30, false },
    { "sliding_window_pattern", SPOT_F_INT, AT(window_period), "1", 1, 64, false },
    { 0 },
};
static const struct spot_field unturned_field[] = {
    { "no_rope_layer_interval", SPOT_F_INT, AT(unturned_period), "1", 1, 64, false },
    { 0 },
};
static const struct spot_field caps_field[] = {
    { "hidden_activation", SPOT_F_STR, AT(gelu), NULL, 0, 0, false },
    { "query_pre_attn_scalar", SPOT_F_REAL, AT(query_scalar), "1", 1e-6, 1e9, false },
    { "attn_logit_softcapping", SPOT_F_REAL, AT(attention_cap), "1", 1e-6, 1e9, false },
    { "final_logit_softcapping", SPOT_F_REAL, AT(logit_cap), "1", 1e-6, 1e9, false },
    { "rope_local_base_freq", SPOT_F_REAL, AT(theta_local), "1", 1, 1e9, false },
    { "use_bidirectional_attention", SPOT_F_BOOL, AT(is_bidirectional), NULL, 0, 0, false },
    { 0 },
};
static const struct spot_field multiplier_field[] = {
    { "embedding_multiplier", SPOT_F_REAL, AT(embed), "1", 1e-9, 1e9, false },
    { "attention_multiplier", SPOT_F_REAL, AT(attention), "1", 1e-9, 1e9, false },
    { "residual_multiplier", SPOT_F_REAL, AT(residual), "1", 1e-9, 1e9, false },
    { "logits_scaling", SPOT_F_REAL, AT(logits), "1", 1e-9, 1e9, false },
    { 0 },
};
static const struct spot_field expert_field[] = {
    { "num_local_experts", SPOT_F_INT, AT(n_expert), "1", 1, 1024, false },
    { "num_experts", SPOT_F_INT, AT(n_experts), "1", 1, 1024, false },
    { "num_experts_per_tok", SPOT_F_INT, AT(n_chosen), "1", 1, 1024, false },
    { "moe_intermediate_size", SPOT_F_INT, AT(expert_ffn), "1", 1, 1 << 18, false },
    { "norm_topk_prob", SPOT_F_BOOL, AT(renorms), NULL, 0, 0, false },
    { 0 },
};
static const struct spot_field sparse_field[] = {
    { "decoder_sparse_step", SPOT_F_INT, AT(sparse_step), "1", 1, 1 << 20, false },
    { 0 },
};
static const struct spot_field shared_field[] = {
    { "shared_expert_intermediate_size", SPOT_F_INT, AT(shared_ffn), "1", 1, 1 << 18, false },
    { 0 },
};
static const struct spot_field qkv_bias_field[] = {
    { "qkv_bias", SPOT_F_BOOL, AT(qkv_bias), NULL, 0, 0, false },
    { 0 },
};

static const struct optional {
    unsigned when;
    const struct spot_field *field;
} optional[] = {
    { SPOT_HF_READS_ATTENTION_BIAS, attention_bias_field },
    { SPOT_HF_READS_MLP_BIAS, mlp_bias_field },
    { SPOT_HF_READS_HEAD_DIM, head_dim_field },
    { SPOT_HF_READS_ROTARY_PART, rotary_field },
    { SPOT_HF_READS_WINDOW, window_field },
    { SPOT_HF_READS_UNTURNED, unturned_field },
    { SPOT_HF_READS_CAPS, caps_field },
    { SPOT_HF_READS_MULTIPLIERS, multiplier_field },
    { SPOT_HF_READS_EXPERTS, expert_field },
    { SPOT_HF_READS_SPARSE, sparse_field },
    { SPOT_HF_READS_SHARED, shared_field },
    { SPOT_HF_READS_QKV_BIAS, qkv_bias_field },
};

int spot_hf_fail(const struct spot_hf_source *s, const char *key, struct spot_err *err,
                 const char *format, ...)
{
    char pointer[128], text[256];
    va_list args;

    snprintf(pointer, sizeof(pointer), "%s%s", s->at, key);
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return spot_json_fail(s->doc, pointer, err, "%s", text);
}

/* Checks that `part` divides `whole`. */
static int check_divides(const struct spot_hf_source *s, const char *key, int64_t part,
                         const char *what, int64_t whole, struct spot_err *err)
{
    if (whole % part == 0)
        return 0;
    return spot_hf_fail(s, key, err, "%lld does not divide the %s, %lld", (long long)part, what,
                        (long long)whole);
}

/* --- lists of layers ------------------------------------------------------------------ */

enum { LIST_MAX = SPOT_LAYERS_MAX };

/* A list with an entry per layer; `*list` NULL: absent. */
static int layer_list(const struct spot_hf_source *s, const char *key,
                      const struct spot_json_value **list, struct spot_err *err)
{
    if (spot_json_array(s->doc, s->root, s->at, key + 1, false, LIST_MAX, list, err))
        return -1;
    if (*list && (int64_t)spot_json_array_size(*list) != s->c.n_layer)
        return spot_hf_fail(s, key, err, "%zu entries for %lld layers", spot_json_array_size(*list),
                            (long long)s->c.n_layer);
    return 0;
}

static int take_set(const struct spot_hf_source *s, const char *key, const bool *is_in,
                    struct spot_layer_set *set, struct spot_err *err)
{
    if (!spot_layer_set_of(set, is_in, s->c.n_layer))
        return 0;
    return spot_hf_fail(s, key, err,
                        "layers that do not repeat after 64 or fewer are not supported");
}

/* The family's rule for local layers, for older files without a list. */
static bool is_local_by_rule(const struct spot_hf_source *s, int64_t layer)
{
    const int64_t period = s->c.window_period ? s->c.window_period : s->family->local_period;

    if (s->family->reads & SPOT_HF_ASKS_WINDOW)
        return period ? layer < s->c.window_layers && (layer + 1) % period != 0
                      : layer >= s->c.window_layers;
    return !period || (layer + 1) % period != 0;
}

static int read_local(const struct spot_hf_source *s, bool *is_local, struct spot_err *err)
{
    const struct spot_json_value *list;

    if (layer_list(s, "/layer_types", &list, err))
        return -1;
    for (int64_t i = 0; i < s->c.n_layer; i++) {
        const char *const type = list ? spot_json_text(spot_json_entry(list, (size_t)i)) : NULL;

        is_local[i] = list ? type && !strcmp(type, "sliding_attention") : is_local_by_rule(s, i);
        if (list && !is_local[i] && (!type || strcmp(type, "full_attention") != 0))
            return spot_hf_fail(
                s, "/layer_types", err,
                "layer %lld is '%.40s', expected full_attention or sliding_attention", (long long)i,
                type ? type : "?");
    }
    return 0;
}

static int read_window(const struct spot_hf_source *s, struct spot_decoder *kind,
                       struct spot_err *err)
{
    const bool is_off = (s->family->reads & SPOT_HF_ASKS_WINDOW) && !s->c.uses_window;
    bool *is_local;
    int rc;

    if (!(s->family->reads & SPOT_HF_READS_WINDOW) || is_off)
        return 0;
    if (!s->c.window && spot_json_get(s->root, "sliding_window"))
        return spot_hf_fail(s, "/sliding_window", err, "a window of 0 positions sees nothing");
    if (!s->c.window)
        return 0;
    if (s->family->reads & SPOT_HF_READS_UNTURNED && !spot_json_get(s->root, "layer_types"))
        return spot_hf_fail(s, "/use_sliding_window", err, "windows need layer_types");
    is_local = spot_xcalloc((size_t)s->c.n_layer, sizeof(*is_local));
    rc = read_local(s, is_local, err) || take_set(s, "/layer_types", is_local, &kind->local, err);
    free(is_local);
    if (!rc && kind->local.period)
        kind->window = s->c.window;
    return rc ? -1 : 0;
}

/* Reads no_rope_layers, in which 1 means that positions are rotated in that layer. */
static int read_unturned(const struct spot_hf_source *s, struct spot_decoder *kind,
                         struct spot_err *err)
{
    const struct spot_json_value *list;
    bool *is_in;
    int rc;

    if (!(s->family->reads & SPOT_HF_READS_UNTURNED))
        return 0;
    if (layer_list(s, "/no_rope_layers", &list, err))
        return -1;
    is_in = spot_xcalloc((size_t)s->c.n_layer, sizeof(*is_in));
    for (int64_t i = 0; i < s->c.n_layer; i++) {
        const struct spot_json_value *const entry = spot_json_entry(list, (size_t)i);

        is_in[i] = list ? spot_json_is_integer(entry) && !spot_json_integer(entry)
                        : (i + 1) % s->c.unturned_period == 0;
    }
    rc = take_set(s, "/no_rope_layers", is_in, &kind->unturned, err);
    free(is_in);
    return rc;
}

/* --- features ---------------------------------------------------------------------- */

static int read_activation(const struct spot_hf_source *s, struct spot_decoder *kind,
                           struct spot_err *err)
{
    static const struct {
        const char *name;
        int64_t is;
    } known[] = { { "silu", SPOT_SILU },
                  { "swish", SPOT_SILU },
                  { "gelu_new", SPOT_GELU_TANH },
                  { "gelu_pytorch_tanh", SPOT_GELU_TANH },
                  { "gelu", SPOT_GELU_ERF } };
    const char *const name = s->c.activation;
    const bool is_conv = s->family->files & SPOT_HF_IS_CONV;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(name, known[i].name) && (kind->is_gated || known[i].is != SPOT_SILU)) {
            kind->activation = known[i].is;
            return 0;
        }
    return spot_hf_fail(s,
                        is_conv                                 ? "/activation_function"
                        : s->family->reads & SPOT_HF_READS_CAPS ? "/hidden_activation"
                                                                : "/hidden_act",
                        err, "expected %sgelu_new, gelu_pytorch_tanh or gelu, got '%.40s'",
                        is_conv ? "" : "silu, ", name);
}

/* mlp_only_layers: numbers of layers. */
static int mark_dense(const struct spot_hf_source *s, bool *is_dense, struct spot_err *err)
{
    const struct spot_json_value *list;

    if (spot_json_array(s->doc, s->root, s->at, "mlp_only_layers", false, LIST_MAX, &list, err))
        return -1;
    for (size_t i = 0; list && i < spot_json_array_size(list); i++) {
        const struct spot_json_value *const entry = spot_json_entry(list, i);
        const int64_t layer = spot_json_integer(entry);

        if (!spot_json_is_integer(entry) || layer < 0 || layer >= s->c.n_layer)
            return spot_hf_fail(s, "/mlp_only_layers", err, "entry %zu: expected 0 to %lld", i,
                                (long long)s->c.n_layer - 1);
        is_dense[layer] = true;
    }
    return 0;
}

static int read_dense(const struct spot_hf_source *s, struct spot_decoder *kind,
                      struct spot_err *err)
{
    bool *is_dense;
    int rc;

    if (!(s->family->reads & SPOT_HF_READS_SPARSE))
        return 0;
    is_dense = spot_xcalloc((size_t)s->c.n_layer, sizeof(*is_dense));
    for (int64_t i = 0; i < s->c.n_layer; i++)
        is_dense[i] = (i + 1) % s->c.sparse_step != 0;
    rc =
        mark_dense(s, is_dense, err) || take_set(s, "/mlp_only_layers", is_dense, &kind->dense, err)
            ? -1
            : 0;
    free(is_dense);
    if (kind->dense.period)
        kind->dense_ffn = s->c.ffn;
    return rc;
}

static int read_experts(const struct spot_hf_source *s, struct spot_decoder *kind,
                        struct spot_err *err)
{
    if (!(s->family->reads & SPOT_HF_READS_EXPERTS))
        return 0;
    kind->n_expert = s->c.n_experts ? s->c.n_experts : s->c.n_expert;
    kind->n_chosen = s->c.n_chosen;
    if (kind->n_chosen > kind->n_expert)
        return spot_hf_fail(s, "/num_experts_per_tok", err, "%lld of %lld experts",
                            (long long)kind->n_chosen, (long long)kind->n_expert);
    kind->is_renormed = kind->is_renormed || s->c.renorms;
    kind->shared_ffn = s->c.shared_ffn;
    return read_dense(s, kind, err);
}

/* Checks settings for which this engine has a single implementation. */
static int check_neutral(const struct spot_hf_source *s, struct spot_err *err)
{
    if (spot_json_get(s->root, "quantization_config"))
        return spot_hf_fail(s, "/quantization_config", err,
                            "quantised weights are not supported: use the model in F32, F16 or "
                            "BF16, which can be quantised to 8 bits when it is loaded");
    if (s->family->reads & SPOT_HF_READS_CLIP && spot_json_get(s->root, "clip_qkv"))
        return spot_hf_fail(s, "/clip_qkv", err,
                            "clipping of queries, keys and values is not supported");
    if (s->c.scales_by_layer)
        return spot_hf_fail(s, "/scale_attn_by_inverse_layer_idx", err,
                            "attention scaled by layer is not supported");
    if (!s->c.scales)
        return spot_hf_fail(s, "/scale_attn_weights", err,
                            "attention that is not scaled is not supported");
    if (s->c.crosses)
        return spot_hf_fail(s, "/add_cross_attention", err,
                            "attention to another sequence is not supported");
    if (s->c.is_bidirectional)
        return spot_hf_fail(s, "/use_bidirectional_attention", err,
                            "attention to later positions is not supported");
    return 0;
}

static int read_fields(struct spot_hf_source *s, struct spot_err *err)
{
    const struct spot_hf_family *const f = s->family;
    const bool is_conv = f->files & SPOT_HF_IS_CONV;

    if (spot_json_read_fields(s->doc, s->root, s->at, is_conv ? gpt2_field : common_field, &s->c,
                              err))
        return -1;
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
        if (f->reads & optional[i].when &&
            spot_json_read_fields(s->doc, s->root, s->at, optional[i].field, &s->c, err))
            return -1;
    if (f->reads & SPOT_HF_READS_CAPS)
        s->c.activation = s->c.gelu;
    return 0;
}

/* True if the key is absent, so that its default applies. A null is not absent: it means "none". */
static bool is_absent(const struct spot_hf_source *s, const char *key)
{
    return !spot_json_get(s->root, key);
}

/* Sets the defaults of the family's class. */
static void set_defaults(struct spot_hf_source *s)
{
    const struct spot_hf_family *const f = s->family;

    s->c = (struct spot_hf_values){
        .activation = f->activation,
        .gelu = f->activation,
        .seq = f->seq,
        .n_kv_head = is_absent(s, "num_key_value_heads") ? f->n_kv_head : 0,
        .head_dim = is_absent(s, "head_dim") ? f->head_dim : 0,
        .window = is_absent(s, "sliding_window") ? f->window : 0,
        .window_layers = 28,
        .unturned_period = 4,
        .n_expert = f->n_expert,
        .n_chosen = f->n_chosen,
        .expert_ffn = f->expert_ffn,
        .shared_ffn = f->shared_ffn,
        .qkv_bias = !(f->kind.bare & SPOT_BARE_QKV),
        .sparse_step = 1,
        .eps = f->eps,
        .theta = f->theta,
        .theta_local = f->kind.rope_theta_local,
        .rotary_share = 1,
        .query_scalar = 256,
        .attention_cap = is_absent(s, "attn_logit_softcapping") ? f->kind.attention_cap : 0,
        .logit_cap = is_absent(s, "final_logit_softcapping") ? f->kind.logit_cap : 0,
        .scales = true,
        .is_tied = f->is_tied
    };
}

static int check_sizes(const struct spot_hf_source *s, struct spot_err *err)
{
    const struct spot_hf_values *const c = &s->c;

    if (s->family->files & SPOT_HF_IS_CONV)
        return check_divides(s, "/n_head", c->n_head, "width", c->width, err);
    if (!c->head_dim && check_divides(s, "/num_attention_heads", c->n_head, "width", c->width, err))
        return -1;
    return check_divides(s, "/num_key_value_heads", c->n_kv_head, "heads", c->n_head, err);
}

/* A multiplier of 1 counts as none (0). */
static double unless_one(double x)
{
    return x == 1 ? 0 : x;
}

static void take_scales(const struct spot_hf_source *s, struct spot_decoder *kind)
{
    const struct spot_hf_values *const c = &s->c;
    const unsigned reads = s->family->reads;

    if (reads & SPOT_HF_READS_CAPS) {
        kind->attention_scale = 1 / sqrt(c->query_scalar);
        kind->attention_cap = c->attention_cap;
        kind->logit_cap = c->logit_cap;
    }
    if (reads & SPOT_HF_SCALES_EMBEDDING)
        kind->embed_scale = sqrt((double)c->width);
    if (reads & SPOT_HF_READS_MULTIPLIERS) {
        kind->embed_scale = unless_one(c->embed);
        kind->residual_scale = unless_one(c->residual);
        kind->logit_scale = c->logits == 0 || c->logits == 1 ? 0 : 1 / c->logits;
        kind->attention_scale = c->attention != 0 ? c->attention : 1;
    }
}

static int take_rotary(struct spot_hf_source *s, struct spot_decoder *kind, struct spot_err *err)
{
    const int64_t d = s->c.head_dim ? s->c.head_dim : s->c.width / s->c.n_head;
    int64_t turned;

    if (kind->positions != SPOT_POSITIONS_ROTARY)
        return 0;
    if (spot_hf_read_rope(s, "/rope_scaling", kind, err) ||
        spot_hf_read_rope(s, "/rope_parameters", kind, err))
        return -1;
    turned = (int64_t)((double)d * s->c.rotary_share);
    if (s->c.rotary_share < 1 && (turned < 2 || turned % 2))
        return spot_hf_fail(s, "/partial_rotary_factor", err,
                            "%g of a head of %lld is not an even number", s->c.rotary_share,
                            (long long)d);
    if (s->c.rotary_share < 1)
        kind->rotary_dim = turned;
    kind->rope_theta_local =
        s->c.theta_local == s->c.theta && !kind->rope_scaling ? 0 : s->c.theta_local;
    return 0;
}

static int read_kind(struct spot_hf_source *s, struct spot_decoder *kind, struct spot_err *err)
{
    *kind = s->family->kind;
    kind->family = spot_hf_family_find(s->family->type);
    if (s->c.attention_bias)
        kind->bare &= ~(SPOT_BARE_QKV | SPOT_BARE_PROJ);
    if (s->c.mlp_bias)
        kind->bare &= ~SPOT_BARE_MLP;
    if (s->family->reads & SPOT_HF_READS_QKV_BIAS && !s->c.qkv_bias)
        kind->bare |= SPOT_BARE_QKV;
    take_scales(s, kind);
    return read_activation(s, kind, err) || check_neutral(s, err) || take_rotary(s, kind, err) ||
                   read_window(s, kind, err) || read_unturned(s, kind, err) ||
                   read_experts(s, kind, err)
               ? -1
               : 0;
}

static int find_family(struct spot_hf_source *s, struct spot_err *err)
{
    const char *const kind = s->c.kind;
    const struct spot_json_value *text;

    s->family = spot_hf_family(spot_hf_family_find(kind));
    if (!s->family)
        return spot_hf_fail(s, "/model_type", err, "'%.40s' is not supported: %s are", kind,
                            spot_hf_family_list());
    if (!(s->family->reads & SPOT_HF_READS_TEXT_CONFIG))
        return 0;
    if (spot_json_object(s->doc, s->root, "", "text_config", true, &text, err))
        return -1;
    s->root = spot_json_find(s->root, "text_config", strlen("text_config"));
    s->at = "/text_config";
    s->family = spot_hf_family(spot_hf_family_find("gemma3_text"));
    return 0;
}

int spot_hf_config_read(const struct spot_json_doc *doc, struct spot_shape *shape,
                        struct spot_err *err)
{
    struct spot_hf_source s = { .doc = doc, .root = doc->root, .at = "" };
    struct spot_hf_values *const c = &s.c;
    const struct spot_json_value *shards;
    struct spot_decoder kind;

    if (spot_json_read_fields(doc, doc->root, "", kind_field, c, err) || find_family(&s, err))
        return -1;
    set_defaults(&s);
    spot_json_drop_nulls(s.root);
    if (read_fields(&s, err))
        return -1;
    if (!c->n_kv_head)
        c->n_kv_head = c->n_head;
    if (check_sizes(&s, err) || read_kind(&s, &kind, err))
        return -1;
    *shape = (struct spot_shape){ .n_layer = c->n_layer,
                                  .width = c->width,
                                  .n_head = c->n_head,
                                  .seq = c->seq,
                                  .vocab = c->vocab,
                                  .kind = kind,
                                  .is_tied = c->is_tied,
                                  .norm_eps = c->eps };
    if (c->head_dim && c->head_dim * c->n_head != c->width)
        shape->head_dim = c->head_dim;
    shape->ffn = kind.n_expert && c->expert_ffn ? c->expert_ffn : c->ffn;
    if (kind.positions == SPOT_POSITIONS_ROTARY) {
        shape->n_kv_head = c->n_kv_head;
        shape->rope_theta = c->theta;
    } else if (shape->ffn == 4 * c->width) {
        shape->ffn = 0;
    }
    shards = spot_json_get(s.root, "spot_shards");
    if (spot_json_is_integer(shards))
        shape->n_shard = spot_json_integer(shards);
    return 0;
}

int spot_hf_config_parse(const char *text, const char *source, struct spot_shape *shape,
                         struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc;

    if (spot_json_parse(&doc, text, strlen(text), source, err))
        return -1;
    rc = spot_hf_config_read(&doc, shape, err);
    spot_json_release(&doc);
    return rc;
}

int64_t spot_hf_config_shards(const struct spot_shape *shape)
{
    struct spot_shape s = *shape;

    for (s.n_shard = 4; s.n_shard > 1 && spot_shape_check(&s, NULL);)
        s.n_shard--;
    return s.n_shard;
}

int spot_hf_config_load(const char *path, struct spot_shape *shape, struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc;

    if (spot_json_load_path(&doc, path, err))
        return -1;
    rc = spot_hf_config_read(&doc, shape, err);
    spot_json_release(&doc);
    return rc;
}

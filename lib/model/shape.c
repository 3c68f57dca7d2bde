/* SPDX-License-Identifier: MIT */
#include "model/shape.h"

#include <assert.h>
#include <string.h>

/* --- names ------------------------------------------------------------------ */

static const char *const arch_name[SPOT_ARCHES] = { "gpt2", "llama" };

const char *spot_arch_name(int64_t arch)
{
    assert(arch >= 0 && arch < SPOT_ARCHES);
    return arch_name[arch];
}

int spot_arch_find(const char *name)
{
    for (int i = 0; i < SPOT_ARCHES; i++)
        if (!strcmp(arch_name[i], name))
            return i;
    return -1;
}

static const char *const recompute_name[SPOT_RECOMPUTES] = { "none", "mlp", "layer" };

const char *spot_recompute_name(int recompute)
{
    assert(recompute >= 0 && recompute < SPOT_RECOMPUTES);
    return recompute_name[recompute];
}

int spot_recompute_find(const char *name)
{
    for (int i = 0; i < SPOT_RECOMPUTES; i++)
        if (!strcmp(recompute_name[i], name))
            return i;
    return -1;
}

/* --- what can be computed --------------------------------------------------- */

static int check_range(const char *name, int64_t value, int64_t max, struct spot_err *err)
{
    if (value < 1 || value > max)
        return spot_err_set(err, SPOT_EDATA, "model shape: %s is %lld, expected 1 to %lld", name,
                            (long long)value, (long long)max);
    return 0;
}

static int check_divides(const char *part, int64_t small, const char *whole, int64_t large,
                         struct spot_err *err)
{
    if (large % small)
        return spot_err_set(err, SPOT_EDATA, "model shape: %s (%lld) does not divide %s (%lld)",
                            part, (long long)small, whole, (long long)large);
    return 0;
}

static int check_llama(const struct spot_shape *s, struct spot_err *err)
{
    if (check_range("key and value heads", s->n_kv_head, 1 << 10, err) ||
        check_range("width of the MLP", s->ffn, 1 << 18, err) ||
        check_divides("key and value heads", s->n_kv_head, "heads", s->n_head, err) ||
        check_divides("shards", s->n_shard, "key and value heads", s->n_kv_head, err) ||
        check_divides("shards", s->n_shard, "width of the MLP", s->ffn, err))
        return -1;
    if (spot_shape_head_dim(s) % 2)
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: a head is %lld wide, rotary positions need an even width",
                            (long long)spot_shape_head_dim(s));
    if (!(s->rope_theta >= 1 && s->rope_theta <= 1e9))
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: the base of the rotary positions is %g, expected 1 to "
                            "1e9",
                            s->rope_theta);
    return 0;
}

static int check_arch(const struct spot_shape *s, struct spot_err *err)
{
    if (s->arch == SPOT_ARCH_LLAMA)
        return check_llama(s, err);
    if (s->arch != SPOT_ARCH_GPT2)
        return spot_err_set(err, SPOT_EDATA, "model shape: no architecture has number %lld",
                            (long long)s->arch);
    if (s->n_kv_head || s->ffn || s->rope_theta != 0)
        return spot_err_set(err, SPOT_EDATA, "model shape: what only a Llama has, for a GPT-2");
    return 0;
}

static int check_tied(const struct spot_shape *s, struct spot_err *err)
{
    if (s->is_tied == 0 || s->is_tied == 1)
        return 0;
    return spot_err_set(err, SPOT_EDATA, "model shape: tied is %lld, expected 0 or 1",
                        (long long)s->is_tied);
}

static int check_norm_eps(const struct spot_shape *s, struct spot_err *err)
{
    const double eps = spot_shape_norm_eps(s);

    if (eps >= 1e-12 && eps <= 1e-2)
        return 0;
    return spot_err_set(err, SPOT_EDATA,
                        "model shape: eps of the norms is %g, expected 1e-12 to 0.01", eps);
}

int spot_shape_check(const struct spot_shape *s, struct spot_err *err)
{
    const int64_t params_max = INT64_C(1) << 40;

    if (check_range("layers", s->n_layer, SPOT_LAYERS_MAX, err) ||
        check_range("width", s->width, 1 << 16, err) ||
        check_range("heads", s->n_head, 1 << 10, err) ||
        check_range("sequence", s->seq, 1 << 20, err) ||
        check_range("vocabulary", s->vocab, 1 << 20, err) ||
        check_range("shards", s->n_shard, 256, err) ||
        check_divides("heads", s->n_head, "width", s->width, err) ||
        check_divides("shards", s->n_shard, "heads", s->n_head, err) || check_arch(s, err) ||
        check_tied(s, err) || check_norm_eps(s, err))
        return -1;
    if (s->head_dim && s->head_dim != s->width / s->n_head)
        return spot_err_set(err, SPOT_EDATA, "model shape: %lld heads of %lld are not the width",
                            (long long)s->n_head, (long long)s->head_dim);
    if (spot_shape_params(s) > params_max)
        return spot_err_set(err, SPOT_EDATA, "model shape: %lld parameters, the limit is %lld",
                            (long long)spot_shape_params(s), (long long)params_max);
    return 0;
}

/* --- widths ----------------------------------------------------------------- */

static struct spot_layer_kind kind_of(const struct spot_shape *s)
{
    static const struct spot_layer_kind of[SPOT_ARCHES] = { { false, true, 4 },
                                                            { true, false, 2 } };

    return s->arch == SPOT_ARCH_TOLD ? s->kind : of[s->arch];
}

int spot_shape_bundles(const struct spot_shape *shape)
{
    return (int)shape->n_layer + 2;
}

int64_t spot_shape_vocab_rows(const struct spot_shape *shape)
{
    enum { LARGE = 1024, TILE = 128 }; /* what matrix units like; small models stay as they are */
    int64_t unit = shape->n_shard;

    while (shape->vocab >= LARGE && unit % TILE)
        unit += shape->n_shard;
    return (shape->vocab + unit - 1) / unit * unit;
}

int64_t spot_shape_kv_heads(const struct spot_shape *s)
{
    return s->arch == SPOT_ARCH_GPT2 ? s->n_head : s->n_kv_head;
}

int64_t spot_shape_head_dim(const struct spot_shape *s)
{
    return s->head_dim ? s->head_dim : s->width / s->n_head;
}

int64_t spot_shape_ffn(const struct spot_shape *s)
{
    return s->arch == SPOT_ARCH_GPT2 ? 4 * s->width : s->ffn;
}

double spot_shape_norm_eps(const struct spot_shape *shape)
{
    const double usual = 1e-5;

    return shape->norm_eps == 0 ? usual : shape->norm_eps;
}

/* H d, also where a GPT-2's heads are not told. */
static int64_t q_width(const struct spot_shape *s)
{
    return s->head_dim ? s->n_head * s->head_dim : s->width;
}

static int64_t kv_width(const struct spot_shape *s)
{
    const int64_t n = spot_shape_kv_heads(s);

    return n == s->n_head ? q_width(s) : n * spot_shape_head_dim(s);
}

int64_t spot_shape_qkv(const struct spot_shape *s)
{
    return q_width(s) + 2 * kv_width(s);
}

int64_t spot_shape_pre(const struct spot_shape *s)
{
    return spot_shape_ffn(s) * (kind_of(s).is_gated ? 2 : 1);
}

/* --- sizes ------------------------------------------------------------------ */

static int64_t layer_elem(const struct spot_shape *s, int group, int64_t *n_atom)
{
    const struct spot_layer_kind b = kind_of(s);
    const int64_t c = s->width;

    switch (group) {
    case SPOT_GROUP_Q: /* a row block of q, a column block of o, the bias of q */
        *n_atom = s->n_head;
        return q_width(s) * (2 * c + b.has_bias);
    case SPOT_GROUP_KV:
        *n_atom = spot_shape_kv_heads(s);
        return kv_width(s) * 2 * (c + b.has_bias);
    case SPOT_GROUP_FFN:
        *n_atom = spot_shape_ffn(s);
        return spot_shape_ffn(s) * c + spot_shape_pre(s) * (c + b.has_bias);
    case SPOT_GROUP_REPLICATED: /* norms, and the biases of o and down */
        return b.norm_elem * c + (b.has_bias ? 2 * c : 0);
    default:
        return 0;
    }
}

int64_t spot_shape_elem(const struct spot_shape *s, int64_t bundle, int group, int64_t *n_atom)
{
    const bool is_head = bundle == s->n_layer + 1;
    const int64_t pad = s->vocab_pad ? s->vocab_pad : 1;

    *n_atom = 1;
    if (bundle > 0 && !is_head)
        return layer_elem(s, group, n_atom);
    if (group == SPOT_GROUP_REPLICATED && is_head)
        return kind_of(s).norm_elem / 2 * s->width;
    if (group == SPOT_GROUP_REPLICATED) /* learnt positions */
        return s->arch == SPOT_ARCH_LLAMA ? 0 : s->seq * s->width;
    if (group != SPOT_GROUP_VOCAB || (is_head && s->is_tied))
        return 0;
    *n_atom = (s->vocab + pad - 1) / pad * pad;
    return *n_atom * s->width;
}

int64_t spot_shape_bundle_params(const struct spot_shape *shape, int64_t bundle)
{
    int64_t sum = 0, n_atom;

    for (int g = 0; g < SPOT_GROUPS; g++)
        sum += spot_shape_elem(shape, bundle, g, &n_atom);
    return sum;
}

int64_t spot_shape_params(const struct spot_shape *s)
{
    return spot_shape_bundle_params(s, 0) + s->n_layer * spot_shape_bundle_params(s, 1) +
           spot_shape_bundle_params(s, s->n_layer + 1);
}

int64_t spot_shape_cost(const struct spot_shape *s, int64_t bundle)
{
    if (bundle == 0)
        return s->width; /* look-ups and additions */
    if (bundle <= s->n_layer)
        return s->width *
               (spot_shape_qkv(s) + s->width + spot_shape_pre(s) + spot_shape_ffn(s) + s->seq);
    return s->width * s->vocab;
}

int64_t spot_shape_kv_byte(const struct spot_shape *shape, int64_t n_head, int64_t elem_byte)
{
    return 2 * n_head * spot_shape_head_dim(shape) * elem_byte;
}

double spot_shape_activation_byte(const struct spot_shape *s, int64_t bundle, int recompute,
                                  bool keeps_scores)
{
    const bool is_gated = kind_of(s).is_gated;
    const double c = (double)s->width, scores = (double)s->n_head * (double)s->seq;

    if (bundle == 0)
        return is_gated ? 0 : c;
    if (bundle > s->n_layer)
        return 4 * (c + (double)s->vocab);
    if (recompute == SPOT_RECOMPUTE_LAYER)
        return 2 * c;
    return (is_gated ? 12 * c + 4 * (double)kv_width(s) : 18 * c) +
           (recompute == SPOT_RECOMPUTE_NONE ? (is_gated ? 8 : 4) * (double)spot_shape_ffn(s) : 0) +
           (keeps_scores ? (is_gated ? 2 : 5) * scores : 0);
}

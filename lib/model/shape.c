/* SPDX-License-Identifier: MIT */
#include "model/shape.h"

#include <assert.h>
#include <string.h>

/* --- names ------------------------------------------------------------------ */

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

/* --- checks --------------------------------------------------- */

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

static int check_kind(const struct spot_shape *s, struct spot_err *err)
{
    if (spot_decoder_check(&s->kind, spot_shape_head_dim(s), s->n_shard, err))
        return -1;
    if (s->kind.positions == SPOT_POSITIONS_ROTARY ? !(s->rope_theta >= 1 && s->rope_theta <= 1e9)
                                                   : s->rope_theta != 0)
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: the base of the rotary positions is %g, expected 1 to "
                            "1e9, or 0 where positions are learnt",
                            s->rope_theta);
    return 0;
}

static int check_heads(const struct spot_shape *s, struct spot_err *err)
{
    if (s->head_dim && check_range("width of a head", s->head_dim, 1 << 12, err))
        return -1;
    if (!s->head_dim && check_divides("heads", s->n_head, "width", s->width, err))
        return -1;
    if ((s->n_kv_head && check_range("key and value heads", s->n_kv_head, 1 << 10, err)) ||
        (s->ffn && check_range("width of the MLP", s->ffn, 1 << 18, err)))
        return -1;
    return check_divides("key and value heads", spot_shape_kv_heads(s), "heads", s->n_head, err) ||
                   check_divides("shards", s->n_shard, "heads", s->n_head, err) ||
                   check_divides("shards", s->n_shard, "key and value heads",
                                 spot_shape_kv_heads(s), err) ||
                   check_divides("shards", s->n_shard, "width of the MLP", spot_shape_ffn(s), err)
               ? -1
               : 0;
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
        check_range("shards", s->n_shard, 256, err) || check_heads(s, err) || check_kind(s, err) ||
        check_tied(s, err) || check_norm_eps(s, err))
        return -1;
    if (spot_shape_params(s) > params_max)
        return spot_err_set(err, SPOT_EDATA, "model shape: %lld parameters, the limit is %lld",
                            (long long)spot_shape_params(s), (long long)params_max);
    return 0;
}

/* --- widths ----------------------------------------------------------------- */

/* Elements of the norms of a layer, in units of C; of one norm. */
static int64_t norm_elem(const struct spot_shape *s)
{
    const int64_t one = s->kind.norm == SPOT_NORM_LAYER ? 2 : 1;

    if (s->norm_elem)
        return s->norm_elem < 0 ? 0 : s->norm_elem;
    return one * (s->kind.norm_place == SPOT_NORM_AROUND ? 4 : 2);
}

static int64_t last_norm_elem(const struct spot_shape *s)
{
    return s->norm_elem ? norm_elem(s) / 2 : s->kind.norm == SPOT_NORM_LAYER ? 2 : 1;
}

static bool has_bias(const struct spot_shape *s, int64_t product)
{
    return !(s->kind.bare & product);
}

int spot_shape_bundles(const struct spot_shape *shape)
{
    return (int)shape->n_layer + 2;
}

int64_t spot_shape_vocab_rows(const struct spot_shape *shape)
{
    enum { LARGE = 1024, TILE = 128 }; /* sizes that suit matrix units; small models keep theirs */
    int64_t unit = shape->n_shard;

    while (shape->vocab >= LARGE && unit % TILE)
        unit += shape->n_shard;
    return (shape->vocab + unit - 1) / unit * unit;
}

int64_t spot_shape_kv_heads(const struct spot_shape *s)
{
    return s->n_kv_head ? s->n_kv_head : s->n_head;
}

int64_t spot_shape_head_dim(const struct spot_shape *s)
{
    return s->head_dim ? s->head_dim : s->width / s->n_head;
}

int64_t spot_shape_ffn(const struct spot_shape *s)
{
    return s->ffn ? s->ffn : 4 * s->width;
}

double spot_shape_norm_eps(const struct spot_shape *shape)
{
    const double usual = 1e-5;

    return shape->norm_eps == 0 ? usual : shape->norm_eps;
}

/* Also valid if the number of heads is not given. */
int64_t spot_shape_attended(const struct spot_shape *s)
{
    return s->head_dim ? s->n_head * s->head_dim : s->width;
}

int64_t spot_shape_rotary(const struct spot_shape *s)
{
    if (s->kind.positions != SPOT_POSITIONS_ROTARY)
        return 0;
    return s->kind.rotary_dim ? s->kind.rotary_dim : spot_shape_head_dim(s);
}

struct spot_mlps spot_shape_mlps(const struct spot_shape *s, int64_t layer)
{
    if (!s->kind.n_expert)
        return (struct spot_mlps){ 0, spot_shape_ffn(s), 0 };
    if (spot_layer_in(&s->kind.dense, layer))
        return (struct spot_mlps){ 0, s->kind.dense_ffn, 0 };
    return (struct spot_mlps){ s->kind.n_expert, spot_shape_ffn(s), s->kind.shared_ffn };
}

static int64_t kv_width(const struct spot_shape *s)
{
    const int64_t n = spot_shape_kv_heads(s);

    return n == s->n_head ? spot_shape_attended(s) : n * spot_shape_head_dim(s);
}

int64_t spot_shape_qkv(const struct spot_shape *s)
{
    return spot_shape_attended(s) + 2 * kv_width(s);
}

int64_t spot_shape_pre(const struct spot_shape *s)
{
    return spot_shape_ffn(s) * (s->kind.is_gated ? 2 : 1);
}

/* --- sizes ------------------------------------------------------------------ */

static int64_t qk_norm_elem(const struct spot_shape *s)
{
    return s->kind.qk_norm == SPOT_QK_PLAIN  ? 0
           : s->kind.qk_norm == SPOT_QK_HEAD ? 2 * spot_shape_head_dim(s)
                                             : spot_shape_attended(s) + kv_width(s);
}

static int64_t layer_elem(const struct spot_shape *s, int64_t layer, int group, int64_t *n_atom)
{
    const int64_t c = s->width, n_product = s->kind.is_gated ? 3 : 2;
    const struct spot_mlps m = spot_shape_mlps(s, layer);

    switch (group) {
    case SPOT_GROUP_Q: /* a row block of q, a column block of o, the bias of q */
        *n_atom = s->n_head;
        return spot_shape_attended(s) * (2 * c + has_bias(s, SPOT_BARE_QKV));
    case SPOT_GROUP_KV:
        *n_atom = spot_shape_kv_heads(s);
        return kv_width(s) * 2 * (c + has_bias(s, SPOT_BARE_QKV));
    case SPOT_GROUP_FFN:
        *n_atom = m.ffn;
        return ((m.n_expert ? m.n_expert : 1) * m.ffn + m.shared_ffn) * n_product * c +
               (n_product - 1) * m.ffn * has_bias(s, SPOT_BARE_MLP);
    case SPOT_GROUP_REPLICATED: /* norms, the router, and the biases of o and down */
        return norm_elem(s) * c + qk_norm_elem(s) + (m.n_expert + (m.shared_ffn > 0)) * c +
               (has_bias(s, SPOT_BARE_PROJ) + has_bias(s, SPOT_BARE_MLP)) * c;
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
        return layer_elem(s, bundle - 1, group, n_atom);
    if (group == SPOT_GROUP_REPLICATED && is_head)
        return last_norm_elem(s) * s->width;
    if (group == SPOT_GROUP_REPLICATED) /* learnt positions */
        return s->kind.positions == SPOT_POSITIONS_LEARNT ? s->seq * s->width : 0;
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
    int64_t sum = 0;

    for (int64_t b = 0; b < spot_shape_bundles(s); b++)
        sum += spot_shape_bundle_params(s, b);
    return sum;
}

int64_t spot_shape_cost(const struct spot_shape *s, int64_t bundle)
{
    if (bundle == 0)
        return s->width; /* look-ups and additions */
    if (bundle <= s->n_layer) {
        const struct spot_mlps m = spot_shape_mlps(s, bundle - 1);
        const int64_t ffn = (m.n_expert ? s->kind.n_chosen : 1) * m.ffn + m.shared_ffn;

        return s->width * (spot_shape_qkv(s) + spot_shape_attended(s) +
                           (s->kind.is_gated ? 3 : 2) * ffn + s->seq);
    }
    return s->width * s->vocab;
}

int64_t spot_shape_kv_byte(const struct spot_shape *shape, int64_t n_head, int64_t elem_byte)
{
    return 2 * n_head * spot_shape_head_dim(shape) * elem_byte;
}

double spot_shape_activation_byte(const struct spot_shape *s, int64_t bundle, int recompute,
                                  bool keeps_scores)
{
    const bool is_gated = s->kind.is_gated;
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

/* --- features that an engine may lack --- */

static const char *const feature_name[SPOT_FEATURES] = {
    "this mixture of norms, positions, biases and activation",
    "biases beside RMS norms",
    "norms after a half of a layer",
    "norms of queries and keys",
    "scaled rotary positions",
    "heads of which a part turns",
    "rotary positions that differ by layer",
    "sliding windows",
    "capped scores of attention",
    "a scale of attention of its own",
    "scaled embeddings",
    "scaled residuals",
    "scaled or capped logits",
    "mixtures of experts",
    "heads whose width is not the model's over their number",
};

/* True for layers of one of the two kinds that every engine supports. */
static bool is_plain(const struct spot_decoder *d)
{
    const bool is_llama = d->norm == SPOT_NORM_RMS && d->is_gated &&
                          d->positions == SPOT_POSITIONS_ROTARY && d->activation == SPOT_SILU;
    const bool is_gpt2 = d->norm == SPOT_NORM_LAYER && !d->bare && !d->is_gated &&
                         d->positions == SPOT_POSITIONS_LEARNT && d->activation == SPOT_GELU_TANH;

    return is_llama || is_gpt2;
}

uint64_t spot_shape_needs(const struct spot_shape *s)
{
    const struct spot_decoder *const d = &s->kind;
    const bool needs[SPOT_FEATURES] = {
        [SPOT_NEEDS_MIXED] = !is_plain(d),
        [SPOT_NEEDS_BIASES] = d->norm == SPOT_NORM_RMS && d->bare != SPOT_BARE_ALL,
        [SPOT_NEEDS_NORM_AFTER] = d->norm_place != SPOT_NORM_BEFORE,
        [SPOT_NEEDS_QK_NORM] = d->qk_norm != SPOT_QK_PLAIN,
        [SPOT_NEEDS_ROPE_SCALING] = d->rope_scaling != SPOT_ROPE_PLAIN,
        [SPOT_NEEDS_ROPE_PART] =
            spot_shape_rotary(s) && spot_shape_rotary(s) != spot_shape_head_dim(s),
        [SPOT_NEEDS_ROPE_BY_LAYER] = d->rope_theta_local != 0 || d->unturned.period != 0,
        [SPOT_NEEDS_WINDOW] = d->local.period != 0,
        [SPOT_NEEDS_ATTENTION_CAP] = d->attention_cap != 0,
        [SPOT_NEEDS_ATTENTION_SCALE] = d->attention_scale != 0,
        [SPOT_NEEDS_EMBED_SCALE] = d->embed_scale != 0,
        [SPOT_NEEDS_RESIDUAL_SCALE] = d->residual_scale != 0,
        [SPOT_NEEDS_LOGIT_SCALE] = d->logit_scale != 0 || d->logit_cap != 0,
        [SPOT_NEEDS_EXPERTS] = d->n_expert != 0,
        [SPOT_NEEDS_HEAD_DIM] = spot_shape_attended(s) != s->width,
    };
    uint64_t set = 0;

    for (int i = 0; i < SPOT_FEATURES; i++)
        set |= (uint64_t)needs[i] << i;
    return set;
}

int spot_shape_refuse(const struct spot_shape *s, uint64_t has, const char *who,
                      struct spot_err *err)
{
    const uint64_t lacks = spot_shape_needs(s) & ~has;

    for (int i = 0; i < SPOT_FEATURES; i++)
        if (lacks >> i & 1)
            return spot_err_set(err, SPOT_EDATA, "%s does not compute %s", who, feature_name[i]);
    return 0;
}

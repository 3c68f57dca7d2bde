/* SPDX-License-Identifier: MIT */
#include "model/decoder.h"

#include <stddef.h>
#include <string.h>

enum { PERIOD_MAX = 64 };

int spot_layer_set_of(struct spot_layer_set *set, const bool *is_in, int64_t n)
{
    bool is_any = false;

    *set = (struct spot_layer_set){ 0 };
    for (int64_t i = 0; i < n; i++)
        is_any = is_any || is_in[i];
    for (int64_t period = 1; is_any && period <= PERIOD_MAX; period++) {
        int64_t i = period;

        while (i < n && is_in[i] == is_in[i - period])
            i++;
        if (i < n)
            continue;
        set->period = period;
        for (i = 0; i < period && i < n; i++)
            set->mask |= (uint64_t)is_in[i] << i;
        return 0;
    }
    return is_any ? -1 : 0;
}

/* --- descriptions -------------------------------------------------- */

static const struct range {
    const char *what;
    size_t offset;
    int64_t most;
} ranges[] = {
    { "kind of norm", offsetof(struct spot_decoder, norm), SPOT_NORM_RMS },
    { "place of norms", offsetof(struct spot_decoder, norm_place), SPOT_NORM_AROUND },
    { "norm of queries and keys", offsetof(struct spot_decoder, qk_norm), SPOT_QK_WHOLE },
    { "set of products without bias", offsetof(struct spot_decoder, bare), SPOT_BARE_ALL },
    { "kind of positions", offsetof(struct spot_decoder, positions), SPOT_POSITIONS_ROTARY },
    { "activation", offsetof(struct spot_decoder, activation), SPOT_ACTIVATIONS - 1 },
    { "gate", offsetof(struct spot_decoder, is_gated), 1 },
    { "scaling of rotary positions", offsetof(struct spot_decoder, rope_scaling),
      SPOT_ROPE_SCALINGS - 1 },
    { "rounding of rotary positions", offsetof(struct spot_decoder, rope_is_whole), 1 },
    { "original positions", offsetof(struct spot_decoder, rope_original), 1 << 30 },
    { "window", offsetof(struct spot_decoder, window), 1 << 30 },
    { "experts", offsetof(struct spot_decoder, n_expert), 1024 },
    { "renormed weights of experts", offsetof(struct spot_decoder, is_renormed), 1 },
    { "width of a shared expert", offsetof(struct spot_decoder, shared_ffn), 1 << 18 },
    { "width of an MLP beside experts", offsetof(struct spot_decoder, dense_ffn), 1 << 18 },
    { "family", offsetof(struct spot_decoder, family), 255 },
};

static const struct factor {
    const char *what;
    size_t offset;
} factors[] = {
    { "factor of rotary positions", offsetof(struct spot_decoder, rope_factor) },
    { "low bound of rotary positions", offsetof(struct spot_decoder, rope_low) },
    { "high bound of rotary positions", offsetof(struct spot_decoder, rope_high) },
    { "gain of rotary positions", offsetof(struct spot_decoder, rope_gain) },
    { "base of local layers", offsetof(struct spot_decoder, rope_theta_local) },
    { "scale of attention", offsetof(struct spot_decoder, attention_scale) },
    { "cap of attention", offsetof(struct spot_decoder, attention_cap) },
    { "scale of embeddings", offsetof(struct spot_decoder, embed_scale) },
    { "scale of residuals", offsetof(struct spot_decoder, residual_scale) },
    { "scale of logits", offsetof(struct spot_decoder, logit_scale) },
    { "cap of logits", offsetof(struct spot_decoder, logit_cap) },
};

static int check_numbers(const struct spot_decoder *d, struct spot_err *err)
{
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        int64_t x;

        memcpy(&x, (const char *)d + ranges[i].offset, sizeof(x));
        if (x < 0 || x > ranges[i].most)
            return spot_err_set(err, SPOT_EDATA, "model shape: %s is %lld, expected 0 to %lld",
                                ranges[i].what, (long long)x, (long long)ranges[i].most);
    }
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        double x;

        memcpy(&x, (const char *)d + factors[i].offset, sizeof(x));
        if (!(x == 0 || (x >= 1e-9 && x <= 1e9)))
            return spot_err_set(err, SPOT_EDATA, "model shape: %s is %g, expected 1e-9 to 1e9",
                                factors[i].what, x);
    }
    return 0;
}

static int check_set(const char *what, const struct spot_layer_set *set, struct spot_err *err)
{
    if (set->period >= 0 && set->period <= PERIOD_MAX && (set->period || !set->mask))
        return 0;
    return spot_err_set(err, SPOT_EDATA,
                        "model shape: layers %s repeat after %lld, expected 0 to "
                        "%d",
                        what, (long long)set->period, PERIOD_MAX);
}

static int check_experts(const struct spot_decoder *d, int64_t n_shard, struct spot_err *err)
{
    const bool has_more = d->shared_ffn || d->dense.period || d->dense_ffn;

    if (!d->n_expert)
        return !has_more ? 0
                         : spot_err_set(err, SPOT_EDATA,
                                        "model shape: MLPs beside experts, without experts");
    if (d->n_chosen < 1 || d->n_chosen > d->n_expert || !d->is_gated || !(d->bare & SPOT_BARE_MLP))
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: %lld of %lld experts, gated and without biases, are "
                            "not computed",
                            (long long)d->n_chosen, (long long)d->n_expert);
    if (!d->dense.period != !d->dense_ffn || d->shared_ffn % n_shard || d->dense_ffn % n_shard)
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: %lld shards divide neither or one of the widths beside "
                            "experts, %lld and %lld",
                            (long long)n_shard, (long long)d->shared_ffn, (long long)d->dense_ffn);
    return 0;
}

static int check_divisors(const struct spot_decoder *d, int64_t n, struct spot_err *err)
{
    if (n > SPOT_ROPE_DIVISORS || d->rope_original < 2)
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: %lld pairs are divided by numbers of their own, expected "
                            "1 to %d, within %lld positions",
                            (long long)n, SPOT_ROPE_DIVISORS, (long long)d->rope_original);
    for (int64_t i = 0; i < n; i++)
        if (!(d->rope_divisor[i] >= 1e-6 && d->rope_divisor[i] <= 1e6))
            return spot_err_set(err, SPOT_EDATA,
                                "model shape: pair %lld is divided by %g, expected 1e-6 to 1e6",
                                (long long)i, d->rope_divisor[i]);
    return 0;
}

static int check_rotary(const struct spot_decoder *d, int64_t head_dim, struct spot_err *err)
{
    if (head_dim % 2)
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: a head is %lld wide, rotary positions need an even width",
                            (long long)head_dim);
    if (d->rotary_dim % 2 || d->rotary_dim < 0 || d->rotary_dim > head_dim)
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: %lld numbers of a head of %lld turn, expected an even "
                            "count of them",
                            (long long)d->rotary_dim, (long long)head_dim);
    if (d->rope_scaling && !(d->rope_factor >= 1 && d->rope_factor <= 1e6))
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: rotary positions are scaled by %g, expected 1 to 1e6",
                            d->rope_factor);
    if (d->rope_scaling == SPOT_ROPE_LONG)
        return check_divisors(d, (d->rotary_dim ? d->rotary_dim : head_dim) / 2, err);
    if (d->rope_scaling >= SPOT_ROPE_LLAMA3 &&
        (d->rope_original < 1 || !(d->rope_low > 0) || !(d->rope_high > d->rope_low)))
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: rotary positions are scaled between %g and %g of %lld "
                            "positions",
                            d->rope_low, d->rope_high, (long long)d->rope_original);
    return 0;
}

int spot_decoder_check(const struct spot_decoder *d, int64_t head_dim, int64_t n_shard,
                       struct spot_err *err)
{
    if (check_numbers(d, err) || check_set("without positions", &d->unturned, err) ||
        check_set("with a window", &d->local, err) || check_set("without experts", &d->dense, err))
        return -1;
    if (d->positions == SPOT_POSITIONS_ROTARY && check_rotary(d, head_dim, err))
        return -1;
    if (d->local.period && d->window < 1)
        return spot_err_set(err, SPOT_EDATA, "model shape: layers have a window of %lld positions",
                            (long long)d->window);
    if (d->norm == SPOT_NORM_LAYER && d->norm_place != SPOT_NORM_BEFORE)
        return spot_err_set(err, SPOT_EDATA,
                            "model shape: layer norms after a half of a layer are not computed");
    if (d->activation == SPOT_SILU && !d->is_gated)
        return spot_err_set(err, SPOT_EDATA, "model shape: SiLU without a gate is not computed");
    return check_experts(d, n_shard, err);
}

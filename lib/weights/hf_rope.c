/* SPDX-License-Identifier: MIT */
/* Reads the rotary positions of a config.json: rope_scaling of older files, rope_parameters of
 * newer ones. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "weights/hf_config_state.h"

struct rope {
    const char *type, *old_type;
    double theta, factor, low, high, fast, slow, gain, share;
    double mscale, mscale_all;
    int64_t original;
    bool truncate;
};
#define ROPE(member) offsetof(struct rope, member)

static const struct spot_field rope_field[] = {
    { "rope_type", SPOT_F_STR, ROPE(type), NULL, 0, 0, false },
    { "type", SPOT_F_STR, ROPE(old_type), NULL, 0, 0, false }, /* of older files */
    { "rope_theta", SPOT_F_REAL, ROPE(theta), "1", 1, 1e9, false },
    { "factor", SPOT_F_REAL, ROPE(factor), "1", 1, 1e6, false },
    { "low_freq_factor", SPOT_F_REAL, ROPE(low), "1", 1e-6, 1e6, false },
    { "high_freq_factor", SPOT_F_REAL, ROPE(high), "1", 1e-6, 1e6, false },
    { "beta_fast", SPOT_F_REAL, ROPE(fast), "1", 1e-6, 1e6, false },
    { "beta_slow", SPOT_F_REAL, ROPE(slow), "1", 1e-6, 1e6, false },
    { "attention_factor", SPOT_F_REAL, ROPE(gain), "1", 1e-6, 1e6, false },
    { "mscale", SPOT_F_REAL, ROPE(mscale), "1", 0, 1e6, false },
    { "mscale_all_dim", SPOT_F_REAL, ROPE(mscale_all), "1", 0, 1e6, false },
    { "partial_rotary_factor", SPOT_F_REAL, ROPE(share), "1", 0, 1, false },
    { "original_max_position_embeddings", SPOT_F_INT, ROPE(original), "1", 1, 1 << 30, false },
    { "truncate", SPOT_F_BOOL, ROPE(truncate), NULL, 0, 0, false },
    { 0 },
};

static const char *const scaling_name[SPOT_ROPE_SCALINGS] = { "default", "linear", "llama3", "yarn",
                                                              "longrope" };

static int find_scaling(const char *type)
{
    for (int i = 0; i < SPOT_ROPE_SCALINGS; i++)
        if (type && !strcmp(type, scaling_name[i]))
            return i;
    if (type && !strcmp(type, "su")) /* of older files */
        return SPOT_ROPE_LONG;
    return type ? -1 : SPOT_ROPE_PLAIN;
}

/* --- longrope ---------------------------------------------------------------------- */

/* Natural logarithm, x >= 1: the same bits everywhere, without libm. */
static double plain_log(double x)
{
    int exponent;
    const double m = frexp(x, &exponent), z = (m - 1) / (m + 1), z2 = z * z;
    double sum = 0;

    for (int i = 59; i >= 1; i -= 2) /* |z| <= 1/3 */
        sum = sum * z2 + 1.0 / i;
    return 2 * z * sum + exponent * 0.693147180559945309;
}

/* With longrope, a text within the original positions uses the short factors and a longer text the
 * long ones, from its first position on, so that tokens would depend on the later length of the
 * text. So the context is limited to the original positions. */
static int take_long(struct spot_hf_source *s, const char *key, const struct spot_json_value *rope,
                     const struct rope *r, struct spot_decoder *kind, struct spot_err *err)
{
    const struct spot_json_value *const divisor = spot_json_get(rope, "short_factor");
    const int64_t d = s->c.head_dim ? s->c.head_dim : s->c.width / s->c.n_head;
    const int64_t n = (int64_t)((double)d * s->c.rotary_share) / 2;
    const int64_t original = r->original ? r->original : s->c.original;
    const double factor = original ? (double)s->c.seq / (double)original : 0;

    if (original < 2)
        return spot_hf_fail(s, key, err, "longrope needs original_max_position_embeddings");
    if (n > SPOT_ROPE_DIVISORS || (int64_t)spot_json_array_size(divisor) != n)
        return spot_hf_fail(s, key, err,
                            "longrope has %zu short_factor, expected one for each of %lld pairs, "
                            "of at most %d",
                            spot_json_array_size(divisor), (long long)n, SPOT_ROPE_DIVISORS);
    for (int64_t i = 0; i < n; i++) {
        const struct spot_json_value *const x = spot_json_entry(divisor, (size_t)i);

        kind->rope_divisor[i] = spot_json_number(x);
        if (!spot_json_is_number(x) ||
            !(kind->rope_divisor[i] >= 1e-6 && kind->rope_divisor[i] <= 1e6))
            return spot_hf_fail(s, key, err, "short_factor %lld must be a number of 1e-6 to 1e6",
                                (long long)i);
    }
    kind->rope_factor = 1;
    kind->rope_original = original;
    kind->rope_gain = r->gain != 0 ? r->gain
                      : factor > 1 ? sqrt(1 + plain_log(factor) / plain_log((double)original))
                                   : 1;
    s->c.seq = s->c.seq < original ? s->c.seq : original;
    return 0;
}

static int take_rope(struct spot_hf_source *s, const char *key, const struct spot_json_value *rope,
                     const struct rope *r, struct spot_decoder *kind, struct spot_err *err)
{
    const char *const type = r->type ? r->type : r->old_type;
    const int scaling = type || r->factor == 0 ? find_scaling(type) : -1;

    if (scaling < 0)
        return spot_hf_fail(
            s, key, err,
            "rotary positions scaled as '%.40s' are not supported: default, linear, "
            "llama3, yarn and longrope are",
            type ? type : "?");
    kind->rope_scaling = scaling;
    if (scaling == SPOT_ROPE_PLAIN)
        return 0;
    if (scaling == SPOT_ROPE_LONG)
        return take_long(s, key, rope, r, kind, err);
    kind->rope_factor = r->factor;
    kind->rope_original = scaling == SPOT_ROPE_LINEAR ? 0 : r->original ? r->original : s->c.seq;
    kind->rope_low = scaling == SPOT_ROPE_LLAMA3 ? r->low : scaling == SPOT_ROPE_YARN ? r->slow : 0;
    kind->rope_high = scaling == SPOT_ROPE_LLAMA3 ? r->high
                      : scaling == SPOT_ROPE_YARN ? r->fast
                                                  : 0;
    kind->rope_gain = scaling == SPOT_ROPE_YARN ? r->gain : 0;
    kind->rope_is_whole = scaling == SPOT_ROPE_YARN && !r->truncate;
    if (scaling == SPOT_ROPE_YARN && (r->mscale != 0 || r->mscale_all != 0))
        return spot_hf_fail(s, key, err, "mscale and mscale_all_dim are not supported");
    if (r->factor == 0 ||
        (scaling == SPOT_ROPE_LLAMA3 && (r->low == 0 || r->high <= r->low || !r->original)))
        return spot_hf_fail(s, key, err, "expected factor%s",
                            scaling == SPOT_ROPE_LLAMA3
                                ? ", low_freq_factor below high_freq_factor, and "
                                  "original_max_position_embeddings"
                                : "");
    return 0;
}

static int read_rope_at(struct spot_hf_source *s, const char *key,
                        const struct spot_json_value *object, struct rope *r, struct spot_err *err)
{
    char pointer[128];

    *r = (struct rope){ .fast = 32, .slow = 1, .truncate = true, .share = -1 };
    snprintf(pointer, sizeof(pointer), "%s%s", s->at, key);
    return spot_json_read_fields(s->doc, object, pointer, rope_field, r, err);
}

/* Positions for one kind of layers, as in newer files. */
static int read_rope_of_kind(struct spot_hf_source *s, const struct spot_json_value *ropes,
                             struct spot_decoder *kind, struct spot_err *err)
{
    static const char *const key[] = { "full_attention", "sliding_attention" };

    for (int i = 0; i < 2; i++) {
        const struct spot_json_value *const one = spot_json_get(ropes, key[i]);
        char at[64];
        struct rope r;

        snprintf(at, sizeof(at), "/rope_parameters/%s", key[i]);
        if (!spot_json_is_object(one))
            return spot_hf_fail(s, "/rope_parameters", err, "expected an object %s", key[i]);
        if (read_rope_at(s, at, one, &r, err))
            return -1;
        if (i == 0) {
            s->c.theta = r.theta != 0 ? r.theta : s->c.theta;
            if (take_rope(s, at, one, &r, kind, err))
                return -1;
        } else {
            s->c.theta_local = r.theta != 0 ? r.theta : s->c.theta_local;
            if (find_scaling(r.type) != SPOT_ROPE_PLAIN)
                return spot_hf_fail(s, at, err,
                                    "scaled positions of these layers are not supported");
        }
    }
    return 0;
}

int spot_hf_read_rope(struct spot_hf_source *s, const char *key, struct spot_decoder *kind,
                      struct spot_err *err)
{
    const struct spot_json_value *rope;
    struct rope r;

    if (spot_json_object(s->doc, s->root, s->at, key + 1, false, &rope, err))
        return -1;
    if (!rope)
        return 0;
    if (spot_json_get(rope, "full_attention"))
        return read_rope_of_kind(s, rope, kind, err);
    if (read_rope_at(s, key, rope, &r, err))
        return -1;
    s->c.theta = r.theta != 0 ? r.theta : s->c.theta;
    if (r.share >= 0 && s->family->reads & SPOT_HF_READS_ROTARY_PART)
        s->c.rotary_share = r.share;
    return take_rope(s, key, rope, &r, kind, err);
}

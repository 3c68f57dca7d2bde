/* SPDX-License-Identifier: MIT */
#include "engine/exact.h"

#include <math.h>

enum {
    HEADROOM_BITS = 10,   /* a gradient may grow by this much in a step without a redo */
    BACK_OFF_BITS = 12,   /* bits by which an exponent is lowered to redo a step */
    EXPONENT_LIMIT = 200, /* 2^-200 is far below the least float */
};

int spot_exact_limit_bits(int n_microbatch, bool is_tied)
{
    int bits = 0;

    while ((INT64_C(1) << bits) < n_microbatch)
        bits++;
    bits += is_tied;
    return 62 - bits < 51 ? 62 - bits : 51;
}

static int32_t clamp_exponent(int exponent)
{
    return exponent < -EXPONENT_LIMIT  ? -EXPONENT_LIMIT
           : exponent > EXPONENT_LIMIT ? EXPONENT_LIMIT
                                       : exponent;
}

/* Places the largest sum of this step HEADROOM_BITS below the limit of one microbatch. */
int32_t spot_exact_next(int32_t exponent, int limit_bits, double top)
{
    int bits;

    if (top == 0)
        return exponent;
    frexp(top, &bits);
    return clamp_exponent(exponent + limit_bits - HEADROOM_BITS - bits);
}

void spot_exact_back_off(struct spot_bundle *bundle, uint32_t overflow)
{
    for (int t = 0; t < bundle->arena.n_tensor; t++)
        if (overflow >> t & 1)
            bundle->exponent[t] = clamp_exponent(bundle->exponent[t] - BACK_OFF_BITS);
}

double spot_exact_unit(const struct spot_bundle *bundle, int tensor, int n_microbatch, double scale)
{
    return ldexp(1, -bundle->exponent[tensor]) / n_microbatch * scale;
}

/* x^n by repeated squaring, since pow() differs between libraries. */
static double power(double x, int64_t n)
{
    double y = 1;

    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            y *= x;
    return y;
}

struct spot_adamw_step spot_exact_adamw(const struct spot_bundle *bundle, int tensor,
                                        int n_microbatch, const struct spot_adamw *a, double scale)
{
    return (struct spot_adamw_step){
        .unit = spot_exact_unit(bundle, tensor, n_microbatch, scale),
        .lr = (float)a->lr,
        .beta1 = (float)a->beta1,
        .beta2 = (float)a->beta2,
        .eps = (float)a->eps,
        .rest1 = (float)(1 - a->beta1),
        .rest2 = (float)(1 - a->beta2),
        .m_correction = (float)(1 / (1 - power(a->beta1, bundle->step + 1))),
        .v_correction = (float)(1 / (1 - power(a->beta2, bundle->step + 1))),
        .weight_decay = bundle->arena.tensor[tensor].is_decayed ? (float)a->weight_decay : 0.0F
    };
}

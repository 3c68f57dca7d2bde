/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "engine/cpu/infer_kernel.h"
#include "suite.h"

/* Goal: in bf16 every kernel rounds inputs as arithmetic says, and every output is one chain of
 * fmaf over ascending inputs, whether weights come from memory or in parts, for any number of
 * tokens and inputs, with small, cancelling and absent numbers. */

enum { K_MAX = 260, K_ROOM = K_MAX + 1, STRIDE = 320 };

static const char *const names[] = { "portable", "avx2", "avx512", "avx512bf16" };

struct draw {
    int64_t k;
    int n_token;
    uint16_t w[K_ROOM * SPOT_PANEL]; /* the row behind the last is no number */
    float x[SPOT_TILE * STRIDE];     /* so is what lies behind a token's inputs */
    float rounded[SPOT_TILE * STRIDE], want[SPOT_TILE * SPOT_PANEL];
};

/* To 8 binary digits, nearest and then even, by arithmetic; below 2^-56 it is 0. */
static float to_bf16(float x)
{
    int e;

    if (fabsf(x) < 0x1p-56F)
        return 0;
    frexpf(x, &e);
    return ldexpf(nearbyintf(ldexpf(x, 8 - e)), e - 8);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* Of either sign, 2^-10 to 2, and some of 2^-70 to 1, halfway between two of bf16, or 0. */
static float number(struct spot_rng *rng)
{
    const bool is_wide = !spot_rng_below(rng, 4);
    const int e = is_wide ? -(int)spot_rng_below(rng, 70) : -(int)spot_rng_below(rng, 10);
    const float sign = spot_rng_below(rng, 2) ? 1 : -1;

    switch (spot_rng_below(rng, 12)) {
    case 0:
        return 0;
    case 1:
        return sign * ldexpf((float)(2 * spot_rng_below(rng, 256) + 1) / 256, e);
    default:
        return sign * ldexpf(1 + (float)spot_rng_unit(rng), e);
    }
}

static void draw(struct draw *d, uint64_t seed)
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    d->n_token = 1 + (int)(seed % SPOT_TILE);
    d->k = 1 + (int64_t)spot_rng_below(&rng, seed % 3 ? 40 : K_MAX);
    memset(d->w, 0xff, sizeof(d->w));
    memset(d->x, 0xff, sizeof(d->x));
    for (int64_t i = 0; i < d->k * SPOT_PANEL; i++)
        d->w[i] = (uint16_t)(bits_of(to_bf16(number(&rng))) >> 16);
    for (int t = 0; t < d->n_token; t++)
        for (int64_t k = 0; k < d->k; k++)
            d->x[t * STRIDE + k] = number(&rng);
    if (d->k > 2) { /* what two sums cancel */
        memcpy(d->w + SPOT_PANEL, d->w, SPOT_PANEL * sizeof(*d->w));
        for (int t = 0; t < d->n_token; t++)
            d->x[t * STRIDE + 1] = -d->x[t * STRIDE];
    }
    for (int t = 0; t < d->n_token; t++)
        for (int i = 0; i < SPOT_PANEL; i++) {
            float sum = 0;

            for (int64_t k = 0; k < d->k; k++) {
                const uint32_t bits = (uint32_t)d->w[k * SPOT_PANEL + i] << 16;
                float w;

                memcpy(&w, &bits, sizeof(w));
                d->rounded[t * STRIDE + k] = to_bf16(d->x[t * STRIDE + k]);
                sum = fmaf(w, d->rounded[t * STRIDE + k], sum);
            }
            d->want[t * SPOT_PANEL + i] = sum;
        }
}

static void check_rounded(const struct spot_infer_kernel *kernel, const struct draw *d, int t,
                          const float *x)
{
    const float *const want = d->rounded + t * STRIDE;

    for (int64_t k = 0; k < d->k; k++) {
        const uint32_t got = bits_of(x[kernel->is_paired ? k / 2 : k]);
        const uint32_t one = kernel->is_paired && k % 2 ? got << 16 : got & 0xffff0000;

        ck_assert_msg(one == bits_of(want[k]), "%s: input %lld of %lld: %08x, not %08x",
                      kernel->name, (long long)k, (long long)d->k, one, bits_of(want[k]));
    }
    ck_assert_mem_eq(x + d->k, d->x + t * STRIDE + d->k, (size_t)(STRIDE - d->k) * sizeof(float));
}

static void check_sums(const struct spot_infer_kernel *kernel, const struct draw *d,
                       const char *how, const float *got)
{
    for (int i = 0; i < d->n_token * SPOT_PANEL; i++)
        ck_assert_msg(bits_of(got[i]) == bits_of(d->want[i]),
                      "%s, %s: %d tokens, %lld inputs: sum %d is %a, not %a", kernel->name, how,
                      d->n_token, (long long)d->k, i, (double)got[i], (double)d->want[i]);
}

/* In two parts. */
static void run_parts(const struct spot_infer_kernel *kernel, const struct draw *d, const float *x,
                      float *c)
{
    static _Alignas(64) float laid[K_ROOM * SPOT_PANEL];
    const int64_t pair = kernel->is_paired ? 2 : 1, cut = d->k / 4 * 2;
    const int64_t begin[] = { 0, cut, d->k };
    float packed[SPOT_TILE * STRIDE];

    for (int p = cut ? 0 : 1; p < 2; p++) {
        const int64_t k = begin[p], n_k = begin[p + 1] - k;

        for (int64_t i = 0; i < (n_k + pair - 1) / pair; i++)
            for (int t = 0; t < d->n_token; t++)
                packed[i * d->n_token + t] = x[t * STRIDE + k / pair + i];
        kernel->lay(laid, d->w + k * SPOT_PANEL, n_k);
        kernel->bf16_part(c, SPOT_PANEL, laid, packed, d->n_token, n_k, k > 0, laid, 1 + p);
    }
}

START_TEST(sums_in_bf16_are_chains_of_rounded_inputs)
{
    const struct spot_infer_kernel *const kernel = spot_infer_kernel_find(names[_i]);
    static struct draw d;
    float c[SPOT_TILE * SPOT_PANEL];

    for (uint64_t seed = 0; kernel && seed < 300; seed++) {
        float x[SPOT_TILE * STRIDE];

        draw(&d, seed);
        memcpy(x, d.x, sizeof(x));
        for (int t = 0; t < d.n_token; t++) {
            kernel->round(x + t * STRIDE, d.k);
            check_rounded(kernel, &d, t, x + t * STRIDE);
        }
        kernel->bf16(c, SPOT_PANEL, d.w, x, STRIDE, d.n_token, d.k);
        check_sums(kernel, &d, "from memory", c);
        run_parts(kernel, &d, x, c);
        check_sums(kernel, &d, "in parts", c);
    }
}
END_TEST

/* A processor with the instruction adds as its manual says, or could not compute beside others. */
START_TEST(pairs_are_added_in_turn_where_there_is_an_instruction)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16") && spot_infer_kernel_find("avx512"))
        ck_assert_ptr_nonnull(spot_infer_kernel_find("avx512bf16"));
#endif
    ck_assert_ptr_nonnull(spot_infer_kernel_find(NULL));
    ck_assert_ptr_null(spot_infer_kernel_find("none"));
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("infer_kernel");

    tcase_add_loop_test(tc, sums_in_bf16_are_chains_of_rounded_inputs, 0,
                        sizeof(names) / sizeof(names[0]));
    tcase_add_test(tc, pairs_are_added_in_turn_where_there_is_an_instruction);
    return run_suite("infer_kernel", tc);
}

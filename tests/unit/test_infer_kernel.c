/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "common/rng.h"
#include "common/simd.h"
#include "engine/cpu/infer_kernel.h"
#include "engine/cpu/kernel_cpu.h"
#include "suite.h"

/* Goal: in bf16 every kernel rounds inputs as arithmetic says, and every output is one chain of
 * fmaf over ascending inputs, whether weights come from memory or in parts, for any number of
 * tokens and inputs, with small, cancelling and absent numbers. In 8 bits
 * the sums of blocks are exact. */

enum { K_MAX = 260, K_ROOM = K_MAX + 1, STRIDE = 320 };

static const char *const names[] = { "portable", "avx2",    "avxvnni",  "avx512", "avx512bf16",
                                     "neon",     "neondot", "neoni8mm", "sve256" };

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

/* Lays weights as the first tile does; its sums are those of the next tiles of equal inputs. */
static void check_first(const struct spot_infer_kernel *kernel, const struct draw *d, float *laid,
                        const uint16_t *w, const float *packed, const float *c, int64_t n_k,
                        bool is_more)
{
    float first[SPOT_TILE * SPOT_PANEL], next[SPOT_TILE * SPOT_PANEL];

    memcpy(first, c, sizeof(first));
    memcpy(next, c, sizeof(next));
    kernel->bf16_first(first, SPOT_PANEL, laid, w, packed, d->n_token, n_k, is_more, laid);
    kernel->bf16_part(next, SPOT_PANEL, laid, packed, d->n_token, n_k, is_more, laid, 1);
    ck_assert_mem_eq(first, next, (size_t)(d->n_token * SPOT_PANEL) * sizeof(float));
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
        if (kernel->lay)
            kernel->lay(laid, d->w + k * SPOT_PANEL, n_k);
        else
            check_first(kernel, d, laid, d->w + k * SPOT_PANEL, packed, c, n_k, k > 0);
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

/* --- 8 bits --- */

enum { BLOCKS = 9, Q8_ROW = BLOCKS + 2 }; /* b_row is more than there are blocks */

struct draw_q8 {
    uint8_t w[BLOCKS * SPOT_Q8_BLOCK_BYTE];
    int8_t x[SPOT_TILE * Q8_ROW * SPOT_Q8_BLOCK];
    float scale[SPOT_TILE * Q8_ROW];
    int32_t minus[SPOT_TILE * Q8_ROW];
};

/* Any byte, the ends of the range often: their products in pairs do not fit in 16 bits. */
static int byte_of(struct spot_rng *rng, int least, int most)
{
    switch (spot_rng_below(rng, 4)) {
    case 0:
        return least;
    case 1:
        return most;
    default:
        return least + (int)spot_rng_below(rng, (uint64_t)(most - least + 1));
    }
}

static void draw_q8(struct draw_q8 *d, struct spot_rng *rng)
{
    for (int b = 0; b < BLOCKS; b++) {
        uint8_t *const block = d->w + b * SPOT_Q8_BLOCK_BYTE;

        for (int i = 0; i < SPOT_PANEL; i++) {
            const uint16_t scale = (uint16_t)(bits_of(number(rng)) >> 16);

            memcpy(block + 2 * i, &scale, sizeof(scale));
        }
        for (int i = SPOT_Q8_SCALE; i < SPOT_Q8_BLOCK_BYTE; i++)
            block[i] = (uint8_t)byte_of(rng, 0, 255);
    }
    for (int at = 0; at < SPOT_TILE * Q8_ROW; at++) {
        d->minus[at] = 0;
        d->scale[at] = number(rng);
        for (int i = 0; i < SPOT_Q8_BLOCK; i++) {
            d->x[at * SPOT_Q8_BLOCK + i] = (int8_t)byte_of(rng, -127, 127);
            d->minus[at] -= 128 * d->x[at * SPOT_Q8_BLOCK + i];
        }
    }
}

/* Output i of token t over blocks [0, n) by 64-bit integers and fmaf. */
static float sum_q8(const struct draw_q8 *d, int t, int i, int n)
{
    float sum = 0;

    for (int b = 0; b < n; b++) {
        const uint8_t *const block = d->w + b * SPOT_Q8_BLOCK_BYTE;
        const int at = t * Q8_ROW + b;
        uint32_t bits = 0;
        int64_t dot = 0;
        float scale;

        memcpy(&bits, block + 2 * i, 2);
        bits <<= 16;
        memcpy(&scale, &bits, sizeof(scale));
        for (int k = 0; k < SPOT_Q8_BLOCK; k++)
            dot += (block[SPOT_Q8_SCALE + (k / 4 * SPOT_PANEL + i) * 4 + k % 4] - 128) *
                   d->x[at * SPOT_Q8_BLOCK + k];
        sum = fmaf((float)dot, scale * d->scale[at], sum);
    }
    return sum;
}

START_TEST(sums_in_8_bits_are_chains_of_exact_blocks)
{
    const struct spot_infer_kernel *const kernel = spot_infer_kernel_find(names[_i]);
    static struct draw_q8 d;
    struct spot_rng rng;

    spot_rng_init(&rng, 7, 0);
    for (int round = 0; kernel && round < 60; round++) {
        const int n_token = 1 + round % SPOT_TILE, n = 1 + (int)spot_rng_below(&rng, BLOCKS);
        const int cut = (int)spot_rng_below(&rng, (uint64_t)n); /* in two calls, if not 0 */
        const struct spot_q8 x = { d.x, d.scale, d.minus };
        const struct spot_q8 rest = { d.x + cut * SPOT_Q8_BLOCK, d.scale + cut, d.minus + cut };
        float c[SPOT_TILE * SPOT_PANEL];

        draw_q8(&d, &rng);
        if (cut)
            kernel->q8(c, SPOT_PANEL, d.w, &x, Q8_ROW, n_token, cut, false, d.w, 1);
        kernel->q8(c, SPOT_PANEL, d.w + cut * SPOT_Q8_BLOCK_BYTE, &rest, Q8_ROW, n_token, n - cut,
                   cut > 0, d.w, 2);
        for (int t = 0; t < n_token; t++)
            for (int i = 0; i < SPOT_PANEL; i++)
                ck_assert_msg(bits_of(c[t * SPOT_PANEL + i]) == bits_of(sum_q8(&d, t, i, n)),
                              "%s: %d tokens, %d blocks, token %d, sum %d", kernel->name, n_token,
                              n, t, i);
    }
}
END_TEST

START_TEST(inputs_in_8_bits_are_rounded_alike)
{
    const struct spot_infer_kernel *const kernel = spot_infer_kernel_find(names[_i]);
    struct spot_rng rng;

    spot_rng_init(&rng, 8, 0);
    for (int round = 0; kernel && round < 2000; round++) {
        const int n = 1 + (int)spot_rng_below(&rng, SPOT_Q8_BLOCK);
        int8_t got[2 * SPOT_Q8_BLOCK];
        float x[SPOT_Q8_BLOCK], scale[2], most = 0;
        int32_t minus[2], sum = 0;
        const struct spot_q8 q = { got, scale, minus };

        memset(x, 0xff, sizeof(x)); /* what lies behind the inputs is no number */
        for (int i = 0; i < n; i++) {
            x[i] = round % 50 ? number(&rng) : 0;
            most = fmaxf(most, fabsf(x[i]));
        }
        kernel->quantise(&q, 1, x, n);
        ck_assert_uint_eq(bits_of(scale[1]), bits_of(most / 127));
        for (int i = 0; i < SPOT_Q8_BLOCK; i++) {
            const float want = i < n && most > 0 ? rintf(x[i] * (127 / most)) : 0;

            ck_assert_int_eq(got[SPOT_Q8_BLOCK + i], (int)want);
            sum += (int)want;
        }
        ck_assert_int_eq(minus[1], -128 * sum);
    }
}
END_TEST

/* A processor with the instruction adds as its manual says, or could not compute beside others. */
START_TEST(pairs_are_added_in_turn_where_there_is_an_instruction)
{
#if defined(__x86_64__)
    if (spot_simd_has(SPOT_SIMD_AVX512BF16) && spot_infer_kernel_find("avx512"))
        ck_assert_ptr_nonnull(spot_infer_kernel_find("avx512bf16"));
#endif
    ck_assert_ptr_nonnull(spot_infer_kernel_find(NULL));
    ck_assert_ptr_null(spot_infer_kernel_find("none"));
}
END_TEST

#ifdef __aarch64__
/* The instruction tells the width. */
START_TEST(sve256_runs_where_vectors_have_256_bits)
{
    uint64_t n_byte = 0;

    if (getauxval(AT_HWCAP) & HWCAP_SVE)
        __asm__(".arch_extension sve\n\trdvl %0, #1" : "=r"(n_byte));
    ck_assert_int_eq(spot_infer_kernel_find("sve256") != NULL,
                     n_byte == 32 && (getauxval(AT_HWCAP2) & HWCAP2_SVEI8MM));
}
END_TEST
#endif

/* SPOT_SIMD takes away what comes after it, in serving and in training, and no more. */
START_TEST(a_processor_can_be_taken_for_a_lesser_one)
{
    enum { N = sizeof(names) / sizeof(names[0]) };
    const struct spot_cpu_kernel *variant;
    bool is_here[N];
    int best = 0;

    unsetenv("SPOT_SIMD");
    for (int i = 0; i < N; i++) {
        is_here[i] = spot_infer_kernel_find(names[i]) != NULL;
        if (is_here[i] && i <= _i)
            best = i;
    }
    setenv("SPOT_SIMD", names[_i], 1);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(spot_infer_kernel_find(names[i]) != NULL, is_here[i] && i <= _i);
    if (strcmp(names[best], "avx512bf16") != 0) /* slow on some processors */
        ck_assert_str_eq(spot_infer_kernel_find(NULL)->name, names[best]);
    for (size_t i = 0; (variant = spot_cpu_kernel_variant(i)); i++)
        for (int k = _i + 1; k < N; k++)
            ck_assert(strcmp(variant->variant, names[k]) != 0 || !variant->runs_here());
    setenv("SPOT_SIMD", "none such", 1);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(spot_infer_kernel_find(names[i]) != NULL, is_here[i]);
    unsetenv("SPOT_SIMD");
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("infer_kernel");

    tcase_add_loop_test(tc, sums_in_bf16_are_chains_of_rounded_inputs, 0,
                        sizeof(names) / sizeof(names[0]));
    tcase_add_loop_test(tc, sums_in_8_bits_are_chains_of_exact_blocks, 0,
                        sizeof(names) / sizeof(names[0]));
    tcase_add_loop_test(tc, inputs_in_8_bits_are_rounded_alike, 0,
                        sizeof(names) / sizeof(names[0]));
    tcase_add_test(tc, pairs_are_added_in_turn_where_there_is_an_instruction);
#ifdef __aarch64__
    tcase_add_test(tc, sve256_runs_where_vectors_have_256_bits);
#endif
    tcase_add_loop_test(tc, a_processor_can_be_taken_for_a_lesser_one, 0,
                        sizeof(names) / sizeof(names[0]));
    return run_suite("infer_kernel", tc);
}

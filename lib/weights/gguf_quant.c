/* SPDX-License-Identifier: MIT */
#include "weights/gguf_quant.h"

#include <stddef.h>
#include <string.h>

#include "common/le.h"
#include "weights/gguf.h"
#include "weights/half.h"

const char spot_gguf_types[] = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K";

static float half_at(const uint8_t *at)
{
    return spot_half((uint16_t)spot_le_get(at, 2));
}

static float bits_to_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static void widen_f32(const uint8_t *b, float *x)
{
    *x = bits_to_float((uint32_t)spot_le_get(b, 4));
}

static void widen_f16(const uint8_t *b, float *x)
{
    *x = half_at(b);
}

static void widen_bf16(const uint8_t *b, float *x)
{
    *x = bits_to_float((uint32_t)spot_le_get(b, 2) << 16);
}

/* --- blocks of 32 with one scale --- */

static void widen_q8_0(const uint8_t *b, float *x)
{
    const float d = half_at(b);

    for (int i = 0; i < 32; i++)
        x[i] = (float)(int8_t)b[2 + i] * d;
}

/* x = (q - minus) * d + m; `high` has the fifth bits of q. */
static void widen_4_or_5(const uint8_t *q, uint32_t high, int minus, float d, float m, float *x)
{
    for (int i = 0; i < 16; i++) {
        const int low = (q[i] & 15) | (int)(high >> i & 1) << 4;
        const int up = q[i] >> 4 | (int)(high >> (i + 16) & 1) << 4;

        x[i] = (float)(low - minus) * d + m;
        x[i + 16] = (float)(up - minus) * d + m;
    }
}

static void widen_q4_0(const uint8_t *b, float *x)
{
    widen_4_or_5(b + 2, 0, 8, half_at(b), -0.0F, x);
}

static void widen_q4_1(const uint8_t *b, float *x)
{
    widen_4_or_5(b + 4, 0, 0, half_at(b), half_at(b + 2), x);
}

static void widen_q5_0(const uint8_t *b, float *x)
{
    widen_4_or_5(b + 6, (uint32_t)spot_le_get(b + 2, 4), 16, half_at(b), -0.0F, x);
}

static void widen_q5_1(const uint8_t *b, float *x)
{
    widen_4_or_5(b + 8, (uint32_t)spot_le_get(b + 4, 4), 0, half_at(b), half_at(b + 2), x);
}

/* --- blocks of 256 with eight or sixteen scales -------------------------- */

/* Scale and minimum of part j of eight, 6 bits each in 12 bytes. */
static void scale_of(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

/* Converts numbers of five bits, or of four. `high` has the fifth bits: bit j of byte i belongs to
 * number i of part j. NULL: there are no fifth bits. */
static void widen_parts(const uint8_t *b, const uint8_t *high, const uint8_t *q, float *x)
{
    const float d = half_at(b), d_min = half_at(b + 2);

    for (int j = 0; j < 8; j++) {
        int scale, min;

        scale_of(b + 4, j, &scale, &min);
        for (int i = 0; i < 32; i++) {
            const int low = j % 2 ? q[j / 2 * 32 + i] >> 4 : q[j / 2 * 32 + i] & 15;
            const int all = low + (high && high[i] >> j & 1 ? 16 : 0);

            x[32 * j + i] = d * (float)scale * (float)all - d_min * (float)min;
        }
    }
}

static void widen_q4_k(const uint8_t *b, float *x)
{
    widen_parts(b, NULL, b + 16, x);
}

static void widen_q5_k(const uint8_t *b, float *x)
{
    widen_parts(b, b + 16, b + 48, x);
}

static void widen_q6_k(const uint8_t *b, float *x)
{
    const float d = half_at(b + 208);

    for (int k = 0; k < 256; k++) { /* two halves of four rows of 32 */
        const int half = k / 128, row = k / 32 % 4, i = k % 32;
        const uint8_t low = b[64 * half + 32 * (row % 2) + i], high = b[128 + 32 * half + i];
        const int q = ((row < 2 ? low & 15 : low >> 4) | (high >> (2 * row) & 3) << 4) - 32;

        x[k] = d * (float)(int8_t)b[192 + k / 16] * (float)q;
    }
}

const struct spot_gguf_kind *spot_gguf_kind(int type)
{
    static const struct spot_gguf_kind all[] = {
        { 0, "F32", 1, 4, widen_f32 },        { 1, "F16", 1, 2, widen_f16 },
        { 2, "Q4_0", 32, 18, widen_q4_0 },    { 3, "Q4_1", 32, 20, widen_q4_1 },
        { 6, "Q5_0", 32, 22, widen_q5_0 },    { 7, "Q5_1", 32, 24, widen_q5_1 },
        { 8, "Q8_0", 32, 34, widen_q8_0 },    { 12, "Q4_K", 256, 144, widen_q4_k },
        { 13, "Q5_K", 256, 176, widen_q5_k }, { 14, "Q6_K", 256, 210, widen_q6_k },
        { 30, "BF16", 1, 2, widen_bf16 },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].type == type)
            return &all[i];
    return NULL;
}

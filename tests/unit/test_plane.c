/* SPDX-License-Identifier: MIT */
/* Goal: planes come back bit for bit, and every set of loops gives the portable one's bytes. */
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "shard/plane.h"
#include "suite.h"

enum { ELEMENTS = 1100, SLACK = 8 };

static const char *const ops_name[] = { "portable", "avx2" };
enum { OPS = sizeof(ops_name) / sizeof(ops_name[0]) };

/* All patterns of the first kind; then normal values; then hardly any escape; then all escapes. */
static void fill(uint8_t *raw, size_t n_byte, int kind, struct spot_rng *rng)
{
    for (size_t i = 0; i + 2 <= n_byte; i += 2) {
        const float x = (float)(0.02 * spot_rng_normal(rng));
        uint32_t bits;
        uint16_t v;

        memcpy(&bits, &x, 4);
        v = kind == 0   ? (uint16_t)spot_rng_next(rng)
            : kind == 1 ? (uint16_t)(bits >> 16)
            : kind == 2 ? (uint16_t)(spot_rng_below(rng, 50) ? 0x3c12 : 0x7fc1)
                        : (uint16_t)(0x0001 | (spot_rng_next(rng) & 0x8000));
        raw[i] = (uint8_t)v;
        raw[i + 1] = (uint8_t)(v >> 8);
    }
}

static void check_split(const struct spot_plane_ops *ops, const uint8_t *raw, size_t n, bool rotate,
                        int width)
{
    static uint8_t want[8][ELEMENTS + SLACK], got[8][ELEMENTS + SLACK], back[8 * ELEMENTS + SLACK];
    uint8_t *const w[4] = { want[0], want[1], want[2], want[3] };
    uint8_t *const g[4] = { got[0], got[1], got[2], got[3] };

    memset(got, 0xaa, sizeof(got));
    memset(back, 0xaa, sizeof(back));
    if (width == 2) {
        spot_plane_portable.split2(raw, n, rotate, w);
        ops->split2(raw, n, rotate, g);
        ops->join2((const uint8_t *const *)g, n, rotate, back);
    } else {
        spot_plane_portable.split4(raw, n, rotate, w);
        ops->split4(raw, n, rotate, g);
        ops->join4((const uint8_t *const *)g, n, rotate, back);
    }
    for (int p = 0; p < width; p++) {
        ck_assert_mem_eq(got[p], want[p], n);
        ck_assert_uint_eq(got[p][n], 0xaa);
    }
    ck_assert_mem_eq(back, raw, n * (size_t)width);
    ck_assert_uint_eq(back[n * (size_t)width], 0xaa);
}

START_TEST(every_length_and_alignment_comes_back_equal)
{
    const struct spot_plane_ops *ops = spot_plane_ops_named(ops_name[_i]);
    static uint8_t raw[4 * ELEMENTS + SLACK];
    struct spot_rng rng;

    if (!ops)
        return; /* this processor has it not */
    spot_rng_init(&rng, 11, 0);
    for (size_t n = 0; n < ELEMENTS; n += n < 140 ? 1 : 97)
        for (int kind = 0; kind < 4; kind++) {
            const size_t shift = n % SLACK;

            fill(raw + shift, 4 * n, kind, &rng);
            for (int rotate = 0; rotate < 2; rotate++) {
                check_split(ops, raw + shift, n, rotate, 2);
                check_split(ops, raw + shift, n, rotate, 4);
            }
        }
}
END_TEST

/* The meaning, written down apart from the loops: all 65,536 values of a bf16. */
START_TEST(the_top_plane_is_the_exponent_and_the_sign_is_the_last_bit)
{
    const struct spot_plane_ops *ops = spot_plane_ops();
    static uint8_t raw[2 << 16], low[1 << 16], high[1 << 16];

    for (unsigned v = 0; v < 1 << 16; v++) {
        raw[2 * v] = (uint8_t)v;
        raw[2 * v + 1] = (uint8_t)(v >> 8);
    }
    ops->split2(raw, 1 << 16, true, (uint8_t *const[2]){ low, high });
    for (unsigned v = 0; v < 1 << 16; v++) {
        ck_assert_uint_eq(high[v], v >> 7 & 255);
        ck_assert_uint_eq(low[v], (v & 127) << 1 | v >> 15);
    }
}
END_TEST

START_TEST(eight_byte_elements_come_back)
{
    static uint8_t raw[8 * 100], plane[8 * 100], back[8 * 100];
    uint8_t *const at[8] = { plane,       plane + 100, plane + 200, plane + 300,
                             plane + 400, plane + 500, plane + 600, plane + 700 };
    struct spot_rng rng;

    spot_rng_init(&rng, 12, 0);
    for (size_t i = 0; i < sizeof(raw); i++)
        raw[i] = (uint8_t)spot_rng_next(&rng);
    for (int rotate = 0; rotate < 2; rotate++) {
        spot_plane_split8(raw, 100, rotate, at);
        ck_assert_uint_eq(plane[0], rotate ? (uint8_t)(raw[0] << 1 | raw[7] >> 7) : raw[0]);
        spot_plane_join8((const uint8_t *const *)at, 100, rotate, back);
        ck_assert_mem_eq(back, raw, sizeof(raw));
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, every_length_and_alignment_comes_back_equal, 0, OPS);
    tcase_add_test(tc, the_top_plane_is_the_exponent_and_the_sign_is_the_last_bit);
    tcase_add_test(tc, eight_byte_elements_come_back);
    return run_suite("plane", tc);
}

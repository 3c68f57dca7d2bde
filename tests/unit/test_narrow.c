/* SPDX-License-Identifier: MIT */
/* Goal: values in a byte each come back as they were, whatever their base, unit and order; what
 * does not fit is refused, and what was there before stays. */
#include <string.h>

#include "common/narrow.h"
#include "common/rng.h"
#include "suite.h"

enum { N = 40, LINES = 6 };

static int64_t below(struct spot_rng *rng, int64_t n)
{
    return (int64_t)spot_rng_below(rng, (uint64_t)n);
}

START_TEST(values_come_back_line_by_line)
{
    int n_full = 0, n_refused = 0;
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int k = 0; k < 4000; k++) {
        static const int64_t unit_of[] = { 1, 2, 3, 1234567, INT64_C(1) << 40, 96 };
        const int64_t unit = unit_of[below(&rng, 6)], base = below(&rng, 1 << 30) - (1 << 29);
        const int64_t most = 1 + below(&rng, 150);
        int64_t value[LINES * N], back[LINES * N];
        int8_t cell[LINES * N];
        struct spot_narrow w = { .cell = cell };
        int line = 0;

        for (int at = 0; at < LINES * N; at++)
            value[at] = below(&rng, 9) == 0
                            ? INT64_MIN
                            : base + unit * (below(&rng, most) - most / 2) * (at < N ? 3 : 1);
        if (below(&rng, 4) == 0)
            value[(LINES - 1) * N] = INT64_MAX - below(&rng, 99);
        while (line < LINES && spot_narrow_add(&w, value + line * N, N))
            line++;
        n_full += line == LINES, n_refused += line < LINES;
        ck_assert_uint_eq(w.n, (size_t)line * N);
        spot_narrow_widen(&w, 0, w.n, back);
        ck_assert(!memcmp(back, value, w.n * sizeof *back));
    }
    ck_assert(n_full > 1000 && n_refused > 500);
}
END_TEST

/* From the least to the greatest cell; INT64_MIN has a cell of its own. */
START_TEST(all_cells_are_used_and_no_more)
{
    int64_t value[256], back[256];
    int8_t cell[256];
    struct spot_narrow w = { .cell = cell };

    for (int k = 0; k < 255; k++)
        value[k] = k ? 1000 + 7 * (k - 128 - (k <= 128)) : 1000;
    value[255] = INT64_MIN;
    value[1] = 1000 - 7 * 128;
    ck_assert(spot_narrow_add(&w, value, 256));
    spot_narrow_widen(&w, 0, 256, back);
    ck_assert(!memcmp(back, value, sizeof back));
    for (int k = -200; k <= 200; k++) {
        const int64_t x = 1000 + 7 * k;
        int8_t other[2];
        struct spot_narrow one = { .cell = other, .base = 1000, .unit = 7, .has_base = true };

        ck_assert(spot_narrow_add(&one, &x, 1) == (k >= -128 && k <= 126));
    }
}
END_TEST

START_TEST(bases_and_units_that_could_leave_64_bits_are_refused)
{
    const int64_t far[] = { INT64_MAX, INT64_MIN + 1 }, wide[] = { 0, INT64_C(1) << 53 };
    int8_t cell[2];

    ck_assert(!spot_narrow_add(&(struct spot_narrow){ .cell = cell }, far, 2));
    ck_assert(!spot_narrow_add(&(struct spot_narrow){ .cell = cell }, wide, 2));
    ck_assert(spot_narrow_add(&(struct spot_narrow){ .cell = cell }, wide, 1));
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("narrow");

    add_tests(tcase);
    return run_case("narrow", tcase);
}

/* SPDX-License-Identifier: MIT */
/* Goal: DxP is read the same everywhere, and nothing else is. */
#include "model/grid.h"
#include "suite.h"

START_TEST(reads_and_writes)
{
    static const char *const good[] = { "2x3", "1x1x4", "0x0", "16x16x16", "4096x1" };
    struct spot_grid g;
    char text[SPOT_GRID_TEXT];

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        ck_assert_int_eq(spot_grid_parse(good[i], &g), 0);
        ck_assert_str_eq(spot_grid_text(&g, text), good[i]);
    }
    ck_assert_int_eq(spot_grid_parse("2x3x1", &g), 0);
    ck_assert(g.D == 2 && g.P == 3 && g.M == 1);
    ck_assert_str_eq(spot_grid_text(&g, text), "2x3");
    g = (struct spot_grid){ INT64_MAX, INT64_MAX, INT64_MAX };
    ck_assert_str_eq(spot_grid_text(&g, text),
                     "9223372036854775807x9223372036854775807x9223372036854775807");
}
END_TEST

START_TEST(refuses_the_rest_and_leaves_its_argument)
{
    static const char *const bad[] = {
        "",
        "x",
        "2",
        "2x",
        "x3",
        "2X3",
        "2x3x",
        " 2x3",
        "2x 3",
        "-2x3",
        "2x-3",
        "+2x3",
        "2x3 ",
        "two",
        "2*3",
        "0x3g",
        "2x3.0",
        "4097x1",
        "64x65",
        "99999999999999999999x1",
        "2x3x4x1",
        "2x3x-1",
        "2x3 x1",
        "x3x1",
        "1x1x99999999999999999999",
        "2x3x1.0",
        "1x4097x0",
        "16x16x17",
        "4096x4096x4096",
    };
    struct spot_grid g = { 7, 8, 9 };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        ck_assert_msg(spot_grid_parse(bad[i], &g) && g.D == 7 && g.P == 8 && g.M == 9, "'%s'",
                      bad[i]);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, reads_and_writes);
    tcase_add_test(tc, refuses_the_rest_and_leaves_its_argument);
    return run_suite("grid", tc);
}

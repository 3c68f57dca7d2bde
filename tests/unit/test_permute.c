/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "common/permute.h"
#include "suite.h"

/* Goal: each number comes once, by enumeration; the order depends on the key, and stays what it
 * was: jobs that go on from a state of an older version read the same samples. */

START_TEST(each_number_comes_once_for_every_length)
{
    for (uint64_t n = 1; n <= 1100; n++)
        for (uint64_t key = 0; key < 3; key++) {
            uint8_t *const seen = calloc(n, 1);

            for (uint64_t x = 0; x < n; x++) {
                const uint64_t y = spot_permute(n, key * 77 + n, x);

                ck_assert(y < n);
                ck_assert_int_eq(seen[y]++, 0);
            }
            free(seen);
        }
}
END_TEST

START_TEST(lengths_of_many_bits_stay_in_range_and_do_not_repeat)
{
    static const uint64_t length[] = { UINT64_C(1) << 62, (UINT64_C(1) << 61) + 1,
                                       UINT64_C(1) << 32, (UINT64_C(1) << 53) - 1 };
    enum { N = 2000 };

    for (size_t i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
        uint64_t value[N];

        for (uint64_t x = 0; x < N; x++) {
            value[x] = spot_permute(length[i], 9, x * (length[i] / N));
            ck_assert(value[x] < length[i]);
            for (uint64_t before = 0; before < x; before++)
                ck_assert(value[before] != value[x]);
        }
    }
}
END_TEST

START_TEST(the_order_is_the_one_of_earlier_versions)
{
    static const struct {
        uint64_t n, key, order[10];
    } was[] = {
        { 10, 1, { 6, 2, 1, 0, 3, 7, 4, 5, 9, 8 } },
        { 10, 2, { 2, 7, 8, 1, 3, 6, 9, 4, 5, 0 } },
        { 1000000007,
          3,
          { 225918704, 922292689, 78133955, 398302427, 389887876, 728131624, 973826175, 564105362,
            114612438, 675895698 } },
    };

    for (size_t i = 0; i < sizeof(was) / sizeof(was[0]); i++)
        for (uint64_t x = 0; x < 10; x++)
            ck_assert_uint_eq(spot_permute(was[i].n, was[i].key, x), was[i].order[x]);
}
END_TEST

START_TEST(where_a_number_goes_is_even_over_keys)
{
    enum { N = 16, KEYS = 16000 };
    static int count[N][N];
    double chi2 = 0;

    for (uint64_t key = 0; key < KEYS; key++)
        for (uint64_t x = 0; x < N; x++)
            count[x][spot_permute(N, key * 4, x)]++;
    for (int x = 0; x < N; x++)
        for (int y = 0; y < N; y++) {
            const double over = count[x][y] - (double)KEYS / N;

            chi2 += over * over / ((double)KEYS / N);
        }
    /* (N - 1)^2 = 225 degrees of freedom: 225 +- 21; a shift of the list by a random key, which is
     * even as well, is told apart by the pairs below */
    ck_assert_msg(chi2 < 225 + 6 * 21.3, "chi2 %g", chi2);
}
END_TEST

START_TEST(neighbours_do_not_stay_neighbours)
{
    enum { N = 1000 };
    int n_beside = 0, n_in_place = 0;

    for (uint64_t x = 0; x + 1 < N; x++) {
        n_beside += spot_permute(N, 5, x) + 1 == spot_permute(N, 5, x + 1);
        n_in_place += spot_permute(N, 5, x) == x;
    }
    ck_assert_int_le(n_beside, 10); /* 1 on average of a random one */
    ck_assert_int_le(n_in_place, 10);
}
END_TEST

int main(void)
{
    return run_suite("permute", add_tests(tcase_create("permute")));
}

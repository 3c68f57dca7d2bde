/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "suite.h"
#include "train/grid_choice.h"

/* Goal: the stages are as good as the best of all cuts, found by trying every one; the grid never
 * needs more members, microbatches or bundles than there are and keeps what it can of the wish. */

static int64_t cost_of(const struct spot_shape *s, int b)
{
    return b == 0            ? s->width
           : b <= s->n_layer ? s->width * (12 * s->width + s->seq)
                             : s->width * s->vocab;
}

static int64_t slowest(const struct spot_shape *s, const uint32_t *stage, uint32_t P)
{
    int64_t worst = 0;

    for (uint32_t p = 0; p < P; p++) {
        int64_t sum = 0;

        for (uint32_t b = stage[p]; b < stage[p + 1]; b++)
            sum += cost_of(s, (int)b);
        worst = sum > worst ? sum : worst;
    }
    return worst;
}

/* Every way to cut n bundles into P stages: choose P - 1 of n - 1 places by bit mask. */
static int64_t best_of_all(const struct spot_shape *s, uint32_t n, uint32_t P)
{
    int64_t best = INT64_MAX;

    for (uint32_t mask = 0; mask < 1u << (n - 1); mask++) {
        uint32_t stage[32] = { 0 }, p = 0;

        for (uint32_t b = 1; b < n; b++)
            if (mask >> (b - 1) & 1)
                stage[++p] = b;
        stage[++p] = n;
        if (p == P && slowest(s, stage, P) < best)
            best = slowest(s, stage, P);
    }
    return best;
}

START_TEST(stages_are_the_best_of_all_cuts)
{
    static const int64_t width[] = { 8, 64, 1024 }, seq[] = { 8, 4096 },
                         vocab[] = { 16, 256, 8192 };

    for (int64_t L = 1; L <= 9; L++)
        for (int k = 0; k < 18; k++) {
            const struct spot_shape s = { .n_layer = L,
                                          .width = width[k % 3],
                                          .n_head = 1,
                                          .seq = seq[k / 3 % 2],
                                          .vocab = vocab[k / 6],
                                          .n_shard = 1 };
            const uint32_t n = (uint32_t)spot_shape_bundles(&s);

            for (uint32_t P = 1; P <= n; P++) {
                uint32_t stage[32];

                spot_grid_stages(&s, P, stage);
                ck_assert_uint_eq(stage[0], 0);
                ck_assert_uint_eq(stage[P], n);
                for (uint32_t p = 0; p < P; p++)
                    ck_assert_uint_lt(stage[p], stage[p + 1]);
                ck_assert_int_eq(slowest(&s, stage, P), best_of_all(&s, n, P));
            }
        }
}
END_TEST

/* All wishes for up to n members, for jobs of G microbatches, B bundles and S shards. */
static void check_choice(uint32_t n, const struct spot_grid *want, int64_t G, int B, int64_t S)
{
    const struct spot_grid g = spot_grid_choose(n, want, G, B, S);
    uint32_t m_max = 0, depth_max;

    for (uint32_t m = 1; m <= n && m <= want->M; m++)
        m_max = S % m ? m_max : m;
    depth_max = n / m_max < (uint32_t)B ? n / m_max : (uint32_t)B;
    ck_assert(g.D >= 1 && g.P >= 1 && g.M >= 1 && spot_grid_size(&g) <= n && g.D <= G);
    ck_assert_uint_le(g.D, want->D);
    ck_assert_uint_eq(g.M, m_max);
    ck_assert_uint_eq(g.P, want->P < depth_max ? want->P : depth_max);
    /* one more pipeline would not fit, or nobody wants it */
    ck_assert((g.D + 1) * g.P * g.M > n || g.D == want->D || g.D == G);
}

START_TEST(the_grid_fits_and_keeps_what_it_can)
{
    for (uint32_t n = 1; n <= 12; n++)
        for (uint32_t k = 0; k < 6 * 6 * 8; k++)
            for (int64_t G = 1; G <= 5; G++)
                for (int B = 3; B <= 5; B++) {
                    const struct spot_grid want = { 1 + k % 6, 1 + k / 6 % 6, 1 + k / 36 };

                    check_choice(n, &want, G, B, 12);
                    check_choice(n, &want, G, B, 8);
                    check_choice(n, &want, G, B, 1);
                }
}
END_TEST

START_TEST(without_a_wish_all_members_share_the_microbatches)
{
    const struct spot_grid none = { 0 };

    for (uint32_t n = 1; n < 20; n++) {
        const struct spot_grid g = spot_grid_choose(n, &none, 7, 4, 8);

        ck_assert_uint_eq(g.P, 1);
        ck_assert_uint_eq(g.M, 1);
        ck_assert_uint_eq(g.D, n < 7 ? n : 7);
    }
}
END_TEST

int main(void)
{
    return run_suite("grid_choice", add_tests(tcase_create("core")));
}

/* SPDX-License-Identifier: MIT */
/* Goal: what is computed again covers each member as often as stated; what two reports differ in is
 * found at its stage and element; and the chain of commits depends on all that it is said to. */
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "suite.h"
#include "train/evidence.h"
#include "train/self_test.h"
#include "train/verify.h"

static struct spot_form even(uint32_t D, uint32_t P, uint32_t *share, uint32_t n)
{
    for (uint32_t d = 0; d <= D; d++)
        share[d] = (uint32_t)((uint64_t)n * d / D);
    return (struct spot_form){ .D = D, .P = P, .M = 1, .share = share };
}

START_TEST(a_share_is_reached_and_each_pipeline_is_covered)
{
    const double share[] = { 0.01, 0.05, 0.3, 0.5, 1 };

    for (size_t s = 0; s < 5; s++)
        for (uint32_t D = 2; D <= 8; D++)
            for (int64_t G = D; G <= 64; G += 7) {
                const struct spot_verify_rate rate = spot_verify_rate(share[s], G, D);
                const double got = (double)rate.n * D / (double)rate.every / (double)G;

                ck_assert_int_ge(rate.every, 1);
                ck_assert_int_ge(rate.n, 1);
                ck_assert_double_ge(got, share[s] - 1e-9);
                ck_assert_msg(rate.every == 1 || rate.n == 1, "both");
                /* not more than one microbatch of each, or half as much again */
                ck_assert(rate.every == 1
                              ? (double)(rate.n - 1) * D < share[s] * (double)G + 1e-9
                              : (double)D / (double)(rate.every + 1) < share[s] * (double)G + 1e-9);
            }
    ck_assert_int_eq(spot_verify_rate(0.5, 16, 1).n, 0);
}
END_TEST

/* An idle member computes a quarter of a pipeline, and where a step has few tokens seldom. */
START_TEST(what_an_idle_member_computes_is_less_than_a_pipeline_and_never_nothing)
{
    for (uint32_t D = 1; D <= 8; D++)
        for (int64_t G = D; G <= 64; G += 7)
            for (int64_t n_token = 1; n_token <= 1 << 14; n_token *= 2) {
                const struct spot_verify_rate rate = spot_verify_spare_rate(G, n_token, D);
                const int64_t own = G / D;

                ck_assert_int_ge(rate.n, 1);
                ck_assert(rate.n == 1 || 4 * rate.n <= own);
                ck_assert_int_ge(rate.every * own * n_token, 1024);
                ck_assert(rate.every == 1 || (rate.every - 1) * own * n_token < 1024);
            }
}
END_TEST

START_TEST(what_is_drawn_is_within_the_pipeline_and_all_of_it_is_drawn)
{
    uint32_t share[4];
    const struct spot_form form = even(3, 2, share, 13);
    bool seen[13] = { 0 }, turned[3] = { 0 };

    for (int64_t step = 0; step < 200; step++) {
        for (uint32_t d = 0; d < 3; d++) {
            const struct spot_verify_set set = spot_verify_draw(&form, d, 2, 7, step);

            ck_assert_int_eq(set.n, 2);
            ck_assert_int_ge(set.begin, share[d]);
            ck_assert_int_le(set.begin + set.n, share[d + 1]);
            seen[set.begin] = seen[set.begin + 1] = true;
        }
        turned[spot_verify_turn(3, 7, step)] = true;
    }
    for (int i = 0; i < 13; i++)
        ck_assert(seen[i]);
    ck_assert(!turned[0] && turned[1] && turned[2]);
    ck_assert_int_eq(spot_verify_draw(&form, 0, 99, 7, 1).n, 4);
}
END_TEST

START_TEST(an_order_out_of_bounds_is_malformed)
{
    uint32_t share[3];
    const struct spot_form form = even(2, 1, share, 8);
    const struct spot_verify_order good = { { 4, 2 }, { 0, 4 } };
    const struct spot_verify_order bad[] = { { { 3, 2 }, { 0, 1 } },  { { 7, 2 }, { 0, 1 } },
                                             { { 4, -1 }, { 0, 1 } }, { { 4, 1 }, { 7, 2 } },
                                             { { 4, 1 }, { -1, 1 } }, { { 4, 1 }, { 9, 0 } } };
    struct spot_buf out = { 0 };
    struct spot_verify_order got;
    struct spot_wire_in in;

    spot_verify_order_put(&out, &good);
    in = spot_wire_in(out.data, out.n);
    spot_verify_order_get(&in, &form, 1, &got);
    ck_assert(spot_wire_in_done(&in) && !memcmp(&got, &good, sizeof(got)));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        out.n = 0;
        spot_verify_order_put(&out, &bad[i]);
        in = spot_wire_in(out.data, out.n);
        spot_verify_order_get(&in, &form, 1, &got);
        ck_assert(in.bad && !got.first.n && !got.again.n);
    }
    spot_buf_release(&out);
}
END_TEST

/* The three sums of a print, as they are defined. */
static void check_totals(const struct spot_arena *arena, const int64_t *sum, int t,
                         const struct spot_sum_print *p)
{
    const size_t each = (size_t)(arena->tensor[t].rows * arena->tensor[t].cols);
    const size_t n = each * (arena->tensor[t].is_sharded ? (size_t)arena->n_shard : 1);
    uint64_t total = 0, low = 0, high = 0;

    for (size_t e = 0; e < n; e++) {
        const uint64_t s = (uint64_t)sum[spot_arena_offset(arena, t, (int)(e / each)) + e % each];

        total += s;
        low += e % 4096 * s;
        high += e / 4096 * s;
    }
    ck_assert(p->total == total && p->low == low && p->high == high);
}

START_TEST(the_only_element_that_differs_is_found_with_its_difference)
{
    const struct spot_shape shape = {
        .n_layer = 1, .width = 64, .n_head = 2, .seq = 8, .vocab = 300, .n_shard = 2
    };
    struct spot_arena arena;
    int64_t *sum, difference;
    struct spot_rng rng;

    spot_arena_of(&shape, 1, &arena);
    sum = spot_xcalloc(arena.n_elem, sizeof(*sum));
    spot_rng_init(&rng, 1, 0);
    for (size_t i = 0; i < arena.n_elem; i++)
        sum[i] = (int64_t)spot_rng_next(&rng) >> 3;
    for (int k = 0; k < 2000; k++) {
        const int t = (int)spot_rng_below(&rng, (uint64_t)arena.n_tensor);
        const int64_t each = arena.tensor[t].rows * arena.tensor[t].cols;
        const int64_t n = each * (arena.tensor[t].is_sharded ? 2 : 1);
        const int64_t e = (int64_t)spot_rng_below(&rng, (uint64_t)n);
        int64_t *const at =
            &sum[spot_arena_offset(&arena, t, (int)(e / each)) + (size_t)(e % each)];
        const struct spot_sum_print before = spot_sum_print(&arena, sum, t);
        const int64_t was = *at;
        struct spot_sum_print after;

        *at = (int64_t)((uint64_t)*at ^ UINT64_C(1) << spot_rng_below(&rng, 51));
        after = spot_sum_print(&arena, sum, t);
        ck_assert_int_eq(spot_sum_print_element(&before, &after, n, &difference), e);
        ck_assert_int_eq(difference, *at - was);
        ck_assert(before.hash != after.hash);
        check_totals(&arena, sum, t, &after);
        at[e % each ? -1 : 1] += 12345; /* two are not one */
        after = spot_sum_print(&arena, sum, t);
        ck_assert_int_ne(spot_sum_print_element(&before, &after, n, &difference), e);
        at[e % each ? -1 : 1] -= 12345;
        *at = was;
    }
    free(sum);
}
END_TEST

/* Three stages' reports, all equal but for what a fault at one of them makes of those behind. */
START_TEST(a_difference_is_at_the_stage_whose_inputs_were_equal)
{
    struct spot_sum_print print[2][3] = { { { 0 } } };
    struct spot_verify_report a[3], b[3];

    for (int p = 0; p < 3; p++) {
        a[p] = (struct spot_verify_report){ .edge = { (uint64_t)p, (uint64_t)p + 1, 30, 40 },
                                            .n_print = 1,
                                            .print = &print[0][p] };
        b[p] = a[p];
        b[p].print = &print[1][p];
    }
    ck_assert_int_eq(spot_verify_stage(a, b, 3), -1);
    b[1].edge.act_out = b[2].edge.act_in = 77; /* forward at 1: all gradients differ as well */
    b[2].edge.dact_in = b[1].edge.dact_out = b[1].edge.dact_in = b[0].edge.dact_out = 78;
    print[1][0].hash = print[1][1].hash = print[1][2].hash = 5;
    ck_assert_int_eq(spot_verify_stage(a, b, 3), 1);
    b[1].edge = a[1].edge; /* backward at 1 */
    b[2].edge = a[2].edge;
    b[1].edge.dact_in = b[0].edge.dact_out = 79;
    print[1][2].hash = 0;
    ck_assert_int_eq(spot_verify_stage(a, b, 3), 1);
    b[0].edge = a[0].edge; /* sums alone at 0 */
    b[1].edge = a[1].edge;
    print[1][1].hash = 0;
    ck_assert_int_eq(spot_verify_stage(a, b, 3), 0);
    b[2].edge.dact_out = 31; /* other tokens, at the end or at the begin, before all else */
    ck_assert_int_eq(spot_verify_stage(a, b, 3), 2);
    b[0].edge.act_in = 1;
    ck_assert_int_eq(spot_verify_stage(a, b, 3), 0);
}
END_TEST

START_TEST(the_chain_depends_on_all_that_it_is_made_of)
{
    const struct spot_shape shape = {
        .n_layer = 1, .width = 32, .n_head = 2, .seq = 8, .vocab = 64, .n_shard = 1
    };
    struct spot_evidence e[3] = { { { 0 }, { 0 } } };
    const struct spot_hash128 from = spot_chain_begin(1);
    const struct spot_hash128 one = spot_chain_next(from, &shape, e, 1, 2);
    struct spot_chain chain = { .link = { { 0 } } };
    struct spot_hash128 got;
    char hex[SPOT_HASH_HEX];

    ck_assert(!spot_hash128_equal(one, spot_chain_next(from, &shape, e, 2, 2)));
    ck_assert(!spot_hash128_equal(one, spot_chain_next(from, &shape, e, 1, 3)));
    ck_assert(!spot_hash128_equal(one, spot_chain_next(spot_chain_begin(2), &shape, e, 1, 2)));
    for (int b = 0; b < 3; b++)
        for (int sum = 0; sum < 2; sum++) {
            uint64_t *const at = sum ? &e[b].sum[1] : &e[b].state[1];

            *at = 1;
            ck_assert(!spot_hash128_equal(one, spot_chain_next(from, &shape, e, 1, 2)));
            *at = 0;
        }
    ck_assert(spot_hash128_equal(one, spot_chain_next(from, &shape, e, 1, 2)));
    spot_hash128_hex(one, hex);
    ck_assert(spot_chain_parse(hex, &got) && spot_hash128_equal(got, one));
    hex[31] = 'g';
    ck_assert(!spot_chain_parse(hex, &got) && !spot_chain_parse("12", &got));
    spot_chain_put(&chain, 5, one);
    ck_assert(spot_chain_find(&chain, 5, &got) &&
              !spot_chain_find(&chain, 5 + SPOT_CHAIN_KEPT, &got));
    ck_assert(!spot_chain_find(&chain, 0, &got));
}
END_TEST

START_TEST(each_kind_of_kernel_computes_the_known_step)
{
    bool runs_here;
    const char *name;

    for (size_t i = 0; (name = spot_kernel_list(i, "cpu", &runs_here)); i++)
        if (runs_here)
            ck_assert_msg(spot_self_test_passes(name), "%s: %016" PRIx64, name,
                          spot_self_test_hash(spot_kernel_find(name, NULL)));
}
END_TEST

/* As in a local worker, whose parent made the test. */
static bool passes_with(const char *text, const char *kernel)
{
    int status = 0;
    const pid_t pid = fork();

    if (!pid) {
        spot_self_test_take(text);
        _exit(spot_self_test_passes(kernel) ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return !WEXITSTATUS(status);
}

START_TEST(the_test_of_all_processors_is_that_of_one_and_is_handed_on)
{
    char good[64], bad[64];
    int cpu = -1;

    for (size_t n = 0; n < 4; n++)
        ck_assert(spot_self_test_all("portable", n, &cpu));
    ck_assert(spot_self_test_all("fma", SIZE_MAX, &cpu) == spot_self_test_passes("fma"));
    ck_assert(spot_self_test_all("unknown", 2, &cpu));
    spot_self_test_print("portable", true, good, sizeof(good));
    spot_self_test_print("portable", false, bad, sizeof(bad));
    ck_assert(passes_with(good, "portable") && !passes_with(bad, "portable"));
    /* what is not of this form, or of another kind, decides nothing */
    ck_assert(passes_with("", "portable") && passes_with("portable ", "portable"));
    ck_assert(passes_with("portable(fai", "portable") && passes_with("fma(failed)", "portable"));
    ck_assert(!passes_with("fma-bf16(failed)", "fma-bf16"));
}
END_TEST

START_TEST(a_share_is_read)
{
    struct spot_err err;
    double share;

    ck_assert(!spot_verify_parse("off", &share, &err) && share == 0);
    ck_assert(!spot_verify_parse("0.05", &share, &err) && share == 0.05);
    ck_assert(!spot_verify_parse("1", &share, &err) && share == 1);
    ck_assert(!spot_verify_parse("auto", &share, &err) && share < 0);
    for (size_t i = 0; i < 5; i++) {
        static const char *const bad[] = { "0", "1.1", "-1", "x", "" };

        ck_assert_int_eq(spot_verify_parse(bad[i], &share, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EUSAGE);
    }
}
END_TEST

int main(void)
{
    return run_suite("verify", add_tests(tcase_create("core")));
}

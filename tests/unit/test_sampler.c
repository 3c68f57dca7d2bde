/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "train/sampler.h"

/* Goal: in every data epoch each sequence is read exactly once, by enumeration; the order is a
 * pure function of the seed; what is too short is refused by name. */

static struct spot_corpus corpus_of(size_t n)
{
    struct spot_corpus c = {
        .source = "the file", .n_token = n, .token_byte = 1, .fd = -1, .memory = calloc(n + 1, 1)
    };

    for (size_t i = 0; i < n; i++)
        c.memory[i] = (uint8_t)(i * 7);
    return c;
}

START_TEST(each_sequence_comes_exactly_once_in_every_data_epoch)
{
    for (int64_t n = 1; n <= 300; n++) {
        struct spot_corpus c = corpus_of((size_t)n * 3 + 1 + (size_t)n % 3);
        struct spot_sampler s;
        uint8_t *seen = calloc((size_t)n, 1);

        ck_assert_int_eq(spot_sampler_init(&s, &c, 3, (uint64_t)n, NULL), 0);
        ck_assert_int_eq(s.n_sequence, n);
        for (int64_t q = 0; q < 4 * n; q++) {
            const int64_t sequence = spot_sampler_sequence(&s, q);

            ck_assert(sequence >= 0 && sequence < n);
            ck_assert_int_eq(seen[sequence]++, q / n);
        }
        free(seen);
        spot_corpus_release(&c);
    }
}
END_TEST

START_TEST(the_order_is_a_function_of_the_seed_and_differs_between_epochs)
{
    enum { N = 1000 };
    struct spot_corpus c = corpus_of(N * 2 + 1);
    struct spot_sampler a, b, other;
    int n_same_epoch = 0, n_same_seed = 0, n_in_place = 0;

    spot_sampler_init(&a, &c, 2, 5, NULL);
    spot_sampler_init(&b, &c, 2, 5, NULL);
    spot_sampler_init(&other, &c, 2, 6, NULL);
    for (int64_t q = 0; q < N; q++) {
        const int64_t x = spot_sampler_sequence(&a, q);

        ck_assert_int_eq(x, spot_sampler_sequence(&b, q));
        n_same_epoch += x == spot_sampler_sequence(&a, q + N);
        n_same_seed += x == spot_sampler_sequence(&other, q);
        n_in_place += x == q;
    }
    /* a random permutation agrees with another in 1 place on average */
    ck_assert_int_le(n_same_epoch, 10);
    ck_assert_int_le(n_same_seed, 10);
    ck_assert_int_le(n_in_place, 10);
    spot_corpus_release(&c);
}
END_TEST

START_TEST(a_sequence_is_its_tokens_and_the_one_after)
{
    struct spot_corpus c = corpus_of(21);
    struct spot_sampler s;
    uint32_t token[6];

    ck_assert_int_eq(spot_sampler_init(&s, &c, 5, 1, NULL), 0);
    ck_assert_int_eq(s.n_sequence, 4);
    for (int64_t i = 0; i < 4; i++) {
        ck_assert_int_eq(spot_sampler_read(&s, i, token, NULL), 0);
        for (int64_t t = 0; t < 6; t++)
            ck_assert_uint_eq(token[t], (uint8_t)((5 * i + t) * 7));
    }
    spot_corpus_release(&c);
}
END_TEST

START_TEST(weights_of_its_targets_follow_the_tokens)
{
    struct spot_corpus c = corpus_of(21);
    float weight[21];
    uint32_t word[11];
    struct spot_sampler s;

    for (int i = 0; i < 21; i++)
        weight[i] = (float)i / 4 - 2;
    ck_assert_int_eq(spot_sampler_init(&s, &c, 5, 1, NULL), 0);
    s.weight = weight;
    for (int64_t i = 0; i < 4; i++) {
        ck_assert_int_eq(spot_sampler_read(&s, i, word, NULL), 0);
        for (int64_t t = 0; t < 6; t++)
            ck_assert_uint_eq(word[t], (uint8_t)((5 * i + t) * 7));
        ck_assert_mem_eq(word + 6, weight + 5 * i + 1, 5 * sizeof(*weight));
    }
    spot_corpus_release(&c);
}
END_TEST

START_TEST(a_corpus_shorter_than_a_sequence_is_refused)
{
    struct spot_sampler s;
    struct spot_err err;

    for (size_t n = 0; n <= 6; n++) {
        struct spot_corpus c = corpus_of(n);

        ck_assert_int_eq(spot_sampler_init(&s, &c, 5, 1, &err), n < 6 ? -1 : 0);
        ck_assert(n == 6 || (err.code == SPOT_EDATA && strstr(err.msg, "the file")));
        spot_corpus_release(&c);
    }
}
END_TEST

int main(void)
{
    return run_suite("sampler", add_tests(tcase_create("core")));
}

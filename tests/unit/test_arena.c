/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "shard/arena.h"
#include "suite.h"
#include "weights/hf_family.h"

/* Goal: for any legal shape every parameter has a place of its own, aligned as promised, and the
 * places of a stage or a shard are contiguous; illegal shapes are refused with the reason. */

static struct spot_shape random_shape(struct spot_rng *rng)
{
    static const int64_t shards[] = { 1, 2, 4, 8, 16, 3 };
    struct spot_shape s = { 0 };

    if (spot_rng_below(rng, 2))
        s.kind = (struct spot_decoder)SPOT_DECODER_LLAMA;

    s.n_shard = shards[spot_rng_below(rng, 6)];
    s.n_head = s.n_shard * (1 + (int64_t)spot_rng_below(rng, 3));
    s.width = s.n_head * (1 + (int64_t)spot_rng_below(rng, 20));
    s.vocab = 1 + (int64_t)spot_rng_below(rng, 2000);
    s.seq = 1 + (int64_t)spot_rng_below(rng, 100);
    s.n_layer = 1 + (int64_t)spot_rng_below(rng, 4);
    if (s.kind.family) {
        s.n_kv_head = s.n_shard * (1 + (int64_t)spot_rng_below(rng, 3));
        s.n_head = s.n_kv_head * (1 + (int64_t)spot_rng_below(rng, 3));
        s.width = s.n_head * 2 * (1 + (int64_t)spot_rng_below(rng, 10));
        s.ffn = s.n_shard * (1 + (int64_t)spot_rng_below(rng, 90));
        s.rope_theta = 10000;
    }
    return s;
}

/* Marks the elements of every tensor; returns how many there are. */
static int64_t mark(const struct spot_arena *a, uint8_t *is_used)
{
    int64_t count = 0;

    for (int t = 0; t < a->n_tensor; t++)
        for (int s = 0; s < (a->tensor[t].is_sharded ? a->n_shard : 1); s++) {
            const size_t at = spot_arena_offset(a, t, s);

            ck_assert_uint_eq(at % SPOT_TENSOR_ALIGN, 0);
            for (int64_t k = 0; k < a->tensor[t].rows * a->tensor[t].cols; k++, count++)
                if (at + (size_t)k >= a->n_elem || is_used[at + (size_t)k]++)
                    ck_abort_msg("element %lld of %s", (long long)k, a->tensor[t].name);
            if (a->tensor[t].is_sharded) /* inside its own shard */
                ck_assert(at >= a->replicated_elem + (size_t)s * a->shard_elem &&
                          at + (size_t)(a->tensor[t].rows * a->tensor[t].cols) <=
                              a->replicated_elem + (size_t)(s + 1) * a->shard_elem);
            else
                ck_assert(at + (size_t)(a->tensor[t].rows * a->tensor[t].cols) <=
                          a->replicated_elem);
        }
    return count;
}

START_TEST(every_parameter_has_one_aligned_place)
{
    struct spot_rng rng;
    struct spot_err err = { 0 };

    spot_rng_init(&rng, 11, (uint64_t)_i);
    for (int trial = 0; trial < 40; trial++) {
        const struct spot_shape s = random_shape(&rng);
        int64_t count = 0;

        ck_assert_msg(spot_shape_check(&s, &err) == 0, "%s", err.msg);
        for (int b = 0; b < spot_shape_bundles(&s); b++) {
            struct spot_arena a;
            uint8_t *is_used;

            spot_arena_of(&s, b, &a);
            ck_assert_uint_eq(a.replicated_elem % SPOT_SHARD_ALIGN, 0);
            ck_assert_uint_eq(a.shard_elem % SPOT_SHARD_ALIGN, 0);
            ck_assert_uint_eq(a.n_elem, a.replicated_elem + (size_t)s.n_shard * a.shard_elem);
            is_used = calloc(a.n_elem, 1);
            count += mark(&a, is_used);
            free(is_used);
        }
        /* the embedding and the head have rows beyond the vocabulary */
        count -= 2 * (spot_shape_vocab_rows(&s) - s.vocab) * s.width;
        ck_assert_int_eq(count, spot_shape_params(&s));
    }
}
END_TEST

START_TEST(names_are_unique_and_found_again)
{
    const struct spot_shape s = {
        .n_layer = 12, .width = 48, .n_head = 4, .seq = 8, .vocab = 16, .n_shard = 4
    };

    for (int b = 0; b < spot_shape_bundles(&s); b++) {
        struct spot_arena a;

        spot_arena_of(&s, b, &a);
        for (int t = 0; t < a.n_tensor; t++)
            ck_assert_int_eq(spot_arena_find(&a, a.tensor[t].name), t);
        ck_assert_int_eq(spot_arena_find(&a, "no.such"), -1);
    }
}
END_TEST

START_TEST(full_names_tell_bundle_shard_and_tensor)
{
    static const struct {
        int bundle, shard;
        const char *tensor, *name;
    } cases[] = { { 0, 0, "wpe", "embed.wpe" },
                  { 0, 3, "wte", "embed.s03.wte" },
                  { 8, 0, "ln1.w", "l007.ln1.w" },
                  { 8, 3, "up.w", "l007.s03.up.w" },
                  { 13, 0, "head.w", "head.s00.head.w" } };
    const struct spot_shape s = {
        .n_layer = 12, .width = 48, .n_head = 4, .seq = 8, .vocab = 16, .n_shard = 4
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char name[SPOT_TENSOR_NAME_MAX];
        struct spot_arena a;

        spot_arena_of(&s, cases[i].bundle, &a);
        spot_arena_tensor_name(&a, cases[i].bundle, spot_arena_find(&a, cases[i].tensor),
                               cases[i].shard, name);
        ck_assert_str_eq(name, cases[i].name);
    }
}
END_TEST

START_TEST(the_124m_model_has_the_published_number_of_parameters)
{
    /* GPT-2 small with an untied head: 124,475,904 and once more 50304 * 768 */
    const struct spot_shape s = {
        .n_layer = 12, .width = 768, .n_head = 12, .seq = 1024, .vocab = 50304, .n_shard = 4
    };

    ck_assert_int_eq(spot_shape_params(&s), INT64_C(124475904) + INT64_C(50304) * 768);
}
END_TEST

START_TEST(llama_models_have_the_published_number_of_parameters)
{
    /* Llama 2 7B; Llama 3 8B; TinyLlama 1.1B */
    static const struct {
        struct spot_shape shape;
        int64_t params;
    } cases[] = {
        { { 32, 4096, 32, 4096, 32000, 8, SPOT_DECODER_LLAMA, 32, 11008, 1e4, false,
            .norm_eps = 0 },
          6738415616 },
        { { 32, 4096, 32, 8192, 128256, 8, SPOT_DECODER_LLAMA, 8, 14336, 5e5, false,
            .norm_eps = 0 },
          8030261248 },
        { { 22, 2048, 32, 2048, 32000, 4, SPOT_DECODER_LLAMA, 4, 5632, 1e4, false, .norm_eps = 0 },
          1100048384 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(spot_shape_check(&cases[i].shape, NULL), 0);
        ck_assert_int_eq(spot_shape_params(&cases[i].shape), cases[i].params);
    }
}
END_TEST

START_TEST(the_kinds_that_training_names_are_rows_of_the_table)
{
    const struct spot_decoder gpt2 = SPOT_DECODER_GPT2, llama = SPOT_DECODER_LLAMA;
    struct spot_decoder got;

    ck_assert_int_eq(spot_hf_family_kind("gpt2", &got), 0);
    ck_assert_mem_eq(&got, &gpt2, sizeof(got));
    ck_assert_int_eq(spot_hf_family_kind("llama", &got), 0);
    ck_assert_mem_eq(&got, &llama, sizeof(got));
    ck_assert_int_eq(spot_hf_family_kind("Llama", &got), -1);
    for (int64_t i = 0; spot_hf_family(i); i++) {
        ck_assert_int_eq(spot_hf_family_find(spot_hf_family(i)->type), i);
        ck_assert_ptr_nonnull(strstr(spot_hf_family_list(), spot_hf_family(i)->type));
    }
}
END_TEST

START_TEST(a_set_of_layers_is_what_it_was_made_of)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int round = 0; round < 500; round++) {
        const int64_t n = 1 + (int64_t)spot_rng_below(&rng, 100);
        const int64_t period = 1 + (int64_t)spot_rng_below(&rng, 80);
        struct spot_layer_set set;
        bool is_in[100];

        for (int64_t i = 0; i < n; i++)
            is_in[i] = i < period ? spot_rng_below(&rng, 2) : is_in[i - period];
        if (spot_layer_set_of(&set, is_in, n)) {
            ck_assert_int_gt(n, 64); /* else any set has a period */
            ck_assert_int_gt(period, 64);
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            ck_assert_int_eq(spot_layer_in(&set, i), is_in[i]);
    }
}
END_TEST

START_TEST(a_vocabulary_is_padded_no_more_than_it_must_be)
{
    struct spot_shape s = {
        .n_layer = 1, .width = 960, .n_head = 240, .seq = 4, .vocab = 0, .n_shard = 0
    };

    for (s.n_shard = 1; s.n_shard <= 240; s.n_shard++)
        for (s.vocab = 1; s.vocab < 60000; s.vocab += 1 + s.vocab / 7) {
            const int64_t rows = spot_shape_vocab_rows(&s);
            int64_t want = s.vocab;

            while (want % s.n_shard || (s.vocab >= 1024 && want % 128))
                want++;
            ck_assert_int_eq(rows, want);
        }
    s.n_shard = 4;
    s.vocab = 50257; /* of GPT-2 */
    ck_assert_int_eq(spot_shape_vocab_rows(&s), 50304);
}
END_TEST

static const struct {
    struct spot_shape shape;
    const char *message;
} bad_cases[] = {
    { { .n_layer = 0, .width = 8, .n_head = 2, .seq = 4, .vocab = 8, .n_shard = 2 },
      "model shape: layers is 0, expected 1 to 4096" },
    { { .n_layer = 1, .width = 9, .n_head = 2, .seq = 4, .vocab = 8, .n_shard = 2 },
      "model shape: heads (2) does not divide width (9)" },
    { { .n_layer = 1, .width = 8, .n_head = 2, .seq = 4, .vocab = 8, .n_shard = 4 },
      "model shape: shards (4) does not divide heads (2)" },
    { { .n_layer = 1, .width = 8, .n_head = -2, .seq = 4, .vocab = 8, .n_shard = 2 },
      "model shape: heads is -2, expected 1 to 1024" },
    { { .n_layer = 1, .width = 8, .n_head = 2, .seq = INT64_MAX, .vocab = 8, .n_shard = 2 },
      "model shape: sequence is 9223372036854775807, expected 1 to 1048576" },
    { { .n_layer = 4096,
        .width = 65536,
        .n_head = 1024,
        .seq = 1 << 20,
        .vocab = 1 << 20,
        .n_shard = 1 },
      "model shape: 211315880755200 parameters, the limit is 1099511627776" },
    { { 1, 8, 2, 4, 8, 2, { .norm = 2 }, 0, 0, 0, false, .norm_eps = 0 },
      "model shape: kind of norm is 2, expected 0 to 1" },
    { { 1, 8, 2, 4, 8, 2, { .local = { 2, 1 } }, 0, 0, 0, false, .norm_eps = 0 },
      "model shape: layers have a window of 0 positions" },
    { { 1, 8, 2, 4, 8, 2, { .local = { 65, 1 } }, 0, 0, 0, false, .norm_eps = 0 },
      "model shape: layers with a window repeat after 65, expected 0 to 64" },
    { { 1, 8, 2, 4, 8, 2, { .attention_cap = -1 }, 0, 0, 0, false, .norm_eps = 0 },
      "model shape: cap of attention is -1, expected" },
    { { 1, 8, 2, 4, 8, 2, SPOT_DECODER_GPT2, 2, 0, 1e4, false, .norm_eps = 0 },
      "model shape: the base of the rotary positions is 10000, expected" },
    { { 1, 8, 4, 4, 8, 1, SPOT_DECODER_LLAMA, 3, 8, 1e4, false, .norm_eps = 0 },
      "model shape: key and value heads (3) does not divide heads (4)" },
    { { 1, 8, 4, 4, 8, 4, SPOT_DECODER_LLAMA, 2, 8, 1e4, false, .norm_eps = 0 },
      "model shape: shards (4) does not divide key and value heads (2)" },
    { { 1, 8, 4, 4, 8, 2, SPOT_DECODER_LLAMA, 2, 7, 1e4, false, .norm_eps = 0 },
      "model shape: shards (2) does not divide width of the MLP (7)" },
    { { 1, 12, 4, 4, 8, 1, SPOT_DECODER_LLAMA, 2, 8, 1e4, false, .norm_eps = 0 },
      "model shape: a head is 3 wide, rotary positions need an even width" },
    { { 1, 8, 4, 4, 8, 1, SPOT_DECODER_LLAMA, -1, 8, 1e4, false, .norm_eps = 0 },
      "model shape: key and value heads is -1, expected 1 to 1024" },
    { { 1, 8, 4, 4, 8, 1, SPOT_DECODER_LLAMA, 4, 1 << 19, 1e4, false, .norm_eps = 0 },
      "model shape: width of the MLP is 524288, expected 1 to 262144" },
    { { 1, 8, 4, 4, 8, 1, SPOT_DECODER_LLAMA, 4, 8, 0.5, false, .norm_eps = 0 },
      "model shape: the base of the rotary positions is 0.5, expected 1 to 1e9" },
    { { .n_layer = 1, .width = 8, .n_head = 2, .seq = 4, .vocab = 8, .n_shard = 2, .norm_eps = 1 },
      "model shape: eps of the norms is 1, expected 1e-12 to 0.01" },
    { { 1, 8, 4, 4, 8, 1, SPOT_DECODER_LLAMA, 4, 8, 1e4, false, .norm_eps = -1e-5 },
      "model shape: eps of the norms is -1e-05, expected 1e-12 to 0.01" },
    { { 1, 8, 4, 4, 8, 1, SPOT_DECODER_LLAMA, 4, 8, 1e4, false, .norm_eps = NAN },
      "model shape: eps of the norms is nan, expected 1e-12 to 0.01" },
    { { 1, 8, 4, 4, 8, 1, SPOT_DECODER_LLAMA, 4, 8, 1e4, 2, .norm_eps = 0 },
      "model shape: tied is 2, expected 0 or 1" },
    { { 1, 8, 4, 4, 8, 1, SPOT_DECODER_LLAMA, 4, 8, 1e4, 0, .norm_eps = 0, .head_dim = 5000 },
      "model shape: width of a head is 5000, expected 1 to 4096" },
};

START_TEST(refuses_what_cannot_be_cut_or_would_not_fit)
{
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_shape_check(&bad_cases[_i].shape, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(!strncmp(err.msg, bad_cases[_i].message, strlen(bad_cases[_i].message)), "%s",
                  err.msg);
}
END_TEST

START_TEST(what_is_recomputed_is_found_by_name)
{
    for (int k = 0; k < SPOT_RECOMPUTES; k++)
        ck_assert_int_eq(spot_recompute_find(spot_recompute_name(k)), k);
    ck_assert_int_eq(spot_recompute_find("all"), -1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, every_parameter_has_one_aligned_place, 0, 8);
    tcase_add_loop_test(tc, refuses_what_cannot_be_cut_or_would_not_fit, 0,
                        sizeof(bad_cases) / sizeof(bad_cases[0]));
    add_tests(tc);
    return run_suite("arena", tc);
}

/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "byte_level_rig.h"
#include "common/json.h"
#include "common/rng.h"
#include "serve/front.h"
#include "serve/openai_state.h"
#include "suite.h"

/* Goal: the text of a choice, the text told after each token, and where it ends are those of
 * decoding everything at once and looking for the stop texts. */

static struct spot_bpe *bpe;
static struct spot_vocabulary vocabulary;
static const uint32_t end_token = 'E';

static void setup(void)
{
    bpe = spot_bpe_of_bytes();
    vocabulary = (struct spot_vocabulary){ .bpe = bpe, .end = &end_token, .n_end = 1 };
}

static void teardown(void)
{
    spot_bpe_free(bpe);
}

static struct spot_request request_of(size_t n_token_max, const char *const *stop, size_t n_stop)
{
    struct spot_request r = { .id = "cmpl-1", .n_prompt = 1, .n_choice = 1, .n_logprob = -1 };

    r.prompt = calloc(1, sizeof(*r.prompt));
    r.n_token_max = (int64_t)n_token_max;
    for (size_t i = 0; i < n_stop; i++)
        r.stop[r.n_stop++] = strdup(stop[i]);
    return r;
}

/* Decode all at once; NULL-terminated, to be freed. */
static char *decoded(const uint32_t *id, size_t n)
{
    struct spot_detokenizer d;
    struct spot_buf text = { 0 };

    spot_detok_init(&d, bpe, false, false);
    for (size_t i = 0; i < n; i++)
        spot_detok_push(&d, id[i], &text);
    spot_detok_end(&d, &text);
    spot_detok_release(&d);
    spot_buf_add(&text, "", 1);
    return (char *)text.data;
}

/* The first of a few signs that are split among tokens, overlap in stop texts, or end it. */
static uint32_t random_sign(struct spot_rng *rng)
{
    static const uint8_t sign[] = { 'a', 'a', 'b', 'c', 0xC3, 0xA4, 0xE2, 0x82, 0xAC, 0xFF };

    return spot_rng_below(rng, 60) ? sign[spot_rng_below(rng, sizeof(sign))] : end_token;
}

static void check_against_all_at_once(struct spot_rng *rng)
{
    static const char *const stop[] = { "ab", "aab", "ca\xC3\xA4", "bb" };
    const size_t n_stop = spot_rng_below(rng, 5), n_max = 1 + spot_rng_below(rng, 40);
    struct spot_request r = request_of(n_max, stop, n_stop);
    struct spot_completion *const c = spot_completion_new(&r, &vocabulary);
    const struct spot_choice *const h = &c->choice[0];
    uint32_t id[64];
    size_t n = 0, told = 0;

    while (c->n_open) {
        struct spot_token t = { .id = random_sign(rng) };
        char *want, *first = NULL;
        size_t length;
        bool ends;

        id[n++] = t.id;
        ck_assert_int_eq(spot_completion_append(c, 0, n - 1, &t), 0);
        ends = t.id == end_token || n == n_max;
        want = decoded(id, n - (t.id == end_token));
        length = strlen(want);
        for (size_t k = 0; k < n_stop; k++) {
            char *const at = strstr(want, stop[k]);

            if (at && (!first || at < first))
                first = at;
        }
        length = first ? (size_t)(first - want) : length;
        ck_assert_uint_le(h->text_end[n - 1], length);
        ck_assert_uint_ge(h->text_end[n - 1], told);
        told = h->text_end[n - 1];
        ck_assert(!memcmp(h->text.data ? (const char *)h->text.data : "", want, told));
        /* What is told later is only what may still become something else. */
        if (!n_stop && t.id < 0x80 && !ends)
            ck_assert_uint_eq(told, length);
        ck_assert_int_eq(c->n_open == 0, first != NULL || ends);
        if (!c->n_open) {
            ck_assert_uint_eq(told, length);
            ck_assert_int_eq(h->finish,
                             first || t.id == end_token ? SPOT_FINISH_STOP : SPOT_FINISH_LENGTH);
        }
        free(want);
    }
    spot_completion_unref(c);
}

START_TEST(text_is_that_of_decoding_at_once)
{
    struct spot_rng rng;

    spot_rng_init(&rng, (uint64_t)_i, 0);
    for (int k = 0; k < 2000; k++)
        check_against_all_at_once(&rng);
}
END_TEST

START_TEST(a_position_is_committed_once)
{
    struct spot_request r = request_of(3, NULL, 0);
    struct spot_completion *const c = spot_completion_new(&r, &vocabulary);
    struct spot_token a = { .id = 'a', .logprob = -1, .worker = 1 }, b = a;

    ck_assert_int_eq(spot_completion_append(c, 0, 1, &a), SPOT_APPEND_GAP); /* a gap */
    ck_assert_int_eq(spot_completion_append(c, 1, 0, &a), SPOT_APPEND_GAP); /* no such choice */
    ck_assert_int_eq(spot_completion_append(c, 0, 0, &a), 0);
    b.worker = 2;
    ck_assert_int_eq(spot_completion_append(c, 0, 0, &b), 1);
    b.logprob = -1.0000001;
    ck_assert_int_eq(spot_completion_append(c, 0, 0, &b), SPOT_APPEND_DIFFERS);
    spot_completion_finish(c, 0, SPOT_FINISH_CANCELLED);
    spot_completion_finish(c, 0, SPOT_FINISH_STOP); /* it has ended */
    ck_assert_int_eq(c->choice[0].finish, SPOT_FINISH_CANCELLED);
    ck_assert_uint_eq(c->n_open, 0);
    ck_assert_int_eq(spot_completion_append(c, 0, 1, &a), 1);
    ck_assert_uint_eq(c->choice[0].n_token, 1);
    spot_completion_unref(spot_completion_ref(c));
    spot_completion_unref(c);
}
END_TEST

/* --- requests as bytes -------------------------------------------------------- */

START_TEST(a_request_survives_the_wire)
{
    static const char *const stop[] = { "x", "yz" };
    struct spot_request r = request_of(7, stop, 2), got;
    struct spot_buf one = { 0 }, two = { 0 };
    struct spot_wire_in in;

    r.form = strdup("{}");
    r.response = strdup("{\"user\":\"u\"}");
    r.tool_form = SPOT_TOOL_JSON;
    r.n_token_min = 3;
    r.n_stop_id = 2;
    r.stop_id = calloc(2, sizeof(*r.stop_id));
    r.stop_id[1] = 9;
    r.keeps_stop = r.tells_ids = true;
    r.n_bias = 2;
    r.bias = calloc(2, sizeof(*r.bias));
    r.bias[0] = (struct spot_token_bias){ 7, -100 };
    r.bias[1] = (struct spot_token_bias){ 9, 0.3F };
    r.does_stream = r.does_echo = true;
    r.sample = spot_sample_plain;
    r.sample.top_k = 5;
    r.sample.seed = UINT64_MAX;
    spot_request_put(&r, &one);
    in = spot_wire_in(one.data, one.n);
    ck_assert_int_eq(spot_request_get(&got, &in), 0);
    ck_assert(spot_wire_in_done(&in));
    spot_request_put(&got, &two);
    ck_assert_uint_eq(one.n, two.n);
    ck_assert(!memcmp(one.data, two.data, one.n));
    ck_assert_str_eq(got.stop[1], "yz");
    ck_assert_uint_eq(got.bias[1].token, 9);
    ck_assert_float_eq(got.bias[1].bias, 0.3F);
    ck_assert(got.does_stream && got.does_echo && !got.is_chat && !got.wants_usage);
    spot_request_release(&got);
    for (size_t n = 0; n < one.n; n++) { /* whatever is cut is refused, and nothing leaks */
        in = spot_wire_in(one.data, n);
        ck_assert_int_eq(spot_request_get(&got, &in), -1);
    }
    spot_request_release(&r);
    spot_buf_release(&one);
    spot_buf_release(&two);
}
END_TEST

/* Special tokens are no text, but a client that knows their names can stop there. */
START_TEST(a_special_token_whose_name_is_a_stop_text_ends_a_choice)
{
    static const char *const stop[] = { "q", "<|end|>" };
    static const uint32_t said[] = { 'a', 256, 'b' };
    const struct spot_vocabulary special = { .bpe = bpe_with_special() };

    for (size_t n_stop = 0; n_stop <= 2; n_stop++) {
        struct spot_request r = request_of(3, stop, n_stop);
        struct spot_completion *c;

        r.ignores_end = n_stop == 2;
        c = spot_completion_new(&r, &special);
        for (size_t i = 0; i < 3; i++)
            spot_completion_append(c, 0, i, &(struct spot_token){ .id = said[i] });
        ck_assert_int_eq(c->choice[0].finish, n_stop == 2 ? SPOT_FINISH_STOP : SPOT_FINISH_LENGTH);
        ck_assert_uint_eq(c->choice[0].n_token, n_stop == 2 ? 2 : 3);
        ck_assert_uint_eq(c->choice[0].text.n, n_stop == 2 ? 1 : 2);
        spot_completion_unref(c);
    }
    spot_bpe_free(special.bpe);
}
END_TEST

/* --- answers ------------------------------------------------------------------ */

static struct spot_front_options options(void)
{
    return (struct spot_front_options){
        .model = "m", .vocabulary = &vocabulary, .n_context = 64, .n_vocabulary = 256
    };
}

/* Chunks put together are the answer. */
START_TEST(a_stream_says_what_the_answer_says)
{
    const struct spot_front_options o = options();
    static const char *const stop[] = { "q" };
    struct spot_request r = request_of(9, stop, 1);
    struct spot_completion *c;
    struct spot_buf text = { 0 }, answer = { 0 };
    struct spot_json_doc doc;
    const struct spot_json_value *choice;

    r.n_logprob = 1;
    c = spot_completion_new(&r, &vocabulary);
    for (size_t i = 0; c->n_open; i++) {
        struct spot_token t = { .id = (uint8_t) "a\0\"\xC3\xA4"
                                                "bzzq"[i],
                                .logprob = i == 2 ? -HUGE_VAL : -0.5 * (double)i,
                                .n_top = 1,
                                .top = { { 'x', -1 } } };

        ck_assert_int_eq(spot_completion_append(c, 0, i, &t), 0);
    }
    for (size_t i = 0; i < c->choice[0].n_token; i++) {
        struct spot_buf chunk = { 0 };
        const char *piece, *worker;

        spot_openai_chunk(&o, c, 0, i, i % 2 == 0, "w1", &chunk);
        if (i == 1) { /* a NUL is told, though our own reader takes none */
            spot_buf_add(&chunk, "", 1);
            ck_assert_ptr_nonnull(strstr((char *)chunk.data, "\"text\":\"\\u0000\""));
            spot_buf_add(&text, "", 1);
        } else {
            ck_assert_int_eq(spot_json_parse(&doc, (char *)chunk.data, chunk.n, "c", NULL), 0);
            choice = spot_json_entry(spot_json_get(doc.root, "choices"), 0);
            piece = spot_json_text(spot_json_get(choice, "text"));
            spot_buf_add(&text, piece, strlen(piece));
            ck_assert_int_eq(spot_json_text(spot_json_get(choice, "finish_reason")) != NULL,
                             i + 1 == c->choice[0].n_token);
            worker = spot_json_text(spot_json_get(spot_json_get(doc.root, "spot"), "worker"));
            ck_assert_int_eq(worker && !strcmp(worker, "w1"), i % 2 == 0); /* who asks hears it */
            spot_json_release(&doc);
        }
        spot_buf_release(&chunk);
    }
    ck_assert_uint_eq(text.n, c->choice[0].text.n);
    ck_assert(text.data && !memcmp(text.data, c->choice[0].text.data, text.n));
    ck_assert_uint_eq(text.n, 8);
    spot_openai_answer(&o, c, &answer);
    spot_buf_add(&answer, "", 1);
    ck_assert_ptr_nonnull(strstr((char *)answer.data, "\"text\":\"a\\u0000\\\"\xC3\xA4"
                                                      "bzz\""));
    ck_assert_ptr_nonnull(strstr((char *)answer.data, "\"completion_tokens\":9"));
    ck_assert_ptr_nonnull(strstr((char *)answer.data, "-9999"));
    ck_assert_ptr_nonnull(strstr((char *)answer.data, "\"finish_reason\":\"stop\""));
    spot_buf_release(&answer);
    spot_buf_release(&text);
    spot_completion_unref(c);
}
END_TEST

START_TEST(parts_of_characters_are_keys_of_their_own)
{
    static const struct spot_token token = { .id = 0xC3,
                                             .n_top = 4,
                                             .top = { { 0xC3 }, { 0xA4 }, { 0 }, { 'a' } } };
    const struct spot_front_options o = { .model = "m", .vocabulary = &vocabulary };
    struct spot_request r = request_of(1, NULL, 0);
    struct spot_completion *c;
    struct spot_buf answer = { 0 };
    const struct spot_json_value *top;
    struct spot_json_doc doc;

    r.n_logprob = 4;
    c = spot_completion_new(&r, &vocabulary);
    ck_assert_int_eq(spot_completion_append(c, 0, 0, &token), 0);
    spot_openai_answer(&o, c, &answer);
    ck_assert_int_eq(spot_json_parse(&doc, (char *)answer.data, answer.n, "answer", NULL), 0);
    top = spot_json_get(spot_json_entry(spot_json_get(doc.root, "choices"), 0), "logprobs");
    top = spot_json_entry(spot_json_get(top, "top_logprobs"), 0);
    ck_assert_uint_eq(spot_json_size(top), 4);
    ck_assert_ptr_nonnull(spot_json_get(top, "bytes:\\xc3"));
    ck_assert_ptr_nonnull(spot_json_get(top, "bytes:\\x00"));
    ck_assert_ptr_nonnull(spot_json_get(top, "a"));
    spot_json_release(&doc);
    spot_buf_release(&answer);
    spot_completion_unref(c);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("completion");

    tcase_add_unchecked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, text_is_that_of_decoding_at_once, 0, 3);
    add_tests(c);
    return run_case("completion", c);
}

/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/proof_doc.h"
#include "suite.h"

/* Goal: a proof says all that determines an answer, and what is changed in one is found. */

static struct spot_bpe *bpe;
static struct spot_vocabulary vocabulary;
static const uint32_t end_token[] = { 'E', 'F' };
static const struct spot_proof_of of = { .model = { 0x0123456789abcdef, 0xfedcba9876543210 },
                                         .kernel = "fma",
                                         .type = SPOT_INFER_BF16,
                                         .step = 17 };

static void setup(void)
{
    bpe = spot_bpe_of_bytes();
    vocabulary = (struct spot_vocabulary){ .bpe = bpe, .end = end_token, .n_end = 2 };
}

static void teardown(void)
{
    spot_bpe_free(bpe);
}

static uint32_t *copied(const uint32_t *from, size_t n)
{
    return memcpy(calloc(n, sizeof(*from)), from, n * sizeof(*from));
}

/* Two prompts with two choices each, and everything that a request may have. */
static struct spot_request rich_request(void)
{
    static const uint32_t prompt[] = { 3, 1, 4, 1, 5 }, end[] = { 2, 5 }, stop[] = { 200, 201 };
    struct spot_request r = { .id = "cmpl-77",
                              .n_prompt = 5,
                              .n_part = 2,
                              .n_choice = 4,
                              .is_seeded = true,
                              .n_bias = 2,
                              .n_token_max = 9,
                              .n_token_min = 1,
                              .n_logprob = 1,
                              .n_stop_id = 2,
                              .adapter = 1,
                              .tool_form = SPOT_TOOL_JSON,
                              .ignores_end = true,
                              .sample = { .temperature = 0.7,
                                          .top_k = 40,
                                          .top_p = 0.95,
                                          .min_p = 0.01,
                                          .repetition = 1.1,
                                          .presence = -0.5,
                                          .frequency = 0.25,
                                          .seed = 0x8000000000000063 } };

    r.prompt = copied(prompt, 5);
    r.part_end = copied(end, 2);
    r.stop_id = copied(stop, 2);
    r.bias = calloc(2, sizeof(*r.bias));
    r.bias[0] = (struct spot_token_bias){ 7, 1.5F };
    r.bias[1] = (struct spot_token_bias){ 9, -100 };
    r.stop[r.n_stop++] = strdup("stop\n");
    r.stop[r.n_stop++] = strdup("\"halt\"");
    r.form = strdup("{\"type\":\"regex\"}");
    return r;
}

/* An answer of n tokens to each choice: choice i has the letter 'a' + i. */
static struct spot_completion *answered(struct spot_request request, size_t n)
{
    struct spot_completion *const c = spot_completion_new(&request, &vocabulary);

    for (uint32_t i = 0; i < c->request.n_choice; i++) {
        for (size_t k = 0; k < n; k++) {
            const struct spot_token token = { .id = 'a' + i,
                                              .logprob = -0.1 * (double)(k + 1),
                                              .n_top = c->request.n_logprob > 0,
                                              .top = { { 'z', -0.05 } },
                                              .worker = i };

            ck_assert_int_eq(spot_completion_append(c, i, k, &token), SPOT_APPEND_NEW);
        }
        spot_completion_finish(c, i, SPOT_FINISH_LENGTH);
    }
    return c;
}

static struct spot_buf proof_of(const struct spot_completion *c)
{
    struct spot_buf text = { 0 };

    spot_proof_put(&of, c, &text);
    return text;
}

static void parse(struct spot_proof *p, const struct spot_buf *text)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_proof_parse(p, (const char *)text->data, text->n, "proof", &err), "%s",
                  err.msg);
}

START_TEST(what_is_written_is_read_again)
{
    struct spot_request request = rich_request();
    struct spot_completion *const c = answered(request, 5);
    struct spot_buf text = proof_of(c), again = { 0 }, bytes = { 0 }, read = { 0 };
    struct spot_proof p;
    struct spot_completion *anew;

    parse(&p, &text);
    spot_request_put(&c->request, &bytes);
    spot_request_put(&p.request, &read);
    ck_assert_uint_eq(bytes.n, read.n);
    ck_assert_int_eq(memcmp(bytes.data, read.data, read.n), 0);
    ck_assert_uint_eq(p.n_end, 2);
    ck_assert_uint_eq(p.end[1], 'F');
    ck_assert_str_eq(p.of.kernel, "fma");
    ck_assert_int_eq(p.of.type, SPOT_INFER_BF16);
    ck_assert_int_eq(p.of.step, 17);
    ck_assert_int_eq(spot_proof_compare(&p, c, NULL), 0);
    /* and the same document comes of what was read */
    anew = answered(p.request, 5);
    p.request = (struct spot_request){ .n_choice = anew->request.n_choice };
    spot_proof_put(&of, anew, &again);
    ck_assert_uint_eq(again.n, text.n);
    ck_assert_int_eq(memcmp(again.data, text.data, text.n), 0);
    spot_completion_unref(anew);
    spot_completion_unref(c);
    spot_proof_release(&p);
    spot_buf_release(&text);
    spot_buf_release(&again);
    spot_buf_release(&bytes);
    spot_buf_release(&read);
}
END_TEST

START_TEST(a_plain_request_has_no_more_than_it_needs)
{
    struct spot_request r = { .id = "cmpl-1",
                              .n_prompt = 1,
                              .prompt = calloc(1, sizeof(uint32_t)),
                              .n_choice = 1,
                              .n_token_max = 3,
                              .n_logprob = -1,
                              .sample = { .top_p = 1, .repetition = 1 } };
    struct spot_completion *const c = answered(r, 3);
    struct spot_buf text = proof_of(c);
    struct spot_proof p;

    parse(&p, &text);
    ck_assert_uint_eq(p.request.n_part, 0);
    ck_assert_ptr_null(p.request.form);
    ck_assert_int_eq(p.request.n_logprob, -1);
    ck_assert_uint_eq(p.choice[0].n_token, 3);
    ck_assert_int_eq(p.choice[0].finish, SPOT_FINISH_LENGTH);
    spot_proof_release(&p);
    spot_completion_unref(c);
    spot_buf_release(&text);
}
END_TEST

/* Any one byte of it, made the next or the one before: names of keys, numbers, texts, hashes. */
START_TEST(whatever_is_changed_is_found)
{
    struct spot_completion *const c = answered(rich_request(), 5);
    struct spot_buf text = proof_of(c);
    struct spot_proof p;
    struct spot_err err;

    for (size_t i = 0; i + 1 < text.n; i++)
        for (int by = -1; by <= 1; by += 2) {
            const unsigned char was = text.data[i];

            text.data[i] = (unsigned char)(was + by);
            if (!spot_proof_parse(&p, (const char *)text.data, text.n, "proof", &err))
                ck_abort_msg("byte %zu, '%c' for '%c', is not seen in %.*s", i, text.data[i], was,
                             40, (const char *)text.data + (i > 20 ? i - 20 : 0));
            ck_assert_int_eq(err.code, SPOT_EDATA);
            text.data[i] = was;
        }
    spot_completion_unref(c);
    spot_buf_release(&text);
}
END_TEST

START_TEST(what_was_changed_is_named)
{
    static const struct {
        const char *was, *is, *named;
    } change[] = {
        { "\"seed\":\"8", "\"seed\":\"9", "seed" },
        { "\"model_xxh3_128\":\"0", "\"model_xxh3_128\":\"1", "model" },
        { "\"temperature\":0.7", "\"temperature\":0.8", "sampling" },
        { "\"step\":17", "\"step\":18", "step" },
        { "[3,1]", "[3,2]", "/prompts/0" },
        { "[4,1,5]", "[4,1,6]", "/prompts/1" },
        { "[98,98,98,98,98]", "[98,98,98,98,97]", "/choices/1" },
    };
    struct spot_completion *const c = answered(rich_request(), 5);
    struct spot_buf text = proof_of(c);

    for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
        struct spot_buf other = { 0 };
        struct spot_proof p;
        struct spot_err err = { 0 };
        char *at;

        spot_buf_add(&other, text.data, text.n);
        spot_buf_add(&other, "", 1);
        at = strstr((char *)other.data, change[i].was);
        ck_assert_ptr_nonnull(at);
        memcpy(at, change[i].is, strlen(change[i].is));
        ck_assert_int_eq(spot_proof_parse(&p, (const char *)other.data, other.n - 1, "proof", &err),
                         -1);
        ck_assert_msg(strstr(err.msg, change[i].named) != NULL, "%s", err.msg);
        spot_buf_release(&other);
    }
    spot_completion_unref(c);
    spot_buf_release(&text);
}
END_TEST

/* Of an answer that is another than the proof says. */
static void differs(const struct spot_proof *p, struct spot_completion *c, const char *named)
{
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_proof_compare(p, c, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    ck_assert_msg(strstr(err.msg, named) != NULL, "%s", err.msg);
    spot_completion_unref(c);
}

START_TEST(what_differs_is_named)
{
    struct spot_completion *const c = answered(rich_request(), 5), *other;
    struct spot_buf text = proof_of(c);
    struct spot_proof_of here = of;
    struct spot_proof p;
    struct spot_err err = { 0 };

    parse(&p, &text);
    other = answered(rich_request(), 5);
    other->choice[2].token[3].id++;
    differs(&p, other, "choice 2: token 3 is 99 in the proof, 100");
    differs(&p, answered(rich_request(), 4), "ends by length after 5 tokens in the proof");
    other = answered(rich_request(), 5);
    other->choice[1].finish = SPOT_FINISH_STOP;
    differs(&p, other, "choice 1: ends by length");
    other = answered(rich_request(), 5);
    other->choice[3].token[0].top[0].logprob = -0.0500000000000001;
    differs(&p, other, "choice 3: the tokens are equal, their log probabilities are not");

    ck_assert_int_eq(spot_proof_check(&p, &here, &err), 0);
    here.model.low ^= 1;
    ck_assert_int_eq(spot_proof_check(&p, &here, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "model: "));
    here = of;
    here.kernel = "cuda-bf16-sm90x132-lt130100-cc1300";
    ck_assert_int_eq(spot_proof_check(&p, &here, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "kernel: the proof is of fma"));
    here = of;
    here.type = SPOT_INFER_FP32;
    ck_assert_int_eq(spot_proof_check(&p, &here, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "dtype: the proof is of bf16"));
    spot_proof_release(&p);
    spot_completion_unref(c);
    spot_buf_release(&text);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("proof_doc");

    tcase_add_checked_fixture(c, setup, teardown);
    add_tests(c);
    return run_case("proof_doc", c);
}

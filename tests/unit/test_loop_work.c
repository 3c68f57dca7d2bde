/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "growth.h"
#include "large_vocabulary.h"
#include "serve/completion.h"
#include "serve/front.h"
#include "serve/grammar.h"
#include "serve/openai_state.h"

/* Goal: what any client can make the only loop of a server do grows with the bytes that the client
 * sends or is told, and not with their square: the worst of each (docs/design/10-threats.md). */

static struct spot_bpe *bytes, *large, *large_plain;
static struct spot_vocabulary vocabulary;
static struct spot_front_options options;

static void setup(void)
{
    struct spot_err err = { 0 };

    large = large_vocabulary(LARGE_ADDED, &err);
    large_plain = large_vocabulary(1, &err);
    ck_assert_msg(large && large_plain, "%s", err.msg);
    bytes = spot_bpe_of_bytes();
    vocabulary = (struct spot_vocabulary){ .bpe = bytes };
    options = (struct spot_front_options){
        .model = "m", .vocabulary = &vocabulary, .n_context = 1 << 24, .n_vocabulary = 256
    };
}

static void teardown(void)
{
    spot_bpe_free(bytes);
    spot_bpe_free(large);
    spot_bpe_free(large_plain);
}

static void append(struct spot_completion *c, uint32_t id)
{
    const struct spot_token t = { .id = id, .logprob = -1 };

    ck_assert_int_eq(spot_completion_append(c, 0, c->choice[0].n_token, &t), 0);
}

/* --- tokens ------------------------------------------------------------------------ */

/* n tokens, and the answer whole, or as the chunks of a stream. */
static double told_s(struct spot_request *r_take, size_t n, bool is_stream)
{
    const double begun_s = growth_cpu_s();
    struct spot_completion *const c = spot_completion_new(r_take, &vocabulary);
    struct spot_buf out = { 0 };
    double s;

    for (size_t i = 0; i < n; i++)
        append(c, 'a');
    if (!is_stream)
        spot_openai_answer(&options, c, &out);
    for (size_t i = 0; is_stream && i < n; i++, out.n = 0)
        spot_openai_chunk(&options, c, 0, i, false, NULL, &out);
    s = growth_cpu_s() - begun_s;
    ck_assert_int_eq(c->n_open, 0);
    spot_buf_release(&out);
    spot_completion_unref(c);
    return s;
}

static struct spot_request request_of(size_t n_prompt, size_t n)
{
    struct spot_request r = {
        .id = "cmpl-1", .n_prompt = n_prompt, .n_choice = 1, .n_token_max = (int64_t)n
    };

    r.prompt = spot_xcalloc(n_prompt, sizeof(*r.prompt));
    for (size_t i = 0; i < n_prompt; i++)
        r.prompt[i] = 'a';
    return r;
}

/* A prompt of which each token is told with its log probability. */
static double echo_s(size_t n)
{
    struct spot_request r = request_of(n + 1, 0);

    r.does_echo = true;
    return told_s(&r, n, false);
}

static double echo_stream_s(size_t n)
{
    struct spot_request r = request_of(n + 1, 0);

    r.does_echo = true;
    return told_s(&r, n, true);
}

static double answer_s(size_t n)
{
    struct spot_request r = request_of(1, n);

    return told_s(&r, n, false);
}

START_TEST(an_echo_grows_with_the_prompt)
{
    check_growth("an echo with log probabilities", echo_s, 1000);
    check_growth("the same as a stream", echo_stream_s, 1000);
}
END_TEST

START_TEST(an_answer_grows_with_its_tokens)
{
    check_growth("an answer with log probabilities", answer_s, 4000);
}
END_TEST

/* --- stop texts -------------------------------------------------------------------- */

/* As many as there may be, each of n bytes of which the text ends in the first half. */
static double stops_s(size_t n)
{
    struct spot_request r = request_of(1, 20000);

    r.n_logprob = -1;
    for (; r.n_stop < SPOT_REQUEST_STOPS_MAX; r.n_stop++) {
        char *const stop = spot_xcalloc(n + 1, 1);

        memset(stop, 'a', n / 2);
        memset(stop + n / 2, 'b', n - n / 2);
        r.stop[r.n_stop] = stop;
    }
    return told_s(&r, 20000, false);
}

START_TEST(a_token_costs_the_same_under_long_stop_texts)
{
    const double short_s = growth_least_s(stops_s, 16), long_s = growth_least_s(stops_s, 1024);

    ck_assert_msg(long_s < 3 * short_s, "%.6f s of short ones, %.6f s of long ones", short_s,
                  long_s);
}
END_TEST

/* --- texts ------------------------------------------------------------------------- */

/* Letters without order in one piece, a name that is not ended, blanks, words. */
static char *text_of(int kind, size_t n)
{
    static const char almost[] = "<|reserved_special_token_1";
    char *const text = spot_xcalloc(n + 1, 1);
    uint32_t x = 1;

    for (size_t i = 0; i < n; i++) {
        const char letter = (char)('a' + (x >> 20) % 26);

        x = x * 1103515245 + 12345;
        text[i] = kind == 0       ? letter
                  : kind == 1     ? almost[i % (sizeof(almost) - 1)]
                  : kind == 2     ? " \n"[(x >> 16) & 1]
                  : (x >> 16) % 6 ? letter
                                  : ' ';
    }
    return text;
}

enum { KINDS = 4 };
static int kind;
static struct spot_bpe *encoder;

static double encode_s(size_t n)
{
    char *const text = text_of(kind, n);
    struct spot_tokens tokens = { 0 };
    const double begun_s = growth_cpu_s();
    double s;

    spot_bpe_encode_named(encoder, text, n, &tokens);
    s = growth_cpu_s() - begun_s;
    ck_assert_uint_ge(tokens.n, spot_bpe_least_tokens(encoder, n));
    free(tokens.id);
    free(text);
    return s;
}

START_TEST(a_text_costs_in_proportion_to_its_bytes)
{
    kind = _i;
    encoder = large;
    check_growth("a text", encode_s, 1 << 17);
}
END_TEST

START_TEST(names_of_tokens_cost_nothing_where_they_are_not)
{
    double few_s, many_s;

    kind = _i;
    encoder = large_plain;
    few_s = growth_least_s(encode_s, 1 << 18);
    encoder = large;
    many_s = growth_least_s(encode_s, 1 << 18);
    ck_assert_msg(many_s < 3 * few_s, "one name: %.6f s, %d: %.6f s", few_s, LARGE_ADDED, many_s);
}
END_TEST

/* What no context holds is not encoded to be counted. */
START_TEST(a_text_is_encoded_as_far_as_the_context)
{
    char *const text = text_of(3, 1 << 20);
    struct spot_tokens tokens = { .most = 1000 };

    spot_bpe_encode_named(large, text, 1 << 20, &tokens);
    ck_assert_uint_gt(tokens.n, 1000);
    ck_assert_uint_lt(tokens.n, 1100);
    tokens.n = 0;
    spot_bpe_encode(large, text, 1 << 20, true, &tokens);
    ck_assert_uint_gt(tokens.n, 1000);
    ck_assert_uint_lt(tokens.n, 1100);
    ck_assert_uint_eq(spot_bpe_least_tokens(large, 30 * 2000), 2000);
    free(tokens.id);
    free(text);
}
END_TEST

/* Refused by its bytes alone: this takes what reading the JSON takes. */
START_TEST(a_prompt_that_no_context_holds_is_refused_by_its_length)
{
    static const char *const before[] = { "", "[\"a\"," }, *const behind[] = { "", "]" };
    const size_t n = 1 << 20;
    char *const text = text_of(0, n), *const body = spot_xcalloc(n + 100, 1);
    struct spot_front_options o = options;
    struct spot_buf error = { 0 };
    struct spot_request r;

    o.n_context = 1000;
    snprintf(body, n + 100, "{\"model\":\"m\",\"prompt\":%s\"%s\"%s}", before[_i], text,
             behind[_i]);
    ck_assert_int_eq(spot_openai_parse(&o, false, body, strlen(body), &r, &error), 400);
    spot_buf_add(&error, "", 1);
    ck_assert_ptr_nonnull(strstr((char *)error.data, "context_length_exceeded"));
    ck_assert_ptr_nonnull(strstr((char *)error.data, "resulted in at least 1048576 tokens"));
    spot_buf_release(&error);
    free(body);
    free(text);
}
END_TEST

/* --- schemas ----------------------------------------------------------------------- */

/* n names that are required, of n / 16 properties. */
static double required_s(size_t n)
{
    char *text = NULL;
    size_t n_byte = 0;
    FILE *const f = open_memstream(&text, &n_byte);
    struct spot_err err = { 0 };
    double begun_s, s;

    fputs("{\"type\":\"object\",\"properties\":{\"p0\":true", f);
    for (size_t i = 1; i < n / 16; i++)
        fprintf(f, ",\"p%zu\":true", i);
    fputs("},\"required\":[\"p0\"", f);
    for (size_t i = 1; i < n; i++)
        fprintf(f, ",\"p%zu\"", i % (n / 16));
    fputs("]}", f);
    fclose(f);
    begun_s = growth_cpu_s();
    for (int i = 0; i < 10; i++)
        ck_assert_msg(!spot_grammar_check(text, n_byte, &err), "%s", err.msg);
    s = growth_cpu_s() - begun_s;
    free(text);
    return s;
}

START_TEST(a_schema_costs_in_proportion_to_its_bytes)
{
    check_growth("names that are required", required_s, 1000);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("loop_work");

    tcase_add_unchecked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, an_echo_grows_with_the_prompt);
    tcase_add_test(c, an_answer_grows_with_its_tokens);
    tcase_add_test(c, a_token_costs_the_same_under_long_stop_texts);
    tcase_add_loop_test(c, a_text_costs_in_proportion_to_its_bytes, 0, KINDS);
    tcase_add_loop_test(c, names_of_tokens_cost_nothing_where_they_are_not, 0, KINDS);
    tcase_add_test(c, a_text_is_encoded_as_far_as_the_context);
    tcase_add_loop_test(c, a_prompt_that_no_context_holds_is_refused_by_its_length, 0, 2);
    tcase_add_test(c, a_schema_costs_in_proportion_to_its_bytes);
    return run_case("loop_work", c);
}

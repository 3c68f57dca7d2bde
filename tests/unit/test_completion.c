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
 * decoding everything at once and looking for the stop texts; a body becomes the request that it
 * says, or an error that names what is wrong. */

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

    r.schema = strdup("{}");
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

/* --- bodies ------------------------------------------------------------------- */

static struct spot_front_options options(void)
{
    return (struct spot_front_options){
        .model = "m", .vocabulary = &vocabulary, .n_context = 64, .n_vocabulary = 256
    };
}

static const struct {
    bool is_chat;
    int status;
    const char *body, *says;
} bad[] = {
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"zz\":1}",
      "Unrecognized request argument supplied: zz" },
    { false, 400, "{\"prompt\":\"a\"}", "you must provide a model parameter" },
    { false, 404, "{\"model\":\"n\",\"prompt\":\"a\"}", "model_not_found" },
    { false, 404, "{\"model\":\"n\",\"prompt\":\"a\"}", "this server has 'm'" },
    { true, 400, "{\"model\":\"m\",\"tools\":[{\"type\":\"function\"}],\"tool_choice\":\"none\"}",
      "'tools' is not supported" },
    { true, 400, "{\"model\":\"m\",\"tool_choice\":\"required\"}",
      "'tool_choice' is not supported" },
    { true, 400, "{\"model\":\"m\",\"tools\":\"none\"}", "'tools' is not supported" },
    { true, 400, "{\"model\":\"m\",\"parallel_tool_calls\":\"none\"}",
      "'parallel_tool_calls' is not supported" },
    { false, 400, "{\"model\":\"m\"}", "'prompt' must be" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"\"}", "no tokens" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[1,256]}", "0 to 255" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[\"a\",\"\"]}", "no tokens" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[\"a\",1]}", "an array of such" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[[1],[256]]}", "0 to 255" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[]}", "no tokens" },
    { false, 400, "{\"model\":\"m\",\"prompt\":{}}", "'prompt' must be" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"n\":65}", "128 choices at most" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[\"a\",\"bbbb\"],\"max_tokens\":61}",
      "context_length_exceeded" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":0}", "integer of 1" },
    { false, 400,
      "{\"model\":\"m\",\"prompt\":\"a\",\"ignore_eos\":true,\"response_format\":{\"type\":\"json_"
      "object\"}}",
      "'ignore_eos' with" },
    { false, 400,
      "{\"model\":\"m\",\"prompt\":\"a\",\"echo\":true,\"max_tokens\":0,\"stream\":true}",
      "stream of 0" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"temperature\":2.5}", "0 to 2" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"temperature\":\"1\"}", "must be a number" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"n\":0}", "'n' must be an integer of 1" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":64}",
      "context_length_exceeded" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"stop\":\"\"}", "'stop' must be" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"logprobs\":21}", "0 to 20" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"suffix\":\"b\"}",
      "'suffix' is not supported" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"messages\":[]}", "supplied: messages" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"stream_options\":{\"include_usage\":true}}",
      "beside 'stream'" },
    { false, 400,
      "{\"model\":\"m\",\"prompt\":\"a\",\"stream\":true,\"stream_options\":{\"include_"
      "usage\":1}}",
      "'stream_options.include_usage' must be true or false" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"5\":1,\"05\":2}}",
      "key '05'" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"5\":100.0000001}}",
      "a number of -100 to 100" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"temperature\":NaN}", "could not parse" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"temperature\":1e400}", "could not parse" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"seed\":9223372036854775808}",
      "could not parse" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":9007199254740993}",
      "must be an integer" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":-0}", "integer of 1" },
    { false, 400,
      "{\"model\":\"m\",\"prompt\":\"a\",\"response_format\":{\"type\":\"json_object\","
      "\"schema\":{\"type\":\"string\"}}}",
      "'response_format.schema' is not supported" },
    { false, 400,
      "{\"model\":\"m\",\"prompt\":\"a\",\"response_format\":{\"type\":\"text\","
      "\"json_schema\":{\"schema\":{\"type\":\"string\"}}}}",
      "'response_format.json_schema' is not supported" },
    { true, 400, "{\"model\":\"m\",\"web_search_options\":{}}", "'web_search_options' is not" },
    { true, 400, "{\"model\":\"m\",\"modalities\":[\"text\",\"audio\"]}", "'modalities' is not" },
    { true, 400, "{\"model\":\"m\",\"top_logprobs\":2}", "needs 'logprobs'" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"response_format\":{\"type\":\"xml\"}}",
      "response_format" },
    { false, 400,
      "{\"model\":\"m\",\"prompt\":\"a\",\"response_format\":{\"type\":\"json_schema\",\"json_"
      "schema\":"
      "{\"name\":\"x\",\"schema\":{\"type\":\"car\"}}}}",
      "no such type: car" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":[1]}", "must be an object" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"a\":1}}", "key 'a'" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"-1\":1}}", "key '-1'" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"999999999\":1}}",
      "not a token of this model" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"5\":101}}",
      "a number of -100 to 100" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"logit_bias\":{\"5\":\"x\"}}",
      "a number of -100 to 100" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\"", "could not parse" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"\xFF\"}", "could not parse" },
    { false, 400, "[]", "could not parse" },
    { true, 400, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
      "no chat template" },
    { true, 400, "{\"model\":\"m\",\"messages\":[],\"echo\":true}", "supplied: echo" },
};

START_TEST(what_is_wrong_with_a_body_is_named)
{
    const struct spot_front_options o = options();
    struct spot_request r;
    struct spot_buf error = { 0 };
    struct spot_json_doc doc;

    ck_assert_int_eq(
        spot_openai_parse(&o, bad[_i].is_chat, bad[_i].body, strlen(bad[_i].body), &r, &error),
        bad[_i].status);
    spot_buf_add(&error, "", 1);
    ck_assert_msg(strstr((char *)error.data, bad[_i].says) != NULL, "%s: %s", bad[_i].body,
                  (char *)error.data);
    ck_assert_int_eq(spot_json_parse(&doc, (char *)error.data, error.n - 1, "e", NULL), 0);
    ck_assert_str_eq(spot_json_text(spot_json_get(spot_json_get(doc.root, "error"), "type")),
                     "invalid_request_error");
    spot_json_release(&doc);
    spot_buf_release(&error);
}
END_TEST

START_TEST(a_body_becomes_the_request_that_it_says)
{
    static const char body[] =
        "{\"model\":\"m\",\"prompt\":\"h\\u00e4\",\"max_tokens\":9,\"temperature\":0.5,\"top_p\":0."
        "9,"
        "\"top_k\":3,\"logit_bias\":{\"66\":-100,\"7\":1.5},\"seed\":-1,\"n\":2,\"stop\":[\"x\","
        "\"y\"],\"logprobs\":4,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true},\"user\":\"u\",\"suffix\":null,"
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"schema\":"
        "{\"type\":\"object\",\"properties\":{\"}\\\"\":{\"const\":\"]{\\\\\"}}}}}}";
    const struct spot_front_options o = options();
    struct spot_request r;

    ck_assert_int_eq(spot_openai_parse(&o, false, body, sizeof(body) - 1, &r, NULL), 0);
    ck_assert_uint_eq(r.n_prompt, 3);
    ck_assert_uint_eq(r.prompt[1], 0xC3);
    ck_assert_int_eq(r.n_token_max, 9);
    ck_assert_double_eq(r.sample.temperature, 0.5);
    ck_assert_double_eq(r.sample.top_p, 0.9);
    ck_assert_int_eq(r.sample.top_k, 3);
    ck_assert_uint_eq(r.n_bias, 2);
    ck_assert(r.bias[0].token == 7 && r.bias[0].bias == 1.5F && r.bias[1].token == 66);
    ck_assert_uint_eq(r.sample.seed, UINT64_MAX);
    ck_assert_uint_eq(r.n_choice, 2);
    ck_assert_uint_eq(r.n_stop, 2);
    ck_assert_int_eq(r.n_logprob, 4);
    ck_assert(r.does_stream && r.wants_usage && !r.does_echo);
    ck_assert_str_eq(r.schema,
                     "{\"type\":\"object\",\"properties\":{\"}\\\"\":{\"const\":\"]{\\\\\"}}}");
    ck_assert_uint_eq(strlen(r.id), strlen("cmpl-") + 32);
    spot_request_release(&r);
}
END_TEST

static struct spot_request chat_of(const char *more, const char *role)
{
    static const struct spot_chat chat = { .form = SPOT_CHAT_CHATML };
    struct spot_front_options o = options();
    struct spot_request r;
    struct spot_buf error = { 0 };
    char body[512];

    o.chat = &chat;
    o.n_context = 256;
    snprintf(body, sizeof(body),
             "{\"model\":\"m\",%s\"messages\":[{\"role\":\"%s\",\"content\":\"be brief\"},"
             "{\"role\":\"user\",\"content\":\"why\"}]}",
             more, role);
    ck_assert_msg(!spot_openai_parse(&o, true, body, strlen(body), &r, &error), "%s: %.*s", body,
                  (int)error.n, (const char *)error.data);
    return r;
}

static const char *const asks_for_nothing[] = {
    "\"tool_choice\":\"none\",",
    "\"tool_choice\":\"none\",\"tools\":[],",
    "\"tools\":[],\"parallel_tool_calls\":true,",
    "\"parallel_tool_calls\":false,",
    "\"function_call\":\"none\",\"functions\":[],",
    "\"tools\":[],\"tool_choice\":\"auto\",\"function_call\":\"auto\",",
    "\"logprobs\":false,\"top_logprobs\":0,",
    "\"top_logprobs\":0,\"stop\":[],\"logit_bias\":{},",
    "\"stream\":true,\"stream_options\":{\"include_usage\":null},",
    "\"stream\":false,\"stream_options\":{},",
    "\"modalities\":[\"text\"],\"audio\":null,\"reasoning_effort\":\"none\",",
    "\"prompt\":null,\"zz\":null,\"max_tokens\":null,\"n\":null,\"seed\":null,",
    "\"response_format\":{\"type\":\"text\",\"json_schema\":null},",
    "\"max_tokens\":5,\"max_completion_tokens\":5,",
};

START_TEST(what_asks_for_nothing_and_who_develops_change_no_prompt)
{
    struct spot_request want = chat_of("", "system");
    struct spot_request got =
        _i < 0 ? chat_of("", "developer") : chat_of(asks_for_nothing[_i], "system");

    ck_assert_uint_gt(want.n_prompt, 20);
    ck_assert_uint_eq(got.n_prompt, want.n_prompt);
    ck_assert_mem_eq(got.prompt, want.prompt, want.n_prompt * sizeof(*want.prompt));
    spot_request_release(&want);
    spot_request_release(&got);
}
END_TEST

/* Of a message that has more than its role and a text: what that is, "" if it asks for nothing. */
static const char *const message[][2] = {
    { "\"role\":\"assistant\",\"content\":\"a\",\"refusal\":null,\"annotations\":[],"
      "\"audio\":null,\"function_call\":null,\"tool_calls\":[],\"name\":\"\"",
      "" },
    { "\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\",\"annotations\":[]}]", "" },
    { "\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\"}]",
      "'messages[0].tool_calls' is not supported" },
    { "\"role\":\"tool\",\"content\":\"4\",\"tool_call_id\":\"1\"",
      "'messages[0].tool_call_id' is not supported" },
    { "\"role\":\"user\",\"content\":\"a\",\"name\":\"Bob\"", "'messages[0].name' is not" },
    { "\"role\":\"user\",\"content\":\"a\",\"nmae\":\"Bob\"", "'messages[0].nmae' is not" },
    { "\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]",
      "'messages[0].content[0].image_url' is not supported" },
    { "\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"text\":\"a\"}]",
      "Message 0 must have a role and a text" },
    { "\"role\":\"user\",\"content\":null", "Message 0 must have a role and a text" },
};

START_TEST(what_a_message_has_besides_its_text_is_refused_by_name)
{
    static const struct spot_chat chat = { .form = SPOT_CHAT_CHATML };
    struct spot_front_options o = options();
    struct spot_request r;
    struct spot_buf error = { 0 };
    char body[512];
    int status;

    o.chat = &chat;
    snprintf(body, sizeof(body), "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{%s}]}",
             message[_i][0]);
    status = spot_openai_parse(&o, true, body, strlen(body), &r, &error);
    spot_buf_add(&error, "", 1);
    ck_assert_msg(status == (*message[_i][1] ? 400 : 0), "%s: %d %s", body, status,
                  (char *)error.data);
    ck_assert_msg(strstr((char *)error.data, message[_i][1]), "%s", (char *)error.data);
    if (!status)
        spot_request_release(&r);
    spot_buf_release(&error);
}
END_TEST

/* Nothing is to be generated: a prompt may fill the context. */
START_TEST(a_prompt_as_long_as_the_context_is_scored)
{
    struct spot_front_options o = options();
    struct spot_request r;
    struct spot_buf error = { 0 };
    char body[256];

    for (int n = 3; n <= 5; n++)
        for (int max = 0; max < 2; max++) {
            o.n_context = 4;
            snprintf(body, sizeof(body),
                     "{\"model\":\"m\",\"prompt\":\"%.*s\",\"echo\":true,\"max_tokens\":%d}", n,
                     "abcde", max);
            ck_assert_int_eq(spot_openai_parse(&o, false, body, strlen(body), &r, &error),
                             n + max <= 4 ? 0 : 400);
            if (n + max <= 4)
                spot_request_release(&r);
        }
    spot_buf_release(&error);
}
END_TEST

/* --- answers ------------------------------------------------------------------ */

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
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, text_is_that_of_decoding_at_once, 0, 3);
    tcase_add_test(c, a_position_is_committed_once);
    tcase_add_test(c, a_request_survives_the_wire);
    tcase_add_loop_test(c, what_asks_for_nothing_and_who_develops_change_no_prompt, -1,
                        sizeof(asks_for_nothing) / sizeof(*asks_for_nothing));
    tcase_add_loop_test(c, what_a_message_has_besides_its_text_is_refused_by_name, 0,
                        (int)(sizeof(message) / sizeof(*message)));
    tcase_add_test(c, a_special_token_whose_name_is_a_stop_text_ends_a_choice);
    tcase_add_test(c, a_prompt_as_long_as_the_context_is_scored);
    tcase_add_loop_test(c, what_is_wrong_with_a_body_is_named, 0,
                        (int)(sizeof(bad) / sizeof(*bad)));
    tcase_add_test(c, a_body_becomes_the_request_that_it_says);
    tcase_add_test(c, a_stream_says_what_the_answer_says);
    tcase_add_test(c, parts_of_characters_are_keys_of_their_own);
    return run_case("completion", c);
}

/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "serve/front.h"
#include "suite.h"

/* Goal: a body becomes the request that it says, or an error that names what is wrong; what asks
 * for nothing is as good as absent, and what is not supported is refused by name. */

static struct spot_bpe *bpe;
static struct spot_vocabulary vocabulary;

static void setup(void)
{
    bpe = spot_bpe_of_bytes();
    vocabulary = (struct spot_vocabulary){ .bpe = bpe };
}

static void teardown(void)
{
    spot_bpe_free(bpe);
}

static struct spot_front_options options(void)
{
    return (struct spot_front_options){ .model = "m",
                                        .adapters = "one=x,two=y",
                                        .vocabulary = &vocabulary,
                                        .n_context = 64,
                                        .n_vocabulary = 256,
                                        .n_state = 8,
                                        .pool = SPOT_POOL_LAST };
}

#define TOOL(name, parameters) \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"parameters\":" parameters "}}"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A4  "\"a\",\"a\",\"a\",\"a\","

static const struct {
    enum spot_api api;
    int status;
    const char *body, *says;
} bad[] = {
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"zz\":1}",
      "Unrecognized request argument supplied: zz" },
    { false, 404, "{\"model\":\"n\",\"prompt\":\"a\"}", "model_not_found" },
    { false, 404, "{\"model\":\"n\",\"prompt\":\"a\"}", "this server has 'm'" },
    { false, 400, "{\"model\":1,\"prompt\":\"a\"}", "'model' must be a text" },
    { true, 400, "{\"tools\":[{\"type\":\"function\"}],\"tool_choice\":\"none\"}",
      "tools[0].function" },
    { true, 400, "{\"tools\":[{\"type\":\"web_search\"}]}", "tools[0].type" },
    { true, 400, "{\"tools\":[" TOOL("a b", "{}") "]}", "tools[0].function" },
    { true, 400, "{\"tools\":[" TOOL("f", "[]") "]}", "parameters" },
    { true, 400, "{\"tool_choice\":\"required\"}", "'tool_choice' needs" },
    { true, 400, "{\"tools\":\"none\"}", "'tools' must be" },
    { true, 400, "{\"tools\":[" TOOL("f", "{}") "],\"tool_choice\":\"always\"}", "'tool_choice'" },
    { true, 400,
      "{\"tools\":[" TOOL("f", "{}") "],\"tool_choice\":{\"type\":\"function\",\"function\":{"
                                     "\"name\":\"g\"}}}",
      "'g'" },
    { true, 400, "{\"tools\":[" TOOL("f", "{\"not\":{}}") "],\"tool_choice\":\"required\"}",
      "Invalid schema for function 'f'" },
    { true, 400, "{\"parallel_tool_calls\":\"none\"}", "'parallel_tool_calls' must be" },
    { true, 400, "{\"continue_final_message\":true,\"add_generation_prompt\":true,\"messages\":[]}",
      "no chat template" },
    { false, 400, "{\"prompt\":\"a\",\"min_tokens\":17}", "'min_tokens'" },
    { false, 400, "{\"prompt\":\"a\",\"stop_token_ids\":[256]}", "'stop_token_ids'" },
    { false, 400, "{\"prompt\":\"a\",\"stop_token_ids\":3}", "'stop_token_ids'" },
    { false, 400, "{\"prompt\":\"a\",\"guided_regex\":\"(a\"}", "guided_regex" },
    { false, 400, "{\"prompt\":\"a\",\"guided_choice\":[]}", "guided_choice" },
    { false, 400, "{\"prompt\":\"a\",\"guided_choice\":[1]}", "guided_choice" },
    { false, 400, "{\"prompt\":\"a\",\"guided_regex\":\"a\",\"guided_choice\":[\"b\"]}",
      "only one" },
    { false, 400, "{\"prompt\":\"a\",\"guided_grammar\":\"a\"}", "'guided_grammar' is not" },
    { false, 400, "{\"prompt\":\"a\",\"structured_outputs\":{\"grammar\":\"a\"}}",
      "'structured_outputs.grammar' is not" },
    { false, 400, "{\"prompt\":\"a\",\"best_of\":2}", "'best_of'" },
    { false, 400, "{\"prompt\":\"a\",\"use_beam_search\":true}", "'use_beam_search'" },
    { false, 400, "{\"model\":\"m\"}", "'prompt' must be" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"\"}", "no tokens" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[1,256]}", "0 to 255" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[\"a\",\"\"]}", "no tokens" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[\"a\",1]}", "an array of such" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[[1],[256]]}", "0 to 255" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[]}", "no tokens" },
    { false, 400, "{\"model\":\"m\",\"prompt\":{}}", "'prompt' must be" },
    { false, 404, "{\"model\":\"three\",\"prompt\":\"a\"}", "model_not_found" },
    { SPOT_API_EMBEDDINGS, 404, "{\"model\":\"three\",\"input\":\"a\"}", "model_not_found" },
    { SPOT_API_EMBEDDINGS, 400, "{\"model\":\"m\"}", "'input' must be" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":[]}", "no tokens" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":[\"a\",\"\"]}", "no tokens" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":[1,256]}", "0 to 255" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":[[1],\"a\",{}]}", "'input' must be" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":\"a\",\"dimensions\":9}", "'dimensions'" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":\"a\",\"dimensions\":0}", "'dimensions'" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":\"a\",\"encoding_format\":\"hex\"}",
      "'encoding_format'" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":\"a\",\"pooling\":\"cls\"}", "'pooling'" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":\"a\",\"stream\":true}", "body.stream" },
    { SPOT_API_EMBEDDINGS, 400, "{\"input\":[\"a\",\"" A64 A64 "\"]}", "context_length_exceeded" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[" A4 A4 A4 A4 "\"a\"],\"n\":128}",
      "2048 choices at most" },
    { false, 400, "{\"model\":\"m\",\"prompt\":[\"a\",\"bbbb\"],\"max_tokens\":61}",
      "context_length_exceeded" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":0}", "integer of 1" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":2.5}", "integer of 1" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"seed\":1e30}", "integer of" },
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":\"2\"}", "integer of 1" },
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
    { false, 400, "{\"model\":\"m\",\"prompt\":\"a\",\"seed\":9223372036854775808}", "must be" },
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
        spot_openai_parse(&o, bad[_i].api, bad[_i].body, strlen(bad[_i].body), &r, &error),
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
        "{\"model\":\"m\",\"prompt\":\"h\\u00e4\",\"max_tokens\":9.0,\"temperature\":0.5,\"top_p\":"
        "0."
        "9,"
        "\"top_k\":3,\"logit_bias\":{\"66\":-100,\"7\":1.5},\"seed\":-1.0,\"n\":2,\"stop\":[\"x\","
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
    ck_assert_str_eq(
        r.form,
        "{\"json\": {\"type\":\"object\",\"properties\":{\"}\\\"\":{\"const\":\"]{\\\\\"}}}}");
    ck_assert_uint_eq(strlen(r.id), strlen("cmpl-") + 32);
    spot_request_release(&r);
}
END_TEST

static const char chatml[] =
    "{\"chat_template\":\"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' "
    "+ "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}\"}";

static struct spot_chat *new_chat(void)
{
    struct spot_err err = { 0 };
    struct spot_chat *const chat = spot_chat_parse(chatml, strlen(chatml), "c", &err);

    ck_assert_msg(chat, "%s", err.msg);
    return chat;
}

static struct spot_request chat_of(const char *more, const char *role)
{
    struct spot_chat *const chat = new_chat();
    struct spot_front_options o = options();
    struct spot_request r;
    struct spot_buf error = { 0 };
    char body[512];

    o.chat = chat;
    o.n_context = 256;
    snprintf(body, sizeof(body),
             "{\"model\":\"m\",%s\"messages\":[{\"role\":\"%s\",\"content\":\"be brief\"},"
             "{\"role\":\"user\",\"content\":\"why\"}]}",
             more, role);
    ck_assert_msg(!spot_openai_parse(&o, true, body, strlen(body), &r, &error), "%s: %.*s", body,
                  (int)error.n, (const char *)error.data);
    spot_chat_free(chat);
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
      "'messages[0].tool_calls[0]' must be a call" },
    { "\"role\":\"user\",\"content\":\"a\",\"tool_call_id\":\"1\"",
      "'messages[0].tool_call_id' is not supported" },
    { "\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
      "\"arguments\":\"[1]\"}}]",
      "text of an object" },
    { "\"role\":\"user\",\"content\":\"a\",\"name\":\"Bob\"", "'messages[0].name' is not" },
    { "\"role\":\"user\",\"content\":\"a\",\"mood\":\"Bob\"", "'messages[0].mood' is not" },
    { "\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]",
      "'messages[0].content[0].image_url' is not supported" },
    { "\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"text\":\"a\"}]",
      "Message 0 must have a role and a text" },
    { "\"role\":\"user\",\"content\":null", "Message 0 must have a role and a text" },
};

START_TEST(what_a_message_has_besides_its_text_is_refused_by_name)
{
    struct spot_chat *const chat = new_chat();
    struct spot_front_options o = options();
    struct spot_request r;
    struct spot_buf error = { 0 };
    char body[512];
    int status;

    o.chat = chat;
    snprintf(body, sizeof(body), "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{%s}]}",
             message[_i][0]);
    status = spot_openai_parse(&o, true, body, strlen(body), &r, &error);
    spot_chat_free(chat);
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

/* --- embeddings, and adapters --- */

START_TEST(texts_of_an_embedding_are_parts_that_give_states)
{
    static const char body[] = "{\"model\":\"two\",\"input\":[\"ab\",[7,8,9]],\"user\":\"x\","
                               "\"encoding_format\":\"base64\",\"dimensions\":3,\"pooling\":"
                               "\"mean\"}";
    static const uint32_t after[] = { 'z' };
    const struct spot_front_options o = options();
    struct spot_request r, copy;
    struct spot_buf wire = { 0 };
    struct spot_wire_in in;

    vocabulary.after = after;
    vocabulary.n_after = 1; /* of texts alone */
    ck_assert_int_eq(spot_openai_parse(&o, SPOT_API_EMBEDDINGS, body, sizeof(body) - 1, &r, NULL),
                     0);
    spot_request_put(&r, &wire);
    in = spot_wire_in(wire.data, wire.n);
    ck_assert_int_eq(spot_request_get(&copy, &in), 0);
    ck_assert_int_eq(copy.pool, SPOT_POOL_MEAN);
    ck_assert_uint_eq(copy.adapter, 2);
    ck_assert_uint_eq(copy.n_dimension, 3);
    ck_assert(copy.is_base64);
    ck_assert_uint_eq(copy.n_choice, 2);
    ck_assert_uint_eq(copy.part_end[0], 3);
    ck_assert_uint_eq(copy.n_prompt, 6);
    ck_assert_uint_eq(copy.prompt[2], 'z');
    ck_assert_uint_eq(copy.prompt[5], 9);
    spot_request_release(&r);
    spot_request_release(&copy);
    spot_buf_release(&wire);
}
END_TEST

/* Two workers may tell the same state; the answer has its first numbers, of length 1. */
START_TEST(a_state_is_told_once_and_is_a_vector_of_length_1)
{
    static const char body[] = "{\"input\":\"ab\",\"dimensions\":2}";
    static const float state[8] = { 3, 4, 5 }, other[8] = { 3, 4, 6 };
    const struct spot_front_options o = options();
    struct spot_buf out = { 0 };
    struct spot_completion *c;
    struct spot_request r;

    ck_assert_int_eq(spot_openai_parse(&o, SPOT_API_EMBEDDINGS, body, sizeof(body) - 1, &r, NULL),
                     0);
    c = spot_completion_new(&r, &vocabulary);
    ck_assert_int_eq(spot_completion_append(c, 0, 0, &(struct spot_token){ .id = 1 }),
                     SPOT_APPEND_GAP);
    ck_assert_int_eq(spot_completion_set_state(c, 0, state, 8, 0), SPOT_APPEND_NEW);
    ck_assert_int_eq(spot_completion_set_state(c, 0, state, 8, 0), SPOT_APPEND_KNOWN);
    ck_assert_int_eq(spot_completion_set_state(c, 0, other, 8, 0), SPOT_APPEND_DIFFERS);
    ck_assert_uint_eq(c->n_open, 0);
    spot_openai_answer(&o, c, &out);
    spot_buf_add(&out, "", 1);
    ck_assert_ptr_nonnull(strstr((char *)out.data, "\"embedding\":[0.6"));
    ck_assert_ptr_nonnull(strstr((char *)out.data, "\"total_tokens\":2"));
    spot_buf_release(&out);
    spot_completion_unref(c);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("request_body");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, what_asks_for_nothing_and_who_develops_change_no_prompt, -1,
                        sizeof(asks_for_nothing) / sizeof(*asks_for_nothing));
    tcase_add_loop_test(c, what_a_message_has_besides_its_text_is_refused_by_name, 0,
                        (int)(sizeof(message) / sizeof(*message)));
    tcase_add_loop_test(c, what_is_wrong_with_a_body_is_named, 0,
                        (int)(sizeof(bad) / sizeof(*bad)));
    add_tests(c);
    return run_case("request_body", c);
}

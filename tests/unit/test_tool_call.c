/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/rng.h"
#include "serve/front.h"
#include "serve/grammar.h"
#include "serve/openai_body.h"
#include "serve/openai_state.h"
#include "suite.h"

/* Goal: what a text calls is found, however it is cut; what is forced to be calls is calls with
 * arguments of their schema; a stream, joined, is the whole answer. */

enum { TEXT_MAX = 4096 };

static struct spot_bpe *bpe;
static struct spot_vocabulary vocabulary;
static struct spot_grammar_words *words;

static void setup(void)
{
    bpe = spot_bpe_of_bytes();
    vocabulary = (struct spot_vocabulary){ .bpe = bpe };
    words = spot_grammar_words_new(bpe);
}

static void teardown(void)
{
    spot_grammar_words_free(words);
    spot_bpe_free(bpe);
}

/* --- reading --------------------------------------------------------------------- */

/* "text" and "NAME(ARGUMENTS)", each behind a |. */
static char *told(const struct spot_tool_scan *s, const char *text)
{
    static const char *const before[] = { "|", "|", "(" };
    struct spot_buf out = { 0 };
    int last = -1;

    for (size_t i = 0; i < s->n; i++) {
        const struct spot_call_piece *const p = &s->piece[i];

        if (last != (int)p->kind || p->kind == SPOT_PIECE_CALL)
            spot_buf_add(&out, before[p->kind], 1);
        spot_buf_add(&out, text + p->begin, p->end - p->begin);
        last = (int)p->kind;
    }
    spot_buf_add(&out, "", 1);
    return (char *)out.data;
}

static char *read_in_parts(const char *form, const char *text, struct spot_rng *rng)
{
    struct spot_tool_scan s;
    const size_t n = strlen(text);
    char *out;

    spot_tool_scan_init(&s, spot_tool_form(spot_tool_form_find(form)));
    for (size_t at = 0; rng && at < n; at += spot_rng_below(rng, 4))
        spot_tool_scan_run(&s, (const uint8_t *)text, at, false);
    spot_tool_scan_run(&s, (const uint8_t *)text, n, true);
    out = told(&s, text);
    spot_tool_scan_release(&s);
    return out;
}

static const struct {
    const char *form, *text, *told;
} row[] = {
    { "hermes", "hello < world ", "|hello < world " },
    { "mistral-args", "I look. [TOOL_CALLS]f[ARGS]{\"a\": \"]\"}[TOOL_CALLS]g.h-1[ARGS] {}",
      "|I look.|f({\"a\": \"]\"}|g.h-1({}" },
    { "mistral-args", "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{\"a\": [1]}", "|f({\"a\": [1]}" },
    { "mistral-args", "[TOOL_CALLS]f[ARGS]{\"a\": 1", "|f({\"a\": 1" },
    { "mistral-args", "[TOOL_CALLS] [ARGS]{} b", "|[TOOL_CALLS] [ARGS]{} b" },
    { "mistral-args", "[TOOL_CALLS]f(1)", "|[TOOL_CALLS]f(1)" },
    { "mistral-args", "[TOOL_CALLS]f[ARGS]1", "|[TOOL_CALLS]f[ARGS]1" },
    { "mistral-args", "[TOOL_CALLS]f[ARG", "|[TOOL_CALLS]f[ARG" },
    { "function", "<function=f>{\"a\": 1}</function>\n<function=g>{}</function>",
      "|f({\"a\": 1}|g({}" },
    { "function", "1 < 2 <function=f>{}</function>", "|1 < 2|f({}" },
    { "function", "<function=f", "|<function=f" },
    { "hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}{\\\"\"}}\n</tool_call>",
      "|f({\"a\": \"}{\\\"\"}" },
    { "hermes",
      "I look.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
      "{\"arguments\": {}, \"name\": \"g\"}</tool_call>",
      "|I look.|f({}|<tool_call>\n{\"arguments\": {}, \"name\": \"g\"}</tool_call>" },
    { "hermes",
      "<tool_call>{\"id\": 3, \"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>"
      "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":2}}</tool_call>  done",
      "|f({\"a\":1}|f({\"a\":2}|done" },
    { "hermes", "<tool_call>\n{\"na", "|<tool_call>\n{\"na" },
    { "hermes", "a <tool_call> b", "|a <tool_call> b" },
    { "hermes", "a <tool_", "|a <tool_" },
    { "hermes", "<<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":[1", "|<|f({\"a\":[1" },
    { "hermes", "<tool_call>{\"name\":\"f\",\"arguments\":\"{}\"}",
      "|<tool_call>{\"name\":\"f\",\"arguments\":\"{}\"}" },
    { "mistral",
      "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"b\": "
      "[]}}]",
      "|f({}|g({\"b\": []}" },
    { "mistral", "[TOOL] [1]", "|[TOOL] [1]" },
    { "phi", "<|tool_call|>[{\"name\":\"f\",\"arguments\":{}}]<|/tool_call|>", "|f({}" },
    { "llama3",
      "{\"name\": \"f\", \"parameters\": {\"q\": 1}}; {\"name\": \"g\", \"parameters\": {}}",
      "|f({\"q\": 1}|g({}" },
    { "llama3", "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}",
      "|f({}" },
    { "llama3", "x = {\"name\": \"f\", \"parameters\": {}}",
      "|x = {\"name\": \"f\", \"parameters\": {}}" },
    { "llama3", "{\"answer\": 4}", "|{\"answer\": 4}" },
    { "json", " [{\"name\":\"f\",\"arguments\":{}},\n{\"name\":\"g\",\"arguments\":{}}]\n",
      "|f({}|g({}" },
    { "json", "{\"name\":\"Ada\",\"age\":36}", "|{\"name\":\"Ada\",\"age\":36}" },
    { "none", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> ",
      "|<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> " },
};

START_TEST(calls_are_found_however_the_text_is_cut)
{
    struct spot_rng rng;

    spot_rng_init(&rng, (uint64_t)_i, 7);
    for (int k = 0; k < 40; k++) {
        char *const got = read_in_parts(row[_i].form, row[_i].text, k ? &rng : NULL);

        ck_assert_msg(!strcmp(got, row[_i].told), "%s gives %s, not %s", row[_i].text, got,
                      row[_i].told);
        free(got);
    }
}
END_TEST

START_TEST(each_form_is_found_by_what_a_template_shows)
{
    ck_assert_uint_eq(spot_tool_form_of("<tool_call>\n{\"name\": \"f\"}"),
                      spot_tool_form_find("hermes"));
    ck_assert_uint_eq(spot_tool_form_of("[TOOL_CALLS] [{"), spot_tool_form_find("mistral"));
    ck_assert_uint_eq(spot_tool_form_of("[TOOL_CALLS]f[ARGS]{"),
                      spot_tool_form_find("mistral-args"));
    ck_assert_uint_eq(spot_tool_form_of("<function=f>{"), spot_tool_form_find("function"));
    ck_assert_uint_eq(spot_tool_form_of("{\"name\": \"f\", \"parameters\": {}}"),
                      spot_tool_form_find("llama3"));
    ck_assert_uint_eq(spot_tool_form_of("nothing"), SPOT_TOOL_JSON);
    ck_assert_uint_eq(spot_tool_form_find("x"), 0);
}
END_TEST

/* --- what is forced --------------------------------------------------------------- */

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9},\"b\":{\"enum\":"
    "[\"x\",\"y\"]}},\"required\":[\"a\",\"b\"],\"additionalProperties\":false}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"description\":\"d\"}}]";

/* Takes and shows nothing: a template that a test has is not what is tested here. */
static struct spot_chat *new_chat(void)
{
    static const char config[] =
        "{\"chat_template\":\"{% for message in messages %}{{'<|im_start|>' + message['role'] + "
        "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if "
        "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\"}";

    return spot_chat_parse(config, sizeof(config) - 1, "c", NULL);
}

static struct spot_request request_of(enum spot_api api, uint8_t form, const char *more)
{
    static const struct spot_front_options plain = { .model = "m",
                                                     .n_context = 1 << 12,
                                                     .n_vocabulary = 256 };
    struct spot_front_options o = plain;
    struct spot_request r;
    struct spot_buf error = { 0 };
    struct spot_chat *const chat = new_chat();
    char body[2048];

    ck_assert_ptr_nonnull(chat);
    o.vocabulary = &vocabulary;
    o.chat = chat;
    o.tool_form = form;
    snprintf(body, sizeof(body), "{%s,\"seed\":5,%s}", more,
             api == SPOT_API_RESPONSES ? "\"input\":\"a\""
                                       : "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]");
    ck_assert_msg(!spot_openai_parse(&o, api, body, strlen(body), &r, &error), "%s: %.*s", body,
                  (int)error.n, (const char *)error.data);
    spot_chat_free(chat);
    return r;
}

/* A random text through the masks. */
static size_t random_text(struct spot_grammar *g, struct spot_rng *rng, char text[TEXT_MAX])
{
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    size_t n = 0;

    while (!spot_grammar_must_end(s) && !(spot_grammar_may_end(s) && spot_rng_below(rng, 3) == 0)) {
        float logit[256] = { 0 };
        uint32_t id = (uint32_t)spot_rng_below(rng, 256);

        ck_assert_int_eq(spot_grammar_mask(s, NULL, 0, logit, 256), 0);
        while (logit[id] != 0)
            id = (id + 1) % 256;
        ck_assert_int_eq(spot_grammar_push(s, id), 0);
        ck_assert_uint_lt(n, TEXT_MAX - 1);
        text[n++] = (char)id;
    }
    text[n] = '\0';
    spot_grammar_end(s);
    return n;
}

static void check_arguments(const char *name, const char *text)
{
    struct spot_json_doc doc;

    ck_assert_int_eq(spot_json_parse(&doc, text, strlen(text), "a", NULL), 0);
    if (!strcmp(name, "f")) {
        ck_assert(spot_json_is_integer(spot_json_get(doc.root, "a")));
        ck_assert(spot_json_is_word(spot_json_get(doc.root, "b"), "x") ||
                  spot_json_is_word(spot_json_get(doc.root, "b"), "y"));
    } else {
        ck_assert_str_eq(name, "g");
        ck_assert_uint_eq(spot_json_size(doc.root), 0);
    }
    spot_json_release(&doc);
}

/* Every "|NAME(ARGUMENTS" of told(); returns how many. */
static size_t check_calls(char *what)
{
    size_t n = 0;

    for (char *at = strtok(what, "|"); at; at = strtok(NULL, "|"), n++) {
        char *const open = strchr(at, '(');

        ck_assert_ptr_nonnull(open);
        *open = '\0';
        check_arguments(at, open + 1);
    }
    return n;
}

static void check_forced(uint8_t form, const char *more, bool is_single, const char *only)
{
    struct spot_request r = request_of(SPOT_API_CHAT, form, more);
    struct spot_err err = { 0 };
    struct spot_grammar *const g = spot_grammar_new(r.form, strlen(r.form), words, &err);
    struct spot_rng rng;
    char text[TEXT_MAX];
    size_t most = 0;

    ck_assert_msg(g != NULL, "%s: %s", r.form, err.msg);
    spot_rng_init(&rng, form, 1);
    for (int k = 0; k < 60; k++) {
        const size_t n = random_text(g, &rng, text);
        char *const what = read_in_parts(spot_tool_form(form)->name, text, &rng);
        size_t n_call;

        ck_assert_uint_gt(n, 0);
        ck_assert_msg(!only || !strstr(what, only), "%s", what);
        n_call = check_calls(what);
        ck_assert_uint_ge(n_call, 1);
        most = n_call > most ? n_call : most;
        free(what);
    }
    ck_assert(is_single ? most == 1 : most > 1);
    spot_grammar_free(g);
    spot_request_release(&r);
}

START_TEST(what_is_forced_is_calls_with_arguments_of_their_schema)
{
    const uint8_t form = (uint8_t)_i;
    char more[1024];

    snprintf(more, sizeof(more), "\"tools\":%s,\"tool_choice\":\"required\"", tools);
    check_forced(form, more, false, NULL);
    strcat(more, ",\"parallel_tool_calls\":false");
    check_forced(form, more, true, NULL);
    snprintf(more, sizeof(more),
             "\"tools\":%s,\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
             tools);
    check_forced(form, more, true, "g(");
}
END_TEST

/* Nothing is forced: text without a grammar, unless a function is strict or calls are to be one. */
START_TEST(text_is_free_until_something_is_asked_of_calls)
{
    char more[1024];
    struct spot_request r;
    struct spot_grammar *g;
    static const char *const yes[] = {
        "hello", "hi <tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>", ""
    };
    static const char *const no[] = {
        "<tool_call>{", "<tool_call>\n{\"name\": \"h",
        "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n<"
    };

    snprintf(more, sizeof(more), "\"tools\":%s", tools);
    r = request_of(SPOT_API_CHAT, 1, more);
    ck_assert(!r.form && r.tool_form == 1);
    spot_request_release(&r);
    strcat(more, ",\"parallel_tool_calls\":false");
    r = request_of(SPOT_API_CHAT, 1, more);
    ck_assert_ptr_nonnull(r.form);
    g = spot_grammar_new(r.form, strlen(r.form), words, NULL);
    for (int k = 0; k < 6; k++) {
        const char *const text = k < 3 ? yes[k] : no[k - 3];
        struct spot_grammar_state *const s = spot_grammar_begin(g);
        bool takes = true;

        for (size_t i = 0; takes && text[i]; i++)
            takes = !spot_grammar_push(s, (uint8_t)text[i]);
        ck_assert_msg((takes && spot_grammar_may_end(s)) == (k < 3), "%s", text);
        spot_grammar_end(s);
    }
    spot_grammar_free(g);
    spot_request_release(&r);
}
END_TEST

/* --- answers ------------------------------------------------------------------------ */

static const struct spot_front_options answering = { .model = "m" };

static struct spot_completion *completed(enum spot_api api, const char *text)
{
    char more[1024];
    struct spot_request r;
    struct spot_completion *c;

    snprintf(more, sizeof(more), "\"tools\":%s,\"stream\":true",
             api == SPOT_API_RESPONSES
                 ? "[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}]"
                 : tools);
    r = request_of(api, 1, more);
    c = spot_completion_new(&r, &vocabulary);
    for (size_t i = 0; text[i]; i++) {
        const struct spot_token t = { .id = (uint8_t)text[i], .logprob = -1 };

        ck_assert_int_eq(spot_completion_append(c, 0, i, &t), SPOT_APPEND_NEW);
    }
    spot_completion_finish(c, 0, SPOT_FINISH_STOP);
    return c;
}

static const char *const answer[] = {
    "no call < here ",
    "first\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}\n</tool_call>",
    "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
    "\"f\", \"arguments\": {\"a\": 2}}\n</tool_call> and \xC3\xA4",
};

static struct spot_json_doc parsed(const struct spot_buf *text)
{
    struct spot_json_doc doc;
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_json_parse(&doc, (const char *)text->data, text->n, "j", &err), "%.*s: %s",
                  (int)text->n, (const char *)text->data, err.msg);
    return doc;
}

static void join(struct spot_buf *to, const struct spot_json_value *v)
{
    if (spot_json_text(v))
        spot_buf_add(to, spot_json_text(v), strlen(spot_json_text(v)));
}

static void check_same(struct spot_buf *joined, const struct spot_json_value *whole)
{
    const char *const text = spot_json_text(whole) ? spot_json_text(whole) : "";

    spot_buf_add(joined, "", 1);
    ck_assert_str_eq((const char *)joined->data, text);
    spot_buf_release(joined);
}

/* Each call of the whole is the joined deltas of its index. */
START_TEST(a_stream_of_a_chat_joined_is_the_answer)
{
    struct spot_completion *const c = completed(SPOT_API_CHAT, answer[_i]);
    struct spot_buf text = { 0 }, content = { 0 }, name[4] = { 0 }, arguments[4] = { 0 },
                    id[4] = { 0 };
    struct spot_json_doc doc;
    const struct spot_json_value *message, *calls, *choice;

    for (size_t i = 0; i < c->choice[0].n_token; i++) {
        struct spot_buf chunk = { 0 };
        const struct spot_json_value *delta, *list;

        spot_openai_chunk(&answering, c, 0, i, false, NULL, &chunk);
        doc = parsed(&chunk);
        delta = spot_json_get(spot_json_entry(spot_json_get(doc.root, "choices"), 0), "delta");
        join(&content, spot_json_get(delta, "content"));
        list = spot_json_get(delta, "tool_calls");
        for (size_t k = 0; k < spot_json_array_size(list); k++) {
            const struct spot_json_value *const v = spot_json_entry(list, k);
            const size_t at = (size_t)spot_json_integer(spot_json_get(v, "index"));

            ck_assert_uint_lt(at, 4);
            join(&id[at], spot_json_get(v, "id"));
            join(&name[at], spot_json_get(spot_json_get(v, "function"), "name"));
            join(&arguments[at], spot_json_get(spot_json_get(v, "function"), "arguments"));
        }
        spot_json_release(&doc);
        spot_buf_release(&chunk);
    }
    spot_openai_answer(&answering, c, &text);
    doc = parsed(&text);
    choice = spot_json_entry(spot_json_get(doc.root, "choices"), 0);
    message = spot_json_get(choice, "message");
    calls = spot_json_get(message, "tool_calls");
    ck_assert_uint_eq(spot_json_array_size(calls), (size_t)_i);
    ck_assert(
        spot_json_is_word(spot_json_get(choice, "finish_reason"), _i ? "tool_calls" : "stop"));
    check_same(&content, spot_json_get(message, "content"));
    for (size_t k = 0; k < spot_json_array_size(calls); k++) {
        const struct spot_json_value *const v = spot_json_entry(calls, k);

        check_same(&id[k], spot_json_get(v, "id"));
        check_same(&name[k], spot_json_get(spot_json_get(v, "function"), "name"));
        check_same(&arguments[k], spot_json_get(spot_json_get(v, "function"), "arguments"));
    }
    spot_json_release(&doc);
    spot_buf_release(&text);
    spot_completion_unref(c);
}
END_TEST

/* Events have numbers without a gap, deltas of an item are its text, and the last has all items. */
START_TEST(events_of_a_response_joined_are_the_response)
{
    struct spot_completion *const c = completed(SPOT_API_RESPONSES, answer[_i]);
    struct spot_buf events = { 0 }, item[4] = { 0 };
    struct spot_response_stream s = { 0 };
    struct spot_json_doc doc = { 0 };
    const struct spot_json_value *output;
    int64_t n = 0;

    for (size_t i = 0; i < c->choice[0].n_token; i++)
        spot_openai_response_events(&answering, c, i, &s, &events);
    spot_openai_response_end(&answering, c, &s, &events);
    spot_buf_add(&events, "", 1);
    for (char *at = (char *)events.data; (at = strstr(at, "data: ")); n++) {
        char *const end = strstr(at, "\n\n");
        const struct spot_json_value *delta;

        spot_json_release(&doc);
        ck_assert_int_eq(spot_json_parse(&doc, at + 6, (size_t)(end - at) - 6, "e", NULL), 0);
        ck_assert_int_eq(spot_json_integer(spot_json_get(doc.root, "sequence_number")), n);
        delta = spot_json_get(doc.root, "delta");
        if (delta)
            join(&item[spot_json_integer(spot_json_get(doc.root, "output_index"))], delta);
        at = end;
    }
    ck_assert(spot_json_is_word(spot_json_get(doc.root, "type"), "response.completed"));
    output = spot_json_get(spot_json_get(doc.root, "response"), "output");
    ck_assert_uint_eq(spot_json_array_size(output), _i == 0 ? 1 : _i == 1 ? 2 : 3);
    for (size_t k = 0; k < spot_json_array_size(output); k++) {
        const struct spot_json_value *const v = spot_json_entry(output, k);
        const struct spot_json_value *const part = spot_json_entry(spot_json_get(v, "content"), 0);

        check_same(&item[k], part ? spot_json_get(part, "text") : spot_json_get(v, "arguments"));
    }
    spot_json_release(&doc);
    spot_buf_release(&events);
    spot_completion_unref(c);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("tool_call");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, calls_are_found_however_the_text_is_cut, 0,
                        (int)(sizeof(row) / sizeof(*row)));
    tcase_add_test(c, each_form_is_found_by_what_a_template_shows);
    tcase_add_loop_test(c, what_is_forced_is_calls_with_arguments_of_their_schema, 1,
                        SPOT_TOOL_NONE);
    tcase_add_test(c, text_is_free_until_something_is_asked_of_calls);
    tcase_add_loop_test(c, a_stream_of_a_chat_joined_is_the_answer, 0,
                        (int)(sizeof(answer) / sizeof(*answer)));
    tcase_add_loop_test(c, events_of_a_response_joined_are_the_response, 0,
                        (int)(sizeof(answer) / sizeof(*answer)));
    return run_case("tool_call", c);
}

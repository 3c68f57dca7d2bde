/* SPDX-License-Identifier: MIT */
/* Translates a body of /v1/responses to one of /v1/chat/completions, which is then read. Nothing is
 * kept between responses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/openai_body.h"

enum use {
    PASS,    /* the same in a chat */
    WORDS,   /* read below */
    NOTHING, /* ignored: it changes no token */
    NONE,    /* accepted only with a value that has no effect */
};

static const struct {
    const char *key;
    enum use use;
    bool is_told; /* repeated in the answer */
} known[] = {
    { "model", PASS, false },
    { "temperature", PASS, true },
    { "top_p", PASS, true },
    { "stream", PASS, false },
    { "parallel_tool_calls", PASS, true },
    { "seed", PASS, false },
    { "top_k", PASS, false },
    { "min_p", PASS, false },
    { "repetition_penalty", PASS, false },
    { "presence_penalty", PASS, false },
    { "frequency_penalty", PASS, false },
    { "logit_bias", PASS, false },
    { "stop", PASS, false },
    { "stop_token_ids", PASS, false },
    { "min_tokens", PASS, false },
    { "ignore_eos", PASS, false },
    { "chat_template_kwargs", PASS, false },
    { "instructions", WORDS, true },
    { "input", WORDS, false },
    { "max_output_tokens", WORDS, true },
    { "tools", WORDS, true },
    { "tool_choice", WORDS, true },
    { "text", WORDS, true },
    { "metadata", NOTHING, true },
    { "user", NOTHING, true },
    { "service_tier", NOTHING, false },
    { "safety_identifier", NOTHING, false },
    { "prompt_cache_key", NOTHING, false },
    { "stream_options", NOTHING, false },
    { "truncation", NONE, false },
    { "store", NONE, false },
    { "previous_response_id", NONE, false },
    { "conversation", NONE, false },
    { "background", NONE, false },
    { "include", NONE, false },
    { "prompt", NONE, false },
    { "reasoning", NONE, false },
    { "top_logprobs", NONE, false },
    { "max_tool_calls", NONE, false },
};

static bool asks_for_nothing(const char *key, const struct spot_json_value *v)
{
    const struct spot_json_value *one;

    if (!strcmp(key, "truncation"))
        return spot_json_is_word(v, "disabled");
    if (!strcmp(key, "top_logprobs"))
        return spot_json_is_integer(v) && !spot_json_integer(v);
    if (!strcmp(key, "reasoning"))
        for (size_t i = 0; (one = spot_json_member(v, i, &key)); i++)
            if (!spot_json_is_nothing(one) && !spot_json_is_word(one, "none"))
                return false;
    return spot_json_is_object(v) || spot_json_is_nothing(v);
}

/* --- members that are copied --------------------------------------------------------- */

static void put_members(struct spot_body *b, struct spot_jw *jw, struct spot_jw *told)
{
    const struct spot_json_value *v;
    const char *key;

    for (size_t i = 0; (v = spot_json_member(b->doc.root, i, &key)) && !b->status; i++) {
        size_t k = 0;

        while (k < sizeof(known) / sizeof(*known) && strcmp(known[k].key, key) != 0)
            k++;
        if (spot_json_is_null(v))
            continue;
        if (k == sizeof(known) / sizeof(*known)) {
            spot_body_refuse(b, 400, NULL, NULL, "Unrecognized request argument supplied: %s", key);
            return;
        }
        if (known[k].use == NONE && !asks_for_nothing(key, v))
            spot_body_refuse(b, 400, key, NULL, "'%s' is not supported by this server.", key);
        if (known[k].use == PASS)
            spot_jw_tree(jw, key, v);
        if (known[k].is_told)
            spot_jw_tree(told, key, v);
    }
}

/* --- input ------------------------------------------------------------------- */

static void put_text(struct spot_jw *jw, const char *key, const struct spot_json_value *v)
{
    if (spot_json_text(v))
        spot_jw_str(jw, key, spot_json_text(v));
}

static void put_said(struct spot_jw *jw, const char *role, const char *text)
{
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "role", role);
    spot_jw_str(jw, "content", text);
    spot_jw_end(jw);
}

/* A text, or parts: input_text and output_text are texts. */
static void put_content(struct spot_body *b, struct spot_jw *jw, const struct spot_json_value *v)
{
    if (!spot_json_is_array(v)) {
        spot_jw_tree(jw, "content", v);
        return;
    }
    spot_jw_array(jw, "content");
    for (size_t i = 0; i < spot_json_size(v); i++) {
        const struct spot_json_value *const part = spot_json_entry(v, i);
        const char *const type = spot_json_text(spot_json_get(part, "type"));

        if (!type || (strcmp(type, "input_text") != 0 && strcmp(type, "output_text") != 0 &&
                      strcmp(type, "text") != 0))
            spot_body_refuse(b, 400, "input", NULL,
                             "A part of the type '%.60s' is not supported by this server.",
                             type ? type : "");
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "type", "text");
        put_text(jw, "text", spot_json_get(part, "text"));
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void put_call(struct spot_jw *jw, const struct spot_json_value *item)
{
    spot_jw_object(jw, NULL);
    put_text(jw, "id", spot_json_get(item, "call_id"));
    spot_jw_str(jw, "type", "function");
    spot_jw_object(jw, "function");
    put_text(jw, "name", spot_json_get(item, "name"));
    put_text(jw, "arguments", spot_json_get(item, "arguments"));
    spot_jw_end(jw);
    spot_jw_end(jw);
}

static bool is_call(const struct spot_json_value *item)
{
    return spot_json_is_word(spot_json_get(item, "type"), "function_call");
}

/* Consecutive calls are one message. Returns their number. */
static size_t put_calls(struct spot_jw *jw, const struct spot_json_value *input, size_t i)
{
    size_t n = 0;

    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "role", "assistant");
    spot_jw_null(jw, "content");
    spot_jw_array(jw, "tool_calls");
    while (is_call(spot_json_entry(input, i + n)))
        put_call(jw, spot_json_entry(input, i + n++));
    spot_jw_end(jw);
    spot_jw_end(jw);
    return n;
}

static void put_item(struct spot_body *b, struct spot_jw *jw, const struct spot_json_value *item)
{
    const char *const type = spot_json_text(spot_json_get(item, "type"));
    const bool is_result = type && !strcmp(type, "function_call_output");

    if (type && strcmp(type, "message") != 0 && !is_result) {
        spot_body_refuse(b, 400, "input", NULL,
                         "An item of the type '%.60s' is not supported by this server.", type);
        return;
    }
    spot_jw_object(jw, NULL);
    if (is_result) {
        spot_jw_str(jw, "role", "tool");
        put_text(jw, "tool_call_id", spot_json_get(item, "call_id"));
        put_content(b, jw, spot_json_get(item, "output"));
    } else {
        put_text(jw, "role", spot_json_get(item, "role"));
        put_content(b, jw, spot_json_get(item, "content"));
    }
    spot_jw_end(jw);
}

static void put_input(struct spot_body *b, struct spot_jw *jw)
{
    const struct spot_json_value *const input = spot_body_member(b, "input");
    const struct spot_json_value *const instructions = spot_body_member(b, "instructions");
    const size_t n = spot_json_array_size(input);

    spot_jw_array(jw, "messages");
    if (spot_json_text(instructions))
        put_said(jw, "system", spot_json_text(instructions));
    else if (instructions)
        spot_body_refuse(b, 400, "instructions", NULL, "'instructions' must be a text.");
    if (spot_json_text(input))
        put_said(jw, "user", spot_json_text(input));
    else if (!n)
        spot_body_refuse(b, 400, "input", NULL, "'input' must be a text or an array of items.");
    for (size_t i = 0; i < n && !b->status;)
        if (is_call(spot_json_entry(input, i)))
            i += put_calls(jw, input, i);
        else
            put_item(b, jw, spot_json_entry(input, i++));
    spot_jw_end(jw);
}

/* --- tools and the form of the text ----------------------------------------------------- */

/* {"type": "function", "name": ...} with its other members in an object of their own. */
static void put_function(struct spot_jw *jw, const char *key, const struct spot_json_value *v)
{
    const struct spot_json_value *one;
    const char *name;

    spot_jw_object(jw, key);
    if (spot_json_get(v, "type"))
        spot_jw_tree(jw, "type", spot_json_get(v, "type"));
    spot_jw_object(jw, "function");
    for (size_t i = 0; (one = spot_json_member(v, i, &name)); i++)
        if (strcmp(name, "type") != 0)
            spot_jw_tree(jw, name, one);
    spot_jw_end(jw);
    spot_jw_end(jw);
}

static void put_tools(struct spot_body *b, struct spot_jw *jw)
{
    const struct spot_json_value *const tools = spot_body_member(b, "tools");
    const struct spot_json_value *const choice = spot_body_member(b, "tool_choice");

    if (tools) {
        spot_jw_array(jw, "tools");
        for (size_t i = 0; i < spot_json_array_size(tools); i++)
            put_function(jw, NULL, spot_json_entry(tools, i));
        spot_jw_end(jw);
    }
    if (spot_json_is_object(choice))
        put_function(jw, "tool_choice", choice);
    else if (choice)
        spot_jw_tree(jw, "tool_choice", choice);
}

static void put_form(struct spot_body *b, struct spot_jw *jw)
{
    static const char *const of_text[] = { "format", "verbosity", NULL };
    const struct spot_json_value *const text = spot_body_member(b, "text"), *one;
    const struct spot_json_value *const format = spot_json_get(text, "format");
    const char *name;

    spot_body_check_members(b, text, of_text, "text");
    if (!spot_json_is_object(format))
        return;
    spot_jw_object(jw, "response_format");
    spot_jw_tree(jw, "type", spot_json_get(format, "type"));
    if (spot_json_is_word(spot_json_get(format, "type"), "json_schema")) {
        spot_jw_object(jw, "json_schema");
        for (size_t i = 0; (one = spot_json_member(format, i, &name)); i++)
            if (strcmp(name, "type") != 0)
                spot_jw_tree(jw, name, one);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* --- whole body ------------------------------------------------------------------------- */

static void begin(struct spot_jw *jw, FILE *out)
{
    spot_jw_init(jw, out, false);
    spot_jw_object(jw, NULL);
}

static void finish(struct spot_jw *jw, FILE *out)
{
    spot_jw_end(jw);
    (void)spot_jw_close(jw, NULL);
    spot_xmemory_close(out);
}

char *spot_body_chat_of_response(struct spot_body *b, size_t *n_byte, char **told)
{
    const struct spot_json_value *const most = spot_body_member(b, "max_output_tokens");
    char *text;
    size_t n_told;
    FILE *const out = spot_xmemory_open(&text, n_byte), *const note =
                                                            spot_xmemory_open(told, &n_told);
    struct spot_jw jw, told_jw;

    begin(&jw, out);
    begin(&told_jw, note);
    put_members(b, &jw, &told_jw);
    put_input(b, &jw);
    put_tools(b, &jw);
    put_form(b, &jw);
    if (most)
        spot_jw_tree(&jw, "max_completion_tokens", most);
    finish(&jw, out);
    finish(&told_jw, note);
    if (!b->status)
        return text;
    free(text);
    return NULL;
}

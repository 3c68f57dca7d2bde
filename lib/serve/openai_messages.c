/* SPDX-License-Identifier: MIT */
/* Converts the messages, tools and settings of a chat, by its template, to tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/openai_body.h"

enum { MESSAGES_MAX = 4096 };

/* The text of a content, which is a string or an array of text parts; to be freed. NULL if it is
 * neither. */
static char *content_of(const struct spot_json_value *v)
{
    struct spot_buf text = { 0 };

    if (spot_json_text(v))
        return spot_xstrdup(spot_json_text(v));
    for (size_t i = 0; i < spot_json_array_size(v); i++) {
        const struct spot_json_value *const part = spot_json_entry(v, i);
        const char *const type = spot_json_text(spot_json_get(part, "type"));
        const char *const piece = spot_json_text(spot_json_get(part, "text"));

        if (!type || strcmp(type, "text") != 0 || !piece) {
            spot_buf_release(&text);
            return NULL;
        }
        spot_buf_add(&text, piece, strlen(piece));
    }
    if (!spot_json_array_size(v))
        return NULL;
    spot_buf_add(&text, "", 1);
    return (char *)text.data;
}

/* Reject parts that would be left out of the prompt: names, images. */
static void check_message(struct spot_body *b, const struct spot_json_value *v, const char *role,
                          size_t i)
{
    static const char *const of_others[] = { "role", "content", NULL };
    static const char *const of_assistant[] = { "role", "content", "tool_calls",
                                                "reasoning_content", NULL };
    static const char *const of_tool[] = { "role", "content", "tool_call_id", "name", NULL };
    static const char *const of_part[] = { "type", "text", NULL };
    const struct spot_json_value *const content = spot_json_get(v, "content");
    char where[64];

    snprintf(where, sizeof(where), "messages[%zu]", i);
    spot_body_check_members(b, v,
                            !strcmp(role, "assistant") ? of_assistant
                            : !strcmp(role, "tool")    ? of_tool
                                                       : of_others,
                            where);
    for (size_t k = 0; k < spot_json_array_size(content); k++) {
        snprintf(where, sizeof(where), "messages[%zu].content[%zu]", i, k);
        spot_body_check_members(b, spot_json_entry(content, k), of_part, where);
    }
}

/* --- calls of tools ------------------------------------------------------------ */

/* In OpenAI's API arguments are the text of an object; templates need the object. */
static void put_arguments(struct spot_body *b, struct spot_jw *jw, const struct spot_json_value *v,
                          size_t i)
{
    const char *const text = spot_json_text(v);
    struct spot_json_doc doc;

    if (spot_json_is_object(v)) {
        spot_jw_tree(jw, "arguments", v);
    } else if (text && !*text) {
        spot_jw_raw(jw, "arguments", "{}");
    } else if (text && !spot_json_parse(&doc, text, strlen(text), "arguments", NULL)) {
        spot_jw_tree(jw, "arguments", doc.root);
        spot_json_release(&doc);
    } else {
        spot_jw_raw(jw, "arguments", "{}");
        spot_body_refuse(b, 400, "messages", NULL,
                         "The arguments of a call in message %zu must be the text of an object.",
                         i);
    }
}

static void put_text(struct spot_jw *jw, const char *key, const struct spot_json_value *v)
{
    if (spot_json_text(v))
        spot_jw_str(jw, key, spot_json_text(v));
}

static void put_calls(struct spot_body *b, struct spot_jw *jw, const struct spot_json_value *calls,
                      size_t i)
{
    static const char *const of_call[] = { "id", "type", "function", "index", NULL };
    static const char *const of_function[] = { "name", "arguments", NULL };
    char where[80];

    spot_jw_array(jw, "tool_calls");
    for (size_t k = 0; k < spot_json_array_size(calls); k++) {
        const struct spot_json_value *const call = spot_json_entry(calls, k);
        const struct spot_json_value *const function = spot_json_get(call, "function");
        const struct spot_json_value *const name = spot_json_get(function, "name");

        snprintf(where, sizeof(where), "messages[%zu].tool_calls[%zu]", i, k);
        spot_body_check_members(b, call, of_call, where);
        spot_body_check_members(b, function, of_function, where);
        if (!spot_json_text(name))
            spot_body_refuse(b, 400, where, NULL, "'%s' must be a call of a function.", where);
        spot_jw_object(jw, NULL);
        put_text(jw, "id", spot_json_get(call, "id"));
        spot_jw_str(jw, "type", "function");
        spot_jw_object(jw, "function");
        put_text(jw, "name", name);
        put_arguments(b, jw, spot_json_get(function, "arguments"), i);
        spot_jw_end(jw);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* --- what the template gets ------------------------------------------------------- */

/* Newer clients call the system role "developer". */
static void put_message(struct spot_body *b, struct spot_jw *jw, const struct spot_json_value *v,
                        size_t i)
{
    const char *const said = spot_json_text(spot_json_get(v, "role"));
    const char *const role = said && !strcmp(said, "developer") ? "system" : said ? said : "";
    const struct spot_json_value *const calls = spot_json_get(v, "tool_calls");
    const bool has_calls = !strcmp(role, "assistant") && spot_json_array_size(calls);
    char *const content = content_of(spot_json_get(v, "content"));

    check_message(b, v, role, i);
    if (!*role || (!content && !(has_calls && spot_json_is_nothing(spot_json_get(v, "content")))))
        spot_body_refuse(b, 400, "messages", NULL,
                         "Message %zu must have a role and a text as content.", i);
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "role", role);
    spot_jw_str(jw, "content", content ? content : "");
    put_text(jw, "reasoning_content", spot_json_get(v, "reasoning_content"));
    put_text(jw, "tool_call_id", spot_json_get(v, "tool_call_id"));
    if (!strcmp(role, "tool"))
        put_text(jw, "name", spot_json_get(v, "name"));
    if (has_calls)
        put_calls(b, jw, calls, i);
    spot_jw_end(jw);
    free(content);
}

static bool continues(struct spot_body *b)
{
    return spot_body_boolean(b, "continue_final_message", false);
}

static void put_settings(struct spot_body *b, struct spot_jw *jw)
{
    static const char *const ours[] = { "messages", "tools", "documents", "add_generation_prompt" };
    const struct spot_json_value *const more = spot_body_member(b, "chat_template_kwargs"), *v;
    const bool asks = spot_body_boolean(b, "add_generation_prompt", !continues(b));
    const char *key;

    if (asks && continues(b))
        spot_body_refuse(b, 400, "continue_final_message", NULL,
                         "'continue_final_message' and 'add_generation_prompt' exclude each "
                         "other.");
    if (more && !spot_json_is_object(more))
        spot_body_refuse(b, 400, "chat_template_kwargs", NULL,
                         "'chat_template_kwargs' must be an object.");
    spot_jw_bool(jw, "add_generation_prompt", asks);
    for (size_t i = 0; (v = spot_json_member(more, i, &key)); i++) {
        for (size_t k = 0; k < sizeof(ours) / sizeof(*ours); k++)
            if (!strcmp(key, ours[k]))
                spot_body_refuse(b, 400, "chat_template_kwargs", NULL,
                                 "'chat_template_kwargs.%s' is a member of the body itself.", key);
        spot_jw_tree(jw, key, v);
    }
}

static char *context_of(struct spot_body *b, const struct spot_json_value *list, size_t *n)
{
    const struct spot_json_value *const documents = spot_body_member(b, "documents");
    struct spot_jw jw;
    char *text;
    FILE *const out = spot_xmemory_open(&text, n);

    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_array(&jw, "messages");
    for (size_t i = 0; i < spot_json_size(list); i++)
        put_message(b, &jw, spot_json_entry(list, i), i);
    spot_jw_end(&jw);
    if (b->tools)
        spot_jw_tree(&jw, "tools", b->tools);
    if (documents)
        spot_jw_tree(&jw, "documents", documents);
    put_settings(b, &jw);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    return text;
}

/* --- the prompt ------------------------------------------------------------------- */

static size_t find_last(const struct spot_buf *text, const char *what, size_t n)
{
    for (size_t at = text->n >= n ? text->n - n + 1 : 0; at-- > 0;)
        if (!memcmp(text->data + at, what, n))
            return at;
    return SIZE_MAX;
}

/* Remove the template's text after the last message, so that the answer continues that message.
 * Templates may strip a message. */
static void cut_final(struct spot_body *b, const struct spot_json_value *context,
                      struct spot_buf *text)
{
    const struct spot_json_value *const list = spot_json_get(context, "messages");
    const struct spot_json_value *const last = spot_json_entry(list, spot_json_size(list) - 1);
    const char *const said = spot_json_text(spot_json_get(last, "content"));
    const char *const begin = said + strspn(said, " \n\t\r");
    const size_t all = strlen(begin);
    size_t n = all, at;

    while (n && strchr(" \n\t\r", begin[n - 1]))
        n--;
    at = n ? find_last(text, begin, n) : SIZE_MAX;
    if (at == SIZE_MAX)
        spot_body_refuse(b, 400, "continue_final_message", NULL,
                         "The template does not show the final message as it is.");
    else if (at + all <= text->n && !memcmp(text->data + at, begin, all))
        text->n = at + all;
    else
        text->n = at + n;
}

static void render(struct spot_body *b, const struct spot_json_value *context)
{
    struct spot_buf text = { 0 };
    struct spot_err err = { 0 };

    if (spot_chat_render(b->options->chat, context, &text, &err))
        spot_body_refuse(b, 400, "messages", NULL, "%s", err.msg);
    else if (continues(b))
        cut_final(b, context, &text);
    if (!b->status)
        spot_body_take_text(b, "messages", (const char *)text.data, text.n);
    spot_buf_release(&text);
}

void spot_body_read_messages(struct spot_body *b)
{
    const struct spot_json_value *const list = spot_body_member(b, "messages");
    const size_t n = spot_json_array_size(list);
    struct spot_json_doc context;
    struct spot_err err = { 0 };
    char *text;
    size_t n_text;

    if (!b->options->chat) {
        spot_body_refuse(b, 400, "messages", NULL,
                         "This model has no chat template that is supported: %s",
                         b->options->chat_why ? b->options->chat_why : "none is given");
        return;
    }
    if (!n || n > MESSAGES_MAX) {
        spot_body_refuse(b, 400, "messages", NULL,
                         "'messages' must be an array of 1 to %d messages.", MESSAGES_MAX);
        return;
    }
    text = context_of(b, list, &n_text);
    if (!b->status && spot_json_parse(&context, text, n_text, "messages", &err)) {
        spot_body_refuse(b, 400, "messages", NULL, "%s", err.msg);
    } else if (!b->status) {
        render(b, context.root);
        spot_json_release(&context);
    }
    free(text);
}

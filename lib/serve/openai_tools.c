/* SPDX-License-Identifier: MIT */
/* tools and tool_choice: the functions given to the model, and the calls that its text may
 * contain. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/grammar.h"
#include "serve/openai_body.h"
#include "serve/tool_call.h"

enum { TOOLS_MAX = 512, NAME_MAX_BYTE = 64 };

enum choice { AUTO, NO_CALL, REQUIRED, NAMED };

struct tools {
    const struct spot_json_value *list;
    enum choice choice;
    const char *named;
    bool is_single; /* at most one call */
};

static const struct spot_json_value *function_of(const struct spot_json_value *tool)
{
    return spot_json_get(tool, "function");
}

static const char *name_of(const struct spot_json_value *tool)
{
    return spot_json_text(spot_json_get(function_of(tool), "name"));
}

static bool is_strict(const struct spot_json_value *tool)
{
    return spot_json_is_true(spot_json_get(function_of(tool), "strict"));
}

/* --- the request ------------------------------------------------------------ */

static bool is_name(const char *name)
{
    size_t n = 0;

    while (name && (isalnum((unsigned char)name[n]) || (name[n] && strchr("_-.", name[n]))))
        n++;
    return n && n <= NAME_MAX_BYTE && !name[n];
}

static void check_tool(struct spot_body *b, const struct spot_json_value *tool, size_t i)
{
    static const char *const of_tool[] = { "type", "function", NULL };
    static const char *const of_function[] = { "name", "description", "parameters", "strict",
                                               NULL };
    const struct spot_json_value *const parameters = spot_json_get(function_of(tool), "parameters");
    char where[64];

    snprintf(where, sizeof(where), "tools[%zu]", i);
    if (!spot_json_is_word(spot_json_get(tool, "type"), "function"))
        spot_body_refuse(b, 400, where, NULL, "'%s.type' must be 'function'.", where);
    spot_body_check_members(b, tool, of_tool, where);
    snprintf(where, sizeof(where), "tools[%zu].function", i);
    spot_body_check_members(b, function_of(tool), of_function, where);
    if (!is_name(name_of(tool)))
        spot_body_refuse(b, 400, where, NULL,
                         "'%s.name' must be 1 to %d letters, digits, '_', '-' and '.'.", where,
                         NAME_MAX_BYTE);
    if (parameters && !spot_json_is_null(parameters) && !spot_json_is_object(parameters))
        spot_body_refuse(b, 400, where, NULL, "'%s.parameters' must be a schema.", where);
}

static bool has_tool(const struct spot_json_value *list, const char *name)
{
    for (size_t i = 0; i < spot_json_array_size(list); i++)
        if (!strcmp(name_of(spot_json_entry(list, i)), name))
            return true;
    return false;
}

static void read_choice(struct spot_body *b, struct tools *t)
{
    static const char *const word[] = { "auto", "none", "required" };
    static const char *const of_choice[] = { "type", "function", NULL };
    const struct spot_json_value *const v = spot_body_member(b, "tool_choice");

    if (!v)
        return;
    for (int i = 0; i < 3; i++)
        if (spot_json_is_word(v, word[i])) {
            t->choice = (enum choice)i;
            return;
        }
    spot_body_check_members(b, v, of_choice, "tool_choice");
    t->named = name_of(v);
    t->choice = NAMED;
    if (!t->named || !spot_json_is_word(spot_json_get(v, "type"), "function"))
        spot_body_refuse(b, 400, "tool_choice", NULL,
                         "'tool_choice' must be none, auto, required, or a function's name.");
    else if (t->list && !b->status && !has_tool(t->list, t->named))
        spot_body_refuse(b, 400, "tool_choice", NULL,
                         "'tool_choice' names the function '%.64s', which is not in 'tools'.",
                         t->named);
}

static struct tools read_tools(struct spot_body *b)
{
    struct tools t = { .list = spot_body_member(b, "tools") };
    const size_t n = spot_json_array_size(t.list);

    t.is_single = !spot_body_boolean(b, "parallel_tool_calls", true);
    if (t.list && (!spot_json_is_array(t.list) || n > TOOLS_MAX))
        spot_body_refuse(b, 400, "tools", NULL, "'tools' must be an array of at most %d tools.",
                         TOOLS_MAX);
    for (size_t i = 0; i < n && !b->status; i++)
        check_tool(b, spot_json_entry(t.list, i), i);
    t.list = n ? t.list : NULL;
    read_choice(b, &t);
    if (!t.list && t.choice >= REQUIRED)
        spot_body_refuse(b, 400, "tool_choice", NULL, "'tool_choice' needs 'tools'.");
    t.is_single = t.is_single || t.choice == NAMED;
    return t;
}

/* --- the form of the text ------------------------------------------------------- */

static void put_text(struct spot_jw *jw, const char *text)
{
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "text", text);
    spot_jw_end(jw);
}

/* Write a mark, as a special token if the vocabulary has one of this name. */
static void put_mark(const struct spot_body *b, struct spot_jw *jw, const char *before,
                     const char *text)
{
    const struct spot_bpe *const bpe = b->options->vocabulary->bpe;
    const int64_t id = *text ? spot_bpe_find(bpe, text) : -1;
    const bool is_token = id >= 0 && spot_bpe_is_special(bpe, (uint32_t)id);
    char key[16];

    snprintf(key, sizeof(key), "%s%s", before, is_token ? (*before ? "_token" : "token") : "");
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, *key ? key : "text", text);
    spot_jw_end(jw);
}

static int check_schema(const struct spot_json_value *schema, struct spot_err *err)
{
    char *text;
    size_t n;
    FILE *const out = spot_xmemory_open(&text, &n);
    struct spot_jw jw;
    int rc;

    spot_jw_init(&jw, out, false);
    spot_jw_tree(&jw, NULL, schema);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    rc = spot_grammar_check(text, n, err);
    free(text);
    return rc;
}

/* A schema that cannot be converted to a grammar is an error if it must be enforced, because calls
 * are forced or the function is strict; otherwise the arguments are any object. */
static void put_schema(struct spot_body *b, struct spot_jw *jw, const struct spot_json_value *tool,
                       bool is_forced)
{
    const struct spot_json_value *const strict = spot_json_get(function_of(tool), "strict");
    const struct spot_json_value *const schema = spot_json_get(function_of(tool), "parameters");
    struct spot_err err = { 0 };

    if (!schema || spot_json_is_null(schema)) { /* the function has no parameters */
        spot_jw_raw(jw, "json", "{\"type\":\"object\",\"properties\":{}}");
    } else if (!check_schema(schema, &err)) {
        spot_jw_tree(jw, "json", schema);
    } else {
        if (is_strict(tool) || (is_forced && !spot_json_is_false(strict)))
            spot_body_refuse(b, 400, "tools", NULL, "Invalid schema for function '%s': %s",
                             name_of(tool), err.msg);
        spot_jw_raw(jw, "json", "{}");
    }
}

/* One call of any function that may be called. */
static void put_call(struct spot_body *b, struct spot_jw *jw, const struct tools *t,
                     const struct spot_tool_form *form)
{
    spot_jw_object(jw, NULL);
    spot_jw_array(jw, "or");
    for (size_t i = 0; i < spot_json_array_size(t->list); i++) {
        const struct spot_json_value *const tool = spot_json_entry(t->list, i);

        if (t->named && strcmp(name_of(tool), t->named) != 0)
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_array(jw, "seq");
        put_text(jw, name_of(tool));
        if (form->is_bare)
            put_mark(b, jw, "", form->arguments);
        else
            put_text(jw, form->arguments);
        spot_jw_object(jw, NULL);
        put_schema(b, jw, tool, t->choice >= REQUIRED);
        spot_jw_end(jw);
        spot_jw_end(jw);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_end(jw);
}

/* The repeated item: a call with its trigger, unless all calls are one array. */
static void put_item(struct spot_body *b, struct spot_jw *jw, const struct tools *t,
                     const struct spot_tool_form *form)
{
    spot_jw_object(jw, NULL);
    spot_jw_array(jw, "seq");
    if (!form->is_array)
        put_mark(b, jw, "", form->trigger);
    put_text(jw, form->open);
    put_call(b, jw, t, form);
    put_text(jw, form->close);
    if (!form->is_array)
        put_mark(b, jw, "", form->tail);
    spot_jw_end(jw);
    spot_jw_end(jw);
}

static void put_calls(struct spot_body *b, struct spot_jw *jw, const struct tools *t,
                      const struct spot_tool_form *form)
{
    spot_jw_object(jw, NULL);
    spot_jw_array(jw, "seq");
    if (form->is_array) {
        put_mark(b, jw, "", form->trigger);
        put_text(jw, "[");
    }
    if (t->is_single) {
        put_item(b, jw, t, form);
    } else {
        spot_jw_object(jw, NULL);
        spot_jw_array(jw, "list");
        put_item(b, jw, t, form);
        put_text(jw, form->between);
        spot_jw_end(jw);
        spot_jw_end(jw);
    }
    if (form->is_array) {
        put_text(jw, "]");
        put_mark(b, jw, "", form->tail);
    }
    spot_jw_end(jw);
    spot_jw_end(jw);
}

/* Calls, or text of a required form, or any text, which calls may follow. */
static void put_calls_or_text(struct spot_body *b, struct spot_jw *jw, const struct tools *t,
                              const struct spot_tool_form *form)
{
    const bool may_follow = !b->r->form && *form->trigger;

    spot_jw_object(jw, NULL);
    if (may_follow) {
        spot_jw_array(jw, "seq");
        put_mark(b, jw, "without", form->trigger);
        spot_jw_object(jw, NULL);
    }
    spot_jw_array(jw, "or");
    put_calls(b, jw, t, form);
    if (b->r->form)
        spot_jw_raw(jw, NULL, b->r->form);
    else
        put_mark(b, jw, *form->trigger ? "" : "without", "");
    spot_jw_end(jw);
    if (may_follow) {
        spot_jw_end(jw);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void constrain(struct spot_body *b, const struct tools *t)
{
    const struct spot_tool_form *const form = spot_tool_form(b->r->tool_form);
    char *text;
    size_t n;
    FILE *const out = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    spot_jw_init(&jw, out, false);
    if (t->choice >= REQUIRED)
        put_calls(b, &jw, t, form);
    else
        put_calls_or_text(b, &jw, t, form);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    spot_body_take_form(b, "tools", "schema", text);
}

/* If nothing is forced and no function is strict, no grammar is used and calls are found in the
 * free text, since masks cost time. */
void spot_body_read_tools(struct spot_body *b)
{
    const struct tools t = read_tools(b);
    bool must_constrain = t.choice >= REQUIRED || t.is_single || b->r->form;

    if (b->status || !t.list || t.choice == NO_CALL)
        return;
    b->tools = t.list;
    b->r->tool_form = b->options->tool_form ? b->options->tool_form : SPOT_TOOL_JSON;
    if (b->r->tool_form == SPOT_TOOL_NONE) {
        spot_body_refuse(b, 400, "tools", NULL, "This model does not support tools.");
        return;
    }
    for (size_t i = 0; i < spot_json_array_size(t.list); i++)
        must_constrain = must_constrain || is_strict(spot_json_entry(t.list, i));
    if (must_constrain)
        constrain(b, &t);
}

/* --- the model's form of calls ---------------------------------------------------- */

uint8_t spot_openai_tool_form(const struct spot_chat *chat)
{
    static const char context[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
        "\"content\":\"\",\"tool_calls\":[{\"id\":\"abcdefghi\",\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":{\"b\":1}}}]},{\"role\":\"tool\","
        "\"tool_call_id\":\"abcdefghi\",\"name\":\"f\",\"content\":\"c\"}],\"tools\":[{\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":"
        "\"object\",\"properties\":{\"b\":{\"type\":\"integer\"}}}}}],"
        "\"add_generation_prompt\":true}";
    struct spot_json_doc doc;
    struct spot_buf text = { 0 };
    uint8_t form = SPOT_TOOL_JSON;

    if (!chat || spot_json_parse(&doc, context, sizeof(context) - 1, "context", NULL))
        return form;
    if (!spot_chat_render(chat, doc.root, &text, NULL)) {
        spot_buf_add(&text, "", 1);
        form = spot_tool_form_of((const char *)text.data);
    }
    spot_json_release(&doc);
    spot_buf_release(&text);
    return form;
}

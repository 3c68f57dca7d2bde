/* SPDX-License-Identifier: MIT */
/* The form of the text: response_format, and vLLM's guided and structured outputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/grammar.h"
#include "serve/openai_body.h"

/* The original text of a value, from its beginning to its closing bracket. */
static char *raw(const struct spot_body *b, const struct spot_json_value *v)
{
    const size_t begin = spot_json_place(v);
    size_t at = begin;
    int depth = 0;
    bool is_text = false;
    char *out;

    do {
        const char c = b->text[at];

        if (is_text && c == '\\')
            at++;
        else if (c == '"')
            is_text = !is_text;
        else if (!is_text)
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        at++;
    } while (depth && at < b->n_byte);
    out = spot_xcalloc(at - begin + 1, 1);
    memcpy(out, b->text + begin, at - begin);
    return out;
}

/* The form {"KEY": value} as JSON text, to be freed. */
static char *form_of(const char *key, const char *value)
{
    const size_t n = strlen(key) + strlen(value) + 8;
    char *const form = spot_xcalloc(n, 1);

    snprintf(form, n, "{\"%s\": %s}", key, value);
    return form;
}

void spot_body_take_form(struct spot_body *b, const char *param, const char *what, char *form)
{
    struct spot_err err = { 0 };

    if (!b->status && spot_grammar_check(form, strlen(form), &err))
        spot_body_refuse(b, 400, param, NULL, "Invalid %s for %s: %s", what, param, err.msg);
    free(b->r->form);
    b->r->form = form;
}

/* The schema is checked separately, so that messages refer to places in it. */
static void take_schema(struct spot_body *b, const char *param, char *schema)
{
    struct spot_err err = { 0 };

    if (spot_grammar_check(schema, strlen(schema), &err))
        spot_body_refuse(b, 400, param, NULL, "Invalid schema for %s: %s", param, err.msg);
    else
        spot_body_take_form(b, param, "schema", form_of("json", schema));
    free(schema);
}

static void read_format(struct spot_body *b, const struct spot_json_value *v)
{
    static const char *const of_schema[] = { "type", "json_schema", NULL };
    static const char *const of_json_schema[] = { "name", "description", "schema", "strict", NULL };
    const struct spot_json_value *const type = spot_json_get(v, "type");
    const struct spot_json_value *const json_schema = spot_json_get(v, "json_schema");
    const struct spot_json_value *const schema = spot_json_get(json_schema, "schema");
    const bool has_schema = spot_json_is_word(type, "json_schema");

    /* a schema at this place would constrain nothing */
    spot_body_check_members(b, v, has_schema ? of_schema : (const char *[]){ "type", NULL },
                            "response_format");
    spot_body_check_members(b, json_schema, of_json_schema, "response_format.json_schema");
    if (b->status || spot_json_is_word(type, "text"))
        return;
    if (spot_json_is_word(type, "json_object"))
        take_schema(b, "response_format", spot_xstrdup("{}"));
    else if (has_schema && spot_json_is_object(schema))
        take_schema(b, "response_format", raw(b, schema));
    else
        spot_body_refuse(
            b, 400, "response_format", NULL,
            "'response_format' must have the type text, json_object, or json_schema with "
            "json_schema.schema.");
}

/* --- vLLM's ----------------------------------------------------------------- */

/* The value as JSON text, to be freed. */
static char *written(const struct spot_json_value *v)
{
    char *text;
    size_t n;
    FILE *const out = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    spot_jw_init(&jw, out, false);
    spot_jw_tree(&jw, NULL, v);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    return text;
}

/* A schema may be an object, or its text. */
static void take_json(struct spot_body *b, const char *param, const struct spot_json_value *v)
{
    if (spot_json_is_object(v))
        take_schema(b, param, raw(b, v));
    else if (spot_json_text(v))
        take_schema(b, param, spot_xstrdup(spot_json_text(v)));
    else
        spot_body_refuse(b, 400, param, NULL, "'%s' must be a schema.", param);
}

static void take_other(struct spot_body *b, const char *param, const char *key,
                       const struct spot_json_value *v)
{
    char *const value = written(v);

    spot_body_take_form(b, param, key, form_of(key, value));
    free(value);
}

/* The members of one object, or of the body with "guided_" before them. */
static const char *const constraint[] = { "json", "regex", "choice" };

static int read_constraints(struct spot_body *b, const struct spot_json_value *object,
                            const char *before)
{
    int n = 0;

    for (size_t i = 0; i < sizeof(constraint) / sizeof(*constraint) && !b->status; i++) {
        char name[64];
        const struct spot_json_value *v;

        snprintf(name, sizeof(name), "%s%s", before, constraint[i]);
        v = spot_json_get(object, *before == 'g' ? name : constraint[i]);
        if (!v || spot_json_is_null(v))
            continue;
        n++;
        if (i == 0)
            take_json(b, name, v);
        else
            take_other(b, name, constraint[i], v);
    }
    return n;
}

void spot_body_read_form(struct spot_body *b)
{
    static const char *const of_outputs[] = { "json", "regex", "choice", NULL };
    const struct spot_json_value *const format = spot_body_member(b, "response_format");
    const struct spot_json_value *const outputs = spot_body_member(b, "structured_outputs");
    int n;

    if (format)
        read_format(b, format);
    n = b->r->form != NULL;
    if (outputs && !spot_json_is_object(outputs))
        spot_body_refuse(b, 400, "structured_outputs", NULL,
                         "'structured_outputs' must be an object.");
    spot_body_check_members(b, outputs, of_outputs, "structured_outputs");
    n += read_constraints(b, b->doc.root, "guided_");
    n += read_constraints(b, outputs, "structured_outputs.");
    if (n > 1)
        spot_body_refuse(b, 400, "structured_outputs", NULL,
                         "Of response_format, structured_outputs and guided_* only one may say "
                         "what the text is.");
}

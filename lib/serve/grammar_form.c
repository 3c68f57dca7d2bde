/* SPDX-License-Identifier: MIT */
/* Forms of a text: schemas, expressions and choices, and those for tools: sequences, alternatives,
 * repetitions, and free text that ends at a trigger. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "serve/grammar.h"
#include "serve/grammar_state.h"

enum { CHOICES_MAX = 1 << 14 };

typedef uint32_t builder(struct spot_greader *r, const struct spot_json_value *v, uint32_t next);

static builder form_of;

static const char *text_of(struct spot_greader *r, const struct spot_json_value *v)
{
    const char *const text = spot_json_text(v);

    if (!text)
        spot_greader_fail(r, "must be a text", "");
    return text ? text : "";
}

static uint32_t literal(struct spot_greader *r, const struct spot_json_value *v, uint32_t next)
{
    return spot_gnet_text(r->net, text_of(r, v), next);
}

static uint32_t token(struct spot_greader *r, const struct spot_json_value *v, uint32_t next)
{
    return spot_gnet_byte(r->net, SPOT_GRAMMAR_TOKEN, SPOT_GRAMMAR_TOKEN, literal(r, v, next));
}

static uint32_t without(struct spot_greader *r, const struct spot_json_value *v, uint32_t next)
{
    return spot_gnet_without(r->net, text_of(r, v), next);
}

/* Any text without the name of a special token. */
static uint32_t without_token(struct spot_greader *r, const struct spot_json_value *v,
                              uint32_t next)
{
    const char *const name = text_of(r, v);
    char *const text = spot_xcalloc(strlen(name) + 2, 1);
    uint32_t start;

    text[0] = (char)SPOT_GRAMMAR_TOKEN;
    memcpy(text + 1, name, strlen(name) + 1);
    start = spot_gnet_without(r->net, text, next);
    free(text);
    return start;
}

/* A regular expression that must match the whole text, with or without ^ and $. */
static uint32_t regex(struct spot_greader *r, const struct spot_json_value *v, uint32_t next)
{
    const char *pattern = text_of(r, v), *why;
    size_t n, at, n_slash = 0;
    char *whole, detail[160];
    uint32_t start;

    pattern += *pattern == '^';
    n = strlen(pattern);
    if (n && pattern[n - 1] == '$') {
        while (n_slash + 1 < n && pattern[n - 2 - n_slash] == '\\')
            n_slash++;
        n -= n_slash % 2 == 0;
    }
    whole = spot_xcalloc(n + 8, 1);
    snprintf(whole, n + 8, "^(?:%.*s)$", (int)n, pattern);
    r->net->is_plain = true;
    start = spot_gnet_pattern(r->net, whole, next, &why, &at);
    r->net->is_plain = false;
    free(whole);
    snprintf(detail, sizeof(detail), "%s (at character %zu)", why ? why : "", at > 4 ? at - 4 : 0);
    return why ? spot_greader_fail(r, "the expression ", detail) : start;
}

static uint32_t choice(struct spot_greader *r, const struct spot_json_value *v, uint32_t next)
{
    const size_t n = spot_json_array_size(v);
    char **text;
    size_t kept = 0;
    uint32_t start;

    if (!n || n > CHOICES_MAX)
        return spot_greader_fail(r, "must be an array of 1 to 16384 texts", "");
    text = spot_xcalloc(n, sizeof(*text));
    for (size_t i = 0; i < n; i++)
        text[i] = (char *)(uintptr_t)text_of(r, spot_json_entry(v, i));
    qsort(text, n, sizeof(*text), spot_compare_texts);
    for (size_t i = 0; i < n; i++)
        if (!kept || strcmp(text[kept - 1], text[i]) != 0)
            text[kept++] = text[i];
    start = spot_gnet_texts(r->net, text, kept, next);
    free(text);
    return start;
}

static uint32_t sequence(struct spot_greader *r, const struct spot_json_value *v, uint32_t next)
{
    for (size_t i = spot_json_array_size(v); i-- > 0;)
        next = form_of(r, spot_json_entry(v, i), next);
    return next;
}

static uint32_t either(struct spot_greader *r, const struct spot_json_value *v, uint32_t next)
{
    uint32_t start = r->net->never;

    for (size_t i = 0; i < spot_json_array_size(v); i++)
        start = spot_gnet_split(r->net, start, form_of(r, spot_json_entry(v, i), next));
    return start;
}

/* [item, between]: one or more items, with `between` in between. */
static uint32_t list(struct spot_greader *r, const struct spot_json_value *v, uint32_t next)
{
    struct spot_gnet *const net = r->net;
    const uint32_t rule = spot_gnet_rule(net);
    const uint32_t item = form_of(r, spot_json_entry(v, 0), 0);
    const uint32_t more = form_of(r, spot_json_entry(v, 1), spot_gnet_call(net, rule, 0));

    net->rule[rule] = item;
    return spot_gnet_call(net, rule, spot_gnet_loop(net, more, 0, SPOT_GRAMMAR_MANY, next));
}

static const struct {
    const char *key;
    builder *build;
} known[] = {
    { "json", spot_greader_schema },
    { "regex", regex },
    { "choice", choice },
    { "text", literal },
    { "token", token },
    { "without", without },
    { "without_token", without_token },
    { "seq", sequence },
    { "or", either },
    { "list", list },
};

/* The builder of a form, and its operand *v; NULL if `form` is not one but a schema. */
static builder *builder_of(const struct spot_json_value *form, const struct spot_json_value **v)
{
    const char *key;

    if (spot_json_object_size(form) != 1)
        return NULL;
    *v = spot_json_member(form, 0, &key);
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(known[i].key, key))
            return known[i].build;
    return NULL;
}

static uint32_t form_of(struct spot_greader *r, const struct spot_json_value *form, uint32_t next)
{
    const struct spot_json_value *v = NULL;
    builder *const build = builder_of(form, &v);

    if (r->has_failed || r->net->is_full)
        return 0;
    return build ? build(r, v, next) : spot_greader_schema(r, form, next);
}

static int say(struct spot_greader *r, enum spot_gnet_fault fault)
{
    switch (fault) {
    case SPOT_GNET_SOUND:
        return 0;
    case SPOT_GNET_FULL:
        spot_greader_fail(r, "the schema is too large", "");
        break;
    case SPOT_GNET_EMPTY:
        spot_greader_fail(r, "no text is valid under this schema", "");
        break;
    case SPOT_GNET_LEFT_RECURSIVE:
        spot_greader_fail(r, "a $ref leads to nothing but itself", "");
        break;
    }
    return -1;
}

int spot_gnet_of_form(struct spot_gnet *net, const char *form, size_t n_byte, struct spot_err *err)
{
    struct spot_greader r = { .net = net, .err = err };

    if (n_byte > SPOT_GRAMMAR_SCHEMA_MAX)
        return spot_err_set(err, SPOT_EDATA, "the schema is too large: %zu bytes, %d at most",
                            n_byte, SPOT_GRAMMAR_SCHEMA_MAX);
    if (spot_json_parse(&r.doc, form, n_byte, "schema", err))
        return -1;
    net->start = form_of(&r, r.doc.root, 0);
    if (!r.has_failed)
        say(&r, spot_gnet_finish(net));
    free(r.reference);
    spot_json_release(&r.doc);
    return r.has_failed ? -1 : 0;
}

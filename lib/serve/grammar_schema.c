/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/grammar_state.h"

/* --- position and errors ----------------------------------------------------------- */

uint32_t spot_greader_fail(struct spot_greader *r, const char *what, const char *detail)
{
    if (!r->has_failed)
        spot_json_fail(&r->doc, r->pointer, r->err, "%s%s", what, detail);
    r->has_failed = true;
    return 0;
}

/* Builds any text that the schema allows, followed by `next`. */
static uint32_t value_of(struct spot_greader *r, const struct spot_json_value *schema,
                         uint32_t next);

uint32_t spot_greader_below(struct spot_greader *r, const char *key,
                            const struct spot_json_value *schema, uint32_t next)
{
    const size_t n = strlen(r->pointer);
    uint32_t start;

    snprintf(r->pointer + n, sizeof(r->pointer) - n, "/%s", key);
    start = value_of(r, schema, next);
    r->pointer[n] = '\0';
    return start;
}

/* --- a schema --------------------------------------------------------------- */

static uint32_t typed(struct spot_greader *r, const struct spot_json_value *schema,
                      const struct spot_json_value *type, uint32_t next)
{
    uint32_t start = r->net->never;
    bool has_number = false;

    if (spot_json_is_string(type))
        return spot_greader_of_type(r, schema, spot_json_text(type), next);
    if (!spot_json_array_size(type))
        return spot_greader_fail(r, "type must be a name or an array of names", "");
    for (size_t i = 0; i < spot_json_array_size(type); i++)
        has_number = has_number || (spot_json_is_string(spot_json_entry(type, i)) &&
                                    !strcmp(spot_json_text(spot_json_entry(type, i)), "number"));
    for (size_t i = 0; i < spot_json_array_size(type) && !r->has_failed; i++) {
        const char *const name = spot_json_text(spot_json_entry(type, i));

        if (!name)
            return spot_greader_fail(r, "type must be a name or an array of names", "");
        if (has_number && !strcmp(name, "integer")) /* "number" includes integers */
            continue;
        start = spot_gnet_split(r->net, start, spot_greader_of_type(r, schema, name, next));
    }
    return start;
}

static uint32_t any_of(struct spot_greader *r, const char *key, const struct spot_json_value *list,
                       uint32_t next)
{
    uint32_t start = r->net->never;

    if (!spot_json_array_size(list))
        return spot_greader_fail(r, key, " must be an array of schemas");
    for (size_t i = 0; i < spot_json_array_size(list) && !r->has_failed; i++) {
        char at[64];

        snprintf(at, sizeof(at), "%s/%zu", key, i);
        start = spot_gnet_split(r->net, start,
                                spot_greader_below(r, at, spot_json_entry(list, i), next));
    }
    return start;
}

/* The value at "#/$defs/x" in the document. */
static const struct spot_json_value *resolve(struct spot_greader *r, const char *reference)
{
    const struct spot_json_value *at = r->root;
    const char *c = reference + 1;

    if (*reference != '#' || (*c && *c != '/')) {
        spot_greader_fail(r, "only a $ref within the schema is supported, not ", reference);
        return NULL;
    }
    while (at && *c == '/') {
        char key[256];
        size_t n = 0;

        for (c++; *c && *c != '/' && n < sizeof(key) - 1; c++) {
            const bool is_escape = c[0] == '~' && (c[1] == '0' || c[1] == '1');

            key[n++] = is_escape ? (c[1] == '0' ? '~' : '/') : *c;
            c += is_escape;
        }
        key[n] = '\0';
        at = spot_json_is_array(at) ? spot_json_entry(at, strtoul(key, NULL, 10))
                                    : spot_json_get(at, key);
    }
    if (!at)
        spot_greader_fail(r, "there is nothing at $ref ", reference);
    return at;
}

/* Each referenced place becomes one rule, which may call itself. */
static uint32_t referred(struct spot_greader *r, const struct spot_json_value *ref, uint32_t next)
{
    const struct spot_json_value *to;
    uint32_t rule, start;

    if (!spot_json_is_string(ref))
        return spot_greader_fail(r, "$ref must be a text", "");
    to = resolve(r, spot_json_text(ref));
    for (size_t i = 0; i < r->n_reference; i++)
        if (r->reference[i].to == to)
            return spot_gnet_call(r->net, r->reference[i].rule, next);
    if (!to)
        return 0;
    rule = spot_gnet_rule(r->net);
    r->reference =
        spot_xgrow(r->reference, &r->reference_cap, r->n_reference + 1, sizeof(*r->reference));
    r->reference[r->n_reference++] = (struct spot_greference){ to, rule };
    start = value_of(r, to, 0);
    r->net->rule[rule] = start;
    return spot_gnet_call(r->net, rule, next);
}

/* Keywords that do not affect validity, and OpenAPI's nullable, which may accompany any other. */
static bool is_annotation(const char *key)
{
    static const char *const known[] = { "title",    "description", "default",  "examples",
                                         "$schema",  "$id",         "$comment", "deprecated",
                                         "readOnly", "writeOnly",   "$defs",    "definitions",
                                         "$anchor",  "nullable" };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(known[i], key))
            return true;
    return false;
}

static bool is_known(const char *key)
{
    static const char *const known[] = {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxItems",
        "prefixItems",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "enum",
        "const",
        "exclusiveMaximum",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(known[i], key))
            return true;
    return is_annotation(key);
}

/* True if the only keywords beside this one are annotations. */
static bool stands_alone(struct spot_greader *r, const struct spot_json_value *schema,
                         const char *key)
{
    const char *other;

    for (size_t i = 0; spot_json_member(schema, i, &other); i++)
        if (strcmp(other, key) != 0 && !is_annotation(other)) {
            spot_greader_fail(r, other, " beside anyOf, oneOf, allOf or $ref is not supported");
            return false;
        }
    return true;
}

static uint32_t combined(struct spot_greader *r, const struct spot_json_value *schema,
                         const char *key, uint32_t next)
{
    const struct spot_json_value *const v = spot_json_get(schema, key);

    if (!stands_alone(r, schema, key))
        return 0;
    if (!strcmp(key, "$ref"))
        return referred(r, v, next);
    if (!strcmp(key, "allOf") && spot_json_array_size(v) != 1)
        return spot_greader_fail(r, "allOf of more than one schema is not supported", "");
    return any_of(r, key, v, next);
}

/* The type of a schema without "type", implied by its keywords. */
static const char *implied_type(const struct spot_json_value *schema)
{
    static const char *const by[][2] = {
        { "properties", "object" }, { "additionalProperties", "object" },
        { "items", "array" },       { "prefixItems", "array" },
        { "pattern", "string" },    { "format", "string" },
        { "minLength", "string" },  { "maxLength", "string" },
    };

    for (size_t i = 0; i < sizeof(by) / sizeof(*by); i++)
        if (spot_json_get(schema, by[i][0]))
            return by[i][1];
    return NULL;
}

static bool says_nothing(const struct spot_json_value *schema)
{
    const char *key;

    for (size_t i = 0; spot_json_member(schema, i, &key); i++)
        if (!is_annotation(key))
            return false;
    return true;
}

static uint32_t of_object(struct spot_greader *r, const struct spot_json_value *schema,
                          uint32_t next)
{
    static const char *const combining[] = { "$ref", "anyOf", "oneOf", "allOf" };
    const struct spot_json_value *const type = spot_json_get(schema, "type");
    const char *key;

    for (size_t i = 0; spot_json_member(schema, i, &key); i++)
        if (!is_known(key))
            return spot_greader_fail(r, key, " is not supported");
    for (size_t i = 0; i < sizeof(combining) / sizeof(*combining); i++)
        if (spot_json_get(schema, combining[i]))
            return combined(r, schema, combining[i], next);
    if (spot_json_get(schema, "enum") || spot_json_get(schema, "const"))
        return spot_greader_named(r, schema, next);
    if (type)
        return typed(r, schema, type, next);
    if (implied_type(schema))
        return spot_greader_of_type(r, schema, implied_type(schema), next);
    if (says_nothing(schema))
        return spot_gnet_call(r->net, spot_greader_any(r, SPOT_GRAMMAR_ANY_DEPTH), next);
    return spot_greader_fail(r, "type is missing", "");
}

/* A value of the schema, or null if it is nullable. */
static uint32_t nullable(struct spot_greader *r, const struct spot_json_value *schema,
                         uint32_t next)
{
    const struct spot_json_value *const may = spot_json_get(schema, "nullable");
    const uint32_t start = of_object(r, schema, next);

    if (may && !spot_json_is_boolean(may))
        return spot_greader_fail(r, "nullable must be true or false", "");
    return may && spot_json_is_true(may)
               ? spot_gnet_split(r->net, start, spot_gnet_text(r->net, "null", next))
               : start;
}

static uint32_t value_of(struct spot_greader *r, const struct spot_json_value *schema,
                         uint32_t next)
{
    uint32_t start = 0;

    if (r->has_failed || r->net->is_full)
        return 0;
    if (spot_json_is_true(schema))
        return spot_gnet_call(r->net, spot_greader_any(r, SPOT_GRAMMAR_ANY_DEPTH), next);
    if (spot_json_is_false(schema))
        return r->net->never;
    if (!spot_json_is_object(schema))
        return spot_greader_fail(r, "a schema must be an object, true or false", "");
    if (++r->depth > SPOT_GRAMMAR_DEPTH_MAX)
        spot_greader_fail(r, "is nested too deeply", "");
    else
        start = nullable(r, schema, next);
    r->depth--;
    return start;
}

uint32_t spot_greader_schema(struct spot_greader *r, const struct spot_json_value *schema,
                             uint32_t next)
{
    const struct spot_json_value *const outer = r->root;
    uint32_t start;

    r->root = schema;
    start = spot_json_is_object(schema) && says_nothing(schema)
                ? spot_greader_any_object(r, SPOT_GRAMMAR_ANY_DEPTH, next)
                : value_of(r, schema, next);
    r->root = outer;
    return start;
}

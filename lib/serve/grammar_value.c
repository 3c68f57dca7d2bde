/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "serve/grammar_state.h"

enum {
    ENUM_MAX = 1 << 14,
    COUNT_MAX = 65535, /* maximum of minLength and similar keywords */
};

/* --- values that are named -------------------------------------------------- */

static char *compact(const struct spot_json_value *v)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const out = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    spot_jw_init(&jw, out, false);
    spot_jw_tree(&jw, NULL, v);
    spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    while (n && text[n - 1] == '\n')
        text[--n] = '\0';
    return text;
}

/* Any of text[n], which are freed. */
static uint32_t one_of(struct spot_greader *r, char **text, size_t n, uint32_t next)
{
    size_t kept = 0;
    uint32_t start;

    qsort(text, n, sizeof(*text), spot_compare_texts);
    for (size_t i = 0; i < n; i++) {
        if (kept && !strcmp(text[kept - 1], text[i]))
            free(text[i]);
        else
            text[kept++] = text[i];
    }
    start = spot_gnet_texts(r->net, text, kept, next);
    for (size_t i = 0; i < kept; i++)
        free(text[i]);
    free(text);
    return start;
}

static bool is_of_type(const struct spot_json_value *v, const char *type)
{
    if (!strcmp(type, "object"))
        return spot_json_is_object(v);
    if (!strcmp(type, "array"))
        return spot_json_is_array(v);
    if (!strcmp(type, "string"))
        return spot_json_is_string(v);
    if (!strcmp(type, "boolean"))
        return spot_json_is_boolean(v);
    if (!strcmp(type, "null"))
        return spot_json_is_null(v);
    return !strcmp(type, "integer") ? spot_json_is_integer(v) : spot_json_is_number(v);
}

/* "type" may be a name, a list, or absent. */
static bool allows_type(const struct spot_json_value *type, const struct spot_json_value *v)
{
    if (!type)
        return true;
    if (spot_json_is_string(type))
        return is_of_type(v, spot_json_text(type));
    for (size_t i = 0; i < spot_json_array_size(type); i++)
        if (spot_json_is_string(spot_json_entry(type, i)) &&
            is_of_type(v, spot_json_text(spot_json_entry(type, i))))
            return true;
    return false;
}

uint32_t spot_greader_named(struct spot_greader *r, const struct spot_json_value *schema,
                            uint32_t next)
{
    const struct spot_json_value *const list = spot_json_get(schema, "enum");
    const struct spot_json_value *const only = spot_json_get(schema, "const");
    const struct spot_json_value *const type = spot_json_get(schema, "type");
    const size_t n = only ? 1 : spot_json_array_size(list);
    char **text;
    size_t kept = 0;

    if (!n || n > ENUM_MAX)
        return spot_greader_fail(r, "enum must be an array of 1 to 16384 values", "");
    if (only && list)
        return spot_greader_fail(r, "enum and const together are not supported", "");
    text = spot_xcalloc(n, sizeof(*text));
    for (size_t i = 0; i < n; i++) {
        const struct spot_json_value *const v = only ? only : spot_json_entry(list, i);

        if (allows_type(type, v))
            text[kept++] = compact(v);
    }
    return one_of(r, text, kept, next);
}

/* --- numbers and strings ---------------------------------------------------- */

static bool count(struct spot_greader *r, const struct spot_json_value *schema, const char *key,
                  uint32_t *out)
{
    const struct spot_json_value *const v = spot_json_get(schema, key);

    if (!v)
        return false;
    if (!spot_json_is_integer(v) || spot_json_integer(v) < 0 || spot_json_integer(v) > COUNT_MAX)
        spot_greader_fail(r, key, " must be an integer of 0 to 65535");
    else
        *out = (uint32_t)spot_json_integer(v);
    return true;
}

/* The bound of an integer by minimum and similar keywords: at least (sign 1) or at most (-1). */
static int64_t bound(struct spot_greader *r, const struct spot_json_value *schema, const char *key,
                     int sign, int64_t x)
{
    char exclusive[32];

    snprintf(exclusive, sizeof(exclusive), "exclusive%c%s", *key - 0x20, key + 1);
    for (int more = 0; more < 2; more++) {
        const struct spot_json_value *const v = spot_json_get(schema, more ? exclusive : key);
        int64_t y;

        if (!v)
            continue;
        if (!spot_json_is_integer(v) || llabs(spot_json_integer(v)) > (int64_t)1 << 60) {
            spot_greader_fail(r, more ? exclusive : key,
                              " of an integer must be an integer of at most 2^60");
            continue;
        }
        y = spot_json_integer(v) + more * sign;
        if (sign > 0 ? y > x : y < x)
            x = y;
    }
    return x;
}

static uint32_t integer(struct spot_greader *r, const struct spot_json_value *schema, uint32_t next)
{
    const int64_t low = bound(r, schema, "minimum", 1, -((int64_t)1 << 61));
    const int64_t high = bound(r, schema, "maximum", -1, (int64_t)1 << 61);

    return spot_gnet_integer(r->net, low, high, next);
}

static uint32_t number(struct spot_greader *r, const struct spot_json_value *schema, uint32_t next)
{
    static const char *const key[] = { "minimum", "maximum", "exclusiveMinimum",
                                       "exclusiveMaximum" };

    for (size_t i = 0; i < sizeof(key) / sizeof(*key); i++)
        if (spot_json_get(schema, key[i]))
            return spot_greader_fail(r, key[i], " is supported of integers only");
    return spot_gnet_number(r->net, next);
}

static const char *pattern_of_format(const char *format)
{
    static const char *const known[][2] = {
        { "date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$" },
        { "time", "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$" },
        { "date-time", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5]"
                       "[0-9]:[0-5][0-9]Z$" },
        { "uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(known[i][0], format))
            return known[i][1];
    return NULL;
}

static uint32_t by_pattern(struct spot_greader *r, const char *pattern, uint32_t next)
{
    const uint32_t close = spot_gnet_byte(r->net, '"', '"', next);
    const char *why;
    size_t at;
    uint32_t start;
    char detail[160];

    start = spot_gnet_pattern(r->net, pattern, close, &why, &at);
    snprintf(detail, sizeof(detail), "%s (at character %zu)", why ? why : "", at);
    return why ? spot_greader_fail(r, "the pattern ", detail)
               : spot_gnet_byte(r->net, '"', '"', start);
}

static uint32_t string(struct spot_greader *r, const struct spot_json_value *schema, uint32_t next)
{
    const struct spot_json_value *const pattern = spot_json_get(schema, "pattern");
    const struct spot_json_value *const format = spot_json_get(schema, "format");
    uint32_t min = 0, max = SPOT_GRAMMAR_MANY;
    const bool has_length =
        (int)count(r, schema, "minLength", &min) | (int)count(r, schema, "maxLength", &max);
    const char *expression = spot_json_text(pattern);

    if ((pattern && !expression) || (format && !spot_json_is_string(format)))
        return spot_greader_fail(r, "pattern and format must be texts", "");
    if (format && !expression && !(expression = pattern_of_format(spot_json_text(format))))
        return spot_greader_fail(r, "this format is not supported: ", spot_json_text(format));
    if (pattern && format)
        return spot_greader_fail(r, "pattern and format together are not supported", "");
    if (expression && has_length)
        return spot_greader_fail(r, "a length beside pattern or format is not supported", "");
    if (expression)
        return by_pattern(r, expression, next);
    return min > max ? r->net->never : spot_gnet_string(r->net, min, max, next);
}

/* --- lists ------------------------------------------------------------------ */

/* min..max calls of a rule, separated by commas, then the closing bracket. */
static uint32_t listed(struct spot_gnet *net, uint32_t rule, uint32_t min, uint32_t max, char close,
                       uint32_t next)
{
    const uint32_t end = spot_gnet_byte(net, (uint8_t)close, (uint8_t)close, next);
    uint32_t more, start;

    if (min > max)
        return net->never;
    if (!max)
        return end;
    more = spot_gnet_byte(net, ',', ',', spot_gnet_call(net, rule, 0));
    start = spot_gnet_call(net, rule,
                           spot_gnet_loop(net, more, min ? min - 1 : 0,
                                          max == SPOT_GRAMMAR_MANY ? max : max - 1, end));
    return min ? start : spot_gnet_split(net, end, start);
}

static uint32_t opened(struct spot_gnet *net, char open, uint32_t next)
{
    return spot_gnet_byte(net, (uint8_t)open, (uint8_t)open, next);
}

/* --- any value -------------------------------------------------------------- */

static uint32_t scalar(struct spot_gnet *net, uint32_t next)
{
    uint32_t start = spot_gnet_string(net, 0, SPOT_GRAMMAR_MANY, next);

    start = spot_gnet_split(net, start, spot_gnet_number(net, next));
    start = spot_gnet_split(net, start, spot_gnet_text(net, "true", next));
    start = spot_gnet_split(net, start, spot_gnet_text(net, "false", next));
    return spot_gnet_split(net, start, spot_gnet_text(net, "null", next));
}

/* "key": and any value of at most this depth */
static uint32_t any_member(struct spot_greader *r, int depth)
{
    const uint32_t rule = spot_gnet_rule(r->net);
    const uint32_t start = spot_gnet_string(
        r->net, 0, SPOT_GRAMMAR_MANY,
        spot_gnet_text(r->net, ":", spot_gnet_call(r->net, spot_greader_any(r, depth), 0)));

    r->net->rule[rule] = start;
    return rule;
}

uint32_t spot_greader_any_object(struct spot_greader *r, int depth, uint32_t next)
{
    return opened(r->net, '{',
                  listed(r->net, any_member(r, depth - 1), 0, SPOT_GRAMMAR_MANY, '}', next));
}

static uint32_t any_array(struct spot_greader *r, int depth, uint32_t next)
{
    return opened(r->net, '[',
                  listed(r->net, spot_greader_any(r, depth - 1), 0, SPOT_GRAMMAR_MANY, ']', next));
}

/* A value with at most `depth` nested containers; one rule for each depth. */
uint32_t spot_greader_any(struct spot_greader *r, int depth)
{
    uint32_t start;

    if (!r->any[depth]) {
        start = scalar(r->net, 0);
        if (depth) {
            start = spot_gnet_split(r->net, start, spot_greader_any_object(r, depth, 0));
            start = spot_gnet_split(r->net, start, any_array(r, depth, 0));
        }
        r->any[depth] = spot_gnet_rule(r->net) + 1;
        r->net->rule[r->any[depth] - 1] = start;
    }
    return r->any[depth] - 1;
}

/* --- arrays ----------------------------------------------------------------- */

static uint32_t item_rule(struct spot_greader *r, const struct spot_json_value *items)
{
    const uint32_t rule = spot_gnet_rule(r->net);
    const uint32_t start = spot_greader_below(r, "items", items, 0);

    r->net->rule[rule] = start;
    return rule;
}

/* All entries of prefixItems, then those of `items`. */
static uint32_t tuple(struct spot_greader *r, const struct spot_json_value *prefix,
                      const struct spot_json_value *items, uint32_t min, uint32_t max,
                      uint32_t next)
{
    struct spot_gnet *const net = r->net;
    const uint32_t n = (uint32_t)spot_json_array_size(prefix);
    uint32_t start = spot_gnet_byte(net, ']', ']', next);

    if (max < n)
        return spot_greader_fail(r, "maxItems below the number of prefixItems is not supported",
                                 "");
    if (items && !spot_json_is_false(items))
        start = spot_gnet_loop(
            net, spot_gnet_byte(net, ',', ',', spot_gnet_call(net, item_rule(r, items), 0)),
            min > n ? min - n : 0, max == SPOT_GRAMMAR_MANY ? max : max - n, start);
    else if (min > n)
        return net->never;
    for (uint32_t i = n; i-- > 0;) {
        char key[32];

        snprintf(key, sizeof(key), "prefixItems/%" PRIu32, i);
        start = spot_greader_below(r, key, spot_json_entry(prefix, i), start);
        start = i ? spot_gnet_byte(net, ',', ',', start) : start;
    }
    return start;
}

static uint32_t array(struct spot_greader *r, const struct spot_json_value *schema, uint32_t next)
{
    const struct spot_json_value *const prefix = spot_json_get(schema, "prefixItems");
    const struct spot_json_value *const items = spot_json_get(schema, "items");
    uint32_t min = 0, max = SPOT_GRAMMAR_MANY;
    uint32_t rule;

    count(r, schema, "minItems", &min);
    count(r, schema, "maxItems", &max);
    if (prefix && spot_json_array_size(prefix))
        return opened(r->net, '[', tuple(r, prefix, items, min, max, next));
    if (items && spot_json_is_array(items))
        return spot_greader_fail(
            r, "items as an array is not supported: it is called prefixItems now", "");
    if (spot_json_is_false(items))
        return min ? r->net->never : spot_gnet_text(r->net, "[]", next);
    rule = items ? item_rule(r, items) : spot_greader_any(r, SPOT_GRAMMAR_ANY_DEPTH - 1);
    return opened(r->net, '[', listed(r->net, rule, min, max, ']', next));
}

/* --- by type ---------------------------------------------------------------- */

uint32_t spot_greader_of_type(struct spot_greader *r, const struct spot_json_value *schema,
                              const char *type, uint32_t next)
{
    static const struct {
        const char *name;
        uint32_t (*build)(struct spot_greader *r, const struct spot_json_value *schema,
                          uint32_t next);
    } known[] = { { "object", spot_greader_object },
                  { "array", array },
                  { "string", string },
                  { "integer", integer },
                  { "number", number } };
    struct spot_gnet *const net = r->net;

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(known[i].name, type))
            return known[i].build(r, schema, next);
    if (!strcmp(type, "null"))
        return spot_gnet_text(net, "null", next);
    if (!strcmp(type, "boolean"))
        return spot_gnet_split(net, spot_gnet_text(net, "true", next),
                               spot_gnet_text(net, "false", next));
    return spot_greader_fail(r, "no such type: ", type);
}

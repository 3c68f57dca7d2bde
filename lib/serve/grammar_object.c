/* SPDX-License-Identifier: MIT */
/* Objects: declared members in the order of the schema, and others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "serve/grammar_state.h"

enum {
    PROPERTIES_MAX = 512,
    KEY_MAX = 256, /* bytes of a declared key */
};

static uint32_t opened(struct spot_gnet *net, uint32_t next)
{
    return spot_gnet_byte(net, '{', '{', next);
}

/* --- objects ---------------------------------------------------------------- */

/* Characters of an undeclared key: none of them is ever escaped, so the key cannot be another
 * spelling of a declared one. */
static const uint8_t plain[][2] = { { ' ', '!' }, { '#', '[' }, { ']', '~' } };

/* Plain characters except those in `but`, then next. */
static uint32_t plain_but(struct spot_gnet *net, const bool but[256], uint32_t next)
{
    uint32_t start = net->never;

    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        for (int low = plain[i][0], high; low <= plain[i][1]; low = high + 1) {
            for (high = low; high < plain[i][1] && !but[low] && !but[high + 1];)
                high++;
            if (!but[low])
                start = spot_gnet_split(net, start,
                                        spot_gnet_byte(net, (uint8_t)low, (uint8_t)high, next));
        }
    return start;
}

/* The rest of a key that differs from all of name[n], whose first `depth` bytes equal the key's so
 * far; `next` follows the closing quote. */
static uint32_t other_key(struct spot_gnet *net, char *const *name, size_t n, size_t depth,
                          uint32_t free_rest, uint32_t next)
{
    bool goes_on[256] = { false };
    uint32_t start = net->never;
    bool is_one = false;
    size_t i = 0;

    while (i < n) {
        const uint8_t c = (uint8_t)name[i][depth];
        size_t end = i + 1;

        while (end < n && (uint8_t)name[end][depth] == c)
            end++;
        is_one = is_one || !c;
        if (c >= ' ' && c < 0x7F && c != '"' && c != '\\') {
            goes_on[c] = true;
            start = spot_gnet_split(
                net, start,
                spot_gnet_byte(net, c, c,
                               other_key(net, name + i, end - i, depth + 1, free_rest, next)));
        }
        i = end;
    }
    if (!is_one)
        start = spot_gnet_split(net, start, spot_gnet_byte(net, '"', '"', next));
    return spot_gnet_split(net, start, plain_but(net, goes_on, free_rest));
}

/* An undeclared member. */
static uint32_t other_member(struct spot_greader *r, const struct spot_json_value *schema,
                             const struct spot_json_value *properties)
{
    static const bool none[256];
    struct spot_gnet *const net = r->net;
    const size_t n = spot_json_object_size(properties);
    const uint32_t rule = spot_gnet_rule(net);
    const uint32_t member = spot_gnet_text(
        net, ":",
        spot_json_is_object(schema)
            ? spot_greader_below(r, "additionalProperties", schema, 0)
            : spot_gnet_call(net, spot_greader_any(r, SPOT_GRAMMAR_ANY_DEPTH - 1), 0));
    const uint32_t rest = spot_gnet_loop(net, plain_but(net, none, 0), 0, SPOT_GRAMMAR_MANY,
                                         spot_gnet_byte(net, '"', '"', member));
    char **const name = spot_xcalloc(n + 1, sizeof(*name));
    uint32_t start;

    for (size_t i = 0; i < n; i++) {
        const char *key;

        spot_json_member(properties, i, &key);
        name[i] = spot_xstrdup(strlen(key) > KEY_MAX ? "" : key); /* rejected later */
    }
    qsort(name, n, sizeof(*name), spot_compare_texts);
    start = spot_gnet_byte(net, '"', '"', other_key(net, name, n, 0, rest, member));
    for (size_t i = 0; i < n; i++)
        free(name[i]);
    free(name);
    net->rule[rule] = start;
    return rule;
}

/* Sorted, since a schema may have as many required names as it has bytes. */
struct names {
    const char **name; /* [n], to be freed */
    size_t n;
};

static bool has_name(const struct names *names, const char *name)
{
    return names->n &&
           bsearch(&name, names->name, names->n, sizeof(name), spot_compare_texts) != NULL;
}

static struct names texts_of(const struct spot_json_value *list)
{
    struct names names = { .name = spot_xcalloc(spot_json_array_size(list) + 1, sizeof(char *)) };

    for (size_t i = 0; i < spot_json_array_size(list); i++) {
        names.name[names.n] = spot_json_text(spot_json_entry(list, i));
        names.n += names.name[names.n] != NULL;
    }
    qsort(names.name, names.n, sizeof(char *), spot_compare_texts);
    return names;
}

static struct names keys_of(const struct spot_json_value *object)
{
    struct names names = { .name =
                               spot_xcalloc(spot_json_object_size(object) + 1, sizeof(char *)) };

    while (names.n < spot_json_object_size(object) &&
           spot_json_member(object, names.n, &names.name[names.n]))
        names.n++;
    qsort(names.name, names.n, sizeof(char *), spot_compare_texts);
    return names;
}

/* "key": as JSON text */
static char *key_text(const char *key)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const out = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    spot_jw_init(&jw, out, false);
    spot_jw_str(&jw, NULL, key);
    spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    n -= n && text[n - 1] == '\n';
    text = spot_xrealloc(text, n + 2, 1);
    memcpy(text + n, ":", 2);
    return text;
}

/* Members in the order of the schema. `more` continues after at least one member, `none` if there
 * was none. */
static uint32_t members(struct spot_greader *r, const struct spot_json_value *schema, uint32_t more,
                        uint32_t none)
{
    struct spot_gnet *const net = r->net;
    const struct spot_json_value *const properties = spot_json_get(schema, "properties");
    struct names required = texts_of(spot_json_get(schema, "required"));

    for (size_t i = spot_json_object_size(properties); i-- > 0 && !r->has_failed;) {
        const char *key;
        const struct spot_json_value *const one = spot_json_member(properties, i, &key);
        char *const text = key_text(key);
        char path[128];
        uint32_t start, after;

        if (strlen(key) > KEY_MAX)
            spot_greader_fail(r, "a key of more than 256 bytes is not supported", "");
        snprintf(path, sizeof(path), "properties/%.100s", key);
        start = spot_gnet_text(net, text, spot_greader_below(r, path, one, more));
        after = spot_gnet_byte(net, ',', ',', start);
        if (has_name(&required, key)) {
            more = after;
            none = start;
        } else {
            more = spot_gnet_split(net, after, more);
            none = spot_gnet_split(net, start, none);
        }
        free(text);
    }
    free(required.name);
    return none;
}

/* Required members must be declared, since their order would be unknown otherwise. */
static void check_required(struct spot_greader *r, const struct spot_json_value *schema)
{
    const struct spot_json_value *const required = spot_json_get(schema, "required");
    struct names declared = keys_of(spot_json_get(schema, "properties"));

    if (required && !spot_json_is_array(required))
        spot_greader_fail(r, "required must be an array of texts", "");
    for (size_t i = 0; i < spot_json_array_size(required) && !r->has_failed; i++) {
        const char *const text = spot_json_text(spot_json_entry(required, i));

        if (!text)
            spot_greader_fail(r, "required must be an array of texts", "");
        else if (!has_name(&declared, text))
            spot_greader_fail(r, "properties lacks what required names: ", text);
    }
    free(declared.name);
}

uint32_t spot_greader_object(struct spot_greader *r, const struct spot_json_value *schema,
                             uint32_t next)
{
    struct spot_gnet *const net = r->net;
    const struct spot_json_value *const properties = spot_json_get(schema, "properties");
    const struct spot_json_value *const other = spot_json_get(schema, "additionalProperties");
    const uint32_t end = spot_gnet_byte(net, '}', '}', next);
    uint32_t more = end, none = end;

    check_required(r, schema);
    if (properties && !spot_json_is_object(properties))
        return spot_greader_fail(r, "properties must be an object", "");
    if (spot_json_object_size(properties) > PROPERTIES_MAX)
        return spot_greader_fail(r, "more than 512 properties are not supported", "");
    if (other && !spot_json_is_boolean(other) && !spot_json_is_object(other))
        return spot_greader_fail(r, "additionalProperties must be true, false or a schema", "");
    if (!properties && !other)
        return spot_greader_any_object(r, SPOT_GRAMMAR_ANY_DEPTH, next);
    if (other && !spot_json_is_false(other)) {
        const uint32_t rule = other_member(r, other, properties);

        more = spot_gnet_loop(net, spot_gnet_byte(net, ',', ',', spot_gnet_call(net, rule, 0)), 0,
                              SPOT_GRAMMAR_MANY, end);
        none = spot_gnet_split(net, end, spot_gnet_call(net, rule, more));
    }
    return opened(net, members(r, schema, more, none));
}

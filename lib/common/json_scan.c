/* SPDX-License-Identifier: MIT */
#include "common/json_scan.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "common/xalloc.h"

struct level {
    bool is_object;
    uint32_t container, n;
};

struct scan {
    const char *text;
    size_t at, n;
    int depth;
    struct level open[SPOT_JSON_SCAN_DEPTH];
    uint32_t index_above;
    struct spot_json_count *count;
    struct spot_json_wrong *wrong;
};

static int fail(const struct scan *s, const char *what)
{
    s->wrong->at = s->at;
    snprintf(s->wrong->what, sizeof(s->wrong->what), "%s", what);
    return -1;
}

/* Fails: `wanted` was expected here. */
static int fail_here(const struct scan *s, const char *wanted)
{
    const char c = s->text[s->at];

    s->wrong->at = s->at;
    if (s->at >= s->n)
        snprintf(s->wrong->what, sizeof(s->wrong->what), "the text ends, expected %s", wanted);
    else if (!c)
        return fail(s, "a NUL byte");
    else if (c > 0x20 && c < 0x7F)
        snprintf(s->wrong->what, sizeof(s->wrong->what), "expected %s, got '%c'", wanted, c);
    else
        snprintf(s->wrong->what, sizeof(s->wrong->what), "expected %s, got the byte 0x%02X", wanted,
                 (unsigned)(unsigned char)c);
    return -1;
}

static void skip_space(struct scan *s)
{
    s->at += strspn(s->text + s->at, " \t\r\n");
}

/* --- strings ---------------------------------------------------------------- */

/* The value of four hex digits at `at`, -1 if they are not there. */
static int hex4(const struct scan *s, size_t at)
{
    int value = 0;

    for (size_t i = at; i < at + 4; i++) {
        const char c = s->text[i];

        if (c >= '0' && c <= '9')
            value = 16 * value + c - '0';
        else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
            value = 16 * value + (c | 0x20) - 'a' + 10;
        else
            return -1; /* also the NUL at the end of the text */
    }
    return value;
}

/* Checks an escape; `at` is at its backslash. */
static int take_escape(struct scan *s)
{
    const char c = s->text[s->at + 1];
    int code;

    if (c && strchr("\"\\/bfnrt", c)) {
        s->at += 2;
        return 0;
    }
    code = c == 'u' ? hex4(s, s->at + 2) : -1;
    if (code < 0)
        return fail(s,
                    "expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four digits");
    if (!code)
        return fail(s, "\\u0000, a NUL byte");
    s->at += 6;
    if (code < 0xD800 || code > 0xDFFF)
        return 0;
    if (code > 0xDBFF || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u' ||
        (hex4(s, s->at + 2) & 0xFC00) != 0xDC00 || hex4(s, s->at + 2) < 0) {
        s->at -= 6;
        return fail(s, "one half of a surrogate pair");
    }
    s->at += 6;
    return 0;
}

static int take_string(struct scan *s, const char *wanted)
{
    const size_t begin = s->at + 1;
    bool has_escape = false;

    if (s->text[s->at] != '"')
        return fail_here(s, wanted);
    for (s->at++; s->text[s->at] != '"';) {
        const unsigned char c = (unsigned char)s->text[s->at];
        uint32_t code;

        if (c == '\\') {
            has_escape = true;
            if (take_escape(s))
                return -1;
        } else if (c < 0x20) {
            return s->at >= s->n ? fail(s, "the text ends inside a string")
                   : c ? fail(s, "a control character in a string must be written as an escape")
                       : fail_here(s, "a character");
        } else if (c < 0x80) {
            s->at++;
        } else {
            s->at += spot_utf8_char(s->text + s->at, s->n - s->at, &code);
            if (code == UINT32_MAX) {
                s->at--;
                return fail(s, "no UTF-8");
            }
        }
    }
    s->at++;
    if (has_escape)
        s->count->n_escaped += s->at - begin;
    return 0;
}

/* --- the other scalars ------------------------------------------------------- */

static int take_digits(struct scan *s)
{
    const size_t n = strspn(s->text + s->at, "0123456789");

    s->at += n;
    return n ? 0 : fail_here(s, "a digit");
}

static int take_number(struct scan *s)
{
    s->at += s->text[s->at] == '-';
    if (s->text[s->at] == '0')
        s->at++;
    else if (take_digits(s))
        return -1;
    if (s->text[s->at] == '.') {
        s->at++;
        if (take_digits(s))
            return -1;
    }
    if (s->text[s->at] == 'e' || s->text[s->at] == 'E') {
        s->at++;
        s->at += s->text[s->at] == '+' || s->text[s->at] == '-';
        return take_digits(s);
    }
    return 0;
}

static int take_scalar(struct scan *s)
{
    static const char *const word[] = { "true", "false", "null" };
    const char c = s->text[s->at];

    if (c == '"')
        return take_string(s, "a string");
    if (c == '-' || (c >= '0' && c <= '9'))
        return take_number(s);
    for (size_t i = 0; i < sizeof(word) / sizeof(word[0]); i++)
        if (!strncmp(s->text + s->at, word[i], strlen(word[i]))) {
            s->at += strlen(word[i]);
            return 0;
        }
    return fail_here(s, "a value");
}

/* --- containers ----------------------------------------------------------------- */

static struct level *top(struct scan *s)
{
    return &s->open[s->depth - 1];
}

static int take_key(struct scan *s)
{
    skip_space(s);
    if (take_string(s, "a key"))
        return -1;
    skip_space(s);
    if (s->text[s->at] != ':')
        return fail_here(s, "':'");
    s->at++;
    return 0;
}

static void close_container(struct scan *s)
{
    struct spot_json_count *const c = s->count;
    const struct level *const l = top(s);

    *(l->is_object ? &c->n_member : &c->n_entry) += l->n;
    if (l->is_object && l->n > s->index_above)
        c->n_index += l->n;
    c->n_child[l->container] = (uint8_t)(l->n < SPOT_JSON_SCAN_MANY ? l->n : SPOT_JSON_SCAN_MANY);
    if (l->n >= SPOT_JSON_SCAN_MANY) {
        c->many = spot_xgrow(c->many, &c->many_cap, c->n_many + 1, sizeof(*c->many));
        c->many[c->n_many++] = (struct spot_json_many){ l->container, l->n };
    }
    s->depth--;
    s->at++;
}

/* Enters an array or object; `at` is at its bracket. *is_value: a value follows; false: it is
 * empty. */
static int open_container(struct scan *s, int depth_max, bool *is_value)
{
    struct spot_json_count *const c = s->count;
    const bool is_object = s->text[s->at] == '{';

    if (s->depth == depth_max) {
        char what[32];

        snprintf(what, sizeof(what), "nested deeper than %d", depth_max);
        return fail(s, what);
    }
    c->n_child = spot_xgrow(c->n_child, &c->container_cap, c->n_container + 1, 1);
    s->open[s->depth++] = (struct level){ is_object, (uint32_t)c->n_container++, 0 };
    s->at++;
    skip_space(s);
    *is_value = s->text[s->at] != (is_object ? '}' : ']');
    if (!*is_value)
        close_container(s);
    else if (is_object)
        return take_key(s);
    return 0;
}

/* Consumes what follows a value: closing brackets, then a comma or the end. */
static int take_behind(struct scan *s)
{
    while (s->depth) {
        const bool is_object = top(s)->is_object;

        skip_space(s);
        if (s->text[s->at] == (is_object ? '}' : ']')) {
            close_container(s);
            continue;
        }
        if (s->text[s->at] != ',')
            return fail_here(s, is_object ? "',' or '}'" : "',' or ']'");
        s->at++;
        return is_object ? take_key(s) : 0;
    }
    skip_space(s);
    return s->at == s->n ? 0 : fail_here(s, "the end");
}

static int by_container(const void *a, const void *b)
{
    const struct spot_json_many *const x = a, *const y = b;

    return (x->container > y->container) - (x->container < y->container);
}

int spot_json_scan(const char *text, size_t n, int depth_max, uint32_t index_above,
                   struct spot_json_count *count, struct spot_json_wrong *wrong)
{
    struct scan s = {
        .text = text, .n = n, .index_above = index_above, .count = count, .wrong = wrong
    };

    assert(depth_max >= 1 && depth_max <= SPOT_JSON_SCAN_DEPTH && n < UINT32_MAX / 8);
    memset(count, 0, sizeof(*count));
    do {
        bool is_value = false;

        skip_space(&s);
        if (s.depth)
            top(&s)->n++;
        if (text[s.at] && strchr("[{", text[s.at])) {
            if (open_container(&s, depth_max, &is_value))
                return -1;
        } else if (take_scalar(&s)) {
            return -1;
        }
        if (!is_value && take_behind(&s))
            return -1;
    } while (s.depth);
    if (count->n_many)
        qsort(count->many, count->n_many, sizeof(*count->many), by_container);
    return 0;
}

void spot_json_count_release(struct spot_json_count *count)
{
    free(count->n_child);
    free(count->many);
    memset(count, 0, sizeof(*count));
}

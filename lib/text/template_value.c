/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
/* Values of a rendering, with Python's rules of comparison and printing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/num.h"
#include "common/utf8.h"
#include "text/template_state.h"
#include "text/unicode_class.h"

const char *spot_tv_type(struct spot_tv v)
{
    static const char *const name[] = { "Undefined", "Undefined",   "NoneType", "bool",    "int",
                                        "float",     "str",         "list",     "tuple",   "dict",
                                        "Namespace", "LoopContext", "Macro",    "function" };

    return name[v.kind];
}

bool spot_tv_truth(struct spot_tv v)
{
    switch ((enum spot_tv_kind)v.kind) {
    case SPOT_TV_ABSENT:
    case SPOT_TV_UNDEFINED:
    case SPOT_TV_NONE:
        return false;
    case SPOT_TV_BOOL:
    case SPOT_TV_INT:
        return v.u.i != 0;
    case SPOT_TV_REAL:
        return v.u.d != 0;
    case SPOT_TV_TEXT:
        return v.n > 0;
    case SPOT_TV_LIST:
    case SPOT_TV_TUPLE:
    case SPOT_TV_DICT:
        return v.is_lazy || spot_tv_size(v) > 0;
    default:
        return true;
    }
}

/* --- containers ------------------------------------------------------------------- */

struct spot_tv spot_tv_of_json(struct spot_trender *r, const struct spot_json_value *json)
{
    const char *const text = spot_json_text(json);

    if (text) {
        const size_t n = strlen(text);

        spot_trender_spend(r, n / 256);
        return spot_tv_text(text, n);
    }
    if (spot_json_is_object(json) || spot_json_is_array(json))
        return (struct spot_tv){ .kind = spot_json_is_array(json) ? SPOT_TV_LIST : SPOT_TV_DICT,
                                 .is_json = true,
                                 .u.json = json };
    if (spot_json_is_integer(json))
        return spot_tv_int(spot_json_integer(json));
    if (spot_json_is_number(json))
        return spot_tv_real(spot_json_number(json));
    return spot_json_is_boolean(json) ? spot_tv_bool(spot_json_is_true(json)) : spot_tv_none();
}

size_t spot_tv_size(struct spot_tv v)
{
    if (v.is_json)
        return spot_json_size(v.u.json);
    return v.kind == SPOT_TV_DICT || v.kind == SPOT_TV_NAMESPACE ? v.u.dict->n : v.n;
}

struct spot_tv spot_tv_entry(struct spot_trender *r, struct spot_tv list, size_t i)
{
    return list.is_json ? spot_tv_of_json(r, spot_json_entry(list.u.json, i)) : list.u.item[i];
}

struct spot_tv spot_tv_member(struct spot_trender *r, struct spot_tv dict, size_t i,
                              struct spot_tv *key)
{
    const struct spot_json_value *value;
    const char *name;

    if (!dict.is_json) {
        *key = dict.u.dict->pair[i][0];
        return dict.u.dict->pair[i][1];
    }
    value = spot_json_member(dict.u.json, i, &name);
    *key = spot_tv_text(name, strlen(name));
    return spot_tv_of_json(r, value);
}

bool spot_tv_find(struct spot_trender *r, struct spot_tv dict, struct spot_tv key,
                  struct spot_tv *value)
{
    if (dict.is_json) {
        const struct spot_json_value *const json =
            spot_tv_is_text(key) ? spot_json_find(dict.u.json, key.u.s, key.n) : NULL;

        if (json)
            *value = spot_tv_of_json(r, json);
        return json != NULL;
    }
    for (uint32_t i = 0; i < dict.u.dict->n && spot_trender_spend(r, 1); i++)
        if (spot_tv_equals(r, dict.u.dict->pair[i][0], key)) {
            *value = dict.u.dict->pair[i][1];
            return true;
        }
    return false;
}

void spot_tv_put(struct spot_trender *r, struct spot_tv dict, struct spot_tv key,
                 struct spot_tv value)
{
    struct spot_tv_dict *const d = dict.u.dict;
    uint32_t i = 0;

    while (i < d->n && spot_trender_spend(r, 1) && !spot_tv_equals(r, d->pair[i][0], key))
        i++;
    if (i == d->cap) {
        void *const more =
            spot_trender_memory(r, d->cap ? 2 * (size_t)d->cap : 4, sizeof(*d->pair));

        if (!more)
            return;
        if (d->n)
            memcpy(more, d->pair, d->n * sizeof(*d->pair));
        d->pair = more;
        d->cap = d->cap ? 2 * d->cap : 4;
    }
    if (i == d->n) {
        d->pair[i][0] = key;
        d->n++;
    }
    d->pair[i][1] = value;
}

struct spot_tv spot_tv_new(struct spot_trender *r, enum spot_tv_kind kind, size_t n)
{
    struct spot_tv v = { .kind = (uint8_t)kind };

    if (kind == SPOT_TV_DICT || kind == SPOT_TV_NAMESPACE) {
        v.u.dict = spot_trender_memory(r, 1, sizeof(*v.u.dict));
        return v.u.dict ? v : spot_tv_none();
    }
    v.u.item = spot_trender_memory(r, n, sizeof(*v.u.item));
    v.n = v.u.item ? (uint32_t)n : 0;
    return v;
}

struct spot_tv spot_tv_list(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv v)
{
    struct spot_tv list;
    size_t n = 0;

    if (spot_tv_is_sequence(v))
        return v;
    if (v.kind == SPOT_TV_DICT) {
        list = spot_tv_new(r, SPOT_TV_LIST, spot_tv_size(v));
        for (uint32_t i = 0; i < list.n && spot_trender_spend(r, 1); i++)
            (void)spot_tv_member(r, v, i, &list.u.item[i]);
        return list;
    }
    if (!spot_tv_is_text(v) && v.kind != SPOT_TV_UNDEFINED)
        spot_trender_fail(r, at, "'%s' object is not iterable", spot_tv_type(v));
    list = spot_tv_new(r, SPOT_TV_LIST, spot_tv_is_text(v) ? spot_tv_length(v) : 0);
    for (size_t begin = 0; n < list.n && spot_trender_spend(r, 1); n++) {
        uint32_t code;
        const size_t length = spot_utf8_char(v.u.s + begin, v.n - begin, &code);

        list.u.item[n] = spot_tv_text(v.u.s + begin, length);
        begin += length;
    }
    return list;
}

size_t spot_tv_offset(struct spot_tv text, size_t i)
{
    size_t at = 0;

    for (uint32_t code; i && at < text.n; i--)
        at += spot_utf8_char(text.u.s + at, text.n - at, &code);
    return at;
}

size_t spot_tv_length(struct spot_tv text)
{
    size_t n = 0;

    for (size_t at = 0; at < text.n; at++)
        n += ((unsigned char)text.u.s[at] & 0xC0) != 0x80;
    return n;
}

/* --- comparison -------------------------------------------------------------------- */

static bool equal_containers(struct spot_trender *r, struct spot_tv a, struct spot_tv b)
{
    const size_t n = spot_tv_size(a);
    bool is = n == spot_tv_size(b) && spot_trender_enter(r);

    if (!is)
        return false;
    for (size_t i = 0; is && i < n && spot_trender_spend(r, 1); i++) {
        if (a.kind == SPOT_TV_DICT) {
            struct spot_tv key, value, other;

            value = spot_tv_member(r, a, i, &key);
            is = spot_tv_find(r, b, key, &other) && spot_tv_equals(r, value, other);
        } else {
            is = spot_tv_equals(r, spot_tv_entry(r, a, i), spot_tv_entry(r, b, i));
        }
    }
    r->depth--;
    return is;
}

bool spot_tv_equals(struct spot_trender *r, struct spot_tv a, struct spot_tv b)
{
    if (spot_tv_is_number(a) && spot_tv_is_number(b))
        return a.kind == SPOT_TV_REAL || b.kind == SPOT_TV_REAL
                   ? spot_tv_number(a) == spot_tv_number(b)
                   : a.u.i == b.u.i;
    if (a.kind != b.kind)
        return false;
    if (spot_tv_is_text(a))
        return a.n == b.n && spot_trender_spend(r, a.n / 256) && !memcmp(a.u.s, b.u.s, a.n);
    if (spot_tv_is_sequence(a) || a.kind == SPOT_TV_DICT)
        return equal_containers(r, a, b);
    return a.kind == SPOT_TV_UNDEFINED || a.kind == SPOT_TV_NONE || a.u.json == b.u.json;
}

int spot_tv_compare(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv a,
                    struct spot_tv b)
{
    if (spot_tv_is_number(a) && spot_tv_is_number(b)) {
        const double x = spot_tv_number(a), y = spot_tv_number(b);

        if (a.kind != SPOT_TV_REAL && b.kind != SPOT_TV_REAL)
            return (a.u.i > b.u.i) - (a.u.i < b.u.i);
        return (x > y) - (x < y);
    }
    if (spot_tv_is_text(a) && spot_tv_is_text(b)) {
        const size_t n = a.n < b.n ? a.n : b.n;
        const int order = n ? memcmp(a.u.s, b.u.s, n) : 0;

        spot_trender_spend(r, n / 256);
        return order ? order : (a.n > b.n) - (a.n < b.n);
    }
    if (spot_tv_is_sequence(a) && a.kind == b.kind && spot_trender_enter(r)) {
        const size_t x = spot_tv_size(a), y = spot_tv_size(b);
        int order = 0;

        for (size_t i = 0; !order && i < x && i < y && spot_trender_spend(r, 1); i++)
            order = spot_tv_compare(r, at, spot_tv_entry(r, a, i), spot_tv_entry(r, b, i));
        r->depth--;
        return order ? order : (x > y) - (x < y);
    }
    spot_trender_fail(r, at, "'%s' and '%s' have no order", spot_tv_type(a), spot_tv_type(b));
    return 0;
}

bool spot_tv_contains(struct spot_trender *r, const struct spot_tnode *at, struct spot_tv whole,
                      struct spot_tv part)
{
    struct spot_tv value;

    if (spot_tv_is_text(whole)) {
        if (!spot_tv_is_text(part))
            spot_trender_fail(r, at, "'in <string>' requires string as left operand, not %s",
                              spot_tv_type(part));
        else if (spot_trender_spend(r, whole.n / 256))
            return !part.n || memmem(whole.u.s, whole.n, part.u.s, part.n);
        return false;
    }
    if (whole.kind == SPOT_TV_DICT)
        return spot_tv_find(r, whole, part, &value);
    if (!spot_tv_is_sequence(whole) && whole.kind != SPOT_TV_UNDEFINED)
        spot_trender_fail(r, at, "argument of type '%s' is not iterable", spot_tv_type(whole));
    for (size_t i = 0;
         spot_tv_is_sequence(whole) && i < spot_tv_size(whole) && spot_trender_spend(r, 1); i++)
        if (spot_tv_equals(r, spot_tv_entry(r, whole, i), part))
            return true;
    return false;
}

/* --- printing ----------------------------------------------------------------------- */

void spot_tv_say_int(struct spot_buf *out, int64_t i)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)i);
    spot_tv_say(out, text);
}

/* The shortest digits, in Python's format: with an exponent below -4 or from 16 on. */
void spot_tv_say_real(struct spot_buf *out, double d, bool is_json)
{
    char shortest[SPOT_NUM_TEXT], digit[SPOT_NUM_TEXT] = "", text[64];
    int exponent = 0, point = 0, n = 0;
    bool is_behind = false;

    if (!isfinite(d)) {
        static const char *const name[2][3] = { { "nan", "inf", "-inf" },
                                                { "NaN", "Infinity", "-Infinity" } };

        spot_tv_say(out, name[is_json][isnan(d) ? 0 : d > 0 ? 1 : 2]);
        return;
    }
    spot_num_format(fabs(d), shortest);
    for (const char *p = shortest; *p; p++) {
        if (*p == 'e' || *p == 'E') {
            exponent = (int)strtol(p + 1, NULL, 10);
            break;
        }
        if (*p == '.') {
            is_behind = true;
        } else if (n || *p != '0') {
            digit[n++] = *p;
            point += !is_behind;
        } else {
            point -= is_behind;
        }
    }
    while (n > 1 && digit[n - 1] == '0')
        digit[--n] = '\0';
    exponent += point - 1;
    if (!n)
        snprintf(text, sizeof(text), "0.0");
    else if (exponent < -4 || exponent >= 16)
        snprintf(text, sizeof(text), "%c%s%se%c%02d", digit[0], n > 1 ? "." : "", digit + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(text, sizeof(text), "0.%.*s%s", -exponent - 1, "0000", digit);
    else if (n <= exponent + 1)
        snprintf(text, sizeof(text), "%s%.*s.0", digit, exponent + 1 - n, "0000000000000000");
    else
        snprintf(text, sizeof(text), "%.*s.%s", exponent + 1, digit, digit + exponent + 1);
    if (signbit(d))
        spot_tv_say(out, "-");
    spot_tv_say(out, text);
}

/* False for characters that Python's repr() escapes: spaces except ' ', controls, formats,
 * surrogates, private use. */
static bool is_printable(uint32_t code)
{
    static const uint32_t hidden[][2] = {
        { 0, 0x1F },        { 0x7F, 0xA0 },     { 0xAD, 0xAD },         { 0x600, 0x605 },
        { 0x61C, 0x61C },   { 0x6DD, 0x6DD },   { 0x70F, 0x70F },       { 0x180E, 0x180E },
        { 0x200B, 0x200F }, { 0x2028, 0x202E }, { 0x2060, 0x206F },     { 0xE000, 0xF8FF },
        { 0xFEFF, 0xFEFF }, { 0xFFF0, 0xFFFB }, { 0xE0000, 0xFFFFFFFF }
    };

    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        if (code >= hidden[i][0] && code <= hidden[i][1] && (code < 0xE0100 || code > 0xE01EF))
            return false;
    return code == ' ' || spot_char_class(code) != SPOT_CHAR_SPACE;
}

static void repr_text(struct spot_trender *r, struct spot_tv v, struct spot_buf *out)
{
    const char quote = v.n && memchr(v.u.s, '\'', v.n) && !memchr(v.u.s, '"', v.n) ? '"' : '\'';

    if (!spot_trender_spend(r, v.n / 16))
        return;
    spot_buf_add(out, &quote, 1);
    for (size_t at = 0, length; at < v.n; at += length) {
        char text[16];
        uint32_t code;

        length = spot_utf8_char(v.u.s + at, v.n - at, &code);
        if (code == '\n' || code == '\r' || code == '\t')
            spot_tv_say(out, code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t");
        else if (code == '\\' || code == (uint32_t)quote)
            spot_tv_say(out, (const char[]){ '\\', (char)code, '\0' });
        else if (is_printable(code))
            spot_buf_add(out, v.u.s + at, length);
        else {
            snprintf(text, sizeof(text),
                     code < 0x100     ? "\\x%02x"
                     : code < 0x10000 ? "\\u%04x"
                                      : "\\U%08x",
                     (unsigned)code);
            spot_tv_say(out, text);
        }
    }
    spot_buf_add(out, &quote, 1);
}

static void repr_container(struct spot_trender *r, struct spot_tv v, struct spot_buf *out)
{
    const size_t n = spot_tv_size(v);
    const bool is_dict = v.kind == SPOT_TV_DICT, is_tuple = v.kind == SPOT_TV_TUPLE;

    if (!spot_trender_enter(r))
        return;
    spot_tv_say(out, is_dict ? "{" : is_tuple ? "(" : "[");
    for (size_t i = 0; i < n && spot_trender_spend(r, 1); i++) {
        struct spot_tv key, value;

        value = is_dict ? spot_tv_member(r, v, i, &key) : spot_tv_entry(r, v, i);
        if (i)
            spot_tv_say(out, ", ");
        if (is_dict) {
            spot_tv_repr(r, key, out);
            spot_tv_say(out, ": ");
        }
        spot_tv_repr(r, value, out);
    }
    spot_tv_say(out, is_dict ? "}" : is_tuple ? n == 1 ? ",)" : ")" : "]");
    r->depth--;
}

void spot_tv_repr(struct spot_trender *r, struct spot_tv v, struct spot_buf *out)
{
    if (spot_tv_is_text(v))
        repr_text(r, v, out);
    else
        spot_tv_print(r, v, out);
    if (out->n > SPOT_TEMPLATE_MEMORY_MAX)
        spot_trender_spend(r, SPOT_TEMPLATE_STEPS_MAX);
}

void spot_tv_print(struct spot_trender *r, struct spot_tv v, struct spot_buf *out)
{
    switch ((enum spot_tv_kind)v.kind) {
    case SPOT_TV_ABSENT:
    case SPOT_TV_UNDEFINED:
        break;
    case SPOT_TV_NONE:
        spot_tv_say(out, "None");
        break;
    case SPOT_TV_BOOL:
        spot_tv_say(out, v.u.i ? "True" : "False");
        break;
    case SPOT_TV_INT:
        spot_tv_say_int(out, v.u.i);
        break;
    case SPOT_TV_REAL:
        spot_tv_say_real(out, v.u.d, false);
        break;
    case SPOT_TV_TEXT:
        spot_trender_spend(r, v.n / 256);
        spot_buf_add(out, v.u.s, v.n);
        break;
    case SPOT_TV_LIST:
    case SPOT_TV_TUPLE:
    case SPOT_TV_DICT:
        repr_container(r, v, out);
        break;
    default:
        spot_tv_say(out, "<");
        spot_tv_say(out, spot_tv_type(v));
        spot_tv_say(out, ">");
    }
    if (out->n > SPOT_TEMPLATE_MEMORY_MAX)
        spot_trender_spend(r, SPOT_TEMPLATE_STEPS_MAX);
}

struct spot_tv spot_tv_str(struct spot_trender *r, struct spot_tv v)
{
    struct spot_buf text = { 0 };

    if (spot_tv_is_text(v))
        return v;
    spot_tv_print(r, v, &text);
    return spot_trender_text(r, &text);
}

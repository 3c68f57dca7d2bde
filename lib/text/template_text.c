/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
/* Filters and methods of texts, and the calling of builtins. */
#include <stdio.h>
#include <stdlib.h>

#include "common/utf8.h"
#include "text/template_state.h"
#include "text/unicode_class.h"

typedef struct spot_tv value;
typedef struct spot_tcall call;

/* --- characters ----------------------------------------------------------------------- */

/* Like Python's str.isspace(). */
static bool is_blank(uint32_t code)
{
    return spot_char_class(code) == SPOT_CHAR_SPACE || (code >= 0x1C && code <= 0x1F);
}

enum letters { LOWER, UPPER, TITLE, CAPITAL, JINJA_TITLE };

/* A word starts after a character that is not a letter (title()), or after a few signs (filter). */
static value cased(struct spot_trender *r, value text, enum letters how)
{
    struct spot_buf out = { 0 };
    bool is_first = true;

    if (!spot_trender_spend(r, text.n / 16))
        return text;
    for (size_t at = 0, length; at < text.n; at += length) {
        char c[3 * SPOT_UTF8_MAX];
        uint32_t code;
        bool raises;

        length = spot_utf8_char(text.u.s + at, text.n - at, &code);
        raises = how == UPPER || (how != LOWER && is_first);
        if (code == UINT32_MAX)
            spot_buf_add(&out, text.u.s + at, length);
        else
            spot_buf_add(&out, c, spot_char_cased(code, raises, c));
        if (how == CAPITAL)
            is_first = false;
        else if (how == TITLE)
            is_first = spot_char_class(code) != SPOT_CHAR_LETTER;
        else
            is_first = is_blank(code) || (code < 0x80 && code && strchr("-({[<", (int)code));
    }
    return spot_trender_text(r, &out);
}

/* Strips characters in `chars`, by default blanks, from the ends. */
static value stripped(call *c, value text, value chars, bool left, bool right)
{
    const bool is_given = !spot_tv_is_left_out(chars);
    size_t begin = 0, end = 0, n = text.n;
    bool has_begun = !left;

    if (is_given && !spot_tv_is_text(chars))
        spot_trender_fail(c->r, c->at, "strip of %s, expected str", spot_tv_type(chars));
    if (!spot_trender_spend(c->r, text.n / 64 + (is_given ? chars.n : 0)))
        return text;
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t code;
        bool is_out;

        length = spot_utf8_char(text.u.s + at, n - at, &code);
        is_out = is_given ? chars.n && memmem(chars.u.s, chars.n, text.u.s + at, length)
                          : is_blank(code);
        if (!is_out) {
            has_begun = true;
            end = at + length;
        } else if (!has_begun) {
            begin = at + length;
        }
    }
    if (!right)
        end = n;
    return spot_tv_text(text.u.s + begin, end > begin ? end - begin : 0);
}

static value self_text(call *c)
{
    return spot_tv_str(c->r, c->self);
}

/* An argument that must be a text, or fails. */
static value text_arg(call *c, size_t i)
{
    if (!spot_tv_is_text(c->arg[i])) {
        spot_trender_fail(c->r, c->at, "argument %zu is of type %s, expected str", i + 1,
                          spot_tv_type(c->arg[i]));
        return spot_tv_text("", 0);
    }
    return c->arg[i];
}

static int64_t int_arg(call *c, size_t i, int64_t absent)
{
    if (spot_tv_is_left_out(c->arg[i]))
        return absent;
    if (c->arg[i].kind != SPOT_TV_INT && c->arg[i].kind != SPOT_TV_BOOL)
        spot_trender_fail(c->r, c->at, "argument %zu is of type %s, expected int", i + 1,
                          spot_tv_type(c->arg[i]));
    return c->arg[i].u.i;
}

static value do_case(call *c)
{
    return cased(c->r, self_text(c), (enum letters)c->how);
}

static value do_strip(call *c)
{
    return stripped(c, self_text(c), c->arg[0], c->how & 1, c->how & 2);
}

static bool has_end(value text, value part, bool at_end)
{
    return spot_tv_is_text(part) && part.n <= text.n &&
           !memcmp(text.u.s + (at_end ? text.n - part.n : 0), part.u.s, part.n);
}

/* Whether a text begins or ends with the argument: a text, or a tuple of which any may match. */
static value do_has_end(call *c)
{
    const value part = c->arg[0];
    const bool at_end = c->how;

    if (part.kind != SPOT_TV_TUPLE)
        return spot_tv_bool(has_end(c->self, text_arg(c, 0), at_end));
    for (size_t i = 0; i < spot_tv_size(part); i++)
        if (has_end(c->self, spot_tv_entry(c->r, part, i), at_end))
            return spot_tv_bool(true);
    return spot_tv_bool(false);
}

static value do_remove(call *c)
{
    const value part = text_arg(c, 0), text = c->self;

    return has_end(text, part, c->how)
               ? spot_tv_text(text.u.s + (c->how ? 0 : part.n), text.n - part.n)
               : text;
}

/* --- parts of a text ----------------------------------------------------------------------- */

/* Position in text[at..n) of the first `what`, or with `last` of the last; n: none. */
static size_t place_of(value text, size_t at, value what, bool last)
{
    const char *found = memmem(text.u.s + at, text.n - at, what.u.s, what.n), *next = found;

    while (last && next) {
        found = next;
        next = memmem(found + 1, (size_t)(text.u.s + text.n - found) - 1, what.u.s, what.n);
    }
    return found ? (size_t)(found - text.u.s) : text.n + (size_t)1;
}

struct pieces {
    call *c;
    value list;
    uint32_t cap;
};

static void add_piece(struct pieces *p, const char *s, size_t n)
{
    if (p->list.n == p->cap) {
        value more = spot_tv_new(p->c->r, SPOT_TV_LIST, p->cap ? 2 * (size_t)p->cap : 8);

        if (!more.n)
            return;
        if (p->list.n)
            memcpy(more.u.item, p->list.u.item, p->list.n * sizeof(value));
        p->cap = more.n;
        more.n = p->list.n;
        p->list = more;
    }
    p->list.u.item[p->list.n++] = spot_tv_text(s, n);
}

/* Splits at blanks. */
static void split_words(struct pieces *p, value text, int64_t most)
{
    size_t begin = 0;
    bool is_inside = false;

    for (size_t at = 0, length; at <= text.n; at += length) {
        uint32_t code = ' ';

        length = at < text.n ? spot_utf8_char(text.u.s + at, text.n - at, &code) : 1;
        if (is_inside && is_blank(code)) {
            if (most >= 0 && (int64_t)p->list.n >= most) {
                const value rest = spot_tv_text(text.u.s + begin, text.n - begin);

                add_piece(p, rest.u.s, stripped(p->c, rest, spot_tv_none(), false, true).n);
                return;
            }
            add_piece(p, text.u.s + begin, at - begin);
            is_inside = false;
        } else if (!is_inside && !is_blank(code)) {
            is_inside = true;
            begin = at;
        }
    }
}

static value do_split(call *c)
{
    const bool from_right = c->how;
    struct pieces p = { .c = c, .list = spot_tv_new(c->r, SPOT_TV_LIST, 0) };
    const int64_t most = int_arg(c, 1, -1);
    const value text = c->self;
    size_t at = 0;

    if (!spot_trender_spend(c->r, text.n / 16))
        return p.list;
    if (spot_tv_is_left_out(c->arg[0])) {
        if (from_right && most >= 0)
            spot_trender_fail(c->r, c->at, "rsplit without a text to split at is not supported");
        split_words(&p, text, most);
        return p.list;
    }
    if (!text_arg(c, 0).n)
        spot_trender_fail(c->r, c->at, "empty separator");
    if (from_right && most == 1) {
        const size_t found = c->r->has_failed ? 0 : place_of(text, 0, c->arg[0], true);

        if (found < text.n && !c->r->has_failed) {
            add_piece(&p, text.u.s, found);
            at = found + c->arg[0].n;
        }
    } else if (from_right && most > 1) {
        spot_trender_fail(c->r, c->at, "rsplit at more than one place is not supported");
    }
    while (!c->r->has_failed && spot_trender_spend(c->r, 1)) {
        const size_t found = place_of(text, at, c->arg[0], false);

        if (found > text.n || (most >= 0 && (int64_t)p.list.n >= most))
            break;
        add_piece(&p, text.u.s + at, found - at);
        at = found + c->arg[0].n;
    }
    add_piece(&p, text.u.s + at, text.n - at);
    return p.list;
}

static value do_partition(call *c)
{
    const bool last = c->how;
    const value what = text_arg(c, 0);
    value out = spot_tv_new(c->r, SPOT_TV_TUPLE, 3);
    const size_t found = what.n ? place_of(c->self, 0, what, last) : SIZE_MAX;

    if (!what.n)
        spot_trender_fail(c->r, c->at, "empty separator");
    if (out.n < 3 || !spot_trender_spend(c->r, c->self.n / 64))
        return out;
    out.u.item[0] = out.u.item[1] = out.u.item[2] = spot_tv_text("", 0);
    if (found > c->self.n) {
        out.u.item[last ? 2 : 0] = c->self;
        return out;
    }
    out.u.item[0] = spot_tv_text(c->self.u.s, found);
    out.u.item[1] = what;
    out.u.item[2] = spot_tv_text(c->self.u.s + found + what.n, c->self.n - found - what.n);
    return out;
}

static bool ends_line(uint32_t code)
{
    return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

static value lines_of(call *c, value text, bool keeps)
{
    struct pieces p = { .c = c, .list = spot_tv_new(c->r, SPOT_TV_LIST, 0) };
    size_t begin = 0;

    if (!spot_trender_spend(c->r, text.n / 16))
        return p.list;
    for (size_t at = 0, length; at < text.n; at += length) {
        uint32_t code;

        length = spot_utf8_char(text.u.s + at, text.n - at, &code);
        if (!ends_line(code))
            continue;
        if (code == '\r' && at + 1 < text.n && text.u.s[at + 1] == '\n')
            length++;
        add_piece(&p, text.u.s + begin, at - begin + (keeps ? length : 0));
        begin = at + length;
    }
    if (begin < text.n)
        add_piece(&p, text.u.s + begin, text.n - begin);
    return p.list;
}

static value do_splitlines(call *c)
{
    return lines_of(c, c->self, spot_tv_truth(c->arg[0]));
}

static value do_find(call *c)
{
    const size_t at = place_of(c->self, 0, text_arg(c, 0), c->how);

    spot_trender_spend(c->r, c->self.n / 64);
    return spot_tv_int(at > c->self.n ? -1
                                      : (int64_t)spot_tv_length(spot_tv_text(c->self.u.s, at)));
}

static value do_count(call *c)
{
    const value what = text_arg(c, 0);
    int64_t n = 0;

    for (size_t at = 0; what.n && spot_trender_spend(c->r, 1 + c->self.n / 256); n++) {
        at = place_of(c->self, at, what, false);
        if (at > c->self.n)
            break;
        at += what.n;
    }
    return spot_tv_int(what.n ? n : (int64_t)spot_tv_length(c->self) + 1);
}

/* Replaces up to `most` occurrences; -1: all. */
static value do_replace(call *c)
{
    const value text = self_text(c), from = spot_tv_str(c->r, c->arg[0]),
                to = spot_tv_str(c->r, c->arg[1]);
    int64_t most = int_arg(c, 2, -1);
    struct spot_buf out = { 0 };
    size_t at = 0;

    spot_trender_spend(c->r, text.n / 64);
    for (; !c->r->has_failed && most != 0 && at <= text.n; most--) {
        const size_t found = place_of(text, at, from, false);
        uint32_t code;
        size_t length = 0;

        if (found > text.n || !spot_trender_spend(c->r, 1 + to.n / 64))
            break;
        if (out.n > SPOT_TEMPLATE_MEMORY_MAX)
            break;
        spot_buf_add(&out, text.u.s + at, found - at);
        spot_buf_add(&out, to.u.s, to.n);
        if (!from.n && found < text.n) { /* an empty text is found between all characters */
            length = spot_utf8_char(text.u.s + found, text.n - found, &code);
            spot_buf_add(&out, text.u.s + found, length);
        }
        at = found + from.n + length;
        if (!from.n && found == text.n)
            at++;
    }
    if (at < text.n)
        spot_buf_add(&out, text.u.s + at, text.n - at);
    return spot_trender_text(c->r, &out);
}

static value do_indent(call *c)
{
    const value text = self_text(c);
    const bool at_first = spot_tv_truth(c->arg[1]), at_blank = spot_tv_truth(c->arg[2]);
    const bool is_text = spot_tv_is_text(c->arg[0]);
    const int64_t width = is_text ? 0 : int_arg(c, 0, 4);
    struct spot_buf out = { 0 }, copy = { 0 };
    value lines, before;

    for (int64_t i = 0; i < width && i < 4096; i++)
        spot_buf_add(&out, " ", 1);
    before = is_text ? c->arg[0] : spot_trender_text(c->r, &out);
    spot_buf_add(&copy, text.u.s, text.n);
    spot_buf_add(&copy, "\n", 1);
    lines = lines_of(c, spot_trender_text(c->r, &copy), false);
    for (uint32_t i = 0; i < lines.n && !c->r->has_failed; i++) {
        if (i)
            spot_buf_add(&out, "\n", 1);
        if (i ? at_blank || lines.u.item[i].n : at_first)
            spot_buf_add(&out, before.u.s, before.n);
        spot_buf_add(&out, lines.u.item[i].u.s, lines.u.item[i].n);
        if (out.n > SPOT_TEMPLATE_MEMORY_MAX)
            break;
    }
    return spot_trender_text(c->r, &out);
}

/* text.join(list), which accepts only texts, and list | join(text, attribute). */
static value do_join(call *c)
{
    const bool is_method = c->how;
    const value between = is_method                        ? c->self
                          : spot_tv_is_left_out(c->arg[0]) ? spot_tv_text("", 0)
                                                           : spot_tv_str(c->r, c->arg[0]);
    const value list = spot_tv_list(c->r, c->at, is_method ? c->arg[0] : c->self);
    struct spot_buf out = { 0 };

    for (size_t i = 0; !c->r->has_failed && i < spot_tv_size(list) && spot_trender_spend(c->r, 1);
         i++) {
        value v = spot_tv_entry(c->r, list, i);

        if (!spot_tv_is_left_out(c->arg[1]))
            v = spot_tv_path(c->r, c->at, v, c->arg[1]);
        if (is_method && !spot_tv_is_text(v))
            spot_trender_fail(c->r, c->at, "sequence item %zu: expected str instance, %s found", i,
                              spot_tv_type(v));
        if (i)
            spot_buf_add(&out, between.u.s, between.n);
        spot_tv_print(c->r, v, &out);
    }
    return spot_trender_text(c->r, &out);
}

enum { DIGIT = 1, ALPHA = 2, NUMERIC = 4, BLANK = 8 };

static bool is_of(uint32_t code, int how)
{
    const enum spot_char_class class = spot_char_class(code);

    return ((how & DIGIT) && code >= '0' && code <= '9') ||
           ((how & ALPHA) && class == SPOT_CHAR_LETTER) ||
           ((how & NUMERIC) && class == SPOT_CHAR_NUMBER) || ((how & BLANK) && is_blank(code));
}

static value do_is_all(call *c)
{
    bool is = c->self.n > 0;

    spot_trender_spend(c->r, c->self.n / 16);
    for (size_t at = 0; is && at < c->self.n;) {
        uint32_t code;

        at += spot_utf8_char(c->self.u.s + at, c->self.n - at, &code);
        is = is_of(code, c->how);
    }
    return spot_tv_bool(is);
}

/* True if there are letters and all have this case. */
static value do_is_case(call *c)
{
    const value text = self_text(c), same = cased(c->r, text, (enum letters)c->how);
    const value other = cased(c->r, text, c->how == LOWER ? UPPER : LOWER);

    return spot_tv_bool(spot_tv_equals(c->r, text, same) && !spot_tv_equals(c->r, other, text));
}

/* --- values as texts and numbers --- */

static value do_string(call *c)
{
    return self_text(c);
}

static value do_tojson(call *c)
{
    const bool breaks = !spot_tv_is_left_out(c->arg[1]);
    struct spot_tv_json how = { .indent = spot_tv_none(),
                                .comma = breaks ? spot_tv_text(",", 1) : spot_tv_text(", ", 2),
                                .colon = spot_tv_text(": ", 2),
                                .is_ascii = spot_tv_truth(c->arg[0]),
                                .sorts = spot_tv_truth(c->arg[3]) };
    struct spot_buf out = { 0 };

    if (breaks && spot_tv_is_text(c->arg[1])) {
        how.indent = c->arg[1];
    } else if (breaks) {
        for (int64_t i = int_arg(c, 1, 0); i > 0 && out.n < 256; i--)
            spot_buf_add(&out, " ", 1);
        how.indent = spot_trender_text(c->r, &out);
    }
    if (spot_tv_is_sequence(c->arg[2]) && spot_tv_size(c->arg[2]) == 2) {
        how.comma = spot_tv_str(c->r, spot_tv_entry(c->r, c->arg[2], 0));
        how.colon = spot_tv_str(c->r, spot_tv_entry(c->r, c->arg[2], 1));
    }
    spot_tv_to_json(c->r, c->at, &how, c->self, &out);
    return spot_trender_text(c->r, &out);
}

/* --- finding and calling ------------------------------------------------- */

enum { FILTER = SPOT_TUSE_FILTER, TEXT = SPOT_TUSE_TEXT, TEST = SPOT_TUSE_TEST };

static const struct spot_tbuiltin texts[] = {
    { "lower", FILTER | TEXT, "", do_case, LOWER },
    { "upper", FILTER | TEXT, "", do_case, UPPER },
    { "capitalize", FILTER | TEXT, "", do_case, CAPITAL },
    { "title", TEXT, "", do_case, TITLE },
    { "title", FILTER, "", do_case, JINJA_TITLE },
    { "strip", TEXT, "chars", do_strip, 3 },
    { "trim", FILTER, "chars", do_strip, 3 },
    { "lstrip", TEXT, "chars", do_strip, 1 },
    { "rstrip", TEXT, "chars", do_strip, 2 },
    { "startswith", TEXT, "prefix", do_has_end, 0 },
    { "endswith", TEXT, "suffix", do_has_end, 1 },
    { "removeprefix", TEXT, "prefix", do_remove, 0 },
    { "removesuffix", TEXT, "suffix", do_remove, 1 },
    { "split", TEXT, "sep,maxsplit", do_split, 0 },
    { "rsplit", TEXT, "sep,maxsplit", do_split, 1 },
    { "partition", TEXT, "sep", do_partition, 0 },
    { "rpartition", TEXT, "sep", do_partition, 1 },
    { "splitlines", TEXT, "keepends", do_splitlines, 0 },
    { "find", TEXT, "sub", do_find, 0 },
    { "rfind", TEXT, "sub", do_find, 1 },
    { "count", TEXT, "sub", do_count, 0 },
    { "replace", FILTER | TEXT, "old,new,count", do_replace, 0 },
    { "indent", FILTER, "width,first,blank", do_indent, 0 },
    { "join", TEXT, "iterable", do_join, 1 },
    { "join", FILTER, "d,attribute", do_join, 0 },
    { "isdigit", TEXT, "", do_is_all, DIGIT },
    { "isnumeric", TEXT, "", do_is_all, DIGIT },
    { "isalpha", TEXT, "", do_is_all, ALPHA },
    { "isalnum", TEXT, "", do_is_all, ALPHA | NUMERIC },
    { "isspace", TEXT, "", do_is_all, BLANK },
    { "isupper", TEXT, "", do_is_case, UPPER },
    { "islower", TEXT, "", do_is_case, LOWER },
    { "upper", TEST, "", do_is_case, UPPER },
    { "lower", TEST, "", do_is_case, LOWER },
    { "string", FILTER, "", do_string, 0 },
    { "safe", FILTER, "", do_string, 0 },
    { "tojson", FILTER, "ensure_ascii,indent,separators,sort_keys", do_tojson, 0 },
};

const struct spot_tbuiltin *spot_tbuiltin_find(enum spot_tuse use, struct spot_tv name)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if ((texts[i].use & (int)use) && spot_tv_says(name, texts[i].name))
            return &texts[i];
    for (int i = 0; i < 2; i++)
        for (const struct spot_tbuiltin *b = i ? spot_tbuiltin_numbers : spot_tbuiltin_lists;
             b->name; b++)
            if ((b->use & (int)use) && spot_tv_says(name, b->name))
                return b;
    return NULL;
}

/* Index of a name in "a,b"; SPOT_TARGS_MAX: not found. *n: number of names. */
static size_t param_of(const char *params, value name, size_t *n)
{
    size_t place = SPOT_TARGS_MAX;

    *n = 0;
    while (*params) {
        const size_t length = strcspn(params, ",");

        if (spot_tv_is_text(name) && name.n == length && !memcmp(name.u.s, params, length))
            place = *n;
        ++*n;
        params += length + (params[length] == ',');
    }
    return place;
}

struct spot_tv spot_tbuiltin_call(const struct spot_tbuiltin *b, struct spot_tcall *c)
{
    call to = { .r = c->r, .at = c->at, .self = c->self, .n = c->n, .how = b->how };
    size_t most;

    c->how = b->how;
    if (!spot_trender_spend(c->r, 1))
        return spot_tv_none();
    if (!b->params)
        return b->call(c);
    for (size_t i = 0; i < c->n; i++) {
        const size_t named = param_of(b->params, c->name[i], &most);
        const size_t place = spot_tv_is_text(c->name[i]) ? named : i;

        if (place >= most) {
            spot_trender_fail(c->r, c->at, "'%s' takes no argument %s%.*s", b->name,
                              place == i ? "here" : "", place == i ? 0 : (int)c->name[i].n,
                              place == i ? "" : c->name[i].u.s);
            return spot_tv_none();
        }
        to.arg[place] = c->arg[i];
    }
    return b->call(&to); /* cppcheck-suppress returnDanglingLifetime */
}

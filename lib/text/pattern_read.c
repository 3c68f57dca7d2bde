/* SPDX-License-Identifier: MIT */
/* Reads a pattern. */
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/pattern_state.h"
#include "text/unicode_class.h"

enum { DEPTH_MAX = 32, REPEAT_MAX = 64 };

typedef struct spot_pattern_set set;

struct reader {
    struct spot_pattern_tree *t;
    const char *begin, *at, *end;
    bool any_case;
    int depth;
    struct spot_err *err;
    bool has_failed;
};

static uint32_t alternatives(struct reader *r);

static void fail(struct reader *r, const char *what)
{
    const size_t at = (size_t)(r->at - r->begin);
    const size_t left = (size_t)(r->end - r->at), n = spot_utf8_cut(r->at, left < 20 ? left : 20);

    if (!r->has_failed)
        spot_err_set(r->err, SPOT_EDATA,
                     "byte %zu of the pattern, '%.*s': %s; known are | ( ) (?: ) (?i: ), sets, "
                     "\\s \\d \\p{category}, * + ? {m,n}, and (?= ) and (?! ) of one character",
                     at + 1, (int)n, r->at, what);
    r->has_failed = true;
    r->at = r->end;
}

static bool accept(struct reader *r, const char *text)
{
    const size_t n = strlen(text);
    const bool has = (size_t)(r->end - r->at) >= n && !memcmp(r->at, text, n);

    r->at += has ? n : 0;
    return has;
}

static uint32_t new_node(struct reader *r, enum spot_pattern_type type, uint32_t a, uint32_t b)
{
    struct spot_pattern_tree *const t = r->t;

    if (t->n >= SPOT_PATTERN_NODES_MAX)
        fail(r, "it is too long");
    t->node = spot_xgrow(t->node, &t->cap, t->n + 1, sizeof(*t->node));
    t->node[t->n] = (struct spot_pattern_node){ .type = (uint8_t)type, .a = a, .b = b };
    return (uint32_t)t->n++;
}

static bool is_same(const set *a, const set *b)
{
    return a->is_not == b->is_not && a->has_space == b->has_space &&
           a->has_no_space == b->has_no_space && a->categories == b->categories && a->n == b->n &&
           !memcmp(a->range, b->range, a->n * sizeof(a->range[0]));
}

static uint32_t set_node(struct reader *r, enum spot_pattern_type type, const set *s)
{
    struct spot_pattern_tree *const t = r->t;
    const uint32_t node = new_node(r, type, 0, 0);
    size_t i = 0;

    while (i < t->n_set && !is_same(&t->set[i], s))
        i++;
    if (i == t->n_set) {
        if (t->n_set >= SPOT_PATTERN_SETS_MAX)
            fail(r, "there are too many sets of characters");
        t->set = spot_xgrow(t->set, &t->set_cap, i + 1, sizeof(*t->set));
        t->set[t->n_set++] = *s;
    }
    t->node[node].set = (uint32_t)i;
    return node;
}

/* --- sets of characters -------------------------------------------------------------- */

static void add_range(struct reader *r, set *s, uint32_t first, uint32_t last)
{
    if (s->n == SPOT_PATTERN_RANGES || last < first) {
        fail(r, last < first ? "a range that ends before it begins" : "a set of too many parts");
        return;
    }
    s->range[s->n][0] = first;
    s->range[s->n++][1] = last;
}

/* Adds a character; ignoring case, also its other case and characters that fold to it. */
static void add_char(struct reader *r, set *s, uint32_t code)
{
    const bool is_letter = (code | 0x20) >= 'a' && (code | 0x20) <= 'z' && code < 0x80;

    add_range(r, s, code, code);
    if (!r->any_case)
        return;
    if (is_letter)
        add_range(r, s, code ^ 0x20, code ^ 0x20);
    else if (code >= 0x80)
        fail(r, "only letters of ASCII have another case here");
    if ((code | 0x20) == 's' || (code | 0x20) == 'k')
        add_range(r, s, (code | 0x20) == 's' ? 0x17F : 0x212A,
                  (code | 0x20) == 's' ? 0x17F : 0x212A);
}

/* "L}" of \p{L}: the bits; 0: not known. */
static uint32_t category(struct reader *r)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } known[] = {
        { "L}", SPOT_CHARS_L },        { "Lu}", 1U << SPOT_CHAR_LU }, { "Ll}", 1U << SPOT_CHAR_LL },
        { "Lt}", 1U << SPOT_CHAR_LT }, { "Lm}", 1U << SPOT_CHAR_LM }, { "Lo}", 1U << SPOT_CHAR_LO },
        { "M}", 1U << SPOT_CHAR_M },   { "N}", SPOT_CHARS_N },        { "Nd}", 1U << SPOT_CHAR_ND },
        { "Nl}", 1U << SPOT_CHAR_NL }, { "No}", 1U << SPOT_CHAR_NO }, { "P}", SPOT_CHARS_P },
        { "Pc}", 1U << SPOT_CHAR_PC }, { "S}", 1U << SPOT_CHAR_S },   { "Z}", 1U << SPOT_CHAR_Z },
        { "C}", 1U << SPOT_CHAR_C },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (accept(r, known[i].name))
            return known[i].bits;
    return 0;
}

/* Reads an escape after its backslash; true: it is one character, *code. */
static bool escape(struct reader *r, set *s, uint32_t *code)
{
    const uint32_t all = (1U << SPOT_CHARS) - 1;
    static const char name[] = "nrtfv0", is[] = "\n\r\t\f\v";
    const char c = r->at < r->end ? *r->at : '\0';
    uint32_t bits;

    if (!c || ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               (unsigned char)c >= 0x80)) {
        if (accept(r, "p{") || accept(r, "P{")) {
            bits = category(r);
            if (!bits)
                fail(r, "unknown category");
            s->categories |= c == 'P' ? all & ~bits : bits;
        } else if (c && strchr("sSdD", c)) {
            s->has_space |= c == 's';
            s->has_no_space |= c == 'S';
            bits = (c | 0x20) == 'd' ? 1U << SPOT_CHAR_ND : 0;
            s->categories |= c == 'D' ? all & ~bits : bits;
            r->at++;
        } else if (c && strchr(name, c)) {
            *code = (uint32_t)is[strchr(name, c) - name];
            r->at++;
            return true;
        } else {
            fail(r, "unknown escape");
        }
        return false;
    }
    *code = (uint32_t)c;
    r->at++;
    return true;
}

/* Reads one character, or an escape; false: the escape is a set, or invalid. */
static bool one_char(struct reader *r, set *s, uint32_t *code)
{
    if (accept(r, "\\"))
        return escape(r, s, code);
    r->at += spot_utf8_char(r->at, (size_t)(r->end - r->at), code);
    if (*code == UINT32_MAX)
        fail(r, "invalid UTF-8");
    return !r->has_failed;
}

/* Reads a set after its '['. */
static uint32_t brackets(struct reader *r)
{
    set s = { .is_not = accept(r, "^") };

    while (!accept(r, "]")) {
        uint32_t code = 0, last = 0;

        if (r->at == r->end || *r->at == '[' || !strncmp(r->at, "&&", 2))
            fail(r, r->at == r->end ? "a set without an end" : "sets in sets are not supported");
        if (r->has_failed)
            break;
        if (!one_char(r, &s, &code))
            continue;
        if (r->end - r->at < 2 || r->at[0] != '-' || r->at[1] == ']') {
            add_char(r, &s, code);
            continue;
        }
        r->at++;
        if (!one_char(r, &s, &last))
            fail(r, "expected the end of a range");
        if (r->any_case)
            fail(r, "ranges of any case are not supported");
        add_range(r, &s, code, last);
    }
    return set_node(r, SPOT_PATTERN_SET, &s);
}

/* --- the parts ------------------------------------------------------------------------- */

static uint32_t ahead(struct reader *r, bool is_not)
{
    const uint32_t inside = alternatives(r);

    if (!r->has_failed && r->t->node[inside].type != SPOT_PATTERN_SET)
        fail(r, "only one character is looked at ahead");
    if (r->has_failed)
        return inside;
    r->t->node[inside].type = SPOT_PATTERN_AHEAD;
    r->t->node[inside].is_not = is_not;
    return inside;
}

static uint32_t group(struct reader *r)
{
    const bool any_case = r->any_case;
    uint32_t n;

    if (++r->depth > DEPTH_MAX)
        fail(r, "nested too deep");
    if (accept(r, "?!") || accept(r, "?=")) {
        n = ahead(r, r->at[-1] == '!');
    } else {
        if (accept(r, "?i:"))
            r->any_case = true;
        else if (!accept(r, "?:") && accept(r, "?"))
            fail(r, "unknown group");
        n = alternatives(r);
    }
    if (!accept(r, ")"))
        fail(r, "expected ')'");
    r->any_case = any_case;
    r->depth--;
    return n;
}

static uint32_t atom(struct reader *r)
{
    set s = { 0 };
    uint32_t code = 0;

    if (accept(r, "("))
        return group(r);
    if (accept(r, "["))
        return brackets(r);
    if (accept(r, ".")) {
        s.is_not = true;
        add_range(r, &s, '\n', '\n');
    } else if (accept(r, "$")) { /* the end of the text */
        add_range(r, &s, '\n', '\n');
        s.is_not = true;
        code = set_node(r, SPOT_PATTERN_AHEAD, &s);
        r->t->node[code].is_not = true;
        return code;
    } else if (r->at < r->end && strchr("*+?{^", *r->at)) {
        fail(r, "not here");
    } else if (one_char(r, &s, &code)) {
        add_char(r, &s, code);
    }
    return set_node(r, SPOT_PATTERN_SET, &s);
}

static int number(struct reader *r)
{
    int n = 0;

    if (r->at == r->end || *r->at < '0' || *r->at > '9')
        return -1;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && n <= REPEAT_MAX; r->at++)
        n = 10 * n + (*r->at - '0');
    if (n > REPEAT_MAX)
        fail(r, "more than 64 repetitions");
    return n;
}

static uint32_t repeated(struct reader *r)
{
    uint32_t a = atom(r);
    int min, max;

    while (!r->has_failed && r->at < r->end && strchr("*+?{", *r->at)) {
        const bool is_counted = *r->at == '{';

        min = *r->at == '+';
        max = *r->at == '?' ? 1 : -1;
        if (accept(r, "{")) {
            min = number(r);
            max = accept(r, ",") ? number(r) : min;
            if (min < 0 || (max >= 0 && max < min) || !accept(r, "}"))
                fail(r, "expected {m}, {m,} or {m,n}");
        } else {
            r->at++;
        }
        a = new_node(r, SPOT_PATTERN_REPEAT, a, 0);
        r->t->node[a].min = min;
        r->t->node[a].max = max;
        r->t->node[a].is_possessive = !is_counted && accept(r, "+");
        if (r->t->node[a].is_possessive && r->t->node[r->t->node[a].a].type != SPOT_PATTERN_SET)
            fail(r, "only one character is repeated without giving back");
        if (accept(r, "?"))
            fail(r, "as few as possible is not supported");
    }
    return a;
}

static uint32_t sequence(struct reader *r)
{
    uint32_t first = UINT32_MAX;

    while (!r->has_failed && r->at < r->end && *r->at != '|' && *r->at != ')') {
        const uint32_t next = repeated(r);

        first = first == UINT32_MAX ? next : new_node(r, SPOT_PATTERN_THEN, first, next);
    }
    return first == UINT32_MAX ? new_node(r, SPOT_PATTERN_EMPTY, 0, 0) : first;
}

static uint32_t alternatives(struct reader *r)
{
    uint32_t n = sequence(r);

    while (accept(r, "|")) {
        const uint32_t next = sequence(r);

        n = new_node(r, SPOT_PATTERN_EITHER, n, next);
    }
    return n;
}

int spot_pattern_read(struct spot_pattern_tree *t, const char *text, struct spot_err *err)
{
    struct reader r = { .t = t, .begin = text, .at = text, .end = text + strlen(text), .err = err };

    *t = (struct spot_pattern_tree){ 0 };
    t->root = alternatives(&r);
    if (r.at < r.end)
        fail(&r, "expected the end");
    return r.has_failed ? -1 : 0;
}

void spot_pattern_release(struct spot_pattern_tree *t)
{
    free(t->node);
    free(t->set);
}

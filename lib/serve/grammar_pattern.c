/* SPDX-License-Identifier: MIT */
/* A part of ECMA-262's expressions: characters, ., classes, \d \w \s and their opposites, groups,
 * alternatives, * + ? {m} {m,} {m,n}, and ^ and $ at the ends. The expression is parsed into a tree
 * first, because nodes are built from the end. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "common/xalloc.h"
#include "serve/grammar_state.h"

enum kind { EMPTY, CLASS, SEQUENCE, EITHER, REPEAT };

enum { RANGES_MAX = 64, REPEAT_MAX = 65535, NESTED_MAX = 32, PARTS_MAX = 4096 };

struct range {
    uint32_t low, high;
};

struct part {
    enum kind kind;
    uint32_t left, right; /* parts */
    uint32_t min, max;
    struct range *range; /* [n_range], owned */
    size_t n_range;
};

struct parser {
    const char *text, *at;
    const char *why;
    struct part *part; /* [n]; part 0 is the empty expression */
    size_t n, cap;
    int depth;
    bool has_alternatives; /* '|' occurs outside of groups */
};

static uint32_t fail(struct parser *p, const char *why)
{
    if (!p->why)
        p->why = why;
    return 0;
}

static uint32_t add(struct parser *p, struct part part)
{
    if (p->n == PARTS_MAX) {
        free(part.range);
        return fail(p, "is too long");
    }
    p->part = spot_xgrow(p->part, &p->cap, p->n + 1, sizeof(*p->part));
    p->part[p->n] = part;
    return (uint32_t)p->n++;
}

/* --- classes ---------------------------------------------------------------- */

struct set {
    struct range range[RANGES_MAX];
    size_t n;
};

static void include(struct parser *p, struct set *s, uint32_t low, uint32_t high)
{
    if (s->n == RANGES_MAX)
        fail(p, "has a class of too many ranges");
    else
        s->range[s->n++] = (struct range){ low, high };
}

static int by_low(const void *a, const void *b)
{
    const uint32_t x = ((const struct range *)a)->low, y = ((const struct range *)b)->low;

    return (x > y) - (x < y);
}

static struct set complement(struct parser *p, struct set *s)
{
    struct set out = { .n = 0 };
    uint32_t next = 0;

    qsort(s->range, s->n, sizeof(*s->range), by_low);
    for (size_t i = 0; i < s->n; i++) {
        if (s->range[i].low > next)
            include(p, &out, next, s->range[i].low - 1);
        if (s->range[i].high >= next)
            next = s->range[i].high + 1;
    }
    if (next <= 0x10FFFF)
        include(p, &out, next, 0x10FFFF);
    return out;
}

/* Reads \d and similar; false: it is none of them. */
static bool include_named(struct parser *p, struct set *s, char name)
{
    struct set known = { .n = 0 };

    switch (name | 0x20) {
    case 'd':
        include(p, &known, '0', '9');
        break;
    case 'w':
        include(p, &known, '0', '9');
        include(p, &known, 'A', 'Z');
        include(p, &known, 'a', 'z');
        include(p, &known, '_', '_');
        break;
    case 's':
        include(p, &known, '\t', '\r');
        include(p, &known, ' ', ' ');
        break;
    default:
        return false;
    }
    if (!(name & 0x20))
        known = complement(p, &known);
    for (size_t i = 0; i < known.n; i++)
        include(p, s, known.range[i].low, known.range[i].high);
    return true;
}

/* Reads an escape that stands for a single character, after its backslash. */
static uint32_t escaped_char(struct parser *p)
{
    static const char from[] = "ntrfv", to[] = "\n\t\r\f\v";
    const char *const known = *p->at ? strchr(from, *p->at) : NULL;

    if (known) {
        p->at++;
        return (uint32_t)to[known - from];
    }
    if (!*p->at || !strchr("^$\\.*+?()[]{}|/-\"'@:, #&_=<>~!%;", *p->at))
        return fail(p, "has an escape that is not supported");
    return (uint32_t)*p->at++;
}

static uint32_t plain_char(struct parser *p)
{
    uint32_t code;

    p->at += spot_utf8_char(p->at, strlen(p->at), &code);
    return code;
}

static void class_item(struct parser *p, struct set *s)
{
    uint32_t low, high;

    if (*p->at == '\\' && p->at[1] && include_named(p, s, p->at[1])) {
        p->at += 2;
        return;
    }
    low = *p->at == '\\' ? (p->at++, escaped_char(p)) : plain_char(p);
    high = low;
    if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
        p->at++;
        high = *p->at == '\\' ? (p->at++, escaped_char(p)) : plain_char(p);
    }
    if (low > high)
        fail(p, "has a range whose end comes before its start");
    else
        include(p, s, low, high);
}

static uint32_t of_set(struct parser *p, const struct set *s)
{
    struct part part = { .kind = CLASS, .n_range = s->n };

    part.range = spot_xcalloc(s->n + 1, sizeof(*part.range));
    memcpy(part.range, s->range, s->n * sizeof(*part.range));
    return add(p, part);
}

/* After '['. */
static uint32_t class(struct parser *p)
{
    const bool is_not = *p->at == '^';
    struct set s = { .n = 0 };

    p->at += is_not;
    while (*p->at && *p->at != ']' && !p->why)
        class_item(p, &s);
    if (*p->at != ']')
        return fail(p, "has a class without an end");
    p->at++;
    qsort(s.range, s.n, sizeof(*s.range), by_low);
    for (size_t i = 1; i < s.n; i++) /* overlapping ranges would match one text in two ways */
        if (s.range[i].low <= s.range[i - 1].high) {
            struct set not = complement(p, &s);

            s = complement(p, &not );
            break;
        }
    if (is_not)
        s = complement(p, &s);
    return of_set(p, &s);
}

/* --- the tree --------------------------------------------------------------- */

static uint32_t either(struct parser *p);

static uint32_t group(struct parser *p)
{
    uint32_t inner;

    if (*p->at == '?' && p->at[1] != ':')
        return fail(p, "has lookahead, lookbehind or a named group, which is not supported");
    if (*p->at == '?')
        p->at += 2;
    if (++p->depth > NESTED_MAX)
        return fail(p, "is nested too deeply");
    inner = either(p);
    p->depth--;
    if (*p->at != ')')
        return fail(p, "has a group without an end");
    p->at++;
    return inner;
}

static uint32_t atom(struct parser *p)
{
    static const struct set any = { .range = { { 0, 9 }, { 0xB, 0xC }, { 0xE, 0x10FFFF } },
                                    .n = 3 };
    struct set s = { .n = 0 };
    const char c = *p->at;

    if (c == '(')
        return p->at++, group(p);
    if (c == '[')
        return p->at++, class(p);
    if (c == '.')
        return p->at++, of_set(p, &any);
    if (strchr("*+?{}^$]", c))
        return fail(p, "has a character in a place where it is not supported");
    if (c == '\\' && p->at[1] && include_named(p, &s, p->at[1])) {
        p->at += 2;
    } else {
        const uint32_t code = c == '\\' ? (p->at++, escaped_char(p)) : plain_char(p);

        include(p, &s, code, code);
    }
    return of_set(p, &s);
}

static uint32_t number(struct parser *p)
{
    char *end;
    const unsigned long n = *p->at >= '0' && *p->at <= '9' ? strtoul(p->at, &end, 10) : ULONG_MAX;

    if (n > REPEAT_MAX)
        return fail(p, "has a repetition that is not supported");
    p->at = end;
    return (uint32_t)n;
}

/* After '{'. */
static void bounds(struct parser *p, uint32_t *min, uint32_t *max)
{
    *min = *max = number(p);
    if (*p->at == ',') {
        p->at++;
        *max = *p->at == '}' ? SPOT_GRAMMAR_MANY : number(p);
    }
    if (*p->at != '}' || *max < *min)
        fail(p, "has a repetition that is not supported");
    else
        p->at++;
}

static uint32_t repeated(struct parser *p)
{
    struct part part = { .kind = REPEAT, .min = 1, .max = 1 };

    part.left = atom(p);
    switch (*p->at) {
    case '*':
        part.min = 0, part.max = SPOT_GRAMMAR_MANY, p->at++;
        break;
    case '+':
        part.max = SPOT_GRAMMAR_MANY, p->at++;
        break;
    case '?':
        part.min = 0, p->at++;
        break;
    case '{':
        p->at++, bounds(p, &part.min, &part.max);
        break;
    default:
        return part.left;
    }
    if (*p->at == '?') /* lazy quantifiers match the same texts */
        p->at++;
    return add(p, part);
}

static uint32_t sequence(struct parser *p)
{
    uint32_t all = 0;

    while (*p->at && *p->at != '|' && *p->at != ')' && !(*p->at == '$' && !p->at[1]) && !p->why) {
        const uint32_t one = repeated(p);

        all = all ? add(p, (struct part){ .kind = SEQUENCE, .left = all, .right = one }) : one;
    }
    return all;
}

static uint32_t either(struct parser *p)
{
    uint32_t all = sequence(p);

    while (*p->at == '|' && !p->why) {
        p->has_alternatives = p->has_alternatives || !p->depth;
        p->at++;
        all = add(p, (struct part){ .kind = EITHER, .left = all, .right = sequence(p) });
    }
    return all;
}

/* --- nodes ------------------------------------------------------------------ */

static uint32_t build(struct spot_gnet *net, const struct parser *p, uint32_t i, uint32_t next)
{
    const struct part *const part = &p->part[i];
    uint32_t start = net->never;

    if (net->is_full)
        return 0;
    switch (part->kind) {
    case EMPTY:
        return next;
    case CLASS:
        for (size_t k = 0; k < part->n_range; k++)
            start = spot_gnet_split(
                net, start, spot_gnet_chars(net, part->range[k].low, part->range[k].high, next));
        return start;
    case SEQUENCE:
        return build(net, p, part->left, build(net, p, part->right, next));
    case EITHER:
        start = build(net, p, part->left, next);
        return spot_gnet_split(net, start, build(net, p, part->right, next));
    case REPEAT:
        return spot_gnet_loop(net, build(net, p, part->left, 0), part->min, part->max, next);
    }
    return 0;
}

static uint32_t anything(struct spot_gnet *net, uint32_t next)
{
    return spot_gnet_loop(net, spot_gnet_any_char(net, 0), 0, SPOT_GRAMMAR_MANY, next);
}

uint32_t spot_gnet_pattern(struct spot_gnet *net, const char *pattern, uint32_t next,
                           const char **why, size_t *at)
{
    struct parser p = { .text = pattern, .at = pattern };
    const bool has_start = *pattern == '^';
    uint32_t root, start = net->never;
    bool has_end;

    add(&p, (struct part){ .kind = EMPTY });
    p.at += has_start;
    root = either(&p);
    has_end = *p.at == '$';
    p.at += has_end;
    if (!p.why && *p.at)
        fail(&p, "has a character in a place where it is not supported");
    /* ^ and $ apply to the whole expression only without alternatives: "^a|b$" is not "^(a|b)$" */
    if (!p.why && (has_start || has_end) && p.has_alternatives)
        fail(&p, "has ^ or $ and alternatives outside a group, which is not supported");
    if (!p.why) {
        start = build(net, &p, root, has_end ? next : anything(net, next));
        start = has_start ? start : anything(net, start);
    }
    *why = p.why;
    *at = (size_t)(p.at - p.text);
    for (size_t i = 0; i < p.n; i++)
        free(p.part[i].range);
    free(p.part);
    return start;
}

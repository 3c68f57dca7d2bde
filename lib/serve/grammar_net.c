/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "common/xalloc.h"
#include "serve/grammar_state.h"

/* --- nodes ------------------------------------------------------------------ */

static uint32_t add(struct spot_gnet *net, struct spot_gnode node)
{
    if (net->n == SPOT_GNODE_MAX) {
        net->is_full = true;
        return 0;
    }
    net->node = spot_xgrow(net->node, &net->cap, net->n + 1, sizeof(*net->node));
    net->node[net->n] = node;
    return (uint32_t)net->n++;
}

void spot_gnet_init(struct spot_gnet *net)
{
    *net = (struct spot_gnet){ 0 };
    add(net, (struct spot_gnode){ .kind = SPOT_GNODE_RETURN });
    net->never = add(net, (struct spot_gnode){ .kind = SPOT_GNODE_NEVER });
}

void spot_gnet_release(struct spot_gnet *net)
{
    free(net->node);
    free(net->rule);
    *net = (struct spot_gnet){ 0 };
}

uint32_t spot_gnet_byte(struct spot_gnet *net, uint8_t low, uint8_t high, uint32_t next)
{
    return add(net, (struct spot_gnode){
                        .kind = SPOT_GNODE_BYTE, .low = low, .high = high, .next = next });
}

uint32_t spot_gnet_split(struct spot_gnet *net, uint32_t a, uint32_t b)
{
    if (a == net->never)
        return b;
    if (b == net->never)
        return a;
    return add(net, (struct spot_gnode){ .kind = SPOT_GNODE_SPLIT, .next = a, .other = b });
}

uint32_t spot_gnet_loop(struct spot_gnet *net, uint32_t body, uint32_t min, uint32_t max,
                        uint32_t next)
{
    return add(net,
               (struct spot_gnode){
                   .kind = SPOT_GNODE_LOOP, .other = body, .min = min, .max = max, .next = next });
}

uint32_t spot_gnet_call(struct spot_gnet *net, uint32_t rule, uint32_t next)
{
    return add(net, (struct spot_gnode){ .kind = SPOT_GNODE_CALL, .other = rule, .next = next });
}

uint32_t spot_gnet_rule(struct spot_gnet *net)
{
    net->rule = spot_xgrow(net->rule, &net->rule_cap, net->n_rule + 1, sizeof(*net->rule));
    net->rule[net->n_rule] = net->never;
    return (uint32_t)net->n_rule++;
}

static uint32_t bytes(struct spot_gnet *net, const char *text, size_t n, uint32_t next)
{
    while (n-- > 0)
        next = spot_gnet_byte(net, (uint8_t)text[n], (uint8_t)text[n], next);
    return next;
}

uint32_t spot_gnet_text(struct spot_gnet *net, const char *text, uint32_t next)
{
    return bytes(net, text, strlen(text), next);
}

/* Any of text[n], n >= 1, sorted, from byte `depth` on; earlier bytes are equal in all of them. */
static uint32_t texts_from(struct spot_gnet *net, char *const *text, size_t n, size_t depth,
                           uint32_t next)
{
    const char *const first = text[0] + depth, *const last = text[n - 1] + depth;
    uint32_t start = net->never;
    size_t same = 0;

    if (n == 1)
        return spot_gnet_text(net, first, next);
    while (first[same] == last[same]) /* sorted, so all have this byte */
        same++;
    for (size_t i = 0, end; i < n && !net->is_full; i = end) {
        const char c = text[i][depth + same];

        for (end = i + 1; end < n && text[end][depth + same] == c;)
            end++;
        start = spot_gnet_split(net, start,
                                c ? texts_from(net, text + i, end - i, depth + same, next) : next);
    }
    return bytes(net, first, same, start);
}

uint32_t spot_gnet_texts(struct spot_gnet *net, char *const *text, size_t n, uint32_t next)
{
    return n ? texts_from(net, text, n, 0, next) : net->never;
}

/* --- any text without a given one --------------------------------------- */

/* Creates as few nodes as possible that lead from each byte to the node to[byte]. */
static uint32_t led_by(struct spot_gnet *net, const uint32_t to[256])
{
    uint32_t start = net->never;

    for (int low = 0, high; low < 256; low = high + 1) {
        for (high = low; high < 255 && to[high + 1] == to[low];)
            high++;
        if (to[low] != net->never)
            start = spot_gnet_split(net, start,
                                    spot_gnet_byte(net, (uint8_t)low, (uint8_t)high, to[low]));
    }
    return start;
}

static uint32_t no_bracket(struct spot_gnet *net, uint32_t next)
{
    const uint32_t rest =
        spot_gnet_loop(net, spot_gnet_byte(net, 0, 255, 0), 0, SPOT_GRAMMAR_MANY, next);
    uint32_t to[256];

    for (int c = 0; c < 256; c++)
        to[c] = c && strchr("{[ \n\t\r", c) ? net->never : rest;
    return spot_gnet_split(net, next, led_by(net, to));
}

/* The automaton that searches for the text (Knuth, Morris and Pratt), without its last step. Its
 * nodes refer to each other, so they are created before their successors are known. */
uint32_t spot_gnet_without(struct spot_gnet *net, const char *text, uint32_t next)
{
    const size_t n = strlen(text);
    uint32_t *const at = spot_xcalloc(n + 1, sizeof(*at)), to[256];
    uint32_t start;

    if (!n) {
        free(at);
        return no_bracket(net, next);
    }
    for (size_t k = 0; k < n; k++)
        at[k] = add(net, (struct spot_gnode){ .kind = SPOT_GNODE_SPLIT, .next = next });
    at[n] = net->never;
    for (size_t k = 0; k < n && !net->is_full; k++) {
        for (int c = 0; c < 256; c++) {
            size_t m = k;

            while (m && (uint8_t)text[m] != c) { /* a shorter prefix that ends here */
                size_t shorter = m - 1;

                while (shorter && memcmp(text, text + m - shorter, shorter) != 0)
                    shorter--;
                m = shorter;
            }
            to[c] = at[m + ((uint8_t)text[m] == c)];
        }
        start = led_by(net, to);
        net->node[at[k]].other = start;
    }
    start = at[0];
    free(at);
    return start;
}

/* --- characters ------------------------------------------------------------- */

/* Characters low..high of one length of UTF-8. Where their first bytes differ, the range is cut
 * until the bytes that follow are either fixed or free. */
static uint32_t same_length(struct spot_gnet *net, uint32_t low, uint32_t high, uint32_t next)
{
    char a[SPOT_UTF8_MAX], b[SPOT_UTF8_MAX];
    const size_t n = spot_utf8_put(low, a);

    spot_utf8_put(high, b);
    for (size_t tail = n - 1; tail > 0; tail--) { /* all bytes except the first */
        const uint32_t block = 1U << (6 * tail);

        if (low / block == high / block)
            continue;
        if (low % block)
            return spot_gnet_split(net,
                                   same_length(net, low, low / block * block + block - 1, next),
                                   same_length(net, low / block * block + block, high, next));
        if (high % block != block - 1)
            return spot_gnet_split(net, same_length(net, low, high / block * block - 1, next),
                                   same_length(net, high / block * block, high, next));
        break;
    }
    for (size_t i = n; i-- > 0;)
        next = spot_gnet_byte(net, (uint8_t)a[i], (uint8_t)b[i], next);
    return next;
}

static uint32_t escaped(struct spot_gnet *net, char c, uint32_t next)
{
    return spot_gnet_byte(net, '\\', '\\', spot_gnet_byte(net, (uint8_t)c, (uint8_t)c, next));
}

/* Characters low..high that are in one of part[n]; all characters of a part have the same length in
 * UTF-8. */
static uint32_t in_parts(struct spot_gnet *net, const uint32_t (*part)[2], size_t n, uint32_t low,
                         uint32_t high, uint32_t next)
{
    uint32_t start = net->never;

    for (size_t i = 0; i < n; i++) {
        const uint32_t from = low > part[i][0] ? low : part[i][0];
        const uint32_t to = high < part[i][1] ? high : part[i][1];

        if (from <= to)
            start = spot_gnet_split(net, start, same_length(net, from, to, next));
    }
    return start;
}

uint32_t spot_gnet_chars(struct spot_gnet *net, uint32_t low, uint32_t high, uint32_t next)
{
    static const uint32_t part[][2] = {
        { 0x20, 0x21 },    { 0x23, 0x5B },     { 0x5D, 0x7F },        { 0x80, 0x7FF },
        { 0x800, 0xD7FF }, { 0xE000, 0xFFFF }, { 0x10000, 0x10FFFF }, /* need no escape */
    };
    static const uint32_t plain[][2] = {
        { 1, 0x7F }, { 0x80, 0x7FF }, { 0x800, 0xD7FF }, { 0xE000, 0xFFFF }, { 0x10000, 0x10FFFF }
    };
    static const char special[][2] = { { '"', '"' },  { '\\', '\\' }, { '\n', 'n' }, { '\t', 't' },
                                       { '\r', 'r' }, { '\b', 'b' },  { '\f', 'f' } };
    uint32_t start;

    if (net->is_plain)
        return in_parts(net, plain, sizeof(plain) / sizeof(*plain), low, high, next);
    start = in_parts(net, part, sizeof(part) / sizeof(*part), low, high, next);
    for (size_t i = 0; i < sizeof(special) / sizeof(*special); i++)
        if (low <= (uint32_t)special[i][0] && (uint32_t)special[i][0] <= high)
            start = spot_gnet_split(net, start, escaped(net, special[i][1], next));
    return start;
}

static uint32_t hex(struct spot_gnet *net, const char *low_high, uint32_t next)
{
    uint32_t start = net->never;

    for (; *low_high; low_high += 2)
        start = spot_gnet_split(
            net, start, spot_gnet_byte(net, (uint8_t)low_high[0], (uint8_t)low_high[1], next));
    return start;
}

static uint32_t any_hex(struct spot_gnet *net, int n, uint32_t next)
{
    while (n-- > 0)
        next = hex(net, "09AFaf", next);
    return next;
}

/* uXXXX without surrogates that stand alone. */
static uint32_t by_number(struct spot_gnet *net, uint32_t next)
{
    const uint32_t low =
        spot_gnet_text(net, "\\u", hex(net, "DDdd", hex(net, "CFcf", any_hex(net, 2, next))));
    const uint32_t plain = hex(net, "09ACEFacef", any_hex(net, 3, next));
    const uint32_t below = hex(net, "DDdd", hex(net, "07", any_hex(net, 2, next)));
    const uint32_t pair = hex(net, "DDdd", hex(net, "89ABab", any_hex(net, 2, low)));

    return spot_gnet_byte(net, 'u', 'u',
                          spot_gnet_split(net, plain, spot_gnet_split(net, below, pair)));
}

uint32_t spot_gnet_any_char(struct spot_gnet *net, uint32_t next)
{
    uint32_t escape = by_number(net, next);

    for (const char *c = "\"\\/bfnrt"; *c; c++)
        escape = spot_gnet_split(net, escape, spot_gnet_byte(net, (uint8_t)*c, (uint8_t)*c, next));
    escape = spot_gnet_byte(net, '\\', '\\', escape);
    for (int i = 0; i < 3; i++) {
        static const uint32_t plain[3][2] = { { 0x20, 0x21 }, { 0x23, 0x5B }, { 0x5D, 0x10FFFF } };
        uint32_t part;

        if (i < 2)
            part = spot_gnet_byte(net, (uint8_t)plain[i][0], (uint8_t)plain[i][1], next);
        else
            part = spot_gnet_chars(net, plain[i][0], plain[i][1], next);
        escape = spot_gnet_split(net, escape, part);
    }
    return escape;
}

uint32_t spot_gnet_string(struct spot_gnet *net, uint32_t min, uint32_t max, uint32_t next)
{
    const uint32_t close = spot_gnet_byte(net, '"', '"', next);

    return spot_gnet_byte(net, '"', '"',
                          spot_gnet_loop(net, spot_gnet_any_char(net, 0), min, max, close));
}

/* --- numbers ---------------------------------------------------------------- */

static uint32_t digits(struct spot_gnet *net, uint32_t min, uint32_t max, uint32_t next)
{
    return spot_gnet_loop(net, spot_gnet_byte(net, '0', '9', 0), min, max, next);
}

/* Numbers of n digits from `low` to `high`, which both have n digits; without a sign. */
static uint32_t between(struct spot_gnet *net, const char *low, const char *high, size_t n,
                        uint32_t next)
{
    char nines[SPOT_GRAMMAR_DIGITS + 1], zeros[SPOT_GRAMMAR_DIGITS + 1];
    uint32_t start;

    memset(nines, '9', sizeof(nines));
    memset(zeros, '0', sizeof(zeros));
    if (!n)
        return next;
    if (!memcmp(low, zeros, n) && !memcmp(high, nines, n))
        return digits(net, (uint32_t)n, (uint32_t)n, next);
    if (*low == *high)
        return spot_gnet_byte(net, (uint8_t)*low, (uint8_t)*low,
                              between(net, low + 1, high + 1, n - 1, next));
    start = spot_gnet_byte(net, (uint8_t)*low, (uint8_t)*low,
                           between(net, low + 1, nines, n - 1, next));
    start = spot_gnet_split(net, start,
                            spot_gnet_byte(net, (uint8_t)*high, (uint8_t)*high,
                                           between(net, zeros, high + 1, n - 1, next)));
    if (*high - *low > 1)
        start =
            spot_gnet_split(net, start,
                            spot_gnet_byte(net, (uint8_t)(*low + 1), (uint8_t)(*high - 1),
                                           digits(net, (uint32_t)n - 1, (uint32_t)n - 1, next)));
    return start;
}

static size_t decimal(int64_t x, char text[SPOT_GRAMMAR_DIGITS + 1])
{
    char reversed[SPOT_GRAMMAR_DIGITS + 1];
    size_t n = 0;

    do {
        reversed[n++] = (char)('0' + x % 10);
        x /= 10;
    } while (x);
    for (size_t i = 0; i < n; i++)
        text[i] = reversed[n - 1 - i];
    return n;
}

/* 0 <= low <= high */
static uint32_t natural(struct spot_gnet *net, int64_t low, int64_t high, uint32_t next)
{
    char first[SPOT_GRAMMAR_DIGITS + 1], last[SPOT_GRAMMAR_DIGITS + 1];
    uint32_t start = net->never;

    for (size_t n = decimal(low, first), n_last = decimal(high, last); n <= n_last; n++) {
        char to[SPOT_GRAMMAR_DIGITS + 1];

        memset(to, '9', sizeof(to));
        start = spot_gnet_split(net, start, between(net, first, n == n_last ? last : to, n, next));
        memset(first, '0', sizeof(first)); /* the smallest number with one digit more */
        *first = '1';
    }
    return start;
}

uint32_t spot_gnet_integer(struct spot_gnet *net, int64_t low, int64_t high, uint32_t next)
{
    const int64_t most = 999999999999999999;
    uint32_t start = net->never;

    low = low < -most ? -most : low;
    high = high > most ? most : high;
    if (low > high)
        return net->never;
    if (high >= 0)
        start = natural(net, low > 0 ? low : 0, high, next);
    if (low < 0)
        start = spot_gnet_split(
            net, start,
            spot_gnet_byte(net, '-', '-', natural(net, high < 0 ? -high : 1, -low, next)));
    return start;
}

/* A number: at most 16 digits on each side of the point, and at most two digits of the exponent, so
 * that it is finite (below 1e116). */
uint32_t spot_gnet_number(struct spot_gnet *net, uint32_t next)
{
    const uint32_t power = digits(net, 1, 2, next);
    const uint32_t sign = spot_gnet_split(net, power,
                                          spot_gnet_split(net, spot_gnet_byte(net, '+', '+', power),
                                                          spot_gnet_byte(net, '-', '-', power)));
    const uint32_t exponent =
        spot_gnet_split(net, next,
                        spot_gnet_split(net, spot_gnet_byte(net, 'e', 'e', sign),
                                        spot_gnet_byte(net, 'E', 'E', sign)));
    const uint32_t fraction =
        spot_gnet_split(net, exponent, spot_gnet_byte(net, '.', '.', digits(net, 1, 16, exponent)));
    const uint32_t whole =
        spot_gnet_split(net, spot_gnet_byte(net, '0', '0', fraction),
                        spot_gnet_byte(net, '1', '9', digits(net, 0, 15, fraction)));

    return spot_gnet_split(net, whole, spot_gnet_byte(net, '-', '-', whole));
}

/* --- the end ---------------------------------------------------------------- */

static bool lives(const struct spot_gnet *net, const struct spot_gnode *v)
{
    const struct spot_gnode *const node = net->node;

    switch ((enum spot_gnode_kind)v->kind) {
    case SPOT_GNODE_RETURN:
        return true;
    case SPOT_GNODE_BYTE:
        return node[v->next].is_alive;
    case SPOT_GNODE_SPLIT:
        return node[v->next].is_alive || node[v->other].is_alive;
    case SPOT_GNODE_CALL:
        return node[v->next].is_alive && node[net->rule[v->other]].is_alive;
    case SPOT_GNODE_LOOP:
        return node[v->next].is_alive && (!v->min || node[v->other].is_alive);
    case SPOT_GNODE_NEVER:
        return false;
    }
    return false;
}

/* Nodes mostly come after their successors, so a few passes suffice. */
static void find_alive(struct spot_gnet *net)
{
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (size_t i = 0; i < net->n; i++)
            if (!net->node[i].is_alive && lives(net, &net->node[i]))
                net->node[i].is_alive = has_changed = true;
    }
}

/* True if a path that consumes no byte leads from a node to itself. seen[]: 0 not yet, 1 in
 * progress, 2 done. A loop's body ends at node 0, so the paths from a loop are those of its body
 * and those after it. */
static bool comes_back(const struct spot_gnet *net, uint32_t start, uint8_t *seen)
{
    uint32_t *const way = spot_xcalloc(2 * net->n + 2, sizeof(*way));
    size_t n = 0;
    bool does = false;

    way[n++] = start;
    while (n && !does) {
        const uint32_t at = way[n - 1];
        const struct spot_gnode *const v = &net->node[at];
        uint32_t to[2] = { 0, 0 };

        if (seen[at]) { /* all paths from here have been followed */
            seen[at] = 2;
            n--;
            continue;
        }
        seen[at] = 1;
        if (v->kind == SPOT_GNODE_SPLIT || v->kind == SPOT_GNODE_LOOP) {
            to[0] = v->next;
            to[1] = v->other;
        } else if (v->kind == SPOT_GNODE_CALL) {
            to[0] = net->rule[v->other];
        }
        for (int i = 0; i < 2; i++) {
            does = does || seen[to[i]] == 1;
            if (!seen[to[i]])
                way[n++] = to[i];
        }
    }
    free(way);
    return does;
}

static bool is_left_recursive(const struct spot_gnet *net)
{
    uint8_t *const seen = spot_xcalloc(net->n, 1);
    bool is = false;

    seen[0] = 2;
    for (size_t i = 0; i < net->n_rule && !is; i++)
        is = !seen[net->rule[i]] && comes_back(net, net->rule[i], seen);
    free(seen);
    return is;
}

enum spot_gnet_fault spot_gnet_finish(struct spot_gnet *net)
{
    if (net->is_full)
        return SPOT_GNET_FULL;
    if (is_left_recursive(net))
        return SPOT_GNET_LEFT_RECURSIVE;
    find_alive(net);
    return net->node[net->start].is_alive ? SPOT_GNET_SOUND : SPOT_GNET_EMPTY;
}

/* SPDX-License-Identifier: MIT */
/* Writes the rest of a language as text for engines: rules over characters, where ours are over
 * bytes. A node with several predecessors, or with alternatives, becomes a rule; other nodes are
 * written in their predecessor's rule. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "serve/grammar.h"
#include "serve/grammar_state.h"

enum { TEXT_MAX = 1 << 18, PREFIX_MAX = 64, ASCII_MAX = 0x7F };

struct writer {
    const struct spot_gnet *net;
    uint32_t *n_lead; /* [net->n] number of predecessors, at most 2 */
    bool *is_rule;    /* [net->n] whether the rule is or will be written */
    uint32_t *queue;  /* [n_queue] rules to be written */
    size_t n_queue, cap;
    struct spot_buf *out;
    bool is_first; /* in the alternatives of a rule */
    const char *cannot;
};

static void put(struct writer *w, const char *fmt, ...)
{
    char text[96];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (w->out->n > TEXT_MAX)
        w->cannot = "it is too large";
    else
        spot_buf_add(w->out, text, (size_t)n);
}

static void lead_to(struct writer *w, uint32_t node)
{
    w->n_lead[node] += w->n_lead[node] < 2;
}

static void count_leads(struct writer *w)
{
    for (size_t i = 0; i < w->net->n; i++) {
        const struct spot_gnode *const v = &w->net->node[i];

        if (!v->is_alive || v->kind == SPOT_GNODE_RETURN || v->kind == SPOT_GNODE_NEVER)
            continue;
        lead_to(w, v->next);
        if (v->kind == SPOT_GNODE_SPLIT)
            lead_to(w, v->other);
    }
}

static void put_rule(struct writer *w, uint32_t node)
{
    put(w, " n%u", node);
    if (w->is_rule[node])
        return;
    w->is_rule[node] = true;
    w->queue = spot_xgrow(w->queue, &w->cap, w->n_queue + 1, sizeof(*w->queue));
    w->queue[w->n_queue++] = node;
}

static void put_character(struct writer *w, uint32_t c)
{
    put(w, c > 0xFFFF ? "\\U%08X" : "\\u%04X", c);
}

static void put_characters(struct writer *w, uint32_t low, uint32_t high)
{
    put(w, " [");
    put_character(w, low);
    if (high != low) {
        put(w, "-");
        put_character(w, high);
    }
    put(w, "]");
}

static void put_turns(struct writer *w, const struct spot_gnode *loop, uint32_t turn)
{
    const uint32_t min = loop->min > turn ? loop->min - turn : 0;

    if (loop->max != SPOT_GRAMMAR_MANY && loop->max <= turn)
        return;
    put_rule(w, loop->other);
    if (loop->max != SPOT_GRAMMAR_MANY)
        put(w, "{%u,%u}", min, loop->max - turn);
    else
        put(w, min ? "{%u,}" : "*", min);
}

/* Writes the text from a node to the end of its rule. */
static void put_from(struct writer *w, uint32_t node, bool is_own)
{
    const struct spot_gnode *v = &w->net->node[node];

    while (!w->cannot && v->kind != SPOT_GNODE_RETURN) {
        if (!is_own && (w->n_lead[node] > 1 || v->kind == SPOT_GNODE_SPLIT ||
                        (v->kind == SPOT_GNODE_BYTE && v->high > ASCII_MAX))) {
            put_rule(w, node);
            return;
        }
        if (v->kind == SPOT_GNODE_BYTE)
            put_characters(w, v->low, v->high);
        else if (v->kind == SPOT_GNODE_CALL)
            put_rule(w, w->net->rule[v->other]);
        else if (v->kind == SPOT_GNODE_LOOP)
            put_turns(w, v, 0);
        is_own = false;
        node = v->next;
        v = &w->net->node[node];
    }
}

static void begin_alternative(struct writer *w)
{
    if (!w->is_first)
        put(w, " |");
    w->is_first = false;
}

static void put_alternative(struct writer *w, uint32_t low, uint32_t high, uint32_t next)
{
    begin_alternative(w);
    put_characters(w, low, high);
    put_from(w, next, false);
}

/* Write characters whose first bits are low..high, and whose last n bytes follow. */
static void put_bytes(struct writer *w, uint32_t node, uint32_t low, uint32_t high, int n)
{
    const struct spot_gnode *const v = &w->net->node[node];
    const uint32_t a = v->low < 0x80 ? 0x80 : v->low, b = v->high > 0xBF ? 0xBF : v->high;

    if (!n) {
        put_alternative(w, low, high, node);
    } else if (v->kind == SPOT_GNODE_SPLIT) {
        put_bytes(w, v->next, low, high, n);
        put_bytes(w, v->other, low, high, n);
    } else if (v->kind != SPOT_GNODE_BYTE || high - low >= PREFIX_MAX) {
        if (v->kind == SPOT_GNODE_BYTE && a == 0x80 && b == 0xBF)
            put_bytes(w, v->next, low << 6, high << 6 | 0x3F, n - 1);
        else if (v->is_alive)
            w->cannot = "its characters are split too finely";
    } else if (!v->is_alive || a > b) {
        return;
    } else if (low != high && a == 0x80 && b == 0xBF) {
        put_bytes(w, v->next, low << 6, high << 6 | 0x3F, n - 1);
    } else {
        for (uint32_t c = low; c <= high; c++)
            put_bytes(w, v->next, c << 6 | (a & 0x3F), c << 6 | (b & 0x3F), n - 1);
    }
}

static void put_lead(struct writer *w, const struct spot_gnode *v, uint32_t first, uint32_t last,
                     int n)
{
    const uint32_t low = v->low > first ? v->low : first, high = v->high < last ? v->high : last;

    if (low <= high)
        put_bytes(w, v->next, low & (0x3FU >> n), high & (0x3FU >> n), n);
}

static void put_byte(struct writer *w, const struct spot_gnode *v)
{
    if (v->low <= ASCII_MAX)
        put_alternative(w, v->low, v->high > ASCII_MAX ? ASCII_MAX : v->high, v->next);
    if (v->high <= ASCII_MAX)
        return;
    if (v->low <= ASCII_MAX + 1 && v->high == 0xFF) { /* all later bytes of a character */
        put_alternative(w, 0x80, 0x10FFFF, v->next);
        return;
    }
    if (v->low == SPOT_GRAMMAR_TOKEN)
        w->cannot = "it has special tokens";
    else if (v->low > ASCII_MAX && v->low < 0xC0)
        w->cannot = "it begins within a character";
    put_lead(w, v, 0xC2, 0xDF, 1);
    put_lead(w, v, 0xE0, 0xEF, 2);
    put_lead(w, v, 0xF0, 0xF4, 3);
}

static void put_alternatives(struct writer *w, uint32_t node, bool is_own)
{
    const struct spot_gnode *const v = &w->net->node[node];

    if (!v->is_alive || w->cannot)
        return;
    if (v->kind == SPOT_GNODE_BYTE) {
        put_byte(w, v);
    } else if (v->kind == SPOT_GNODE_SPLIT && (is_own || w->n_lead[node] < 2)) {
        put_alternatives(w, v->next, false);
        put_alternatives(w, v->other, false);
    } else {
        begin_alternative(w);
        put(w, " \"\"");
        put_from(w, node, is_own);
    }
}

/* The rest of the rules and loops around it. */
static void put_frames(struct writer *w, const struct spot_gframe *frame, uint32_t at)
{
    for (; at; at = frame[at].below) {
        const struct spot_gnode *const v = &w->net->node[frame[at].node];

        if (v->kind != SPOT_GNODE_LOOP) {
            put_from(w, frame[at].node, false);
            continue;
        }
        put_turns(w, v, frame[at].count);
        put_from(w, v->next, false);
    }
}

static void put_all(struct writer *w, const struct spot_gstand *s)
{
    put(w, "root ::=");
    w->is_first = true;
    for (size_t i = 0; i < s->n_way && !w->cannot; i++) {
        begin_alternative(w);
        put_rule(w, s->way[i].node);
        put_frames(w, s->frame, s->way[i].frame);
    }
    if (s->may_end || !s->n_way) {
        begin_alternative(w);
        put(w, " \"\"");
    }
    put(w, "\n");
    for (size_t i = 0; i < w->n_queue && !w->cannot; i++) {
        put(w, "n%u ::=", w->queue[i]);
        w->is_first = true;
        put_alternatives(w, w->queue[i], true);
        put(w, "\n");
    }
}

int spot_grammar_put_rest(struct spot_grammar_state *s, struct spot_buf *out, struct spot_err *err)
{
    const struct spot_gstand stand = spot_grammar_stand(s);
    struct writer w = { .net = stand.net, .out = out };

    w.n_lead = spot_xcalloc(stand.net->n, sizeof(*w.n_lead));
    w.is_rule = spot_xcalloc(stand.net->n, sizeof(*w.is_rule));
    count_leads(&w);
    put_all(&w, &stand);
    free(w.n_lead);
    free(w.is_rule);
    free(w.queue);
    return w.cannot ? spot_err_set(err, SPOT_EDATA,
                                   "the constraint cannot be expressed to an engine: %s", w.cannot)
                    : 0;
}

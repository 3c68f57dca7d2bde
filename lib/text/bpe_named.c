/* SPDX-License-Identifier: MIT */
/* Encodes texts with names of tokens: cuts at the names, and encodes each part separately. */
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "text/bpe_state.h"
#include "text/unicode_class.h"

/* A name in a text, with the spaces that it takes. */
struct hit {
    size_t begin, end, behind; /* the name itself ends at `behind` */
    uint32_t id;
};

struct text {
    const char *s;
    size_t n;
};

/* True if the character before, or at, a position is part of a word. */
static bool is_word(const struct spot_bpe *bpe, struct text t, size_t at, bool before)
{
    uint32_t code, last;

    if (before && !at)
        return bpe->ends_word;
    if (!before && at == t.n)
        return false;
    if (before)
        for (at--; at && ((unsigned char)t.s[at] & 0xC0) == 0x80; at--)
            ;
    (void)spot_utf8_char(t.s + at, t.n - at, &code);
    if (code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
        (code >= 0x1F130 &&
         code <= 0x1F189)) /* also connectors, and letters in circles and squares */
        return true;
    return (SPOT_CHARS_L | 1U << SPOT_CHAR_M | 1U << SPOT_CHAR_ND | 1U << SPOT_CHAR_NL |
            1U << SPOT_CHAR_PC) >>
               spot_char_category(code, &last) &
           1;
}

/* The other end of the spaces that end, or begin, at `at`. */
static size_t past_spaces(struct text t, size_t at, size_t low, bool back)
{
    while (back ? at > low : at < t.n) {
        size_t to = at;
        uint32_t code;

        if (back)
            for (to--; to > low && ((unsigned char)t.s[to] & 0xC0) == 0x80; to--)
                ;
        const size_t length = spot_utf8_char(t.s + to, t.n - to, &code);

        if (!spot_char_is_space(code))
            break;
        at = back ? to : at + length;
    }
    return at;
}

/* Finds the next name from `at` on, in a part that begins at `low`; false: none. */
static bool next_name(const struct spot_bpe *bpe, const struct spot_names *names, struct text t,
                      size_t at, size_t low, struct hit *h)
{
    uint32_t i;

    for (; at < t.n; at++) {
        const char *const name = spot_names_longest(names, t.s + at, t.n - at, &i);
        const struct spot_bpe_added *const a = name ? &bpe->added[i] : NULL;

        if (!a)
            continue;
        *h = (struct hit){ at, at + strlen(name), at + strlen(name), a->id };
        if (a->is_word && (is_word(bpe, t, h->begin, true) || is_word(bpe, t, h->end, false))) {
            at = h->end - 1;
            continue;
        }
        if (a->takes_left)
            h->begin = past_spaces(t, h->begin, low, true);
        if (a->takes_right)
            h->end = past_spaces(t, h->end, 0, false);
        return true;
    }
    return false;
}

typedef void take_part(struct spot_bpe *bpe, struct text part, bool is_first,
                       struct spot_tokens *out);

/* Calls `take` for each part between names, and appends the token of each name. */
static void cut(struct spot_bpe *bpe, const struct spot_names *names, struct text t, bool is_first,
                take_part *take, struct spot_tokens *out)
{
    struct hit h = { 0 };
    size_t begin = 0;

    while (next_name(bpe, names, t, h.behind, begin, &h) && !(out->most && out->n > out->most)) {
        if (h.begin > begin)
            take(bpe, (struct text){ t.s + begin, h.begin - begin }, is_first && !begin, out);
        spot_bpe_append(out, h.id);
        begin = h.end > begin ? h.end : begin;
    }
    if (begin < t.n && !(out->most && out->n > out->most))
        take(bpe, (struct text){ t.s + begin, t.n - begin }, is_first && !begin, out);
}

static void take_normal(struct spot_bpe *bpe, struct text part, bool is_first,
                        struct spot_tokens *out)
{
    /* steps for the start of the text do not apply after a token */
    bpe->is_inside = !is_first && !(bpe->is_marked && bpe->prefix != SPOT_BPE_FIRST);
    spot_bpe_encode_part(bpe, bpe->n_normal, part.s, part.n, out);
}

static void take_raw(struct spot_bpe *bpe, struct text part, bool is_first, struct spot_tokens *out)
{
    struct spot_buf changed = { 0 };
    const char *text = part.s;

    if (bpe->is_marked) {
        cut(bpe, bpe->normal_names, part, is_first, take_normal, out);
        return;
    }
    for (size_t i = 0; i < bpe->n_normal; i++)
        text = spot_text_step_apply(&bpe->steps.step[i], text, &part.n, &bpe->changed[i]);
    spot_buf_add(&changed, text, part.n);
    part.s = changed.n ? (const char *)changed.data : "";
    cut(bpe, bpe->normal_names, part, is_first, take_normal, out);
    spot_buf_release(&changed);
}

void spot_bpe_encode_named(struct spot_bpe *bpe, const char *text, size_t n,
                           struct spot_tokens *out)
{
    cut(bpe, bpe->names, (struct text){ text, n }, true, take_raw, out);
    bpe->is_inside = false;
}

/* Ends a part at a name. */
static void end_part(struct spot_bpe *bpe)
{
    bpe->is_inside = bpe->is_exact || !bpe->is_marked || bpe->prefix == SPOT_BPE_FIRST;
    bpe->in_part = false;
}

/* Encodes the first `safe` bytes of a part. kind 0: finds names in the raw text, then those of kind
 * 1 in the parts between; kind 1: names in the normalized text; kind 2: text without names. If the
 * text continues, an incomplete name is left for the next call. Returns the number of bytes
 * encoded. */
static size_t encode_plain(struct spot_bpe *bpe, int kind, struct text t, size_t safe, bool is_end,
                           struct spot_tokens *out)
{
    size_t at = 0, rest = 0;
    struct hit h;

    if (kind == 2)
        return spot_bpe_encode_nameless(bpe, t.s, safe, is_end, out);
    if (kind && bpe->is_behind) /* a name ends a word */
        bpe->ends_word = false;
    if (kind && !is_end) { /* a name of kind 0 may begin in the last bytes */
        t.n = safe;
        safe -= safe < bpe->n_plain_byte_max ? safe : bpe->n_plain_byte_max;
    }
    while (!(out->most && out->n > out->most) &&
           next_name(bpe, bpe->plain_names[kind], t, at, at, &h) && h.begin < safe) {
        if (!is_end && h.end == t.n) {
            safe = h.begin;
            break;
        }
        if (h.begin > at)
            (void)encode_plain(bpe, kind + 1, (struct text){ t.s + at, h.begin - at }, h.begin - at,
                               true, out);
        spot_bpe_append(out, h.id);
        end_part(bpe);
        bpe->is_behind = !kind;
        at = h.end;
    }
    if (safe > at) {
        rest = encode_plain(bpe, kind + 1, (struct text){ t.s + at, t.n - at }, safe - at, is_end,
                            out);
        bpe->is_behind = bpe->is_behind && !rest;
    }
    return at + rest;
}

size_t spot_bpe_encode(struct spot_bpe *bpe, const char *text, size_t n, bool is_end,
                       struct spot_tokens *out)
{
    const size_t room = bpe->n_plain_byte_max ? bpe->n_plain_byte_max - 1 : 0;
    const size_t safe = is_end     ? n
                        : n > room ? n - room
                                   : 0; /* names before this position are complete */
    const struct text t = { text, n };
    const bool ended_word = bpe->ends_word;
    const size_t at = encode_plain(bpe, bpe->n_plain_byte_max ? 0 : 2, t, safe, is_end, out);

    if (is_end)
        bpe->is_inside = bpe->in_part = bpe->ends_word = bpe->is_behind = false;
    else
        bpe->ends_word = at ? is_word(bpe, t, at, true) : ended_word;
    return at;
}

/* True if the token's name occurs in texts unchanged and decodes to itself. */
static bool is_plain(const struct spot_bpe *bpe, const struct spot_bpe_added *a, const char *name)
{
    return !a->is_special && a->id != bpe->unknown && name == a->name &&
           !(bpe->has_marks && strstr(name, "\xE2\x96\x81"));
}

void spot_bpe_add_name(struct spot_bpe *bpe, uint32_t place)
{
    const struct spot_bpe_added *const a = &bpe->added[place];
    const char *name = a->name;
    size_t n = strlen(name);
    struct spot_buf copy = { 0 };

    for (size_t i = 0; a->is_normalized && i < bpe->n_normal && !bpe->is_marked; i++)
        name = spot_text_step_apply(&bpe->steps.step[i], name, &n, &bpe->changed[i]);
    spot_buf_add(&copy, name, n);
    spot_buf_add(&copy, "", 1);
    spot_names_add(a->is_normalized ? bpe->normal_names : bpe->names, (const char *)copy.data,
                   place);
    if (is_plain(bpe, a, name)) {
        spot_names_add(bpe->plain_names[a->is_normalized], a->name, place);
        if (n > bpe->n_plain_byte_max)
            bpe->n_plain_byte_max = n;
    }
    if (name != a->name && !a->is_special &&
        a->is_beside) { /* the token decodes to its name in the text */
        bpe->token[a->id].begin = bpe->text.n;
        bpe->token[a->id].n_byte = (uint32_t)n;
        spot_buf_add(&bpe->text, copy.data, n);
    }
    spot_buf_release(&copy);
}

/* SPDX-License-Identifier: MIT */
#include "text/unicode_form.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/unicode_table.h"

/* Decompositions, ascending; part[1] 0: a single character. */
static struct pair {
    uint32_t code, part[2];
    bool is_apart; /* never composed again */
} * pair;          /* [n_pair] */
static size_t n_pair;

static struct combining {
    uint32_t first, last;
    uint8_t order;
} * combining; /* [n_combining], ascending */
static size_t n_combining;

static uint16_t *by_parts; /* indices in `pair`, sorted by parts */
static pthread_once_t once = PTHREAD_ONCE_INIT;

enum {
    PLAIN = 0x300, /* characters below this neither combine with others nor are the second part of a
                      composition */
    /* Hangul syllables are composed algorithmically */
    L = 0x1100,
    V = 0x1161,
    T = 0x11A7,
    SYLLABLE = 0xAC00,
    N_V = 21,
    N_T = 28,
    N_SYLLABLE = 11172
};

static uint8_t order_of(uint32_t code)
{
    size_t low = 0, high = n_combining;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (code > combining[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n_combining && code >= combining[low].first ? combining[low].order : 0;
}

/* A base character and the combining characters after it. */
struct run {
    struct mark {
        uint32_t code, place;
        uint8_t order;
    } * mark;
    size_t n, cap;
};

static void add(struct run *r, uint32_t code)
{
    size_t low = 0, high = n_pair;

    if (code >= SYLLABLE && code < SYLLABLE + N_SYLLABLE) {
        const uint32_t i = code - SYLLABLE;

        add(r, L + i / (N_V * N_T));
        add(r, V + i / N_T % N_V);
        if (i % N_T)
            add(r, T + i % N_T);
        return;
    }
    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (code > pair[mid].code)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < n_pair && pair[low].code == code) {
        add(r, pair[low].part[0]);
        if (pair[low].part[1])
            add(r, pair[low].part[1]);
        return;
    }
    r->mark = spot_xgrow(r->mark, &r->cap, r->n + 1, sizeof(*r->mark));
    r->mark[r->n] = (struct mark){ code, (uint32_t)r->n, order_of(code) };
    r->n++;
}

static int by_order(const void *a, const void *b)
{
    const struct mark *const x = a, *const y = b;

    return x->order != y->order ? (x->order > y->order) - (x->order < y->order)
                                : (x->place > y->place) - (x->place < y->place);
}

/* Sorts combining characters by their classes. */
static void put_in_order(struct run *r)
{
    for (size_t i = 0, end; i < r->n; i = end + (end == i)) {
        for (end = i; end < r->n && r->mark[end].order; end++)
            ;
        if (end - i > 1)
            qsort(r->mark + i, end - i, sizeof(*r->mark), by_order);
    }
}

/* --- composing --------------------------------------------------------------------- */

static int compare_parts(const uint32_t x[2], const uint32_t y[2])
{
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

static int compare_places(const void *a, const void *b)
{
    return compare_parts(pair[*(const uint16_t *)a].part, pair[*(const uint16_t *)b].part);
}

static void read_tables(void)
{
#define UNICODE_PARTS
    static const char *const parts[] = {
#include "text/unicode.inc"
        NULL
    };
#undef UNICODE_PARTS
#define UNICODE_ORDER
    static const char *const orders[] = {
#include "text/unicode.inc"
        NULL
    };
#undef UNICODE_ORDER
    struct spot_unicode_table table = { .line = parts };
    struct pair p = { 0 };
    size_t pair_cap = 0, combining_cap = 0;

    while (!spot_unicode_ends(&table)) {
        const uint32_t n = spot_unicode_next(&table);

        p.code += n / 2;
        p.is_apart = n % 2;
        p.part[0] += spot_unicode_step(&table);
        p.part[1] += spot_unicode_step(&table);
        pair = spot_xgrow(pair, &pair_cap, n_pair + 1, sizeof(*pair));
        pair[n_pair++] = p;
    }
    table = (struct spot_unicode_table){ .line = orders };
    for (uint32_t first, last = 0; !spot_unicode_ends(&table);) {
        first = last + spot_unicode_next(&table);
        last = first + spot_unicode_next(&table);
        combining = spot_xgrow(combining, &combining_cap, n_combining + 1, sizeof(*combining));
        combining[n_combining++] =
            (struct combining){ first, last, (uint8_t)spot_unicode_next(&table) };
    }
    by_parts = spot_xcalloc(n_pair, sizeof(*by_parts));
    for (size_t i = 0; i < n_pair; i++)
        by_parts[i] = (uint16_t)i;
    qsort(by_parts, n_pair, sizeof(*by_parts), compare_places);
}

/* The composition of two characters; 0: none. */
static uint32_t made_of(uint32_t a, uint32_t b)
{
    const uint32_t parts[2] = { a, b };
    size_t low = 0, high = n_pair;

    if (a >= L && a < L + 19 && b >= V && b < V + N_V)
        return SYLLABLE + ((a - L) * N_V + (b - V)) * N_T;
    if (a >= SYLLABLE && a < SYLLABLE + N_SYLLABLE && (a - SYLLABLE) % N_T == 0 && b > T &&
        b < T + N_T)
        return a + (b - T);
    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (compare_parts(pair[by_parts[mid]].part, parts) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < n_pair && !compare_parts(pair[by_parts[low]].part, parts); low++)
        if (!pair[by_parts[low]].is_apart)
            return pair[by_parts[low]].code;
    return 0;
}

/* Composes characters with the last starter (class 0) unless a character between has the same or a
 * higher class. */
static void compose(struct run *r)
{
    size_t n = 0, base = SIZE_MAX;
    int last = -1; /* class of the last character kept after the base; -1: none */

    for (size_t i = 0; i < r->n; i++) {
        const struct mark m = r->mark[i];
        const uint32_t made =
            base != SIZE_MAX && last < (int)m.order ? made_of(r->mark[base].code, m.code) : 0;

        if (made) {
            r->mark[base].code = made;
            continue;
        }
        if (!m.order)
            base = n;
        last = m.order ? m.order : -1;
        r->mark[n++] = m;
    }
    r->n = n;
}

static void flush(struct run *r, bool composes, struct spot_buf *out)
{
    put_in_order(r);
    if (composes && r->n > 1)
        compose(r);
    for (size_t i = 0; i < r->n; i++) {
        char text[SPOT_UTF8_MAX];

        spot_buf_add(out, text, spot_utf8_put(r->mark[i].code, text));
    }
    r->n = 0;
}

/* True if the character never combines with the text before it. */
static bool begins(uint32_t code)
{
    return code < PLAIN || (code >= 0x3400 && code < 0xA000) ||
           (code >= SYLLABLE && code < SYLLABLE + N_SYLLABLE) || code >= 0x1F000;
}

void spot_unicode_form(const char *text, size_t n, bool composes, struct spot_buf *out)
{
    struct run run = { 0 };

    pthread_once(&once, read_tables);
    for (size_t at = 0, length; at < n; at += length) {
        uint32_t code;

        length = spot_utf8_char(text + at, n - at, &code);
        if (begins(code))
            flush(&run, composes, out);
        if (code == UINT32_MAX)
            spot_buf_add(out, text + at, length);
        else
            add(&run, code);
    }
    flush(&run, composes, out);
    free(run.mark);
}

/* SPDX-License-Identifier: MIT */
#include "text/unicode_class.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/unicode_table.h"

/* Category of a run in which capital and small letters alternate. */
enum { LU_LL = SPOT_CHARS };

/* Category of the characters from `first` up to the next run. */
static struct run {
    uint32_t first;
    uint8_t category;
} * run_of; /* [n_run] */
static size_t n_run;

/* Ascending and disjoint. */
static struct cases {
    struct case_range {
        uint32_t first, last, step, distance;
    } * range; /* [n] */
    size_t n, cap;
} small, capital;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_cases(struct cases *c, struct spot_unicode_table table)
{
    uint32_t at = 0;

    while (!spot_unicode_ends(&table)) {
        const uint32_t first = at + spot_unicode_next(&table), length = spot_unicode_next(&table);

        at = first + length / 2;
        c->range = spot_xgrow(c->range, &c->cap, c->n + 1, sizeof(*c->range));
        c->range[c->n++] =
            (struct case_range){ first, at, 1 + length % 2, spot_unicode_step(&table) };
    }
}

static void read_tables(void)
{
#define UNICODE_CATEGORY
    static const char *const categories[] = {
#include "text/unicode.inc"
        NULL
    };
#undef UNICODE_CATEGORY
#define UNICODE_SMALL
    static const char *const smalls[] = {
#include "text/unicode.inc"
        NULL
    };
#undef UNICODE_SMALL
#define UNICODE_CAPITAL
    static const char *const capitals[] = {
#include "text/unicode.inc"
        NULL
    };
#undef UNICODE_CAPITAL
    struct spot_unicode_table table = { .line = categories };
    uint32_t at = 0;
    size_t cap = 0;

    while (!spot_unicode_ends(&table)) {
        const uint32_t n = spot_unicode_next(&table);

        run_of = spot_xgrow(run_of, &cap, n_run + 2, sizeof(*run_of));
        run_of[n_run++] = (struct run){ at, n % 16 };
        at += n / 16 + 1;
    }
    run_of[n_run++] = (struct run){ at, SPOT_CHAR_C };
    read_cases(&small, (struct spot_unicode_table){ .line = smalls });
    read_cases(&capital, (struct spot_unicode_table){ .line = capitals });
}

bool spot_char_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

enum spot_char_category spot_char_category(uint32_t code, uint32_t *last)
{
    size_t low = 0, high;

    pthread_once(&once, read_tables);
    for (high = n_run; high - low > 1;) {
        const size_t mid = low + (high - low) / 2;

        if (run_of[mid].first <= code)
            low = mid;
        else
            high = mid;
    }
    *last = high == n_run ? UINT32_MAX : run_of[high].first - 1;
    if (run_of[low].category != LU_LL)
        return (enum spot_char_category)run_of[low].category;
    *last = code;
    return (code - run_of[low].first) % 2 ? SPOT_CHAR_LL : SPOT_CHAR_LU;
}

enum spot_char_class spot_char_class(uint32_t code)
{
    uint32_t last;
    const unsigned is = spot_char_is_space(code) ? 0 : 1U << spot_char_category(code, &last);

    if (!is)
        return SPOT_CHAR_SPACE;
    return is & SPOT_CHARS_L   ? SPOT_CHAR_LETTER
           : is & SPOT_CHARS_N ? SPOT_CHAR_NUMBER
                               : SPOT_CHAR_OTHER;
}

size_t spot_char_cased(uint32_t code, bool raises, char text[SPOT_CHAR_CASED_MAX])
{
    const struct cases *const c = raises ? &capital : &small;

    if (code < 0x80) {
        const bool is_letter = raises ? code >= 'a' && code <= 'z' : code >= 'A' && code <= 'Z';

        text[0] = (char)(is_letter ? code ^ 0x20 : code);
        return 1;
    }
    if (raises ? code == 0xDF : code == 0x130) { /* a character that becomes two */
        memcpy(text, raises ? "SS" : "i\xCC\x87", raises ? 2 : 3);
        return raises ? 2 : 3;
    }
    pthread_once(&once, read_tables);
    for (size_t i = 0; i < c->n && code >= c->range[i].first; i++)
        if (code <= c->range[i].last) {
            code += (code - c->range[i].first) % c->range[i].step ? 0 : c->range[i].distance;
            break;
        }
    return spot_utf8_put(code, text);
}

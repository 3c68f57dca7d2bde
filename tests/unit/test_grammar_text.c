/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/utf8.h"
#include "serve/grammar.h"
#include "suite.h"

/* Goal: the rest of a language as engines read it is the rest of ours: a recogniser of that
 * notation, made here, judges texts of random walks from each character on, and texts with one byte
 * changed. */

enum { V = 256, TEXT_MOST = 160, RULES = 4096, WALKS = 12 };

static struct spot_grammar_words *words;
static struct spot_bpe *bpe;

static void setup(void)
{
    bpe = spot_bpe_of_bytes();
    words = spot_grammar_words_new(bpe);
}

static void teardown(void)
{
    spot_grammar_words_free(words);
    spot_bpe_free(bpe);
}

/* --- a recogniser -------------------------------------------------------------- */

struct ends {
    bool at[TEXT_MOST + 1];
};

struct reader {
    struct {
        char name[16];
        const char *body;
        struct ends *known[TEXT_MOST + 1];
    } rule[RULES];
    size_t n_rule, n;
    uint32_t text[TEXT_MOST];
};

static struct ends alternatives(struct reader *r, const char *at, size_t from);

static struct ends rule(struct reader *r, const char *name, size_t n, size_t from)
{
    size_t i = 0;

    while (i < r->n_rule && (strlen(r->rule[i].name) != n || memcmp(r->rule[i].name, name, n) != 0))
        i++;
    ck_assert_msg(i < r->n_rule, "no rule %.*s", (int)n, name);
    if (!r->rule[i].known[from]) {
        struct ends *const ends = malloc(sizeof(*ends));

        *ends = alternatives(r, r->rule[i].body, from);
        r->rule[i].known[from] = ends;
    }
    return *r->rule[i].known[from];
}

static uint32_t character(const char **at)
{
    char *end;
    const int n = (*at)[1] == 'u' ? 4 : 8;
    char digits[9] = "";
    uint32_t c;

    ck_assert(**at == '\\');
    memcpy(digits, *at + 2, (size_t)n);
    c = (uint32_t)strtoul(digits, &end, 16);
    ck_assert(!*end);
    *at += 2 + n;
    return c;
}

/* One element, from each of `from`; *at goes behind it. */
static struct ends element(struct reader *r, const char **at, const struct ends *from)
{
    struct ends to = { { false } };
    const char *const begin = *at;
    uint32_t low = 0, high = 0;
    size_t n = 0;

    if (*begin == '"') {
        *at += 2;
        return *from;
    }
    if (*begin == '[') {
        ++*at;
        low = high = character(at);
        if (**at == '-') {
            ++*at;
            high = character(at);
        }
        ck_assert(*(*at)++ == ']');
    } else {
        n = strcspn(begin, " *{\n|");
        *at += n;
    }
    for (size_t i = 0; i <= r->n; i++)
        if (from->at[i] && !n) {
            if (i < r->n && low <= r->text[i] && r->text[i] <= high)
                to.at[i + 1] = true;
        } else if (from->at[i]) {
            const struct ends some = rule(r, begin, n, i);

            for (size_t k = 0; k <= r->n; k++)
                to.at[k] |= some.at[k];
        }
    return to;
}

static struct ends repeated(struct reader *r, const char **at, const struct ends *from)
{
    const char *const begin = *at;
    struct ends now = element(r, at, from), all = { { false } };
    long min = 1, max = 1;

    if (**at == '*') {
        ++*at;
        min = 0;
        max = TEXT_MOST;
    } else if (**at == '{') {
        char *end;

        min = strtol(*at + 1, &end, 10);
        max = end[1] == '}' ? TEXT_MOST + min : strtol(end + 1, NULL, 10);
        *at = strchr(*at, '}') + 1;
    }
    if (!min)
        all = *from;
    for (long k = 1; k <= max && k <= TEXT_MOST + min; k++) {
        const char *again = begin;
        const struct ends was = now;

        for (size_t i = 0; k >= min && i <= r->n; i++)
            all.at[i] |= now.at[i];
        now = element(r, &again, &was);
    }
    return all;
}

static struct ends alternatives(struct reader *r, const char *at, size_t from)
{
    struct ends all = { { false } }, now = { { false } };

    now.at[from] = true;
    for (;;) {
        at += strspn(at, " ");
        if (*at == '|' || *at == '\n') {
            for (size_t i = 0; i <= r->n; i++)
                all.at[i] |= now.at[i];
            if (*at++ == '\n')
                return all;
            memset(&now, 0, sizeof(now));
            now.at[from] = true;
            continue;
        }
        now = repeated(r, &at, &now);
    }
}

static bool reads(const struct spot_buf *gbnf, const uint8_t *text, size_t n)
{
    struct reader *const r = calloc(1, sizeof(*r));
    char *const all = calloc(gbnf->n + 1, 1);
    bool is_read;

    memcpy(all, gbnf->data, gbnf->n);
    for (char *line = all; *line; line = strchr(line, '\n') + 1) {
        ck_assert_int_lt((int)r->n_rule, RULES);
        snprintf(r->rule[r->n_rule].name, 16, "%.*s", (int)strcspn(line, " "), line);
        r->rule[r->n_rule++].body = strstr(line, "::=") + 3;
    }
    for (size_t i = 0; i < n;) {
        const int k = text[i] < 0x80 ? 1 : text[i] < 0xE0 ? 2 : text[i] < 0xF0 ? 3 : 4;
        uint32_t c = k == 1 ? text[i] : text[i] & (0x3FU >> (k - 1));

        for (int b = 1; b < k; b++)
            c = c << 6 | (text[i + (size_t)b] & 0x3F);
        r->text[r->n++] = c;
        i += (size_t)k;
    }
    is_read = rule(r, "root", 4, 0).at[r->n];
    for (size_t i = 0; i < r->n_rule; i++)
        for (size_t k = 0; k <= TEXT_MOST; k++)
            free(r->rule[i].known[k]);
    free(r);
    free(all);
    return is_read;
}

/* --- walks ---------------------------------------------------------------------- */

static const char *const form[] = {
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":6},\"b\":{"
    "\"type\":\"integer\","
    "\"minimum\":-3,\"maximum\":120},\"c\":{\"type\":\"array\",\"items\":{\"enum\":[\"\xc3\xa9\","
    "\"b\",\"caf\xc3\xa9\",null]},"
    "\"minItems\":1,\"maxItems\":3}},\"required\":[\"a\",\"b\",\"c\"],\"additionalProperties\":"
    "false}",
    "{\"regex\":\"(ab|\xe2\x82\xac[x-z]{2,4})*[\xc3\xa0-\xc3\xbf]?[0-9]{1,3}\"}",
    "{\"choice\":[\"one\",\"on\",\"two\",\"\xf0\x9f\x98\x80!\"]}",
    "{\"list\":[{\"regex\":\"[a-c]{1,2}\"},{\"text\":\", \"}]}",
    "{\"seq\":[{\"text\":\"x\"},{\"or\":[{\"choice\":[\"1\",\"22\"]},{\"type\":\"boolean\"}]}]}",
};

/* A text that the grammar allows, or 0 bytes. */
static size_t walk(struct spot_grammar *g, struct spot_rng *rng, uint8_t *text)
{
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    size_t n = 0;

    for (;;) {
        float logit[V] = { 0 };
        unsigned choice = 0, pick;

        if (spot_grammar_must_end(s) || (spot_grammar_may_end(s) && spot_rng_next(rng) % 4 == 0))
            break;
        ck_assert_int_eq(spot_grammar_mask(s, NULL, 0, logit, V), 0);
        for (int b = 0; b < V; b++)
            choice += !isinf(logit[b]);
        ck_assert_uint_gt(choice, 0);
        pick = (unsigned)(spot_rng_next(rng) % choice);
        for (int b = 0; b < V; b++)
            if (!isinf(logit[b]) && !pick--) {
                ck_assert_int_eq(spot_grammar_push(s, (uint32_t)b), 0);
                text[n++] = (uint8_t)b;
                break;
            }
        if (n == TEXT_MOST) {
            n = 0;
            break;
        }
    }
    spot_grammar_end(s);
    return n;
}

static bool takes(struct spot_grammar *g, const uint8_t *text, size_t n)
{
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    bool is_taken = true;

    for (size_t i = 0; is_taken && i < n; i++)
        is_taken = !spot_grammar_push(s, text[i]);
    is_taken = is_taken && spot_grammar_may_end(s);
    spot_grammar_end(s);
    return is_taken;
}

static bool is_boundary(const uint8_t *text, size_t n, size_t i)
{
    return i == n || (text[i] & 0xC0) != 0x80;
}

static void judge_rests(struct spot_grammar *g, const uint8_t *text, size_t n)
{
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    struct spot_err err = { 0 };

    for (size_t i = 0; i <= n; i++) {
        struct spot_buf gbnf = { 0 };
        const int rc = spot_grammar_put_rest(s, &gbnf, &err);

        if (is_boundary(text, n, i)) {
            ck_assert_msg(!rc, "%s", err.msg);
            ck_assert_msg(reads(&gbnf, text + i, n - i), "%.*s from %zu\n%.*s", (int)n, text, i,
                          (int)gbnf.n, gbnf.data);
            ck_assert(n == i || reads(&gbnf, text + i, 0) == spot_grammar_may_end(s));
        } else {
            ck_assert_int_eq(rc, -1);
        }
        spot_buf_release(&gbnf);
        if (i < n)
            ck_assert_int_eq(spot_grammar_push(s, text[i]), 0);
    }
    spot_grammar_end(s);
}

static void judge_changed(struct spot_grammar *g, struct spot_rng *rng, const uint8_t *text,
                          size_t n)
{
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    struct spot_buf gbnf = { 0 };
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_grammar_put_rest(s, &gbnf, &err), 0);
    for (int k = 0; k < 40; k++) {
        uint8_t other[TEXT_MOST];
        const size_t i = spot_rng_next(rng) % n;

        memcpy(other, text, n);
        if (text[i] > 0x7F)
            continue;
        other[i] = text[spot_rng_next(rng) % n];
        if (other[i] > 0x7F)
            other[i] = (uint8_t)(' ' + spot_rng_next(rng) % 95);
        ck_assert_msg(reads(&gbnf, other, n) == takes(g, other, n), "%.*s\n%.*s", (int)n, other,
                      (int)gbnf.n, gbnf.data);
    }
    spot_buf_release(&gbnf);
    spot_grammar_end(s);
}

START_TEST(the_rest_is_ours)
{
    struct spot_err err = { 0 };
    struct spot_grammar *const g = spot_grammar_new(form[_i], strlen(form[_i]), words, &err);
    struct spot_rng rng;
    int n_judged = 0;

    ck_assert_msg(g != NULL, "%s", err.msg);
    spot_rng_init(&rng, (uint64_t)_i, 1);
    for (int k = 0; k < WALKS; k++) {
        uint8_t text[TEXT_MOST];
        const size_t n = walk(g, &rng, text);

        if (!n)
            continue;
        n_judged++;
        judge_rests(g, text, n);
        judge_changed(g, &rng, text, n);
    }
    ck_assert_int_gt(n_judged, WALKS / 3);
    spot_grammar_free(g);
}
END_TEST

START_TEST(what_no_engine_can_be_told)
{
    static const char token[] = "{\"seq\":[{\"token\":\"<call>\"},{\"text\":\"x\"}]}";
    struct spot_err err = { 0 };
    struct spot_grammar *const g = spot_grammar_new(token, strlen(token), words, &err);
    struct spot_grammar_state *const s = g ? spot_grammar_begin(g) : NULL;
    struct spot_buf gbnf = { 0 };

    ck_assert_msg(g != NULL, "%s", err.msg);
    ck_assert_int_eq(spot_grammar_put_rest(s, &gbnf, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "special"));
    spot_buf_release(&gbnf);
    spot_grammar_end(s);
    spot_grammar_free(g);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("grammar_text");

    tcase_add_unchecked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, the_rest_is_ours, 0, (int)(sizeof(form) / sizeof(*form)));
    tcase_add_test(c, what_no_engine_can_be_told);
    return run_case("grammar_text", c);
}

/* SPDX-License-Identifier: MIT */
/* Goal: patterns match as one alternative tried after the other would, whatever text follows later;
 * what is not known, or could take too long, is refused. The patterns of public tokenizers are
 * compared with the library tokenizers in tests/world. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "text/pattern.h"
#include "text/pretoken.h"
#include "text/unicode_form.h"

static const struct {
    const char *pattern, *text;
    size_t length; /* 0: none */
} match[] = {
    { "a|ab", "ab", 1 }, /* the first that matches, not the longest */
    { "ab|a", "ab", 2 },
    { "a*b|a", "aaac", 1 },
    { "\\s+(?!\\S)|\\s+", "   x", 2 },
    { "\\s+(?!\\S)|\\s+", "   ", 3 },
    { "\\s+(?!\\S)|\\s+", " x", 1 },
    { "x(?=y)", "xy", 1 },
    { "x(?=y)", "xz", 0 },
    { "x(?=y)", "x", 0 },
    { "x$", "x\n", 1 },
    { "x$", "xx", 0 },
    { "(?i:'S|'ll)", "'\xC5\xBFx", 3 }, /* the long s */
    { "(?i:'S|'ll)", "'LL", 3 },
    { "\\p{N}{1,3}", "12345", 3 },
    { "[^\\r\\n\\p{L}]?+\\p{L}+", "!ab", 3 },
    { "[^\\p{L}]++", "!?a", 2 },
    { "\\d+", "12\xD9\xA3", 4 },
    { "[\\p{Lu}\\p{Lt}]+", "\xC4\x80\xC4\x81", 2 }, /* by turns capital and small */
    { "(ab|c){2}", "abcab", 3 },
    { "[a-c\\]]+", "ab]d", 3 },
    { ".", "\n", 0 },
    { "[^a]", "\xFF", 1 }, /* a byte that is no character */
};

START_TEST(it_matches_what_one_alternative_after_the_other_would)
{
    struct spot_err err = { 0 };
    struct spot_pattern *const p = spot_pattern_new(match[_i].pattern, &err);
    const size_t n = strlen(match[_i].text);
    size_t length = 99;

    ck_assert_msg(p, "%s", err.msg);
    ck_assert_int_eq(spot_pattern_match(p, match[_i].text, n, true, &length),
                     match[_i].length ? SPOT_PATTERN_FOUND : SPOT_PATTERN_NONE);
    ck_assert_uint_eq(length, match[_i].length);
    for (size_t known = 0; known <= n; known++) { /* what it says before all is known stays so */
        const enum spot_pattern_found found =
            spot_pattern_match(p, match[_i].text, known, false, &length);

        if (found != SPOT_PATTERN_MORE)
            ck_assert_uint_eq(found == SPOT_PATTERN_FOUND ? length : 0, match[_i].length);
    }
    spot_pattern_free(p);
}
END_TEST

static const char *const refused[] = {
    "a+b",
    "(a*)*b",
    "x*",
    "",
    "(a",
    "a)",
    "[a",
    "a{3",
    "a{2,1}",
    "a{1,65}",
    "a??",
    "(?<x>a)",
    "(?>a)",
    "\\p{Han}",
    "\\b",
    "(?=ab)c",
    "[z-a]",
    "[a[b]]",
    "[a&&[b]]",
    "*a",
    "^a",
    "(?i:\xC3\xA9)",
    "((((a{60}){60}){60}){60})",
};

START_TEST(what_is_not_known_or_could_take_too_long_is_refused)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_pattern_new(refused[_i], &err), "%s", refused[_i]);
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

/* A megabyte of what could be cut in the middle of everything: each character is looked at a few
 * times. Without that this would take hours. */
START_TEST(no_text_takes_more_than_its_length)
{
    enum { N = 1 << 20 };
    static const char *const unit[] = { " ", "\n ", "a", "!", "1", "'", "\xCC\x81" };
    struct spot_pattern *const p = spot_pattern_new(SPOT_PRETOKEN_GPT2, NULL);
    char *const text = malloc(N);
    size_t at = 0, length, step = strlen(unit[_i]);

    for (size_t i = 0; i < N; i++)
        text[i] = unit[_i][i % step];
    for (; at < N; at += length)
        ck_assert_int_eq(spot_pattern_match(p, text + at, N - at, true, &length),
                         SPOT_PATTERN_FOUND);
    ck_assert_uint_eq(at, N);
    free(text);
    spot_pattern_free(p);
}
END_TEST

static const struct {
    const char *text, *composed, *apart; /* Python's unicodedata, version 16.0 */
} form[] = {
    { "e\xCC\x81", "\xC3\xA9", "e\xCC\x81" },
    { "\xE2\x84\xAB", "\xC3\x85", "A\xCC\x8A" },                          /* a sign is a letter */
    { "a\xCC\x95\xCC\xA3", "\xE1\xBA\xA1\xCC\x95", "a\xCC\xA3\xCC\x95" }, /* in their order */
    { "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C",
      "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB" },
    { "\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC", "\xE0\xA4\x95\xE0\xA4\xBC" }, /* stays apart */
    { "\xFF\xCC\x81", "\xFF\xCC\x81", "\xFF\xCC\x81" },
};

START_TEST(characters_are_composed_and_taken_apart)
{
    for (int composes = 0; composes < 2; composes++) {
        const char *const want = composes ? form[_i].composed : form[_i].apart;
        struct spot_buf out = { 0 };

        spot_unicode_form(form[_i].text, strlen(form[_i].text), composes, &out);
        ck_assert_uint_eq(out.n, strlen(want));
        ck_assert_mem_eq(out.data, want, out.n);
        spot_buf_release(&out);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, it_matches_what_one_alternative_after_the_other_would, 0,
                        (int)(sizeof(match) / sizeof(match[0])));
    tcase_add_loop_test(tc, what_is_not_known_or_could_take_too_long_is_refused, 0,
                        (int)(sizeof(refused) / sizeof(refused[0])));
    tcase_add_loop_test(tc, no_text_takes_more_than_its_length, 0, 7);
    tcase_add_loop_test(tc, characters_are_composed_and_taken_apart, 0,
                        (int)(sizeof(form) / sizeof(form[0])));
    return run_suite("pattern", tc);
}

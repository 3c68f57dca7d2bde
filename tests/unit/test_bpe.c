/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpe_rig.h"
#include "common/rng.h"
#include "common/utf8.h"
#include "suite.h"
#include "text/bpe.h"
#include "text/detok.h"
#include "text/unicode_class.h"

/* Goal: text becomes the ids that two other implementations give (tests/data/bpe/make.py), from
 * either form of the files and however the text is cut on its way in; any bytes come back from
 * their ids; merging equals the textbook's way of doing it; documents that are wrong are refused
 * with the place. */

#define DATA "tests/data/bpe/"

static char *read_file(const char *path, size_t *n)
{
    FILE *in = fopen(path, "r");
    char *text = malloc(1 << 20);

    ck_assert_msg(in, "%s: run from the project's root", path);
    *n = fread(text, 1, (1 << 20) - 1, in);
    text[*n] = '\0';
    fclose(in);
    return text;
}

/* In place; how many bytes they are. */
static size_t from_hex(char *hex, size_t n)
{
    for (size_t i = 0; i + 1 < n; i += 2) {
        const char pair[3] = { hex[i], hex[i + 1], '\0' };

        hex[i / 2] = (char)strtoul(pair, NULL, 16);
    }
    return n / 2;
}

static struct spot_bpe *open_small(const char *path)
{
    struct spot_err err;
    struct spot_bpe *bpe = spot_bpe_open(path, &err);

    ck_assert_msg(bpe, "%s", err.msg);
    return bpe;
}

static void check_ids(const struct spot_tokens *got)
{
    FILE *in = fopen(DATA "ids.txt", "r");
    unsigned want;
    size_t n = 0;

    while (fscanf(in, "%u", &want) == 1) {
        ck_assert_uint_lt(n, got->n);
        ck_assert_msg(got->id[n] == want, "token %zu is %u, expected %u", n, (unsigned)got->id[n],
                      want);
        n++;
    }
    ck_assert_uint_eq(got->n, n);
    ck_assert_uint_gt(n, 500);
    fclose(in);
}

START_TEST(ids_are_those_of_two_other_implementations)
{
    static const char *const path[] = { DATA "tokenizer.json", DATA };
    struct spot_tokens ids = { 0 };
    struct spot_bpe *bpe = open_small(path[_i]);
    size_t n;
    char *text = read_file(DATA "text.txt", &n);

    ck_assert_uint_eq(spot_bpe_encode(bpe, text, n, true, &ids), n);
    check_ids(&ids);
    ck_assert_int_eq(spot_bpe_vocab(bpe), 700);
    ck_assert_int_eq(spot_bpe_find(bpe, "<|endoftext|>"), 0);
    ck_assert_int_eq(spot_bpe_find(bpe, "<|nothing|>"), -1);
    free(ids.id);
    free(text);
    spot_bpe_free(bpe);
}
END_TEST

START_TEST(vocab_and_merges_are_the_same_tokenizer)
{
    struct spot_tokens ids = { 0 };
    struct spot_bpe *bpe;
    size_t n[3];
    char *vocab = read_file(DATA "vocab.json", &n[0]),
         *merges = read_file(DATA "merges.txt", &n[1]), *text = read_file(DATA "text.txt", &n[2]);

    bpe = spot_bpe_of_vocab(vocab, n[0], "v", merges, n[1], "m", NULL);
    ck_assert_ptr_nonnull(bpe);
    spot_bpe_encode(bpe, text, n[2], true, &ids);
    check_ids(&ids);
    free(ids.id);
    free(vocab);
    free(merges);
    free(text);
    spot_bpe_free(bpe);
}
END_TEST

START_TEST(a_text_that_comes_in_pieces_has_the_same_ids)
{
    struct spot_bpe *bpe = open_small(DATA);
    size_t n;
    char *text = read_file(DATA "text.txt", &n);

    for (size_t step = 1; step < 40; step++) {
        struct spot_tokens ids = { 0 };
        size_t done = 0;

        for (size_t known = 0; known < n;) {
            known = known + step < n ? known + step : n;
            done += spot_bpe_encode(bpe, text + done, known - done, known == n, &ids);
        }
        ck_assert_uint_eq(done, n);
        check_ids(&ids);
        free(ids.id);
    }
    free(text);
    spot_bpe_free(bpe);
}
END_TEST

/* The textbook's way: look through all neighbours for the lowest rank, merge the leftmost, again.
 */
struct textbook {
    char merge[1024][2][64]; /* as written in merges.txt, by rank */
    size_t n_merge;
};

static void read_merges(struct textbook *t)
{
    FILE *in = fopen(DATA "merges.txt", "r");
    char line[160];

    t->n_merge = 0;
    while (fgets(line, sizeof(line), in))
        if (line[0] != '#' || t->n_merge)
            t->n_merge +=
                sscanf(line, "%63s %63s", t->merge[t->n_merge][0], t->merge[t->n_merge][1]) == 2;
    fclose(in);
}

static size_t textbook_merge(const struct textbook *t, char (*part)[64], size_t n)
{
    for (;;) {
        size_t best = t->n_merge, at = 0;

        for (size_t i = 0; i + 1 < n; i++)
            for (size_t r = 0; r < best; r++)
                if (!strcmp(part[i], t->merge[r][0]) && !strcmp(part[i + 1], t->merge[r][1])) {
                    best = r;
                    at = i;
                }
        if (best == t->n_merge)
            return n;
        memcpy(part[at] + strlen(part[at]), part[at + 1], strlen(part[at + 1]) + 1);
        memmove(part[at + 1], part[at + 2], (n - at - 2) * sizeof(*part));
        n--;
    }
}

/* Letters only: one piece, each its own character in the files. */
START_TEST(merging_equals_the_textbooks)
{
    static struct textbook book;
    static char part[64][64];
    struct spot_bpe *bpe = open_small(DATA);
    struct spot_rng rng;

    read_merges(&book);
    ck_assert_uint_gt(book.n_merge, 400);
    spot_rng_init(&rng, 1, 1);
    for (int trial = 0; trial < 400; trial++) {
        const size_t n = 1 + spot_rng_below(&rng, 40);
        struct spot_tokens ids = { 0 };
        char text[64];
        size_t want;

        for (size_t i = 0; i < n; i++) {
            text[i] = "etaoinsrhlab"[spot_rng_below(&rng, trial % 2 ? 12 : 4)];
            snprintf(part[i], sizeof(part[i]), "%c", text[i]);
        }
        want = textbook_merge(&book, part, n);
        spot_bpe_encode(bpe, text, n, true, &ids);
        ck_assert_uint_eq(ids.n, want);
        for (size_t i = 0; i < want; i++)
            ck_assert_int_eq(ids.id[i], spot_bpe_find(bpe, part[i]));
        free(ids.id);
    }
    spot_bpe_free(bpe);
}
END_TEST

START_TEST(any_bytes_come_back_from_their_ids)
{
    static const char matters[] = " \n\t'strevmld aZ09.\xC3\xA9\xE2\x80\x83\xF0";
    struct spot_bpe *bpe = open_small(DATA "tokenizer.json");
    struct spot_rng rng;

    spot_rng_init(&rng, 2, 1);
    for (int trial = 0; trial < 300; trial++) {
        const size_t n = spot_rng_below(&rng, 600);
        struct spot_tokens ids = { 0 };
        size_t at = 0;
        char text[600];

        for (size_t i = 0; i < n; i++) /* any byte; characters that matter; runs */
            text[i] = trial % 3 == 0   ? (char)spot_rng_below(&rng, 256)
                      : trial % 3 == 1 ? matters[spot_rng_below(&rng, sizeof matters - 1)]
                                       : (char)(' ' + 33 * (i / 97 % 3));
        spot_bpe_encode(bpe, text, n, true, &ids);
        for (size_t i = 0; i < ids.n; i++) {
            size_t n_byte;
            const uint8_t *bytes = spot_bpe_token(bpe, ids.id[i], &n_byte);

            ck_assert_ptr_nonnull(bytes);
            ck_assert_uint_le(at + n_byte, n);
            ck_assert_mem_eq(bytes, text + at, n_byte);
            at += n_byte;
        }
        ck_assert_uint_eq(at, n);
        free(ids.id);
    }
    ck_assert_ptr_null(spot_bpe_token(bpe, 700, &(size_t){ 0 }));
    spot_bpe_free(bpe);
}
END_TEST

START_TEST(characters_are_read_as_rfc_3629_says)
{
    static const struct {
        const char *text;
        size_t n;
        uint32_t code;
    } good[] = { { "a", 1, 'a' },
                 { "\xC2\x80", 2, 0x80 },
                 { "\xE0\xA0\x80", 3, 0x800 },
                 { "\xED\x9F\xBF", 3, 0xD7FF },
                 { "\xF0\x90\x80\x80", 4, 0x10000 },
                 { "\xF4\x8F\xBF\xBF", 4, 0x10FFFF } };
    static const char *const bad[] = { "\x80",
                                       "\xC1\xBF",
                                       "\xC3",
                                       "\xC3(",
                                       "\xE0\x9F\xBF",
                                       "\xED\xA0\x80",
                                       "\xE2\x82",
                                       "\xF0\x8F\xBF\xBF",
                                       "\xF4\x90\x80\x80",
                                       "\xF5\x80\x80",
                                       "\xFF" };
    char put[SPOT_UTF8_MAX];
    uint32_t code;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_uint_eq(spot_utf8_char(good[i].text, good[i].n, &code), good[i].n);
        ck_assert_uint_eq(code, good[i].code);
        ck_assert_uint_eq(spot_utf8_put(code, put), good[i].n);
        ck_assert_mem_eq(put, good[i].text, good[i].n);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_uint_eq(spot_utf8_char(bad[i], strlen(bad[i]), &code), 1);
        ck_assert_uint_eq(code, UINT32_MAX);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[8];

        snprintf(text, sizeof(text), "%s", bad[i]);
        ck_assert(!spot_utf8_is_plain(text));
        spot_utf8_make_plain(text);
        ck_assert(spot_utf8_is_plain(text));
        ck_assert_uint_eq(strlen(text), strlen(bad[i]));
    }
    ck_assert_uint_eq(spot_utf8_cut("a\xC3\xA9\xE2\x82\xAC", 6), 6);
    ck_assert_uint_eq(spot_utf8_cut("a\xC3\xA9\xE2\x82\xAC", 5), 3);
    ck_assert_uint_eq(spot_utf8_cut("a\xC3\xA9\xE2\x82\xAC", 2), 1);
    ck_assert_uint_eq(spot_utf8_cut("\xE2\x82\xAC", 2), 0);
    ck_assert_int_eq(spot_char_class(0x4E00), SPOT_CHAR_LETTER);
    ck_assert_int_eq(spot_char_class(0x323AF), SPOT_CHAR_LETTER);
    ck_assert_int_eq(spot_char_class(0x323B0), SPOT_CHAR_OTHER);
    ck_assert_int_eq(spot_char_class(0x2167), SPOT_CHAR_NUMBER);
    ck_assert_int_eq(spot_char_class(0x3000), SPOT_CHAR_SPACE);
    ck_assert_int_eq(spot_char_class(UINT32_MAX), SPOT_CHAR_OTHER);
}
END_TEST

/* A document with one thing replaced, and what the message says then. */
static const struct {
    const char *from, *to, *message;
} faults[] = {
    { "\"type\": \"BPE\"", "\"type\": \"WordLevel\"", "/model/type: 'WordLevel'" },
    { "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFKC\"}", "/normalizer: 'NFKC'" },
    { "\"a\": ", "\"b\": ", "duplicate" },
    { "\"a\":", "\"abcdefg\":", "no token 'a' for the byte 0x61" },
    { "\"<|endoftext|>\": 0", "\"<|endoftext|>\": 5", "two tokens have the id 5" },
    { "\"<|endoftext|>\": 0", "\"<|endoftext|>\": 1048576", "id 1048576, expected 0 to 1048575" },
    { "\"<|endoftext|>\": 0", "\"<|endoftext|>\": \"x\"", "is not an integer" },
    { "\"merges\"", "\"merged\"", "merges" },
    { "\"vocab\"", "\"words\"", "vocab" },
};

/* The document without its layout, so that replacing does not depend on it. */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *out = malloc(strlen(text) + strlen(to) + 1);

    ck_assert_msg(at, "'%s' is not in the document", from);
    sprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

START_TEST(a_wrong_tokenizer_is_refused_with_the_place)
{
    struct spot_err err;
    size_t n;
    char *text = read_file(DATA "tokenizer.json", &n);
    char *bad = replaced(text, faults[_i].from, faults[_i].to);

    ck_assert_ptr_null(spot_bpe_of_tokenizer(bad, strlen(bad), "t.json", &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, faults[_i].message) && strstr(err.msg, "t.json:"), "%s", err.msg);
    free(bad);
    free(text);
}
END_TEST

START_TEST(wrong_merges_are_refused_with_their_line)
{
    static const struct {
        const char *merges, *message;
    } cases[] = { { "#version: 0.2\nt h\nnone\n", "m:3: 'none': expected two tokens" },
                  { "t h\nt  h\n", "m:2: 't  h': expected two tokens" },
                  { "t h\n h\n", "m:2: ' h': expected two tokens" },
                  { "t h\nt h\n", "m:2: 't h': it is there twice" },
                  { "xyzzy h\n", "its left token is not in the vocabulary" },
                  { "t xyzzy\n", "its right token is not in the vocabulary" },
                  { "q q", "m:1: 'q q': what it makes is not in the vocabulary" } };
    size_t n;
    char *vocab = read_file(DATA "vocab.json", &n);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct spot_err err;

        ck_assert_ptr_null(
            spot_bpe_of_vocab(vocab, n, "v", cases[i].merges, strlen(cases[i].merges), "m", &err));
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, cases[i].message), "%s", err.msg);
    }
    ck_assert_ptr_null(spot_bpe_of_vocab(vocab, n, "v", "t\0x h\n", 6, "m", NULL));
    free(vocab);
}
END_TEST

/* More than a piece of one letter, and of spaces: bounded, and they come back. */
START_TEST(endless_pieces_are_merged_in_bounded_parts)
{
    enum { N = (1 << 20) + 100000 };
    struct spot_bpe *bpe = open_small(DATA);
    char *text = malloc(N);

    for (int k = 0; k < 2; k++) {
        struct spot_tokens ids = { 0 };
        size_t n = 0, n_byte;

        memset(text, k ? ' ' : 'a', N);
        ck_assert_uint_eq(spot_bpe_encode(bpe, text, N, true, &ids), N);
        for (size_t i = 0; i < ids.n; i++) {
            ck_assert_ptr_nonnull(spot_bpe_token(bpe, ids.id[i], &n_byte));
            n += n_byte;
        }
        ck_assert_uint_eq(n, N);
        free(ids.id);
    }
    free(text);
    spot_bpe_free(bpe);
}
END_TEST

/* Texts, ids and decoded texts of tests/world/compare_tokenizers.py. */
START_TEST(vectors_of_each_kind)
{
    static const char *const kind[] = { "llama3", "llama2", "qwen",  "deepseek",
                                        "o200k",  "digits", "gemma", "metaspace-first-split",
                                        "unigram" };
    static char line[1 << 16];
    char path[64];
    struct spot_bpe *bpe;
    FILE *in;
    int n_line = 0;

    snprintf(path, sizeof(path), DATA "%s.json", kind[_i]);
    bpe = open_small(path);
    snprintf(path, sizeof(path), DATA "%s.txt", kind[_i]);
    in = fopen(path, "r");
    ck_assert_ptr_nonnull(in);
    for (; fgets(line, sizeof(line), in); n_line++) {
        char *const hex = line, *id = strchr(line, '|'), *plain = strrchr(line, '|');
        struct spot_tokens ids = { 0 };
        struct spot_detokenizer d;
        struct spot_buf out = { 0 };

        *id++ = *plain++ = '\0';
        spot_bpe_encode_named(bpe, hex, from_hex(hex, strlen(hex)), &ids);
        spot_detok_init(&d, bpe, false, false);
        for (size_t i = 0; i < ids.n; i++) {
            ck_assert_uint_eq(ids.id[i], strtoul(id, &id, 10));
            ck_assert_int_eq(spot_detok_push(&d, ids.id[i], &out), 0);
        }
        ck_assert_uint_eq(strspn(id, " "), strlen(id));
        spot_detok_end(&d, &out);
        ck_assert_uint_eq(out.n, from_hex(plain, strcspn(plain, "\n")));
        ck_assert(!out.n || !memcmp(out.data, plain, out.n));
        ck_assert_int_eq(spot_detok_push(&d, 1 << 20, &out), -1);
        spot_detok_release(&d);
        spot_buf_release(&out);
        free(ids.id);
    }
    ck_assert_int_eq(n_line, 60);
    fclose(in);
    spot_bpe_free(bpe);
}
END_TEST

/* Text that comes in pieces, and names that nobody asked for. */
START_TEST(llamas_read_streams_and_leave_names_alone)
{
    static const char *const path[] = { DATA "llama3.json", DATA "llama2.json" };
    static const char text[] = "It'll  be\n \n  12345 <|eot|>!\r\n\xE6\x9D\xB1  \n\n\n    x </s> ";
    struct spot_bpe *bpe = open_small(path[_i]);
    struct spot_tokens whole = { 0 }, named = { 0 };

    spot_bpe_encode(bpe, text, sizeof(text) - 1, true, &whole);
    spot_bpe_encode_named(bpe, text, sizeof(text) - 1, &named);
    for (size_t i = 0; i < whole.n; i++)
        ck_assert_int_ne(whole.id[i], spot_bpe_find(bpe, "<|eot|>"));
    ck_assert_uint_lt(named.n, whole.n);
    expect_in_pieces(bpe, text, sizeof(text) - 1, &whole);
    free(whole.id);
    free(named.id);
    spot_bpe_free(bpe);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, ids_are_those_of_two_other_implementations, 0, 2);
    tcase_add_loop_test(tc, a_wrong_tokenizer_is_refused_with_the_place, 0,
                        sizeof(faults) / sizeof(faults[0]));
    tcase_add_loop_test(tc, vectors_of_each_kind, 0, 9);
    tcase_add_loop_test(tc, llamas_read_streams_and_leave_names_alone, 0, 2);
    add_tests(tc);
    return run_suite("bpe", tc);
}

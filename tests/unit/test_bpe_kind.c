/* SPDX-License-Identifier: MIT */
/* Goal: tokenizers of characters are read with the prefix, the bytes and the unknown token that
 * their file says, long texts are cut where that changes nothing, and a file that says anything
 * else is refused with the place. Ids are worked out by hand. */
#include <stdint.h>

#include "bpe_rig.h"
#include "doc_rig.h"
#include "text/bpe.h"
#include "text/detok.h"

#define MARK "\xE2\x96\x81"

/* Two letters and their pair, a mark, and of bytes those of U+00E9 alone. */
static const char small[] =
    "{\"truncation\": null, \"padding\": null,\n"
    "\"added_tokens\": [{\"id\": 9, \"content\": \"<s>\", \"special\": true},\n"
    " {\"id\": 0, \"content\": \"<unk>\", \"normalized\": false}],\n"
    "\"normalizer\": null,\n"
    "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"" MARK "\",\n"
    " \"prepend_scheme\": \"first\", \"split\": false},\n"
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [\n"
    " {\"type\": \"Replace\", \"pattern\": {\"String\": \"" MARK "\"}, \"content\": \" \"},\n"
    " {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"},\n"
    " {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]},\n"
    "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": \"<unk>\",\n"
    " \"fuse_unk\": true, \"byte_fallback\": true,\n"
    " \"vocab\": {\"<unk>\": 0, \"" MARK "\": 1, \"a\": 2, \"b\": 3, \"ab\": 4, \"<0xC3>\": 5,\n"
    "  \"<0xA9>\": 6, \"" MARK "ab\": 7},\n"
    " \"merges\": [\"a b\", [\"" MARK "\", \"ab\"]]}}\n";

static struct spot_bpe *open_text(const char *text)
{
    struct spot_err err = { 0 };
    struct spot_bpe *const bpe = spot_bpe_of_tokenizer(text, strlen(text), "t", &err);

    ck_assert_msg(bpe, "%s", err.msg);
    return bpe;
}

static struct spot_bpe *open_edited(const char *from, const char *to)
{
    char *const text = edited(small, from, to);
    struct spot_bpe *const bpe = open_text(text);

    free(text);
    return bpe;
}

/* Ids as text: "1 2 3 ". */
static void expect_ids(struct spot_bpe *bpe, const char *text, const char *want)
{
    struct spot_tokens ids = { 0 };
    char got[256] = "";

    ck_assert_uint_eq(spot_bpe_encode(bpe, text, strlen(text), true, &ids), strlen(text));
    for (size_t i = 0, at = 0; i < ids.n; i++)
        at += (size_t)snprintf(got + at, sizeof(got) - at, "%u ", (unsigned)ids.id[i]);
    ck_assert_str_eq(got, want);
    free(ids.id);
}

START_TEST(a_mark_stands_before_the_text_where_the_scheme_says_so)
{
    struct spot_bpe *bpe = open_text(small);

    expect_ids(bpe, "ab", "7 ");
    expect_ids(bpe, " ab", "7 "); /* it has one already */
    expect_ids(bpe, MARK "ab", "7 ");
    expect_ids(bpe, "ba ab", "1 3 2 7 ");
    expect_ids(bpe, "", "");
    spot_bpe_free(bpe);
    bpe = open_edited("\"first\"", "\"never\"");
    expect_ids(bpe, "ab", "4 ");
    expect_ids(bpe, "ba ab", "3 2 7 ");
    spot_bpe_free(bpe);
}
END_TEST

static void expect_named(struct spot_bpe *bpe, const char *text, const char *want)
{
    struct spot_tokens ids = { 0 };
    char got[256] = "";

    spot_bpe_encode_named(bpe, text, strlen(text), &ids);
    for (size_t i = 0, at = 0; i < ids.n; i++)
        at += (size_t)snprintf(got + at, sizeof(got) - at, "%u ", (unsigned)ids.id[i]);
    ck_assert_str_eq(got, want);
    free(ids.id);
}

START_TEST(behind_a_named_token_there_is_a_mark_only_where_it_is_always)
{
    struct spot_bpe *bpe = open_text(small);

    expect_named(bpe, "ab<s>ab", "7 9 4 ");
    expect_named(bpe, "<s>ab", "9 4 "); /* "first" is of the whole text */
    spot_bpe_free(bpe);
    bpe = open_edited("\"first\"", "\"always\"");
    expect_named(bpe, "ab<s>ab", "7 9 7 ");
    spot_bpe_free(bpe);
}
END_TEST

/* Runs of spaces that are tokens of their own, as Gemma has them, however a stream is cut; the name
 * of a special token is text. */
START_TEST(added_tokens_that_are_not_special_are_found_in_any_text)
{
    static const char text[] = "ab  ab     ab\n<s>ab  axyz xyz ab_xyz";
    struct spot_bpe *const bpe = open_edited(
        "\"added_tokens\": [", "\"added_tokens\": [{\"id\": 10, \"content\": \"  \"}, {\"id\": 12, "
                               "\"content\": \"    \"}, {\"id\": 11, \"content\": \"\\n\"}, "
                               "{\"id\": 13, \"content\": \"xyz\", \"single_word\": true},");
    struct spot_tokens whole = { 0 };
    size_t n_word = 0;

    expect_ids(bpe, "ab  ab", "7 10 4 ");
    expect_named(bpe, "ab  ab", "7 10 4 ");
    expect_ids(bpe, "ab     ab\n\nab<s>", "7 12 7 11 11 4 0 ");
    spot_bpe_encode(bpe, text, sizeof(text) - 1, true, &whole);
    for (size_t i = 0; i < whole.n; i++)
        n_word += whole.id[i] == 13;
    ck_assert_uint_eq(n_word, 1); /* where no word goes on */
    expect_in_pieces(bpe, text, sizeof(text) - 1, &whole);
    free(whole.id);
    spot_bpe_free(bpe);
}
END_TEST

START_TEST(characters_that_are_no_tokens_become_their_bytes_or_unknown)
{
    struct spot_bpe *bpe = open_text(small);

    expect_ids(bpe, " \xC3\xA9", "1 5 6 ");
    expect_ids(bpe, " xyab", "1 0 4 "); /* two unknown ones are one */
    expect_ids(bpe, " xayb", "1 0 2 0 3 ");
    expect_ids(bpe, " \xC3", "1 5 "); /* no character: the byte alone */
    spot_bpe_free(bpe);
    bpe = open_edited("\"fuse_unk\": true", "\"fuse_unk\": false");
    expect_ids(bpe, " xyab", "1 0 0 4 ");
    spot_bpe_free(bpe);
    bpe = open_edited("\"unk_token\": \"<unk>\"", "\"unk_token\": null");
    expect_ids(bpe, " xyab", "7 "); /* nothing stands for them, or between the others */
    spot_bpe_free(bpe);
}
END_TEST

/* What a token adds to a text, one after the other. */
static void expect_text(const struct spot_bpe *bpe, const uint32_t *id, size_t n, bool keeps_bytes,
                        const char *want)
{
    struct spot_detokenizer d;
    struct spot_buf out = { 0 };

    spot_detok_init(&d, bpe, false, keeps_bytes);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(spot_detok_push(&d, id[i], &out), 0);
    spot_detok_end(&d, &out);
    ck_assert_uint_eq(out.n, strlen(want));
    ck_assert_mem_eq(out.data, want, out.n);
    spot_detok_release(&d);
    spot_buf_release(&out);
}

START_TEST(a_run_of_bytes_is_text_as_a_whole_or_each_of_them_is_none)
{
    static const uint32_t text[] = { 7, 5, 6, 9, 2 }, none[] = { 1, 5, 6, 6, 2 };
    struct spot_bpe *const bpe = open_text(small);
    struct spot_buf out = { 0 };

    expect_text(bpe, text, 5, false,
                "ab\xC3\xA9"
                "a"); /* the special one says nothing */
    expect_text(bpe, none, 5, false,
                "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                "a");
    expect_text(bpe, none, 5, true,
                "\xC3\xA9\xA9"
                "a");
    ck_assert(!spot_detok_bytes(bpe, 9, &out) && !spot_detok_bytes(bpe, 8, &out));
    ck_assert(spot_detok_bytes(bpe, 7, &out) && spot_detok_bytes(bpe, 5, &out));
    ck_assert_uint_eq(out.n, 4);
    ck_assert_mem_eq(out.data, " ab\xC3", 4); /* inside a text a mark is a space */
    spot_buf_release(&out);
    spot_bpe_free(bpe);
}
END_TEST

static int take(void *user, const uint32_t *id, size_t n, struct spot_err *err)
{
    struct spot_tokens *const all = user;

    (void)err;
    for (size_t i = 0; i < n; i++) {
        if (all->n == all->cap) {
            all->cap = 2 * all->cap + 1024;
            all->id = realloc(all->id, all->cap * sizeof(*all->id));
        }
        all->id[all->n++] = id[i];
    }
    return 0;
}

static int refuse(void *user, const uint32_t *id, size_t n, struct spot_err *err)
{
    (void)user, (void)id, (void)n;
    return spot_err_set(err, SPOT_EDATA, "enough");
}

/* Longer than a piece, from a stream: cut before a word, else before a character. */
START_TEST(a_text_longer_than_a_piece_is_cut_before_a_word_or_a_character)
{
    enum { WORDS = SPOT_BPE_PIECE_MAX / 3 + 1000, SMALL = SPOT_BPE_PIECE_MAX + 2000 };
    struct spot_bpe *const bpe = open_text(small);
    struct spot_tokens all = { 0 };
    struct spot_err err = { 0 };
    char *const text = malloc(3 * WORDS + SMALL);
    FILE *in;

    for (int i = 0; i < WORDS; i++)
        memcpy(text + 3 * i, "ab ", 3);
    in = fmemopen(text, 3 * WORDS - 1, "r");
    ck_assert_int_eq(spot_bpe_stream(bpe, in, "s", false, take, &all, &err), 0);
    fclose(in);
    ck_assert_uint_eq(all.n, WORDS);
    for (size_t i = 0; i < all.n; i++)
        ck_assert_uint_eq(all.id[i], 7);
    all.n = 0;
    for (int i = 0; i < SMALL / 2; i++)
        memcpy(text + 2 * i, "\xC3\xA9", 2);
    in = fmemopen(text, SMALL, "r");
    ck_assert_int_eq(spot_bpe_stream(bpe, in, "s", false, take, &all, &err), 0);
    fclose(in);
    ck_assert_uint_eq(all.n, SMALL + 1); /* and the mark */
    for (size_t i = 1; i < all.n; i++)
        ck_assert_uint_eq(all.id[i], 5 + (i - 1) % 2);
    in = fmemopen(text, 8, "r");
    ck_assert_int_eq(spot_bpe_stream(bpe, in, "s", false, refuse, NULL, &err), -1);
    ck_assert_str_eq(err.msg, "enough");
    fclose(in);
    free(text), free(all.id);
    spot_bpe_free(bpe);
}
END_TEST

static const struct {
    const char *from, *to, *want; /* without the place, which ends before the pointer */
} bad[] = {
    { "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFKC\"}", "/normalizer: 'NFKC'" },
    { "\"normalizer\": null",
      "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {}]}",
      "/normalizer/normalizers/1: 'null'" },
    { "\"Metaspace\"", "\"Whitespace\"", "/pre_tokenizer: 'Whitespace'" },
    { "\"Metaspace\"", "\"Split\", \"behavior\": \"Contiguous\"",
      "/pre_tokenizer: behavior: 'Contiguous'" },
    { "\"Metaspace\"", "\"Split\", \"behavior\": \"Isolated\"",
      "/pre_tokenizer: expected a pattern" },
    { "\"Metaspace\"",
      "\"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"(?<a>b)\"}",
      "/pre_tokenizer: byte 3 of the pattern" },
    { "\"first\"", "\"last\"", "/pre_tokenizer: prepend_scheme: expected first, always or never" },
    { "\"ByteFallback\"", "\"ByteLevel\"", "/decoder/decoders/1: 'ByteLevel'" },
    { "\"Fuse\"", "\"Glue\"", "/decoder/decoders/2: 'Glue'" },
    { "\"start\": 1", "\"start\": 2", "/decoder/decoders/3: 'Strip'" },
    { "\"dropout\": null", "\"dropout\": 0.1", "/model: dropout is set, which is not supported" },
    { "\"dropout\": null", "\"end_of_word_suffix\": \"</w>\"",
      "/model: end_of_word_suffix is set, which is not supported" },
    { "\"BPE\", \"dropout\"", "\"WordPiece\", \"dropout\"", "/model/type: 'WordPiece'" },
    { "\"BPE\", \"dropout\"", "\"Unigram\", \"dropout\"", "/model/vocab: expected an array" },
    { "\"id\": 9, ", "", "/added_tokens/0: expected an id and a content" },
    { "\"id\": 9", "\"id\": 4", "/added_tokens/0: two tokens have the id 4" },
    { "\"a b\"", "\"ab\"", "/model/merges/0: expected \"left right\" or [\"left\", \"right\"]" },
    { "\"a b\"", "7", "/model/merges/0: expected \"left right\" or [\"left\", \"right\"]" },
    { "\"a b\"", "[\"a\", \"b\", \"c\"]",
      "/model/merges/0: expected \"left right\" or [\"left\", \"right\"]" },
};

START_TEST(what_the_file_says_otherwise_is_refused_with_the_place)
{
    char *const text = edited(small, bad[_i].from, bad[_i].to);
    struct spot_err err = { 0 };
    struct spot_bpe *const bpe = spot_bpe_of_tokenizer(text, strlen(text), "t", &err);

    ck_assert_ptr_null(bpe);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(!strncmp(err.msg, "t:", 2) && strstr(err.msg, bad[_i].want), "%s", err.msg);
    free(text);
}
END_TEST

/* Its name is normalized as well. */
START_TEST(a_normalized_token_is_found_behind_the_normalizer)
{
    char *const with = edited(
        small,
        "\"normalizer\": null,\n\"pre_tokenizer\": {\"type\": \"Metaspace\", "
        "\"replacement\": \"" MARK "\",\n \"prepend_scheme\": \"first\", \"split\": false}",
        "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", "
        "\"prepend\": \"" MARK "\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
        "\"content\": \"" MARK "\"}]}");
    char *const text = edited(with, "\"special\": true", "\"normalized\": true");
    struct spot_bpe *bpe = open_text(with);

    expect_named(bpe, "ab<s> ab", "7 9 1 7 "); /* one mark more before each part */
    spot_bpe_free(bpe);
    bpe = open_text(text);
    expect_named(bpe, "ab <s>ab", "7 9 4 ");
    spot_bpe_free(bpe);
    free(with), free(text);
}
END_TEST

START_TEST(a_tokenizer_that_is_not_there_is_named)
{
    char dir[] = "/tmp/spot-bpe-XXXXXX", path[64];
    struct spot_err err = { 0 };
    FILE *out;

    ck_assert_ptr_null(spot_bpe_open("/nowhere/tokenizer.json", &err));
    ck_assert_str_eq(err.msg, "cannot open '/nowhere/tokenizer.json': No such file or directory");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_ptr_null(spot_bpe_open(dir, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "nor vocab.json"));
    snprintf(path, sizeof(path), "%s/vocab.json", dir);
    out = fopen(path, "w");
    fputs("{}", out);
    fclose(out);
    ck_assert_ptr_null(spot_bpe_open(dir, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "/merges.txt': No such file or directory"));
    ck_assert_int_eq(err.code, SPOT_ESYS);
    unlink(path);
    rmdir(dir);
}
END_TEST

/* Names that are looked for in the text as it is come first, though another one begins before
 * them, and part it; then those that are normalized. Ids are those of tokenizers 0.23.3. */
START_TEST(names_as_they_are_come_before_normalized_ones)
{
    static const char added[] =
        "\"added_tokens\":[{\"id\":7,\"content\":\"bc\",\"normalized\":false},"
        "{\"id\":8,\"content\":\"abc\",\"normalized\":true},"
        "{\"id\":9,\"content\":\"xa\",\"normalized\":true,\"single_word\":true},"
        "{\"id\":10,\"content\":\"cc\",\"normalized\":true}]";
    static const char model[] =
        "\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\","
        "\"vocab\":"
        "{\"<unk>\":0,\"a\":2,\"b\":3,\"c\":5,\"ab\":4,\"x\":6,\" \":1},\"merges\":[\"a b\"]}";
    static const char *const want[][2] = {
        { "abc", "2 7 " },        { "abcab", "2 7 4 " },     { "aabc", "2 2 7 " },
        { "xa bc", "9 1 7 " },    { "bcxa", "7 9 " },        { "xabc", "9 7 " },
        { "abcc", "2 7 5 " },     { "bcc cc", "7 5 1 10 " }, { "xaxa", "6 2 6 2 " },
        { "bcxa x", "7 9 1 6 " }, { "ccc", "10 5 " },
    };
    char json[1024], text[64];
    struct spot_bpe *bpe;
    uint32_t random = 1;

    snprintf(json, sizeof(json), "{%s,%s}", added, model);
    bpe = open_text(json);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        expect_ids(bpe, want[i][0], want[i][1]);
        expect_named(bpe, want[i][0], want[i][1]);
    }
    for (int i = 0; i < 400; i++) { /* cut anywhere */
        struct spot_tokens whole = { 0 };
        const size_t n = 1 + (size_t)i % 60;

        for (size_t k = 0; k < n; k++) {
            random = random * 1664525 + 1013904223;
            text[k] = "aabbccx "[random >> 16 & 7];
        }
        spot_bpe_encode_named(bpe, text, n, &whole);
        expect_in_pieces(bpe, text, n, &whole);
        free(whole.id);
    }
    spot_bpe_free(bpe);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, a_mark_stands_before_the_text_where_the_scheme_says_so);
    tcase_add_test(tc, behind_a_named_token_there_is_a_mark_only_where_it_is_always);
    tcase_add_test(tc, added_tokens_that_are_not_special_are_found_in_any_text);
    tcase_add_test(tc, characters_that_are_no_tokens_become_their_bytes_or_unknown);
    tcase_add_test(tc, a_run_of_bytes_is_text_as_a_whole_or_each_of_them_is_none);
    tcase_add_test(tc, a_text_longer_than_a_piece_is_cut_before_a_word_or_a_character);
    tcase_add_loop_test(tc, what_the_file_says_otherwise_is_refused_with_the_place, 0,
                        sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tc, a_normalized_token_is_found_behind_the_normalizer);
    tcase_add_test(tc, names_as_they_are_come_before_normalized_ones);
    tcase_add_test(tc, a_tokenizer_that_is_not_there_is_named);
    return run_suite("bpe_kind", tc);
}

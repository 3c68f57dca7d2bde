/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "byte_level_rig.h"
#include "suite.h"
#include "text/beside.h"
#include "text/bpe.h"

/* Goal: a tokenizer's added and special tokens are those of all its files, in each layout that
 * transformers has had; files that contradict each other are refused by their place. */

static char dir[] = "/tmp/spot-beside-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[64];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *const out = fopen(in_dir(name), "w");

    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(strcpy(dir, "/tmp/spot-beside-XXXXXX")));
}

static void teardown(void)
{
    static const char *const all[] = { "vocab.json",        "merges.txt",
                                       "tokenizer.json",    "tokenizer_config.json",
                                       "added_tokens.json", "special_tokens_map.json" };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        unlink(in_dir(all[i]));
    rmdir(dir);
}

/* Bytes, and as token 256 what `more` says. */
static void put_vocab(FILE *out, const char *more)
{
    for (unsigned b = 0; b < 256; b++)
        fprintf(out, "%s\"\\u%04x\":%u", b ? "," : "{", letter_of(b), b);
    fprintf(out, "%s}", more);
}

static void put_old(const char *more)
{
    FILE *const out = fopen(in_dir("vocab.json"), "w");

    put_vocab(out, more);
    fclose(out);
    put("merges.txt", "#version: 0.2\n");
}

static void put_new(const char *more, const char *added, const char *level)
{
    FILE *const out = fopen(in_dir("tokenizer.json"), "w");

    fprintf(out,
            "{\"added_tokens\":[%s],\"pre_tokenizer\":{\"type\":\"ByteLevel\"%s},\"model\":{"
            "\"type\":\"BPE\",\"merges\":[],\"vocab\":",
            added, level);
    put_vocab(out, more);
    fputs("}}", out);
    fclose(out);
}

#define LISTED(id, name, flags) "\"" id "\":{\"content\":\"" name "\"" flags "}"
#define SPECIAL                 ",\"special\":true"

/* Files, and which of the tokens "<a>", "<b>" have the ids 256 and 257, and are special. */
static const struct {
    const char *vocab, *added; /* of tokenizer.json; NULL: vocab.json and merges.txt */
    const char *config, *map, *tokens;
    int a, b; /* 0: plain text, 1: a token, 2: a special one */
} layout[] = {
    /* with ids and flags, as since 2023 */
    { "", NULL,
      "{\"added_tokens_decoder\":{" LISTED("256", "<a>", SPECIAL) "," LISTED("257", "<b>", "") "}}",
      NULL, NULL, 2, 1 },
    /* before */
    { "", NULL, NULL, NULL, "{\"<a>\":256,\"<b>\":257}", 1, 1 },
    { "", NULL, "{\"eos_token\":\"<a>\"}", NULL, "{\"<b>\":257,\"<a>\":256}", 2, 1 },
    { "", NULL, "{\"additional_special_tokens\":[\"<a>\",{\"content\":\"<b>\"}]}", NULL,
      "{\"<a>\":256,\"<b>\":257}", 2, 2 },
    { "", NULL, NULL, "{\"pad_token\":{\"content\":\"<b>\",\"lstrip\":false}}",
      "{\"<a>\":256,\"<b>\":257}", 1, 2 },
    /* in the vocabulary, and special by their roles alone */
    { ",\"<a>\":256,\"<b>\":257", NULL, NULL, "{\"eos_token\":\"<a>\",\"bos_token\":null}", NULL, 2,
      0 },
    { ",\"<a>\":256", NULL, "{\"extra_special_tokens\":{\"image_token\":\"<a>\"}}", NULL, NULL, 2,
      0 },
    { ",\"<a>\":256", NULL, "{\"extra_special_tokens\":[\"<a>\"],\"added_tokens_decoder\":null}",
      NULL, NULL, 2, 0 },
    /* both, and they agree */
    { "", NULL,
      "{\"added_tokens_decoder\":{" LISTED("256", "<a>", SPECIAL) "," LISTED("257", "<b>",
                                                                             SPECIAL) "}}",
      "{\"eos_token\":\"<b>\"}", "{\"<a>\":256,\"<b>\":257}", 2, 2 },
    /* a role without an id is no token */
    { "", NULL, "{\"pad_token\":\"<a>\"}", NULL, NULL, 0, 0 },
    /* beside tokenizer.json, whose flags count */
    { "", "{\"id\":256,\"content\":\"<a>\",\"special\":true}",
      "{\"added_tokens_decoder\":{" LISTED("256", "<a>", "") "," LISTED("257", "<b>", SPECIAL) "}}",
      NULL, NULL, 2, 2 },
    { "", "{\"id\":256,\"content\":\"<a>\"}", NULL, NULL, "{\"<a>\":256,\"<b>\":257}", 1, 1 },
    { ",\"<a>\":256", "", "{\"eos_token\":\"<a>\"}", NULL, NULL, 2, 0 },
    { "", "", "{}", "{}", "{}", 0, 0 },
};

static void check_token(struct spot_bpe *bpe, const char *name, uint32_t id, int what)
{
    struct spot_tokens ids = { 0 };

    spot_bpe_encode_named(bpe, name, strlen(name), &ids);
    ck_assert_uint_eq(ids.n, what ? 1 : strlen(name));
    if (what)
        ck_assert_uint_eq(ids.id[0], id);
    ck_assert_int_eq(spot_bpe_is_special(bpe, id), what == 2);
    ids.n = 0;
    spot_bpe_encode(bpe, name, strlen(name), true, &ids);
    ck_assert_uint_eq(ids.n, what == 1 ? 1 : strlen(name));
    free(ids.id);
}

static struct spot_bpe *open_layout(const char *vocab, const char *added, const char *config,
                                    const char *map, const char *tokens, struct spot_err *err)
{
    if (added)
        put_new(vocab, added, "");
    else
        put_old(vocab);
    if (config)
        put("tokenizer_config.json", config);
    if (map)
        put("special_tokens_map.json", map);
    if (tokens)
        put("added_tokens.json", tokens);
    return spot_bpe_open(dir, err);
}

START_TEST(added_tokens_are_those_of_all_files)
{
    struct spot_err err = { 0 };
    struct spot_bpe *const bpe = open_layout(layout[_i].vocab, layout[_i].added, layout[_i].config,
                                             layout[_i].map, layout[_i].tokens, &err);

    ck_assert_msg(bpe, "%s", err.msg);
    check_token(bpe, "<a>", 256, layout[_i].a);
    check_token(bpe, "<b>", 257, layout[_i].b);
    spot_bpe_free(bpe);
}
END_TEST

START_TEST(gpt2_s_end_of_text_is_special_though_no_file_says_so)
{
    struct spot_err err = { 0 };
    struct spot_bpe *const bpe =
        open_layout(",\"<|endoftext|>\":256", NULL, NULL, NULL, NULL, &err);

    ck_assert_msg(bpe, "%s", err.msg);
    check_token(bpe, "<|endoftext|>", 256, 2);
    spot_bpe_free(bpe);
}
END_TEST

/* A space before a text: what transformers 5.24 does with each. */
static const struct {
    bool is_old, has; /* vocab.json and merges.txt; tokenizer.json says so */
    const char *config;
    bool puts;
} space[] = {
    { false, false, NULL, false },
    { false, true, NULL, true },
    { false, false, "{\"add_prefix_space\":true}", false }, /* of no class: tokenizer.json counts */
    { false, true, "{\"add_prefix_space\":false}", true },
    { false, true, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", true },
    { false, false, "{\"tokenizer_class\":\"TokenizersBackend\",\"add_prefix_space\":true}",
      false },
    { false, true, "{\"tokenizer_class\":\"GPT2Tokenizer\"}", false },
    { false, true, "{\"tokenizer_class\":\"Qwen2TokenizerFast\",\"add_prefix_space\":false}",
      false },
    { false, false, "{\"tokenizer_class\":\"GPT2TokenizerFast\",\"add_prefix_space\":true}", true },
    { false, true, "{\"tokenizer_class\":\"GPTNeoXTokenizer\",\"add_prefix_space\":true}", true },
    { true, false, "{\"add_prefix_space\":true}", true },
    { true, false, "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":true}", true },
    { true, false, "{\"tokenizer_class\":\"GPT2Tokenizer\"}", false },
};

START_TEST(a_space_is_put_before_a_text_as_the_class_or_tokenizer_json_says)
{
    struct spot_err err = { 0 };
    struct spot_tokens ids = { 0 };
    struct spot_bpe *bpe;

    if (space[_i].is_old)
        put_old("");
    else
        put_new("", "{\"id\":256,\"content\":\"<a>\"}",
                space[_i].has ? ",\"add_prefix_space\":true" : "");
    if (space[_i].config)
        put("tokenizer_config.json", space[_i].config);
    bpe = spot_bpe_open(dir, &err);
    ck_assert_msg(bpe, "%s", err.msg);
    spot_bpe_encode(bpe, "ab", 2, true, &ids);
    ck_assert_uint_eq(ids.n, 2U + space[_i].puts);
    ck_assert_uint_eq(ids.id[0], space[_i].puts ? ' ' : 'a');
    ids.n = 0;
    spot_bpe_encode(bpe, " ab", 3, true, &ids);
    ck_assert_uint_eq(ids.n, 3); /* it has one */
    if (!space[_i].is_old) {     /* each part between tokens is a text */
        ids.n = 0;
        spot_bpe_encode_named(bpe, "a<a>b", 5, &ids);
        ck_assert_uint_eq(ids.n, space[_i].puts ? 5 : 3);
    }
    free(ids.id);
    spot_bpe_free(bpe);
}
END_TEST

static const struct {
    const char *vocab, *added, *config, *map, *tokens, *why;
} odd[] = {
    { ",\"<a>\":256", NULL, "{\"added_tokens_decoder\":{" LISTED("257", "<a>", "") "}}", NULL, NULL,
      "tokenizer_config.json:1:32: /added_tokens_decoder/257: '<a>' has the id 257 here and 256 in "
      "the vocabulary" },
    { "", NULL, "{\"added_tokens_decoder\":{" LISTED("256", "<a>", "") "}}", NULL, "{\"<b>\":256}",
      "two tokens have the id 256" },
    { "", NULL, "{\"added_tokens_decoder\":{" LISTED("256", "<a>", "") "}}", NULL, "{\"<a>\":257}",
      "the added tokens 256 and 257 are both '<a>'" },
    { "", NULL, NULL, NULL, "{\"<a>\":65}", "two tokens have the id 65" },
    { "", NULL, NULL, NULL, "{\"<a>\":\"256\"}", "added_tokens.json:1:8: /<a>: the id is not" },
    { "", NULL, NULL, NULL, "{\"<a>\":-1}", "id -1, expected 0 to" },
    { "", NULL, "{\"added_tokens_decoder\":{" LISTED("x", "<a>", "") "}}", NULL, NULL,
      "id -1, expected 0 to" },
    { "", NULL, "{\"added_tokens_decoder\":[]}", NULL, NULL, "expected an object" },
    { "", NULL, "{\"added_tokens_decoder\":{\"256\":{}}}", NULL, NULL, "expected an id and" },
    { "", "{\"id\":256,\"content\":\"<a>\"},{\"id\":256,\"content\":\"<b>\"}", NULL, NULL, NULL,
      "two tokens have the id 256" },
    { "", "{\"id\":256,\"content\":\"<a>\"},{\"id\":257,\"content\":\"<a>\"}", NULL, NULL, NULL,
      "the added tokens 256 and 257 are both '<a>'" },
    { ",\"<a>\":256", "{\"id\":257,\"content\":\"<a>\"}", NULL, NULL, NULL,
      "'<a>' has the id 257 here and 256 in the vocabulary" },
    { "", NULL, "{\"tokenizer_class\":\"Qwen2Tokenizer\"}", NULL, NULL,
      "'Qwen2Tokenizer' with vocab.json is not supported" },
    { "", NULL, "{", NULL, NULL, "tokenizer_config.json:1:" },
};

START_TEST(files_that_contradict_each_other_are_refused)
{
    struct spot_err err = { 0 };

    ck_assert_ptr_null(open_layout(odd[_i].vocab, odd[_i].added, odd[_i].config, odd[_i].map,
                                   odd[_i].tokens, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, odd[_i].why), "no '%s' in: %s", odd[_i].why, err.msg);
}
END_TEST

START_TEST(a_role_is_looked_up_in_both_documents)
{
    struct spot_err err = { 0 };
    char text[SPOT_BESIDE_TOKEN];

    ck_assert_int_eq(spot_beside_named(dir, "eos_token", text, &err), 0);
    ck_assert_str_eq(text, "");
    put("special_tokens_map.json", "{\"eos_token\":{\"content\":\"<a>\"}}");
    put("tokenizer_config.json", "{\"eos_token\":null}");
    ck_assert_int_eq(spot_beside_named(dir, "eos_token", text, &err), 1);
    ck_assert_str_eq(text, "<a>");
    put("tokenizer_config.json", "{\"eos_token\":\"<b>\"}");
    ck_assert_int_eq(spot_beside_named(dir, "eos_token", text, &err), 1);
    ck_assert_str_eq(text, "<b>");
    put("tokenizer_config.json", "{\"eos_token\":7}");
    ck_assert_int_eq(spot_beside_named(dir, "eos_token", text, &err), -1);
    ck_assert_msg(strstr(err.msg, "tokenizer_config.json:1:14: /eos_token: expected"), "%s",
                  err.msg);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("bpe_beside");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, added_tokens_are_those_of_all_files, 0,
                        (int)(sizeof(layout) / sizeof(layout[0])));
    tcase_add_loop_test(c, a_space_is_put_before_a_text_as_the_class_or_tokenizer_json_says, 0,
                        (int)(sizeof(space) / sizeof(space[0])));
    tcase_add_test(c, gpt2_s_end_of_text_is_special_though_no_file_says_so);
    tcase_add_loop_test(c, files_that_contradict_each_other_are_refused, 0,
                        (int)(sizeof(odd) / sizeof(odd[0])));
    tcase_add_test(c, a_role_is_looked_up_in_both_documents);
    return run_suite("bpe_beside", c);
}

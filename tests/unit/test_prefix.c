/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"
#include "text/prefix.h"

/* Goal: the tokens before a text are those that from_pretrained's tokenizer of the same files would
 * put there. */

static char dir[] = "/tmp/spot-prefix-XXXXXX";
static char path[2][64];

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(strcpy(dir, "/tmp/spot-prefix-XXXXXX")));
    snprintf(path[0], sizeof(path[0]), "%s/tokenizer.json", dir);
    snprintf(path[1], sizeof(path[1]), "%s/tokenizer_config.json", dir);
}

static void teardown(void)
{
    unlink(path[0]);
    unlink(path[1]);
    rmdir(dir);
}

static void put(const char *at, const char *text)
{
    FILE *const f = text ? fopen(at, "w") : NULL;

    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

#define TEMPLATE(id)                                                                              \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":" \
    "0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"</s>\","         \
    "\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[" id       \
    "],\"tokens\":[\"<s>\"]},\"</s>\":{\"id\":\"</s>\",\"ids\":[101],\"tokens\":[\"</s>\"]}}}"
#define DOCUMENT(processor) "{\"model\":{},\"post_processor\":" processor "}"

static const struct {
    const char *tokenizer, *config;
    int n; /* -1: refused */
    uint32_t id;
} files[] = {
    { DOCUMENT("null"), NULL, 0, 0 },
    { DOCUMENT("{\"type\":\"ByteLevel\"}"), "{\"add_bos_token\":false}", 0, 0 },
    { DOCUMENT(TEMPLATE("7")), NULL, 1, 7 },
    { DOCUMENT(
          "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}," TEMPLATE("9") "]}"),
      NULL, 1, 9 },
    { DOCUMENT(TEMPLATE("115")), /* the byte of "s", which the config names */
      "{\"add_bos_token\":false,\"bos_token\":\"s\",\"tokenizer_class\":\"LlamaTokenizer\"}", 0,
      0 },
    { DOCUMENT("null"),
      "{\"add_bos_token\":true,\"bos_token\":{\"content\":\"s\"},\"tokenizer_class\":"
      "\"LlamaTokenizerFast\"}",
      1, 's' },
    { DOCUMENT("null"),
      "{\"add_bos_token\":true,\"bos_token\":\"s\",\"tokenizer_class\":\"GPT2Tokenizer\"}", 0, 0 },
    { NULL, "{\"add_bos_token\":true,\"bos_token\":\"s\",\"tokenizer_class\":\"GPT2Tokenizer\"}", 1,
      's' },
    { NULL, "{\"add_bos_token\":true,\"bos_token\":null}", 0, 0 },
    { NULL, NULL, 0, 0 },
    { DOCUMENT(TEMPLATE("256")), NULL, -1, 0 },
    { DOCUMENT(TEMPLATE("-1")), NULL, -1, 0 },
    { DOCUMENT(TEMPLATE("1,2,3,4,5")), NULL, -1, 0 },
    { DOCUMENT(TEMPLATE("")), NULL, -1, 0 },
};

START_TEST(what_comes_before_a_text_is_what_the_files_say)
{
    struct spot_bpe *const bpe = spot_bpe_of_bytes();
    struct spot_err err = { 0 };
    struct spot_text_around around;
    int rc;

    put(path[0], files[_i].tokenizer);
    put(path[1], files[_i].config);
    rc = spot_text_around_load(dir, bpe, &around, &err);
    ck_assert_msg(rc == (files[_i].n < 0 ? -1 : 0), "%d: %s", _i, err.msg);
    if (rc)
        ck_assert_int_eq(err.code, SPOT_EDATA);
    else
        ck_assert_int_eq((int)around.n_before, files[_i].n);
    if (!rc && around.n_before)
        ck_assert_uint_eq(around.before[0], files[_i].id);
    if (!rc) /* of a text that is not continued */
        ck_assert_uint_eq(around.n_after,
                          files[_i].tokenizer && strstr(files[_i].tokenizer, "</s>"));
    if (!rc && around.n_after)
        ck_assert_uint_eq(around.after[0], 'e');
    spot_bpe_free(bpe);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("prefix");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, what_comes_before_a_text_is_what_the_files_say, 0,
                        sizeof(files) / sizeof(*files));
    return run_suite("prefix", c);
}

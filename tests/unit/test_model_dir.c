/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "byte_level_rig.h"
#include "engine/initial_weights.h"
#include "suite.h"
#include "text/beside.h"
#include "text/bpe.h"
#include "train/model_dir.h"
#include "weights/hf_config.h"
#include "weights/load.h"

/* Goal: a directory that is saved holds the model: its shape, its numbers and its tokenizer come
 * back from it; and what must not be overwritten is not. */

static char dir[] = "/tmp/spot-model-XXXXXX";

static char *in_dir(const char *name)
{
    static char path[8][96];
    static int at;
    char *const here = path[at++ % 8];

    snprintf(here, sizeof(path[0]), "%s/%s", dir, name);
    return here;
}

static void write_file(const char *name, const char *text)
{
    FILE *out = fopen(in_dir(name), "w");

    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
}

static size_t put_vocab(char *text)
{
    size_t n = (size_t)sprintf(text, "{");

    for (unsigned b = 0; b < 256; b++)
        n += (size_t)sprintf(text + n, "\"\\u%04x\":%u,", letter_of(b), b);
    return n + (size_t)sprintf(text + n, "\"ab\":256,\"abc\":257,\"<|endoftext|>\":258}");
}

static void make_tokenizer(void)
{
    static char vocab[8192];

    mkdir(in_dir("tokenizer"), 0700);
    put_vocab(vocab);
    write_file("tokenizer/vocab.json", vocab);
    write_file("tokenizer/merges.txt", "#version: 0.2\na b\nab c\n");
    write_file("tokenizer/chat_template.jinja", "{{ text }}");
    write_file("tokenizer/special_tokens_map.json", "{\"eos_token\": \"abc\"}");
    write_file("tokenizer/added_tokens.json", "{\"abc\": 257}");
}

static const struct spot_shape of_model = {
    .n_layer = 2, .width = 16, .n_head = 2, .seq = 8, .vocab = 259, .n_shard = 2
};
static const uint64_t seed = 5;

static struct spot_bundle *fresh(int b, bool is_started)
{
    struct spot_bundle *bundle = calloc(1, sizeof(*bundle));

    ck_assert_int_eq(spot_bundle_init(bundle, &of_model, b, NULL), 0);
    if (is_started)
        spot_bundle_start(bundle, &of_model, seed);
    return bundle;
}

static void drop(struct spot_bundle *bundle)
{
    spot_bundle_release(bundle);
    free(bundle);
}

static void save(const char *path, const char *tokenizer, const struct spot_bpe *bpe)
{
    struct spot_err err = { 0 };
    struct spot_model_dir *d = spot_model_dir_open(path, tokenizer, &err);
    struct spot_bundle *bundle[4];

    ck_assert_msg(d != NULL, "%s", err.msg);
    for (int b = 0; b < 4; b++)
        bundle[b] = fresh(b, true);
    ck_assert_msg(!spot_model_dir_write(d, &of_model, bpe, !bpe, bundle, SPOT_DT_F32, &err), "%s",
                  err.msg);
    for (int b = 0; b < 4; b++)
        drop(bundle[b]);
    spot_model_dir_close(d);
}

static void expect_weights(void)
{
    const char *const path = in_dir("saved"), *const file = in_dir("saved/config.json");
    struct spot_shape shape = { 0 };
    struct spot_err err = { 0 };
    struct spot_weights *w;

    ck_assert_msg(!spot_hf_config_load(file, &shape, &err), "%s", err.msg);
    ck_assert_int_eq(shape.n_layer, 2);
    ck_assert_int_eq(shape.width, 16);
    ck_assert_int_eq(shape.n_head, 2);
    ck_assert_int_eq(shape.vocab, 259);
    shape.n_shard = 2;
    w = spot_weights_open(path, &shape, &err);
    ck_assert_msg(w != NULL, "%s", err.msg);
    for (int b = 0; b < 4; b++) {
        struct spot_bundle *want = fresh(b, true), *got = fresh(b, false);

        ck_assert_msg(!spot_weights_read(w, got, &err), "%s", err.msg);
        ck_assert_mem_eq(got->plane[0], want->plane[0], want->arena.n_elem * sizeof(float));
        drop(want);
        drop(got);
    }
    spot_weights_close(w);
}

START_TEST(the_model_and_its_tokenizer_come_back)
{
    static const char text[] = "abc ab\xc3\xa9 cab\n";
    struct spot_err err = { 0 };
    struct spot_bpe *bpe, *again;
    struct spot_tokens a = { 0 }, b = { 0 };
    char eos[SPOT_BESIDE_TOKEN];
    size_t at = 0;

    make_tokenizer();
    bpe = spot_bpe_open(in_dir("tokenizer"), &err);
    ck_assert_msg(bpe != NULL, "%s", err.msg);
    save(in_dir("saved"), in_dir("tokenizer"), bpe);
    expect_weights();
    ck_assert_int_eq(access(in_dir("saved/chat_template.jinja"), F_OK), 0);
    ck_assert_int_eq(spot_beside_named(in_dir("saved"), "eos_token", eos, &err), 1);
    ck_assert_str_eq(eos, "abc"); /* and not what we would have named */
    again = spot_bpe_open(in_dir("saved"), &err);
    ck_assert_msg(again != NULL, "%s", err.msg);
    ck_assert_int_eq(spot_bpe_vocab(again), 259);
    ck_assert_int_eq(spot_bpe_find(again, "<|endoftext|>"), 258);
    ck_assert(spot_bpe_is_special(bpe, 257) && spot_bpe_is_special(again, 257));
    spot_bpe_encode(bpe, text, sizeof(text) - 1, true, &a);
    spot_bpe_encode(again, text, sizeof(text) - 1, true, &b);
    ck_assert_uint_eq(a.id[0], 257); /* abc, by two merges */
    for (size_t k = 0, n_byte; k < a.n; k++) {
        const uint8_t *token = spot_bpe_token(again, a.id[k], &n_byte);

        ck_assert_mem_eq(token, text + at, n_byte);
        at += n_byte;
    }
    ck_assert_uint_eq(at, sizeof(text) - 1);
    ck_assert_uint_eq(b.n, a.n);
    ck_assert_mem_eq(a.id, b.id, a.n * sizeof(*a.id));
    spot_bpe_free(bpe);
    spot_bpe_free(again);
    free(a.id);
    free(b.id);
}
END_TEST

START_TEST(what_stands_there_is_not_harmed)
{
    struct spot_err err = { 0 };

    mkdir(in_dir("parts"), 0700);
    write_file("parts/model.safetensors.index.json", "{}");
    ck_assert_ptr_null(spot_model_dir_open(in_dir("parts"), NULL, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_msg(strstr(err.msg, "several files") != NULL, "%s", err.msg);
    ck_assert_ptr_null(spot_model_dir_open("/nowhere/x", NULL, &err));
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_ptr_null(spot_model_dir_open(in_dir("new"), in_dir("parts"), &err));
    ck_assert_int_ne(access(in_dir("new"), F_OK), 0); /* made for it, and gone */
    spot_model_dir_close(spot_model_dir_open(in_dir("new"), NULL, &err));
    ck_assert_int_ne(access(in_dir("new"), F_OK), 0);
}
END_TEST

START_TEST(a_path_tells_whether_a_directory_is_meant)
{
    ck_assert(spot_model_dir_is_meant(dir));
    ck_assert(spot_model_dir_is_meant(in_dir("x")));
    ck_assert(!spot_model_dir_is_meant(in_dir("x.safetensors")));
    write_file("file", "");
    ck_assert(!spot_model_dir_is_meant(in_dir("file")));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    char command[64];
    int status;

    if (!mkdtemp(dir))
        return 77;
    add_tests(tc);
    status = run_suite("model_dir", tc);
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command) ? EXIT_FAILURE : status;
}

/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* mkdtemp */
#include <errno.h>
#include <sys/stat.h>

#include "byte_level_rig.h"
#include "serve/model_image.h"
#include "serve/model_version.h"
#include "serve/relay.h"
#include "serve_model_rig.h"

/* Goal: a model directory is served as it says, with the tokens that end an answer; its hash tells
 * models apart by weights, tokenizer and ends; and what cannot be served is refused by file and
 * value. */

/* A tokenizer of bytes and `more` tokens beside the weights. */
static void write_tokenizer(const char *name, int more)
{
    char path[64];
    FILE *out;

    snprintf(path, sizeof(path), "%s/vocab.json", name);
    out = fopen(in_dir(path), "w");
    for (unsigned b = 0; b < 256; b++)
        fprintf(out, "%s\"\\u%04x\":%u", b ? "," : "{", letter_of(b), b);
    for (int i = 0; i < more; i++)
        fprintf(out, ",\"<%d>\":%d", i, 256 + i);
    fputs("}\n", out);
    fclose(out);
    snprintf(path, sizeof(path), "%s/merges.txt", name);
    write_text(in_dir(path), "#version: 0.2\n");
}

/* The model's tokens are a tokenizer's, not bytes. */
static void hide_bytes(const char *name)
{
    char path[64], text[2048];
    char *found;

    snprintf(path, sizeof(path), "%s/config.json", name);
    snprintf(text, sizeof(text), "%.2047s", read_text(in_dir(path)));
    found = strstr(text, "\"spot_tokens\"");
    ck_assert_ptr_nonnull(found);
    memcpy(found, "\"said_before\"", 13);
    write_text(in_dir(path), text);
}

static uint64_t hash_of_model(const char *name)
{
    struct spot_served_model m;
    struct spot_err err = { 0 };
    uint64_t hash;

    ck_assert_msg(!spot_served_model_open(&m, in_dir(name), NULL, 0, &err), "%s", err.msg);
    hash = m.hash;
    spot_served_model_release(&m);
    return hash;
}

static void expect_refused(const char *path, const char *text)
{
    struct spot_served_model m;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_served_model_open(&m, path, NULL, 0, &err), -1);
    ck_assert_msg(strstr(err.msg, text), "no '%s' in: %s", text, err.msg);
    spot_served_model_release(&m);
}

static const char *const ends[][2] = {
    { "{\"eos_token_id\": 256}", "/eos_token_id: must be a token below 256" },
    { "{\"eos_token_id\": -1}", "/eos_token_id: must be a token below 256" },
    { "{\"eos_token_id\": \"x\"}", "/eos_token_id: must be a token below 256" },
    { "{\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9]}", "/eos_token_id: more than 8 end tokens" },
    { "{\"eos_token_id\": [1, 2.5]}", "generation_config.json:1:" },
    { "{\"eos_token_id\": ", "generation_config.json:1:" },
};

START_TEST(end_tokens_that_cannot_be_are_refused_by_their_place)
{
    write_text(in_dir("words/generation_config.json"), ends[_i][0]);
    expect_refused(in_dir("words"), ends[_i][1]);
    unlink(in_dir("words/generation_config.json"));
}
END_TEST

START_TEST(end_tokens_are_those_of_the_file_each_once)
{
    struct spot_served_model m;
    struct spot_err err = { 0 };

    write_text(in_dir("words/generation_config.json"), "{\"eos_token_id\": [10, 7, 10]}");
    ck_assert_msg(!spot_served_model_open(&m, in_dir("words"), NULL, 0, &err), "%s", err.msg);
    ck_assert_uint_eq(m.vocabulary.n_end, 2);
    ck_assert(m.vocabulary.end[0] == 10 && m.vocabulary.end[1] == 7);
    spot_served_model_release(&m);
    write_text(in_dir("words/generation_config.json"), "{\"eos_token_id\": null}");
    ck_assert_msg(!spot_served_model_open(&m, in_dir("words"), NULL, 0, &err), "%s", err.msg);
    ck_assert_uint_eq(m.vocabulary.n_end, 0);
    spot_served_model_release(&m);
    unlink(in_dir("words/generation_config.json"));
}
END_TEST

/* config.json names an end of before the model learnt to chat. */
START_TEST(a_chat_ends_with_the_tokenizer_s_end_and_the_template_s)
{
    struct spot_served_model m;
    struct spot_err err = { 0 };

    write_text(in_dir("words/added_tokens.json"), "{\"<|im_end|>\": 255}");
    write_text(in_dir("words/special_tokens_map.json"), "{\"eos_token\": \"z\"}");
    write_text(in_dir("words/generation_config.json"), "{\"eos_token_id\": 7}");
    expect_refused(in_dir("words"), "two tokens have the id 255");
    write_text(in_dir("words/added_tokens.json"), "{}");
    write_text(in_dir("words/chat_template.jinja"),
               "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
               "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt "
               "%}{{ '<|im_start|>assistant\n' }}{% endif %}");
    ck_assert_msg(!spot_served_model_open(&m, in_dir("words"), NULL, 0, &err), "%s", err.msg);
    ck_assert_ptr_nonnull(m.chat);
    ck_assert_uint_eq(m.n_end, 2); /* its template's is no token of it */
    ck_assert(m.end[0] == 7 && m.end[1] == 'z');
    spot_served_model_release(&m);
    /* 8 by number, and one by name */
    write_text(in_dir("words/generation_config.json"), "{\"eos_token_id\": [1,2,3,4,5,6,7,8]}");
    ck_assert_msg(!spot_served_model_open(&m, in_dir("words"), NULL, 0, &err), "%s", err.msg);
    ck_assert_uint_eq(m.vocabulary.n_end, 9);
    spot_served_model_release(&m);
    unlink(in_dir("words/added_tokens.json"));
    unlink(in_dir("words/special_tokens_map.json"));
    unlink(in_dir("words/generation_config.json"));
    unlink(in_dir("words/chat_template.jinja"));
}
END_TEST

static const struct {
    const char *config;
    enum spot_pool pool;
} pooling[] = {
    { "{\"embedding_dimension\":8,\"pooling_mode\":\"mean\"}", SPOT_POOL_MEAN },
    { "{\"pooling_mode\":\"lasttoken\",\"pooling_mode_mean_tokens\":true}", SPOT_POOL_LAST },
    { "{\"pooling_mode\":[\"lasttoken\"]}", SPOT_POOL_LAST },
    { "{\"pooling_mode\":[\"mean\",\"lasttoken\"]}", SPOT_POOL_NONE },
    { "{\"pooling_mode\":\"weightedmean\"}", SPOT_POOL_NONE },
    { "{\"pooling_mode\":7}", SPOT_POOL_NONE },
    { "{\"pooling_mode_lasttoken\":true,\"pooling_mode_mean_tokens\":false}", SPOT_POOL_LAST },
    { "{\"pooling_mode_mean_tokens\":true}", SPOT_POOL_MEAN },
    { "{\"pooling_mode_lasttoken\":true,\"pooling_mode_mean_tokens\":true}", SPOT_POOL_NONE },
    { "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":true}", SPOT_POOL_NONE },
    { "{\"pooling_mode_cls_token\":true}", SPOT_POOL_NONE },
    { "{\"pooling_mode_cls_token\":false}", SPOT_POOL_MEAN }, /* the library's */
};

/* What sentence-transformers 6.2 makes of it; what is not computed is left to the client. */
START_TEST(embeddings_are_pooled_as_the_one_way_that_the_model_names)
{
    struct spot_served_model m;
    struct spot_err err = { 0 };

    ck_assert(!mkdir(in_dir("words/1_Pooling"), 0700) || errno == EEXIST);
    write_text(in_dir("words/1_Pooling/config.json"), pooling[_i].config);
    ck_assert_msg(!spot_served_model_open(&m, in_dir("words"), NULL, 0, &err), "%s", err.msg);
    ck_assert_int_eq(m.pool, pooling[_i].pool);
    spot_served_model_release(&m);
    unlink(in_dir("words/1_Pooling/config.json"));
    ck_assert_msg(!spot_served_model_open(&m, in_dir("words"), NULL, 0, &err), "%s", err.msg);
    ck_assert_int_eq(m.pool, SPOT_POOL_LAST);
    spot_served_model_release(&m);
}
END_TEST

START_TEST(a_hash_tells_weights_and_end_tokens_apart)
{
    const uint64_t plain = hash_of_model("words");
    uint64_t ended;

    write_text(in_dir("words/generation_config.json"), "{\"eos_token_id\": 10}");
    ended = hash_of_model("words");
    ck_assert_uint_ne(ended, plain);
    write_text(in_dir("words/generation_config.json"), "{\"eos_token_id\": 11}");
    ck_assert_uint_ne(hash_of_model("words"), ended);
    unlink(in_dir("words/generation_config.json"));
    ck_assert_uint_eq(hash_of_model("words"), plain);
    ck_assert_uint_ne(hash_of_model("bytes"), plain); /* other weights */
}
END_TEST

START_TEST(a_tokenizer_of_more_tokens_than_the_model_is_refused_by_both_numbers)
{
    write_tokenizer("words", 3);
    expect_refused(in_dir("words"), "the tokenizer has 259 tokens, the model 256");
    write_tokenizer("words", 0);
}
END_TEST

START_TEST(what_is_no_model_is_refused_by_its_file)
{
    static char path[5000];
    struct spot_served_model m;
    struct spot_err err = { 0 };

    expect_refused(in_dir("nothing"), "nothing/config.json");
    memset(path, 'x', sizeof(path) - 1);
    expect_refused(path, "the path of xxx");
    rename(in_dir("words/vocab.json"), in_dir("vocab.json"));
    expect_refused(in_dir("words"), "words");
    rename(in_dir("vocab.json"), in_dir("words/vocab.json"));
    rename(in_dir("words/model.safetensors"), in_dir("safe"));
    expect_refused(in_dir("words"), "words");
    rename(in_dir("safe"), in_dir("words/model.safetensors"));
    ck_assert_int_eq(spot_served_model_open(&m, in_dir("words"), NULL, 3, &err),
                     -1); /* 4 heads, 3 shards */
    spot_served_model_release(&m);
}
END_TEST

START_TEST(the_id_is_the_last_name_of_the_directory)
{
    static const char *const id_of[][2] = {
        { "model", "model" },      { "model/", "model" },        { "./model//", "model" },
        { "/a/b/model", "model" }, { "/a/b/model///", "model" }, { "..x/...", "..." },
        { "nowhere/.", "." },
    };
    char *id, here[64];

    for (size_t i = 0; i < sizeof(id_of) / sizeof(id_of[0]); i++) {
        id = spot_served_model_id(id_of[i][0]);
        ck_assert_str_eq(id, id_of[i][1]);
        free(id);
    }
    snprintf(here, sizeof(here), "%s/words/", dir);
    for (int up = 0; up < 2; up++) {
        char path[128];

        snprintf(path, sizeof(path), up ? "%s../words/." : "%s.", here);
        id = spot_served_model_id(path);
        ck_assert_str_eq(id, "words");
        free(id);
    }
}
END_TEST

/* --- read beside --- */

static struct spot_model_version *read_beside(const char *path, int64_t P, int64_t M,
                                              struct spot_err *err)
{
    const struct spot_model_wanted wanted = { .P = P, .M = M };
    struct spot_model_reading *const reading = spot_model_reading_start(path, &wanted, err);

    ck_assert_msg(reading, "%s", err->msg);
    for (int i = 0; !spot_model_reading_is_done(reading); i++) {
        ck_assert_int_lt(i, TURNS);
        spot_clock_sleep(0.001);
    }
    return spot_model_reading_end(reading, err);
}

START_TEST(a_version_is_read_beside_or_says_why_it_cannot_be)
{
    struct spot_err err = { 0 };
    struct spot_model_version *const v = read_beside(in_dir("words"), 2, 2, &err);

    ck_assert_msg(v, "%s", err.msg);
    ck_assert_uint_eq(v->model.hash, hash_of_model("words"));
    ck_assert_ptr_null(v->model.chat);
    ck_assert_msg(strstr(v->model.chat_why, "tokenizer_config.json"), "%s", v->model.chat_why);
    ck_assert_msg(!strstr(v->model.chat_why, dir), "a client hears where it lies: %s",
                  v->model.chat_why);
    spot_model_version_free(v);
    ck_assert_ptr_null(read_beside(in_dir("words"), 5, 1, &err));
    ck_assert_str_eq(err.msg, "5 stages of a model of 4 layers");
    ck_assert_ptr_null(read_beside(in_dir("nothing"), 1, 1, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "nothing/config.json"));
}
END_TEST

static void nothing(void *user)
{
    (void)user;
}

/* Bundles each in memory of their own, packed together. */
static void *packed(const struct spot_served_model *m, enum spot_infer_type type, int begin,
                    int end)
{
    struct spot_bundle bundle[16], *all[16];
    void *const image = spot_alloc_aligned(spot_infer_image_byte(&m->shape, type, begin, end), 1);

    for (int i = begin; i < end; i++) {
        all[i - begin] = &bundle[i];
        ck_assert_int_eq(spot_bundle_init_weights(&bundle[i], &m->shape, i, NULL), 0);
        ck_assert_int_eq(spot_weights_read(m->weights, &bundle[i], NULL), 0);
    }
    spot_infer_image_pack(image, &m->shape, type, begin, end, all);
    for (int i = begin; i < end; i++)
        spot_bundle_release(&bundle[i]);
    return image;
}

START_TEST(what_is_packed_ahead_is_what_a_replica_maps_until_both_have_gone)
{
    const enum spot_infer_type type = (enum spot_infer_type)_i;
    struct spot_err err = { 0 };
    struct spot_model_version *const v = read_beside(in_dir("words"), 2, 1, &err);
    struct spot_shared_image mapped[2];

    ck_assert_msg(!spot_model_version_pack(v, type, 2, &err), "%s", err.msg);
    ck_assert_uint_eq(v->n_image, 2);
    for (int i = 0; i < 2; i++) {
        const struct spot_relay_form form = { .P = 2, .M = 1, .position = (uint32_t)i };
        char path[sizeof(v->image[i].path)];
        int begin, end;
        void *wanted;

        spot_relay_bundles(&v->model.shape, &form, &begin, &end);
        wanted = packed(&v->model, type, begin, end);
        memcpy(path, v->image[i].path, sizeof(path));
        ck_assert_int_eq(access(path, R_OK), 0);
        ck_assert_msg(
            !spot_model_image_open(&mapped[i], &v->model, type, begin, end, nothing, NULL, &err),
            "%s", err.msg);
        ck_assert(mapped[i].is_shared);
        ck_assert_str_eq(mapped[i].path, path);
        ck_assert_mem_eq(mapped[i].byte, wanted, mapped[i].n_byte);
        spot_free_aligned(wanted);
    }
    spot_model_version_free(v);
    for (int i = 0; i < 2; i++) {
        char path[sizeof(mapped[i].path)];

        memcpy(path, mapped[i].path, sizeof(path));
        ck_assert_int_eq(access(path, R_OK), 0);
        spot_shared_image_close(&mapped[i]);
        ck_assert_int_ne(access(path, R_OK), 0);
    }
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("served_model");
    char command[64];
    int rc;

    if (!mkdtemp(dir))
        return 77;
    make_model("bytes", 1);
    make_model("words", 2);
    hide_bytes("words");
    write_tokenizer("words", 0);
    tcase_add_loop_test(tc, end_tokens_that_cannot_be_are_refused_by_their_place, 0,
                        (int)(sizeof(ends) / sizeof(ends[0])));
    tcase_add_loop_test(tc, embeddings_are_pooled_as_the_one_way_that_the_model_names, 0,
                        (int)(sizeof(pooling) / sizeof(pooling[0])));
    tcase_add_loop_test(tc, what_is_packed_ahead_is_what_a_replica_maps_until_both_have_gone, 0,
                        SPOT_INFER_TYPES);
    add_tests(tc);
    rc = run_suite("served_model", tc);
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command) ? EXIT_FAILURE : rc;
}

/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <stdlib.h>
#include <unistd.h>

#include "../tiny_adapter.h"
#include "common/temp.h"
#include "suite.h"
#include "weights/lora_load.h"

/* Goal: an adapter that asks for another computation than lora_A and lora_B, or is of another
 * model, is refused with the key or the tensor. What is computed: test_infer_kinds. */

static char *dir, path[2][TINY_LINE];
static struct spot_shape shape;

static void setup(void)
{
    char name[64], config[TINY_LINE];
    struct spot_err err = { 0 };

    dir = spot_temp_template("spot-lora");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path[0], sizeof(path[0]), "%s/adapter_config.json", dir);
    snprintf(path[1], sizeof(path[1]), "%s/adapter_model.safetensors", dir);
    snprintf(name, sizeof(name), "qwen3");
    ck_assert(tiny_find(-1, name, config));
    ck_assert(!tiny_put(path[0], config, strlen(config), &err));
    ck_assert_msg(!spot_hf_config_load(path[0], &shape, &err), "%s", err.msg);
    shape.n_shard = 1;
    ck_assert_msg(!tiny_write_adapter(dir, name, &shape, 1, &err), "%s", err.msg);
}

static void teardown(void)
{
    unlink(path[0]);
    unlink(path[1]);
    rmdir(dir);
    free(dir);
}

static void expect_refused(const char *what)
{
    struct spot_err err = { 0 };

    ck_assert_ptr_null(spot_lora_load(dir, &shape, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, what) != NULL, "%s: %s", what, err.msg);
}

START_TEST(keys_that_ask_for_another_computation)
{
    static const char *const more[][2] = {
        { "\"use_dora\":true", "/use_dora" },
        { "\"modules_to_save\":[\"lm_head\"]", "/modules_to_save" },
        { "\"alpha_pattern\":{\"q_proj\":3}", "/alpha_pattern" },
        { "\"lora_bias\":true", "/lora_bias" },
        { "\"bias\":\"all\"", "/bias" },
        { "\"init_lora_weights\":\"pissa_niter_4\"", "/init_lora_weights" },
        { "\"peft_type\":\"LOHA\"", "/peft_type" },
        { "\"lora_alpha\":\"8\"", "/lora_alpha" }
    };
    char config[TINY_LINE];
    struct spot_err err = { 0 };

    snprintf(config, sizeof(config), "{%s%s%s%s}",
             strstr(more[_i][0], "peft_type") ? "" : "\"peft_type\":\"LORA\",",
             strstr(more[_i][0], "lora_alpha") ? "" : "\"lora_alpha\":8,", "\"r\":3,", more[_i][0]);
    ck_assert(!tiny_put(path[0], config, strlen(config), &err));
    expect_refused(more[_i][1]);
}
END_TEST

START_TEST(ranks_that_a_pattern_gives_are_those_of_the_tensors)
{
    static const char config[] =
        "{\"peft_type\":\"LORA\",\"lora_alpha\":8,\"r\":64,\"rank_pattern\":{\"q_proj\":3},"
        "\"init_lora_weights\":\"gaussian\",\"use_dora\":false,\"modules_to_save\":null}";
    struct spot_err err = { 0 };
    struct spot_lora *lora;

    ck_assert(!tiny_put(path[0], config, strlen(config), &err));
    lora = spot_lora_load(dir, &shape, &err);
    ck_assert_msg(lora != NULL, "%s", err.msg);
    ck_assert_int_eq(lora->part[SPOT_LORA_QKV].rank, 9);
    ck_assert_int_eq(lora->part[SPOT_LORA_DOWN].rank, 3);
    spot_lora_free(lora);
}
END_TEST

/* One tensor of the file under another name, of another shape, or missing. */
static void write_tensor(const char *name, uint64_t rows, uint64_t cols)
{
    struct spot_st_tensor t = { .name = spot_xstrdup(name), .dtype = SPOT_DT_F32, .n_dim = 2 };
    struct spot_buf out = { 0 };
    struct spot_err err = { 0 };
    const float zero = 0;

    t.dim[0] = rows;
    t.dim[1] = cols;
    spot_st_write(&t, 1, &out);
    for (uint64_t i = 0; i < rows * cols; i++)
        spot_buf_add(&out, &zero, sizeof(zero));
    ck_assert(!tiny_put(path[1], out.data, out.n, &err));
    spot_buf_release(&out);
    free(t.name);
}

START_TEST(tensors_that_are_of_no_product)
{
    static const char *const name[] = {
        "base_model.model.lm_head.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.weight",
        "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight",
        "model.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.embed_tokens.lora_embedding_A",
    };

    write_tensor(name[_i], 3, (uint64_t)shape.width);
    expect_refused(name[_i]);
}
END_TEST

START_TEST(pairs_that_do_not_fit)
{
    static const char q[] = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";

    write_tensor(q, 3, (uint64_t)shape.width);
    expect_refused("lora_B");
    write_tensor(q, 3, (uint64_t)shape.width + 1);
    expect_refused("lora_B");
    write_tensor(q, 0, (uint64_t)shape.width);
    expect_refused("q_proj");
    ck_assert_int_eq(unlink(path[1]), 0);
    {
        struct spot_err err = { 0 };

        ck_assert_ptr_null(spot_lora_load(dir, &shape, &err));
        ck_assert_int_eq(err.code, SPOT_ESYS);
    }
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, keys_that_ask_for_another_computation, 0, 8);
    tcase_add_test(tc, ranks_that_a_pattern_gives_are_those_of_the_tensors);
    tcase_add_loop_test(tc, tensors_that_are_of_no_product, 0, 5);
    tcase_add_test(tc, pairs_that_do_not_fit);
    return run_suite("lora_load", tc);
}

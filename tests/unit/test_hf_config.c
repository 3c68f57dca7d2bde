/* SPDX-License-Identifier: MIT */
#include "../tiny_model.h"
#include "common/le.h"
#include "doc_rig.h"
#include "weights/hf_config.h"

/* Goal: the files that transformers writes are understood, and whatever would be computed otherwise
 * than a file says is refused with its place. */

static int load(const char *text, struct spot_shape *shape, struct spot_err *err)
{
    char path[32];
    int rc;

    put_file(path, text, strlen(text));
    memset(shape, 0xff, sizeof(*shape));
    rc = spot_hf_config_load(path, shape, err);
    unlink(path);
    return rc;
}

#define GPT2                                                                            \
    "\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, "      \
    "\"vocab_size\": 50257, \"activation_function\": \"gelu_new\", \"n_inner\": null, " \
    "\"layer_norm_epsilon\": 1e-05, \"n_positions\": 1024, \"attn_pdrop\": 0.1"
#define LLAMA                                                                              \
    "\"model_type\": \"llama\", \"hidden_size\": 2048, \"intermediate_size\": 5632, "      \
    "\"num_hidden_layers\": 22, \"num_attention_heads\": 32, \"num_key_value_heads\": 4, " \
    "\"vocab_size\": 32000, \"max_position_embeddings\": 2048, \"hidden_act\": \"silu\", " \
    "\"attention_bias\": false, \"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": false, " \
    "\"torch_dtype\": \"bfloat16\""

START_TEST(a_gpt2_is_tied_unless_it_says_no)
{
    struct spot_shape s;
    struct spot_err err;

    ck_assert_msg(!load("{" GPT2 "}", &s, &err), "%s", err.msg);
    ck_assert(s.kind.family == 0 && s.n_layer == 12 && s.width == 768 && s.n_head == 12);
    ck_assert(s.vocab == 50257 && s.seq == 1024 && s.is_tied == 1 && s.n_shard == 0);
    ck_assert(s.n_kv_head == 0 && s.ffn == 0 && s.rope_theta == 0);
    ck_assert_int_eq(load("{" GPT2 ", \"tie_word_embeddings\": false}", &s, &err), 0);
    ck_assert_int_eq(s.is_tied, 0);
}
END_TEST

START_TEST(a_llama_tells_its_heads_and_the_base_of_its_angles)
{
    /* absent, at the root, and where later versions write it */
    static const struct {
        const char *more;
        double theta;
    } cases[] = {
        { "", 1e4 },
        { ", \"rope_theta\": 500000.0, \"rope_scaling\": null", 5e5 },
        { ", \"rope_parameters\": {\"rope_theta\": 1000000.0, \"rope_type\": \"default\"}", 1e6 },
    };
    struct spot_shape s;
    struct spot_err err;
    char text[1024];

    snprintf(text, sizeof(text), "{" LLAMA "%s}", cases[_i].more);
    ck_assert_msg(!load(text, &s, &err), "%s", err.msg);
    ck_assert(s.kind.family == 1 && s.n_layer == 22 && s.width == 2048 && s.n_head == 32);
    ck_assert(s.n_kv_head == 4 && s.ffn == 5632 && s.vocab == 32000 && s.seq == 2048);
    ck_assert(s.is_tied == 0 && s.n_shard == 0);
    ck_assert_double_eq(s.norm_eps, 1e-5);
    ck_assert_double_eq(s.rope_theta, cases[_i].theta);
}
END_TEST

START_TEST(eps_of_the_norms_is_what_the_file_says_or_what_transformers_takes)
{
    struct spot_shape s;
    struct spot_err err;

    ck_assert_int_eq(
        load("{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 1, "
             "\"vocab_size\": 9}",
             &s, &err),
        0);
    ck_assert_double_eq(s.norm_eps, 1e-5);
    ck_assert_int_eq(
        load("{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 1, "
             "\"vocab_size\": 9, \"layer_norm_epsilon\": 1e-6}",
             &s, &err),
        0);
    ck_assert_double_eq(s.norm_eps, 1e-6);
    ck_assert_int_eq(load("{\"model_type\": \"llama\", \"hidden_size\": 64, "
                          "\"intermediate_size\": 172, \"num_hidden_layers\": 2, "
                          "\"num_attention_heads\": 4, \"vocab_size\": 256}",
                          &s, &err),
                     0);
    ck_assert_double_eq(s.norm_eps, 1e-6);
}
END_TEST

#define EXPERTS(kind)                                                            \
    "\"model_type\": \"" kind "\", \"hidden_size\": 64, \"intermediate_size\": " \
    "172, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "                \
    "\"num_key_value_heads\": 4, \"vocab_size\": 256, \"num_experts\": 4, "      \
    "\"num_experts_per_tok\": 2"

enum { CASES = 28 };

static const struct {
    const char *text, *expected;
} refused[] = {
    { "{\"model_type\": \"mamba\"}", ":1:16: /model_type: 'mamba' is not supported: gpt2, " },
    { "{\"n_embd\": 768}", "model_type" },
    { "{" LLAMA ",\n \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 8.0}}",
      ":2:18: /rope_scaling: rotary positions scaled as 'dynamic'" },
    { "{" LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0}}",
      "expected factor, low_freq_factor below" },
    { "{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}", "/rope_scaling: expected factor" },
    { "{" LLAMA ", \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1]}}",
      "original_max_position_embeddings" },
    { "{" LLAMA ", \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1], "
      "\"original_max_position_embeddings\": 8}}",
      "short_factor" },
    { "{" LLAMA ", \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2, "
      "\"mscale\": 1}}",
      "mscale" },
    { "{" LLAMA ", \"rope_scaling\": {\"factor\": 2.0}}", "'?'" },
    { "{" LLAMA ", \"quantization_config\": {}}", "/quantization_config" },
    { "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 172, "
      "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 256, "
      "\"rms_norm_eps\": 0}",
      ":1:155: /rms_norm_eps: 0 is outside [1e-12, 0.01]" },
    { "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 1, "
      "\"vocab_size\": 9, \"layer_norm_epsilon\": 0.5}",
      "/layer_norm_epsilon: 0.5 is outside [1e-12, 0.01]" },
    { "{\"model_type\": \"llama\", \"hidden_size\": 64}", "num_hidden_layers" },
    { "{\"model_type\": \"llama\", \"hidden_size\": -1}", "/hidden_size" },
    { "{" LLAMA ", \"partial_rotary_factor\": 0.52}", "/partial_rotary_factor: 0.52 of a" },
    { "{" LLAMA ", \"rope_parameters\": {\"rope_type\": \"default\", "
      "\"partial_rotary_factor\": 0.02}}",
      "/partial_rotary_factor" },
    { "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 172, "
      "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 256, "
      "\"num_key_value_heads\": 3}",
      "/num_key_value_heads: 3 does not divide the heads, 4" },
    { "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 172, "
      "\"num_hidden_layers\": 2, \"num_attention_heads\": 5, \"vocab_size\": 256}",
      "/num_attention_heads: 5 does not divide the width, 64" },
    { "{" GPT2 ", \"scale_attn_weights\": false}", "/scale_attn_weights: attention that is not" },
    { "{" GPT2 ", \"add_cross_attention\": true}", "/add_cross_attention: attention to another" },
    { "{" GPT2 ", \"scale_attn_by_inverse_layer_idx\": true}", "scaled by layer" },
    { "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 1, "
      "\"vocab_size\": 9, \"activation_function\": \"relu\"}",
      "/activation_function: expected gelu_new, gelu_pytorch_tanh or gelu, got 'relu'" },
    { "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 172, "
      "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 256, "
      "\"hidden_act\": \"relu\"}",
      "/hidden_act: expected silu, gelu_new, gelu_pytorch_tanh or gelu, got 'relu'" },
    { "{" EXPERTS("qwen3_moe") ", \"decoder_sparse_step\": 0}", "/decoder_sparse_step: 0 is" },
    { "{" EXPERTS("qwen3_moe") ", \"mlp_only_layers\": [0, 3]}", "/mlp_only_layers: entry 1" },
    { "{" EXPERTS("qwen2_moe") ", \"mlp_only_layers\": [\"0\"]}", "/mlp_only_layers: entry 0" },
    { "{" EXPERTS("olmoe") ", \"clip_qkv\": 8}", "/clip_qkv" },
    { "{\"model_type\": \"mistral\", \"hidden_size\": 64, \"intermediate_size\": 172, "
      "\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"vocab_size\": 256, "
      "\"sliding_window\": 0}",
      "/sliding_window" },
};

START_TEST(what_is_not_computed_is_refused_with_its_place)
{
    struct spot_shape s;
    struct spot_err err;

    ck_assert_int_eq(CASES, sizeof(refused) / sizeof(refused[0]));
    ck_assert_int_eq(load(refused[_i].text, &s, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, refused[_i].expected), "%s", err.msg);
}
END_TEST

/* --- notes in a file of weights --- */

/* A file that begins with the length `n_said` and the header; returns what its notes are. */
static int noted(const char *header, uint64_t n_said, struct spot_shape *shape,
                 struct spot_err *err)
{
    char path[32], text[1024];
    int rc;

    spot_le_put((uint8_t *)text, n_said, 8);
    memcpy(text + 8, header, strlen(header));
    put_file(path, text, 8 + strlen(header));
    memset(shape, 0, sizeof(*shape));
    rc = spot_hf_config_noted(path, shape, err);
    if (rc < 0) /* "/tmp/spot-doc-...: __metadata__:..." */
        memmove(err->msg, err->msg + strlen(path), strlen(err->msg + strlen(path)) + 1);
    unlink(path);
    return rc;
}

static int noted_whole(const char *header, struct spot_shape *shape, struct spot_err *err)
{
    return noted(header, strlen(header), shape, err);
}

#define NOTES(more)                                                                        \
    "{\"__metadata__\":{\"format\":\"pt\",\"config\":\"{\\\"model_type\\\":\\\"llama\\\"," \
    "\\\"hidden_size\\\":8,\\\"num_hidden_layers\\\":2," more                              \
    "\\\"num_attention_heads\\\":2,\\\"intermediate_size\\\":12,\\\"vocab_size\\\":11,"    \
    "\\\"max_position_embeddings\\\":7,\\\"rope_theta\\\":100,"                            \
    "\\\"tie_word_embeddings\\\":true}\"}}"

START_TEST(the_notes_of_a_file_are_read_as_a_config)
{
    struct spot_shape s;
    struct spot_err err = { 0 };

    ck_assert_msg(noted_whole(NOTES(""), &s, &err) == 1, "%s", err.msg);
    ck_assert(s.kind.family == 1 && s.width == 8 && s.n_layer == 2 && s.n_head == 2);
    ck_assert(s.n_kv_head == 2 && s.ffn == 12 && s.vocab == 11 && s.seq == 7);
    ck_assert(s.rope_theta == 100 && s.is_tied == 1);
}
END_TEST

START_TEST(notes_that_cannot_be_computed_with_are_refused_as_notes)
{
    struct spot_shape s;
    struct spot_err err = { 0 };

    ck_assert_int_eq(noted_whole(NOTES("\\\"hidden_act\\\":\\\"relu\\\","), &s, &err), -1);
    ck_assert_msg(!strncmp(err.msg, ": __metadata__:1:", 17), "%s", err.msg);
    ck_assert_ptr_nonnull(strstr(err.msg, "'relu'"));
    ck_assert_int_eq(noted_whole(NOTES("\\\"num_key_value_heads\\\":\\\"2\\\","), &s, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "/num_key_value_heads: expected an integer"));
    ck_assert_int_eq(noted_whole("{\"__metadata__\":{\"config\":\"{\"}}", &s, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

/* A model of each family, as its file says it; and as we say it. */
START_TEST(what_is_written_of_a_shape_is_read_as_the_shape)
{
    char name[64], config[TINY_LINE];
    struct spot_shape is, again;
    struct spot_err err = { 0 };
    char *text;

    ck_assert(tiny_find(_i, name, config));
    ck_assert_msg(!spot_hf_config_parse(config, name, &is, &err), "%s", err.msg);
    if (is.kind.n_expert)
        return;
    text = spot_hf_config_text(&is);
    ck_assert_msg(!spot_hf_config_parse(text, name, &again, &err), "%s: %s", text, err.msg);
    ck_assert_msg(!memcmp(&is, &again, sizeof(is)), "%s", text);
    free(text);
}
END_TEST

START_TEST(a_file_without_notes_of_ours_has_none)
{
    static const char *const header[] = {
        "{}",
        "{\"__metadata__\":{\"format\":\"pt\"}}",
        "{\"__metadata__\":{\"config\":7}}",
        "{\"__metadata__\":[]}",
        "no JSON",
    };
    struct spot_shape s;
    struct spot_err err = { 0 };

    for (size_t i = 0; i < sizeof(header) / sizeof(header[0]); i++)
        ck_assert_int_eq(noted_whole(header[i], &s, &err), 0);
    ck_assert_int_eq(noted(NOTES(""), sizeof(NOTES("")) + 9, &s, &err), 0); /* it is cut */
    ck_assert_int_eq(noted(NOTES(""), sizeof(NOTES("")) - 5, &s, &err), 0); /* so is its JSON */
    ck_assert_int_eq(noted(NOTES(""), UINT64_C(1) << 62, &s, &err), 0);     /* nobody's length */
    ck_assert_int_eq(spot_hf_config_noted("/nowhere/model.safetensors", &s, &err), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, a_llama_tells_its_heads_and_the_base_of_its_angles, 0, 3);
    tcase_add_loop_test(tc, what_is_not_computed_is_refused_with_its_place, 0, CASES);
    tcase_add_loop_test(tc, what_is_written_of_a_shape_is_read_as_the_shape, 0, 17);
    add_tests(tc);
    return run_suite("hf_config", tc);
}

/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/le.h"
#include "decoder_f64.h"
#include "engine/stage.h"
#include "save_rig.h"
#include "shard/safetensors.h"
#include "suite.h"
#include "train/config.h"
#include "weights/load.h"

/* Goal: a file of Hugging Face's Llama, made by hand, is loaded into its places without any
 * permutation and computes the loss that their code computes; saving it gives the same bytes of
 * numbers; one file, several with an index, bare names, BF16 and tied heads are the same start. */

enum { L = 2, C = 24, H = 6, HK = 2, T = 7, V = 11, S = 2, F = 14, D = C / H, NAMES = 64 };
enum { KV = HK * D };

static const struct spot_job_config config = { .shape = { L, C, H, T, V, S, SPOT_DECODER_LLAMA, HK,
                                                          F, 100, 0, 3e-6 },
                                               .micro_batch = 1,
                                               .global_batch = 1,
                                               .n_step = 1,
                                               .kernel = "portable" };

static const struct {
    const char *name;
    uint64_t rows, cols;
} layer[] = { { "input_layernorm.weight", C, 0 },   { "self_attn.q_proj.weight", C, C },
              { "self_attn.k_proj.weight", KV, C }, { "self_attn.v_proj.weight", KV, C },
              { "self_attn.o_proj.weight", C, C },  { "post_attention_layernorm.weight", C, 0 },
              { "mlp.gate_proj.weight", F, C },     { "mlp.up_proj.weight", F, C },
              { "mlp.down_proj.weight", C, F } };
enum { PER_LAYER = sizeof(layer) / sizeof(layer[0]) };

static char dir[32];

static const char *in_dir(const char *name)
{
    static char path[4][128];
    static int next;

    next = (next + 1) % 4;
    snprintf(path[next], sizeof(path[next]), "%s/%s", dir, name);
    return path[next];
}

/* Element e of a tensor: a dyadic number that BF16 holds. */
static float value_of(const char *name, uint64_t e)
{
    const char *const bare = strncmp(name, "model.", 6) ? name : name + 6;
    uint32_t h = 17;

    for (const char *p = bare; *p; p++)
        h = h * 31 + (unsigned char)*p;
    return (float)((int)((h + e * 2654435761U) >> 7 & 0xFF) - 128) / 128;
}

/* A file in the manner of Hugging Face. */
struct kind {
    const char *prefix;
    enum spot_dtype dtype;
    bool is_tied, has_speeds, is_split;
};

static void add(struct spot_st_tensor *list, size_t *n, const struct kind *k, const char *name,
                uint64_t rows, uint64_t cols)
{
    list[*n] = (struct spot_st_tensor){
        .name = strdup(name), .dtype = k->dtype, .n_dim = cols ? 2 : 1, .dim = { rows, cols }
    };
    (*n)++;
}

/* The tensors, layers from the last to the first: [*n]. */
static void list_tensors(const struct kind *k, struct spot_st_tensor *list, size_t *n)
{
    char name[80];

    *n = 0;
    for (int l = L - 1; l >= 0; l--) {
        for (size_t i = 0; i < PER_LAYER; i++) {
            snprintf(name, sizeof(name), "%slayers.%d.%s", k->prefix, l, layer[i].name);
            add(list, n, k, name, layer[i].rows, layer[i].cols);
        }
        snprintf(name, sizeof(name), "%slayers.%d.self_attn.rotary_emb.inv_freq", k->prefix, l);
        if (k->has_speeds)
            add(list, n, k, name, D / 2, 0);
    }
    snprintf(name, sizeof(name), "%snorm.weight", k->prefix);
    add(list, n, k, name, C, 0);
    snprintf(name, sizeof(name), "%sembed_tokens.weight", k->prefix);
    add(list, n, k, name, V, C);
    if (!k->is_tied)
        add(list, n, k, "lm_head.weight", V, C);
}

static void write_file(const char *path, const struct spot_st_tensor *t, size_t n)
{
    struct spot_buf head = { 0 };
    FILE *const out = fopen(path, "w");

    spot_st_write(t, n, &head);
    fwrite(head.data, 1, head.n, out);
    for (size_t i = 0; i < n; i++)
        for (uint64_t e = 0; e < t[i].dim[0] * (t[i].n_dim > 1 ? t[i].dim[1] : 1); e++) {
            const float x = value_of(t[i].name, e);
            uint32_t bits;
            uint8_t raw[4];

            memcpy(&bits, &x, sizeof(bits));
            spot_le_put(raw, t[i].dtype == SPOT_DT_BF16 ? bits >> 16 : bits,
                        (int)spot_dtype_byte(t[i].dtype));
            fwrite(raw, 1, spot_dtype_byte(t[i].dtype), out);
        }
    fclose(out);
    spot_buf_release(&head);
}

/* DIR/model.safetensors, or two files and an index. */
static void write_kind(const struct kind *k)
{
    struct spot_st_tensor list[NAMES];
    size_t n;
    FILE *index;

    strcpy(dir, "/tmp/spot-llama-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    list_tensors(k, list, &n);
    if (!k->is_split) {
        write_file(in_dir("model.safetensors"), list, n);
    } else {
        write_file(in_dir("model-00001-of-00002.safetensors"), list, n / 2);
        write_file(in_dir("model-00002-of-00002.safetensors"), list + n / 2, n - n / 2);
        index = fopen(in_dir("model.safetensors.index.json"), "w");
        fprintf(index, "{\"weight_map\": {");
        for (size_t i = 0; i < n; i++)
            fprintf(index, "%s\"%s\": \"model-0000%d-of-00002.safetensors\"", i ? ", " : "",
                    list[i].name, i < n / 2 ? 1 : 2);
        fprintf(index, "}}");
        fclose(index);
    }
    for (size_t i = 0; i < n; i++)
        free(list[i].name);
}

static void remove_dir(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* Read the folder into bundles [L + 2]; returns the hash of its numbers. */
static uint64_t load(struct spot_bundle *bundle[])
{
    struct spot_err err;
    struct spot_weights *const w = spot_weights_open(dir, &config.shape, &err);
    uint64_t hash;

    ck_assert_msg(w, "%s", err.msg);
    hash = spot_weights_xxh3(w);
    for (int b = 0; b < L + 2; b++) {
        bundle[b] = calloc(1, sizeof(*bundle[b]));
        ck_assert_int_eq(spot_bundle_init(bundle[b], &config.shape, b, &err), 0);
        ck_assert_int_eq(spot_weights_read(w, bundle[b], &err), 0);
    }
    spot_weights_close(w);
    return hash;
}

static void release(struct spot_bundle *bundle[])
{
    for (int b = 0; b < L + 2; b++)
        spot_bundle_free(bundle[b]);
}

static struct f64_model oracle_of(struct spot_bundle *bundle[])
{
    struct f64_model o = { .shape = config.shape, .micro_batch = 1 };

    o.weight = calloc(L + 2, sizeof(*o.weight));
    o.grad = calloc(L + 2, sizeof(*o.grad));
    for (int b = 0; b < L + 2; b++) {
        o.weight[b] = f64_new((int64_t)bundle[b]->arena.n_elem);
        o.grad[b] = f64_new((int64_t)bundle[b]->arena.n_elem);
        for (size_t e = 0; e < bundle[b]->arena.n_elem; e++)
            o.weight[b][e] = bundle[b]->plane[SPOT_PLANE_MASTER][e];
    }
    return o;
}

static void oracle_release(struct f64_model *o)
{
    for (int b = 0; b < L + 2; b++) {
        free(o->weight[b]);
        free(o->grad[b]);
    }
    free(o->weight);
    free(o->grad);
}

/* The matrix that the oracle computes with is the file's, or its transpose. */
static void check_matrix(int l, const char *name, double *got, int64_t rows, int64_t cols,
                         bool is_transposed)
{
    char full[80];

    snprintf(full, sizeof(full), "layers.%d.%s", l - 1, name);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            if (got[r * cols + c] !=
                value_of(full, (uint64_t)(is_transposed ? c * rows + r : r * cols + c)))
                ck_abort_msg("%s, row %d, column %d", full, (int)r, (int)c);
    free(got);
}

START_TEST(the_oracles_matrices_are_those_of_the_file)
{
    const struct kind kind = { "model.", SPOT_DT_F32, false, true, false };
    struct spot_bundle *bundle[L + 2];
    struct f64_model o;

    write_kind(&kind);
    load(bundle);
    o = oracle_of(bundle);
    for (int l = 1; l <= L; l++) {
        check_matrix(l, "self_attn.q_proj.weight", f64_part_read(&o, l, "q"), C, C, false);
        check_matrix(l, "self_attn.k_proj.weight", f64_part_read(&o, l, "k"), KV, C, false);
        check_matrix(l, "self_attn.v_proj.weight", f64_part_read(&o, l, "v"), KV, C, false);
        check_matrix(l, "mlp.gate_proj.weight", f64_part_read(&o, l, "gate"), F, C, false);
        check_matrix(l, "mlp.up_proj.weight", f64_part_read(&o, l, "up"), F, C, false);
        check_matrix(l, "self_attn.o_proj.weight", f64_read(&o, l, "proj.w", C, C), C, C, true);
        check_matrix(l, "mlp.down_proj.weight", f64_read(&o, l, "down.w", F, C), F, C, true);
    }
    oracle_release(&o);
    release(bundle);
    remove_dir();
}
END_TEST

START_TEST(the_loss_is_that_of_the_transformers_library)
{
    /* LlamaForCausalLM of transformers 5.23 on the same numbers and tokens, with all in float64
     * (it computes angles, norms and softmax in float32: 3.7431438415889624), by rms_norm_eps */
    static const struct {
        double eps, loss;
    } published[] = { { 0, 3.7431437418178333 },
                      { 1e-5, 3.7431437418178333 },
                      { 1e-6, 3.743145984573281 },
                      { 1e-2, 3.7402628257199138 } };
    const struct kind kind = { "model.", SPOT_DT_F32, false, false, false };
    const uint32_t token[T + 1] = { 3, 1, 4, 1, 5, 9, 2, 6 };
    struct spot_stage_config stage_config = { .shape = config.shape,
                                              .bundle_end = L + 2,
                                              .micro_batch = 1,
                                              .n_slot = 1,
                                              .n_microbatch = 1,
                                              .n_thread = 2,
                                              .kernel = spot_kernel_find("portable", NULL) };
    struct spot_bundle *bundle[L + 2];
    struct spot_stage *stage;
    struct f64_model o;
    double loss;

    write_kind(&kind);
    load(bundle);
    o = oracle_of(bundle);
    stage_config.shape.norm_eps = o.shape.norm_eps = published[_i].eps;
    stage = spot_stage_new(&stage_config, bundle, NULL);
    spot_stage_forward(stage, 0, token, NULL, NULL, &loss);
    ck_assert_double_eq_tol(f64_microbatch(&o, token), published[_i].loss, 1e-13);
    ck_assert_double_eq_tol(loss, published[_i].loss, 2e-6);
    spot_stage_free(stage);
    oracle_release(&o);
    release(bundle);
    remove_dir();
}
END_TEST

START_TEST(the_same_numbers_in_other_files_are_the_same_start)
{
    static const struct kind kinds[] = {
        { "model.", SPOT_DT_F32, false, false, false },
        { "", SPOT_DT_F32, false, true, true },
        { "model.", SPOT_DT_BF16, false, true, true },
        { "model.", SPOT_DT_F32, true, false, true },
        { "", SPOT_DT_BF16, true, false, false },
    };
    uint64_t first[2] = { 0 };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct spot_bundle *bundle[L + 2];
        uint64_t *const want = &first[kinds[i].is_tied], hash;

        write_kind(&kinds[i]);
        hash = load(bundle);
        *want = *want ? *want : hash;
        ck_assert_uint_eq(hash, *want);
        release(bundle);
        remove_dir();
    }
    ck_assert_uint_ne(first[0], first[1]);
}
END_TEST

START_TEST(what_is_loaded_and_saved_has_every_bit_and_its_shape)
{
    static const struct kind kind = { "model.", SPOT_DT_F32, false, false, true };
    static const char *const notes[] = {
        "\\\"num_hidden_layers\\\":2",   "\\\"num_attention_heads\\\":6",
        "\\\"num_key_value_heads\\\":2", "\\\"hidden_size\\\":24",
        "\\\"intermediate_size\\\":14",  "\\\"max_position_embeddings\\\":7",
        "\\\"rope_theta\\\":100",        "\\\"rms_norm_eps\\\":3e-06",
        "\\\"vocab_size\\\":11",         "\\\"tie_word_embeddings\\\":false",
    };
    struct spot_bundle *bundle[L + 2], *again[L + 2];
    char text[2048] = "";
    FILE *in;

    write_kind(&kind);
    load(bundle);
    ck_assert_int_eq(unlink(in_dir("model.safetensors.index.json")), 0);
    ck_assert_int_eq(
        save_weights(in_dir("model.safetensors"), &config.shape, bundle, SPOT_DT_F32, NULL), 0);
    load(again);
    for (int b = 0; b < L + 2; b++)
        ck_assert_mem_eq(again[b]->plane[SPOT_PLANE_MASTER], bundle[b]->plane[SPOT_PLANE_MASTER],
                         bundle[b]->arena.n_elem * sizeof(float));
    in = fopen(in_dir("model.safetensors"), "r");
    ck_assert_uint_eq(fread(text, 1, sizeof(text) - 1, in), sizeof(text) - 1);
    fclose(in);
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        ck_assert_msg(strstr(text + 8, notes[i]), "no %s in %s", notes[i], text + 8);
    release(bundle);
    release(again);
    remove_dir();
}
END_TEST

START_TEST(what_does_not_fit_is_refused_by_name)
{
    const struct kind kind = { "model.", SPOT_DT_F32, false, false, false };
    struct spot_st_tensor list[NAMES];
    static const struct {
        int at;
        const char *name, *text; /* name NULL: one column more */
    } cases[] = {
        { 1, "model.layers.1.self_attn.q_proj.bias", "the model has no such tensor" },
        { 1, "transformer.h.1.ln_1.weight", "the model has no such tensor" },
        { 1, "model.layers.2.self_attn.q_proj.weight", "the model has no such tensor" },
        { 1, "layers.1.self_attn.k_proj.weight", "it is there twice" },
        { 1, "layers.1.self_attn.rotary_emb.inv_freq",
          "no tensor model.layers.1.self_attn.q_proj.weight" },
        { 2, NULL, "self_attn.k_proj.weight: shape 2D [8, 25], expected [8, 24]" },
        { 4, NULL, "self_attn.o_proj.weight: shape 2D [24, 25], expected [24, 24]" },
        { 8, NULL, "mlp.down_proj.weight: shape 2D [24, 15], expected [24, 14]" },
    };
    size_t n;

    strcpy(dir, "/tmp/spot-llama-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct spot_err err = { 0 };

        list_tensors(&kind, list, &n);
        if (cases[i].name) {
            free(list[cases[i].at].name);
            list[cases[i].at].name = strdup(cases[i].name);
        } else {
            list[cases[i].at].dim[1]++;
        }
        write_file(in_dir("model.safetensors"), list, n);
        ck_assert_ptr_null(spot_weights_open(dir, &config.shape, &err));
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, cases[i].text), "%s", err.msg);
        for (size_t t = 0; t < n; t++)
            free(list[t].name);
    }
    remove_dir();
}
END_TEST

/* A tied model's file may have the head, if it is the table once more. */
START_TEST(a_head_in_a_tied_models_file_is_the_table_or_refused)
{
    const struct kind tied = { "model.", SPOT_DT_F32, true, false, false };
    struct spot_shape shape = config.shape;
    struct spot_st_tensor list[NAMES];
    struct spot_err err = { 0 };
    struct spot_weights *w;
    uint64_t want;
    size_t n;
    FILE *file;

    write_kind(&tied);
    shape.is_tied = 1;
    w = spot_weights_open(dir, &shape, &err);
    ck_assert_msg(w, "%s", err.msg);
    want = spot_weights_xxh3(w);
    spot_weights_close(w);
    list_tensors(&tied, list, &n); /* the table is the last of all */
    ck_assert_str_eq(list[n - 1].name, "model.embed_tokens.weight");
    list[n] = list[n - 1];
    list[n].name = strdup("lm_head.weight");
    for (int is_same = 1; is_same >= 0; is_same--) {
        write_file(in_dir("model.safetensors"), list, n + 1);
        if (is_same) { /* write_file draws by name */
            char table[V * C * sizeof(float)];

            file = fopen(in_dir("model.safetensors"), "r+");
            ck_assert_int_eq(fseek(file, -2 * (long)sizeof(table), SEEK_END), 0);
            ck_assert_uint_eq(fread(table, 1, sizeof(table), file), sizeof(table));
            ck_assert_int_eq(fseek(file, -(long)sizeof(table), SEEK_END), 0);
            fwrite(table, 1, sizeof(table), file);
            fclose(file);
        }
        w = spot_weights_open(dir, &shape, &err);
        if (is_same) {
            ck_assert_msg(w, "%s", err.msg);
            ck_assert_uint_eq(spot_weights_xxh3(w), want);
            spot_weights_close(w);
        }
    }
    ck_assert_ptr_null(w);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "model.safetensors: lm_head.weight is not "
                                          "model.embed_tokens.weight: the head is not tied"));
    for (size_t i = 0; i <= n; i++)
        free(list[i].name);
    remove_dir();
}
END_TEST

START_TEST(a_number_that_is_none_is_refused_by_its_place)
{
    const struct kind kind = { "model.", SPOT_DT_F32, false, false, false };
    static const uint8_t nan_le[4] = { 0, 0, 0xC0, 0x7F };
    struct spot_err err = { 0 };
    FILE *file;

    write_kind(&kind);
    file = fopen(in_dir("model.safetensors"), "r+");
    ck_assert_int_eq(fseek(file, -8, SEEK_END), 0); /* of the head, the last but one */
    fwrite(nan_le, 1, sizeof(nan_le), file);
    fclose(file);
    ck_assert_ptr_null(spot_weights_open(dir, &config.shape, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(
        strstr(err.msg,
               "model.safetensors: lm_head.weight: element 262 is nan, expected a finite number"));
    remove_dir();
}
END_TEST

/* Numbers that BF16 does not hold, with what they round to, ties to even. */
START_TEST(weights_are_rounded_to_bf16_to_the_nearest_even)
{
    static const struct {
        float x, want;
    } round[] = {
        { 1.0F, 1.0F },
        { 0x1.01p0F, 1.0F },          /* half way between 1 and 1 + 2^-7: even is 1 */
        { 0x1.03p0F, 0x1.04p0F },     /* half way above 1 + 2^-7, which is odd */
        { 0x1.010002p0F, 0x1.02p0F }, /* a little more than half */
        { -0x1.03p0F, -0x1.04p0F },   /* by magnitude */
        { 0x1.fep-3F, 0x1.fep-3F },   /* held */
        { 0x1.fffffep-3F, 0x1p-2F },  /* carried into the exponent */
        { 0x1p-133F, 0x1p-133F },     /* the least that there is */
    };
    enum { N = sizeof(round) / sizeof(round[0]) };
    const struct kind kind = { "model.", SPOT_DT_F32, false, false, false };
    struct spot_bundle *bundle[L + 2], *again[L + 2];
    float *x;

    write_kind(&kind);
    load(bundle);
    x = bundle[0]->plane[SPOT_PLANE_MASTER];
    for (size_t i = 0; i < N; i++)
        x[i] = round[i].x;
    ck_assert_int_eq(
        save_weights(in_dir("model.safetensors"), &config.shape, bundle, SPOT_DT_BF16, NULL), 0);
    load(again);
    for (size_t i = 0; i < N; i++)
        ck_assert_msg(again[0]->plane[SPOT_PLANE_MASTER][i] == round[i].want, "%a became %a",
                      (double)round[i].x, (double)again[0]->plane[SPOT_PLANE_MASTER][i]);
    for (int b = 1; b < L + 2; b++) /* the rest is of numbers that it holds */
        ck_assert_mem_eq(again[b]->plane[SPOT_PLANE_MASTER], bundle[b]->plane[SPOT_PLANE_MASTER],
                         bundle[b]->arena.n_elem * sizeof(float));
    release(bundle);
    release(again);
    remove_dir();
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, the_loss_is_that_of_the_transformers_library, 0, 4);
    add_tests(tc);
    return run_suite("llama_files", tc);
}

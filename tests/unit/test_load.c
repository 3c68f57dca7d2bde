/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/le.h"
#include "engine/initial_weights.h"
#include "save_rig.h"
#include "shard/safetensors.h"
#include "suite.h"
#include "train/config.h"
#include "weights/load.h"

/* Goal: what was saved is loaded with the same bits; the same numbers in other files (several,
 * without the prefix, F16 or BF16, tied, with masks and more positions) are the same start; what
 * does not fit is refused with the file and the tensor. test_save proves the places of the saved
 * file by another path, so loading it back proves those of the loader. */

enum { L = 2, C = 24, H = 6, T = 5, V = 11, S = 3 };

static const struct spot_job_config config = { .shape = { L, C, H, T, V, S },
                                               .micro_batch = 1,
                                               .global_batch = 1,
                                               .n_step = 1,
                                               .kernel = "portable" };
static char dir[32];

static const char *in_dir(const char *name)
{
    static char path[4][128];
    static int next;

    next = (next + 1) % 4;
    snprintf(path[next], sizeof(path[next]), "%s/%s", dir, name);
    return path[next];
}

static void make_dir(void)
{
    strcpy(dir, "/tmp/spot-load-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static struct spot_bundle *make(int index)
{
    struct spot_bundle *const b = calloc(1, sizeof(*b));

    ck_assert_int_eq(spot_bundle_init(b, &config.shape, index, NULL), 0);
    return b;
}

START_TEST(what_was_saved_is_loaded_with_the_same_bits)
{
    struct spot_bundle *saved[L + 2];
    struct spot_weights *w;
    struct spot_err err;

    make_dir();
    for (int i = 0; i < L + 2; i++) {
        saved[i] = make(i);
        spot_bundle_start(saved[i], &config.shape, 7);
    }
    ck_assert_int_eq(save_weights(in_dir("w"), &config.shape, saved, SPOT_DT_F32, &err), 0);
    w = spot_weights_open(in_dir("w"), &config.shape, &err);
    ck_assert_msg(w, "%s", err.msg);
    for (int i = 0; i < L + 2; i++) {
        struct spot_bundle *const b = make(i);

        ck_assert_int_eq(spot_weights_read(w, b, &err), 0);
        for (int p = 0; p < SPOT_PLANES; p++)
            ck_assert_mem_eq(b->plane[p], saved[i]->plane[p], b->arena.n_elem * sizeof(float));
        spot_bundle_free(b);
        spot_bundle_free(saved[i]);
    }
    spot_weights_close(w);
    remove_dir();
}
END_TEST

START_TEST(a_part_has_the_bits_of_the_whole_and_no_others)
{
    uint64_t expected[L + 2];
    struct spot_bundle *const saved[] = { make(0), make(1), make(2), make(3) };
    struct spot_weights *w;
    struct spot_err err;

    ck_assert_uint_eq(sizeof(saved) / sizeof(saved[0]), L + 2);
    make_dir();
    for (int i = 0; i < L + 2; i++)
        spot_bundle_start(saved[i], &config.shape, 7);
    ck_assert_int_eq(save_weights(in_dir("w"), &config.shape, saved, SPOT_DT_F32, &err), 0);
    w = spot_weights_open(in_dir("w"), &config.shape, &err);
    ck_assert_msg(w, "%s", err.msg);
    memcpy(expected, spot_weights_bundle_xxh3(w), sizeof(expected));
    spot_weights_close(w);
    /* the file holds other numbers in bundle 1 by now */
    saved[1]->plane[0][0] += 1;
    ck_assert_int_eq(save_weights(in_dir("w"), &config.shape, saved, SPOT_DT_F32, &err), 0);
    w = spot_weights_open_part(in_dir("w"), &config.shape, expected, &err);
    ck_assert_msg(w, "%s", err.msg);
    ck_assert_uint_eq(spot_weights_xxh3(w), 0);
    for (int i = 0; i < L + 2; i++) {
        struct spot_bundle *const b = make(i);
        const int rc = spot_weights_read(w, b, &err);

        if (i == 1) {
            ck_assert_int_eq(rc, -1);
            ck_assert_int_eq(err.code, SPOT_EDATA);
            ck_assert_ptr_nonnull(strstr(err.msg, "bundle 1 has changed since"));
        } else {
            ck_assert_msg(!rc, "%s", err.msg);
            ck_assert_mem_eq(b->plane[0], saved[i]->plane[0], b->arena.n_elem * sizeof(float));
        }
        spot_bundle_free(b);
        spot_bundle_free(saved[i]);
    }
    spot_weights_close(w);
    remove_dir();
}
END_TEST

/* --- files made by hand ------------------------------------------------------- */

struct kind {
    const char *prefix;
    enum spot_dtype dtype;
    bool is_tied, has_masks;
    int64_t positions;
};

/* The tensors of the model in the manner of `k`: [*n]. */
static struct spot_st_tensor *tensors(const struct kind *k, size_t *n)
{
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } layer[] = { { "ln_1.weight", C, 0 },
                  { "ln_1.bias", C, 0 },
                  { "attn.c_attn.weight", C, 3 * C },
                  { "attn.c_attn.bias", 3 * C, 0 },
                  { "attn.c_proj.weight", C, C },
                  { "attn.c_proj.bias", C, 0 },
                  { "ln_2.weight", C, 0 },
                  { "ln_2.bias", C, 0 },
                  { "mlp.c_fc.weight", C, 4 * C },
                  { "mlp.c_fc.bias", 4 * C, 0 },
                  { "mlp.c_proj.weight", 4 * C, C },
                  { "mlp.c_proj.bias", C, 0 } };
    struct spot_st_tensor *const t = calloc(64, sizeof(*t));
    size_t at = 0;

#define ADD(r, c, ...)                                                                       \
    do {                                                                                     \
        t[at] = (struct spot_st_tensor){                                                     \
            .dtype = k->dtype, .n_dim = (c) ? 2 : 1, .dim = { (r), (c) }, .name = malloc(80) \
        };                                                                                   \
        snprintf(t[at++].name, 80, __VA_ARGS__);                                             \
    } while (0)

    for (int l = L - 1; l >= 0; l--) { /* in another order than ours */
        for (size_t i = 0; i < sizeof(layer) / sizeof(layer[0]); i++)
            ADD(layer[i].rows, layer[i].cols, "%sh.%d.%s", k->prefix, l, layer[i].name);
        if (k->has_masks)
            ADD(T, T, "%sh.%d.attn.bias", k->prefix, l);
    }
    ADD((uint64_t)k->positions, C, "%swpe.weight", k->prefix);
    ADD(V, C, "%swte.weight", k->prefix);
    ADD(C, 0, "%sln_f.weight", k->prefix);
    ADD(C, 0, "%sln_f.bias", k->prefix);
    if (!k->is_tied)
        ADD(V, C, "lm_head.weight");
    *n = at;
    return t;
}

/* Element e of a tensor: a small dyadic number that every type holds. The head's are the
 * embedding's. */
static float value_of(const char *name, uint64_t e)
{
    const char *const dot = strncmp(name, "transformer.", 12) ? name : name + 12;
    uint32_t h = 17;

    for (const char *p = strcmp(dot, "lm_head.weight") ? dot : "wte.weight"; *p; p++)
        h = h * 31 + (unsigned char)*p;
    return (float)((int)((h + e * 2654435761U) >> 7 & 0xFF) - 128) / 64;
}

static void put_value(FILE *out, float x, enum spot_dtype dtype)
{
    uint8_t raw[4];
    uint32_t bits;
    int e = 0;

    memcpy(&bits, &x, 4);
    if (dtype == SPOT_DT_BF16)
        bits >>= 16;
    if (dtype == SPOT_DT_F16) { /* normal numbers only, and zero */
        const double f = frexp(fabs((double)x), &e);

        bits = (x < 0 ? 0x8000U : 0) |
               (x == 0 ? 0 : (uint32_t)(e + 14) << 10 | ((uint32_t)(f * 2048) & 0x3FF));
    }
    spot_le_put(raw, bits, (int)spot_dtype_byte(dtype));
    fwrite(raw, 1, spot_dtype_byte(dtype), out);
}

static void write_tensors(const char *path, const struct spot_st_tensor *t, size_t n)
{
    struct spot_buf head = { 0 };
    FILE *const out = fopen(path, "w");

    spot_st_write(t, n, &head);
    fwrite(head.data, 1, head.n, out);
    for (size_t i = 0; i < n; i++)
        for (uint64_t e = 0; e < t[i].dim[0] * (t[i].n_dim > 1 ? t[i].dim[1] : 1); e++)
            put_value(out, value_of(t[i].name, e), t[i].dtype);
    fclose(out);
    spot_buf_release(&head);
}

/* One file, or every third tensor in each of three and an index. */
static void write_kind(const struct kind *k, const char *name, bool is_split)
{
    size_t n;
    struct spot_st_tensor *const t = tensors(k, &n);
    FILE *index;

    if (!is_split) {
        write_tensors(in_dir(name), t, n);
    } else {
        mkdir(in_dir(name), 0700);
        index = fopen(in_dir("split/model.safetensors.index.json"), "w");
        fprintf(index, "{\"metadata\": {}, \"weight_map\": {");
        for (size_t i = 0; i < n; i++)
            fprintf(index, "%s\"%s\": \"part-%zu.safetensors\"", i ? ", " : "", t[i].name,
                    i * 3 / n);
        fprintf(index, "}}");
        fclose(index);
        for (size_t part = 0, from = 0, to = 0; part < 3; part++, from = to) {
            char file[40];

            snprintf(file, sizeof(file), "split/part-%zu.safetensors", part);
            while (to < n && to * 3 / n == part)
                to++;
            write_tensors(in_dir(file), t + from, to - from);
        }
    }
    for (size_t i = 0; i < n; i++)
        free(t[i].name);
    free(t);
}

static void check_values(const struct spot_weights *w)
{
    struct spot_bundle *const e = make(0), *const head = make(L + 1);
    const int wte = spot_arena_find(&e->arena, "wte"),
              out = spot_arena_find(&head->arena, "head.w"),
              wpe = spot_arena_find(&e->arena, "wpe");

    ck_assert_int_eq(spot_weights_read(w, e, NULL), 0);
    ck_assert_int_eq(spot_weights_read(w, head, NULL), 0);
    for (uint64_t r = 0; r < V; r++)
        for (uint64_t c = 0; c < C; c++) {
            const float want = value_of("wte.weight", r * C + c);

            ck_assert(e->plane[0][spot_arena_offset(&e->arena, wte, (int)r / 4) + r % 4 * C + c] ==
                      want);
            ck_assert(
                head->plane[0][spot_arena_offset(&head->arena, out, (int)r / 4) + r % 4 * C + c] ==
                want);
        }
    for (uint64_t i = 0; i < T * C; i++)
        ck_assert(e->plane[0][spot_arena_offset(&e->arena, wpe, 0) + i] ==
                  value_of("wpe.weight", i));
    spot_bundle_free(e);
    spot_bundle_free(head);
}

START_TEST(the_same_numbers_in_other_files_are_the_same_start)
{
    static const struct kind kinds[] = {
        { "transformer.", SPOT_DT_F32, false, false, T }, { "", SPOT_DT_F32, true, true, T },
        { "transformer.", SPOT_DT_BF16, true, false, T }, { "", SPOT_DT_F16, false, true, T + 4 },
        { "transformer.", SPOT_DT_F16, true, true, T },
    };
    uint64_t first = 0;

    make_dir();
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        for (int split = 0; split < 2; split++) {
            struct spot_weights *w;
            struct spot_err err;

            write_kind(&kinds[i], split ? "split" : "one", split);
            w = spot_weights_open(in_dir(split ? "split" : "one"), &config.shape, &err);
            ck_assert_msg(w, "%s", err.msg);
            check_values(w);
            first = first ? first : spot_weights_xxh3(w);
            ck_assert_uint_eq(spot_weights_xxh3(w), first);
            spot_weights_close(w);
        }
    remove_dir();
}
END_TEST

static const struct kind plain = { "", SPOT_DT_F32, false, false, T };

/* --- faults ------------------------------------------------------------------- */

static void refused(const char *path, int code, const char *text)
{
    struct spot_err err = { 0 };

    ck_assert_ptr_null(spot_weights_open(path, &config.shape, &err));
    ck_assert_msg((int)err.code == code && strstr(err.msg, text), "%s", err.msg);
}

START_TEST(what_does_not_fit_is_refused_by_name)
{
    struct kind k;
    size_t n;
    struct spot_st_tensor *t = tensors(&plain, &n);

    make_dir();
    refused(in_dir("absent"), SPOT_ESYS, "cannot open");
    refused(dir, SPOT_ESYS, "model.safetensors");
    write_tensors(in_dir("w"), t + 1, n - 1);
    refused(in_dir("w"), SPOT_EDATA, "no tensor transformer.h.1.ln_1.weight");
    t[2].dim[1]++;
    write_tensors(in_dir("w"), t, n);
    refused(in_dir("w"), SPOT_EDATA,
            "h.1.attn.c_attn.weight: shape 2D [24, 73], expected [24, 72]");
    t[2].dim[1]--;
    t[0].n_dim = 2;
    t[0].dim[1] = 1;
    write_tensors(in_dir("w"), t, n);
    refused(in_dir("w"), SPOT_EDATA, "h.1.ln_1.weight: shape 2D [24, 1], expected [24]");
    t[0].n_dim = 1;
    t[3].dtype = SPOT_DT_U32; /* as many bytes */
    write_tensors(in_dir("w"), t, n);
    refused(in_dir("w"), SPOT_EDATA, "h.1.attn.c_attn.bias: type U32, expected F32");
    t[3].dtype = SPOT_DT_F32;
    strcpy(t[1].name, "h.2.ln_1.bias");
    write_tensors(in_dir("w"), t, n);
    refused(in_dir("w"), SPOT_EDATA, "h.2.ln_1.bias: the model has no such tensor");
    strcpy(t[1].name, "transformer.h.1.ln_1.weight");
    write_tensors(in_dir("w"), t, n);
    refused(in_dir("w"), SPOT_EDATA, "it is there twice");
    for (size_t i = 0; i < n; i++)
        free(t[i].name);
    free(t);

    k = plain;
    k.positions = T - 1;
    write_kind(&k, "w", false);
    refused(in_dir("w"), SPOT_EDATA, "wpe.weight: shape 2D [4, 24], expected [5, 24]");
    write_kind(&plain, "w", false);
    ck_assert_int_eq(truncate(in_dir("w"), 4000), 0);
    refused(in_dir("w"), SPOT_EDATA, "the header says");
    ck_assert_int_eq(truncate(in_dir("w"), 5), 0);
    refused(in_dir("w"), SPOT_EDATA, "shorter than 8 bytes");
    remove_dir();
}
END_TEST

START_TEST(an_index_that_leads_astray_is_refused)
{
    static const struct {
        const char *index, *text;
        int code;
    } cases[] = {
        { "{\"weight_map\": {\"a\": \"../w\"}}", "must name a file beside", SPOT_EDATA },
        { "{\"weight_map\": {\"a\": 3}}", "must name a file beside", SPOT_EDATA },
        { "{\"weight_map\": {\"a\": \"gone\"}}", "cannot open", SPOT_ESYS },
        { "{\"weight_map\": {\"transformer.wte.weight\": \"one\"}}",
          "one has no tensor 'transformer.wte.weight'", SPOT_EDATA },
        { "{\"weight_map\": {}}", "no files in the index", SPOT_EDATA },
        { "{\"weight_map\": []}", "weight_map", SPOT_EDATA },
        { "{}", "weight_map", SPOT_EDATA },
        { "{", ":1:", SPOT_EDATA },
    };

    make_dir();
    write_kind(&plain, "one", false); /* has "wte.weight" */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FILE *const out = fopen(in_dir("x.index.json"), "w");

        fputs(cases[i].index, out);
        fclose(out);
        refused(in_dir("x.index.json"), cases[i].code, cases[i].text);
    }
    remove_dir();
}
END_TEST

static void put(const char *name, const char *text)
{
    FILE *const out = fopen(in_dir(name), "w");

    fputs(text, out);
    fclose(out);
}

START_TEST(a_head_that_is_missing_is_refused_where_a_file_says_that_it_is_not_tied)
{
    static const char shape[] = "{\"model_type\":\"gpt2\",\"n_embd\":24,\"n_layer\":2,\"n_head\":6,"
                                "\"vocab_size\":11,\"n_positions\":5";
    const struct kind tied = { "transformer.", SPOT_DT_F32, true, false, T };
    struct spot_weights *w;
    struct spot_err err = { 0 };
    char said[512];

    make_dir();
    mkdir(in_dir("split"), 0700);
    write_kind(&tied, "split/model.safetensors", false);
    for (int is_split = 0; is_split < 2; is_split++) {
        snprintf(said, sizeof(said), "%s,\"tie_word_embeddings\":false}", shape);
        put("split/config.json", said);
        refused(in_dir("split"), SPOT_EDATA, "no tensor lm_head.weight, and ");
        refused(in_dir("split"), SPOT_EDATA, "config.json says that the head is not tied");
        snprintf(said, sizeof(said), "%s}", shape); /* GPT-2 is tied by itself */
        put("split/config.json", said);
        w = spot_weights_open(in_dir("split"), &config.shape, &err);
        ck_assert_msg(w, "%s", err.msg);
        check_values(w);
        spot_weights_close(w);
        unlink(in_dir("split/model.safetensors"));
        write_kind(&tied, "split", true);
    }
    remove_dir();
}
END_TEST

START_TEST(one_file_beside_an_index_of_others_is_refused)
{
    struct spot_weights *w;
    struct spot_err err = { 0 };

    make_dir();
    write_kind(&plain, "split", true);
    write_kind(&plain, "split/model.safetensors", false);
    refused(in_dir("split"), SPOT_EDATA,
            "split/model.safetensors is not listed in model.safetensors.index.json beside it");
    w = spot_weights_open(in_dir("split/model.safetensors"), &config.shape, &err);
    ck_assert_msg(w, "%s", err.msg);
    spot_weights_close(w);
    w = spot_weights_open(in_dir("split/model.safetensors.index.json"), &config.shape, &err);
    ck_assert_msg(w, "%s", err.msg);
    spot_weights_close(w);
    put("split/model.safetensors.index.json",
        "{\"weight_map\": {\"wte.weight\": \"model.safetensors\"}}");
    w = spot_weights_open(in_dir("split"), &config.shape, &err);
    ck_assert_msg(w, "%s", err.msg);
    spot_weights_close(w);
    put("split/adapter_config.json", "{}");
    refused(in_dir("split"), SPOT_EDATA,
            "split/adapter_config.json: this is an adapter, not a model");
    remove_dir();
}
END_TEST

START_TEST(files_of_other_formats_are_named_as_what_they_are)
{
    static const struct {
        const char *file, *start, *expected;
    } cases[] = {
        { "model.safetensors", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull" },
        { "model.safetensors", "GGUF\3\0\0\0", "GGUF" },
        { "model.Q8_0.gguf", "GGUF", "model.Q8_0.gguf: GGUF" },
        { "pytorch_model.bin", "PK\3\4", "PyTorch" },
        { "tf_model.h5", "\211HDF", "TensorFlow" },
        { "tokenizer.json", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull" },
    };
    struct spot_err err = { 0 };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FILE *out;

        make_dir();
        out = fopen(in_dir(cases[i].file), "w");
        ck_assert(out && fprintf(out, "%s and more", cases[i].start) > 0 && !fclose(out));
        ck_assert_ptr_null(spot_weights_open(dir, &config.shape, &err));
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, cases[i].expected) != NULL, "%s", err.msg);
        remove_dir();
    }
    ck_assert_ptr_null(spot_weights_open("nobody-has/such-a-model", &config.shape, &err));
    ck_assert_msg(strstr(err.msg, "hub") != NULL, "%s", err.msg);
}
END_TEST

int main(void)
{
    return run_suite("load", add_tests(tcase_create("core")));
}

/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/bundle_io.h"
#include "save_rig.h"
#include "shard/safetensors.h"
#include "suite.h"
#include "train/config.h"

/* Goal: a bundle packed and unpacked has the same bits, a damaged one is refused; the saved file
 * has GPT-2's names and shapes, and each value stands where the layout's definition (reference:
 * arena.h, heads of a shard together) says, found by another path than save.c takes. */

enum {
    L = 2,
    C = 24,
    H = 6,
    T = 5,
    V = 11,
    S = 3,
    HEAD = C / H,
    HEADS = H / S,
    VS = 4 /* rows of V in a shard, one of the last is padding */
};

static const struct spot_job_config config = { .shape = { L, C, H, T, V, S },
                                               .micro_batch = 1,
                                               .global_batch = 1,
                                               .n_step = 1,
                                               .kernel = "portable" };

/* A bundle in which every element of every plane is different. */
static struct spot_bundle *make(int index)
{
    struct spot_bundle *b = calloc(1, sizeof(*b));

    ck_assert_int_eq(spot_bundle_init(b, &config.shape, index, NULL), 0);
    b->step = 77;
    for (int p = 0; p < SPOT_PLANES; p++)
        for (size_t i = 0; i < b->arena.n_elem; i++)
            b->plane[p][i] = (float)(index * 100000 + p * 30000) + (float)i;
    for (int t = 0; t < SPOT_TENSORS_MAX; t++)
        b->exponent[t] = index * 50 - t;
    return b;
}

START_TEST(a_bundle_comes_back_bit_for_bit)
{
    for (int index = 0; index < L + 2; index++) {
        struct spot_bundle *b = make(index), *got;
        size_t n;
        uint8_t *data = spot_bundle_pack(b, &n, NULL);

        got = spot_bundle_unpack(&config.shape, index, 77, data, n, NULL);
        ck_assert_ptr_nonnull(got);
        ck_assert_int_eq(got->step, 77);
        ck_assert_int_eq(got->index, index);
        for (int p = 0; p < SPOT_PLANES; p++)
            ck_assert_mem_eq(got->plane[p], b->plane[p], b->arena.n_elem * sizeof(float));
        ck_assert_mem_eq(got->exponent, b->exponent, sizeof(b->exponent));
        spot_bundle_free(got);
        spot_bundle_free(b);
        free(data);
    }
}
END_TEST

START_TEST(a_bundle_in_pieces_has_the_same_bytes)
{
    for (int index = 0; index < L + 2; index++) {
        struct spot_bundle *b = make(index);
        struct spot_bundle_writer *w = spot_bundle_writer_new(b, NULL);
        struct spot_buf pieces = { 0 };
        size_t n;
        uint8_t *data = spot_bundle_pack(b, &n, NULL);
        int more = 1;

        while (more > 0)
            more = spot_bundle_writer_next(w, &pieces, NULL);
        ck_assert_int_eq(more, 0);
        ck_assert_uint_eq(pieces.n, n);
        ck_assert_mem_eq(pieces.data, data, n);
        ck_assert_int_eq(spot_bundle_check(&config.shape, index, 77, data, n, NULL), 0);
        data[n / 2] ^= 1;
        ck_assert_int_eq(spot_bundle_check(&config.shape, index, 77, data, n, NULL), -1);
        spot_bundle_writer_free(w);
        spot_buf_release(&pieces);
        spot_bundle_free(b);
        free(data);
    }
}
END_TEST

START_TEST(damaged_cut_or_other_bundles_are_refused)
{
    struct spot_bundle *b = make(1);
    struct spot_err err = { 0 };
    size_t n;
    uint8_t *data = spot_bundle_pack(b, &n, NULL);

    ck_assert_ptr_null(spot_bundle_unpack(&config.shape, 1, 78, data, n, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_null(spot_bundle_unpack(&config.shape, 0, 77, data, n, &err));
    for (size_t cut = 0; cut < n; cut += cut < 200 ? 1 : 997)
        ck_assert_ptr_null(spot_bundle_unpack(&config.shape, 1, 77, data, cut, NULL));
    for (size_t at = 0; at < n; at += at < 200 ? 1 : 499) {
        struct spot_bundle *got;

        data[at] ^= 0x10;
        got = spot_bundle_unpack(&config.shape, 1, 77, data, n, NULL);
        ck_assert_msg(got == NULL, "byte %zu of %zu was changed", at, n);
        data[at] ^= 0x10;
    }
    spot_bundle_free(b);
    free(data);
}
END_TEST

/* Element of a tensor in a shard, straight from the arena. */
static float in_shard(const struct spot_bundle *b, const char *name, int shard, int64_t row,
                      int64_t col)
{
    const int t = spot_arena_find(&b->arena, name);

    return b->plane[0][spot_arena_offset(&b->arena, t, shard) +
                       (size_t)(row * b->arena.tensor[t].cols + col)];
}

struct file {
    struct spot_st st;
    float *data;
};

static void load(struct file *f, const char *path)
{
    uint8_t prefix[SPOT_ST_PREFIX_BYTE];
    FILE *in = fopen(path, "r");
    uint64_t n;
    char *text;

    ck_assert_uint_eq(fread(prefix, 1, 8, in), 8);
    ck_assert_int_eq(spot_st_prefix(prefix, path, &n, NULL), 0);
    text = malloc(n);
    ck_assert_uint_eq(fread(text, 1, n, in), n);
    ck_assert_int_eq(spot_st_parse(&f->st, text, n, path, NULL), 0);
    f->data = malloc(f->st.data_byte);
    ck_assert_uint_eq(fread(f->data, 1, f->st.data_byte, in), f->st.data_byte);
    ck_assert_int_eq(fgetc(in), EOF);
    fclose(in);
    free(text);
}

/* The tensor of that name, whose shape must be rows x cols (cols 0: a vector). */
static const float *tensor(const struct file *f, const char *name, uint64_t rows, uint64_t cols)
{
    const ptrdiff_t i = spot_st_find(&f->st, name);

    ck_assert_msg(i >= 0, "%s", name);
    ck_assert_int_eq(f->st.tensor[i].dtype, SPOT_DT_F32);
    ck_assert_int_eq(f->st.tensor[i].n_dim, cols ? 2 : 1);
    ck_assert_uint_eq(f->st.tensor[i].dim[0], rows);
    ck_assert(!cols || f->st.tensor[i].dim[1] == cols);
    return f->data + f->st.tensor[i].begin / sizeof(float);
}

#define SAME(a, b)                                                            \
    do {                                                                      \
        if ((a) != (b))                                                       \
            ck_abort_msg(#a " is %g, expected %g", (double)(a), (double)(b)); \
    } while (0)

static void check_attention(const struct file *f, const struct spot_bundle *b, const char *layer)
{
    const float *w, *bias, *proj;
    char name[64];

    snprintf(name, sizeof(name), "%s.attn.c_attn.weight", layer);
    w = tensor(f, name, C, 3 * C);
    snprintf(name, sizeof(name), "%s.attn.c_attn.bias", layer);
    bias = tensor(f, name, 3 * C, 0);
    for (int part = 0; part < 3; part++)
        for (int head = 0; head < H; head++)
            for (int d = 0; d < HEAD; d++) {
                const int col = part * C + head * HEAD + d, shard = head / HEADS;
                const int row = part * HEADS * HEAD + head % HEADS * HEAD + d;

                SAME(bias[col], in_shard(b, "qkv.b", shard, row, 0));
                for (int i = 0; i < C; i++)
                    SAME(w[i * 3 * C + col], in_shard(b, "qkv.w", shard, row, i));
            }
    snprintf(name, sizeof(name), "%s.attn.c_proj.weight", layer);
    proj = tensor(f, name, C, C);
    for (int i = 0; i < C; i++)
        for (int o = 0; o < C; o++)
            SAME(proj[i * C + o], in_shard(b, "proj.w", i / (C / S), i % (C / S), o));
}

static void check_mlp(const struct file *f, const struct spot_bundle *b, const char *layer)
{
    const int part = 4 * C / S;
    const float *w1, *w2, *b1, *b2;
    char name[64];

    snprintf(name, sizeof(name), "%s.mlp.c_fc.weight", layer);
    w1 = tensor(f, name, C, 4 * C);
    snprintf(name, sizeof(name), "%s.mlp.c_fc.bias", layer);
    b1 = tensor(f, name, 4 * C, 0);
    snprintf(name, sizeof(name), "%s.mlp.c_proj.weight", layer);
    w2 = tensor(f, name, 4 * C, C);
    snprintf(name, sizeof(name), "%s.mlp.c_proj.bias", layer);
    b2 = tensor(f, name, C, 0);
    for (int k = 0; k < 4 * C; k++) {
        SAME(b1[k], in_shard(b, "up.b", k / part, k % part, 0));
        for (int i = 0; i < C; i++) {
            SAME(w1[i * 4 * C + k], in_shard(b, "up.w", k / part, k % part, i));
            SAME(w2[k * C + i], in_shard(b, "down.w", k / part, k % part, i));
            SAME(b2[i], in_shard(b, "down.b", 0, i, 0));
        }
    }
}

START_TEST(the_header_says_what_a_reader_needs_to_build_the_model)
{
    static const char want[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"config\":\"{\\\"architectures\\\":["
        "\\\"GPT2LMHeadModel\\\"],\\\"model_type\\\":\\\"gpt2\\\",\\\"n_layer\\\":2,\\\"n_head\\\":"
        "6,"
        "\\\"n_embd\\\":24,\\\"n_positions\\\":5,\\\"layer_norm_epsilon\\\":1e-05,"
        "\\\"activation_function\\\":\\\"gelu_new\\\",\\\"resid_pdrop\\\":0,\\\"embd_pdrop\\\":0,"
        "\\\"attn_pdrop\\\":0,\\\"vocab_size\\\":11,\\\"tie_word_embeddings\\\":false}\"},"
        "\"transformer.";
    struct spot_bundle *bundle[L + 2];
    char path[] = "/tmp/spot-save-XXXXXX", got[8 + sizeof(want)] = "";
    FILE *in;

    close(mkstemp(path));
    for (int b = 0; b < L + 2; b++)
        bundle[b] = make(b);
    ck_assert_int_eq(save_weights(path, &config.shape, bundle, SPOT_DT_F32, NULL), 0);
    in = fopen(path, "r");
    ck_assert_uint_eq(fread(got, 1, 8 + sizeof(want) - 1, in), 8 + sizeof(want) - 1);
    ck_assert_str_eq(got + 8, want);
    fclose(in);
    for (int b = 0; b < L + 2; b++)
        spot_bundle_free(bundle[b]);
    unlink(path);
}
END_TEST

START_TEST(saved_weights_stand_where_gpt2_has_them)
{
    char path[] = "/tmp/spot-save-XXXXXX";
    const int fd = mkstemp(path);
    struct spot_bundle *bundle[L + 2];
    struct file f;

    close(fd);
    for (int b = 0; b < L + 2; b++)
        bundle[b] = make(b);
    ck_assert_int_eq(save_weights(path, &config.shape, bundle, SPOT_DT_F32, NULL), 0);
    load(&f, path);
    ck_assert_uint_eq(f.st.n_tensor, 2 + 12 * L + 3);
    ck_assert_uint_eq(f.st.data_byte / 4, (uint64_t)spot_shape_params(&config.shape));
    for (int t = 0; t < V; t++)
        for (int i = 0; i < C; i++) {
            SAME(tensor(&f, "transformer.wte.weight", V, C)[t * C + i],
                 in_shard(bundle[0], "wte", t / VS, t % VS, i));
            SAME(tensor(&f, "lm_head.weight", V, C)[t * C + i],
                 in_shard(bundle[L + 1], "head.w", t / VS, t % VS, i));
        }
    for (int t = 0; t < T; t++)
        for (int i = 0; i < C; i++)
            SAME(tensor(&f, "transformer.wpe.weight", T, C)[t * C + i],
                 in_shard(bundle[0], "wpe", 0, t, i));
    for (int l = 0; l < L; l++) {
        char layer[32];

        snprintf(layer, sizeof(layer), "transformer.h.%d", l);
        check_attention(&f, bundle[l + 1], layer);
        check_mlp(&f, bundle[l + 1], layer);
    }
    for (int i = 0; i < C; i++)
        SAME(tensor(&f, "transformer.ln_f.bias", C, 0)[i],
             in_shard(bundle[L + 1], "lnf.b", 0, i, 0));
    for (int b = 0; b < L + 2; b++)
        spot_bundle_free(bundle[b]);
    spot_st_release(&f.st);
    free(f.data);
    unlink(path);
}
END_TEST

int main(void)
{
    return run_suite("save", add_tests(tcase_create("core")));
}

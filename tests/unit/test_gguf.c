/* SPDX-License-Identifier: MIT */
/* Goal: a GGUF file's numbers are those of gguf-py, its rows lie where Hugging Face's files have
 * them, and a header that lies is refused before memory is taken for it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/le.h"
#include "common/temp.h"
#include "doc_rig.h"
#include "weights/gguf.h"
#include "weights/gguf_docs.h"
#include "weights/gguf_quant.h"
#include "weights/hf_config.h"
#include "weights/load.h"

/* --- numbers
 * --------------------------------------------------------------------------------------- */

/* Bytes are i * i * 7 + i * 37 + 11, halves .0371 (1 + at) at `half`; the hash of the floats' bits,
 * h = h * 1000003 + bits, first and last number: of gguf-py 0.19.0. */
static const struct {
    int type;
    const char *name;
    int n, half[2];
    uint32_t hash;
    float first, last;
} kind[] = {
    { 2, "Q4_0", 32, { 0, -1 }, 0xd0aa0000, -0.259765625F, -0.07421875F },
    { 3, "Q4_1", 32, { 0, 2 }, 0xa0208000, 0.66796875F, 0.482421875F },
    { 6, "Q5_0", 32, { 0, -1 }, 0x212d8000, 0.185546875F, -0.51953125F },
    { 7, "Q5_1", 32, { 0, 2 }, 0xe4450000, 0.81640625F, 0.59375F },
    { 8, "Q8_0", 32, { 0, -1 }, 0xbad72000, 4.19335938F, -3.89648438F },
    { 12, "Q4_K", 256, { 0, 2 }, 0xb25fd400, 0.4453125F, 8.08984375F },
    { 13, "Q5_K", 256, { 0, 2 }, 0x82317800, 9.3515625F, 5.9375F },
    { 14, "Q6_K", 256, { 208, -1 }, 0x1ca37084, -11095.8398F, 19958.5547F },
    { 30, "BF16", 1, { -1, -1 }, 0x370b0000, 8.28504562e-06F, 8.28504562e-06F },
    { 1, "F16", 1, { -1, -1 }, 0x3ee16000, 0.440185547F, 0.440185547F },
};

/* binary16 of .0371 (1 + at) */
static uint16_t half_of(int at)
{
    return at == 0 ? 0x28c0 : at == 2 ? 0x2f20 : 0x47c1;
}

START_TEST(blocks_widen_as_gguf_py_does)
{
    const struct spot_gguf_kind *const k = spot_gguf_kind(kind[_i].type);
    uint8_t block[SPOT_GGUF_BLOCK_BYTE_MAX];
    float x[SPOT_GGUF_BLOCK_MAX];
    uint32_t hash = 0;

    ck_assert_str_eq(k->name, kind[_i].name);
    ck_assert_int_eq(k->n, kind[_i].n);
    for (int i = 0; i < k->n_byte; i++)
        block[i] = (uint8_t)(i * i * 7 + i * 37 + 11);
    for (int i = 0; i < 2; i++)
        if (kind[_i].half[i] >= 0)
            spot_le_put(block + kind[_i].half[i], half_of(kind[_i].half[i]), 2);
    k->widen(block, x);
    for (int i = 0; i < k->n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        hash = hash * 1000003 + bits;
    }
    ck_assert_float_eq(x[0], kind[_i].first);
    ck_assert_float_eq(x[k->n - 1], kind[_i].last);
    ck_assert_uint_eq(hash, kind[_i].hash);
    ck_assert_ptr_null(spot_gguf_kind(99));
}
END_TEST

/* --- a file
 * ------------------------------------------------------------------------------------------ */

static void put(struct spot_buf *b, uint64_t x, int n_byte)
{
    uint8_t byte[8];

    spot_le_put(byte, x, n_byte);
    spot_buf_add(b, byte, (size_t)n_byte);
}

static void put_text(struct spot_buf *b, const char *text)
{
    put(b, strlen(text), 8);
    spot_buf_add(b, text, strlen(text));
}

static void put_int(struct spot_buf *b, const char *key, uint32_t x)
{
    put_text(b, key);
    put(b, 4, 4);
    put(b, x, 4);
}

static void put_real(struct spot_buf *b, const char *key, float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    put_text(b, key);
    put(b, 6, 4);
    put(b, bits, 4);
}

/* A Llama of one layer, width 8, 2 heads, 1 of keys, 12 inner numbers, 4 tokens, a tied head. */
static const struct {
    const char *name;
    int rows, cols; /* rows 0: a vector */
} tensor[] = {
    { "token_embd.weight", 4, 8 },     { "blk.0.attn_norm.weight", 0, 8 },
    { "blk.0.attn_q.weight", 8, 8 },   { "blk.0.attn_k.weight", 4, 8 },
    { "blk.0.attn_v.weight", 4, 8 },   { "blk.0.attn_output.weight", 8, 8 },
    { "blk.0.ffn_norm.weight", 0, 8 }, { "blk.0.ffn_gate.weight", 12, 8 },
    { "blk.0.ffn_up.weight", 12, 8 },  { "blk.0.ffn_down.weight", 8, 12 },
    { "output_norm.weight", 0, 8 },
};
enum { TENSORS = sizeof(tensor) / sizeof(tensor[0]) };

static size_t numbers(int t)
{
    return (size_t)((tensor[t].rows ? tensor[t].rows : 1) * tensor[t].cols);
}

/* Number c of row r of tensor t is 1000 t + 20 r + c. */
static void write_llama(struct spot_buf *b)
{
    uint64_t at = 0;

    spot_buf_add(b, "GGUF", 4);
    put(b, 3, 4);
    put(b, TENSORS, 8);
    put(b, 8, 8);
    put_text(b, "general.architecture");
    put(b, 8, 4);
    put_text(b, "llama");
    put_int(b, "llama.embedding_length", 8);
    put_int(b, "llama.block_count", 1);
    put_int(b, "llama.attention.head_count", 2);
    put_int(b, "llama.attention.head_count_kv", 1);
    put_int(b, "llama.feed_forward_length", 12);
    put_int(b, "llama.context_length", 16);
    put_real(b, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    for (int t = 0; t < TENSORS; t++) {
        put_text(b, tensor[t].name);
        put(b, tensor[t].rows ? 2 : 1, 4);
        put(b, (uint64_t)tensor[t].cols, 8);
        if (tensor[t].rows)
            put(b, (uint64_t)tensor[t].rows, 8);
        put(b, 0, 4);
        put(b, at, 8);
        at += 32 * ((4 * numbers(t) + 31) / 32);
    }
    while (b->n % 32)
        put(b, 0, 1);
    for (int t = 0; t < TENSORS; t++) {
        for (size_t i = 0; i < numbers(t); i++) {
            const float x = (float)(1000 * t + 20 * (int)(i / (size_t)tensor[t].cols) +
                                    (int)(i % (size_t)tensor[t].cols));
            uint32_t bits;

            memcpy(&bits, &x, sizeof(bits));
            put(b, bits, 4);
        }
        while (b->n % 32)
            put(b, 0, 1);
    }
}

static void save(const char *path, const void *data, size_t n)
{
    FILE *const out = fopen(path, "we");

    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(data, 1, n, out), n);
    fclose(out);
}

static void read_shape(const struct spot_gguf *g, struct spot_shape *shape)
{
    char *text = NULL;
    size_t n;
    FILE *const out = open_memstream(&text, &n);
    struct spot_err err = { 0 };
    struct spot_jw jw;

    spot_jw_init(&jw, out, false);
    ck_assert_msg(!spot_gguf_config(g, &jw, &err), "%s", err.msg);
    ck_assert(!spot_jw_close(&jw, &err));
    fclose(out);
    ck_assert_msg(!spot_hf_config_parse(text, "config", shape, &err), "%s", err.msg);
    free(text);
    shape->n_shard = 1;
}

/* Heads' rows 2 i + j come to row j d / 2 + i; the rest is where it was. */
START_TEST(rows_lie_where_hugging_face_has_them)
{
    static const int turned[] = { 0, 2, 1, 3 };
    struct spot_buf b = { 0 };
    struct spot_err err = { 0 };
    struct spot_shape shape;
    struct spot_bundle layer = { 0 };
    struct spot_gguf *g;
    struct spot_weights *w;

    write_llama(&b);
    save("model.gguf", b.data, b.n);
    g = spot_gguf_open("model.gguf", &err);
    ck_assert_msg(g != NULL, "%s", err.msg);
    read_shape(g, &shape);
    ck_assert(shape.vocab == 4 && shape.is_tied && shape.n_head == 2 && shape.ffn == 12);
    w = spot_weights_open(".", &shape, &err);
    ck_assert_msg(w != NULL, "%s", err.msg);
    ck_assert(!spot_bundle_init(&layer, &shape, 1, &err));
    ck_assert_msg(!spot_weights_read(w, &layer, &err), "%s", err.msg);

    const int qkv = spot_arena_find(&layer.arena, "qkv.w");
    const float *const x = layer.plane[SPOT_PLANE_MASTER] + spot_arena_offset(&layer.arena, qkv, 0);

    for (int r = 0; r < 16; r++) {
        const int t = r < 8 ? 2 : r < 12 ? 3 : 4, row = r < 8 ? r : (r - 8) % 4;
        const int from = t == 4 ? row : row / 4 * 4 + turned[row % 4];

        for (int c = 0; c < 8; c++)
            ck_assert_float_eq(x[r * 8 + c], (float)(1000 * t + 20 * from + c));
    }
    spot_bundle_release(&layer);
    spot_weights_close(w);
    spot_gguf_close(g);
    spot_buf_release(&b);
}
END_TEST

START_TEST(what_is_cut_off_or_lies_is_refused)
{
    struct spot_buf b = { 0 };
    struct spot_err err;

    write_llama(&b);
    for (size_t n = 0; n < b.n - 32; n += n < 64 ? 1 : 61) {
        save("model.gguf", b.data, n);
        ck_assert_ptr_null(spot_gguf_open("model.gguf", &err));
        ck_assert_int_eq(err.code, SPOT_EDATA);
    }
    for (int i = 0; i < 4; i++) { /* counts, and the length of the first key */
        static const size_t at[] = { 4, 8, 16, 24 };
        uint8_t *const copy = malloc(b.n);

        memcpy(copy, b.data, b.n);
        memset(copy + at[i], 0xff, i ? 8 : 4);
        save("model.gguf", copy, b.n);
        ck_assert_ptr_null(spot_gguf_open("model.gguf", &err));
        ck_assert_int_eq(err.code, SPOT_EDATA);
        free(copy);
    }
    spot_buf_release(&b);
}
END_TEST

static char *where;

static void go_in(void)
{
    where = spot_temp_template("test-gguf");
    ck_assert_ptr_nonnull(mkdtemp(where));
    ck_assert(!chdir(where));
}

static void go_out(void)
{
    unlink("model.gguf");
    ck_assert(!chdir("/"));
    rmdir(where);
    free(where);
}

int main(void)
{
    TCase *const tc = tcase_create("gguf");

    tcase_add_checked_fixture(tc, go_in, go_out);
    tcase_add_loop_test(tc, blocks_widen_as_gguf_py_does, 0, sizeof(kind) / sizeof(kind[0]));
    tcase_add_test(tc, rows_lie_where_hugging_face_has_them);
    tcase_add_test(tc, what_is_cut_off_or_lies_is_refused);
    return run_suite("gguf", tc);
}

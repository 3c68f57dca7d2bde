/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include "weights/plain.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/rng.h"
#include "decoder_shapes.h"
#include "save_rig.h"
#include "suite.h"
#include "weights/hf_family.h"
#include "weights/load.h"

/* Goal: a plain file gives back the bits that were put in, and says of all of them the hash that a
 * safetensors file of the same weights has when it is opened (save.c and load.c are the oracle);
 * whatever byte of it is changed or cut off is found before its numbers are used. */

static char dir[] = "/tmp/test_plain.XXXXXX";

static const struct spot_shape shapes[] = {
    { .n_layer = 2, .width = 24, .n_head = 6, .seq = 5, .vocab = 11, .n_shard = 3 },
    { 2, 24, 6, 5, 11, 3, .is_tied = 1 },
    SHAPE_HEAD_NORM,
    SHAPE_AROUND,
    SHAPE_CAPPED,
    SHAPE_AFTER,
    SHAPE_SCALED,
    SHAPE_ERF,
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static const char *in_dir(const char *name)
{
    static char path[4][128];
    static int next;

    next = (next + 1) % 4;
    snprintf(path[next], sizeof(path[next]), "%s/%s", dir, name);
    return path[next];
}

static bool is_norm(const struct spot_tensor *t)
{
    return strstr(t->name, "norm") || !strncmp(t->name, "ln", 2) || !strncmp(t->name, "post", 4);
}

/* Weights of norms are near 1, with all their bits, or tiny ones where they shall be lost on the
 * way through a file that stores them less 1. Padding is zero, as everywhere. */
static struct spot_bundle *make(const struct spot_shape *shape, int index, float norm)
{
    struct spot_bundle *const b = calloc(1, sizeof(*b));
    struct spot_rng rng;

    spot_rng_init(&rng, 7, (uint64_t)index);
    ck_assert_int_eq(spot_bundle_init_weights(b, shape, index, NULL), 0);
    for (int t = 0; t < b->arena.n_tensor; t++) {
        const struct spot_tensor *const tensor = &b->arena.tensor[t];

        for (int s = 0; s < (tensor->is_sharded ? b->arena.n_shard : 1); s++) {
            float *const x = b->plane[0] + spot_arena_offset(&b->arena, t, s);

            for (int64_t i = 0; i < tensor->rows * tensor->cols; i++)
                x[i] = is_norm(tensor) ? norm * (float)(1 + .01 * spot_rng_normal(&rng))
                                       : (float)spot_rng_normal(&rng);
        }
    }
    return b;
}

/* The head of a tied model is its embedding. */
static void tie(const struct spot_shape *shape, struct spot_bundle *const *bundle)
{
    const struct spot_bundle *const from = bundle[0], *const to = bundle[shape->n_layer + 1];
    const int a = spot_arena_find(&from->arena, "wte"), b = spot_arena_find(&to->arena, "head.w");
    const struct spot_tensor *const t = &from->arena.tensor[a];

    for (int s = 0; shape->is_tied && s < from->arena.n_shard; s++)
        memcpy(to->plane[0] + spot_arena_offset(&to->arena, b, s),
               from->plane[0] + spot_arena_offset(&from->arena, a, s),
               (size_t)(t->rows * t->cols) * sizeof(float));
}

static size_t byte_of(const struct spot_bundle *b)
{
    return b->arena.n_elem * sizeof(float);
}

struct model {
    const struct spot_shape *shape;
    struct spot_bundle *bundle[8];
    int n;
};

static struct model model_of(const struct spot_shape *shape, float norm)
{
    struct model m = { .shape = shape, .n = spot_shape_bundles(shape) };

    for (int i = 0; i < m.n; i++)
        m.bundle[i] = make(shape, i, norm);
    tie(shape, m.bundle);
    return m;
}

static void free_model(struct model *m)
{
    for (int i = 0; i < m->n; i++)
        spot_bundle_free(m->bundle[i]);
}

static uint64_t write_plain(const struct model *m)
{
    struct spot_plain p;
    uint64_t xxh3;

    unlink(in_dir(SPOT_PLAIN_NAME));
    ck_assert_int_eq(spot_plain_create(&p, dir, m->shape, NULL), 0);
    for (int i = 0; i < m->n; i++)
        ck_assert_int_eq(spot_plain_add(&p, m->shape, m->bundle[i],
                                        spot_hash64(m->bundle[i]->plane[0], byte_of(m->bundle[i])),
                                        NULL),
                         0);
    ck_assert_int_eq(spot_plain_finish(&p, m->shape, NULL), 0);
    xxh3 = p.xxh3;
    spot_plain_release(&p);
    return xxh3;
}

/* Of the same weights in a file of Hugging Face's names. */
static uint64_t hash_by_file(const struct model *m)
{
    const char *const path = in_dir("file.safetensors");
    struct spot_err err = { 0 };
    struct spot_weights *w;
    uint64_t xxh3;

    ck_assert_msg(!save_weights(path, m->shape, m->bundle, SPOT_DT_F32, &err), "%s", err.msg);
    w = spot_weights_open(path, m->shape, &err);
    ck_assert_msg(w != NULL, "%s", err.msg);
    xxh3 = spot_weights_xxh3(w);
    spot_weights_close(w);
    return xxh3;
}

static int read_all(const struct model *m, const struct spot_weights *w)
{
    int n_bad = 0;

    for (int i = 0; i < m->n; i++) {
        struct spot_bundle got;

        ck_assert_int_eq(spot_bundle_init_weights(&got, m->shape, i, NULL), 0);
        if (spot_weights_read(w, &got, NULL))
            n_bad++;
        else
            ck_assert_mem_eq(got.plane[0], m->bundle[i]->plane[0], byte_of(&got));
        spot_bundle_release(&got);
    }
    return n_bad;
}

START_TEST(bits_come_back_and_the_hash_is_that_of_a_file)
{
    struct model m = model_of(&shapes[_i], 1);
    const uint64_t xxh3 = write_plain(&m);
    struct spot_weights *const w = spot_weights_open(dir, m.shape, NULL);

    ck_assert_ptr_nonnull(w);
    ck_assert_uint_eq(spot_weights_xxh3(w), xxh3);
    ck_assert_uint_eq(xxh3, hash_by_file(&m));
    ck_assert_int_eq(read_all(&m, w), 0);
    spot_weights_close(w);
    free_model(&m);
}
END_TEST

/* A family whose files have norms less 1: 1e-9 less 1, and 1 more, is 0, so these are other weights
 * than those of the file. */
START_TEST(norms_that_a_file_cannot_hold_have_a_hash_of_their_own)
{
    struct spot_shape shape = SHAPE_AROUND;

    ck_assert_int_eq(spot_hf_family_kind("gemma2", &shape.kind), 0);
    for (int i = 0; i < 2; i++) {
        struct model m = model_of(&shape, i ? 1e-9F : 1);
        const uint64_t xxh3 = write_plain(&m);
        struct spot_weights *const w = spot_weights_open(dir, m.shape, NULL);

        ck_assert_int_eq(read_all(&m, w), 0);
        ck_assert_int_eq(xxh3 != hash_by_file(&m), i);
        spot_weights_close(w);
        free_model(&m);
    }
}
END_TEST

START_TEST(any_byte_that_is_changed_or_cut_off_is_found)
{
    struct model m = model_of(&shapes[0], 1);
    struct stat st;
    uint64_t begin[8];
    struct spot_plain p;

    write_plain(&m);
    ck_assert_int_eq(spot_plain_open(&p, dir, m.shape, NULL), 1);
    memcpy(begin, p.at_byte, (size_t)m.n * sizeof(*begin));
    spot_plain_release(&p);
    ck_assert_int_eq(stat(in_dir(SPOT_PLAIN_NAME), &st), 0);
    for (off_t at = 0; at < st.st_size; at += at < 200 ? 1 : 1021) {
        const int fd = open(in_dir(SPOT_PLAIN_NAME), O_RDWR);
        const bool is_head = at < (off_t)(32 + 8 * m.n), is_between = at < (off_t)begin[0];
        struct spot_weights *w;
        struct spot_err err = { 0 };
        uint8_t byte;

        ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
        byte ^= 4;
        ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
        w = spot_weights_open(dir, m.shape, &err);
        ck_assert_msg(!w == is_head, "byte %ld", (long)at);
        if (!w)
            ck_assert_int_eq(err.code, SPOT_EDATA);
        else
            ck_assert_int_eq(read_all(&m, w), !is_between);
        spot_weights_close(w);
        byte ^= 4;
        ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
        close(fd);
    }
    for (off_t n = st.st_size - 1; n >= 0; n -= n > 300 ? 997 : 1) {
        struct spot_weights *w;

        ck_assert_int_eq(truncate(in_dir(SPOT_PLAIN_NAME), n), 0);
        w = spot_weights_open(dir, m.shape, NULL);
        ck_assert(!w || read_all(&m, w) > 0);
        spot_weights_close(w);
    }
    free_model(&m);
}
END_TEST

START_TEST(other_models_unfinished_files_and_no_numbers_are_refused)
{
    struct model m = model_of(&shapes[0], 1);
    struct spot_shape other = shapes[0];
    struct spot_plain p;
    struct spot_err err = { 0 };
    struct spot_weights *same;

    write_plain(&m);
    other.norm_eps = 1e-5; /* as it is where nothing is said */
    other.n_kv_head = other.n_head;
    same = spot_weights_open(dir, &other, &err);
    ck_assert_msg(same != NULL, "%s", err.msg);
    spot_weights_close(same);
    other.ffn = 48;
    ck_assert_ptr_null(spot_weights_open(dir, &other, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_int_eq(spot_plain_create(&p, dir, m.shape, &err), -1); /* it is there */
    spot_plain_release(&p);
    unlink(in_dir(SPOT_PLAIN_NAME));
    ck_assert_int_eq(spot_plain_create(&p, dir, m.shape, NULL), 0);
    for (int i = 0; i < m.n; i++) {
        const int rc = spot_plain_add(&p, m.shape, m.bundle[i], 0, &err);

        ck_assert_int_eq(rc, 0);
    }
    spot_plain_release(&p);
    ck_assert_ptr_null(spot_weights_open(dir, m.shape, &err)); /* without a head */
    unlink(in_dir(SPOT_PLAIN_NAME));
    for (int i = 0; i < 3; i++) {
        m.bundle[0]->plane[0][spot_arena_offset(&m.bundle[0]->arena, 0, 0)] =
            (float[]){ NAN, INFINITY, -INFINITY }[i];
        ck_assert_int_eq(spot_plain_create(&p, dir, m.shape, NULL), 0);
        ck_assert_int_eq(spot_plain_add(&p, m.shape, m.bundle[0], 0, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        spot_plain_release(&p);
        unlink(in_dir(SPOT_PLAIN_NAME));
    }
    free_model(&m);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    int rc;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, bits_come_back_and_the_hash_is_that_of_a_file, 0, SHAPES);
    tcase_add_test(tc, norms_that_a_file_cannot_hold_have_a_hash_of_their_own);
    tcase_add_test(tc, any_byte_that_is_changed_or_cut_off_is_found);
    tcase_add_test(tc, other_models_unfinished_files_and_no_numbers_are_refused);
    rc = run_suite("plain", tc);
    unlink(in_dir(SPOT_PLAIN_NAME));
    unlink(in_dir("file.safetensors"));
    rmdir(dir);
    return rc;
}

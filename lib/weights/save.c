/* SPDX-License-Identifier: MIT */
#include "weights/save.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/le.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "shard/safetensors.h"
#include "weights/hf_config.h"
#include "weights/hf_names.h"

/* Rows that are transposed together: their elements of a column fill a cache line. */
enum { ROWS = 16 };

/* Copies a tensor from the shards of a bundle into one array out[rows * cols], or its transpose. */
static void gather(const struct spot_bundle *bundle, const struct spot_shape *shape,
                   const struct spot_hf_name *name, int64_t expert, float *out)
{
    const struct spot_arena *const a = &bundle->arena;
    const int tensor = spot_arena_find(a, name->ours);
    const struct spot_tensor *const t = &a->tensor[tensor];
    const struct spot_hf_rows span = spot_hf_rows(shape, t, name, expert);
    const int n_shard = t->is_sharded ? a->n_shard : 1;
    const int64_t rows = n_shard * span.n;
    const float rest = spot_hf_rest(shape, name);

    for (int s = 0; s < n_shard; s++) {
        const float *const in = bundle->plane[SPOT_PLANE_MASTER] + spot_arena_offset(a, tensor, s) +
                                span.first * t->cols;

        for (int64_t r = 0; rest != 0 && r < span.n; r++) /* the weight of a norm is a vector */
            out[r] = in[r] - rest;
        for (int64_t r = 0; rest == 0 && r < span.n; r += ROWS) {
            const int64_t n = span.n - r < ROWS ? span.n - r : ROWS;
            int64_t row[ROWS];

            for (int64_t k = 0; k < n; k++)
                row[k] = spot_hf_row(&span, n_shard, s, r + k);
            for (int64_t c = 0; c < t->cols; c++)
                for (int64_t k = 0; k < n; k++)
                    out[name->how == SPOT_HF_STACK ? row[k] * t->cols + c : c * rows + row[k]] =
                        in[(r + k) * t->cols + c];
        }
    }
}

static struct spot_st_tensor describe(const struct spot_shape *shape, const struct spot_tensor *t,
                                      const struct spot_hf_name *e, enum spot_dtype dtype,
                                      char *name)
{
    const uint64_t rows = (uint64_t)spot_hf_n_row(shape, t, e);
    struct spot_st_tensor st = { .name = name, .dtype = dtype, .n_dim = 1, .dim = { rows } };

    if (t->cols > 1) {
        st.n_dim = 2;
        st.dim[0] = e->how == SPOT_HF_STACK ? rows : (uint64_t)t->cols;
        st.dim[1] = e->how == SPOT_HF_STACK ? (uint64_t)t->cols : rows;
    }
    return st;
}

static size_t list_tensors(const struct spot_shape *shape, enum spot_dtype dtype,
                           struct spot_st_tensor **list)
{
    const int n_bundle = spot_shape_bundles(shape);
    size_t n = 0, cap = 0;

    for (int b = 0; b < n_bundle; b++) {
        struct spot_arena a;
        struct spot_hf_name e[SPOT_HF_NAMES_MAX];
        size_t n_export;

        spot_arena_of(shape, b, &a);
        n_export = spot_hf_names(shape, b, e);
        for (size_t i = 0; i < n_export; i++) {
            const int tensor = spot_arena_find(&a, e[i].ours);

            if (spot_arena_is_copy(shape, &a, tensor))
                continue;
            for (int64_t x = 0; x < spot_hf_copies(shape, &e[i]); x++) {
                char *const name = spot_xcalloc(SPOT_HF_NAME_MAX, 1);

                spot_hf_name_of(shape, b, &e[i], x, name);
                *list = spot_xgrow(*list, &cap, n + 1, sizeof(**list));
                (*list)[n++] = describe(shape, &a.tensor[tensor], &e[i], dtype, name);
            }
        }
    }
    return n;
}

/* Rounds to 8 bits of precision, ties to even; NaN stays NaN. */
static uint16_t bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static void write_elements(const float *x, size_t n, enum spot_dtype dtype, FILE *out)
{
    uint8_t raw[2];

    if (dtype == SPOT_DT_F32) {
        fwrite(x, sizeof(*x), n, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        spot_le_put(raw, bf16_of(x[i]), sizeof(raw));
        fwrite(raw, 1, sizeof(raw), out);
    }
}

void spot_weights_out_add(struct spot_weights_out *w, const struct spot_bundle *bundle)
{
    const struct spot_arena *const a = &bundle->arena;
    struct spot_hf_name e[SPOT_HF_NAMES_MAX];
    const size_t n_export = spot_hf_names(w->shape, bundle->index, e);

    assert(bundle->index == w->next);
    w->next++;
    for (size_t i = 0; i < n_export; i++) {
        const int tensor = spot_arena_find(a, e[i].ours);
        const struct spot_tensor *const t = &a->tensor[tensor];
        const size_t n = (size_t)(t->rows * t->cols) * (size_t)(t->is_sharded ? a->n_shard : 1);
        float *whole;

        if (spot_arena_is_copy(w->shape, a, tensor))
            continue;
        whole = spot_xcalloc(n, sizeof(*whole));
        for (int64_t x = 0; x < spot_hf_copies(w->shape, &e[i]); x++) {
            gather(bundle, w->shape, &e[i], x, whole);
            write_elements(whole, (size_t)(spot_hf_n_row(w->shape, t, &e[i]) * t->cols), w->dtype,
                           w->out.file);
        }
        free(whole);
    }
    spot_out_hurry(&w->out);
}

/* The metadata contain the config, so that the file can be used alone. */
static void write_head(const struct spot_shape *shape, const struct spot_st_tensor *list, size_t n,
                       struct spot_buf *head)
{
    char *const config = shape->kind.n_expert ? NULL : spot_hf_config_text(shape);
    const struct spot_st_note note[] = { { "format", "pt" }, { "config", config } };

    spot_st_write_noted(note, config ? 2 : 1, list, n, head);
    free(config);
}

int spot_weights_out_open(struct spot_weights_out *w, const char *path,
                          const struct spot_shape *shape, enum spot_dtype dtype,
                          struct spot_err *err)
{
    struct spot_st_tensor *list = NULL;
    const size_t n = list_tensors(shape, dtype, &list);
    struct spot_buf head = { 0 };
    int rc;

    assert(dtype == SPOT_DT_F32 || dtype == SPOT_DT_BF16);
    *w = (struct spot_weights_out){ .shape = shape, .dtype = dtype };
    write_head(shape, list, n, &head);
    for (size_t i = 0; i < n; i++)
        free(list[i].name);
    free(list);
    rc = spot_out_open_own(&w->out, path, err);
    if (!rc)
        fwrite(head.data, 1, head.n, w->out.file);
    spot_buf_release(&head);
    return rc;
}

int spot_weights_out_finish(struct spot_weights_out *w, int rc, struct spot_err *err)
{
    assert(rc || w->next == spot_shape_bundles(w->shape));
    return spot_out_finish(&w->out, rc, err);
}

/* --- the hash of a model ------------------------------------------------------------ */

static bool is_finite(const float *x, size_t n)
{
    const uint32_t exponent = 0x7F800000;
    uint32_t n_other = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        n_other |= (bits & exponent) == exponent;
    }
    return !n_other;
}

/* True if a norm that is stored minus `rest` would be restored with other bits. */
static bool loses_bits(const struct spot_bundle *bundle, int tensor, const float *stored, size_t n,
                       float rest)
{
    const float *const x =
        bundle->plane[SPOT_PLANE_MASTER] + spot_arena_offset(&bundle->arena, tensor, 0);
    bool differs = false;

    for (size_t i = 0; rest != 0 && i < n; i++)
        differs |= stored[i] + rest != x[i];
    return differs;
}

int spot_weights_hash(struct spot_hash_stream *hash, const struct spot_shape *shape,
                      const struct spot_bundle *bundle)
{
    const struct spot_arena *const a = &bundle->arena;
    struct spot_hf_name e[SPOT_HF_NAMES_MAX];
    const size_t n_export = spot_hf_names(shape, bundle->index, e);
    float *whole = NULL;
    size_t cap = 0;
    int rc = 0;

    for (size_t i = 0; i < n_export; i++) {
        const int tensor = spot_arena_find(a, e[i].ours);
        const struct spot_tensor *const t = &a->tensor[tensor];
        const size_t n = (size_t)(spot_hf_n_row(shape, t, &e[i]) * t->cols);

        whole = spot_xgrow(whole, &cap,
                           (size_t)(t->rows * t->cols) * (size_t)(t->is_sharded ? a->n_shard : 1),
                           sizeof(*whole));
        for (int64_t x = 0; x < spot_hf_copies(shape, &e[i]); x++) {
            gather(bundle, shape, &e[i], x, whole);
            spot_hash_stream_add(hash, whole, n * sizeof(*whole));
            rc = is_finite(whole, n) ? rc : -1;
            if (loses_bits(bundle, tensor, whole, n, spot_hf_rest(shape, &e[i])))
                spot_hash_stream_add(
                    hash, bundle->plane[SPOT_PLANE_MASTER] + spot_arena_offset(a, tensor, 0),
                    n * sizeof(*whole));
        }
    }
    free(whole);
    return rc;
}

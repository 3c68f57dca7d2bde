/* SPDX-License-Identifier: MIT */
#include "job/save.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/out.h"
#include "common/xalloc.h"
#include "job/gpt2_names.h"
#include "shard/safetensors.h"

/* One tensor of a bundle as users know it, [rows * cols] or its transpose. */
static void gather(const struct spot_bundle *bundle, int tensor, enum spot_gpt2_how how, float *out)
{
    const struct spot_arena *a = &bundle->arena;
    const struct spot_tensor *t = &a->tensor[tensor];
    const int n_shard = t->is_sharded ? a->n_shard : 1;
    const int64_t rows = n_shard * t->rows;

    for (int s = 0; s < n_shard; s++) {
        const float *in = bundle->plane[SPOT_PLANE_MASTER] + spot_arena_offset(a, tensor, s);

        for (int64_t r = 0; r < t->rows; r++) {
            const int64_t row = spot_gpt2_row(how, t, n_shard, s, r);

            for (int64_t c = 0; c < t->cols; c++)
                out[how == SPOT_GPT2_STACK ? row * t->cols + c : c * rows + row] =
                    in[r * t->cols + c];
        }
    }
}

static struct spot_st_tensor describe(const struct spot_shape *shape, const struct spot_arena *a,
                                      const struct spot_gpt2_name *e, char *name)
{
    const int tensor = spot_arena_find(a, e->ours);
    const struct spot_tensor *t = &a->tensor[tensor];
    const uint64_t rows = (uint64_t)spot_gpt2_rows(shape, a, tensor);
    struct spot_st_tensor st = { .name = name, .dtype = SPOT_DT_F32, .n_dim = 1, .dim = { rows } };

    if (t->cols > 1) {
        st.n_dim = 2;
        st.dim[0] = e->how == SPOT_GPT2_STACK ? rows : (uint64_t)t->cols;
        st.dim[1] = e->how == SPOT_GPT2_STACK ? (uint64_t)t->cols : rows;
    }
    return st;
}

static size_t list_tensors(const struct spot_shape *shape, struct spot_bundle *const *bundle,
                           int n_bundle, struct spot_st_tensor **list)
{
    size_t n = 0, cap = 0;

    for (int b = 0; b < n_bundle; b++) {
        size_t n_export;
        const struct spot_gpt2_name *e = spot_gpt2_names(bundle[b]->arena.kind, &n_export);

        for (size_t i = 0; i < n_export; i++) {
            char *name = spot_xcalloc(64, 1);

            if (bundle[b]->arena.kind == SPOT_BUNDLE_LAYER)
                snprintf(name, 64, "transformer.h.%d.%s", b - 1, e[i].theirs);
            else
                snprintf(name, 64, "%s", e[i].theirs);
            *list = spot_xgrow(*list, &cap, n + 1, sizeof(**list));
            (*list)[n++] = describe(shape, &bundle[b]->arena, &e[i], name);
        }
    }
    return n;
}

static void write_data(const struct spot_shape *shape, struct spot_bundle *const *bundle,
                       int n_bundle, FILE *out)
{
    for (int b = 0; b < n_bundle; b++) {
        const struct spot_arena *a = &bundle[b]->arena;
        size_t n_export;
        const struct spot_gpt2_name *e = spot_gpt2_names(a->kind, &n_export);

        for (size_t i = 0; i < n_export; i++) {
            const int tensor = spot_arena_find(a, e[i].ours);
            const struct spot_tensor *t = &a->tensor[tensor];
            const size_t n = (size_t)(t->rows * t->cols) * (size_t)(t->is_sharded ? a->n_shard : 1);
            float *whole = spot_xcalloc(n, sizeof(*whole));

            gather(bundle[b], tensor, e[i].how, whole);
            fwrite(whole, sizeof(*whole), (size_t)(spot_gpt2_rows(shape, a, tensor) * t->cols),
                   out);
            free(whole);
        }
    }
}

/* What a reader needs to build the model: GPT-2's own names. The head is not tied to wte. */
static void write_head(const struct spot_shape *shape, const struct spot_st_tensor *list, size_t n,
                       struct spot_buf *head)
{
    const struct {
        const char *key;
        int64_t value;
    } size[] = { { "n_layer", shape->n_layer },
                 { "n_head", shape->n_head },
                 { "n_embd", shape->width },
                 { "n_positions", shape->seq },
                 { "vocab_size", shape->vocab } };
    enum { SIZES = sizeof(size) / sizeof(size[0]) };
    struct spot_st_note note[SIZES + 2] = { { "format", "pt" } };
    char text[SIZES][24];

    for (int i = 0; i < SIZES; i++) {
        snprintf(text[i], sizeof(text[i]), "%lld", (long long)size[i].value);
        note[1 + i] = (struct spot_st_note){ size[i].key, text[i] };
    }
    note[SIZES + 1] = (struct spot_st_note){ "tie_word_embeddings", "false" };
    spot_st_write_noted(note, SIZES + 2, list, n, head);
}

int spot_save_weights(const char *path, const struct spot_job_config *config,
                      struct spot_bundle *const *bundle, struct spot_err *err)
{
    const int n_bundle = spot_shape_bundles(&config->shape);
    struct spot_st_tensor *list = NULL;
    const size_t n = list_tensors(&config->shape, bundle, n_bundle, &list);
    struct spot_buf head = { 0 };
    struct spot_out out;
    int rc;

    write_head(&config->shape, list, n, &head);
    for (size_t i = 0; i < n; i++)
        free(list[i].name);
    free(list);
    rc = spot_out_open(&out, path, err);
    if (!rc) {
        fwrite(head.data, 1, head.n, out.file);
        write_data(&config->shape, bundle, n_bundle, out.file);
        rc = spot_out_commit(&out, err);
    }
    spot_buf_release(&head);
    return rc;
}

/* SPDX-License-Identifier: MIT */
/* Adapters in the products of a pass. The result of a token depends only on its own adapter and
 * inputs: A x is one dot product per rank, and the chain of each output continues over the ranks.
 * In products with sharded inputs, each shard has its own A x, and the sums over shards follow as
 * usual. */
#include "engine/cpu/infer_pass.h"

_Static_assert((int)SPOT_LORA_PANEL == (int)SPOT_PANEL, "adapters have the panels of products");

/* NULL: no adapter changes this product of this token. */
static const struct spot_lora_part *part_of(const struct spot_infer_work *w,
                                            enum spot_lora_product product, int64_t t)
{
    const struct spot_infer *const f = w->f;
    const int adapter = f->sequence[f->item[f->token_item[t]].sequence].adapter;
    const struct spot_lora_part *part;

    if (!adapter)
        return NULL;
    part = &f->config.lora[adapter - 1]->part[(w->bundle - 1) * SPOT_LORA_PRODUCTS + product];
    return part->rank ? part : NULL;
}

static float *low_of(const struct spot_infer *f, int64_t t, int s)
{
    return f->low + (t * f->n_shard + s) * f->low_row;
}

void spot_infer_lower(const struct spot_infer_work *w, enum spot_lora_product product, int64_t t,
                      int s, const float *x, int64_t n_in)
{
    const struct spot_infer *const f = w->f;
    const struct spot_lora_part *const part = f->has_lora ? part_of(w, product, t) : NULL;
    const int64_t shard = product >= SPOT_LORA_PROJ ? f->config.shard_begin + s : 0;

    for (int64_t r = 0; part && r < part->rank; r++)
        low_of(f, t, s)[r] = f->vec->dot(part->a + (shard * part->rank + r) * n_in, x, n_in);
}

/* Rows of one adapter at equal distances form one tile. A row's chains are the same in any tile. */
static void raise_some(const struct spot_infer_work *w, const struct spot_lora_part *part,
                       const int *token, int n, int64_t t, int s, int64_t panel, float *c,
                       int64_t c_row)
{
    const struct spot_infer *const f = w->f;
    const int32_t *const span = part->span + 2 * panel;
    const float *const b = part->b + (panel * part->rank + span[0]) * SPOT_PANEL;
    const int64_t low_row = f->n_shard * f->low_row;

    for (int i = 0, run; i < n && span[1]; i += run) {
        const int64_t step = i + 1 < n ? token[i + 1] - token[i] : 1;

        run = 1;
        while (i + run < n && run < SPOT_TILE && token[i + run] - token[i + run - 1] == step)
            run++;
        f->kernel->mix(c + (token[i] - t) * c_row, step * c_row, low_of(f, token[i], s) + span[0],
                       step * low_row, run, b, span[1] - span[0], SPOT_PANEL);
    }
    for (int64_t i = 0; i < (span[1] - span[0]) * SPOT_PANEL; i += 16) /* prefetch the next panel */
        __builtin_prefetch(b + part->rank * SPOT_PANEL + i, 0, 2);
}

void spot_infer_raise(const struct spot_infer_work *w, enum spot_lora_product product, int64_t t,
                      int64_t n, int s, int64_t panel, float *c, int64_t c_row)
{
    const struct spot_infer *const f = w->f;

    if (!f->has_lora || product == SPOT_LORA_PRODUCTS)
        return;
    for (int a = 0; a < f->config.n_lora; a++) {
        const struct spot_lora_part *const part =
            &f->config.lora[a]->part[(w->bundle - 1) * SPOT_LORA_PRODUCTS + product];
        int first = f->adapted_begin[a], end = f->adapted_begin[a + 1];

        while (first < end && f->adapted[first] < t)
            first++;
        while (first < end && f->adapted[end - 1] >= t + n)
            end--;
        if (part->rank && first < end)
            raise_some(w, part, f->adapted + first, end - first, t, s, panel, c, c_row);
    }
}

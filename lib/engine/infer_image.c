/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "engine/infer_state.h"

static const char *const type_names[] = { "fp32", "bf16", "q8" };

const char *spot_infer_type_name(int type)
{
    return type_names[type];
}

int spot_infer_type_find(const char *name)
{
    for (int i = 0; i < SPOT_INFER_TYPES; i++)
        if (!strcmp(name, type_names[i]))
            return i;
    return -1;
}

/* True if an image that ends before bundle `end` holds the tensor. If it has both embedding and
 * head, a tied embedding is stored only in the head. */
static bool holds(const struct spot_shape *shape, const struct spot_arena *arena, int tensor,
                  int end)
{
    return !shape->is_tied || end < spot_shape_bundles(shape) ||
           strcmp(arena->tensor[tensor].name, "wte") != 0;
}

size_t spot_infer_panel_byte(enum spot_infer_type type, int64_t n_in)
{
    if (type == SPOT_INFER_Q8)
        return (size_t)((n_in + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK) * SPOT_Q8_BLOCK_BYTE;
    return (size_t)n_in * SPOT_PANEL * (type == SPOT_INFER_BF16 ? 2 : 4);
}

static struct spot_infer_place place_of(const struct spot_shape *shape, int bundle,
                                        const struct spot_tensor *t, enum spot_infer_type type)
{
    struct spot_infer_place p = { .is_matrix = t->is_sharded && t->cols > 1 };

    if (p.is_matrix) {
        const bool is_mlp = !strcmp(t->name, "up.w") || !strcmp(t->name, "down.w");
        const int64_t n_expert = is_mlp ? spot_shape_mlps(shape, bundle - 1).n_expert : 0;

        p.n_copy = n_expert ? n_expert : 1;
        p.is_out_first = strcmp(t->name, "proj.w") && strcmp(t->name, "down.w") &&
                         strcmp(t->name, "shared_down.w");
        p.n_out = p.is_out_first ? t->rows / p.n_copy : t->cols;
        p.n_in = p.is_out_first ? t->cols : t->rows / p.n_copy;
        p.copy_byte =
            (size_t)((p.n_out + SPOT_PANEL - 1) / SPOT_PANEL) * spot_infer_panel_byte(type, p.n_in);
        p.n_byte = (size_t)p.n_copy * p.copy_byte;
    } else {
        p.n_byte = ((size_t)(t->rows * t->cols) * sizeof(float) + 63) / 64 * 64;
    }
    return p;
}

size_t spot_infer_walk(const struct spot_shape *shape, enum spot_infer_type type, int begin,
                       int end, spot_infer_place_fn fn, void *user)
{
    size_t at = (sizeof(struct spot_infer_head) + 63) / 64 * 64;

    for (int b = begin; b < end; b++) {
        struct spot_arena arena;

        spot_arena_of(shape, b, &arena);
        for (int t = 0; t < arena.n_tensor; t++) {
            struct spot_infer_place place = place_of(shape, b, &arena.tensor[t], type);

            if (!holds(shape, &arena, t, end))
                continue;
            for (int s = 0; s < (arena.tensor[t].is_sharded ? arena.n_shard : 1); s++) {
                place.offset = at;
                if (fn)
                    fn(user, b, &arena, t, s, &place);
                at += place.n_byte;
            }
        }
    }
    return at + 8192; /* kernels prefetch beyond the end, and must stay in the image */
}

size_t spot_infer_image_byte(const struct spot_shape *shape, enum spot_infer_type type, int begin,
                             int end)
{
    return spot_infer_walk(shape, type, begin, end, NULL, NULL);
}

static uint16_t bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t weight_of(float x)
{
    return fabsf(x) < SPOT_BF16_LEAST ? 0 : bf16_of(x);
}

static float widen(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float y;

    memcpy(&y, &bits, sizeof(y));
    return y;
}

/* A matrix in its original layout: element (out, in). */
struct source {
    const float *w;
    const struct spot_infer_place *place;
    int64_t out_stride, in_stride;
};

static float element(const struct source *from, int64_t out, int64_t in)
{
    if (out >= from->place->n_out || in >= from->place->n_in)
        return 0;
    return from->w[out * from->out_stride + in * from->in_stride];
}

/* The scale is rounded up, so that the largest number is at most 127. */
static void pack_q8_row(uint8_t *block, int lane, const struct source *from, int64_t out,
                        int64_t first)
{
    float max = 0, scale;
    uint16_t rounded;

    for (int i = 0; i < SPOT_Q8_BLOCK; i++)
        max = fmaxf(max, fabsf(element(from, out, first + i)));
    rounded = bf16_of(max / 127);
    if (widen(rounded) * 127 < max)
        rounded++;
    scale = widen(rounded);
    memcpy(block + 2 * lane, &rounded, sizeof(rounded));
    for (int i = 0; i < SPOT_Q8_BLOCK; i++) {
        const float x = element(from, out, first + i);
        const int n = scale > 0 ? (int)rintf(x / scale) : 0;

        block[SPOT_Q8_SCALE + (i / 4 * SPOT_PANEL + lane) * 4 + i % 4] =
            (uint8_t)((n > 127    ? 127
                       : n < -127 ? -127
                                  : n) +
                      128);
    }
}

/* A panel without padding, in fp32 or bf16. */
static void pack_whole(uint8_t *to, enum spot_infer_type type, const struct source *from,
                       int64_t panel)
{
    const float *const w = from->w + panel * SPOT_PANEL * from->out_stride;
    const int64_t n = from->place->n_in, out = from->out_stride, in = from->in_stride;
    float *const wide = (float *)(void *)to;
    uint16_t *const half = (uint16_t *)(void *)to;

    if (type == SPOT_INFER_BF16)
        for (int64_t k = 0; k < n; k++)
            for (int64_t lane = 0; lane < SPOT_PANEL; lane++)
                half[k * SPOT_PANEL + lane] = weight_of(w[lane * out + k * in]);
    else if (out == 1)
        for (int64_t k = 0; k < n; k++)
            memcpy(wide + k * SPOT_PANEL, w + k * in, SPOT_PANEL * sizeof(*w));
    else
        for (int64_t k = 0; k < n; k++)
            for (int64_t lane = 0; lane < SPOT_PANEL; lane++)
                wide[k * SPOT_PANEL + lane] = w[lane * out + k];
}

static void pack_panel(uint8_t *to, enum spot_infer_type type, const struct source *from,
                       int64_t panel)
{
    if (type != SPOT_INFER_Q8 && (panel + 1) * SPOT_PANEL <= from->place->n_out) {
        pack_whole(to, type, from, panel);
        return;
    }
    for (int64_t k = 0; k < from->place->n_in; k += type == SPOT_INFER_Q8 ? SPOT_Q8_BLOCK : 1)
        for (int lane = 0; lane < SPOT_PANEL; lane++) {
            const int64_t out = panel * SPOT_PANEL + lane, at = k * SPOT_PANEL + lane;

            if (type == SPOT_INFER_Q8)
                pack_q8_row(to + k / SPOT_Q8_BLOCK * SPOT_Q8_BLOCK_BYTE, lane, from, out, k);
            else if (type == SPOT_INFER_BF16)
                ((uint16_t *)(void *)to)[at] = weight_of(element(from, out, k));
            else
                ((float *)(void *)to)[at] = element(from, out, k);
        }
}

struct packing {
    uint8_t *image;
    enum spot_infer_type type;
    const struct spot_bundle *bundle;
};

static void pack(void *user, int bundle, const struct spot_arena *arena, int tensor, int shard,
                 const struct spot_infer_place *place)
{
    const struct packing *const p = user;
    const struct spot_tensor *const t = &arena->tensor[tensor];
    const size_t panel_byte = spot_infer_panel_byte(p->type, place->n_in);
    struct source from = { NULL, place, place->is_out_first ? t->cols : 1,
                           place->is_out_first ? 1 : t->cols };

    if (bundle != p->bundle->index)
        return;
    from.w = p->bundle->plane[SPOT_PLANE_MASTER] + spot_arena_offset(arena, tensor, shard);
    if (!place->is_matrix)
        memcpy(p->image + place->offset, from.w, (size_t)(t->rows * t->cols) * sizeof(float));
    for (int64_t e = 0; e < place->n_copy; e++, from.w += place->n_in * place->n_out)
        for (int64_t i = 0; i * SPOT_PANEL < place->n_out; i++)
            pack_panel(p->image + place->offset + (size_t)e * place->copy_byte +
                           (size_t)i * panel_byte,
                       p->type, &from, i);
}

void spot_infer_image_begin(void *image, const struct spot_shape *shape, enum spot_infer_type type,
                            int begin, int end)
{
    struct spot_infer_head head;

    memset(&head, 0, sizeof(head));
    memcpy(head.magic, SPOT_INFER_MAGIC, sizeof(head.magic));
    head.n_byte = spot_infer_image_byte(shape, type, begin, end);
    head.type = type;
    head.begin = begin;
    head.end = end;
    head.shape = *shape;
    memcpy(image, &head, sizeof(head));
}

void spot_infer_image_put(void *image, const struct spot_bundle *bundle)
{
    const struct spot_infer_head *const head = image;
    const struct spot_shape shape = head->shape;
    struct packing p = { image, (enum spot_infer_type)head->type, bundle };

    spot_infer_walk(&shape, p.type, head->begin, head->end, pack, &p);
}

void spot_infer_image_pack(void *image, const struct spot_shape *shape, enum spot_infer_type type,
                           int begin, int end, struct spot_bundle *const *bundle)
{
    memset(image, 0, spot_infer_image_byte(shape, type, begin, end));
    spot_infer_image_begin(image, shape, type, begin, end);
    for (int i = 0; i < end - begin; i++)
        spot_infer_image_put(image, bundle[i]);
}

void spot_infer_unpack(float *to, const void *matrix, enum spot_infer_type type, int64_t out,
                       int64_t n_in)
{
    const uint8_t *const panel =
        (const uint8_t *)matrix + (size_t)(out / SPOT_PANEL) * spot_infer_panel_byte(type, n_in);
    const int64_t lane = out % SPOT_PANEL;

    for (int64_t k = 0; k < n_in; k++) {
        const uint8_t *const block = panel + k / SPOT_Q8_BLOCK * SPOT_Q8_BLOCK_BYTE;
        const int64_t i = k % SPOT_Q8_BLOCK;
        uint16_t half;

        if (type == SPOT_INFER_FP32) {
            memcpy(to + k, panel + (k * SPOT_PANEL + lane) * 4, sizeof(*to));
            continue;
        }
        memcpy(&half,
               type == SPOT_INFER_Q8 ? block + 2 * lane : panel + (k * SPOT_PANEL + lane) * 2,
               sizeof(half));
        to[k] = widen(half);
        if (type == SPOT_INFER_Q8)
            to[k] *= (float)(block[SPOT_Q8_SCALE + (i / 4 * SPOT_PANEL + lane) * 4 + i % 4] - 128);
    }
}

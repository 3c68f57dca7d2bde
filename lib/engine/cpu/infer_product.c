/* SPDX-License-Identifier: MIT */
/* Products: each thread has its own panels, and processes all tokens with a panel while it is in
 * cache. */
#include <string.h>

#include "engine/cpu/infer_pass.h"
#include "engine/tree.h"

enum {
    K_PART = 96, /* maximum number of inputs of a panel that stay in L1 for all tiles; twice as many
                    pairs */
    Q8_PART = 8, /* blocks */
    Q8_FEW = 3   /* tokens whose sums of a whole panel fit in registers */
};

/* --- inputs --- */

/* True if two bf16 inputs are stored in the place of one float. */
static bool is_paired(const struct spot_infer *f)
{
    return f->type == SPOT_INFER_BF16 && f->kernel->is_paired;
}

static void pack(const struct spot_infer *f, const struct spot_infer_rows *rows, int64_t first,
                 int64_t T)
{
    const int64_t n_in = is_paired(f) ? (rows->n_in + 1) / 2 : rows->n_in;
    const float *const x = rows->x + first * rows->stride;
    float *to = f->packed + (rows->row + first) * f->packed_row + rows->begin * T;

    for (int64_t k = 0; k < n_in; k++)
        for (int64_t t = 0; t < T; t++)
            *to++ = x[t * rows->stride + k];
}

void spot_infer_ready(const struct spot_infer *f, const struct spot_infer_rows *rows, int64_t n,
                      int64_t deal)
{
    const int64_t first = spot_infer_deal_begin(n, deal), end = spot_infer_deal_begin(n, deal + 1);
    const int64_t n_in = rows->n_in;

    for (int64_t t = first; t < end && f->type == SPOT_INFER_BF16; t++)
        f->kernel->round(rows->x + t * rows->stride, n_in);
    if (f->type != SPOT_INFER_Q8) {
        if (n > SPOT_TILE)
            pack(f, rows, first, end - first);
        return;
    }
    for (int64_t t = first; t < end; t++)
        for (int64_t i = 0, at = (rows->row + t) * f->q8_blocks + rows->first_block; i < n_in;
             i += SPOT_Q8_BLOCK)
            f->kernel->quantise(&f->q8, at++, rows->x + t * rows->stride + i,
                                n_in - i < SPOT_Q8_BLOCK ? n_in - i : SPOT_Q8_BLOCK);
}

/* --- a panel --- */

/* One panel's job: tiles [tile, tile_end) of n tokens. */
struct job {
    const uint8_t *panel, *after; /* after: the address that this thread reads next */
    struct spot_infer_rows in;    /* rows from the first of all tokens on */
    int64_t n, tile, tile_end;
    float *c; /* output of the first token of `tile` */
    int64_t c_row;
};

/* Of n_line lines to be prefetched for each input while the tiles of the job are computed, the
 * number of those before `tile`: at most two a tile, spread evenly over the tiles. */
static int64_t lines_before(const struct job *j, int64_t tile, int64_t n_line)
{
    const int64_t n_tile = j->tile_end - j->tile, i = tile - j->tile;

    return 2 * n_tile < n_line ? 2 * i : i * n_line / n_tile;
}

static void run_parts(const struct spot_infer *f, const struct job *j)
{
    const bool is_bf16 = f->type == SPOT_INFER_BF16;
    const int64_t n_line = is_bf16 ? 2 : 4, pair = is_paired(f) ? 2 : 1; /* lines of an input */
    const int64_t first = spot_infer_tile_begin(j->n, j->tile);
    const int64_t n_place = (j->in.n_in + pair - 1) / pair,
                  n_part = (n_place + K_PART - 1) / K_PART;
    void (*const product)(float *, int64_t, const float *, const float *, int, int64_t, bool,
                          const void *, int) = is_bf16 ? f->kernel->bf16_part : f->kernel->part;
    _Alignas(64) float laid[K_PART * SPOT_PANEL];

    for (int64_t p = 0; p < n_part; p++) {
        const int64_t at = n_place * p / n_part, k = at * pair;
        const int64_t n_k = p + 1 < n_part ? n_place * (p + 1) / n_part * pair - k : j->in.n_in - k;
        const uint8_t *const here = j->panel + k * n_line * 64;
        const uint8_t *const next = p + 1 < n_part ? here + n_k * n_line * 64 : j->after;
        const float *part = (const float *)(const void *)here;

        if (is_bf16) /* converted once for all tiles; the numbers do not change */
            part = laid;
        if (is_bf16 && f->kernel->lay)
            f->kernel->lay(laid, (const uint16_t *)(const void *)here, n_k);
        for (int64_t i = j->tile; i < j->tile_end; i++) {
            const int64_t t = spot_infer_tile_begin(j->n, i);
            const int64_t T = spot_infer_tile_begin(j->n, i + 1) - t;
            const int64_t ahead = lines_before(j, i, n_line);
            const int n_ahead = (int)(lines_before(j, i + 1, n_line) - ahead);

            const float *const x =
                f->packed + (j->in.row + t) * f->packed_row + (j->in.begin + at) * T;
            const void *const from = n_ahead ? (const void *)(next + ahead * n_k * 64) : part;
            float *const c = j->c + (t - first) * j->c_row;

            if (is_bf16 && i == j->tile && !f->kernel->lay)
                f->kernel->bf16_first(c, j->c_row, laid, (const uint16_t *)(const void *)here, x,
                                      (int)T, n_k, p > 0, from);
            else
                product(c, j->c_row, part, x, (int)T, n_k, p > 0, from, n_ahead);
        }
    }
}

static void run_q8_parts(const struct spot_infer *f, const struct job *j)
{
    const int64_t first = spot_infer_tile_begin(j->n, j->tile), few = j->n <= Q8_FEW;
    const int64_t n_block = (j->in.n_in + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK;
    const int64_t step = few ? n_block : Q8_PART;

    for (int64_t b = 0; b < n_block; b += step) {
        const int64_t n_b = n_block - b < step ? n_block - b : step;
        const uint8_t *const here = j->panel + b * SPOT_Q8_BLOCK_BYTE;
        const uint8_t *const next = few                 ? here + 4096
                                    : b + n_b < n_block ? here + n_b * SPOT_Q8_BLOCK_BYTE
                                                        : j->after;

        for (int64_t i = j->tile; i < j->tile_end; i++) {
            const int64_t t = spot_infer_tile_begin(j->n, i);
            const int64_t at = (j->in.row + t) * f->q8_blocks + j->in.first_block + b;
            const struct spot_q8 x = { f->q8.x + at * SPOT_Q8_BLOCK, f->q8.scale + at,
                                       f->q8.minus + at };
            const int64_t ahead = lines_before(j, i, 2);
            const int n_ahead = (int)(lines_before(j, i + 1, 2) - ahead);

            f->kernel->q8(j->c + (t - first) * j->c_row, j->c_row, here, &x, f->q8_blocks,
                          (int)(spot_infer_tile_begin(j->n, i + 1) - t), n_b, b > 0,
                          n_ahead ? next + ahead * n_b * 18 * 64 : here, n_ahead);
        }
    }
}

static void run_panel(const struct spot_infer *f, const struct job *j)
{
    if (f->type == SPOT_INFER_Q8)
        run_q8_parts(f, j);
    else if (j->n > SPOT_TILE)
        run_parts(f, j);
    else if (f->type == SPOT_INFER_BF16)
        f->kernel->bf16(j->c, j->c_row, (const uint16_t *)(const void *)j->panel, j->in.x,
                        j->in.stride, (int)j->n, j->in.n_in);
    else
        f->kernel->fp32(j->c, j->c_row, (const float *)(const void *)j->panel, j->in.x,
                        j->in.stride, (int)j->n, j->in.n_in);
}

/* Sets tiles of the group that begins with `tile`; returns where the next one does. */
static int64_t set_group(struct job *j, int64_t tile)
{
    const int64_t n = spot_infer_tiles(j->n), end = tile + SPOT_INFER_GROUP / SPOT_TILE;

    j->tile = tile;
    return j->tile_end = end < n ? end : n;
}

void spot_infer_panel(const struct spot_infer *f, const uint8_t *panel, const uint8_t *after,
                      const struct spot_infer_rows *in, int64_t n, float *c, int64_t c_row)
{
    struct job j = { .panel = panel, .in = *in, .n = n, .c_row = c_row };

    for (int64_t tile = 0, next; tile < spot_infer_tiles(n); tile = next) {
        next = set_group(&j, tile);
        j.after = next < spot_infer_tiles(n) ? panel : after;
        j.c = c + spot_infer_tile_begin(n, tile) * c_row;
        run_panel(f, &j);
    }
}

/* --- sharded outputs --- */

void spot_infer_by_outputs(const struct spot_infer_work *w, const char *name,
                           const struct spot_infer_input *in, float *out, int64_t stride,
                           int64_t n_out, int64_t n)
{
    const struct spot_infer *const f = w->f;
    const int64_t n_panel = (n_out + SPOT_PANEL - 1) / SPOT_PANEL, row = f->n_shard * stride;
    const size_t panel_byte = spot_infer_panel_byte(f->type, in->n_in);
    const struct spot_infer_rows rows = { in->x, in->stride, in->n_in, 0, 0, 0 };
    const uint8_t *matrix = NULL;
    int64_t i, end;

    spot_team_share(f->n_shard * n_panel, 1, w->thread, w->n_thread, &i, &end);
    for (; i < end; i++) {
        const int64_t s = i / n_panel, p = i % n_panel;

        if (!matrix || p == 0)
            matrix = spot_infer_own(w, name, (int)s);
        spot_infer_panel(f, matrix + (size_t)p * panel_byte, matrix + (size_t)(p + 1) * panel_byte,
                         &rows, n, out + s * stride + p * SPOT_PANEL, row);
        spot_infer_raise(w, in->product, 0, n, 0, (f->config.shard_begin + s) * n_panel + p,
                         out + s * stride + p * SPOT_PANEL, row);
    }
    spot_infer_meet(w);
}

/* --- sharded inputs --- */

void spot_infer_add_tree(const struct spot_vec *vec, float *part, int64_t stride, int n,
                         int64_t n_elem)
{
    const int half = spot_tree_half(n);

    if (n == 1)
        return;
    spot_infer_add_tree(vec, part, stride, half, n_elem);
    spot_infer_add_tree(vec, part + half * stride, stride, n - half, n_elem);
    vec->add(part, part + half * stride, n_elem);
}

void spot_infer_exchange(const struct spot_infer_work *w, int64_t n_elem)
{
    struct spot_infer *const f = w->f;

    if (f->n_shard == f->shape.n_shard)
        return;
    if (w->thread == 0 && !f->has_failed)
        f->has_failed = f->config.exchange(f->config.user, f->sum, (size_t)n_elem, &f->err) != 0;
    spot_infer_meet(w);
}

/* Computes panel p of all own shards for the tiles of the job; their sum is stored in the thread's
 * part. */
static void sum_of_shards(const struct spot_infer_work *w, struct job *j, const char *name,
                          const struct spot_infer_input *in, int64_t p)
{
    const struct spot_infer *const f = w->f;
    const size_t at = (size_t)p * spot_infer_panel_byte(f->type, in->n_in);
    float *const part = f->part[w->thread];
    const int64_t first = spot_infer_tile_begin(j->n, j->tile);
    const int64_t n = spot_infer_tile_begin(j->n, j->tile_end) - first;

    j->panel = (const uint8_t *)spot_infer_own(w, name, 0) + at;
    for (int s = 0; s < f->n_shard; s++) {
        j->in.x = in->x + s * in->stride;
        j->in.begin = s * in->n_in;
        j->in.first_block = s * ((in->n_in + SPOT_Q8_BLOCK - 1) / SPOT_Q8_BLOCK);
        j->c = part + s * SPOT_INFER_GROUP * SPOT_PANEL;
        j->after = (const uint8_t *)spot_infer_own(w, name, (s + 1) % f->n_shard) + at;
        if (s + 1 == f->n_shard)
            j->after += spot_infer_panel_byte(f->type, in->n_in);
        run_panel(f, j);
        spot_infer_raise(w, in->product, first, n, s, p, j->c, SPOT_PANEL);
        j->panel = j->after;
    }
    spot_infer_add_tree(f->vec, part, SPOT_INFER_GROUP * SPOT_PANEL, f->n_shard, n * SPOT_PANEL);
}

void spot_infer_by_inputs(const struct spot_infer_work *w, const char *name,
                          const struct spot_infer_input *in)
{
    const struct spot_infer *const f = w->f;
    const int64_t n_panel = (f->shape.width + SPOT_PANEL - 1) / SPOT_PANEL, n = f->n_token;
    struct job j = { .in = { .stride = f->n_shard * in->stride, .n_in = in->n_in },
                     .n = n,
                     .c_row = SPOT_PANEL };
    int64_t p, end;

    spot_team_share(n_panel, 1, w->thread, w->n_thread, &p, &end);
    for (; p < end; p++)
        for (int64_t tile = 0, next; tile < spot_infer_tiles(n); tile = next) {
            next = set_group(&j, tile);
            sum_of_shards(w, &j, name, in, p);
            for (int64_t t = spot_infer_tile_begin(n, tile), i = 0;
                 t < spot_infer_tile_begin(n, next); t++, i++)
                memcpy(f->sum + (t * n_panel + p) * SPOT_PANEL, f->part[w->thread] + i * SPOT_PANEL,
                       SPOT_PANEL * sizeof(float));
        }
    spot_infer_meet(w);
    spot_infer_exchange(w, n * n_panel * SPOT_PANEL);
}

/* SPDX-License-Identifier: MIT */
#include "engine/cpu/gemm.h"

#include <assert.h>
#include <string.h>

#include "engine/cpu/team.h"
#include "engine/tree.h"

/* Block sizes, in elements per thread: a block of a stays in L2, a panel of b in L1, a block of b
 * in L3. SUM_BLOCK: partial products of up to this total length are added tile by tile in L1.
 * REGION: a part of c, at most SUM_COLS wide, with a buffer for its pending partial sums. */
enum {
    K_BLOCK = 512,
    SUM_BLOCK = 1024,
    A_BLOCK = 48 * 1024,
    B_BLOCK = 512 * 1024,
    SUM_COLS = B_BLOCK / SUM_BLOCK,
    REGION = SUM_COLS * 384,
};

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Maximum number of pending partial sums while n parts are added in the order of the tree. */
static int waiting(int n)
{
    int depth = 0;

    for (; n > 1; n = spot_tree_half(n))
        depth++;
    return depth;
}

size_t spot_gemm_work_elem(int n_part)
{
    return (size_t)(A_BLOCK + B_BLOCK + 2 * SPOT_PACK_SLACK) + (size_t)waiting(n_part) * REGION;
}

struct spot_gemm_work spot_gemm_work_of(float *memory)
{
    float *const b = memory + A_BLOCK + SPOT_PACK_SLACK;

    return (struct spot_gemm_work){ memory, b, b + B_BLOCK + SPOT_PACK_SLACK };
}

/* One block of k as passed to the micro-kernel: a is packed or in place, b is packed in panels. The
 * block may hold several partial products, in order. */
struct operands {
    const float *a, *b;
    int64_t a_row, a_k;     /* strides; of a packed a: 1 and the rows of a tile */
    int64_t a_tile;         /* from tile to tile */
    int64_t b_panel;        /* from panel to panel */
    int64_t a_part, b_part; /* from the operand of one partial product to that of the next */
    int64_t n_k;            /* of one partial product */
    int n_part;
};

/* Where one tile's operands and output begin, and how much of the tile is in c. */
struct tile {
    const float *a, *b;
    float *c;
    int64_t c_row, n_row, n_col;
};

static void run_tile(const struct spot_micro *micro, const struct operands *in,
                     const struct tile *t, enum spot_tile tile)
{
    micro->run(t->n_row, in->n_k, t->a, in->a_row, in->a_k, t->b, t->c, t->c_row, tile);
}

enum { TILE_MAX = SPOT_MICRO_ROWS_MAX * SPOT_MICRO_COLS_MAX, DEPTH_MAX = 10 }; /* 2^10 parts */

/* Computes a whole tile in the buffer `to`: the sum over parts [part, part + n) in the order of
 * engine/tree.h. A half that is a single part is added while it is computed; partial sums that are
 * pending are stored from to + TILE_MAX on. */
static void sum_tile(const struct spot_cpu_kernel *kernel, const struct operands *in,
                     const struct tile *t, int part, int n, float *to)
{
    const int half = spot_tree_half(n);
    struct tile one = { .n_row = t->n_row,
                        .a = t->a + part * in->a_part,
                        .b = t->b + part * in->b_part,
                        .c = to,
                        .c_row = kernel->micro->n_col };

    if (n == 1) {
        run_tile(kernel->micro, in, &one, SPOT_TILE_STORE);
        return;
    }
    sum_tile(kernel, in, t, part + half, n - half, to);
    if (half == 1) {
        run_tile(kernel->micro, in, &one, SPOT_TILE_ADD);
        return;
    }
    sum_tile(kernel, in, t, part, half, to + TILE_MAX);
    kernel->vec->add(to, to + TILE_MAX, t->n_row * kernel->micro->n_col);
}

/* A tile that reaches over the last column of c, or has several parts. */
static void run_aside(const struct spot_cpu_kernel *kernel, const struct operands *in,
                      const struct tile *t, enum spot_tile tile)
{
    float whole[DEPTH_MAX * TILE_MAX] __attribute__((aligned(64)));
    const int64_t n_col = kernel->micro->n_col;

    if (tile == SPOT_TILE_CHAIN) {
        const struct tile inside = {
            .a = t->a, .b = t->b, .c = whole, .c_row = n_col, .n_row = t->n_row
        };

        memset(whole, 0, TILE_MAX * sizeof(float));
        for (int64_t i = 0; i < t->n_row; i++)
            memcpy(whole + i * n_col, t->c + i * t->c_row, (size_t)t->n_col * sizeof(float));
        run_tile(kernel->micro, in, &inside, tile);
    } else {
        sum_tile(kernel, in, t, 0, in->n_part, whole);
    }
    for (int64_t i = 0; i < t->n_row; i++)
        if (tile == SPOT_TILE_ADD)
            kernel->vec->add(t->c + i * t->c_row, whole + i * n_col, t->n_col);
        else
            memcpy(t->c + i * t->c_row, whole + i * n_col, (size_t)t->n_col * sizeof(float));
}

/* A range of the product: rows [row, row_end), panels [panel, panel_end) of columns, counted
 * through all parts. */
struct range {
    int64_t row, row_end, panel, panel_end;
};

/* A block of k from each of n_part parts, and how its product is combined with c. c begins at row
 * `row` and column `col` of the whole product. */
struct block {
    int part, n_part;
    int64_t k, n_k;
    enum spot_tile tile;
    float *c;
    int64_t c_row, row, col;
};

static int64_t panels_of_part(const struct spot_gemm *g, const struct spot_micro *micro)
{
    return up(g->n, micro->n_col) / micro->n_col;
}

static int64_t panels_of(const struct spot_gemm *g, const struct spot_micro *micro)
{
    return panels_of_part(g, micro) * (g->parts == SPOT_GEMM_COLS ? g->n_part : 1);
}

/* First column of c that belongs to a panel. */
static int64_t column_of(const struct spot_gemm *g, const struct spot_micro *micro, int64_t panel)
{
    const int64_t per_part = panels_of_part(g, micro);

    return panel / per_part * g->n + panel % per_part * micro->n_col;
}

static void pack_b(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                   const struct range *r, const struct block *at, float *to)
{
    const struct spot_micro *const micro = kernel->micro;
    const int64_t per_part = panels_of_part(g, micro);

    for (int64_t p = r->panel; p < r->panel_end; p++) {
        const int64_t first = g->parts == SPOT_GEMM_COLS ? p / per_part : at->part;
        const int64_t col = p % per_part * micro->n_col;

        for (int i = 0; i < at->n_part; i++, to += at->n_k * micro->n_col) {
            kernel->vec->pack(
                to, g->b + (first + i) * g->b_part + at->k * g->b_row + col * g->b_col,
                min64(micro->n_col, g->n - col), g->b_col, g->b_row, at->n_k, micro->n_col);
            if (g->rounds_b)
                kernel->vec->round_bf16(to, at->n_k * micro->n_col);
        }
    }
}

static void multiply(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                     const struct range *r, const struct block *at, const struct operands *in)
{
    const struct spot_micro *const micro = kernel->micro;
    const int64_t per_part = panels_of_part(g, micro);
    const float *b = in->b;

    for (int64_t p = r->panel; p < r->panel_end; p++, b += in->b_panel) {
        struct tile t = {
            in->a,     b, at->c + (r->row - at->row) * at->c_row + column_of(g, micro, p) - at->col,
            at->c_row, 0, min64(micro->n_col, g->n - p % per_part * micro->n_col)
        };

        for (int64_t row = r->row; row < r->row_end; row += micro->n_row) {
            t.n_row = min64(micro->n_row, r->row_end - row);
            if (t.n_col == micro->n_col && in->n_part == 1)
                run_tile(micro, in, &t, at->tile);
            else
                run_aside(kernel, in, &t, at->tile);
            t.a += in->a_tile;
            t.c += micro->n_row * at->c_row;
        }
    }
}

/* Multiplies one block of k for a range whose block of b fits the packing space. */
static void run_block(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                      const struct range *r, const struct block *at,
                      const struct spot_gemm_work *work)
{
    const struct spot_micro *const micro = kernel->micro;
    const int64_t n_k = at->n_k * at->n_part;
    const int64_t row_block = max64(micro->n_row, A_BLOCK / n_k / micro->n_row * micro->n_row);
    const int64_t a_k = at->k + (g->parts == SPOT_GEMM_SUM ? at->part * g->k : 0);
    struct operands in = { .b = work->b,
                           .b_panel = n_k * micro->n_col,
                           .a_part = at->n_k * micro->n_row,
                           .b_part = at->n_k * micro->n_col,
                           .n_k = at->n_k,
                           .n_part = at->n_part };

    if (g->b_packed) {
        in.b_panel = g->packed_k * micro->n_col;
        in.b = g->b_packed + r->panel * in.b_panel + at->k * micro->n_col;
    } else {
        pack_b(kernel, g, r, at, work->b);
    }
    for (int64_t row = r->row; row < r->row_end; row += row_block) {
        const struct range rows = { row, min64(row + row_block, r->row_end), r->panel,
                                    r->panel_end };
        const float *const a = g->a + row * g->a_row + a_k * g->a_col;

        in.a = g->is_a_in_place ? a : work->a;
        in.a_row = g->is_a_in_place ? g->a_row : 1;
        in.a_k = g->is_a_in_place ? g->a_col : micro->n_row;
        in.a_tile = micro->n_row * (g->is_a_in_place ? g->a_row : n_k);
        if (!g->is_a_in_place)
            kernel->vec->pack(work->a, a, rows.row_end - row, g->a_row, g->a_col, n_k,
                              micro->n_row);
        if (g->rounds_a)
            kernel->vec->round_bf16(work->a, up(rows.row_end - row, micro->n_row) * n_k);
        multiply(kernel, g, &rows, at, &in);
    }
}

/* Multiplies one part: a chain over blocks of k. */
static void run_chain(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                      const struct range *r, const struct block *to,
                      const struct spot_gemm_work *work)
{
    const int64_t n_block = (g->k + K_BLOCK - 1) / K_BLOCK;
    const int64_t k_block = min64(g->k, up((g->k + n_block - 1) / n_block, 8));
    const int64_t panels = max64(1, B_BLOCK / kernel->micro->n_col / k_block);

    for (int64_t p = r->panel; p < r->panel_end; p += panels) {
        const struct range part = { r->row, r->row_end, p, min64(p + panels, r->panel_end) };

        for (int64_t k = 0; k < g->k; k += k_block) {
            struct block at = *to;

            at.n_part = 1;
            at.k = k;
            at.n_k = min64(k_block, g->k - k);
            at.tile = k || g->is_added ? SPOT_TILE_CHAIN : SPOT_TILE_STORE;
            run_block(kernel, g, &part, &at, work);
        }
    }
}

/* True if n partial products are added tile by tile. */
static bool is_short(const struct spot_gemm *g, int n)
{
    return n * g->k <= SUM_BLOCK;
}

static void add_region(const struct spot_cpu_kernel *kernel, const struct range *r,
                       const struct block *to, const float *from, int64_t from_row)
{
    for (int64_t row = 0; row < r->row_end - r->row; row++)
        kernel->vec->add(to->c + row * to->c_row, from + row * from_row, from_row);
}

/* Sums parts [to->part, to->part + to->n_part) of a region, as sum_tile does for a tile. `n_col`
 * columns; to->tile is STORE or, if the parts are short, ADD; `aside` holds pending sums. */
static void sum_region(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                       const struct range *r, const struct block *to, int64_t n_col,
                       const struct spot_gemm_work *work, float *aside)
{
    const int half = spot_tree_half(to->n_part);
    struct block first = *to, second = *to;

    if (is_short(g, to->n_part)) {
        run_block(kernel, g, r, to, work);
        return;
    }
    if (to->n_part == 1) {
        run_chain(kernel, g, r, to, work);
        return;
    }
    first.n_part = half;
    second.part += half;
    second.n_part -= half;
    sum_region(kernel, g, r, &second, n_col, work, aside);
    if (is_short(g, half)) {
        first.tile = SPOT_TILE_ADD;
        run_block(kernel, g, r, &first, work);
        return;
    }
    first.c = aside;
    first.c_row = n_col;
    sum_region(kernel, g, r, &first, n_col, work, aside + REGION);
    add_region(kernel, r, to, aside, n_col);
}

/* Adds up the partial products, region by region. */
static void run_sum(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                    const struct range *r, const struct spot_gemm_work *work)
{
    const struct spot_micro *const micro = kernel->micro;
    const int64_t panels = max64(1, SUM_COLS / micro->n_col);
    const int64_t n_row =
        is_short(g, g->n_part) ? max64(1, r->row_end - r->row) : REGION / (panels * micro->n_col);

    assert(!g->is_added && !g->is_a_in_place && !g->b_packed);
    for (int64_t p = r->panel; p < r->panel_end; p += panels)
        for (int64_t row = r->row; row < r->row_end; row += n_row) {
            const struct range part = { row, min64(row + n_row, r->row_end), p,
                                        min64(p + panels, r->panel_end) };
            const int64_t col = column_of(g, micro, p);
            const struct block to = { .n_part = g->n_part,
                                      .n_k = g->k,
                                      .tile = SPOT_TILE_STORE,
                                      .c = g->c + row * g->c_row + col,
                                      .c_row = g->c_row,
                                      .row = row,
                                      .col = col };

            sum_region(kernel, g, &part, &to,
                       min64((part.panel_end - p) * micro->n_col, g->n - col), work, work->aside);
        }
}

static void run_range(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                      const struct range *r, const struct spot_gemm_work *work)
{
    const struct block whole = { .n_part = 1, .c = g->c, .c_row = g->c_row };

    if (g->parts == SPOT_GEMM_SUM && g->n_part > 1)
        run_sum(kernel, g, r, work);
    else
        run_chain(kernel, g, r, &whole, work);
}

size_t spot_gemm_packed_elem(int64_t n, int64_t k)
{
    return (size_t)(up(n, SPOT_MICRO_COLS_MAX) * k + SPOT_PACK_SLACK);
}

void spot_gemm_pack(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g, float *to)
{
    const struct range all = { 0, 0, 0, panels_of(g, kernel->micro) };
    const struct block whole = { .n_part = 1, .n_k = g->k };

    pack_b(kernel, g, &all, &whole, to);
}

void spot_gemm_serial(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                      const struct spot_gemm_work *work)
{
    const struct range all = { 0, g->m, 0, panels_of(g, kernel->micro) };

    run_range(kernel, g, &all, work);
}

/* Each further row of threads packs all of b again, each further column all of a: choose the
 * cheapest grid. */
static int best_row_cut(const struct spot_gemm *g, const struct spot_micro *micro, int n_thread)
{
    const int64_t n_col = panels_of(g, micro) * micro->n_col;
    int best = 1;
    int64_t least = 0;

    for (int cut = 1; cut <= n_thread; cut++) {
        const int64_t cost = g->m * (n_thread / cut) + n_col * cut;

        if (n_thread % cut == 0 && (cut == 1 || cost < least)) {
            best = cut;
            least = cost;
        }
    }
    return best;
}

struct spot_block spot_gemm_part(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                                 int thread, int n_thread, const struct spot_gemm_work *work)
{
    const struct spot_micro *const micro = kernel->micro;
    /* threads form a grid of n_row_cut x n_col_cut */
    const int n_row_cut = best_row_cut(g, micro, n_thread), n_col_cut = n_thread / n_row_cut;
    const int64_t n_panel = panels_of(g, micro), n_col = column_of(g, micro, n_panel);
    struct range r;

    spot_team_share(g->m, micro->n_row, thread / n_col_cut, n_row_cut, &r.row, &r.row_end);
    spot_team_share(n_panel, 1, thread % n_col_cut, n_col_cut, &r.panel, &r.panel_end);
    run_range(kernel, g, &r, work);
    return (struct spot_block){ r.row, r.row_end, min64(column_of(g, micro, r.panel), n_col),
                                min64(column_of(g, micro, r.panel_end), n_col) };
}

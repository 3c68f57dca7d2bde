/* SPDX-License-Identifier: MIT */
#include "engine/cpu/gemm.h"

#include <assert.h>
#include <string.h>

#include "engine/cpu/team.h"

/* Blocks, in elements of one thread: a's stays in its L2, a panel of b in L1, b's block in L3. */
enum { K_BLOCK = 512, A_BLOCK = 48 * 1024, B_BLOCK = 512 * 1024 };

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

static int64_t a_elem(int64_t k_part)
{
    return up(max64(A_BLOCK, SPOT_MICRO_ROWS_MAX * max64(k_part, K_BLOCK)), 16) + SPOT_PACK_SLACK;
}

static int64_t b_elem(int64_t k_part)
{
    return up(max64(B_BLOCK, SPOT_MICRO_COLS_MAX * max64(k_part, K_BLOCK)), 16) + SPOT_PACK_SLACK;
}

size_t spot_gemm_work_elem(int64_t k_part)
{
    return (size_t)(a_elem(k_part) + b_elem(k_part));
}

struct spot_gemm_work spot_gemm_work_of(float *memory, int64_t k_part)
{
    return (struct spot_gemm_work){ memory, memory + a_elem(k_part) };
}

/* One block of k as it meets the micro-kernel: a packed (a_row 0) or in place, b in panels. */
struct operands {
    const float *a, *b;
    int64_t a_row, a_k; /* strides in place */
    int64_t b_panel;    /* from panel to panel */
};

/* Where one tile's operands and output begin, and how much of the tile is in c. */
struct tile {
    const float *a, *b;
    float *c;
    int64_t c_row, n_row, n_col;
};

static void run_tile(const struct spot_micro *micro, int64_t k, const struct operands *in,
                     const struct tile *t, enum spot_tile tile)
{
    if (in->a_row)
        micro->run_in_place(k, t->a, in->a_row, in->a_k, t->b, t->c, t->c_row, tile);
    else
        micro->run(k, t->a, t->b, t->c, t->c_row, tile);
}

/* A tile that reaches over the edge of c. */
static void run_edge(const struct spot_micro *micro, int64_t k, const struct operands *in,
                     const struct tile *t, enum spot_tile tile)
{
    float whole[SPOT_MICRO_ROWS_MAX * SPOT_MICRO_COLS_MAX] __attribute__((aligned(64))) = { 0 };
    const struct tile inside = { .a = t->a, .b = t->b, .c = whole, .c_row = micro->n_col };
    const size_t n_byte = (size_t)t->n_col * sizeof(float);

    if (tile != SPOT_TILE_STORE)
        for (int64_t i = 0; i < t->n_row; i++)
            memcpy(whole + i * micro->n_col, t->c + i * t->c_row, n_byte);
    run_tile(micro, k, in, &inside, tile);
    for (int64_t i = 0; i < t->n_row; i++)
        memcpy(t->c + i * t->c_row, whole + i * micro->n_col, n_byte);
}

/* Where a range of the product lies: rows [row, row_end), panels [panel, panel_end) of columns,
 * counted through all parts; a block of k of part `part`. */
struct range {
    int64_t row, row_end, panel, panel_end;
};

struct block {
    int part;
    int64_t k, n_k;
    enum spot_tile tile;
};

static int64_t panels_of_part(const struct spot_gemm *g, const struct spot_micro *micro)
{
    return up(g->n, micro->n_col) / micro->n_col;
}

static int64_t panels_of(const struct spot_gemm *g, const struct spot_micro *micro)
{
    return panels_of_part(g, micro) * (g->parts == SPOT_GEMM_COLS ? g->n_part : 1);
}

static void pack_b(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                   const struct range *r, const struct block *at, float *to)
{
    const struct spot_micro *const micro = kernel->micro;
    const int64_t per_part = panels_of_part(g, micro);

    for (int64_t p = r->panel; p < r->panel_end; p++, to += at->n_k * micro->n_col) {
        const int64_t part = g->parts == SPOT_GEMM_COLS ? p / per_part : at->part;
        const int64_t col = p % per_part * micro->n_col;

        kernel->vec->pack(to, g->b + part * g->b_part + at->k * g->b_row + col * g->b_col,
                          min64(micro->n_col, g->n - col), g->b_col, g->b_row, at->n_k,
                          micro->n_col);
    }
}

static void multiply(const struct spot_gemm *g, const struct spot_micro *micro,
                     const struct range *r, const struct block *at, const struct operands *in)
{
    const int64_t per_part = panels_of_part(g, micro);
    const int64_t a_tile = micro->n_row * (in->a_row ? in->a_row : at->n_k);
    const float *b = in->b;

    for (int64_t p = r->panel; p < r->panel_end; p++, b += in->b_panel) {
        const int64_t col = p % per_part * micro->n_col;
        struct tile t = { in->a,    b, g->c + r->row * g->c_row + p / per_part * g->n + col,
                          g->c_row, 0, min64(micro->n_col, g->n - col) };

        for (int64_t row = r->row; row < r->row_end; row += micro->n_row) {
            t.n_row = min64(micro->n_row, r->row_end - row);
            if (t.n_row == micro->n_row && t.n_col == micro->n_col)
                run_tile(micro, at->n_k, in, &t, at->tile);
            else
                run_edge(micro, at->n_k, in, &t, at->tile);
            t.a += a_tile;
            t.c += micro->n_row * g->c_row;
        }
    }
}

/* One block of k for a range whose block of b fits the packing space. */
static void run_block(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                      const struct range *r, const struct block *at,
                      const struct spot_gemm_work *work)
{
    const struct spot_micro *const micro = kernel->micro;
    const int64_t row_block = max64(micro->n_row, A_BLOCK / at->n_k / micro->n_row * micro->n_row);
    const int64_t a_k = at->k + (g->parts == SPOT_GEMM_SUM ? at->part * g->k : 0);
    struct operands in = { .b = work->b, .b_panel = at->n_k * micro->n_col };

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
        in.a_row = g->is_a_in_place ? g->a_row : 0;
        in.a_k = g->a_col;
        if (!g->is_a_in_place)
            kernel->vec->pack(work->a, a, rows.row_end - row, g->a_row, g->a_col, at->n_k,
                              micro->n_row);
        multiply(g, micro, &rows, at, &in);
    }
}

static void run_range(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                      const struct range *r, const struct spot_gemm_work *work)
{
    const int n_sum = g->parts == SPOT_GEMM_SUM ? g->n_part : 1;
    /* A partial product must be whole before it is added: it cannot wait in c. */
    const int64_t n_block = n_sum > 1 ? 1 : (g->k + K_BLOCK - 1) / K_BLOCK;
    const int64_t k_block = min64(g->k, up((g->k + n_block - 1) / n_block, 8));
    const int64_t panels = max64(1, B_BLOCK / kernel->micro->n_col / k_block);

    assert(!(g->is_added && n_sum > 1));
    for (int64_t p = r->panel; p < r->panel_end; p += panels) {
        const struct range part = { r->row, r->row_end, p, min64(p + panels, r->panel_end) };

        for (int s = 0; s < n_sum; s++)
            for (int64_t k = 0; k < g->k; k += k_block) {
                const struct block at = { s, k, min64(k_block, g->k - k),
                                          s                  ? SPOT_TILE_ADD
                                          : k || g->is_added ? SPOT_TILE_CHAIN
                                                             : SPOT_TILE_STORE };

                run_block(kernel, g, &part, &at, work);
            }
    }
}

size_t spot_gemm_packed_elem(int64_t n, int64_t k)
{
    return (size_t)(up(n, SPOT_MICRO_COLS_MAX) * k + SPOT_PACK_SLACK);
}

void spot_gemm_pack(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g, float *to)
{
    const struct range all = { 0, 0, 0, panels_of(g, kernel->micro) };
    const struct block whole = { .n_k = g->k };

    pack_b(kernel, g, &all, &whole, to);
}

void spot_gemm_serial(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                      const struct spot_gemm_work *work)
{
    const struct range all = { 0, g->m, 0, panels_of(g, kernel->micro) };

    run_range(kernel, g, &all, work);
}

/* Each row cut packs all of b again, each column cut all of a: take the cheapest grid. */
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

/* First column of c that belongs to a panel. */
static int64_t column_of(const struct spot_gemm *g, const struct spot_micro *micro, int64_t panel)
{
    const int64_t per_part = panels_of_part(g, micro);

    return panel / per_part * g->n + panel % per_part * micro->n_col;
}

struct spot_block spot_gemm_part(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                                 int thread, int n_thread, const struct spot_gemm_work *work)
{
    const struct spot_micro *const micro = kernel->micro;
    /* threads stand in a grid of n_row_cut x n_col_cut */
    const int n_row_cut = best_row_cut(g, micro, n_thread), n_col_cut = n_thread / n_row_cut;
    const int64_t n_panel = panels_of(g, micro), n_col = column_of(g, micro, n_panel);
    struct range r;

    spot_team_share(g->m, micro->n_row, thread / n_col_cut, n_row_cut, &r.row, &r.row_end);
    spot_team_share(n_panel, 1, thread % n_col_cut, n_col_cut, &r.panel, &r.panel_end);
    run_range(kernel, g, &r, work);
    return (struct spot_block){ r.row, r.row_end, min64(column_of(g, micro, r.panel), n_col),
                                min64(column_of(g, micro, r.panel_end), n_col) };
}

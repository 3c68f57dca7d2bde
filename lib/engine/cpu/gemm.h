/* SPDX-License-Identifier: MIT */
/* gemm.h - matrix products cut at the canonical shards, with the same bits for any cut of the work.
 *
 *   COLS  the parts of b lie side by side: c[m][p * n + j] = sum over k of a[m][k] b_p[k][j]
 *   SUM   the parts are partial products: c[m][j] = sum over p, in the order of engine/tree.h, of
 *         (sum over k of a[m][p * k_len + k] b_p[k][j])
 *
 * Every sum over k is one chain in ascending order (kernel_cpu.h). Any strides, so that the
 * transposed products of the backward pass need no copies.
 */
#ifndef SPOT_ENGINE_CPU_GEMM_H
#define SPOT_ENGINE_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/cpu/kernel_cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_gemm_parts { SPOT_GEMM_COLS, SPOT_GEMM_SUM };

struct spot_gemm {
    int64_t m, n, k; /* n and k of one part */
    enum spot_gemm_parts parts;
    int n_part;
    const float *a;
    int64_t a_row, a_col; /* strides, elements */
    const float *b;
    int64_t b_row, b_col, b_part;
    float *c;
    int64_t c_row;
    bool rounds_a, rounds_b; /* whether a and b are rounded to bf16 when they are packed */
    bool is_added;           /* the chain continues from the value in c; only with a single part */
    /* For small products that share an operand. One part only. */
    bool is_a_in_place;    /* a is not packed; rows up to a multiple of 16 must be readable */
    const float *b_packed; /* b, packed by spot_gemm_pack, or NULL */
    int64_t packed_k;      /* the k with which it was packed, not below this one's */
};

/* Pack all of b for use as b_packed, [panels][k][columns of a panel]; the first function returns
 * the number of elements. */
size_t spot_gemm_packed_elem(int64_t n, int64_t k);
void spot_gemm_pack(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g, float *to);

/* Scratch space of one thread, in elements, for sums of up to n_part partial products. */
size_t spot_gemm_work_elem(int n_part);

struct spot_gemm_work {
    float *a, *b; /* packed blocks */
    float *aside; /* partial sums that are pending */
};

/* Divide memory of spot_gemm_work_elem elements, 64-byte aligned. */
struct spot_gemm_work spot_gemm_work_of(float *memory);

/* Compute the whole product in the calling thread. */
void spot_gemm_serial(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                      const struct spot_gemm_work *work);

/* Rows and columns of c. */
struct spot_block {
    int64_t row, row_end, col, col_end;
};

/* Compute the part of the product that belongs to `thread` of n_thread, and return its block of
 * c. The parts of all threads together are c; each thread may continue with its own without
 * waiting. */
struct spot_block spot_gemm_part(const struct spot_cpu_kernel *kernel, const struct spot_gemm *g,
                                 int thread, int n_thread, const struct spot_gemm_work *work);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CPU_GEMM_H */

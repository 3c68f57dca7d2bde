/* SPDX-License-Identifier: MIT */
/* assign_dense.h - the inner solver of assign.c: a full matrix, 64 bits, rows <= columns.
 *
 * Jonker and Volgenant's initialisation (square: column reduction and reduction transfer; always:
 * augmenting row reduction, with a cap on its price wars) and shortest augmenting paths. Long rows
 * are mostly read through short lists of their cheapest columns (assign_near.h), otherwise in full,
 * with SIMD (AVX-512, AVX2 or portable, chosen at run time, equal results).
 */
#ifndef SPOT_PLAN_ASSIGN_ASSIGN_DENSE_H
#define SPOT_PLAN_ASSIGN_ASSIGN_DENSE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_DENSE_LANES = 8 }; /* columns are padded to a multiple of it */

#define SPOT_DENSE_COST_MAX  (INT64_C(1) << 55) /* |cost| up to here */
#define SPOT_DENSE_FORBIDDEN (INT64_C(1) << 61)

struct spot_dense {
    int n_row, n_col;    /* n_row <= n_col */
    int stride;          /* a multiple of SPOT_DENSE_LANES, >= n_col */
    const int64_t *cost; /* [n_row * stride]; padding is SPOT_DENSE_FORBIDDEN */
    int64_t *u;          /* [n_row] answers */
    int64_t *v;          /* [stride] <= 0 if n_row < n_col; 0 where unmatched */
    int *col_of;         /* [n_row] */
    int *row_of;         /* [n_col], -1 unmatched */
};

enum spot_dense_result {
    SPOT_DENSE_OK,
    SPOT_DENSE_INFEASIBLE,
    SPOT_DENSE_OVERFLOW, /* a price left the range that is safe in 64 bits */
};

enum spot_dense_result spot_dense_solve(const struct spot_dense *problem);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_ASSIGN_DENSE_H */

/* SPDX-License-Identifier: MIT */
/* row_scan.h - the inner loops of assign_dense.c over one row of costs, in SIMD.
 *
 * Arrays are padded to a multiple of 8 columns, and 64-byte aligned, except the costs. All versions
 * return the same values: ties go to the lowest column.
 */
#ifndef SPOT_PLAN_ASSIGN_ROW_SCAN_H
#define SPOT_PLAN_ASSIGN_ROW_SCAN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_two_least {
    int64_t least, second; /* values of cost - price */
    int64_t least_at, second_at;
};

enum { SPOT_SCAN_GROUPS = 64 };

struct spot_row_scan {
    /* The two smallest values of cost[j] - price[j]. */
    void (*two_least)(const int64_t *cost, const int64_t *price, int64_t n,
                      struct spot_two_least *out);
    /* distance[j] = min(distance[j], cost[j] - price[j] + shift), from[j] = row where that changed
     * it; returns the smallest distance. */
    int64_t (*relax)(const int64_t *cost, const int64_t *price, int64_t shift, int64_t row,
                     int64_t *distance, int64_t *from, int64_t n);
    /* least[j] = min(least[j], cost[j]), at[j] = row where that changed it. */
    void (*column_min)(const int64_t *cost, int64_t row, int64_t *least, int64_t *at, int64_t n);
    /* First j >= begin with value[j] == wanted, n if none. */
    int64_t (*find)(const int64_t *value, int64_t wanted, int64_t begin, int64_t n);
    /* The smallest value. */
    int64_t (*least)(const int64_t *value, int64_t n);
    /* least[g] = the minimum of cost[j] - price[j] over columns j = g modulo SPOT_SCAN_GROUPS,
     * INT64_MAX if there is none. */
    void (*group_least)(const int64_t *cost, const int64_t *price, int64_t n, int64_t *least);
    /* Columns with cost[j] - price[j] <= limit into col, ascending, and their costs into value,
     * `most` of them at most. Returns their number, most + 1 if there are more. */
    int (*collect)(const int64_t *cost, const int64_t *price, int64_t limit, int64_t n, int most,
                   int32_t *col, int64_t *value);
    /* Bit j of set is cost[j] == shift + price[j]. Here n is any number, price need not be
     * aligned, and bits from n to the end of a word are 0. */
    void (*equal)(const int64_t *cost, const int64_t *price, int64_t shift, int64_t n,
                  uint64_t *set);
};

/* The fastest version for this processor; SPOT_SIMD=portable or avx2 in the environment selects a
 * lesser one. */
const struct spot_row_scan *spot_row_scan(void);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_ROW_SCAN_H */

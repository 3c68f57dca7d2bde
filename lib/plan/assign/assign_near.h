/* SPDX-License-Identifier: MIT */
/* assign_near.h - lists of the cheapest columns of each row, so that assign_dense.c need not read
 * whole rows.
 *
 * A row's list holds every column whose cost less price was at most `limit` when it was made. As
 * prices only fall, all other columns remain above the limit: a search up to the limit gives the
 * same result as a scan of the whole row, ties included.
 */
#ifndef SPOT_PLAN_ASSIGN_ASSIGN_NEAR_H
#define SPOT_PLAN_ASSIGN_ASSIGN_NEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/assign/assign_dense.h"
#include "plan/assign/row_scan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_NEAR_MOST = 64 }; /* columns in a list */

struct spot_near_list {
    int64_t limit; /* INT64_MIN: no list */
    int64_t floor; /* lower bound of cost less price in the row; remains valid as prices fall */
    int n;
    bool is_crowded;             /* ties: no list would be short enough */
    int32_t col[SPOT_NEAR_MOST]; /* ascending */
    int64_t cost[SPOT_NEAR_MOST];
};

struct spot_near {
    const struct spot_dense *p;
    const struct spot_row_scan *scan;
    int64_t beyond;              /* costs less price at or above this are not pairs */
    struct spot_near_list *list; /* [n_row], NULL if rows are short */
    int n_made, n_crowded;       /* rows that got a list, rows that could not */
};

void spot_near_init(struct spot_near *near, const struct spot_dense *p,
                    const struct spot_row_scan *scan, int64_t beyond);
void spot_near_release(struct spot_near *near);

/* Raise the lower bound of cost less price in all rows. */
void spot_near_raise(struct spot_near *near, int64_t floor);

/* The list of a row, made if necessary; NULL if it cannot have one. */
const struct spot_near_list *spot_near_get(struct spot_near *near, int row);

/* Remake the list of a row with the current prices. NULL if it cannot have one. */
const struct spot_near_list *spot_near_renew(struct spot_near *near, int row);

/* The two smallest values of cost less price in a row, as by spot_row_scan's two_least; missing
 * ones are at least `beyond`. */
void spot_near_two_least(struct spot_near *near, int row, struct spot_two_least *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_ASSIGN_NEAR_H */

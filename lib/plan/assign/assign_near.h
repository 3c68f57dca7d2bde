/* SPDX-License-Identifier: MIT */
/* assign_near.h - the cheapest columns of each row, so that assign_dense.c need not read whole
 * rows.
 *
 * A row's list holds every column whose cost less price was at most `limit` when it was made. As
 * prices only fall, all other columns stay above the limit for ever: what is found up to the limit
 * is what a scan of the whole row would find, ties included.
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
    int64_t limit; /* INT64_MIN: there is no list */
    int64_t floor; /* no cost less price in the row is below; as prices fall, that stays so */
    int n;
    bool is_crowded;             /* ties: no list is short enough */
    int32_t col[SPOT_NEAR_MOST]; /* ascending */
    int64_t cost[SPOT_NEAR_MOST];
};

struct spot_near {
    const struct spot_dense *p;
    const struct spot_row_scan *scan;
    int64_t beyond;              /* costs less price from here on are no pairs */
    struct spot_near_list *list; /* [n_row], NULL where rows are short */
    int n_made, n_crowded;       /* rows that got a list, or could not */
};

void spot_near_init(struct spot_near *near, const struct spot_dense *p,
                    const struct spot_row_scan *scan, int64_t beyond);
void spot_near_release(struct spot_near *near);

/* No cost less price is below `floor` in any row. */
void spot_near_raise(struct spot_near *near, int64_t floor);

/* The list of a row, made if there is none yet; NULL if it cannot have one. */
const struct spot_near_list *spot_near_get(struct spot_near *near, int row);

/* Make the list of a row afresh, by the prices of now. NULL if it cannot have one. */
const struct spot_near_list *spot_near_renew(struct spot_near *near, int row);

/* The two least of cost less price in a row, as by spot_row_scan's two_least; what is not there is
 * at least `beyond`. */
void spot_near_two_least(struct spot_near *near, int row, struct spot_two_least *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASSIGN_ASSIGN_NEAR_H */

/* SPDX-License-Identifier: MIT */
/* Minimises the largest single cost: binary search over the distinct costs, a matching on bit sets
 * for each threshold; then the least sum under the threshold found. */
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "plan/assign.h"
#include "plan/assign/assign_pairs.h"

static int descending(const void *a, const void *b)
{
    return spot_num_compare_int64(b, a);
}

/* The distinct costs, best first; returns their number. */
static size_t list_values(const struct spot_assign_problem *p, size_t n_pair, int64_t *value)
{
    size_t n = 0, n_value = 0;

    for (size_t k = 0; k < n_pair; k++)
        if (p->cost[k] != SPOT_ASSIGN_FORBIDDEN)
            value[n++] = p->cost[k];
    qsort(value, n, sizeof *value, p->is_max ? descending : spot_num_compare_int64);
    for (size_t k = 0; k < n; k++)
        if (!k || value[k] != value[n_value - 1])
            value[n_value++] = value[k];
    return n_value;
}

static bool is_within(const struct spot_assign_problem *p, int64_t cost, int64_t limit)
{
    return cost != SPOT_ASSIGN_FORBIDDEN && (p->is_max ? cost >= limit : cost <= limit);
}

/* True if the pairs up to the limit match all lines of the shorter side, which are columns here. */
static bool is_matched(const struct spot_assign_problem *p, int64_t limit)
{
    const bool is_turned = p->n_row < p->n_col;
    struct spot_pairs s;
    bool ok = true;

    spot_pairs_init(&s, is_turned ? p->n_col : p->n_row, is_turned ? p->n_row : p->n_col);
    for (int i = 0; i < p->n_row; i++)
        for (int j = 0; j < p->n_col; j++)
            if (is_within(p, p->cost[(size_t)i * (size_t)p->n_col + (size_t)j], limit))
                spot_bit_put(spot_pairs_takers(&s, is_turned ? i : j), is_turned ? j : i);
    for (int j = 0; j < s.m && ok; j++)
        ok = spot_pairs_augment(&s, j);
    spot_pairs_release(&s);
    return ok;
}

bool spot_assign_threshold(const struct spot_assign_problem *p, int64_t *largest)
{
    const size_t n = (size_t)p->n_row * (size_t)p->n_col;
    int64_t *const value = spot_xcalloc(n, sizeof *value);
    const size_t n_value = list_values(p, n, value);
    size_t low = 0, high = n_value;

    while (low < high) {
        const size_t mid = (low + high) / 2;

        if (is_matched(p, value[mid]))
            high = mid;
        else
            low = mid + 1;
    }
    *largest = low < n_value ? value[low] : 0;
    free(value);
    return low < n_value || !n;
}

/* Solve with the pairs up to a limit; if `is_open`, below it, and all of them count the same. */
static int solve_within(const struct spot_assign_problem *p, int64_t limit, bool is_open,
                        struct spot_assignment *answer, struct spot_err *err)
{
    const size_t n = (size_t)p->n_row * (size_t)p->n_col;
    int64_t *const cost = spot_xcalloc(n, sizeof *cost);
    struct spot_assign_problem within = *p;
    int rc;

    for (size_t k = 0; k < n; k++)
        cost[k] = !is_within(p, p->cost[k], limit) || (is_open && p->cost[k] == limit)
                      ? SPOT_ASSIGN_FORBIDDEN
                  : is_open ? 0
                            : p->cost[k];
    within.cost = cost;
    rc = spot_assign(&within, answer, err);
    free(cost);
    return rc;
}

int spot_assign_bottleneck(const struct spot_assign_problem *p, int64_t *largest,
                           struct spot_assignment *answer, struct spot_assignment *proof,
                           struct spot_err *err)
{
    const bool is_feasible = spot_assign_threshold(p, largest);

    *answer = *proof = (struct spot_assignment){ 0 };
    if (!is_feasible || !p->n_row || !p->n_col)
        return spot_assign(p, answer, err);
    return solve_within(p, *largest, false, answer, err) ||
                   solve_within(p, *largest, true, proof, err)
               ? -1
               : 0;
}

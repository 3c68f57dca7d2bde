/* SPDX-License-Identifier: MIT */
#include "plan/assign/assign_near.h"

#include <stdlib.h>

#include "common/xalloc.h"

/* RANK: of the groups' minima, the one that becomes the limit; about 13 of 2048 random costs are up
 * to it. CROWDED_MOST: if rows without a list outnumber those with one by this much, no more are
 * made: ties are everywhere. */
enum { SHORT_ROW = 256, RANK = 12, CROWDED_MOST = 32 };

static const int64_t *row_of_cost(const struct spot_near *near, int row)
{
    return near->p->cost + (size_t)row * (size_t)near->p->stride;
}

void spot_near_init(struct spot_near *near, const struct spot_dense *p,
                    const struct spot_row_scan *scan, int64_t beyond)
{
    *near = (struct spot_near){ p, scan, beyond, NULL, 0, 0 };
    if (p->stride < SHORT_ROW)
        return;
    near->list = spot_xcalloc((size_t)p->n_row, sizeof *near->list);
    for (int i = 0; i < p->n_row; i++)
        near->list[i].limit = near->list[i].floor = INT64_MIN;
}

void spot_near_raise(struct spot_near *near, int64_t floor)
{
    for (int i = 0; i < near->p->n_row && near->list; i++)
        near->list[i].floor = floor;
}

void spot_near_release(struct spot_near *near)
{
    free(near->list);
}

/* The value of this rank, 0 the least, among SPOT_SCAN_GROUPS; the others are moved about. */
static int64_t value_of_rank(int64_t *value, int rank)
{
    int low = 0, high = SPOT_SCAN_GROUPS - 1;

    while (low < high) {
        const int64_t middle = value[rank];
        int i = low, j = high;

        while (i <= j) {
            while (value[i] < middle)
                i++;
            while (middle < value[j])
                j--;
            if (i <= j) {
                const int64_t swapped = value[i];

                value[i++] = value[j];
                value[j--] = swapped;
            }
        }
        low = j < rank ? i : low;
        high = rank < i ? j : high;
    }
    return value[rank];
}

const struct spot_near_list *spot_near_renew(struct spot_near *near, int row)
{
    struct spot_near_list *list = near->list ? &near->list[row] : NULL;
    const int64_t *cost = row_of_cost(near, row);
    int64_t least[SPOT_SCAN_GROUPS], limit;

    if (!list || list->is_crowded || near->n_crowded > CROWDED_MOST + near->n_made)
        return NULL;
    near->scan->group_least(cost, near->p->v, near->p->stride, least);
    limit = value_of_rank(least, RANK);
    if (limit >= near->beyond)
        limit = near->beyond - 1;
    list->n = near->scan->collect(cost, near->p->v, limit, near->p->stride, SPOT_NEAR_MOST,
                                  list->col, list->cost);
    list->is_crowded = list->n > SPOT_NEAR_MOST;
    near->n_crowded += list->is_crowded;
    near->n_made += !list->is_crowded;
    list->limit = list->is_crowded ? INT64_MIN : limit;
    return list->is_crowded ? NULL : list;
}

const struct spot_near_list *spot_near_get(struct spot_near *near, int row)
{
    if (near->list && near->list[row].limit != INT64_MIN)
        return &near->list[row];
    return spot_near_renew(near, row);
}

static void two_least_of(const struct spot_near_list *list, const int64_t *price,
                         struct spot_two_least *out)
{
    *out = (struct spot_two_least){ INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    for (int k = 0; k < list->n; k++) {
        const int64_t x = list->cost[k] - price[list->col[k]];

        if (x < out->least) {
            out->second = out->least;
            out->second_at = out->least_at;
            out->least = x;
            out->least_at = list->col[k];
        } else if (x < out->second) {
            out->second = x;
            out->second_at = list->col[k];
        }
    }
}

/* Does it say all that a scan of the row would say? */
static bool is_exact(const struct spot_near *near, const struct spot_near_list *list,
                     const struct spot_two_least *two)
{
    return two->second <= list->limit || list->limit == near->beyond - 1;
}

/* A row without a list is full of ties: two columns at its floor are soon met. */
static bool find_two_at(const int64_t *cost, const int64_t *price, int64_t floor,
                        struct spot_two_least *out)
{
    int n = 0;

    for (int64_t j = 0; j < SHORT_ROW; j++) {
        if (cost[j] - price[j] != floor)
            continue;
        if (n++) {
            *out = (struct spot_two_least){ floor, floor, out->least_at, j };
            return true;
        }
        out->least_at = j;
    }
    return false;
}

static void two_least_whole(const struct spot_near *near, int row, struct spot_two_least *out)
{
    struct spot_near_list *list = near->list ? &near->list[row] : NULL;
    const int64_t *cost = row_of_cost(near, row), *price = near->p->v;

    if (list && find_two_at(cost, price, list->floor, out))
        return;
    near->scan->two_least(cost, price, near->p->stride, out);
    if (list)
        list->floor = out->least;
}

void spot_near_two_least(struct spot_near *near, int row, struct spot_two_least *out)
{
    const struct spot_near_list *list = spot_near_get(near, row);

    if (list) {
        two_least_of(list, near->p->v, out);
        if (is_exact(near, list, out))
            return;
        list = spot_near_renew(near, row);
    }
    if (list)
        two_least_of(list, near->p->v, out);
    else
        two_least_whole(near, row, out);
}

/* SPDX-License-Identifier: MIT */
#include "plan/assign/assign_dense.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign/assign_near.h"
#include "plan/assign/row_scan.h"

/* With |cost| <= 2^55 and prices and path lengths <= 2^57 a true reduced path stays below 2^59,
 * while one through a forbidden pair or a finished column exceeds 2^60: no sum overflows and the
 * two cannot be confused. */
#define PRICE_MAX (INT64_C(1) << 57)
#define NO_PATH   (INT64_C(1) << 60)
#define FINISHED  (-(INT64_C(1) << 61)) /* the price of a column that left the search */

/* A row of a search of which only the list was looked at. */
struct glance {
    int row;
    int64_t shift;
    int64_t bound; /* its other columns are at least so far */
};

struct solver {
    const struct spot_dense *p;
    const struct spot_row_scan *scan;
    struct spot_near near;
    int64_t *distance, *from;   /* [stride] of the search under way */
    int64_t *price;             /* [stride] v, but FINISHED for columns that left the search */
    int *finished;              /* [n_col] columns in the order in which they were finished */
    int64_t *final;             /* [n_col] their distances */
    int *free_row, n_free;      /* [n_row] */
    int *free_col, n_free_col;  /* [n_col] while searches run; ascending */
    struct glance *glance;      /* [n_row] of the search under way */
    int n_glance, first_glance; /* the one of the least bound */
    long n_near, n_whole; /* rows of all searches that were looked at by their list, and then in
                             whole after all */
};

static const int64_t *row_of_cost(const struct solver *s, int i)
{
    return s->p->cost + (size_t)i * (size_t)s->p->stride;
}

static void match(const struct solver *s, int i, int j)
{
    s->p->col_of[i] = j;
    s->p->row_of[j] = i;
}

/* v[j] = least cost of the column; its row takes it unless it has one already. */
static bool reduce_columns(struct solver *s)
{
    const struct spot_dense *p = s->p;
    int64_t *at = s->from;

    for (int j = 0; j < p->stride; j++)
        p->v[j] = SPOT_DENSE_FORBIDDEN, at[j] = -1;
    for (int i = 0; i < p->n_row; i++)
        s->scan->column_min(row_of_cost(s, i), i, p->v, at, p->stride);
    for (int j = p->n_col - 1; j >= 0; j--) {
        if (at[j] < 0)
            return false;
        if (p->col_of[at[j]] < 0)
            match(s, (int)at[j], j);
        else
            s->final[at[j]] = 1; /* it is the least of several columns */
    }
    for (int j = p->n_col; j < p->stride; j++)
        p->v[j] = 0;
    return true;
}

/* A row that is the least of one column only gives up its slack to that column. */
static void transfer(struct solver *s)
{
    const struct spot_dense *p = s->p;

    for (int i = 0; i < p->n_row; i++) {
        struct spot_two_least two;
        const int j = p->col_of[i];

        if (j < 0 || s->final[i])
            continue;
        spot_near_two_least(&s->near, i, &two);
        if (two.second < NO_PATH)
            p->v[j] -= (two.least_at == j ? two.second : two.least);
    }
}

/* Let free rows bid for their best column by the margin over the second best; the row that is
 * outbid goes on bidding. Ends when the rows are through or the budget of bids is spent. */
static bool bid(struct solver *s)
{
    const struct spot_dense *p = s->p;
    const int n = s->n_free;
    long n_bid = 0;
    int at = 0;

    s->n_free = 0;
    while (at < n) {
        const int i = s->free_row[at++];
        struct spot_two_least two;
        int j, loser;

        spot_near_two_least(&s->near, i, &two);
        if (two.least >= NO_PATH)
            return false;
        j = (int)two.least_at;
        loser = p->row_of[j];
        if (two.second < NO_PATH && two.least < two.second)
            p->v[j] -= two.second - two.least;
        else if (loser >= 0 && two.second < NO_PATH) {
            j = (int)two.second_at; /* a tie: perhaps the other column is free */
            loser = p->row_of[j];
        } else if (loser >= 0) { /* its only column: leave it to the search */
            s->free_row[s->n_free++] = i;
            continue;
        }
        if (p->v[j] < -PRICE_MAX)
            return false;
        match(s, i, j);
        if (loser < 0)
            continue;
        p->col_of[loser] = -1;
        if (two.least < two.second && ++n_bid < 4L * p->n_row)
            s->free_row[--at] = loser;
        else
            s->free_row[s->n_free++] = loser;
    }
    return true;
}

/* A free column at distance `least` if there is one, else any open one there. */
static int pick(const struct solver *s, int64_t least)
{
    for (int k = 0; k < s->n_free_col; k++)
        if (s->distance[s->free_col[k]] == least)
            return s->free_col[k];
    return (int)s->scan->find(s->distance, least, 0, s->p->stride);
}

static int64_t relax_whole(struct solver *s, int row, int64_t shift)
{
    return s->scan->relax(row_of_cost(s, row), s->price, shift, row, s->distance, s->from,
                          s->p->stride);
}

static void add_glance(struct solver *s, struct glance glance)
{
    if (!s->n_glance || glance.bound < s->glance[s->first_glance].bound)
        s->first_glance = s->n_glance;
    s->glance[s->n_glance++] = glance;
}

static void drop_first_glance(struct solver *s)
{
    s->glance[s->first_glance] = s->glance[--s->n_glance];
    s->first_glance = 0;
    for (int k = 1; k < s->n_glance; k++)
        if (s->glance[k].bound < s->glance[s->first_glance].bound)
            s->first_glance = k;
}

/* By its list, as long as lists save more rows than they cost. */
static int64_t relax(struct solver *s, int row, int64_t shift)
{
    const bool is_worth = s->n_whole < 64 + s->n_near / 4;
    const struct spot_near_list *list = is_worth ? spot_near_get(&s->near, row) : NULL;

    if (!list)
        return relax_whole(s, row, shift);
    for (int k = 0; k < list->n; k++) {
        const int32_t j = list->col[k];
        const int64_t x = list->cost[k] - s->price[j] + shift;

        if (x < s->distance[j])
            s->distance[j] = x, s->from[j] = row;
    }
    add_glance(s, (struct glance){ row, shift, list->limit + 1 + shift });
    s->n_near++;
    return s->scan->least(s->distance, s->p->stride);
}

/* Rows that could have something nearer than `least` beyond their lists are looked at in whole. */
static int64_t make_sure(struct solver *s, int64_t least)
{
    while (s->n_glance && least > s->glance[s->first_glance].bound) {
        const struct glance first = s->glance[s->first_glance];

        least = relax_whole(s, first.row, first.shift);
        spot_near_renew(&s->near, first.row);
        drop_first_glance(s);
        s->n_whole++;
    }
    return least;
}

/* Shortest path from free row `root` to a free column, and the prices after it. */
static enum spot_dense_result augment(struct solver *s, int root)
{
    const struct spot_dense *p = s->p;
    int64_t base = 0, shift = 0;
    int row = root, n = 0, j;

    for (int k = 0; k < p->stride; k++)
        s->distance[k] = NO_PATH;
    s->n_glance = 0;
    for (;;) {
        base = make_sure(s, relax(s, row, shift));
        if (base >= NO_PATH)
            return SPOT_DENSE_INFEASIBLE;
        if (base > PRICE_MAX || base < -PRICE_MAX)
            return SPOT_DENSE_OVERFLOW;
        j = pick(s, base);
        row = p->row_of[j];
        if (row < 0)
            break;
        s->finished[n] = j;
        s->final[n++] = base;
        shift = base - (row_of_cost(s, row)[j] - p->v[j]);
        s->price[j] = FINISHED;
        s->distance[j] = NO_PATH;
    }
    for (int k = 0; k < n; k++) {
        const int col = s->finished[k];

        p->v[col] += s->final[k] - base;
        s->price[col] = p->v[col];
        if (p->v[col] < -PRICE_MAX)
            return SPOT_DENSE_OVERFLOW;
    }
    for (;;) {
        const int i = (int)s->from[j], next = p->col_of[i];

        match(s, i, j);
        if (i == root)
            return SPOT_DENSE_OK;
        j = next;
    }
}

static void list_free(struct solver *s)
{
    s->n_free = 0;
    for (int i = 0; i < s->p->n_row; i++)
        if (s->p->col_of[i] < 0)
            s->free_row[s->n_free++] = i;
}

static void list_free_columns(struct solver *s)
{
    s->n_free_col = 0;
    for (int j = 0; j < s->p->n_col; j++)
        if (s->p->row_of[j] < 0)
            s->free_col[s->n_free_col++] = j;
}

static enum spot_dense_result run(struct solver *s)
{
    const struct spot_dense *p = s->p;
    enum spot_dense_result result = SPOT_DENSE_OK;

    if (p->n_row == p->n_col) {
        if (!reduce_columns(s))
            return SPOT_DENSE_INFEASIBLE;
        spot_near_raise(&s->near, 0);
        transfer(s);
    }
    list_free(s);
    for (int pass = 0; pass < 2; pass++)
        if (!bid(s))
            return SPOT_DENSE_OVERFLOW;
    memcpy(s->price, p->v, (size_t)p->stride * sizeof *s->price);
    list_free(s);
    for (int k = 0; k < s->n_free && result == SPOT_DENSE_OK; k++) {
        list_free_columns(s);
        result = augment(s, s->free_row[k]);
    }
    for (int i = 0; i < p->n_row && result == SPOT_DENSE_OK; i++)
        p->u[i] = row_of_cost(s, i)[p->col_of[i]] - p->v[p->col_of[i]];
    return result;
}

enum spot_dense_result spot_dense_solve(const struct spot_dense *p)
{
    struct solver s = { .p = p, .scan = spot_row_scan() };
    const size_t width = (size_t)p->stride, most = width + SPOT_DENSE_LANES;
    enum spot_dense_result result;
    int64_t *lane = spot_alloc_aligned(4 * most, sizeof *lane);

    assert(lane && p->n_row <= p->n_col && p->stride % SPOT_DENSE_LANES == 0);
    s.distance = lane;
    s.from = lane + width;
    s.price = lane + 2 * width;
    s.final = lane + 3 * width;
    s.finished = spot_xcalloc(width, sizeof(int));
    s.free_row = spot_xcalloc((size_t)p->n_row + width, sizeof(int));
    s.free_col = s.free_row + p->n_row;
    s.glance = spot_xcalloc((size_t)p->n_row, sizeof *s.glance);
    spot_near_init(&s.near, p, s.scan, NO_PATH);
    memset(p->v, 0, width * sizeof *p->v);
    for (int i = 0; i < p->n_row; i++)
        p->col_of[i] = -1;
    for (int j = 0; j < p->n_col; j++)
        p->row_of[j] = -1;
    result = p->n_row ? run(&s) : SPOT_DENSE_OK;
    spot_free_aligned(lane), free(s.finished), free(s.free_row), free(s.glance);
    spot_near_release(&s.near);
    return result;
}

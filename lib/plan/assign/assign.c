/* SPDX-License-Identifier: MIT */
#include "plan/assign.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign/assign_dense.h"
#include "plan/assign/assign_inner.h"

enum { BLOCK = 32 }; /* of the transposition */

/* Copy rows i.. of the turned matrix, forbidden pairs as SPOT_DENSE_FORBIDDEN. Returns the greatest
 * magnitude of a cost. */
static uint64_t copy_rows(const struct spot_assign_problem *p, int64_t *to, int stride)
{
    const uint64_t flip = p->is_max ? UINT64_MAX : 0; /* -c == (c ^ flip) - flip */
    uint64_t most = 0;

    for (int i = 0; i < p->n_row; i++) {
        const int64_t *c = p->cost + (size_t)i * (size_t)p->n_col;
        int64_t *d = to + (size_t)i * (size_t)stride;

        for (int j = 0; j < p->n_col; j++) {
            const bool is_forbidden = c[j] == SPOT_ASSIGN_FORBIDDEN;
            const uint64_t size = (uint64_t)(c[j] < 0 ? -(uint64_t)c[j] : (uint64_t)c[j]);

            most |= is_forbidden ? 0 : size;
            d[j] = is_forbidden ? SPOT_DENSE_FORBIDDEN : (int64_t)(((uint64_t)c[j] ^ flip) - flip);
        }
        for (int j = p->n_col; j < stride; j++)
            d[j] = SPOT_DENSE_FORBIDDEN;
    }
    return most;
}

/* The same for a matrix that is taller than wide: rows of *to are its columns. */
static uint64_t copy_columns(const struct spot_assign_problem *p, int64_t *to, int stride)
{
    uint64_t most = 0;

    for (int i0 = 0; i0 < p->n_row; i0 += BLOCK)
        for (int j = 0; j < p->n_col; j++)
            for (int i = i0; i < i0 + BLOCK && i < p->n_row; i++) {
                const int64_t c = p->cost[(size_t)i * (size_t)p->n_col + (size_t)j];
                const bool is_forbidden = c == SPOT_ASSIGN_FORBIDDEN;

                most |= is_forbidden ? 0 : (uint64_t)(c < 0 ? -c : c);
                to[(size_t)j * (size_t)stride + (size_t)i] = is_forbidden ? SPOT_DENSE_FORBIDDEN
                                                             : p->is_max  ? -c
                                                                          : c;
            }
    for (int j = 0; j < p->n_col; j++)
        for (int i = p->n_row; i < stride; i++)
            to[(size_t)j * (size_t)stride + (size_t)i] = SPOT_DENSE_FORBIDDEN;
    return most;
}

/* Does the matrix have the solver's form, so that it need not be copied? */
static bool is_fit(const struct spot_turned *t, int stride)
{
    const struct spot_assign_problem *p = t->problem;
    const size_t n = (size_t)p->n_row * (size_t)p->n_col;
    const uint64_t most = SPOT_DENSE_COST_MAX;
    uint64_t bits = 0;

    if (t->is_turned || p->is_max || stride != p->n_col)
        return false;
    for (size_t k = 0; k < n; k++)
        bits |= (uint64_t)p->cost[k] + most; /* below 2 most, a power of 2, if |cost| < most */
    return bits < 2 * most;
}

/* A copy of the turned matrix in that form, NULL if impossible. The caller frees it. */
static int64_t *fit_copy(const struct spot_turned *t, int stride)
{
    int64_t *cost = spot_alloc_aligned((size_t)t->n * (size_t)stride, sizeof *cost);
    uint64_t most = UINT64_MAX;

    if (cost)
        most = t->is_turned ? copy_columns(t->problem, cost, stride)
                            : copy_rows(t->problem, cost, stride);
    if (most < (uint64_t)SPOT_DENSE_COST_MAX)
        return cost;
    spot_free_aligned(cost);
    return NULL;
}

/* The 64-bit solver, where the costs allow it. */
static bool solve_dense(const struct spot_turned *t, struct spot_matching *matching)
{
    const int stride = (t->m + SPOT_DENSE_LANES - 1) / SPOT_DENSE_LANES * SPOT_DENSE_LANES;
    int64_t *copy = NULL;
    int64_t *price = spot_alloc_aligned((size_t)t->n + (size_t)stride, sizeof *price);
    struct spot_dense dense = { t->n,
                                t->m,
                                stride,
                                t->problem->cost,
                                price ? price + stride : NULL,
                                price,
                                matching->col_of,
                                matching->row_of };
    bool is_solved = false;

    if (!is_fit(t, stride))
        dense.cost = copy = fit_copy(t, stride);
    if (!price || !dense.cost)
        goto out;
    is_solved = spot_dense_solve(&dense) == SPOT_DENSE_OK;
    for (int i = 0; i < t->n; i++)
        matching->u[i] = dense.u[i];
    for (int j = 0; j < t->m; j++)
        matching->v[j] = dense.v[j];
out:
    spot_free_aligned(copy), spot_free_aligned(price);
    return is_solved;
}

static void report(const struct spot_turned *t, const struct spot_matching *matching,
                   struct spot_assignment *answer)
{
    const struct spot_assign_problem *p = t->problem;
    const int sign = p->is_max ? -1 : 1;

    answer->is_feasible = true;
    for (int i = 0; i < p->n_row; i++) {
        answer->col_of_row[i] = (t->is_turned ? matching->row_of : matching->col_of)[i];
        answer->u[i] = (t->is_turned ? matching->v : matching->u)[i] * sign;
        if (answer->col_of_row[i] >= 0)
            answer->cost += p->cost[(size_t)i * (size_t)p->n_col + (size_t)answer->col_of_row[i]];
    }
    for (int j = 0; j < p->n_col; j++)
        answer->v[j] = (t->is_turned ? matching->u : matching->v)[j] * sign;
}

int spot_assign(const struct spot_assign_problem *p, struct spot_assignment *answer,
                struct spot_err *err)
{
    const bool is_turned = p->n_row > p->n_col;
    const struct spot_turned t = { p, is_turned ? p->n_col : p->n_row,
                                   is_turned ? p->n_row : p->n_col, is_turned };
    const size_t n = (size_t)t.n, m = (size_t)t.m;
    struct spot_matching matching;
    struct spot_classes classes;

    *answer = (struct spot_assignment){ 0 };
    if (m > SPOT_ASSIGN_SIDE_MAX)
        return spot_err_set(err, SPOT_EDATA, "%d rows and %d columns, at most %d are possible",
                            p->n_row, p->n_col, SPOT_ASSIGN_SIDE_MAX);
    answer->col_of_row = spot_xcalloc((size_t)p->n_row, sizeof(int));
    answer->u = spot_xcalloc((size_t)p->n_row, sizeof *answer->u);
    answer->v = spot_xcalloc((size_t)p->n_col, sizeof *answer->v);
    matching = (struct spot_matching){ spot_xcalloc(n, sizeof(int)), spot_xcalloc(m, sizeof(int)),
                                       spot_xcalloc(n, sizeof *matching.u),
                                       spot_xcalloc(m, sizeof *matching.v) };
    if (spot_assign_classes(&t, &matching, &classes)) {
        spot_assign_settle(&t, &matching, &classes);
        report(&t, &matching, answer);
    } else if (solve_dense(&t, &matching) || spot_assign_wide(&t, &matching, answer)) {
        spot_assign_settle(&t, &matching, NULL);
        report(&t, &matching, answer);
        assert(spot_assign_verify(p, answer));
    }
    spot_classes_release(&classes);
    free(matching.col_of), free(matching.row_of), free(matching.u), free(matching.v);
    return 0;
}

void spot_assignment_release(struct spot_assignment *answer)
{
    free(answer->col_of_row);
    free(answer->u);
    free(answer->v);
    free(answer->bad_row);
    free(answer->bad_col);
    *answer = (struct spot_assignment){ 0 };
}

/* Are the prices of a row no costlier than its pairs? Both may be any numbers. */
static bool is_row_proved(const struct spot_assign_problem *p, const int64_t *cost, spot_int128 u,
                          const spot_int128 *v)
{
    const int sign = p->is_max ? -1 : 1;
    bool ok = true;

    for (int j = 0; j < p->n_col; j++)
        ok = ok &&
             (cost[j] == SPOT_ASSIGN_FORBIDDEN || sign * (u + v[j]) <= sign * (spot_int128)cost[j]);
    return ok;
}

/* The same in 64 bits, for |u| and |v| below 2^60: true is a proof, false says nothing. A cost
 * beyond 62 bits has two highest bits that differ, so has a forbidden one. */
static bool is_row_proved_narrow(const struct spot_assign_problem *p, const int64_t *cost,
                                 int64_t u, const int64_t *v)
{
    const uint64_t flip = p->is_max ? UINT64_MAX : 0; /* x == (x ^ flip) - flip, or -x */
    uint64_t bad = 0;

    for (int j = 0; j < p->n_col; j++) {
        const uint64_t c = (uint64_t)cost[j], slack = c - (uint64_t)u - (uint64_t)v[j];

        bad |= c ^ (c << 1);
        bad |= (slack ^ flip) - flip;
    }
    return !(bad >> 63);
}

/* Prices that fit 60 bits, NULL if one does not. The caller frees them. */
static int64_t *narrow_prices(const spot_int128 *price, int n)
{
    const spot_int128 most = INT64_C(1) << 60;
    int64_t *narrow = spot_xcalloc((size_t)n, sizeof *narrow);

    for (int j = 0; j < n; j++) {
        if (price[j] >= most || price[j] <= -most) {
            free(narrow);
            return NULL;
        }
        narrow[j] = (int64_t)price[j];
    }
    return narrow;
}

static bool are_rows_proved(const struct spot_assign_problem *p, const struct spot_assignment *a)
{
    int64_t *u = narrow_prices(a->u, p->n_row), *v = narrow_prices(a->v, p->n_col);
    bool ok = true;

    for (int i = 0; i < p->n_row && ok; i++) {
        const int64_t *cost = p->cost + (size_t)i * (size_t)p->n_col;

        ok = (u && v && is_row_proved_narrow(p, cost, u[i], v)) ||
             is_row_proved(p, cost, a->u[i], a->v);
    }
    free(u), free(v);
    return ok;
}

bool spot_assign_verify(const struct spot_assign_problem *problem,
                        const struct spot_assignment *answer)
{
    const int n = problem->n_row, m = problem->n_col, sign = problem->is_max ? -1 : 1;
    spot_int128 sum = 0, cost = 0;
    int n_matched = 0;
    bool ok = are_rows_proved(problem, answer), *is_used = spot_xcalloc((size_t)m, sizeof(bool));

    for (int i = 0; i < n && ok; i++) {
        const int64_t *c = problem->cost + (size_t)i * (size_t)m;
        const int mine = answer->col_of_row[i];

        sum += answer->u[i];
        if (mine < 0) {
            ok = answer->u[i] == 0;
            continue;
        }
        ok = mine < m && !is_used[mine] && c[mine] != SPOT_ASSIGN_FORBIDDEN &&
             answer->u[i] + answer->v[mine] == c[mine] && (n <= m || sign * answer->u[i] <= 0);
        if (ok)
            is_used[mine] = true, cost += c[mine], n_matched++;
    }
    for (int j = 0; j < m; j++) {
        sum += answer->v[j];
        ok = ok && (is_used[j] || answer->v[j] == 0) && (n >= m || sign * answer->v[j] <= 0);
    }
    free(is_used);
    return ok && n_matched == (n < m ? n : m) && sum == cost && cost == answer->cost;
}

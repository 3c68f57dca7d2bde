/* SPDX-License-Identifier: MIT */
#include "plan/assign.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/simd.h"
#include "common/xalloc.h"
#include "plan/assign/assign_inner.h"

enum { NARROW_MIN = 64 }; /* rows */

/* For each row, the column that leaves it in place. */
static int *stays_of(const struct spot_assign_problem *p, bool is_turned, int n, int m)
{
    int *stay = spot_xcalloc((size_t)n, sizeof *stay);

    for (int r = 0; r < n; r++)
        stay[r] = p->stay || r >= m ? -1 : r;
    for (int i = 0; i < p->n_row && p->stay; i++)
        if (p->stay[i] >= 0 && is_turned)
            stay[p->stay[i]] = i;
        else if (p->stay[i] >= 0)
            stay[i] = p->stay[i];
    return stay;
}

static spot_int128 floor_div(spot_int128 x, int by)
{
    return x / by - (x % by < 0);
}

/* Divides the prices by the scale of the costs. All are rounded down, so that u and -v never exceed
 * the cost of a pair. Pairs in place, whose cost is lower by 1, stay tight if none of their -v is a
 * multiple of the scale; a shift ensures that, since there are fewer such pairs than residues. */
static void unscale(const struct spot_turned *t, struct spot_matching *matching)
{
    bool *is_taken = spot_xcalloc((size_t)t->scale, sizeof(bool));
    int shift = 0;

    for (int i = 0; i < t->n; i++)
        if (matching->col_of[i] == t->stay[i]) {
            const spot_int128 v = matching->v[matching->col_of[i]];

            is_taken[(int)(v - floor_div(v, t->scale) * t->scale)] = true;
        }
    while (is_taken[shift])
        shift++;
    for (int i = 0; i < t->n; i++)
        matching->u[i] = floor_div(matching->u[i] + shift, t->scale);
    for (int j = 0; j < t->m; j++)
        matching->v[j] = -floor_div(-matching->v[j] + shift, t->scale);
    free(is_taken);
}

/* The costs of a square in a byte each, negated to maximise; false if they do not fit. */
static bool narrow_down(const struct spot_assign_problem *p, struct spot_narrow *narrow)
{
    const size_t n = (size_t)p->n_row;
    int64_t *line = spot_xcalloc(n, sizeof *line);
    bool ok = true;

    narrow->cell = spot_xcalloc(n * n, 1);
    for (size_t i = 0; i < n && ok; i++) {
        const int64_t *cost = p->cost + i * n;

        for (size_t j = 0; j < n && p->is_max; j++)
            line[j] = cost[j] == SPOT_ASSIGN_FORBIDDEN ? cost[j] : -cost[j];
        ok = spot_narrow_add(narrow, p->is_max ? line : cost, n);
    }
    free(line);
    return ok;
}

/* Narrow costs, where there are enough of them. */
static bool solve_narrow(const struct spot_turned *t, struct spot_matching *matching)
{
    const struct spot_assign_problem *p = t->problem;
    struct spot_narrow own = { 0 };
    const struct spot_narrow *narrow = p->cost ? &own : p->narrow;
    bool is_solved = t->n == t->m && t->n >= NARROW_MIN && (!p->cost || narrow_down(p, &own)) &&
                     spot_assign_tied(t, narrow, matching);

    if (is_solved) {
        unscale(t, matching);
        for (int k = 0; k < t->n; k++) {
            matching->u[k] = matching->u[k] * narrow->unit + narrow->base;
            matching->v[k] *= narrow->unit;
        }
    }
    free(own.cell);
    return is_solved;
}

static bool solve_wide(struct spot_turned *t, struct spot_matching *matching,
                       struct spot_assignment *answer)
{
    const struct spot_assign_problem *given = t->problem;
    struct spot_assign_problem wide = *given;
    int64_t *cost = NULL;
    bool is_solved;

    if (!given->cost) {
        wide.cost = cost = spot_xcalloc(given->narrow->n, sizeof *cost);
        spot_narrow_widen(given->narrow, 0, given->narrow->n, cost);
        t->problem = &wide;
    }
    is_solved = spot_assign_dense(t, matching) || spot_assign_wide(t, matching, answer);
    if (is_solved) {
        spot_assign_settle(t, matching);
        unscale(t, matching);
    }
    t->problem = given;
    free(cost);
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
        answer->cost += answer->u[i];
    }
    for (int j = 0; j < p->n_col; j++) {
        answer->v[j] = (t->is_turned ? matching->u : matching->v)[j] * sign;
        answer->cost += answer->v[j];
    }
}

int spot_assign(const struct spot_assign_problem *p, struct spot_assignment *answer,
                struct spot_err *err)
{
    const bool is_turned = p->n_row > p->n_col;
    const int side = is_turned ? p->n_col : p->n_row, other = is_turned ? p->n_row : p->n_col;
    const size_t n = (size_t)side, m = (size_t)other;
    struct spot_turned t = { p, side, other, is_turned, side + 1, NULL };
    struct spot_matching matching;
    int *stay;

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
    t.stay = stay = stays_of(p, is_turned, side, other);
    if (solve_narrow(&t, &matching) || solve_wide(&t, &matching, answer)) {
        report(&t, &matching, answer);
        assert(spot_assign_verify(p, answer));
    }
    free(stay);
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

SPOT_SIMD_INLINE void prove_inline(const int64_t *cost, int n, int64_t u, const int64_t *v,
                                   bool is_max, bool *ok)
{
    int64_t more = 0;

    for (int j = 0; j < n; j++) {
        const int64_t price = u + v[j], is_beyond = is_max ? price < cost[j] : cost[j] < price;

        more |= is_beyond & -(int64_t)(cost[j] != SPOT_ASSIGN_FORBIDDEN);
    }
    *ok = !more;
}

SPOT_SIMD_TWICE(prove,
                (const int64_t *cost, int n, int64_t u, const int64_t *v, bool is_max, bool *ok),
                (cost, n, u, v, is_max, ok))

/* The same for prices of any size. */
static bool is_row_proved(const struct spot_assign_problem *p, const int64_t *cost, spot_int128 u,
                          const spot_int128 *v)
{
    int more = 0;

    for (int j = 0; j < p->n_col; j++) {
        const spot_int128 slack = cost[j] - u - v[j];

        more |= (cost[j] != SPOT_ASSIGN_FORBIDDEN) & (p->is_max ? slack > 0 : slack < 0);
    }
    return !more;
}

static bool is_small(spot_int128 price)
{
    return price <= INT64_C(1) << 61 && price >= -(INT64_C(1) << 61);
}

/* True if the prices of rows and columns do not exceed the costs of their pairs. */
static bool are_rows_proved(const struct spot_assign_problem *p, const struct spot_assignment *a)
{
    const size_t m = (size_t)p->n_col;
    int64_t *const v = spot_xcalloc(2 * m, sizeof *v), *const line = v + m;
    bool are_small = true, ok = true;

    for (size_t j = 0; j < m; j++)
        v[j] = (int64_t)a->v[j], are_small = are_small && is_small(a->v[j]);
    for (size_t i = 0; i < (size_t)p->n_row && ok; i++) {
        const int64_t *const cost = p->cost ? p->cost + i * m : line;

        if (!p->cost)
            spot_narrow_widen(p->narrow, i * m, m, line);
        if (are_small && is_small(a->u[i]))
            prove(cost, p->n_col, (int64_t)a->u[i], v, p->is_max, &ok);
        else
            ok = is_row_proved(p, cost, a->u[i], a->v);
    }
    free(v);
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
        const int mine = answer->col_of_row[i];
        const size_t at = (size_t)i * (size_t)m + (size_t)mine;
        int64_t c = SPOT_ASSIGN_FORBIDDEN;

        sum += answer->u[i];
        if (mine < 0) {
            ok = answer->u[i] == 0;
            continue;
        }
        if (mine < m && problem->cost)
            c = problem->cost[at];
        else if (mine < m)
            spot_narrow_widen(problem->narrow, at, 1, &c);
        ok = c != SPOT_ASSIGN_FORBIDDEN && !is_used[mine] && answer->u[i] + answer->v[mine] == c &&
             (n <= m || sign * answer->u[i] <= 0);
        if (ok)
            is_used[mine] = true, cost += c, n_matched++;
    }
    for (int j = 0; j < m; j++) {
        sum += answer->v[j];
        ok = ok && (is_used[j] || answer->v[j] == 0) && (n >= m || sign * answer->v[j] <= 0);
    }
    free(is_used);
    return ok && n_matched == (n < m ? n : m) && sum == cost && cost == answer->cost;
}

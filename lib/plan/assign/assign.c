/* SPDX-License-Identifier: MIT */
#include "plan/assign.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign/assign_inner.h"

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
    if (spot_assign_dense(&t, &matching) || spot_assign_wide(&t, &matching, answer)) {
        spot_assign_settle(&t, &matching);
        unscale(&t, &matching);
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

/* True if the prices of a row do not exceed the costs of its pairs. Prices may be any numbers. */
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

bool spot_assign_verify(const struct spot_assign_problem *problem,
                        const struct spot_assignment *answer)
{
    const int n = problem->n_row, m = problem->n_col, sign = problem->is_max ? -1 : 1;
    spot_int128 sum = 0, cost = 0;
    int n_matched = 0;
    bool ok = true, *is_used = spot_xcalloc((size_t)m, sizeof(bool));

    for (int i = 0; i < n && ok; i++) {
        const int64_t *c = problem->cost + (size_t)i * (size_t)m;
        const int mine = answer->col_of_row[i];

        sum += answer->u[i];
        ok = is_row_proved(problem, c, answer->u[i], answer->v);
        if (mine < 0) {
            ok = ok && answer->u[i] == 0;
            continue;
        }
        ok = ok && mine < m && !is_used[mine] && c[mine] != SPOT_ASSIGN_FORBIDDEN &&
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

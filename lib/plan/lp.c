/* SPDX-License-Identifier: MIT */
#include "plan/lp.h"

#include <lpsolve/lp_lib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"

#define TOLERANCE 1e-6

struct row {
    size_t first, n;
    enum spot_lp_sense sense;
    double right;
};

struct spot_lp {
    size_t n_column, n_row, cap_row, n_cell, cap_column, cap_value;
    double *cost, *lower, *upper, *x; /* [n_column] */
    bool *is_whole;
    struct row *row;
    size_t *column; /* [n_cell] */
    double *value, *dual;
    /* the solver's problem of the last solution, with its basis; NULL: the next solve starts from
     * scratch */
    lprec *kept;
};

struct spot_lp *spot_lp_new(size_t n_column)
{
    struct spot_lp *lp = spot_xcalloc(1, sizeof(*lp));

    lp->n_column = n_column;
    lp->cost = spot_xcalloc(n_column, sizeof(double));
    lp->lower = spot_xcalloc(n_column, sizeof(double));
    lp->upper = spot_xcalloc(n_column, sizeof(double));
    lp->x = spot_xcalloc(n_column, sizeof(double));
    lp->is_whole = spot_xcalloc(n_column, sizeof(bool));
    for (size_t j = 0; j < n_column; j++)
        lp->upper[j] = INFINITY;
    return lp;
}

/* Drop the solver's copy of the problem. It is kept across changes of bounds and right-hand sides
 * and for new rows, which leave its basis dual feasible, so that few dual simplex steps remain; any
 * other change, or a failure, drops it. */
static void forget(struct spot_lp *lp)
{
    if (lp->kept)
        delete_lp(lp->kept);
    lp->kept = NULL;
}

void spot_lp_free(struct spot_lp *lp)
{
    if (!lp)
        return;
    forget(lp);
    free(lp->cost);
    free(lp->lower);
    free(lp->upper);
    free(lp->x);
    free(lp->is_whole);
    free(lp->row);
    free(lp->column);
    free(lp->value);
    free(lp->dual);
    free(lp);
}

static bool set_range(lprec *rec, size_t column, double lower, double upper)
{
    return set_bounds(rec, (int)column + 1, isinf(lower) ? -get_infinite(rec) : lower,
                      isinf(upper) ? get_infinite(rec) : upper);
}

void spot_lp_cost(struct spot_lp *lp, size_t column, double cost)
{
    lp->cost[column] = cost;
    forget(lp);
}

void spot_lp_range(struct spot_lp *lp, size_t column, double lower, double upper)
{
    if (lp->kept && (lp->lower[column] != lower || lp->upper[column] != upper) &&
        !set_range(lp->kept, column, lower, upper))
        forget(lp);
    lp->lower[column] = lower;
    lp->upper[column] = upper;
}

void spot_lp_whole(struct spot_lp *lp, size_t column)
{
    lp->is_whole[column] = true;
    forget(lp);
}

static bool put_row(const struct spot_lp *lp, lprec *rec, const struct row *r)
{
    static const int sense[] = { LE, GE, EQ };
    int *column = spot_xcalloc(r->n + 1, sizeof(int));
    double *value = spot_xcalloc(r->n + 1, sizeof(double)); /* lp_solve sorts in place */
    bool ok;

    for (size_t k = 0; k < r->n; k++) {
        column[k] = (int)lp->column[r->first + k] + 1;
        value[k] = lp->value[r->first + k];
    }
    ok = add_constraintex(rec, (int)r->n, value, column, sense[r->sense], r->right);
    free(column);
    free(value);
    return ok;
}

size_t spot_lp_row(struct spot_lp *lp, const size_t *column, const double *value, size_t n,
                   enum spot_lp_sense sense, double right)
{
    lp->row = spot_xgrow(lp->row, &lp->cap_row, lp->n_row + 1, sizeof(*lp->row));
    lp->column = spot_xgrow(lp->column, &lp->cap_column, lp->n_cell + n, sizeof(*lp->column));
    lp->value = spot_xgrow(lp->value, &lp->cap_value, lp->n_cell + n, sizeof(*lp->value));
    lp->row[lp->n_row] = (struct row){ lp->n_cell, n, sense, right };
    if (n) {
        memcpy(lp->column + lp->n_cell, column, n * sizeof(*column));
        memcpy(lp->value + lp->n_cell, value, n * sizeof(*value));
    }
    lp->n_cell += n;
    lp->n_row++;
    if (lp->kept && !put_row(lp, lp->kept, &lp->row[lp->n_row - 1]))
        forget(lp);
    return lp->n_row - 1;
}

void spot_lp_right(struct spot_lp *lp, size_t row, double right)
{
    if (lp->kept && lp->row[row].right != right && !set_rh(lp->kept, (int)row + 1, right))
        forget(lp);
    lp->row[row].right = right;
}

static bool fill(const struct spot_lp *lp, lprec *rec)
{
    bool ok = true;

    for (size_t j = 0; j < lp->n_column; j++) {
        ok &= set_obj(rec, (int)j + 1, lp->cost[j]);
        ok &= set_range(rec, j, lp->lower[j], lp->upper[j]);
        ok &= set_int(rec, (int)j + 1, lp->is_whole[j]);
    }
    set_add_rowmode(rec, TRUE);
    for (size_t i = 0; i < lp->n_row && ok; i++)
        ok = put_row(lp, rec, &lp->row[i]);
    set_add_rowmode(rec, FALSE);
    return ok;
}

static bool has_whole(const struct spot_lp *lp)
{
    for (size_t j = 0; j < lp->n_column; j++)
        if (lp->is_whole[j])
            return true;
    return false;
}

static void take(struct spot_lp *lp, lprec *rec)
{
    double *all = spot_xcalloc(1 + lp->n_row + lp->n_column, sizeof(double));

    get_variables(rec, lp->x);
    for (size_t j = 0; j < lp->n_column; j++)
        lp->x[j] =
            lp->is_whole[j] ? round(lp->x[j]) : fmin(lp->upper[j], fmax(lp->lower[j], lp->x[j]));
    free(lp->dual);
    lp->dual = spot_xcalloc(lp->n_row, sizeof(double));
    if (!has_whole(lp) && get_dual_solution(rec, all))
        memcpy(lp->dual, all + 1, lp->n_row * sizeof(double));
    free(all);
}

/* Run the solver on `rec` and check its answer. */
static enum spot_lp_status run(struct spot_lp *lp, lprec *rec, bool is_rough)
{
    enum spot_lp_status status;

    switch (solve(rec)) {
    case OPTIMAL:
    case PRESOLVED:
        status = is_rough ? SPOT_LP_FOUND : SPOT_LP_OPTIMAL;
        break;
    case SUBOPTIMAL:
        status = SPOT_LP_FOUND;
        break;
    case INFEASIBLE:
        return SPOT_LP_INFEASIBLE;
    case UNBOUNDED:
        return SPOT_LP_UNBOUNDED;
    default:
        return SPOT_LP_FAILED;
    }
    take(lp, rec);
    for (size_t j = 0; j < lp->n_column; j++)
        if (fabs(lp->x[j]) >= get_infinite(rec) / 2) /* infinite if nothing bounds the column */
            return SPOT_LP_UNBOUNDED;
    return spot_lp_violation(lp, lp->x) > TOLERANCE ? SPOT_LP_FAILED : status;
}

/* A solution reached from an old basis counts only with its proof. */
static bool is_proven(const struct spot_lp *lp)
{
    const double usd = spot_lp_objective(lp);

    return spot_lp_proven(lp, lp->dual) >= usd - 1e-7 * (1 + fabs(usd));
}

/* The solver calls this in each iteration, including those for the first basis; its own timeout
 * counts whole seconds of the wall clock. */
static int __WINAPI is_late(lprec *rec, void *deadline_s)
{
    (void)rec;
    return spot_clock_cpu_s() > *(const double *)deadline_s;
}

enum spot_lp_status spot_lp_solve(struct spot_lp *lp, double limit_s, double gap)
{
    const bool is_mixed = has_whole(lp);
    double deadline_s = spot_clock_cpu_s() + limit_s;
    enum spot_lp_status status = SPOT_LP_FAILED;
    lprec *rec;

    if (lp->kept && run(lp, lp->kept, false) == SPOT_LP_OPTIMAL && is_proven(lp))
        return SPOT_LP_OPTIMAL;
    forget(lp); /* any other status reached from an old basis: solve again from scratch */
    rec = make_lp(0, (int)lp->n_column);
    if (!rec)
        spot_no_memory("lp_solve");
    set_verbose(rec, NEUTRAL);
    if (fill(lp, rec)) {
        set_mip_gap(rec, FALSE, gap > 1e-9 ? gap : 1e-9); /* relative; the absolute one is 1e-11 */
        set_epsint(rec, 1e-7);
        if (limit_s > 0)
            put_abortfunc(rec, is_late, &deadline_s);
        status = run(lp, rec, gap > 0 && is_mixed);
    }
    if (status == SPOT_LP_OPTIMAL && !is_mixed && limit_s <= 0)
        lp->kept = rec;
    else
        delete_lp(rec);
    return status;
}

double spot_lp_objective(const struct spot_lp *lp)
{
    double sum = 0;

    for (size_t j = 0; j < lp->n_column; j++)
        sum += lp->cost[j] * lp->x[j];
    return sum;
}

const double *spot_lp_x(const struct spot_lp *lp)
{
    return lp->x;
}

const double *spot_lp_dual(const struct spot_lp *lp)
{
    return lp->dual;
}

double spot_lp_violation(const struct spot_lp *lp, const double *x)
{
    double worst = 0;

    for (size_t j = 0; j < lp->n_column; j++)
        worst = fmax(worst, fmax(lp->lower[j] - x[j], x[j] - lp->upper[j]));
    for (size_t i = 0; i < lp->n_row; i++) {
        const struct row *r = &lp->row[i];
        double sum = 0, size = 1 + fabs(r->right), over;

        for (size_t k = r->first; k < r->first + r->n; k++) {
            sum += lp->value[k] * x[lp->column[k]];
            size += fabs(lp->value[k] * x[lp->column[k]]);
        }
        over = r->sense == SPOT_LP_AT_MOST    ? sum - r->right
               : r->sense == SPOT_LP_AT_LEAST ? r->right - sum
                                              : fabs(sum - r->right);
        worst = fmax(worst, over / size);
    }
    return worst;
}

double spot_lp_proven(const struct spot_lp *lp, const double *dual)
{
    double *reduced = spot_xcalloc(lp->n_column, sizeof(double)), bound = 0;

    memcpy(reduced, lp->cost, lp->n_column * sizeof(double));
    for (size_t i = 0; i < lp->n_row; i++) {
        const struct row *r = &lp->row[i];
        double y = dual[i];

        y = r->sense == SPOT_LP_AT_MOST    ? fmin(0, y)
            : r->sense == SPOT_LP_AT_LEAST ? fmax(0, y)
                                           : y;
        bound += y * r->right;
        for (size_t k = r->first; k < r->first + r->n; k++)
            reduced[lp->column[k]] -= y * lp->value[k];
    }
    for (size_t j = 0; j < lp->n_column; j++) {
        const double d = fabs(reduced[j]) < 1e-9 * (1 + fabs(lp->cost[j])) ? 0 : reduced[j];

        if (d != 0)
            bound += d * (d > 0 ? lp->lower[j] : lp->upper[j]);
    }
    free(reduced);
    return isnan(bound) ? -INFINITY : bound;
}

/* SPDX-License-Identifier: MIT */
#include "plan/share_level.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/lp.h"

/* Jobs that are alike form a class: some optimum gives them equal shares, namely the mean of any
 * optimum over all permutations of alike jobs. A program over classes is smaller and does not
 * depend on the order of jobs. */
struct classes {
    const struct spot_share_problem *problem;
    const double *gain, *floor;
    size_t *of_job;   /* [n_job] class of each job */
    size_t n, *first; /* number of classes; [n] one job of each */
    double *size;     /* [n] jobs in the class */
    double *frozen;   /* [n] fixed level of the class; NaN: still rising */
    double *y;        /* [n][n_type] sum of the shares of its jobs */
    double unit;      /* gains are divided by this */
};

struct order {
    const struct classes *k;
    size_t job;
};

static int compare(const struct classes *k, size_t a, size_t b)
{
    const struct spot_share_problem *p = k->problem;
    const struct spot_share_want *x = &p->want[a], *y = &p->want[b];

    if (x->scale != y->scale || x->on != y->on)
        return x->scale != y->scale ? (x->scale > y->scale) - (x->scale < y->scale)
                                    : (x->on > y->on) - (x->on < y->on);
    for (size_t j = 0; j < p->n_type; j++) {
        const double g = k->gain[a * p->n_type + j], h = k->gain[b * p->n_type + j];

        if (g < h || g > h)
            return g < h ? -1 : 1;
    }
    if (k->floor && (k->floor[a] < k->floor[b] || k->floor[a] > k->floor[b]))
        return k->floor[a] < k->floor[b] ? -1 : 1;
    return 0;
}

static int by_class(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    const int order = compare(x->k, x->job, y->job);

    return order ? order : (x->job > y->job) - (x->job < y->job);
}

/* Set the unit: the smallest of the jobs' best gains. */
static void set_unit(struct classes *k)
{
    const size_t n_type = k->problem->n_type;

    k->unit = INFINITY;
    for (size_t c = 0; c < k->n; c++) {
        double best = 0;

        for (size_t j = 0; j < n_type; j++)
            best = fmax(best, k->gain[k->first[c] * n_type + j]);
        if (best > 0)
            k->unit = fmin(k->unit, best);
    }
    if (isinf(k->unit))
        k->unit = 1;
}

static void classes_init(struct classes *k, const struct spot_share_problem *problem,
                         const double *gain, const double *floor)
{
    const size_t n = problem->n_job;
    struct order *order = spot_xcalloc(n, sizeof(*order));

    *k = (struct classes){ .problem = problem, .gain = gain, .floor = floor };
    k->of_job = spot_xcalloc(n, sizeof(*k->of_job));
    k->first = spot_xcalloc(n, sizeof(*k->first));
    k->size = spot_xcalloc(n, sizeof(double));
    for (size_t i = 0; i < n; i++)
        order[i] = (struct order){ k, i };
    qsort(order, n, sizeof(*order), by_class);
    for (size_t i = 0; i < n; i++) {
        if (!i || compare(k, order[i - 1].job, order[i].job))
            k->first[k->n++] = order[i].job;
        k->of_job[order[i].job] = k->n - 1;
        k->size[k->n - 1]++;
    }
    free(order);
    k->frozen = spot_xcalloc(k->n, sizeof(double));
    k->y = spot_xcalloc(k->n * problem->n_type, sizeof(double));
    for (size_t c = 0; c < k->n; c++)
        k->frozen[c] = NAN;
    set_unit(k);
}

static void classes_release(struct classes *k)
{
    free(k->of_job);
    free(k->first);
    free(k->size);
    free(k->frozen);
    free(k->y);
}

static double gain_of(const struct classes *k, size_t c, size_t j)
{
    return k->gain[k->first[c] * k->problem->n_type + j] / k->unit;
}

static const struct spot_share_want *want_of(const struct classes *k, size_t c)
{
    return &k->problem->want[k->first[c]];
}

/* Rows: the types first, then the time of each class: [n_type] and [n]. */
static struct spot_lp *base(const struct classes *k, size_t extra)
{
    const size_t n_type = k->problem->n_type, n = k->n, room = n > n_type ? n : n_type;
    struct spot_lp *lp = spot_lp_new(n * n_type + extra);
    size_t *column = spot_xcalloc(room, sizeof(*column));
    double *value = spot_xcalloc(room, sizeof(double));

    for (size_t j = 0; j < n_type; j++) {
        for (size_t c = 0; c < n; c++) {
            column[c] = c * n_type + j;
            value[c] = (double)want_of(k, c)->scale;
        }
        spot_lp_row(lp, column, value, n, SPOT_LP_AT_MOST, (double)k->problem->type[j].count);
    }
    for (size_t c = 0; c < n; c++) {
        for (size_t j = 0; j < n_type; j++) {
            column[j] = c * n_type + j;
            value[j] = 1;
            if (!(gain_of(k, c, j) > 0))
                spot_lp_range(lp, column[j], 0, 0);
        }
        spot_lp_row(lp, column, value, n_type, SPOT_LP_AT_MOST, k->size[c]);
    }
    free(column);
    free(value);
    return lp;
}

/* One row for each class: its gain, less the common level if it still rises (column n * n_type). */
static void add_levels(const struct classes *k, struct spot_lp *lp)
{
    const size_t n_type = k->problem->n_type;
    size_t *column = spot_xcalloc(n_type + 1, sizeof(*column));
    double *value = spot_xcalloc(n_type + 1, sizeof(double));

    for (size_t c = 0; c < k->n; c++) {
        const bool rises = isnan(k->frozen[c]);

        for (size_t j = 0; j < n_type; j++) {
            column[j] = c * n_type + j;
            value[j] = gain_of(k, c, j);
        }
        column[n_type] = k->n * n_type;
        value[n_type] = -k->size[c];
        spot_lp_row(lp, column, value, n_type + rises, SPOT_LP_AT_LEAST,
                    rises ? 0 : k->size[c] * k->frozen[c] * (1 - 1e-9));
    }
    free(column);
    free(value);
}

static int fail(enum spot_lp_status status, struct spot_err *err)
{
    return spot_err_set(err, SPOT_ESYS, "the solver gave up on the shares (%s)",
                        status == SPOT_LP_INFEASIBLE  ? "infeasible"
                        : status == SPOT_LP_UNBOUNDED ? "unbounded"
                                                      : "numbers out of hand");
}

static void keep(struct classes *k, const struct spot_lp *lp)
{
    memcpy(k->y, spot_lp_x(lp), k->n * k->problem->n_type * sizeof(double));
}

/* Freeze the classes that limit the level: a row with a positive price is tight in every optimum.
 * Returns how many. */
static size_t freeze(struct classes *k, const struct spot_lp *lp, double level)
{
    const double *dual = spot_lp_dual(lp) + k->problem->n_type + k->n;
    size_t n = 0;

    for (size_t c = 0; c < k->n; c++)
        if (isnan(k->frozen[c]) && fabs(dual[c]) * k->size[c] > 1e-9) {
            k->frozen[c] = level;
            n++;
        }
    return n;
}

static void take_prices(const struct classes *k, const struct spot_lp *lp, double unit,
                        struct spot_share_answer *answer)
{
    answer->objective = -spot_lp_objective(lp) * unit;
    answer->bound = -spot_lp_proven(lp, spot_lp_dual(lp)) * unit;
    for (size_t j = 0; j < k->problem->n_type; j++)
        answer->price[j] = fmax(0, -spot_lp_dual(lp)[j]) * unit;
}

static bool any_runs(const struct classes *k)
{
    for (size_t c = 0; c < k->n; c++)
        if (want_of(k, c)->on >= 0)
            return true;
    return false;
}

static void prefer_staying(const struct classes *k, struct spot_lp *lp)
{
    const size_t n_type = k->problem->n_type;

    for (size_t c = 0; c < k->n; c++)
        for (size_t j = 0; j < n_type; j++)
            spot_lp_cost(lp, c * n_type + j,
                         want_of(k, c)->on == (int)j ? -(double)want_of(k, c)->scale : 0);
}

/* With all levels fixed, choose the shares that leave jobs on their current types as far as
 * possible. */
static void settle(struct classes *k, double level)
{
    struct spot_lp *lp = base(k, 1);

    for (size_t c = 0; c < k->n; c++)
        if (isnan(k->frozen[c]))
            k->frozen[c] = level;
    add_levels(k, lp);
    prefer_staying(k, lp);
    if (spot_lp_solve(lp, 0, 0) == SPOT_LP_OPTIMAL)
        keep(k, lp);
    spot_lp_free(lp);
}

static void spread(const struct classes *k, double *x)
{
    const size_t n_type = k->problem->n_type;

    for (size_t i = 0; i < k->problem->n_job; i++)
        for (size_t j = 0; j < n_type; j++)
            x[i * n_type + j] = k->y[k->of_job[i] * n_type + j] / k->size[k->of_job[i]];
}

static void take_weights(const struct classes *k, const struct spot_lp *lp, double *weight)
{
    const double *dual = spot_lp_dual(lp) + k->problem->n_type + k->n;

    for (size_t i = 0; i < k->problem->n_job; i++)
        weight[i] = fabs(dual[k->of_job[i]]);
}

int spot_share_level(const struct spot_share_problem *problem, const double *gain, bool all,
                     double *weight, struct spot_share_answer *answer, struct spot_err *err)
{
    struct classes k;
    double level = 0;
    int rc = 0;

    classes_init(&k, problem, gain, NULL);
    for (size_t frozen = 0, turn = 0; !rc && frozen < k.n && (all || !turn); turn++) {
        struct spot_lp *lp = base(&k, 1);
        enum spot_lp_status status;
        size_t n = 0;

        add_levels(&k, lp);
        spot_lp_cost(lp, k.n * problem->n_type, -1);
        status = spot_lp_solve(lp, 0, 0);
        if (status != SPOT_LP_OPTIMAL && !turn)
            rc = fail(status, err);
        if (status == SPOT_LP_OPTIMAL) {
            level = -spot_lp_objective(lp);
            keep(&k, lp);
            n = freeze(&k, lp, level);
            if (weight)
                take_weights(&k, lp, weight);
        }
        if (!rc && !turn)
            take_prices(&k, lp, k.unit, answer);
        spot_lp_free(lp);
        frozen += n;
        if (!n)
            break; /* rounding decides nothing further: the remaining levels stay where they are */
    }
    if (!rc && !weight && any_runs(&k))
        settle(&k, level);
    if (!rc)
        spread(&k, answer->x);
    classes_release(&k);
    return rc;
}

static void add_floors(const struct classes *k, struct spot_lp *lp)
{
    const size_t n_type = k->problem->n_type;
    size_t *column = spot_xcalloc(n_type, sizeof(*column));
    double *value = spot_xcalloc(n_type, sizeof(double));

    for (size_t c = 0; c < k->n; c++) {
        const double floor = k->floor[k->first[c]];

        for (size_t j = 0; j < n_type; j++) {
            column[j] = c * n_type + j;
            value[j] = k->problem->rate[k->first[c] * n_type + j] / fmax(floor, 1e-12);
        }
        if (floor > 0)
            spot_lp_row(lp, column, value, n_type, SPOT_LP_AT_LEAST, k->size[c]);
    }
    free(column);
    free(value);
}

/* Of the shares with the same sum, choose those that leave jobs on their current types as far as
 * possible. */
static void settle_sum(struct classes *k, double sum)
{
    const size_t n_type = k->problem->n_type, n = k->n * n_type;
    struct spot_lp *lp = base(k, 0);
    size_t *column = spot_xcalloc(n, sizeof(*column));
    double *value = spot_xcalloc(n, sizeof(double));

    if (k->floor)
        add_floors(k, lp);
    for (size_t i = 0; i < n; i++) {
        column[i] = i;
        value[i] = gain_of(k, i / n_type, i % n_type);
    }
    spot_lp_row(lp, column, value, n, SPOT_LP_AT_LEAST, sum * (1 - 1e-9));
    prefer_staying(k, lp);
    if (spot_lp_solve(lp, 0, 0) == SPOT_LP_OPTIMAL)
        keep(k, lp);
    free(column);
    free(value);
    spot_lp_free(lp);
}

int spot_share_sum(const struct spot_share_problem *problem, const double *gain,
                   const double *floor, struct spot_share_answer *answer, struct spot_err *err)
{
    struct classes k;
    struct spot_lp *lp;
    enum spot_lp_status status;
    int rc = 0;

    classes_init(&k, problem, gain, floor);
    lp = base(&k, 0);
    if (floor)
        add_floors(&k, lp);
    for (size_t c = 0; c < k.n; c++)
        for (size_t j = 0; j < problem->n_type; j++)
            spot_lp_cost(lp, c * problem->n_type + j, -gain_of(&k, c, j));
    status = spot_lp_solve(lp, 0, 0);
    if (status == SPOT_LP_INFEASIBLE && floor)
        rc = 1;
    else if (status != SPOT_LP_OPTIMAL)
        rc = fail(status, err);
    if (!rc) {
        keep(&k, lp);
        take_prices(&k, lp, k.unit, answer);
        if (any_runs(&k))
            settle_sum(&k, -spot_lp_objective(lp));
        spread(&k, answer->x);
    }
    spot_lp_free(lp);
    classes_release(&k);
    return rc;
}

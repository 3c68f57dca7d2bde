/* SPDX-License-Identifier: MIT */
#include "plan/migration/place_bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "plan/assign.h"

enum { CUTS_MAX = 48, STEPS_PER_LIMIT = 48 };

/* Costs of an assignment are integers: weighted seconds in units of best_s / 2^40. */
static const double scale = 0x1p40;

/* Allowance for rounding in sums of a few doubles. */
static const double slack = 1e-13;

struct bound {
    const struct spot_place_problem *p;
    size_t n_pair;
    struct spot_place_cut cut[CUTS_MAX];
    int n_cut;
    double weight[CUTS_MAX]; /* >= 0, sum 1 */
    double time[CUTS_MAX];   /* times of the cuts under the last minimiser */
    int *node;               /* [n_position] the last minimiser */
    int *stay;               /* [n_position] all -1: no preference */
    int64_t *cost;           /* [n_pair] */
    double best_s;
    spot_place_try_fn ask;
    void *user;
    long n_step;
};

static double in_s(const struct bound *b, size_t pair)
{
    return (double)b->p->in_byte[pair] / b->p->in_byte_per_s[pair % (size_t)b->p->n_node];
}

/* Add the sender set that limits the placement tried last, unless it is already known. */
static void add_cut(struct bound *b)
{
    struct spot_place_cut *cut = &b->cut[b->n_cut];

    if (b->n_cut == CUTS_MAX)
        return;
    if (!cut->byte)
        cut->byte = spot_xcalloc(b->n_pair, sizeof *cut->byte);
    if (!b->p->cut(b->p->user, cut))
        return;
    for (int c = 0; c < b->n_cut; c++)
        if (b->cut[c].rate_byte_per_s == cut->rate_byte_per_s &&
            b->cut[c].fixed_byte == cut->fixed_byte &&
            !memcmp(b->cut[c].byte, cut->byte, b->n_pair * sizeof *cut->byte))
            return;
    b->weight[b->n_cut] = b->n_cut ? 0 : 1;
    b->n_cut++;
}

/* A lower bound: the least assignment, with costs rounded down. -1 if no placement keeps the limit.
 */
static double least(struct bound *b, double limit_s)
{
    const int n = b->p->n_position, m = b->p->n_node;
    const struct spot_assign_problem problem = {
        .n_row = n, .n_col = m, .cost = b->cost, .stay = b->stay
    };
    struct spot_assignment answer;
    double fixed_s = 0, value = -1;

    for (int c = 0; c < b->n_cut; c++)
        fixed_s += b->weight[c] * (double)b->cut[c].fixed_byte / b->cut[c].rate_byte_per_s;
    for (size_t k = 0; k < b->n_pair; k++) {
        double sum_s = 0;

        for (int c = 0; c < b->n_cut; c++)
            sum_s += b->weight[c] * (double)b->cut[c].byte[k] / b->cut[c].rate_byte_per_s;
        b->cost[k] = b->p->can_place[k % (size_t)m] && in_s(b, k) <= limit_s
                         ? (int64_t)floor(sum_s / b->best_s * scale)
                         : SPOT_ASSIGN_FORBIDDEN;
    }
    if (!spot_assign(&problem, &answer, NULL) && answer.is_feasible) {
        value = (fixed_s + (double)answer.cost / scale * b->best_s) * (1 - slack);
        memcpy(b->node, answer.col_of_row, (size_t)n * sizeof(int));
    }
    spot_assignment_release(&answer);
    return value;
}

/* Compute the times of the cuts under the last minimiser; returns their squared deviations from the
 * mean, summed. */
static double measure(struct bound *b)
{
    double mean = 0, square = 0;

    for (int c = 0; c < b->n_cut; c++) {
        int64_t byte = b->cut[c].fixed_byte;

        for (int q = 0; q < b->p->n_position; q++)
            byte += b->cut[c].byte[(size_t)q * (size_t)b->p->n_node + (size_t)b->node[q]];
        b->time[c] = (double)byte / b->cut[c].rate_byte_per_s;
        mean += b->time[c] / b->n_cut;
    }
    for (int c = 0; c < b->n_cut; c++)
        square += (b->time[c] - mean) * (b->time[c] - mean);
    return square;
}

/* Project onto the simplex (Held, Wolfe and Crowder 1974): subtract a constant so that the positive
 * parts add up to 1. */
static void project(double *weight, int n)
{
    double low = -1, high = 0;

    for (int c = 0; c < n; c++)
        high = fmax(high, weight[c]);
    for (int round = 0; round < 60; round++) {
        const double mid = (low + high) / 2;
        double sum = 0;

        for (int c = 0; c < n; c++)
            sum += fmax(weight[c] - mid, 0);
        if (sum > 1)
            low = mid;
        else
            high = mid;
    }
    for (int c = 0; c < n; c++)
        weight[c] = fmax(weight[c] - high, 0);
}

/* The bound under a threshold: subgradient steps of Polyak's length towards target_s. INFINITY if
 * no placement keeps the threshold; stops early once target_s is reached. */
static double raise(struct bound *b, double limit_s, double target_s)
{
    double best = 0, pace = 1;

    for (int step = 0, stale = 0; step < STEPS_PER_LIMIT && b->n_step < b->p->bound_max; step++) {
        const double value = least(b, limit_s);
        double square;

        if (value < 0)
            return INFINITY;
        b->n_step++;
        stale = value > best * (1 + 1e-6) ? 0 : stale + 1;
        best = fmax(best, value);
        if (stale >= 5) {
            pace /= 2;
            stale = 0;
        }
        if (best >= target_s)
            break;
        b->best_s = fmin(b->best_s, b->ask(b->user, b->node));
        add_cut(b);
        square = measure(b);
        if (square <= 0)
            break; /* a single cut, or all equal: the bound is exact */
        for (int c = 0; c < b->n_cut; c++)
            b->weight[c] += pace * (target_s - value) / square * b->time[c];
        project(b->weight, b->n_cut);
    }
    return best;
}

/* Distinct receive times from floor_s to below best_s, ascending. */
static size_t list_limits(const struct bound *b, double floor_s, double *limit)
{
    size_t n = 0, n_distinct = 0;

    for (size_t k = 0; k < b->n_pair; k++)
        if (b->p->can_place[k % (size_t)b->p->n_node] && in_s(b, k) >= floor_s &&
            in_s(b, k) < b->best_s)
            limit[n++] = in_s(b, k);
    qsort(limit, n, sizeof *limit, spot_num_compare);
    for (size_t k = 0; k < n; k++)
        if (!k || limit[k] != limit[n_distinct - 1])
            limit[n_distinct++] = limit[k];
    return n_distinct;
}

/* For each k, a placement either takes at least limit[k + 1], or it keeps the threshold limit[k],
 * for which raise() gives a bound; the smaller of the two is a bound of all. The former grows with
 * k, the latter falls. */
static double search(struct bound *b, double floor_s)
{
    double *limit = spot_xcalloc(b->n_pair + 2, sizeof *limit), found_s = floor_s;
    size_t n = list_limits(b, floor_s, limit), low = 0, high;

    if (!n || limit[0] > floor_s) { /* below the least limit only free pairs remain */
        memmove(limit + 1, limit, n * sizeof *limit);
        limit[0] = floor_s;
        n++;
    }
    limit[n] = b->best_s;
    high = n;
    while (low < high && b->n_step < b->p->bound_max) {
        const size_t mid = (low + high) / 2;
        const double next_s = limit[mid + 1],
                     rest_s = raise(b, limit[mid], fmin(next_s, b->best_s));

        found_s = fmax(found_s, fmin(next_s, rest_s));
        if (rest_s >= next_s)
            low = mid + 1;
        else
            high = mid;
    }
    free(limit);
    return found_s;
}

double spot_place_bound(const struct spot_place_problem *p, double floor_s, double best_s,
                        spot_place_try_fn ask, void *user)
{
    const size_t n = (size_t)p->n_position;
    struct bound b = { .p = p, .n_pair = n * (size_t)p->n_node, .best_s = best_s };
    double found_s;

    b.ask = ask;
    b.user = user;
    b.node = spot_xcalloc(n, sizeof(int));
    b.stay = spot_xcalloc(n, sizeof(int));
    b.cost = spot_xcalloc(b.n_pair, sizeof *b.cost);
    for (size_t q = 0; q < n; q++)
        b.stay[q] = -1;
    add_cut(&b); /* the placement scored last is the best one */
    found_s = b.n_cut ? fmin(search(&b, floor_s), b.best_s) : floor_s;
    for (int c = 0; c < CUTS_MAX; c++)
        free(b.cut[c].byte);
    free(b.node), free(b.stay), free(b.cost);
    return found_s;
}

/* SPDX-License-Identifier: MIT */
#include "plan/market_quota.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign.h"

static const double PARTS = 1e6; /* parts of a dollar; the matching needs whole numbers */
/* cost of a job's other step if it is not safe: such a job is served first */
static const int64_t NOT_SAFE = 1000000000000000;

/* The cheapest step of a job that needs no quota, and its cost; INFINITY if there is none. */
static struct spot_market_step other(const struct spot_market_quota *q, size_t job, double *usd)
{
    struct spot_market_step best = q->alone[job];
    double least = INFINITY;

    for (size_t k = 0; k < q->n_place; k++)
        for (enum spot_deadline_mode mode = SPOT_DEADLINE_IDLE; mode <= SPOT_DEADLINE_ON_DEMAND;
             mode++)
            if ((mode != SPOT_DEADLINE_SPOT || q->quota[k] < 0) && q->usd[job][k][mode] < least) {
                least = q->usd[job][k][mode];
                best = (struct spot_market_step){ mode, k };
            }
    *usd = least;
    return best;
}

/* Columns: one for each machine of every quota, then one for each job's step without quota. */
static int match(const struct spot_market_quota *q, const int64_t *quota,
                 struct spot_market_step *step, double *usd, struct spot_err *err)
{
    const size_t n = q->n_job;
    size_t n_col = n, *place, first[SPOT_MARKET_PLACES_MAX], used[SPOT_MARKET_PLACES_MAX] = { 0 };
    struct spot_assignment answer = { 0 };
    struct spot_assign_problem p = { .n_row = (int)n };
    int64_t *cost;
    int *stay;
    int rc;

    for (size_t k = 0; k < q->n_place; k++)
        n_col += quota[k] < 0 ? 0 : (size_t)quota[k] < n ? (size_t)quota[k] : n;
    p.n_col = (int)n_col;
    p.cost = cost = spot_xcalloc(n * n_col, sizeof(*cost));
    p.stay = stay = spot_xcalloc(n, sizeof(*stay));
    place = spot_xcalloc(n_col, sizeof(*place));
    n_col = 0;
    for (size_t k = 0; k < q->n_place; k++) {
        first[k] = n_col;
        for (int64_t i = 0; i < quota[k] && i < (int64_t)n; i++)
            place[n_col++] = k;
    }
    for (size_t j = 0; j < n; j++) {
        const struct spot_market_step alone = q->alone[j];
        int64_t *row = cost + j * (size_t)p.n_col;
        double rest;

        other(q, j, &rest);
        for (size_t c = 0; c < n_col; c++) {
            const double x = q->usd[j][place[c]][SPOT_DEADLINE_SPOT];

            row[c] = isfinite(x) ? llround(x * PARTS) : SPOT_ASSIGN_FORBIDDEN;
        }
        for (size_t i = 0; i < n; i++)
            row[n_col + i] = i != j           ? SPOT_ASSIGN_FORBIDDEN
                             : isfinite(rest) ? llround(rest * PARTS)
                                              : NOT_SAFE;
        stay[j] = (int)(n_col + j);
        if (alone.mode == SPOT_DEADLINE_SPOT && quota[alone.place] >= 0) {
            size_t *const c = &used[alone.place];

            stay[j] = *c < n && (int64_t)*c < quota[alone.place]
                          ? (int)(first[alone.place] + (*c)++)
                          : -1;
        }
    }
    rc = spot_assign(&p, &answer, err);
    *usd = 0;
    for (size_t j = 0; j < n && !rc; j++) {
        const size_t c = (size_t)answer.col_of_row[j];
        double rest;

        step[j] = c < n_col ? (struct spot_market_step){ SPOT_DEADLINE_SPOT, place[c] }
                            : other(q, j, &rest);
        if (isfinite(q->usd[j][step[j].place][step[j].mode]))
            *usd += q->usd[j][step[j].place][step[j].mode];
    }
    spot_assignment_release(&answer);
    free(cost);
    free(stay);
    free(place);
    return rc;
}

int spot_market_divide(const struct spot_market_quota *q, struct spot_market_step *step,
                       double *usd, double *worth, struct spot_err *err)
{
    struct spot_market_step *spare = spot_xcalloc(q->n_job, sizeof(*spare));
    int64_t quota[SPOT_MARKET_PLACES_MAX];
    int rc;

    memcpy(quota, q->quota, q->n_place * sizeof(*quota));
    rc = match(q, quota, step, usd, err);
    for (size_t k = 0; worth && !rc && k < q->n_place; k++) {
        double less = *usd;

        if (quota[k] >= 0) {
            quota[k]++;
            rc = match(q, quota, spare, &less, err);
            quota[k]--;
        }
        worth[k] = fmax(0, *usd - less);
    }
    free(spare);
    return rc;
}

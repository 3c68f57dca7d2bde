/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/fleet/fleet_risk_state.h"

/* the gain of a split is at least this, so that none counts as zero */
static const double gain_least = 1e-4;
static const double part_least = 1e-3; /* shorter movements are not informative */

void spot_fleet_branch_init(struct spot_fleet_branch *b, size_t n_offer, size_t n_whole)
{
    *b = (struct spot_fleet_branch){ .n_offer = n_offer, .n_whole = n_whole };
    for (int up = 0; up < 2; up++) {
        b->gain[up] = spot_xcalloc(n_whole, sizeof(double));
        b->seen[up] = spot_xcalloc(n_whole, sizeof(double));
    }
}

void spot_fleet_branch_release(struct spot_fleet_branch *b)
{
    for (int up = 0; up < 2; up++) {
        free(b->gain[up]);
        free(b->seen[up]);
    }
}

void spot_fleet_branch_learn(struct spot_fleet_branch *b, const struct spot_fleet_split *split,
                             double bound)
{
    if (!(split->part > part_least))
        return;
    b->gain[split->is_up][split->column] += fmax(0, bound - split->bound) / split->part;
    b->seen[split->is_up][split->column] += 1;
}

/* Mean gain of a split for one whole unit; for a column that was never split the mean of its kind
 * (counts or sums). */
static double gain_of(const struct spot_fleet_branch *b, size_t column, bool is_up)
{
    const bool is_sum = column >= b->n_offer;
    const size_t first = is_sum ? b->n_offer : 0, last = is_sum ? b->n_whole : b->n_offer;
    double gain = 0, seen = 0;

    if (b->seen[is_up][column] > 0)
        return b->gain[is_up][column] / b->seen[is_up][column];
    for (size_t j = first; j < last; j++) {
        gain += b->gain[is_up][j];
        seen += b->seen[is_up][j];
    }
    return seen > 0 ? gain / seen : 1;
}

size_t spot_fleet_branch_column(const struct spot_fleet_branch *b, const double *x)
{
    size_t best = SIZE_MAX;
    double most = 0;

    for (size_t j = 0; j < b->n_whole; j++) {
        const double part = x[j] - floor(x[j]);
        double gain;

        if (fabs(x[j] - round(x[j])) <= SPOT_FLEET_WHOLE_WITHIN)
            continue;
        gain = fmax(gain_least, gain_of(b, j, false) * part) *
               fmax(gain_least, gain_of(b, j, true) * (1 - part));
        if (gain > most) {
            most = gain;
            best = j;
        }
    }
    return best;
}

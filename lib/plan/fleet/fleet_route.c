/* SPDX-License-Identifier: MIT */
#include "plan/fleet_route.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/lp.h"

struct spot_fleet_route {
    const double *per_s;
    size_t n_bucket, n_type;
    struct spot_lp *lp;
    double *price; /* [n_cut][n_type] beta */
    double *level; /* [n_cut][n_bucket] min(1, min_g beta_g / per_s_bg) */
    size_t n_cut, cap_price, cap_level;
    bool is_solved;
};

/* Columns: requests per second of bucket b on type g, then the unserved ones. Rows: buckets, types;
 * the load and the capacity are the right-hand sides. */
static void build(struct spot_fleet_route *r)
{
    const size_t wide = r->n_bucket > r->n_type ? r->n_bucket : r->n_type;
    size_t *column = spot_xcalloc(wide + 1, sizeof(*column));
    double *value = spot_xcalloc(wide + 1, sizeof(*value));

    r->lp = spot_lp_new(r->n_bucket * (r->n_type + 1));
    for (size_t b = 0; b < r->n_bucket; b++) {
        for (size_t g = 0; g < r->n_type; g++) {
            column[g] = b * r->n_type + g;
            value[g] = 1;
            if (!(r->per_s[column[g]] > 0))
                spot_lp_range(r->lp, column[g], 0, 0);
        }
        column[r->n_type] = r->n_bucket * r->n_type + b;
        value[r->n_type] = 1;
        spot_lp_cost(r->lp, column[r->n_type], 1);
        spot_lp_row(r->lp, column, value, r->n_type + 1, SPOT_LP_EQUAL, 0);
    }
    for (size_t g = 0; g < r->n_type; g++) {
        size_t n = 0;

        for (size_t b = 0; b < r->n_bucket; b++)
            if (r->per_s[b * r->n_type + g] > 0) {
                column[n] = b * r->n_type + g;
                value[n++] = 1 / r->per_s[b * r->n_type + g];
            }
        spot_lp_row(r->lp, column, value, n, SPOT_LP_AT_MOST, 0);
    }
    free(column);
    free(value);
}

struct spot_fleet_route *spot_fleet_route_new(const double *per_s, size_t n_bucket, size_t n_type)
{
    struct spot_fleet_route *r = spot_xcalloc(1, sizeof(*r));

    *r = (struct spot_fleet_route){ .per_s = per_s, .n_bucket = n_bucket, .n_type = n_type };
    build(r);
    return r;
}

void spot_fleet_route_free(struct spot_fleet_route *r)
{
    spot_lp_free(r->lp);
    free(r->price);
    free(r->level);
    free(r);
}

static void add_cut(struct spot_fleet_route *r, const double *dual)
{
    double *price, *level;

    r->price = spot_xgrow(r->price, &r->cap_price, (r->n_cut + 1) * r->n_type, sizeof(double));
    r->level = spot_xgrow(r->level, &r->cap_level, (r->n_cut + 1) * r->n_bucket, sizeof(double));
    price = r->price + r->n_cut * r->n_type;
    level = r->level + r->n_cut * r->n_bucket;
    for (size_t g = 0; g < r->n_type; g++)
        price[g] = dual[r->n_bucket + g] < -1e-12 ? -dual[r->n_bucket + g] : 0;
    for (size_t i = 0; i < r->n_cut; i++) {
        size_t g = 0;

        while (g < r->n_type &&
               fabs(r->price[i * r->n_type + g] - price[g]) < 1e-9 * (1 + price[g]))
            g++;
        if (g == r->n_type)
            return;
    }
    for (size_t b = 0; b < r->n_bucket; b++) {
        level[b] = 1;
        for (size_t g = 0; g < r->n_type; g++)
            if (r->per_s[b * r->n_type + g] > 0)
                level[b] = fmin(level[b], price[g] / r->per_s[b * r->n_type + g]);
    }
    r->n_cut++;
}

double spot_fleet_route_left(struct spot_fleet_route *r, const double *load_per_s,
                             const double *capacity)
{
    double left = 0, sum = 0;

    for (size_t b = 0; b < r->n_bucket; b++) {
        spot_lp_right(r->lp, b, load_per_s[b]);
        sum += load_per_s[b];
    }
    for (size_t g = 0; g < r->n_type; g++)
        spot_lp_right(r->lp, r->n_bucket + g, capacity[g]);
    r->is_solved = spot_lp_solve(r->lp, 0, 0) == SPOT_LP_OPTIMAL;
    if (!r->is_solved)
        return sum; /* nothing is served: the worst case */
    left = spot_lp_objective(r->lp);
    if (left < 1e-9 * (1 + sum))
        return 0;
    add_cut(r, spot_lp_dual(r->lp));
    return left;
}

double spot_fleet_route_below(const struct spot_fleet_route *r, const double *load_per_s,
                              const double *capacity)
{
    double most = 0;

    for (size_t i = 0; i < r->n_cut; i++) {
        const double *price = r->price + i * r->n_type, *level = r->level + i * r->n_bucket;
        double at = 0;

        for (size_t b = 0; b < r->n_bucket; b++)
            at += level[b] * load_per_s[b];
        for (size_t g = 0; g < r->n_type; g++)
            at -= price[g] * capacity[g];
        most = at > most ? at : most;
    }
    return most;
}

const double *spot_fleet_route_split(const struct spot_fleet_route *r)
{
    return r->is_solved ? spot_lp_x(r->lp) : NULL;
}

bool spot_fleet_route_cut(const struct spot_fleet_route *r, size_t i, const double **price,
                          const double **level)
{
    if (i >= r->n_cut)
        return false;
    *price = r->price + i * r->n_type;
    *level = r->level + i * r->n_bucket;
    return true;
}

/* SPDX-License-Identifier: MIT */
#include "plan/fleet/fleet_recourse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"

/* Columns: y bucket by bucket, u [n_bucket]. Rows: splits, then types. */
static size_t split_column(const struct spot_fleet_risk *p, size_t b, size_t g)
{
    return b * p->n_type + g;
}

static size_t unserved_column(const struct spot_fleet_risk *p, size_t b)
{
    return p->n_bucket * p->n_type + b;
}

static void add_splits(struct spot_fleet_recourse *r)
{
    const struct spot_fleet_risk *p = r->risk;
    size_t *column = spot_xcalloc(p->n_type + 1, sizeof(*column));
    double *value = spot_xcalloc(p->n_type + 1, sizeof(*value));

    for (size_t b = 0; b < p->n_bucket; b++) {
        size_t n = 0;

        column[n] = unserved_column(p, b);
        value[n++] = 1;
        for (size_t g = 0; g < p->n_type; g++) {
            if (!(p->per_s[b * p->n_type + g] > 0)) {
                spot_lp_range(r->lp, split_column(p, b, g), 0, 0);
                continue;
            }
            column[n] = split_column(p, b, g);
            value[n++] = 1;
        }
        spot_lp_cost(r->lp, unserved_column(p, b), p->rate_per_s[b] / r->rate_per_s);
        spot_lp_row(r->lp, column, value, n, SPOT_LP_EQUAL, 1);
    }
    free(column);
    free(value);
}

static void add_types(struct spot_fleet_recourse *r)
{
    const struct spot_fleet_risk *p = r->risk;
    size_t *column = spot_xcalloc(p->n_bucket + 1, sizeof(*column));
    double *value = spot_xcalloc(p->n_bucket + 1, sizeof(*value));

    for (size_t g = 0; g < p->n_type; g++) {
        size_t n = 0;

        for (size_t b = 0; b < p->n_bucket; b++) {
            const double per_s = p->per_s[b * p->n_type + g];

            if (!(per_s > 0) || !(p->rate_per_s[b] > 0))
                continue;
            column[n] = split_column(p, b, g);
            value[n++] = p->rate_per_s[b] / per_s;
        }
        spot_lp_row(r->lp, column, value, n, SPOT_LP_AT_MOST, 0);
    }
    free(column);
    free(value);
}

enum { TABLE_FIRST = 1 << 10 };

void spot_fleet_recourse_init(struct spot_fleet_recourse *r, const struct spot_fleet_risk *risk)
{
    *r = (struct spot_fleet_recourse){ .risk = risk };
    for (size_t b = 0; b < risk->n_bucket; b++)
        r->rate_per_s += risk->rate_per_s[b];
    r->lp = spot_lp_new(risk->n_bucket * (risk->n_type + 1));
    add_splits(r);
    add_types(r);
    r->some = spot_xcalloc(risk->n_type, sizeof(*r->some));
    r->n_table = TABLE_FIRST;
    r->table = spot_xcalloc(r->n_table, sizeof(*r->table));
}

void spot_fleet_recourse_release(struct spot_fleet_recourse *r)
{
    spot_lp_free(r->lp);
    free(r->price);
    free(r->level);
    free(r->known);
    free(r->table);
    free(r->enough);
    free(r->some);
    memset(r, 0, sizeof(*r));
}

static size_t place_of(const struct spot_fleet_recourse *r, const double *capacity)
{
    const size_t n = r->risk->n_type;
    size_t at = (size_t)spot_hash64(capacity, n * sizeof(double)) & (r->n_table - 1);

    while (r->table[at] &&
           memcmp(r->known + (r->table[at] - 1) * (n + 1), capacity, n * sizeof(double)) != 0)
        at = (at + 1) & (r->n_table - 1);
    return at;
}

static void remember(struct spot_fleet_recourse *r, const double *capacity, double unserved)
{
    const size_t n = r->risk->n_type, wide = n + 1;

    if (2 * (r->n_known + 1) > r->n_table) {
        free(r->table);
        r->n_table *= 2;
        r->table = spot_xcalloc(r->n_table, sizeof(*r->table));
        for (size_t i = 0; i < r->n_known; i++)
            r->table[place_of(r, r->known + i * wide)] = (uint32_t)(i + 1);
    }
    r->table[place_of(r, capacity)] = (uint32_t)(r->n_known + 1);
    r->known = spot_xgrow(r->known, &r->cap_known, (r->n_known + 1) * wide, sizeof(double));
    memcpy(r->known + r->n_known * wide, capacity, n * sizeof(double));
    r->known[r->n_known++ * wide + n] = unserved;
    if (unserved > 0)
        return;
    r->enough = spot_xgrow(r->enough, &r->cap_enough, (r->n_enough + 1) * n, sizeof(double));
    memcpy(r->enough + r->n_enough++ * n, capacity, n * sizeof(double));
}

static bool is_enough(const struct spot_fleet_recourse *r, const double *capacity)
{
    const size_t n = r->risk->n_type;

    for (size_t i = r->n_enough; i-- > 0;) {
        size_t g = 0;

        while (g < n && capacity[g] >= r->enough[i * n + g])
            g++;
        if (g == n)
            return true;
    }
    return false;
}

/* The cut of prices that came out of the solver; they need only be above 0 for it to be true. */
static void add_cut(struct spot_fleet_recourse *r, const double *dual)
{
    const struct spot_fleet_risk *p = r->risk;
    double *price, level = 0;

    r->price = spot_xgrow(r->price, &r->cap_price, (r->n_cut + 1) * p->n_type, sizeof(double));
    r->level = spot_xgrow(r->level, &r->cap_level, r->n_cut + 1, sizeof(double));
    price = r->price + r->n_cut * p->n_type;
    for (size_t g = 0; g < p->n_type; g++) {
        price[g] = fmax(0, -dual[p->n_bucket + g]) * p->rho;
        price[g] = price[g] < 1e-12 ? 0 : price[g];
    }
    for (size_t b = 0; b < p->n_bucket; b++) {
        double least = 1 / r->rate_per_s;

        for (size_t g = 0; g < p->n_type; g++)
            if (p->per_s[b * p->n_type + g] > 0)
                least = fmin(least, price[g] / p->rho / p->per_s[b * p->n_type + g]);
        level += least * p->rate_per_s[b];
    }
    for (size_t i = 0; i < r->n_cut; i++) {
        size_t g = 0;

        while (g < p->n_type && fabs(r->price[i * p->n_type + g] - price[g]) < 1e-11)
            g++;
        if (g == p->n_type)
            return;
    }
    r->level[r->n_cut++] = level;
}

static bool solve(struct spot_fleet_recourse *r, const double *capacity)
{
    for (size_t g = 0; g < r->risk->n_type; g++)
        spot_lp_right(r->lp, r->risk->n_bucket + g, r->risk->rho * capacity[g]);
    r->n_solved++;
    return spot_lp_solve(r->lp, 0, 0) == SPOT_LP_OPTIMAL;
}

double spot_fleet_recourse_at(struct spot_fleet_recourse *r, const double *capacity)
{
    const size_t n = r->risk->n_type, at = r->table[place_of(r, capacity)];
    double unserved;

    if (at)
        return r->known[(at - 1) * (n + 1) + n];
    if (is_enough(r, capacity))
        return 0;
    if (!solve(r, capacity))
        return 1; /* nothing is served: the worst there is */
    unserved = spot_lp_objective(r->lp);
    if (unserved < 1e-10)
        unserved = 0;
    else
        add_cut(r, spot_lp_dual(r->lp));
    remember(r, capacity, unserved);
    return unserved;
}

double spot_fleet_recourse_below(const struct spot_fleet_recourse *r, const double *capacity,
                                 size_t *cut)
{
    const size_t n = r->risk->n_type;
    size_t n_some = 0; /* of many types a fleet has few */
    double most = 0;

    for (size_t g = 0; g < n; g++)
        if (capacity[g] > 0)
            r->some[n_some++] = g;
    *cut = SIZE_MAX;
    for (size_t i = 0; i < r->n_cut; i++) {
        const double *price = r->price + i * n;
        double at = r->level[i];

        for (size_t k = 0; k < n_some; k++)
            at -= price[r->some[k]] * capacity[r->some[k]];
        if (at > most) {
            most = at;
            *cut = i;
        }
    }
    return most;
}

void spot_fleet_recourse_split(struct spot_fleet_recourse *r, const double *capacity, double *share)
{
    const struct spot_fleet_risk *p = r->risk;

    if (solve(r, capacity))
        memcpy(share, spot_lp_x(r->lp), p->n_bucket * p->n_type * sizeof(double));
}

/* SPDX-License-Identifier: MIT */
#include "plan/fleet/fleet_recourse.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"

enum { TABLE_FIRST = 1 << 10 };

/* Loads and capacities are fractions of the total load, and so is what stays unserved. */
void spot_fleet_recourse_init(struct spot_fleet_recourse *r, const struct spot_fleet_risk *risk)
{
    *r = (struct spot_fleet_recourse){ .risk = risk };
    for (size_t b = 0; b < risk->n_bucket; b++)
        r->rate_per_s += risk->rate_per_s[b];
    r->load = spot_xcalloc(risk->n_bucket, sizeof(double));
    for (size_t b = 0; b < risk->n_bucket; b++)
        r->load[b] = risk->rate_per_s[b] / r->rate_per_s;
    r->room = spot_xcalloc(risk->n_type, sizeof(double));
    r->some = spot_xcalloc(risk->n_type, sizeof(*r->some));
    r->route = spot_fleet_route_new(risk->per_s, risk->n_bucket, risk->n_type);
    r->n_table = TABLE_FIRST;
    r->table = spot_xcalloc(r->n_table, sizeof(*r->table));
}

void spot_fleet_recourse_release(struct spot_fleet_recourse *r)
{
    spot_fleet_route_free(r->route);
    free(r->load);
    free(r->room);
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

/* Add the cut for this load to the pool. */
static void take_cut(struct spot_fleet_recourse *r)
{
    const struct spot_fleet_risk *p = r->risk;
    const double *price, *level;
    double all = 0;

    if (!spot_fleet_route_cut(r->route, r->n_cut, &price, &level))
        return;
    r->price = spot_xgrow(r->price, &r->cap_price, (r->n_cut + 1) * p->n_type, sizeof(double));
    r->level = spot_xgrow(r->level, &r->cap_level, r->n_cut + 1, sizeof(double));
    for (size_t g = 0; g < p->n_type; g++)
        r->price[r->n_cut * p->n_type + g] = price[g] * p->rho / r->rate_per_s;
    for (size_t b = 0; b < p->n_bucket; b++)
        all += level[b] * r->load[b];
    r->level[r->n_cut++] = all;
}

static double solve(struct spot_fleet_recourse *r, const double *capacity)
{
    for (size_t g = 0; g < r->risk->n_type; g++)
        r->room[g] = r->risk->rho * capacity[g] / r->rate_per_s;
    r->n_solved++;
    return spot_fleet_route_left(r->route, r->load, r->room);
}

double spot_fleet_recourse_at(struct spot_fleet_recourse *r, const double *capacity)
{
    const size_t n = r->risk->n_type, at = r->table[place_of(r, capacity)];
    double unserved;

    if (at)
        return r->known[(at - 1) * (n + 1) + n];
    if (is_enough(r, capacity))
        return 0;
    unserved = solve(r, capacity);
    take_cut(r);
    remember(r, capacity, unserved);
    return unserved;
}

double spot_fleet_recourse_below(const struct spot_fleet_recourse *r, const double *capacity,
                                 size_t *cut)
{
    const size_t n = r->risk->n_type;
    size_t n_some = 0; /* a fleet uses few of many types */
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
    const double *part;

    (void)solve(r, capacity);
    part = spot_fleet_route_split(r->route);
    for (size_t b = 0; part && b < p->n_bucket; b++)
        for (size_t g = 0; g < p->n_type; g++)
            share[b * p->n_type + g] = r->load[b] > 0 ? part[b * p->n_type + g] / r->load[b] : 0;
}

/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "plan/fleet/fleet_risk_state.h"

/* The index of an equal scenario, else n. */
static size_t find(const struct spot_fleet_scenes *scenes, size_t n_offer, const int32_t *row,
                   uint32_t *table, size_t n_table)
{
    size_t at = (size_t)spot_hash64(row, n_offer * sizeof(*row)) & (n_table - 1);

    for (; table[at]; at = (at + 1) & (n_table - 1))
        if (!memcmp(scenes->there + (table[at] - 1) * n_offer, row, n_offer * sizeof(*row)))
            return table[at] - 1;
    table[at] = (uint32_t)(scenes->n + 1);
    return scenes->n;
}

void spot_fleet_scenes_init(struct spot_fleet_scenes *scenes, const struct spot_fleet_risk *risk,
                            const double *most)
{
    const size_t n = risk->n_scenario, wide = risk->n_offer;
    size_t n_table = 16;
    uint32_t *table;

    while (n_table < 2 * n)
        n_table *= 2;
    table = spot_xcalloc(n_table, sizeof(*table));
    *scenes = (struct spot_fleet_scenes){ 0 };
    scenes->there = spot_xcalloc(n * wide, sizeof(*scenes->there));
    scenes->prob = spot_xcalloc(n, sizeof(double));
    scenes->lost = spot_xcalloc(n, sizeof(double));
    scenes->order = spot_xcalloc(n, sizeof(*scenes->order));
    for (size_t w = 0; w < n; w++) {
        int32_t *row = scenes->there + scenes->n * wide;
        size_t at;

        for (size_t k = 0; k < wide; k++)
            row[k] =
                risk->there[w * wide + k] < most[k] ? risk->there[w * wide + k] : SPOT_FLEET_ALWAYS;
        at = find(scenes, wide, row, table, n_table);
        scenes->prob[at] += risk->prob[w];
        scenes->n += at == scenes->n;
    }
    free(table);
}

void spot_fleet_scenes_release(struct spot_fleet_scenes *scenes)
{
    free(scenes->there);
    free(scenes->prob);
    free(scenes->lost);
    free(scenes->order);
    memset(scenes, 0, sizeof(*scenes));
}

void spot_fleet_capacity(const struct spot_fleet_risk *risk, const int32_t *there, const double *x,
                         double *capacity)
{
    memset(capacity, 0, risk->n_type * sizeof(double));
    for (size_t k = 0; k < risk->n_offer; k++)
        /* fmin would be a function call */
        capacity[risk->type[k]] += x[k] < there[k] ? x[k] : there[k];
}

double spot_fleet_scenes_cvar(struct spot_fleet_scenes *s, double tail)
{
    double left = 1 - tail, sum = 0;

    /* insertion sort; most scenarios lose nothing and are skipped */
    size_t n = 0;

    for (size_t w = 0; w < s->n; w++) {
        size_t at = n;

        if (!(s->lost[w] > 0))
            continue;
        for (n++; at && s->lost[s->order[at - 1]] < s->lost[w]; at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = w;
    }
    s->n_bad = n;
    for (size_t i = 0; i < n && left > 0; i++) {
        const double part = fmin(left, s->prob[s->order[i]]);

        sum += part * s->lost[s->order[i]];
        left -= part;
    }
    return sum / (1 - tail);
}

double spot_fleet_scenes_evaluate(struct spot_fleet_scenes *s, struct spot_fleet_recourse *r,
                                  const double *x)
{
    double *capacity = spot_xcalloc(r->risk->n_type, sizeof(double));

    for (size_t w = 0; w < s->n; w++) {
        spot_fleet_capacity(r->risk, s->there + w * r->risk->n_offer, x, capacity);
        s->lost[w] = spot_fleet_recourse_at(r, capacity);
    }
    free(capacity);
    return spot_fleet_scenes_cvar(s, r->risk->tail);
}

bool spot_fleet_scenes_is_over(const struct spot_fleet_scenes *s,
                               const struct spot_fleet_recourse *r, const double *x, double limit)
{
    const double tail = r->risk->tail;
    double *capacity = spot_xcalloc(r->risk->n_type, sizeof(double)), left = 1 - tail, sum = 0;

    for (size_t i = 0; i < s->n_bad && left > 0 && sum <= limit * (1 - tail); i++) {
        const size_t w = s->order[i];
        size_t cut;

        spot_fleet_capacity(r->risk, s->there + w * r->risk->n_offer, x, capacity);
        sum += fmin(left, s->prob[w]) * spot_fleet_recourse_below(r, capacity, &cut);
        left -= s->prob[w];
    }
    free(capacity);
    return sum > limit * (1 - tail);
}

double spot_fleet_scenes_below(struct spot_fleet_scenes *s, const struct spot_fleet_recourse *r,
                               const double *x)
{
    double *capacity = spot_xcalloc(r->risk->n_type, sizeof(double));
    size_t cut;

    for (size_t w = 0; w < s->n; w++) {
        spot_fleet_capacity(r->risk, s->there + w * r->risk->n_offer, x, capacity);
        s->lost[w] = spot_fleet_recourse_below(r, capacity, &cut);
    }
    free(capacity);
    return spot_fleet_scenes_cvar(s, r->risk->tail);
}

/* SPDX-License-Identifier: MIT */
#include "plan/fleet/fleet_part.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

void spot_fleet_part_pick(struct spot_fleet_part *part, const struct spot_fleet_demand *whole,
                          const bool *is_in)
{
    size_t n = 0;

    *part = (struct spot_fleet_part){ .whole = whole, .demand = *whole };
    part->of = spot_xcalloc(whole->n_offer, sizeof(*part->of));
    for (size_t g = 0; g < whole->n_offer; g++)
        part->of[g] = is_in[g] ? n++ : SIZE_MAX;
    part->offer = spot_xcalloc(n, sizeof(*part->offer));
    part->per_s = spot_xcalloc(whole->n_bucket * n, sizeof(double));
    for (size_t g = 0; g < whole->n_offer; g++) {
        if (!is_in[g])
            continue;
        part->offer[part->of[g]] = whole->offer[g];
        for (size_t b = 0; b < whole->n_bucket; b++)
            part->per_s[b * n + part->of[g]] = whole->per_s[b * whole->n_offer + g];
    }
    part->demand.n_offer = n;
    part->demand.offer = part->offer;
    part->demand.per_s = part->per_s;
}

void spot_fleet_part_release(struct spot_fleet_part *part)
{
    free(part->offer);
    free(part->per_s);
    free(part->of);
    memset(part, 0, sizeof(*part));
}

void spot_fleet_part_expand(const struct spot_fleet_part *part, struct spot_fleet_answer *answer)
{
    const size_t n = part->demand.n_offer, n_whole = part->whole->n_offer;
    int64_t *count = spot_xcalloc(n_whole, sizeof(*count));
    double *share = spot_xcalloc(part->whole->n_bucket * n_whole, sizeof(*share));

    for (size_t g = 0; g < n_whole; g++) {
        if (part->of[g] == SIZE_MAX)
            continue;
        count[g] = answer->count[part->of[g]];
        for (size_t b = 0; b < part->whole->n_bucket; b++)
            share[b * n_whole + g] = answer->share[b * n + part->of[g]];
    }
    free(answer->count);
    free(answer->share);
    answer->count = count;
    answer->share = share;
}

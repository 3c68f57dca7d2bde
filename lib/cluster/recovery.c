/* SPDX-License-Identifier: MIT */
#include "cluster/recovery.h"

static bool has_copy(const int64_t *held, size_t n_member, size_t n_unit, size_t unit, int64_t step)
{
    for (size_t i = 0; i < n_member; i++)
        if (held[i * n_unit + unit] == step)
            return true;
    return false;
}

static bool is_whole(const int64_t *held, size_t n_member, size_t n_unit, int64_t step)
{
    for (size_t u = 0; u < n_unit; u++)
        if (!has_copy(held, n_member, n_unit, u, step))
            return false;
    return true;
}

int64_t spot_recovery_newest(const int64_t *held, size_t n_member, size_t n_unit, int64_t durable)
{
    int64_t best = durable > 0 ? durable : 0, refuted = -1;

    for (size_t k = 0; k < n_member * n_unit; k++) {
        if (held[k] <= best || held[k] == refuted)
            continue;
        if (is_whole(held, n_member, n_unit, held[k]))
            best = held[k];
        else
            refuted = held[k]; /* most copies have the same step, which is checked once */
    }
    return best;
}

bool spot_recovery_waits(const struct spot_recovery *r)
{
    if (r->held_max > r->logged)
        return r->newest < r->held_max;
    return r->newest < r->logged && r->n_absent > 0;
}

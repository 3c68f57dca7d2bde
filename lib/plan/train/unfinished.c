/* SPDX-License-Identifier: MIT */
/* A change that arrives while a migration is unfinished. */
#include <math.h>

#include "plan/cost_table.h"

/* Of the unfinished migration to `from`, the time beyond its restart is state that still has to
 * move: that comes first, then `to` is formed instead. A change never shortens the wait. */
static double carried(const struct spot_cost_table *t, double carry_s, int from, double cost_s)
{
    const double form_s = from == SPOT_GRID_NONE ? 0 : t->restart_s[2 * from + SPOT_CHANGE_REMOVE];

    return fmax(carry_s, fmax(carry_s - form_s, 0) + cost_s);
}

static double after_carry(const struct spot_cost_table *t, double carry_s, int from, int to,
                          double cost_s)
{
    if (carry_s <= 0)
        return cost_s;
    if (cost_s <= 0)
        return carry_s;
    return t->carries_rest ? carried(t, carry_s, from, cost_s)
                           : cost_s + t->restart_s[2 * to + SPOT_CHANGE_REMOVE];
}

double spot_cost_total_s(struct spot_cost_table *t, const struct spot_cost_state *state, int to,
                         double cost_s)
{
    return after_carry(t, state->carry_s, state->grid, to, cost_s);
}

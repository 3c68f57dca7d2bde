/* SPDX-License-Identifier: MIT */
/* What the job has cost: every member, at one price, from when it joined to when it is gone. */
#include "cluster/group_state.h"
#include "common/clock.h"

void spot_group_bill(struct spot_group *g)
{
    const double now_s = spot_clock_s(), price_usd_per_s = g->options->price_usd_per_h / 3600;

    if (g->billed_s > 0)
        g->spent_usd += price_usd_per_s * (double)spot_group_members(g) * (now_s - g->billed_s);
    g->billed_s = now_s;
}

bool spot_group_is_broke(const struct spot_group *g)
{
    return g->options->budget_usd > 0 && g->spent_usd >= g->options->budget_usd;
}

double spot_group_spent_usd(const struct spot_group *g)
{
    return g->spent_usd;
}

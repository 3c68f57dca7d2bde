/* SPDX-License-Identifier: MIT */
/* What the job has cost: every member, at one price, from when it joined to when it is gone. */
#include "common/clock.h"
#include "train/trainer_state.h"

void spot_coord_bill(struct spot_coord *c)
{
    const double now_s = spot_clock_s(), price_usd_per_s = c->options->price_usd_per_h / 3600;

    if (c->billed_s > 0)
        c->spent_usd += price_usd_per_s * (double)c->machine.n_member * (now_s - c->billed_s);
    c->billed_s = now_s;
}

bool spot_coord_is_broke(const struct spot_coord *c)
{
    return c->options->budget_usd > 0 && c->spent_usd >= c->options->budget_usd;
}

/* Not a preemption: to run the same command again would not help. */
int spot_coord_tell_broke(const struct spot_coord *c, struct spot_err *err)
{
    const struct spot_err stopped = *err;

    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "the budget of %g USD is spent (%.6g USD); a larger --budget-usd goes on; "
                        "%.300s",
                        c->options->budget_usd, c->spent_usd, stopped.msg);
}

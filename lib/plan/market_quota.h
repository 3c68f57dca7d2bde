/* SPDX-License-Identifier: MIT */
/* market_quota.h - several jobs with deadlines that share the spot machines of a quota.
 *
 * Each job alone has a cost for each step that it can take now (spot_market_table.step_usd). Every
 * job takes one step, at most `quota` of them spot in a place, and the sum of the costs is the
 * least there is: a job gets a machine where it is worth more to it than to the others. That the
 * jobs will meet again later is in none of the costs.
 */
#ifndef SPOT_PLAN_MARKET_QUOTA_H
#define SPOT_PLAN_MARKET_QUOTA_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_MARKET_JOBS_MAX = 256 };

struct spot_market_quota {
    size_t n_job, n_place;                    /* 1..SPOT_MARKET_JOBS_MAX */
    double (*usd)[SPOT_MARKET_PLACES_MAX][3]; /* [n_job]; INFINITY: it cannot */
    const struct spot_market_step *alone; /* [n_job] what each would take, of finite cost or safe
                                             whatever it costs; not spot of a quota in that case */
    const int64_t *quota;                 /* [n_place] of spot machines; -1: any number */
};

/* step [n_job]; *usd: the sum of their costs, those of infinite cost left out. worth [n_place]
 * (NULL: not wanted): how much less it were with one more in the quota of a place. Of equal sums
 * the one in which more jobs do what they would do alone. Returns 0, or -1 with *err. */
int spot_market_divide(const struct spot_market_quota *quota, struct spot_market_step *step,
                       double *usd, double *worth, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MARKET_QUOTA_H */

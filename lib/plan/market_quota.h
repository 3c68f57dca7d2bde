/* SPDX-License-Identifier: MIT */
/* market_quota.h - several jobs with deadlines that share the spot machines of a quota.
 *
 * Each job alone has a cost for each step that it can take now (spot_market_weigh). Every
 * job takes one step, at most `quota` of them spot in a place, such that the sum of the costs is
 * minimal: a machine goes to the job for which it is worth most. Later competition between the jobs
 * is in none of the costs. */
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
    double (*usd)[SPOT_MARKET_PLACES_MAX][3]; /* [n_job]; INFINITY: not possible */
    /* [n_job] the step that each job would take alone: of finite cost, or safe at any cost and then
     * not spot under a quota */
    const struct spot_market_step *alone;
    const int64_t *quota; /* [n_place] number of spot machines; -1: no limit */
};

/* step [n_job]; *usd: the sum of their costs, except infinite ones. worth [n_place] (NULL: not
 * wanted): how much smaller the sum would be with one more machine in the quota of a place. Of
 * equal sums the one is chosen in which more jobs take their step of `alone`. Returns 0, or -1 with
 * *err. */
int spot_market_divide(const struct spot_market_quota *quota, struct spot_market_step *step,
                       double *usd, double *worth, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MARKET_QUOTA_H */

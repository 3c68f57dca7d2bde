/* SPDX-License-Identifier: MIT */
/* fleet_risk.h - the cheapest fleet whose unserved load is bounded over joint scenarios of
 * availability.
 *
 * In scenario w, min(x_k, there_kw) of the x_k machines of offer k run. Their sum by type is a
 * vector of capacity c, and the share of the load that cannot be served with it is
 *   Q(c) = min sum_b rate_b u_b / sum_b rate_b,
 *   sum_g y_bg + u_b = 1,  sum_b rate_b y_bg / per_s_bg <= rho c_g,
 * one convex function for all scenarios: a dual price beta >= 0 of the types gives the cut
 *   Q(c) >= sum_b min(rate_b / rate, min_g beta_g rate_b / per_s_bg) - rho sum_g beta_g c_g,
 * which is valid for any beta, and in every scenario. The fleet minimises sum usd_k x_k while the
 * mean of Q over the worst 1 - tail of the probability (CVaR; tail 0: the mean of all) is at most
 * `unserved`. Branch and bound over integer counts with cuts from that pool; each node's bound is
 * proven from its dual prices in our own arithmetic (lp.h). Benders (1962); Rockafellar and Uryasev
 * (2000).
 */
#ifndef SPOT_PLAN_FLEET_RISK_H
#define SPOT_PLAN_FLEET_RISK_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_FLEET_SCENARIOS_MAX = 100000, SPOT_FLEET_ALWAYS = 1 << 30 };

struct spot_fleet_cap {   /* at most `most` machines of all offers of a group */
    const uint8_t *is_in; /* [n_offer] */
    int64_t most;
};

struct spot_fleet_risk {
    size_t n_bucket, n_type, n_offer, n_scenario, n_cap;
    const char *const *name;          /* [n_offer], for messages */
    const double *rate_per_s;         /* [n_bucket] >= 0, at least one above 0 */
    const double *per_s;              /* [n_bucket][n_type]; 0: it cannot */
    const size_t *type;               /* [n_offer] */
    const double *usd_per_h;          /* [n_offer] >= 0 */
    const int64_t *quota;             /* [n_offer]; -1: none */
    const int32_t *there;             /* [n_scenario][n_offer]; SPOT_FLEET_ALWAYS on demand */
    const double *prob;               /* [n_scenario], sum 1 */
    const struct spot_fleet_cap *cap; /* [n_cap], may be empty */
    double rho;                       /* usable share of a machine, (0, 1] */
    double tail;                      /* [0, 1) */
    double unserved;                  /* [0, 1) */
    double usd_most;                  /* only cheaper fleets are wanted; 0: any */
    double gap;                       /* stop when cost <= bound * (1 + gap) */
    double limit_s;                   /* of processor time; 0: none */
};

struct spot_fleet_risk_answer {
    int64_t *count; /* [n_offer] */
    double *share;  /* [n_bucket][n_type] of the requests when all of `count` is available */
    double usd_per_h;
    double usd_per_h_paid;                  /* expected; unavailable instances are not paid for */
    double bound;                           /* no fleet that meets the constraint costs less */
    double cvar, mean_unserved, short_prob; /* over the scenarios */
    size_t n_cut, n_node, n_recourse;
};

/* Returns 0; or -1 with *err: SPOT_EINFEASIBLE, naming the binding limit and the feasible load, or
 * SPOT_ESYS if no fleet was found within limit_s. */
int spot_fleet_risk_solve(const struct spot_fleet_risk *risk, struct spot_fleet_risk_answer *answer,
                          struct spot_err *err);
void spot_fleet_risk_release(struct spot_fleet_risk_answer *answer);

/* The unserved load of a fleet, over `n_scenario` of `risk` (other scenarios than it was planned
 * for, to test the plan). */
struct spot_fleet_promise {
    double cvar, mean_unserved, short_prob, usd_per_h_paid;
};
void spot_fleet_risk_try(const struct spot_fleet_risk *risk, const int64_t *count,
                         struct spot_fleet_promise *promise);

/* share [n_bucket][n_type] of the requests when all of `count` is available. */
void spot_fleet_risk_split(const struct spot_fleet_risk *risk, const int64_t *count, double *share);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_RISK_H */

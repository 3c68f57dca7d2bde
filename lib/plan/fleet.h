/* SPDX-License-Identifier: MIT */
/* fleet.h - how many instances of which type to rent.
 *
 * Serving: requests are in buckets of similar size, each with a rate; an instance type serves a
 * certain number of a bucket's requests per second, 0: it cannot. A router may split a bucket in
 * any proportion, so the least cost is that of whole counts n_g with a continuous split y:
 *   min sum c_g n_g,  sum_g y_bg = 1,  sum_b rate_b y_bg / per_s_bg <= rho n_g,  n_g <= quota_g
 * Offers of the same name and speed (zones, markets) are bought cheapest first, and share alike.
 * Melange cuts each bucket into slices that are not split: lib/peers/melange.h.
 *
 * Training: the equations of spotDNN (Shang et al., IWQoS 2023) as released, with all plans
 * enumerated; its own searches are in lib/peers/spotdnn.h.
 */
#ifndef SPOT_PLAN_FLEET_H
#define SPOT_PLAN_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_FLEET_MACHINES_MAX 1e9 /* limit for a bucket */
enum { SPOT_FLEET_TYPES_MAX = 10000, SPOT_FLEET_SLICES_MAX = 1000 };

struct spot_fleet_offer {
    const char *name;
    double usd_per_h;
    int64_t quota; /* -1: unlimited */
};

struct spot_fleet_demand {
    size_t n_bucket, n_offer;
    const char *const *bucket;            /* [n_bucket] names, for messages; NULL: numbers */
    const double *rate_per_s;             /* [n_bucket], >= 0 */
    const double *per_s;                  /* [n_bucket][n_offer]; 0: it cannot */
    const struct spot_fleet_offer *offer; /* [n_offer] */
    double rho;                           /* usable share of an instance, (0, 1] */
};

struct spot_fleet_answer {
    int64_t *count; /* [n_offer] */
    double *share;  /* [n_bucket][n_offer], each bucket's sum to 1 */
    double usd_per_h;
    double bound; /* no fleet costs less */
    bool is_proven;
};

/* Returns 0; or -1 with *err: SPOT_EINFEASIBLE, naming the bucket that no offer serves, or the
 * binding quotas and the rate that would be feasible; SPOT_ESYS if nothing is found within limit_s
 * of processor time (0: no limit).
 *
 * With a limit there is a fleet before any branching, and branching is limited to offers of which a
 * cheaper fleet may have one machine; is_proven says whether that was completed, `bound` is valid
 * either way. */
int spot_fleet_serve(const struct spot_fleet_demand *demand, double limit_s,
                     struct spot_fleet_answer *answer, struct spot_err *err);
void spot_fleet_release(struct spot_fleet_answer *answer);

/* Savings from one more instance in the quota of offer g, usd/h. NaN: no quota, or the time was too
 * short for either optimum. */
double spot_fleet_quota_worth(const struct spot_fleet_demand *demand,
                              const struct spot_fleet_answer *answer, size_t g, double limit_s);

/* --- training --- */

enum { SPOT_DNN_TYPES_MAX = 16, SPOT_DNN_QUOTA_MAX = 1000 };

struct spot_dnn_type {
    double usd_per_h, comp_s; /* of an iteration, without communication */
    double batch;             /* samples of an instance */
    double iter_s;            /* measured, the sort key of the released search */
    int64_t gpus, quota;
    double up_share; /* share of the time that a worker is available, excluding its restarts; 0: all
                        of it */
    int64_t held;    /* workers already running */
};

/* Names as in the paper; sizes in MB, rates in MB/s. */
struct spot_dnn_job {
    double param, b_req, b_ps, b_pcie; /* b_pcie 0: the released code, which leaves it out */
    double alpha, beta;                /* P = alpha sqrt(n) + beta */
    double gamma[5];                   /* 1..5 */
    bool is_paper;                     /* R and gamma4 in the loss, P clamped at 0 */
    const struct spot_dnn_type *type;  /* [n_type] */
    size_t n_type;
    double restart_s; /* until a worker that is not yet running takes part */
    double loss_now;  /* reached so far; 0: at the start */
};

struct spot_dnn_speed {
    double contention; /* P, as computed */
    double norm_batch; /* samples of a normalised iteration, to 0.1 as released */
    double samples_per_s, iterations, time_s, usd;
};

/* Returns 0, or -1 if the loss cannot be reached or nothing runs. */
int spot_dnn_predict(const struct spot_dnn_job *job, const int64_t *count, double loss,
                     struct spot_dnn_speed *speed);

/* Iterations by eq. (3) from the loss so far, if there is one, where those to a loss l are
 * x / (l - gamma5) - gamma1. */
double spot_dnn_iterations(const struct spot_dnn_job *job, double x, double loss);

/* The cheapest of all plans within the quotas. count [n_type]. Returns 0, or -1 if no plan meets
 * deadline_s. */
int spot_dnn_best(const struct spot_dnn_job *job, double loss, double deadline_s, int64_t *count,
                  struct spot_dnn_speed *speed);

/* The fastest of all plans within the quotas. Returns 0, or -1 if none reaches the loss. */
int spot_dnn_fastest(const struct spot_dnn_job *job, double loss, int64_t *count,
                     struct spot_dnn_speed *speed);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_H */

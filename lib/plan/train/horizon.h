/* SPDX-License-Identifier: MIT */
/* horizon.h - transition probabilities of the count in every step of a forecast. A forecast gives
 * the distribution of the count after each step. Of all chains with these distributions we take the
 * one nearest to the chain learned from observed counts: the least relative entropy with regard to
 * the chain (count_chain.h), found by iterative proportional fitting over the steps (Csiszar 1975).
 * The chain's contexts enter as the mean over what they are at each count and step; sizes that were
 * never observed have the probability UNSEEN each, so that a forecast may contain any change.
 */
#ifndef SPOT_PLAN_TRAIN_HORIZON_H
#define SPOT_PLAN_TRAIN_HORIZON_H

#include "model/count_chain.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_horizon {
    int n_low, n_max, n_step;
    int start;       /* count before the first step */
    int n_context;   /* number of contexts of the chain */
    double *next;    /* [n_step][count][row]: probability of the second count after the first */
    double *mass;    /* [n_step + 1][row]: the distribution of the count */
    double *context; /* [count][n_context] after the last step, each count sums to 1 */
    double missed;   /* largest difference from a distribution of the forecast */
};

/* Distributions that a forecast gives: pmf[step - 1][n] of counts from `shift` on. */
struct spot_horizon_goal {
    const double *pmf;
    int n, shift;
};

/* From `start` in `context`, with the goal's distributions in steps 1..n_step; counts outside
 * n_low..n_max count as the nearest. lost_max: no step loses more. n_context 1: the chain has one
 * context. */
void spot_horizon_init(struct spot_horizon *h, const struct spot_count_chain *chain, int n_context,
                       int n_low, int n_max, int lost_max, int start, int context, int n_step,
                       const struct spot_horizon_goal *goal);
void spot_horizon_release(struct spot_horizon *h);

/* The probabilities of the next count, from `count` in step `step` (1..): [n_max - n_low + 1],
 * beginning with n_low. */
const double *spot_horizon_next(const struct spot_horizon *h, int step, int count);

/* The probability of a count after `step` steps (0..). */
double spot_horizon_mass(const struct spot_horizon *h, int step, int count);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_HORIZON_H */

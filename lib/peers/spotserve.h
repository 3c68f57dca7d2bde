/* SPDX-License-Identifier: MIT */
/* spotserve.h - the rule of SpotServe (Miao et al., ASPLOS 2024, Algorithm 1) as the solver of its
 * artifact runs it (Hsword/SpotServe, branch artifact, 832b29f, elastic-switch/scheduler/parallel):
 * of the configurations that sustain the rate the one with the lowest latency, if there is none the
 * one with the highest throughput. It counts every GPU; its latency excludes queueing, and unneeded
 * instances cost nothing.
 *
 * Corrected: a choice runs with the batch that it was chosen for; the artifact runs it with
 * max_batch (policy spotserve-released of peers/serve_peers.h).
 */
#ifndef SPOT_PEERS_SPOTSERVE_H
#define SPOT_PEERS_SPOTSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/job_serve.h"
#include "plan/decision.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_serve_choice {
    int64_t D;
    struct spot_serve_shape shape;
    struct spot_serve_time time;
    double request_per_s; /* D B / request_s */
    bool keeps_up;        /* sustains the given rate */
};

/* Choose for `gpus` GPUs and an arrival rate of rate_per_s. Degrees are tried M, B, prefill and
 * decode parts, P ascending, and the first of equals is kept, as in the artifact. Returns 0, or -1
 * if the model does not fit. Cost: a few hundred configurations. */
int spot_serve_choose(const struct spot_job_serve *serve, int64_t gpus, double rate_per_s,
                      struct spot_serve_choice *choice);

/* The best configuration of every (M, P), with its best B and parts, in the order of preference:
 * free() it; *n is 0 if the model does not fit. The first is the result of spot_serve_choose. */
struct spot_serve_choice *spot_serve_choices(const struct spot_job_serve *serve, int64_t gpus,
                                             double rate_per_s, size_t *n);

/* The rule as a decision of kind "serve"; it has no state. */
extern const struct spot_policy spot_policy_spotserve;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_SPOTSERVE_H */

/* SPDX-License-Identifier: MIT */
/* share_sim.h - jobs that share a cluster, round by round.
 *
 * As released (Gavel, OSDI 2020): a job on a type makes floor(rate * round) steps of a round at
 * most, a round ends with the last of these, a change of workers costs nothing, and shares are
 * computed anew after arrivals and ends, at most each `reset_s`. Corrected: rounds are of one
 * length, work is not rounded, a job that begins on other workers pays switch_s, and one that is
 * taken off its workers goes back to its last checkpoint. docs/design/20-share.md.
 */
#ifndef SPOT_SIM_SHARE_SIM_H
#define SPOT_SIM_SHARE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/share_doc.h"
#include "plan/share.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_share_play {
    const struct spot_share_jobs *jobs;
    const struct spot_share_cluster *cluster;
    const struct spot_job_rates *speeds;
    const double *rate;  /* [n_job][n_type], of spot_share_rates */
    double round_s;      /* 360 as released */
    double reset_s;      /* between two solutions; 1920 as released */
    double switch_s;     /* to begin on other workers */
    double checkpoint_s; /* between two checkpoints; 0: who is taken off saves its state first */
    bool is_released;    /* as released; then the two above are 0 */
    uint64_t seed;
    const struct spot_trace
        *supply; /* workers that are there, by instance type; NULL: all, always */
};

/* A job on workers that lie side by side: a stay on others is several. */
struct spot_share_span {
    size_t job, type;
    int64_t first_worker, scale; /* of its type */
    double start_s, end_s;
};

struct spot_share_outcome {
    size_t n_done,
        n_failed; /* failed: as released, after five rounds without a step for each worker */
    double jct_mean_s, jct_p50_s, jct_p90_s, jct_p99_s, makespan_s;
    double ftf_max, ftf_mean; /* time to end to that on an equal part of each type */
    double utilisation;       /* of workers that were there */
    double usd;               /* of workers while they were held */
    double lost_s;            /* worker-seconds of work done twice, and of switches */
    size_t rounds, solves, switches, preemptions, kept, could_keep;
    double *jct_s; /* [jobs], NAN: failed */
    struct spot_share_span *span;
    size_t n_span, cap_span;
};

/* Returns 0, or -1 with *err. */
int spot_share_play_run(const struct spot_share_play *play, enum spot_share_policy policy,
                        struct spot_share_outcome *outcome, struct spot_err *err);
void spot_share_outcome_release(struct spot_share_outcome *outcome);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SHARE_SIM_H */

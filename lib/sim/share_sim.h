/* SPDX-License-Identifier: MIT */
/* share_sim.h - jobs that share a cluster, scheduling round by scheduling round.
 *
 * As released (Gavel, OSDI 2020): a job on a type makes at most floor(rate * round) steps in a
 * round, a round ends with the last of these, a change of workers costs nothing, and shares are
 * recomputed after arrivals and ends, at most every `reset_s`. Corrected: rounds have equal length,
 * work is not rounded, a job that starts on other workers pays switch_s, and one that loses its
 * workers goes back to its last checkpoint. A job of high priority does not wait for the end of a
 * round: the round ends when it arrives. docs/design/20-share.md.
 */
#ifndef SPOT_SIM_SHARE_SIM_H
#define SPOT_SIM_SHARE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/share_doc.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_share_play {
    const struct spot_share_jobs *jobs;
    const struct spot_share_cluster *cluster;
    const struct spot_job_rates *speeds;
    const double *rate; /* [n_job][n_type], of spot_share_rates */
    double round_s;     /* 360 as released */
    double reset_s;     /* between two solutions; 1920 as released */
    double switch_s;    /* time to start on other workers */
    /* between two checkpoints; 0: a job that is stopped saves its state first */
    double checkpoint_s;
    bool is_released; /* as released; then the two above are 0 */
    bool has_steps;   /* keep the steps in the outcome */
    uint64_t seed;
    const struct spot_trace *supply; /* available workers, by instance type; NULL: all, always */
};

struct spot_share_player; /* share_play.h */

/* A round of a present job: on consecutive workers (one row for each group), or waiting. */
struct spot_share_step {
    size_t job;
    int type; /* -1: it waits */
    int64_t first_worker, scale;
    double start_s, end_s;
    /* before the round: steps left, steps that a stop would lose, isolated time */
    double left, unsaved, isolated_s;
    int on;
    int64_t on_scale;
};

/* Results of the jobs of one priority. */
struct spot_share_class {
    size_t starts, evictions;   /* evicted: lost its workers before its end */
    double jct_mean_s, queue_s; /* queue: mean time without workers */
    double lost_s;              /* worker-seconds of repeated work and of switches */
};

struct spot_share_outcome {
    size_t n_done,
        n_failed; /* failed: as released, after five rounds without a step for each worker */
    double jct_mean_s, jct_p50_s, jct_p90_s, jct_p99_s, makespan_s;
    double ftf_max, ftf_mean; /* completion time relative to that on an equal part of each type */
    double utilisation;       /* share of the available workers */
    double usd;               /* cost of workers while they were held */
    double lost_s;            /* worker-seconds of repeated work and of switches */
    size_t rounds, solves, switches, preemptions, kept, could_keep;
    double allocation; /* utilisation between the first and the last arrival */
    struct spot_share_class of[SPOT_SHARE_SPOT + 1]; /* by enum spot_share_priority */
    double *jct_s;                                   /* [jobs], NAN: failed */
    struct spot_share_step *step;                    /* [n_step], if the play keeps them */
    size_t n_step, cap_step;
};

/* Returns 0, or -1 with *err. */
int spot_share_play_run(const struct spot_share_play *play, const struct spot_share_player *player,
                        struct spot_share_outcome *outcome, struct spot_err *err);
void spot_share_outcome_release(struct spot_share_outcome *outcome);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SHARE_SIM_H */

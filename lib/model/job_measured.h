/* SPDX-License-Identifier: MIT */
/* job_measured.h - the key "measured" of spot.job/1: how the figures of a profile were obtained.
 *
 * For people and scripts: readers of the document use the other keys and ignore this one.
 */
#ifndef SPOT_MODEL_JOB_MEASURED_H
#define SPOT_MODEL_JOB_MEASURED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json_writer.h"
#include "model/job_doc.h"
#include "model/throughput.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of one worker of a stage, in bytes. */
struct spot_job_stage_memory {
    double planned_byte;  /* the engine's reservation plus the planes of its bundles */
    double resident_byte; /* maximum resident memory of the process */
};

struct spot_job_cell {
    struct spot_grid grid;
    int64_t micro_batch;
    int64_t steps;                /* measured, after the warm-up */
    int64_t runs;                 /* number of runs; this is the least noisy one */
    double step_s, low_s, high_s; /* median, quartiles */
    double curve_s;               /* by the fitted curve; 0: it does not cover this grid */
    double forward_s, backward_s; /* seconds of a step on the slowest worker, mean */
    /* seconds to sum over replicas, including waits, on the slowest worker, mean */
    double reduce_s;
    double read_s;                       /* seconds for the coordinator to read tokens, mean */
    bool is_outlier;                     /* quartiles too far apart to be reliable */
    struct spot_job_stage_memory *stage; /* [P] */
};

/* Set steps, median and quartiles from step_s[n], n > 0, which is sorted. Marks an outlier if the
 * quartiles are farther apart than half of the median, since that says nothing about the machine.
 */
void spot_job_cell_sum_up(struct spot_job_cell *cell, double *step_s, size_t n);
/* The quartiles' distance as a share of the median. */
double spot_job_cell_spread(const struct spot_job_cell *cell);

/* Time of a message against its size: latency_s + byte / byte_per_s. */
struct spot_job_link {
    int64_t members; /* 2: p2p; D of a sum */
    double latency_s, byte_per_s;
    struct spot_job_xy *point; /* [n_point], byte -> median s, ascending */
    size_t n_point;
};

/* Breakdown of a step of grid D x 1, by differences of runs as in Stash (Sharma et al. 2023):
 * compute + interconnect + network + prep + fetch = step. Differences of medians: noise may make
 * one negative. */
struct spot_job_stall {
    int64_t D, steps; /* steps 0: not measured */
    double compute_s, interconnect_s, network_s, prep_s, fetch_s, step_s;
};

struct spot_job_change {
    int64_t changes, joins; /* changes 0: not measured */
    double leave_s, join_s, byte_s;
};

struct spot_job_measured {
    int64_t workers, warm_up;
    struct spot_job_cell *cell; /* [n_cell] */
    size_t n_cell;
    struct spot_step_curve curve;
    struct spot_job_link p2p, sum;
    struct spot_job_stall stall;
    struct spot_job_change change;
};

void spot_job_measured_write(struct spot_jw *jw, const struct spot_job_measured *measured);

/* Least squares of relative errors of s = latency_s + byte / byte_per_s, both terms >= 0, over n >=
 * 2 points with s > 0. byte_per_s is 0 if the time does not grow with the size. */
void spot_job_link_fit(struct spot_job_link *link);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_JOB_MEASURED_H */

/* SPDX-License-Identifier: MIT */
/* report.h - summarises a run, as a function of its event log. */
#ifndef SPOT_MODEL_REPORT_H
#define SPOT_MODEL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/exec_report.h"
#include "model/grid.h"
#include "model/serve_report.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_cause {
    SPOT_CAUSE_NOTICE,
    SPOT_CAUSE_KILL,
    SPOT_CAUSE_JOIN,
    SPOT_CAUSE_PLAN,
    SPOT_CAUSES
};

const char *spot_cause_name(enum spot_cause cause);

struct spot_commit {
    double time_s;
    int64_t step;
    double loss;
    char loss_hex[9];
    size_t sample_begin, n_sample; /* in run.sample */
    bool is_void;                  /* undone by a later rollback */
};

/* The time between the last commit of an epoch and the first of the next. */
struct spot_pause {
    double time_s, pause_s; /* time; excess over the median step */
    enum spot_cause cause;
    bool is_restored; /* state was read from disk */
};

struct spot_grid_change {
    double time_s;
    struct spot_grid grid;
};

struct spot_count_change {
    double time_s;
    int64_t n;
};

/* A period in which no grid was possible: from the last member's departure, the end of the previous
 * epoch or the last sign of the coordinator, until the next grid is formed or the log ends. */
struct spot_outage {
    double from_s, to_s;
};

/* The learning rate was changed: in effect in the steps after `after`. */
struct spot_lr_change {
    int64_t after;
    double lr;
    char schedule[16];
};

/* The validation loss of the weights after a step. */
struct spot_validation {
    int64_t step;
    double loss;
    char loss_hex[9];
};

/* Steps that a restarted coordinator found done in the state, but missing from the log. */
struct spot_hole {
    int64_t from, to; /* `from` exclusive, `to` inclusive */
};

struct spot_run {
    struct spot_commit *commit; /* [n_commit], in the order of the log */
    size_t n_commit, cap_commit;
    int64_t *sample; /* [n_sample] */
    size_t n_sample, cap_sample;
    struct spot_pause *pause; /* [n_pause] */
    size_t n_pause, cap_pause;
    struct spot_grid_change *grid; /* [n_grid] */
    size_t n_grid, cap_grid;
    struct spot_count_change *member; /* [n_member], members at each change */
    size_t n_member, cap_member;
    struct spot_count_change *step; /* [n_step], standing steps at each change */
    size_t n_step, cap_step;
    struct spot_outage *outage; /* [n_outage] */
    size_t n_outage, cap_outage;
    double *resume_s; /* [n_resume], times at which another coordinator continued */
    size_t n_resume, cap_resume;
    struct spot_hole *hole; /* [n_hole] */
    size_t n_hole, cap_hole;
    struct spot_lr_change *lr_change; /* [n_lr_change], `after` ascends */
    size_t n_lr_change, cap_lr_change;
    struct spot_validation *val; /* [n_val], standing ones; steps ascend */
    size_t n_val, cap_val;
    int64_t n_notice, n_kill, n_join, n_recomputed;
    int64_t n_in_flight; /* steps that were begun and not committed */
    double member_s;     /* member-seconds */
    double end_s, median_step_s;
    uint64_t xxh3;    /* of the log */
    bool is_of_bytes; /* a token is a byte of the data */
    bool is_done;
    bool is_served;             /* a serving job: only `served`, members and restarts apply */
    struct spot_serving served; /* all zero for a training job */
    bool is_hosted; /* a job that runs a foreign command: only `hosting`, members and restarts apply
                     */
    struct spot_hosting hosting; /* all zero for others */
    bool is_cut; /* the last line is incomplete (the job is running, or crashed) and ignored */
    char state_hex[40];
};

/* Read a spot.event/1 log, "-" is stdin. Returns 0, or -1 with *err: SPOT_EDATA names file and line
 * of anything that is not an event, or is out of order. */
int spot_run_load(struct spot_run *run, const char *path, struct spot_err *err);
void spot_run_release(struct spot_run *run);

/* Among the standing commits: the number of samples 0..max that are in none, not counting holes,
 * and of those in two or more. */
void spot_run_ledger(const struct spot_run *run, int64_t *n_lost, int64_t *n_repeated);

/* Number of steps whose loss has the same bits in both runs, of *n_step standing in either. */
int64_t spot_run_equal_steps(const struct spot_run *run, const struct spot_run *reference,
                             int64_t *n_step);

/* Of the *n steps after which both runs were validated: the number with the same bits. */
int64_t spot_run_equal_validations(const struct spot_run *run, const struct spot_run *reference,
                                   int64_t *n);

/* Number, median and maximum of the pauses of a cause; from disk or not. */
size_t spot_run_pauses(const struct spot_run *run, enum spot_cause cause, bool is_restored,
                       double *median_s, double *max_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_REPORT_H */

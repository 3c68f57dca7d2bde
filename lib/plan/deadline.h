/* SPDX-License-Identifier: MIT */
/* deadline.h - decides between spot, on demand and idling, to finish a job by its deadline at low
 * cost.
 *
 * Time is divided into ticks. A job needs work_s of computing until deadline_s. At the start of a
 * tick it is known whether spot is available in that tick; one of three modes is chosen and paid
 * for the whole tick. A launch (any change to spot or on demand) first spends restart_s at full
 * price without progress; a new launch replaces the rest of an older one. These are the rules of
 * the simulator of Can't Be Late (Wu et al., NSDI 2024), to the cent.
 *
 * The lengths of runs, periods with or without spot, have a distribution in stages: an age of 2^j
 * ticks and more is stage j, and in each stage a run ends with a probability of its own. That is a
 * Markov chain, so the cheapest policy is a dynamic program over ticks left, work left, mode, time
 * left of a restart, and the stage of the run. A step is only taken if on demand alone can still
 * finish in time after it, whatever spot does: no distribution can make a job late.
 */
#ifndef SPOT_PLAN_DEADLINE_H
#define SPOT_PLAN_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_RUN_STAGES = 7,
    SPOT_DEADLINE_TICKS_MAX = 1 << 14,   /* of a job */
    SPOT_DEADLINE_CELLS_MAX = 1 << 28,   /* of a table */
    SPOT_DEADLINE_RESTART_TICKS_MAX = 64 /* limit of a restart, exclusive */
};

enum spot_deadline_mode { SPOT_DEADLINE_IDLE, SPOT_DEADLINE_SPOT, SPOT_DEADLINE_ON_DEMAND };

struct spot_deadline_job {
    double work_s, deadline_s, restart_s, tick_s;
    double spot_usd_per_h, on_demand_usd_per_h;
};

/* At the start of a tick. */
struct spot_deadline_now {
    double elapsed_s;             /* since the start of the job, whole ticks */
    double left_s;                /* work */
    double pending_s;             /* time left of the current restart */
    enum spot_deadline_mode mode; /* what ran and was not lost */
    bool has_spot;
};

/* Ticks until the deadline. */
int64_t spot_deadline_ticks(const struct spot_deadline_job *job,
                            const struct spot_deadline_now *now);

/* Reject invalid jobs: numbers out of range (SPOT_EUSAGE), or too little time even for on demand
 * (SPOT_EINFEASIBLE, with a sufficient deadline). Returns 0 or -1. */
int spot_deadline_check(const struct spot_deadline_job *job, const struct spot_deadline_now *now,
                        struct spot_err *err);

/* Apply `want` for a tick: work and restart progress. Returns the cost of the tick. */
double spot_deadline_step(const struct spot_deadline_job *job, struct spot_deadline_now *now,
                          enum spot_deadline_mode want);

/* Can on demand still finish in time after a tick of `want`, if spot is then unavailable? */
bool spot_deadline_is_safe(const struct spot_deadline_job *job, const struct spot_deadline_now *now,
                           enum spot_deadline_mode want);

/* The published policies: greedy takes spot whenever available, and on demand only when it must;
 * Uniform Progress keeps the share of work done up with the share of time elapsed, and leaves on
 * demand only if it is two restarts ahead (hysteresis). */
enum spot_deadline_rule {
    SPOT_DEADLINE_GREEDY,
    SPOT_DEADLINE_UNIFORM,
    SPOT_DEADLINE_UNIFORM_NO_HYSTERESIS
};
enum spot_deadline_mode spot_deadline_follow(enum spot_deadline_rule rule,
                                             const struct spot_deadline_job *job,
                                             const struct spot_deadline_now *now);

/* Observed runs: [0] without spot, [1] with spot. */
struct spot_run_count {
    double ended[2][SPOT_RUN_STAGES],
        seen[2][SPOT_RUN_STAGES]; /* ticks that ended a run, all ticks */
    bool is_up;                   /* in the newest tick */
    size_t age;                   /* of its run, ticks; 0: none yet */
};
void spot_run_count_add(struct spot_run_count *count, bool is_up);

struct spot_run_dist {
    double end_prob[2][SPOT_RUN_STAGES]; /* that the next tick does not belong to this run */
};

/* Observed runs, with the runs of eight other zones, of other years (deadline/run_dist.c), as a
 * prior with the weight of four ends of each stage: the better guess for a job of days in one zone.
 */
void spot_run_dist_learn_zone(struct spot_run_dist *dist, const struct spot_run_count *count,
                              double tick_s);

/* The two-state chain whose P(spot is available), compared with `up` [n] after 1, 2, .. ticks from
 * now, is nearest in least squares: the runs implied by a forecast. */
void spot_run_dist_fit(struct spot_run_dist *dist, bool is_up, const double *up, size_t n);

/* The stage of an age in ticks, 1.. */
size_t spot_run_stage(size_t age);

/* The policy for all states: as large as ticks * work. */
struct spot_deadline_table {
    int64_t n_tick, n_level, n_pending;
    double unit_s;
    uint8_t *action; /* [n_keep][2 * SPOT_RUN_STAGES][1 + 2 n_pending][n_level] */
    double usd[3];   /* expected from now on, for each mode taken now; INFINITY: not allowed */
    int64_t n_keep;  /* actions are kept for this many first ticks, at least 1 */
};

struct spot_deadline_effort {
    int64_t keep_ticks; /* last tick to be queried; 0: to the end */
    double cells; /* limit for all ticks, above which levels of work are made coarser, to a tick at
                     most; 0: SPOT_DEADLINE_CELLS_MAX */
};

/* Solve from `now` on with `effort` (NULL: no limit), with spot in stage `stage` of a run. Exact if
 * the restart is a multiple of a tick's 1/5 or 1/4 .. 1; otherwise, and if levels of work are made
 * coarser to fit the table, values between two levels are interpolated. Returns 0, or -1 with *err
 * (SPOT_EUSAGE: too large). */
int spot_deadline_solve(struct spot_deadline_table *table, const struct spot_deadline_job *job,
                        const struct spot_run_dist *dist, const struct spot_deadline_now *now,
                        size_t stage, const struct spot_deadline_effort *effort,
                        struct spot_err *err);
void spot_deadline_release(struct spot_deadline_table *table);

/* The table's action if it is safe; else a safe one. */
enum spot_deadline_mode spot_deadline_ask(const struct spot_deadline_table *table,
                                          const struct spot_deadline_job *job,
                                          const struct spot_deadline_now *now, size_t stage);

/* The least cost with all of has_spot [n] known, n at least the ticks until the deadline, in steps
 * of the largest number of seconds that divides tick, restart and work. INFINITY: too late. `mode`
 * (NULL: not wanted) [n] gets the modes used. Returns NaN if tick, restart and work are not whole
 * seconds. */
double spot_deadline_offline(const struct spot_deadline_job *job, const uint8_t *has_spot, size_t n,
                             uint8_t *mode);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DEADLINE_H */

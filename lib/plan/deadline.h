/* SPDX-License-Identifier: MIT */
/* deadline.h - spot, on demand or nothing now, so that a job ends in time and costs little.
 *
 * Time goes in ticks. A job needs work_s of computing until deadline_s. At the start of a tick it
 * is known whether spot can be had in that tick; one of three modes is chosen for the whole of it
 * and the whole of it is paid. A launch (any change to spot or on demand) first spends restart_s at
 * full price without progress; a new launch replaces what was left of an older one. These are the
 * rules of the simulator of Can't Be Late (Wu et al., NSDI 2024), to the cent.
 *
 * Lengths of runs, of spot being there and of its being away, follow a law in stages: an age of
 * 2^j ticks and more is stage j, in each of which a run ends with a probability of its own. That is
 * a Markov chain, so the cheapest policy is a dynamic program over ticks left, work left, mode,
 * what is pending of a restart, and the stage of the run. A step is only taken if on demand alone
 * can still finish in time after it, whatever spot does: no law can make a job late.
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
    SPOT_DEADLINE_RESTART_TICKS_MAX = 64 /* a restart takes fewer */
};

enum spot_deadline_mode { SPOT_DEADLINE_IDLE, SPOT_DEADLINE_SPOT, SPOT_DEADLINE_ON_DEMAND };

struct spot_deadline_job {
    double work_s, deadline_s, restart_s, tick_s;
    double spot_usd_per_h, on_demand_usd_per_h;
};

/* At the start of a tick. */
struct spot_deadline_now {
    double elapsed_s;             /* since the job began, whole ticks */
    double left_s;                /* work */
    double pending_s;             /* of the restart of what runs */
    enum spot_deadline_mode mode; /* what ran and was not lost */
    bool has_spot;
};

/* Ticks until the deadline. */
int64_t spot_deadline_ticks(const struct spot_deadline_job *job,
                            const struct spot_deadline_now *now);

/* Refuse what cannot be: numbers out of range (SPOT_EUSAGE), or no time even for on demand
 * (SPOT_EINFEASIBLE, with the deadline that would do). Returns 0 or -1. */
int spot_deadline_check(const struct spot_deadline_job *job, const struct spot_deadline_now *now,
                        struct spot_err *err);

/* Take `want` for a tick: work and restart go on. Returns what the tick costs. */
double spot_deadline_step(const struct spot_deadline_job *job, struct spot_deadline_now *now,
                          enum spot_deadline_mode want);

/* Can on demand still finish in time after a tick of `want`, if spot is gone then? */
bool spot_deadline_is_safe(const struct spot_deadline_job *job, const struct spot_deadline_now *now,
                           enum spot_deadline_mode want);

/* The published policies: greedy takes spot where it is, and on demand only when it must; Uniform
 * Progress wants the share of work done to keep up with the share of time gone, and leaves on
 * demand only if it is two restarts ahead (hysteresis). */
enum spot_deadline_rule {
    SPOT_DEADLINE_GREEDY,
    SPOT_DEADLINE_UNIFORM,
    SPOT_DEADLINE_UNIFORM_NO_HYSTERESIS
};
enum spot_deadline_mode spot_deadline_follow(enum spot_deadline_rule rule,
                                             const struct spot_deadline_job *job,
                                             const struct spot_deadline_now *now);

/* What was seen of runs: [0] spot away, [1] spot there. */
struct spot_run_count {
    double ended[2][SPOT_RUN_STAGES], seen[2][SPOT_RUN_STAGES]; /* ticks that ended a run, ticks */
    bool is_up;                                                 /* the newest tick */
    size_t age;                                                 /* of its run, ticks; 0: none yet */
};
void spot_run_count_add(struct spot_run_count *count, bool is_up);

struct spot_run_law {
    double end_prob[2][SPOT_RUN_STAGES]; /* that the next tick is not of this run */
};

/* What was seen of runs counts against the runs of eight other zones, of other years
 * (deadline/run_law.c), which weigh as much as four ends of each stage: the better guess for a job
 * of days in one zone. */
void spot_run_law_learn_zone(struct spot_run_law *law, const struct spot_run_count *count,
                             double tick_s);

/* The chain of two states whose P(spot is there), `up` [n] after 1, 2, .. ticks from now, comes
 * nearest in squares: what a forecast says of runs. */
void spot_run_law_fit(struct spot_run_law *law, bool is_up, const double *up, size_t n);

/* The stage of an age in ticks, 1.. */
size_t spot_run_stage(size_t age);

/* The policy for all that can come: as large as ticks * work. */
struct spot_deadline_table {
    int64_t n_tick, n_level, n_pending;
    double unit_s;
    uint8_t *action; /* [n_keep][2 * SPOT_RUN_STAGES][1 + 2 n_pending][n_level] */
    double usd[3];   /* expected from now on, if a mode is taken now; INFINITY: it may not be */
    int64_t n_keep;  /* actions are kept for the first so many ticks, at least 1 */
};

struct spot_deadline_effort {
    int64_t keep_ticks; /* ask no later than this; 0: to the end */
    double cells;       /* of all ticks, above which levels of work are made coarser, to a tick at
                           most; 0: SPOT_DEADLINE_CELLS_MAX */
};

/* Solve from `now` on with `effort` (NULL: all of it), spot being in stage `stage` of a run. Exact
 * where the restart is a multiple of a tick's 1/5 or 1/4 .. 1; else, and where levels of work are
 * made coarser to hold the table, values between two levels are interpolated. Returns 0, or -1 with
 * *err (SPOT_EUSAGE: too large). */
int spot_deadline_solve(struct spot_deadline_table *table, const struct spot_deadline_job *job,
                        const struct spot_run_law *law, const struct spot_deadline_now *now,
                        size_t stage, const struct spot_deadline_effort *effort,
                        struct spot_err *err);
void spot_deadline_release(struct spot_deadline_table *table);

/* What the table says, where that is safe; else what is. */
enum spot_deadline_mode spot_deadline_ask(const struct spot_deadline_table *table,
                                          const struct spot_deadline_job *job,
                                          const struct spot_deadline_now *now, size_t stage);

/* The least cost with all of has_spot [n] known, n at least the ticks until the deadline, in steps
 * of the largest second that divides tick, restart and work. INFINITY: too late. `mode` (NULL: of
 * no interest) [n] gets what runs. Returns NaN where tick, restart and work are no whole seconds.
 */
double spot_deadline_offline(const struct spot_deadline_job *job, const uint8_t *has_spot, size_t n,
                             uint8_t *mode);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DEADLINE_H */

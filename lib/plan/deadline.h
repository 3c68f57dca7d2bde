/* SPDX-License-Identifier: MIT */
/* deadline.h - decides between spot, on demand and idling, in one of several places, to finish a
 * job by its deadline at low cost.
 *
 * Time is divided into ticks. A job needs work_s of computing until deadline_s. At the start of a
 * tick it is known where spot is available in that tick; a mode and a place are chosen and paid for
 * the whole tick. A launch (any change to spot or on demand) first spends a restart at full price
 * without progress; a new launch replaces the rest of an older one. With one place these are the
 * rules of the simulator of Can't Be Late (Wu et al., NSDI 2024), to the cent.
 *
 * A place is an instance type in a zone: its prices, its speed, its runs with and without spot.
 * Work moves with the job: a launch in another region than the last costs egress_usd and leave_usd
 * of the place it leaves, and takes leave_s of that place longer. A restart time is drawn from a
 * distribution, known only when it is complete. Runs of up to SPOT_MARKET_EXACT_MAX places are
 * independent, each a Markov chain in stages (run_dist.h), fewer of them for more places: 7 for
 * one, 3 for two, 2 for three, 1 for four. The cheapest policy is a dynamic program over ticks
 * left, work left, mode and place with the time since launch, and the stage of every place. With
 * more places it goes by the cheapest place with spot instead of the state of each
 * (spot_market_many_solve).
 *
 * No step is taken after which on demand, with the longest restart and the longest move to where it
 * runs, could not finish in time: no distribution can make a job late. The objective is the cost.
 * Without any offer of on demand nothing is guaranteed; then a late job adds spot_market_late_usd
 * to the objective.
 */
#ifndef SPOT_PLAN_DEADLINE_H
#define SPOT_PLAN_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "plan/run_dist.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_MARKET_PLACES_MAX = 16,
    SPOT_MARKET_EXACT_MAX = 4, /* places */
    SPOT_MARKET_RESTARTS_MAX = 8,
    SPOT_DEADLINE_TICKS_MAX = 1 << 14,   /* of a job */
    SPOT_DEADLINE_CELLS_MAX = 1 << 28,   /* of a table */
    SPOT_DEADLINE_RESTART_TICKS_MAX = 64 /* limit of a restart, exclusive */
};

enum spot_deadline_mode { SPOT_DEADLINE_IDLE, SPOT_DEADLINE_SPOT, SPOT_DEADLINE_ON_DEMAND };

struct spot_deadline_effort {
    int64_t keep_ticks; /* last tick to be queried; 0: to the end */
    /* limit on all ticks of the job, above which levels of work are made coarser, up to one tick
     * each; 0: SPOT_DEADLINE_CELLS_MAX */
    double cells;
};

struct spot_market_place {
    double spot_usd_per_h, on_demand_usd_per_h; /* on_demand_usd_per_h INFINITY: not offered */
    double speed;                               /* work done per second, 1 is the job's own */
    int region;
    double leave_usd, leave_s; /* of moving the state to another region */
    int64_t quota; /* number of spot machines that jobs share (market_quota.h); < 0: no limit */
    struct spot_run_dist dist;
    /* [n_path] usd/h of spot, and on demand, by tick; NULL: constant as above */
    const double *path[2];
};

struct spot_market {
    double work_s, deadline_s, tick_s;
    double restart_s[SPOT_MARKET_RESTARTS_MAX], restart_prob[SPOT_MARKET_RESTARTS_MAX];
    size_t n_restart; /* ascending times, probabilities that sum to 1 */
    double egress_usd;
    int64_t path_ticks; /* ticks left at path[][0]; after n_path ticks the last price holds */
    size_t n_path;
    struct spot_market_place place[SPOT_MARKET_PLACES_MAX];
    size_t n_place;
};

/* At the start of a tick. */
struct spot_market_now {
    double elapsed_s, left_s;
    enum spot_deadline_mode mode; /* mode in the last tick, if not lost */
    size_t place;                 /* last place; before the first launch no place costs egress */
    bool is_new;                  /* nothing launched yet: no egress */
    int64_t pending;              /* ticks since a launch in progress; 0: none */
    bool has_spot[SPOT_MARKET_PLACES_MAX];
    size_t age[SPOT_MARKET_PLACES_MAX]; /* ticks of each place's run, 1.. */
};

struct spot_market_step {
    enum spot_deadline_mode mode;
    size_t place;
};

/* Reject invalid problems: SPOT_EUSAGE, or SPOT_EINFEASIBLE with a sufficient deadline. */
int spot_market_check(const struct spot_market *market, const struct spot_market_now *now,
                      struct spot_err *err);

/* The longest time that a launch at a place can take, for any origin of the state. */
double spot_market_longest(const struct spot_market *market, size_t place);

/* Cost and time of moving the state for a launch at a place. */
double spot_market_move_usd(const struct spot_market *market, const struct spot_market_now *now,
                            size_t place);
double spot_market_move_s(const struct spot_market *market, const struct spot_market_now *now,
                          size_t place);

int64_t spot_market_ticks(const struct spot_market *market, const struct spot_market_now *now);

/* Price per hour of a place in the tick that begins with this many ticks left; idle: 0. */
double spot_market_usd_per_h(const struct spot_market *market, struct spot_market_step step,
                             int64_t ticks);

/* Apply `step` for a tick. restart_s is the time drawn for a launch that is pending or begins, with
 * that of the move; otherwise ignored. Returns the usd of the tick, including egress. */
double spot_market_take(const struct spot_market *market, struct spot_market_now *now,
                        struct spot_market_step step, double restart_s);

/* True if on demand can finish in time after a tick of `step`, in any case. */
bool spot_market_is_safe(const struct spot_market *market, const struct spot_market_now *now,
                         struct spot_market_step step);

/* Returns the step if it is safe and available; else the running one if that is; else on demand at
 * the refuge. */
struct spot_market_step spot_market_settle(const struct spot_market *market,
                                           const struct spot_market_now *now,
                                           struct spot_market_step step);

/* The place where on demand finishes first, ties to the cheaper; n_place if it is not sold. */
size_t spot_market_refuge(const struct spot_market *market);

/* The penalty for a late job: 0 if on demand is offered; else ten times the cost of the work at the
 * highest spot price and the lowest speed. */
double spot_market_late_usd(const struct spot_market *market);

struct spot_market_table {
    int64_t n_tick, n_keep, n_level, n_mode, n_state, n_stage;
    double unit_s;
    uint8_t *action; /* [n_keep][n_state][n_mode][n_level] */
    double *mean;    /* [n_state][n_mode][n_level]: expected objective a tick after the first */
    double usd;      /* expected objective from now on */
};

/* Exact if restarts are multiples of a tick's 1/5 or 1/4 .. 1; otherwise, and if levels of work are
 * made coarser to fit the table, values between two levels are interpolated. The coarseness depends
 * on the whole job only, so that later tables agree with earlier ones. Returns 0, or -1 with *err
 * (SPOT_EUSAGE: too large). */
int spot_market_solve(struct spot_market_table *table, const struct spot_market *market,
                      const struct spot_market_now *now, const struct spot_deadline_effort *effort,
                      struct spot_err *err);
void spot_market_release(struct spot_market_table *table);

/* step_usd [n_place]: the expected objective of each step taken in the first tick of the table;
 * INFINITY: not allowed. For unavailable spot: its value if it were granted. `now` may differ from
 * that of the table in has_spot and age. Returns the least of those that are available. */
double spot_market_weigh(const struct spot_market_table *table, const struct spot_market *market,
                         const struct spot_market_now *now, double (*step_usd)[3]);

/* The table's step if it is safe; else a safe one. */
struct spot_market_step spot_market_ask(const struct spot_market_table *table,
                                        const struct spot_market *market,
                                        const struct spot_market_now *now);

/* The least objective with has_spot [n_tick][n_place] known and each restart of the shortest time:
 * a lower bound for every policy. INFINITY if the deadline cannot be met; NAN if the problem is too
 * large, where a longer tick may help. step[n_tick], may be NULL, has exactly that cost if
 * restarts, moves and speeds are multiples of 1/29 .. 1 of a tick, else more, by rounding of work:
 * up for the bound, down for the steps. */
double spot_market_offline(const struct spot_market *market, const uint8_t *has_spot, size_t n_tick,
                           struct spot_market_step *step);

/* --- the decision (decision.h, kind deadline) --- */

struct spot_deadline_rule {
    const struct spot_market *market; /* its run distributions are ignored: they are learned */
    /* run lengths are learned again every this many ticks; 0: never */
    int64_t learn_ticks;
    double cells;                    /* as in spot_deadline_effort */
    const struct spot_run_dist *law; /* [n_place]; NULL: learned */
};

/* step_usd [n_place] as of spot_market_weigh, at the last observation, if spot were available as in
 * has_spot; a place for which this is new has been so for one tick. After a decision with
 * spot_told.step_usd. */
struct spot_decider;
void spot_deadline_weigh(const struct spot_decider *decider, const bool *has_spot,
                         double (*step_usd)[3]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DEADLINE_H */

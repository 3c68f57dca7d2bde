/* SPDX-License-Identifier: MIT */
/* deadline_market.h - the problem of deadline.h with spot available in several places.
 *
 * A place is an instance type in a zone: its prices, its speed, its runs with and without spot.
 * Work moves with the job: a launch in another region than the last costs egress_usd. A launch
 * takes a restart time drawn from a distribution, known only when it is complete. Runs of places
 * are independent, each a Markov chain in stages, fewer of them for more places: 7 for one, 3 for
 * two, 2 for three, 1 above. The cheapest policy is a dynamic program over ticks left, work left,
 * mode and place with the time since launch, and the stage of every place.
 *
 * No step is taken after which on demand, with the longest restart, could not finish in time: no
 * distribution can make a job late. The objective is usd + usd_per_h * hours until the end.
 */
#ifndef SPOT_PLAN_DEADLINE_MARKET_H
#define SPOT_PLAN_DEADLINE_MARKET_H

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_MARKET_PLACES_MAX = 6, SPOT_MARKET_RESTARTS_MAX = 8 };

struct spot_market_place {
    double spot_usd_per_h, on_demand_usd_per_h; /* the latter INFINITY: not offered */
    double speed;                               /* work done per second, 1 is the job's own */
    int region;
    struct spot_run_dist dist;
    /* [n_path] usd/h of spot, on demand by tick; NULL: constant as above */
    const double *path[2];
};

struct spot_market {
    double work_s, deadline_s, tick_s;
    double restart_s[SPOT_MARKET_RESTARTS_MAX], restart_prob[SPOT_MARKET_RESTARTS_MAX];
    size_t n_restart; /* ascending times, probabilities that sum to 1 */
    double egress_usd, usd_per_h;
    int64_t path_ticks; /* ticks left at path[][0]; after n_path ticks the last price holds */
    size_t n_path;
    struct spot_market_place place[SPOT_MARKET_PLACES_MAX];
    size_t n_place;
};

/* At the start of a tick. */
struct spot_market_now {
    double elapsed_s, left_s;
    enum spot_deadline_mode mode; /* what ran and was not lost */
    size_t place;    /* where it ran last; before the first launch no place costs egress */
    bool is_new;     /* nothing launched yet: no egress */
    int64_t pending; /* ticks since a launch in progress; 0: none */
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

int64_t spot_market_ticks(const struct spot_market *market, const struct spot_market_now *now);

/* Price per hour of a place in the tick that begins with this many ticks left; idle: 0. */
double spot_market_usd_per_h(const struct spot_market *market, struct spot_market_step step,
                             int64_t ticks);

/* Apply `step` for a tick. restart_s is the time drawn for a launch that is pending or begins;
 * otherwise ignored. Returns the usd of the tick, including egress. */
double spot_market_take(const struct spot_market *market, struct spot_market_now *now,
                        struct spot_market_step step, double restart_s);

/* Can on demand still finish in time after a tick of `step`, in any case? */
bool spot_market_is_safe(const struct spot_market *market, const struct spot_market_now *now,
                         struct spot_market_step step);

/* The place where on demand finishes first, ties to the cheaper. */
size_t spot_market_refuge(const struct spot_market *market);

struct spot_market_table {
    int64_t n_tick, n_keep, n_level, n_mode, n_state, n_stage;
    double unit_s;
    uint8_t *action;                            /* [n_keep][n_state][n_mode][n_level] */
    double usd;                                 /* expected from now on, of the objective */
    double step_usd[SPOT_MARKET_PLACES_MAX][3]; /* for each step taken now; INFINITY: not allowed */
};

/* Returns 0, or -1 with *err (SPOT_EUSAGE: too large). */
int spot_market_solve(struct spot_market_table *table, const struct spot_market *market,
                      const struct spot_market_now *now, const struct spot_deadline_effort *effort,
                      struct spot_err *err);
void spot_market_release(struct spot_market_table *table);

/* The table's step if it is safe; else a safe one. */
struct spot_market_step spot_market_ask(const struct spot_market_table *table,
                                        const struct spot_market *market,
                                        const struct spot_market_now *now);

/* The least objective with has_spot [n_tick][n_place] known and each restart of the shortest time:
 * a lower bound for every policy. INFINITY: too late. step (NULL: not wanted) [n_tick]. */
double spot_market_offline(const struct spot_market *market, const uint8_t *has_spot, size_t n_tick,
                           struct spot_market_step *step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DEADLINE_MARKET_H */

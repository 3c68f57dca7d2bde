/* SPDX-License-Identifier: MIT */
/* deadline_market.h - the same question as deadline.h where spot may be had in several places.
 *
 * A place is an instance type in a zone: its prices, its speed, its runs of spot there and away.
 * Work moves with the job: a launch in another region than the last costs egress_usd. A launch
 * takes a restart time drawn from a distribution, known only once it is over. Runs of places are
 * independent, each a Markov chain in stages, fewer of them the more places there are: 7 for one, 3
 * for two, 2 for three, 1 above. The cheapest policy is a dynamic program over ticks left, work
 * left, what runs where since when, and the stage of every place.
 *
 * No step is taken after which on demand, with the longest restart, could not finish in time: no
 * law can make a job late. The objective is usd + usd_per_h * hours until the end.
 */
#ifndef SPOT_PLAN_DEADLINE_MARKET_H
#define SPOT_PLAN_DEADLINE_MARKET_H

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_MARKET_PLACES_MAX = 6, SPOT_MARKET_RESTARTS_MAX = 8 };

struct spot_market_place {
    double spot_usd_per_h, on_demand_usd_per_h; /* the latter INFINITY: not for sale */
    double speed;                               /* work done per second, 1 is the job's own */
    int region;
    struct spot_run_law law;
    /* [n_path] usd/h of spot, on demand by tick; NULL: always as above */
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
    size_t place;                 /* where it ran last; before the first launch any is near */
    bool is_new;                  /* nothing was launched yet: no egress */
    int64_t pending;              /* ticks since a launch that is not over; 0: nothing is pending */
    bool has_spot[SPOT_MARKET_PLACES_MAX];
    size_t age[SPOT_MARKET_PLACES_MAX]; /* ticks of each place's run, 1.. */
};

struct spot_market_step {
    enum spot_deadline_mode mode;
    size_t place;
};

/* Refuse what cannot be: SPOT_EUSAGE, or SPOT_EINFEASIBLE with the deadline that would do. */
int spot_market_check(const struct spot_market *market, const struct spot_market_now *now,
                      struct spot_err *err);

int64_t spot_market_ticks(const struct spot_market *market, const struct spot_market_now *now);

/* What an hour of a place costs in the tick before which so many ticks are left; idle: nothing. */
double spot_market_usd_per_h(const struct spot_market *market, struct spot_market_step step,
                             int64_t ticks);

/* Take `step` for a tick. restart_s is the time drawn for a launch that is pending or begins; of no
 * interest else. Returns the usd of the tick, egress included. */
double spot_market_take(const struct spot_market *market, struct spot_market_now *now,
                        struct spot_market_step step, double restart_s);

/* Can on demand still finish in time after a tick of `step`, whatever comes? */
bool spot_market_is_safe(const struct spot_market *market, const struct spot_market_now *now,
                         struct spot_market_step step);

/* On demand where it finishes first, ties to the cheaper. */
size_t spot_market_refuge(const struct spot_market *market);

struct spot_market_table {
    int64_t n_tick, n_keep, n_level, n_mode, n_state, n_stage;
    double unit_s;
    uint8_t *action; /* [n_keep][n_state][n_mode][n_level] */
    double usd;      /* expected from now on, by the objective */
    double step_usd[SPOT_MARKET_PLACES_MAX]
                   [3]; /* if a step is taken now; INFINITY: it may not be */
};

/* Returns 0, or -1 with *err (SPOT_EUSAGE: too large). */
int spot_market_solve(struct spot_market_table *table, const struct spot_market *market,
                      const struct spot_market_now *now, const struct spot_deadline_effort *effort,
                      struct spot_err *err);
void spot_market_release(struct spot_market_table *table);

/* What the table says, where that is safe; else what is. */
struct spot_market_step spot_market_ask(const struct spot_market_table *table,
                                        const struct spot_market *market,
                                        const struct spot_market_now *now);

/* The least objective with has_spot [n_tick][n_place] known and each restart of the shortest time:
 * no policy pays less. INFINITY: too late. step (NULL: of no interest) [n_tick]. */
double spot_market_offline(const struct spot_market *market, const uint8_t *has_spot, size_t n_tick,
                           struct spot_market_step *step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DEADLINE_MARKET_H */

/* SPDX-License-Identifier: MIT */
/* share_worth.h - does sharing a cluster pay for those who share?
 *
 * Every user could run his jobs on his own machines, on demand or spot, each job at once on the
 * type where it is cheapest. Or he joins a cluster of reserved workers, with some on demand for
 * when these are all in use. Members pay its full cost. A user who waits longer than his patience,
 * or pays more than alone, leaves; the rest pay more and wait less, and decide again, until none
 * leaves. docs/design/20-share.md.
 */
#ifndef SPOT_SIM_SHARE_WORTH_H
#define SPOT_SIM_SHARE_WORTH_H

#include "sim/share_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_share_tariff {
    SPOT_SHARE_USAGE,        /* by worker-hours, weighted by their type's on-demand price */
    SPOT_SHARE_SUBSCRIPTION, /* equal for all members */
    SPOT_SHARE_TARIFFS
};
extern const char *const spot_share_tariff_name[];

struct spot_share_offer {
    const int64_t *reserved; /* [n_type] workers; those of the cluster beyond them are on demand */
    double reserved_price, spot_price; /* of a worker, relative to its on-demand price */
    double spot_wait_s; /* until a spot machine is available: at the start, after a loss */
    double patience;    /* maximum wait of a user, in units of his run time */
};

enum spot_share_stand { SPOT_SHARE_STAYS, SPOT_SHARE_TOO_SLOW, SPOT_SHARE_TOO_DEAR };
extern const char *const spot_share_stand_name[];

struct spot_share_user {
    const char *name; /* from the jobs' document: the user, or a job without one */
    size_t n_job;
    double run_s;                   /* of his jobs, alone on demand */
    double on_demand_usd, spot_usd; /* alone */
    double spot_wait_s;             /* expected delay by losses and starts, in addition to run_s */
    bool takes_spot;                /* alone he uses it: cheaper, and within his patience */
    double usd, wait_s;             /* in his last turn as a member */
    double first_usd, first_wait_s; /* in the first turn, with all members */
    enum spot_share_stand stand;    /* the reason he left */
    size_t turn;                    /* his last as a member, from 1 */
};

struct spot_share_turn {
    size_t n_member, too_slow, too_dear; /* who leave after it */
    double reserved_usd, burst_usd;
    double index;  /* cost of members, relative to the same worker-hours on demand */
    double wait_s; /* mean of the jobs */
};

struct spot_share_worth {
    struct spot_share_user *user; /* [n_user], by name */
    struct spot_share_turn *turn; /* [n_turn] */
    size_t n_user, n_turn, cap_turn;
    size_t n_member;             /* at the end */
    size_t n_gain_first, n_gain; /* who pay less than alone, and wait within their patience */
    double own_usd;              /* if all stayed alone */
    double usd;                  /* of members and of those that left, at the end */
};

/* The cost of a user alone: the cheaper way within his patience. */
static inline double spot_share_alone_usd(const struct spot_share_user *user)
{
    return user->takes_spot ? user->spot_usd : user->on_demand_usd;
}

/* `play` has all jobs, in exact rounds; its cluster has reserved workers and those on demand,
 * prices are on demand and hazards are those of spot machines: shared ones have none. Returns 0, or
 * -1 with *err. */
int spot_share_worth_run(const struct spot_share_play *play, enum spot_share_policy policy,
                         enum spot_share_tariff tariff, const struct spot_share_offer *offer,
                         struct spot_share_worth *worth, struct spot_err *err);
void spot_share_worth_release(struct spot_share_worth *worth);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SHARE_WORTH_H */

/* SPDX-License-Identifier: MIT */
/* share_worth.h - is sharing worth it to those who share?
 *
 * Every user could run his jobs on machines of his own, on demand or spot, each job at once on the
 * type where it is cheapest. Or he joins a cluster of reserved workers, with some on demand for
 * when these are all in use. Members pay all that it costs. Who waits longer than his patience, or
 * pays more than alone, leaves; the rest pay more and wait less, and are asked again, until none
 * leaves. docs/design/20-share.md.
 */
#ifndef SPOT_SIM_SHARE_WORTH_H
#define SPOT_SIM_SHARE_WORTH_H

#include "sim/share_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_share_tariff {
    SPOT_SHARE_USAGE,        /* by worker-hours, each weighed by its type's price on demand */
    SPOT_SHARE_SUBSCRIPTION, /* alike for each member */
    SPOT_SHARE_TARIFFS
};
extern const char *const spot_share_tariff_name[];

struct spot_share_offer {
    const int64_t *reserved; /* [n_type] workers; what the cluster has above them is on demand */
    double reserved_price, spot_price; /* of a worker, as shares of its price on demand */
    double spot_wait_s; /* until a spot machine is there: at the start, after a loss */
    double patience;    /* a user waits at most so many times his runtime */
};

enum spot_share_stand { SPOT_SHARE_STAYS, SPOT_SHARE_TOO_SLOW, SPOT_SHARE_TOO_DEAR };
extern const char *const spot_share_stand_name[];

struct spot_share_user {
    const char *name; /* of the jobs' document: its user, or the job that has none */
    size_t n_job;
    double run_s;                   /* of his jobs, alone on demand */
    double on_demand_usd, spot_usd; /* alone */
    double spot_wait_s;             /* what losses and starts add to run_s, expected */
    bool takes_spot;                /* alone he takes it: cheaper, and within his patience */
    double usd, wait_s;             /* in the last turn that he was a member */
    double first_usd, first_wait_s; /* in the first, when all are */
    enum spot_share_stand stand;    /* why he left */
    size_t turn;                    /* the last that he was a member, from 1 */
};

struct spot_share_turn {
    size_t n_member, too_slow, too_dear; /* who leave behind it */
    double reserved_usd, burst_usd;
    double index;  /* what members pay, over the same worker-hours on demand */
    double wait_s; /* mean of the jobs */
};

struct spot_share_worth {
    struct spot_share_user *user; /* [n_user], by name */
    struct spot_share_turn *turn; /* [n_turn] */
    size_t n_user, n_turn, cap_turn;
    size_t n_member;             /* in the end */
    size_t n_gain_first, n_gain; /* pay less than alone, and wait within their patience */
    double own_usd;              /* if all stayed alone */
    double usd;                  /* of members and of those that left, in the end */
};

/* What a user pays alone: the cheaper way that he has the patience for. */
static inline double spot_share_alone_usd(const struct spot_share_user *user)
{
    return user->takes_spot ? user->spot_usd : user->on_demand_usd;
}

/* play is of all jobs, in exact rounds; its cluster has reserved workers and those on demand,
 * prices are on demand and hazards are those of spot machines: the shared ones have none. Returns
 * 0, or -1 with *err. */
int spot_share_worth_run(const struct spot_share_play *play, enum spot_share_policy policy,
                         enum spot_share_tariff tariff, const struct spot_share_offer *offer,
                         struct spot_share_worth *worth, struct spot_err *err);
void spot_share_worth_release(struct spot_share_worth *worth);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SHARE_WORTH_H */

/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "plan/deadline.h"

#define SLACK_TICKS 1e-9 /* sums of seconds are not exact */

static double ticks_up(const struct spot_deadline_job *job, double time_s)
{
    return ceil(time_s / job->tick_s - SLACK_TICKS);
}

int64_t spot_deadline_ticks(const struct spot_deadline_job *job,
                            const struct spot_deadline_now *now)
{
    return (int64_t)floor((job->deadline_s - now->elapsed_s) / job->tick_s + SLACK_TICKS);
}

int spot_deadline_check(const struct spot_deadline_job *job, const struct spot_deadline_now *now,
                        struct spot_err *err)
{
    const double pending_s = now->mode == SPOT_DEADLINE_ON_DEMAND ? now->pending_s : job->restart_s;
    const double need = ticks_up(job, now->left_s + pending_s);

    if (!(job->tick_s > 0) || !(job->restart_s >= 0) || !(job->work_s > 0) ||
        !(job->spot_usd_per_h >= 0) || !(job->on_demand_usd_per_h >= 0))
        return spot_err_set(err, SPOT_EUSAGE,
                            "work and tick have to be above 0, restart and prices at least 0");
    if (job->restart_s >= SPOT_DEADLINE_RESTART_TICKS_MAX * job->tick_s)
        return spot_err_set(err, SPOT_EUSAGE, "a restart of %g s takes %d ticks of %g s or more",
                            job->restart_s, SPOT_DEADLINE_RESTART_TICKS_MAX, job->tick_s);
    if (!((job->deadline_s - now->elapsed_s) / job->tick_s <= SPOT_DEADLINE_TICKS_MAX))
        return spot_err_set(err, SPOT_EUSAGE, "the deadline is more than %d ticks of %g s away",
                            SPOT_DEADLINE_TICKS_MAX, job->tick_s);
    if (now->left_s > 0 && need > (double)spot_deadline_ticks(job, now))
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "%g h of work and a restart of %g min take %g h on demand: a deadline "
                            "of %g h would do, it is %g h",
                            now->left_s / 3600, pending_s / 60, need * job->tick_s / 3600,
                            (now->elapsed_s + need * job->tick_s) / 3600, job->deadline_s / 3600);
    return 0;
}

static double pending(const struct spot_deadline_job *job, const struct spot_deadline_now *now,
                      enum spot_deadline_mode want)
{
    return want == now->mode ? now->pending_s : job->restart_s;
}

double spot_deadline_step(const struct spot_deadline_job *job, struct spot_deadline_now *now,
                          enum spot_deadline_mode want)
{
    static const double none = 0;
    const double *usd_per_h = want == SPOT_DEADLINE_IDLE   ? &none
                              : want == SPOT_DEADLINE_SPOT ? &job->spot_usd_per_h
                                                           : &job->on_demand_usd_per_h;

    if (want != SPOT_DEADLINE_IDLE) {
        const double pending_s = pending(job, now, want);

        now->left_s = fmax(0, now->left_s - fmax(0, job->tick_s - pending_s));
        now->pending_s = fmax(0, pending_s - job->tick_s);
    }
    now->mode = want;
    now->elapsed_s += job->tick_s;
    return *usd_per_h * job->tick_s / 3600;
}

bool spot_deadline_is_safe(const struct spot_deadline_job *job, const struct spot_deadline_now *now,
                           enum spot_deadline_mode want)
{
    struct spot_deadline_now then = *now;
    double pending_s;

    spot_deadline_step(job, &then, want);
    pending_s = want == SPOT_DEADLINE_ON_DEMAND ? then.pending_s : job->restart_s;
    return then.left_s <= SLACK_TICKS * job->tick_s ||
           ticks_up(job, then.left_s + pending_s) <= (double)spot_deadline_ticks(job, &then);
}

static enum spot_deadline_mode wish(enum spot_deadline_rule rule,
                                    const struct spot_deadline_job *job,
                                    const struct spot_deadline_now *now)
{
    /* shares of work and time, multiplied out: whole numbers stay exact */
    const double done = (job->work_s - now->left_s) * job->deadline_s;
    const double due = now->elapsed_s * job->work_s;
    const double due_after = (now->elapsed_s + 2 * job->restart_s) * job->work_s;

    if (now->mode == SPOT_DEADLINE_ON_DEMAND && rule == SPOT_DEADLINE_GREEDY)
        return SPOT_DEADLINE_ON_DEMAND;
    if (now->mode == SPOT_DEADLINE_ON_DEMAND && now->has_spot)
        return rule != SPOT_DEADLINE_UNIFORM || done > due_after ? SPOT_DEADLINE_SPOT
                                                                 : SPOT_DEADLINE_ON_DEMAND;
    if (now->mode == SPOT_DEADLINE_ON_DEMAND && rule == SPOT_DEADLINE_UNIFORM)
        return SPOT_DEADLINE_ON_DEMAND;
    if (now->has_spot)
        return SPOT_DEADLINE_SPOT;
    return rule == SPOT_DEADLINE_GREEDY || done >= due ? SPOT_DEADLINE_IDLE
                                                       : SPOT_DEADLINE_ON_DEMAND;
}

enum spot_deadline_mode spot_deadline_follow(enum spot_deadline_rule rule,
                                             const struct spot_deadline_job *job,
                                             const struct spot_deadline_now *now)
{
    const double ticks = (double)spot_deadline_ticks(job, now);
    enum spot_deadline_mode want = wish(rule, job, now);

    if (now->mode != SPOT_DEADLINE_SPOT && ticks_up(job, now->left_s + 2 * job->restart_s) >= ticks)
        want = SPOT_DEADLINE_ON_DEMAND;
    if (ticks_up(job, now->left_s + job->restart_s) >= ticks)
        want = now->mode == SPOT_DEADLINE_SPOT && now->pending_s <= 0 ? SPOT_DEADLINE_SPOT
                                                                      : SPOT_DEADLINE_ON_DEMAND;
    return want;
}

/* SPDX-License-Identifier: MIT */
/* The policy spot: the decision that spot-plan makes (plan/decision.h, kind share), before each
 * round. */
#include <stdlib.h>

#include "plan/decision.h"
#include "sim/share_state.h"

static void open_ours(struct spot_share_state *s)
{
    const struct spot_share_rule rule = spot_share_rule_of(s);

    s->own = s->player->policy->open(&(struct spot_rule){ .share = &rule });
}

static void close_ours(struct spot_share_state *s)
{
    s->player->policy->close(s->own);
}

static int pick_ours(struct spot_share_state *s, struct spot_err *err)
{
    const struct spot_policy *policy = s->player->policy;
    struct spot_share_job_now *job = spot_share_jobs_now(s);
    const struct spot_share_seen share = { job, s->count, spot_share_demand_now(s) };
    struct spot_action action = { 0 };
    int rc =
        policy->observe(s->own, &(struct spot_seen){ .time_s = s->now_s, .share = &share }, err);

    if (!rc)
        rc = policy->decide(s->own, &action, NULL, err);
    for (size_t k = 0; !rc && k < action.share->view.problem.n_job; k++)
        if (action.share->choice.way[k] >= 0) {
            const struct spot_share_way *w = &action.share->way[action.share->choice.way[k]];

            s->pick[s->n_pick++] = (struct spot_share_pick){ action.share->view.job[k],
                                                             (int)w->type, w->scale, w->rate };
        }
    s->outcome->solves++;
    free(job);
    return rc;
}

#define ROW(as, aim)                                                                           \
    {                                                                                          \
        .name = (as), .pick = pick_ours, .policy = &spot_policy_share[aim], .open = open_ours, \
        .close = close_ours                                                                    \
    }

const struct spot_share_player spot_share_players[] = {
    ROW("spot", SPOT_SHARE_AIM_COMPLETION),
    ROW("spot:max-min", SPOT_SHARE_AIM_MAX_MIN),
    ROW("spot:makespan", SPOT_SHARE_AIM_MAKESPAN),
    ROW("spot:cost", SPOT_SHARE_AIM_COST),
    { 0 },
};

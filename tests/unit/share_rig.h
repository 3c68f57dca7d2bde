/* SPDX-License-Identifier: MIT */
/* share_rig.h - jobs on a cluster, played under a policy. */
#ifndef SPOT_TEST_SHARE_RIG_H
#define SPOT_TEST_SHARE_RIG_H

#include <stdlib.h>

#include "sim/share_play.h"
#include "sim/share_sim.h"
#include "suite.h"

struct world {
    struct spot_share_jobs jobs;
    struct spot_share_cluster cluster;
    double *rate;
};

static inline void release(struct world *w)
{
    spot_share_jobs_release(&w->jobs);
    spot_share_cluster_release(&w->cluster);
    free(w->rate);
}

static inline struct spot_share_outcome play_one(const struct spot_share_play *play,
                                                 const struct spot_share_player *player)
{
    struct spot_share_outcome o;
    struct spot_err err;

    ck_assert_msg(!spot_share_play_run(play, player, &o, &err), "%s: %s", player->name, err.msg);
    ck_assert_uint_eq(o.n_done + o.n_failed, play->jobs->n);
    return o;
}

#endif /* SPOT_TEST_SHARE_RIG_H */

/* SPDX-License-Identifier: MIT */
/* share_peers.h - policies of other systems that share a cluster by one rule; each file names its
 * source and changes.
 */
#ifndef SPOT_PEERS_SHARE_PEERS_H
#define SPOT_PEERS_SHARE_PEERS_H

#include "sim/share_play.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SRTF_TIME, SPOT_SRTF_SERVICE };

/* Each ends with a NULL name: queues by an assignment (AlloX); the largest mean of speedups
 * (Pollux); the job nearest to its end first; jobs of two priorities (GFS). */
extern const struct spot_share_player spot_allox_players[], spot_pollux_players[],
    spot_srtf_players[], spot_gfs_players[];

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_SHARE_PEERS_H */

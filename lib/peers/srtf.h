/* SPDX-License-Identifier: MIT */
/* srtf.h - jobs that are nearest to their end go first. */
#ifndef SPOT_PEERS_SRTF_H
#define SPOT_PEERS_SRTF_H

#include "sim/share_play.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SRTF_TIME, SPOT_SRTF_SERVICE };

extern const struct spot_share_player spot_srtf_players[]; /* ends with a NULL name */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_SRTF_H */

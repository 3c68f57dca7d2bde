/* SPDX-License-Identifier: MIT */
/* pollux.h - jobs that give and take workers so that the mean of their speedups is largest. */
#ifndef SPOT_PEERS_POLLUX_H
#define SPOT_PEERS_POLLUX_H

#include "sim/share_play.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct spot_share_player spot_pollux_players[]; /* ends with a NULL name */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_POLLUX_H */

/* SPDX-License-Identifier: MIT */
/* allox.h - AlloX (EuroSys 2020): queues by an assignment; allox.c says what was changed. */
#ifndef SPOT_PEERS_ALLOX_H
#define SPOT_PEERS_ALLOX_H

#include "sim/share_play.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct spot_share_player spot_allox_players[]; /* ends with a NULL name */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_ALLOX_H */

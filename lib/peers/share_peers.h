/* SPDX-License-Identifier: MIT */
/* share_peers.h - policies of spot-replay share: ours, then those of others (gavel.h, hadar.h). */
#ifndef SPOT_PEERS_SHARE_PEERS_H
#define SPOT_PEERS_SHARE_PEERS_H

#include "sim/share_play.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL behind the last. */
const struct spot_share_player *spot_share_player_at(size_t i);

/* NULL with *err (SPOT_EUSAGE), which names all. */
const struct spot_share_player *spot_share_player_find(const char *name, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_SHARE_PEERS_H */

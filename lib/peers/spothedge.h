/* SPDX-License-Identifier: MIT */
/* spothedge.h - policies of spot-replay fleet that follow SpotHedge (SkyServe, Mao et al., EuroSys
 * 2025; skypilot-org/skypilot, sky/serve/spot_placer.py and autoscalers.py) and the baselines of
 * its paper.
 *
 * Corrected, in spothedge-repaired only: as published, a failed zone may be tried for ever while
 * another one has room; there each zone is tried at most once before a success. Ties go to the
 * first zone, where the release draws at random. */
#ifndef SPOT_PEERS_SPOTHEDGE_H
#define SPOT_PEERS_SPOTHEDGE_H

#include "sim/fleet_play.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_fleet_peer {
    SPOT_FLEET_EVEN,        /* replica i in zone i mod zones, always */
    SPOT_FLEET_ROUND_ROBIN, /* the next zone after every failure */
    SPOT_FLEET_HEDGE,       /* SpotHedge as published */
    SPOT_FLEET_REPAIRED,    /* the same, with each zone tried at most once before a success */
    SPOT_FLEET_PEERS
};

extern const struct spot_fleet_player spot_fleet_peers[]; /* by policy; ends with a NULL name */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_SPOTHEDGE_H */

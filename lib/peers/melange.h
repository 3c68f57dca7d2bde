/* SPDX-License-Identifier: MIT */
/* melange.h - Melange's program (Griggs et al., 2024): each bucket of requests is cut into slices,
 * and a slice is answered by one type of instance. */
#ifndef SPOT_PEERS_MELANGE_H
#define SPOT_PEERS_MELANGE_H

#include "plan/fleet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns as spot_fleet_serve does. `slices` in a bucket, 1..SPOT_FLEET_SLICES_MAX. */
int spot_melange_serve(const struct spot_fleet_demand *demand, int64_t slices, double limit_s,
                       struct spot_fleet_answer *answer, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_MELANGE_H */

/* SPDX-License-Identifier: MIT */
/* registry.h - every policy of spot-replay, ours and those of other systems, by kind and name:
 * train (struct spot_sim_policy), share (spot_share_player), fleet (spot_fleet_player), deadline
 * (spot_deadline_policy), serve (spot_serve_row). Each row begins as struct spot_registered does.
 */
#ifndef SPOT_PEERS_REGISTRY_H
#define SPOT_PEERS_REGISTRY_H

#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_registered {
    const char *name, *about;
};

/* Row i of a kind, ours first; NULL after the last. */
const void *spot_registry_at(const char *kind, size_t i);

/* The policy of that name; NULL with *err (SPOT_EUSAGE), which lists the valid names. */
const void *spot_registry_find(const char *kind, const char *name, struct spot_err *err);

/* Parse --policy of spot-replay: "all", or comma-separated names. row [most]. Returns 0, or -1 with
 * *err (SPOT_EUSAGE): none, an unknown one, too many. */
int spot_registry_read(const char *kind, const char *text, size_t most, const void **row, size_t *n,
                       struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_REGISTRY_H */

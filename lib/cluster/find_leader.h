/* SPDX-License-Identifier: MIT */
/* find_leader.h - finds the address of a job when --join names a store. */
#ifndef SPOT_CLUSTER_FIND_LEADER_H
#define SPOT_CLUSTER_FIND_LEADER_H

#include <stdbool.h>

#include "comm/endpoint.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* True if --join names a store. */
bool spot_leader_is_stored(const char *join);

/* Returns `join`, or, if it names a store, the address of the leading coordinator, in `text`. NULL
 * with *err: SPOT_EUSAGE for an invalid store, SPOT_ESYS when there is no leader or the store does
 * not answer. */
const char *spot_leader_find(const char *join, char text[SPOT_ADDRESS_MAX + 8],
                             struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_FIND_LEADER_H */

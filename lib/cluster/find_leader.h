/* SPDX-License-Identifier: MIT */
/* find_leader.h - where a job is, for those who were told a store instead of an address. */
#ifndef SPOT_CLUSTER_FIND_LEADER_H
#define SPOT_CLUSTER_FIND_LEADER_H

#include <stdbool.h>

#include "comm/endpoint.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does a --join name a store? */
bool spot_leader_is_stored(const char *join);

/* `join`, or where it names a store the address of the coordinator that leads now, in `text`. NULL
 * with *err: SPOT_EUSAGE for a store that is none, SPOT_ESYS where nobody leads or the store does
 * not answer. */
const char *spot_leader_find(const char *join, char text[SPOT_ADDRESS_MAX + 8],
                             struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_FIND_LEADER_H */

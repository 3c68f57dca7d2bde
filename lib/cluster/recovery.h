/* SPDX-License-Identifier: MIT */
/* recovery.h - chooses the step from which a group continues, and the members that it waits for
 * before a rollback.
 *
 * Pure: no clock, no sockets, no workload. State is cut into units; a copy of a unit is of one
 * step. The state of a step is whole when each unit has a copy of that step; copies of different
 * members may be mixed, since the state is a function of the step alone.
 *
 * A restarted coordinator knows from its log which step was committed and which members held it. It
 * goes back to an older step only when no member that could have a newer one is still expected: all
 * holders are back, or their leases have ended.
 */
#ifndef SPOT_CLUSTER_RECOVERY_H
#define SPOT_CLUSTER_RECOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The newest step whose state is whole.
 *   held     [n_member * n_unit]  row-major, step of the copy that a member has, -1: none
 *   durable                       step that is whole on disk; -1: none. Step 0 needs no copy
 * Returns the step, >= 0. Cost: O((n_member * n_unit)^2) at worst. */
int64_t spot_recovery_newest(const int64_t *held, size_t n_member, size_t n_unit, int64_t durable);

/* Information of a restarted coordinator. */
struct spot_recovery {
    int64_t logged;   /* newest step in the log or on disk */
    int64_t newest;   /* newest step that is whole now */
    int64_t held_max; /* newest step of any copy of a present member, -1: none */
    size_t n_absent;  /* number of members that held step `logged` and have not come back */
};

/* True if a member that is still expected may have a newer step than is whole now. If a copy is
 * newer than the log, the log has lost lines and the holders are not known: then any member may. */
bool spot_recovery_waits(const struct spot_recovery *recovery);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_RECOVERY_H */

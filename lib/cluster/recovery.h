/* SPDX-License-Identifier: MIT */
/* recovery.h - from which step a group goes on, and for whom it waits before it goes back.
 *
 * Pure: no clock, no sockets, no workload. State is cut into units; a copy of a unit is of one
 * step. The state of a step is whole when each unit has a copy of that step; copies of different
 * members may be mixed, since the state is a function of the step alone.
 *
 * A coordinator that is started again knows from its log which step was committed and who held it.
 * It goes back to an older step only when nobody who could bring a newer one is still expected: all
 * holders are here, or their leases have ended.
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
 *   durable                       step that is on disk, whole; -1: none. Step 0 needs no copy
 * Returns the step, >= 0. Cost: O((n_member * n_unit)^2) at worst. */
int64_t spot_recovery_newest(const int64_t *held, size_t n_member, size_t n_unit, int64_t durable);

/* What a coordinator that was started again sees. */
struct spot_recovery {
    int64_t logged;   /* newest step that the log or the disk tells of */
    int64_t newest;   /* that is whole now */
    int64_t held_max; /* newest step of any copy here, -1: none */
    size_t n_absent;  /* holders of `logged` that have not come back */
};

/* May a member that is still expected bring a newer step than is whole now? Where a copy is newer
 * than the log, the log has lost lines and the holders are not known: anybody may. */
bool spot_recovery_waits(const struct spot_recovery *recovery);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_RECOVERY_H */

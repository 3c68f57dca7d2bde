/* SPDX-License-Identifier: MIT */
/* derived.h - values that no user has to choose, and that tests change by the environment. */
#ifndef SPOT_RUN_DERIVED_H
#define SPOT_RUN_DERIVED_H

/* The number in the environment under this name, SPOT_TEST_..., or `usual`. Names:
 *   SPOT_TEST_STATE_TIMEOUT_S  limit of a state command through which no byte moves
 *   SPOT_TEST_STORE_LEASE_S    a coordinator that is silent for longer stops leading
 *   SPOT_TEST_ENGINE_START_S   an engine that is not well by then is given up
 *   SPOT_TEST_ENGINE_SILENT_S  an engine's answer without a token for so long has stopped
 *   SPOT_TEST_ENGINE_ROOM      bytes of free memory below which an engine that has grown begins
 * anew
 *   SPOT_TEST_FLEET_REST_S     without a request for so long a fleet holds no machine
 *   SPOT_TEST_STALL_S          a worker that makes no progress for this long is dropped
 *   SPOT_TEST_PRECOPY_BYTE     moves of this size or more are pre-copied
 *   SPOT_TEST_STOP_TIME_S      time of a rank from SIGTERM to SIGKILL
 *   SPOT_TEST_MIRROR_RATE      bytes of commits per second from node to node; 0: no limit
 *   SPOT_TEST_FINISH_S         the end of a job without progress of the last commit to its nodes
 *   SPOT_TEST_STATE_LIMIT      bytes of the commits that a node holds
 *   SPOT_TEST_WARM_UP          steps of a profile before it measures
 *   SPOT_TEST_FIRST            workers that must have joined before the first epoch
 *   SPOT_TEST_BUDDIES          0: no stage is mirrored on another failure domain */
double derived(const char *name, double usual);

#endif /* SPOT_RUN_DERIVED_H */

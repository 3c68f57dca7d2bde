/* SPDX-License-Identifier: MIT */
/* team.h - a team of threads that sleep until there is work.
 *
 * The caller is thread 0 of its team. One job at a time; a job must not start another.
 */
#ifndef SPOT_ENGINE_CPU_TEAM_H
#define SPOT_ENGINE_CPU_TEAM_H

#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_team;

/* thread is 0..n_thread-1 */
typedef void (*spot_team_fn)(void *user, int thread, int n_thread);

/* NULL with *err (SPOT_ESYS) when a thread cannot be created. */
struct spot_team *spot_team_new(int n_thread, struct spot_err *err);
void spot_team_free(struct spot_team *team);

/* Call fn once per thread and wait for all. */
void spot_team_run(struct spot_team *team, spot_team_fn fn, void *user);

/* Within a job: a barrier for all threads. */
void spot_team_meet(struct spot_team *team);

/* The same, for threads that are only microseconds apart: spins for a while before it sleeps. */
void spot_team_meet_soon(struct spot_team *team);

/* The thread's part [begin, end) of n items, cut at multiples of `grain`. */
void spot_team_share(int64_t n, int64_t grain, int thread, int n_thread, int64_t *begin,
                     int64_t *end);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CPU_TEAM_H */

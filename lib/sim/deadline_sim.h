/* SPDX-License-Identifier: MIT */
/* deadline_sim.h - a job with a deadline on a recorded series of spot availability. */
#ifndef SPOT_SIM_DEADLINE_SIM_H
#define SPOT_SIM_DEADLINE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_deadline_policy {
    SPOT_DEADLINE_PLAY_ON_DEMAND,
    SPOT_DEADLINE_PLAY_GREEDY,
    SPOT_DEADLINE_PLAY_UNIFORM,
    SPOT_DEADLINE_PLAY_NO_HYSTERESIS,
    SPOT_DEADLINE_PLAY_SPOT,    /* ours: the distribution learned from the past */
    SPOT_DEADLINE_PLAY_KNOWN,   /* the same, knowing the distribution of the whole series */
    SPOT_DEADLINE_PLAY_OFFLINE, /* knows the whole series */
    SPOT_DEADLINE_POLICIES
};
extern const char *const spot_deadline_policy_name[SPOT_DEADLINE_POLICIES];
extern const char *const spot_deadline_policy_about[SPOT_DEADLINE_POLICIES];

/* has_spot [n], a tick each; the job begins at tick `start`, with the earlier ticks known. */
struct spot_deadline_play {
    struct spot_deadline_job job;
    const uint8_t *has_spot;
    size_t n, start;
    int64_t learn_ticks; /* ours solves again after this many; 0: never */
};

struct spot_deadline_result {
    double usd, finish_s;
    bool is_late;
    size_t switches; /* launches except the first */
};

/* mode (NULL: not wanted) [n - start] gets the mode of each tick. After the end of the series there
 * is no spot. Returns 0, or -1 with *err (SPOT_EINFEASIBLE, SPOT_EUSAGE). */
int spot_deadline_play_run(const struct spot_deadline_play *play, enum spot_deadline_policy policy,
                           struct spot_deadline_result *result, uint8_t *mode,
                           struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_DEADLINE_SIM_H */

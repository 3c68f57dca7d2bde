/* SPDX-License-Identifier: MIT */
/* share_state.h - leases of a shared cluster; private to share_*.c. */
#ifndef SPOT_SIM_SHARE_STATE_H
#define SPOT_SIM_SHARE_STATE_H

#include "sim/share_play.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Steps of a job since its last checkpoint at time_s, which it would lose. share_lease.c */
double share_unsaved(const struct spot_share_state *s, const struct spot_share_run *job,
                     double time_s);
/* The results of jobs of its priority. */
struct spot_share_class *share_class_of(const struct spot_share_state *s, size_t i);
void share_lease_end(struct spot_share_state *s, size_t i, double time_s);
/* Workers of a type in the lease of a job. */
int64_t share_lease_held(const struct spot_share_state *s, size_t i, size_t type);
/* Give the picked jobs workers: continuing ones keep theirs. */
void share_lease_all(struct spot_share_state *s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SHARE_STATE_H */

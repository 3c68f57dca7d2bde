/* SPDX-License-Identifier: MIT */
/* hadar.h - a scheduling round with prices that rise with use, after Hadar (Sultana et al.,
 * IPDPS 2024).
 *
 * Its code is not public; docs/design/20-share.md lists our assumptions. Workers of a job may be of
 * several types: it then runs at the speed of the slowest.
 */
#ifndef SPOT_PEERS_HADAR_H
#define SPOT_PEERS_HADAR_H

#include "plan/share.h"
#include "sim/share_play.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ideal_s[n_job]: time of a job's work on its best type. Fills workers[n_job][n_type], all 0 for a
 * job that waits, and price[n_type], of the next worker at the end. */
void spot_share_hadar(const struct spot_share_problem *problem, const double *ideal_s,
                      int64_t *workers, double *price);

/* steps/s of a job on workers[n_type]. */
double spot_share_hadar_rate(const struct spot_share_problem *problem, size_t job,
                             const int64_t *workers);

extern const struct spot_share_player spot_hadar_players[]; /* ends with a NULL name */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_HADAR_H */

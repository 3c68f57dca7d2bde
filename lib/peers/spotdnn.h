/* SPDX-License-Identifier: MIT */
/* spotdnn.h - spotDNN's searches for a fleet that trains in time; spotdnn.c has source and
 * corrections. */
#ifndef SPOT_PEERS_SPOTDNN_H
#define SPOT_PEERS_SPOTDNN_H

#include "plan/fleet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The released search over windows of the sorted instances, and Algorithm 1 of the paper. count
 * [n_type]. Returns 0, or -1 if no plan meets deadline_s. */
int spot_dnn_window(const struct spot_dnn_job *job, double loss, double deadline_s, int64_t *count,
                    struct spot_dnn_speed *speed);
int spot_dnn_algorithm1(const struct spot_dnn_job *job, double loss, double deadline_s,
                        int64_t *count, struct spot_dnn_speed *speed);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_SPOTDNN_H */

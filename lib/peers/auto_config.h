/* SPDX-License-Identifier: MIT */
/* auto_config.h - Varuna's choice of a grid (varuna/auto_config.py): stage counts P that divide the
 * number K of cutpoints, but not K itself; D = n / P; the minimum minibatch time in its own
 * simulator (pipe_sim.h). Cutpoints are between equal layers: K is the length of the longest run of
 * those, made even. Layers without times count by their share of the parameters. */
#ifndef SPOT_PEERS_AUTO_CONFIG_H
#define SPOT_PEERS_AUTO_CONFIG_H

#include "model/throughput.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The grid for n instances; 0 x 0 if none is allowed. As in the release, simultaneous events are in
 * the order of its simulator. */
void spot_auto_config(const struct spot_throughput *throughput, const struct spot_job_doc *job,
                      int n, bool is_released, int *d, int *p);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_AUTO_CONFIG_H */

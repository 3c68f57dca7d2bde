/* SPDX-License-Identifier: MIT */
/* auto_config.h - Varuna's choice of a grid (varuna/auto_config.py): stage counts P that divide
 * the number K of cutpoints, but not K itself; D = n / P; the least minibatch time of its own
 * simulator (pipe_sim.h). Cutpoints lie between equal layers: K is the length of the longest run
 * of those, made even. Layers without times count by their share of the parameters. */
#ifndef SPOT_SIM_AUTO_CONFIG_H
#define SPOT_SIM_AUTO_CONFIG_H

#include "model/throughput.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The grid for n instances; 0 x 0 where none may run. As released, simultaneous events have the
 * order of the released simulator. */
void spot_auto_config(const struct spot_throughput *throughput, const struct spot_job_doc *job,
                      int n, bool is_released, int *d, int *p);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_AUTO_CONFIG_H */

/* SPDX-License-Identifier: MIT */
/* sources.h - assigns each unit that must be moved to one of its holders, so that the busiest
 * sender finishes as early as possible.
 *
 * With equal sizes this is a bipartite flow, in general it is scheduling on unrelated machines
 * (NP-hard). Largest job first, then moves and swaps off the busiest sender until none improves,
 * then branch and bound within its budget: exact on small cases.
 */
#ifndef SPOT_PLAN_MIGRATION_SOURCES_H
#define SPOT_PLAN_MIGRATION_SOURCES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_source_job {
    int64_t byte;
    const int *holder; /* [n_holder], ascending, at least one */
    int n_holder;
    int from; /* answer */
};

struct spot_sources {
    struct spot_source_job *job; /* [n_job] */
    int n_job, n_node;
    const double *out_byte_per_s; /* [n_node] */
    const double *limit_byte;     /* [n_node] bytes that a node can send before it leaves */
    double target_s;              /* sufficient time of the busiest sender (the receivers' bound) */
    long look_max;                /* maximum jobs examined for swaps */
    long step_max;                /* maximum branch and bound steps */
    double busiest_s;             /* answer */
};

void spot_sources_choose(struct spot_sources *sources);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_SOURCES_H */

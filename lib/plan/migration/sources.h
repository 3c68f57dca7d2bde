/* SPDX-License-Identifier: MIT */
/* sources.h - assigns each whole unit that must travel to one of its holders, so that the busiest
 * sender finishes as early as possible.
 *
 * With equal sizes this is a bipartite flow, in general it is scheduling on unrelated machines
 * (NP-hard). Largest job first, then moves and swaps off the busiest sender until none helps, then
 * branch and bound while it stays within its budget: exact on small cases.
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
    const double *limit_byte;     /* [n_node] what a node can send before it is gone */
    double target_s;  /* a busiest sender at or below this is good enough (the receivers' bound) */
    long look_max;    /* jobs looked at for swaps at most */
    long step_max;    /* branch and bound steps at most */
    double busiest_s; /* answer */
};

void spot_sources_choose(struct spot_sources *sources);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_SOURCES_H */

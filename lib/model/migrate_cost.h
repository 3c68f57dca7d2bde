/* SPDX-License-Identifier: MIT */
/* migrate_cost.h - seconds that a change of grid takes, by component.
 *
 * The terms are Parcae's (liveput/cost.py); every constant comes from the job document.
 *   restart  = [rendezvous + extra, if instances join] + regroup + process + build(P)
 *   intra    = regroup without joiners + process: survivors change places, no state moves
 *   stage k  = one transfer of its state
 */
#ifndef SPOT_MODEL_MIGRATE_COST_H
#define SPOT_MODEL_MIGRATE_COST_H

#include "model/job_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether instances join ("add") or only leave. */
enum spot_change_kind { SPOT_CHANGE_REMOVE, SPOT_CHANGE_ADD };

struct spot_migrate_cost {
    const struct spot_job_doc *job; /* borrowed */
    int p_max;
    double *params;      /* [(p_max + 1) * p_max]: of stage k of P at P * p_max + k */
    double *stage_s;     /* likewise: seconds to transfer the stage */
    double *slowest_s;   /* [p_max + 1]: the slowest stage of P */
    double *all_s;       /* [p_max + 1]: all stages of P, in sequence */
    double *first_param; /* [(p_max + 1) * (p_max + 1)]: parameters before stage k of P */
};

/* For up to p_max stages; if the job has fewer layers, larger grids must not be requested. */
void spot_migrate_cost_init(struct spot_migrate_cost *cost, const struct spot_job_doc *job,
                            int p_max);
void spot_migrate_cost_release(struct spot_migrate_cost *cost);

/* One transfer of that many bytes. */
double spot_migrate_p2p_s(const struct spot_job_cost *cost, double byte);
double spot_migrate_regroup_s(const struct spot_job_cost *cost, int d, int p,
                              enum spot_change_kind kind);
double spot_migrate_restart_s(const struct spot_job_cost *cost, int d, int p,
                              enum spot_change_kind kind);
double spot_migrate_intra_s(const struct spot_job_cost *cost, int d, int p);

static inline double spot_migrate_stage_s(const struct spot_migrate_cost *cost, int p, int k)
{
    return cost->stage_s[p * cost->p_max + k];
}

/* Parameters of stage k2 of p2 that stage k of p also holds. */
double spot_migrate_overlap(const struct spot_migrate_cost *cost, int p, int k, int p2, int k2);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_MIGRATE_COST_H */

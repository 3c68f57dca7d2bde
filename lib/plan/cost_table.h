/* SPDX-License-Identifier: MIT */
/* cost_table.h - expected seconds of every change of grid, computed on demand.
 *
 * A change is (n, from, lost, to): of n instances, those of the grid `from` and spares, `lost`
 * uniformly chosen ones vanish, and the job continues as the grid `to`. Grids are numbered in the
 * order of struct spot_throughput (D outer, P inner). The rules are Parcae's; see
 * lib/plan/train/repartition.h.
 */
#ifndef SPOT_PLAN_COST_TABLE_H
#define SPOT_PLAN_COST_TABLE_H

#include <stdbool.h>

#include "model/migrate_cost.h"
#include "model/throughput.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_COST_INSTANCES_MAX = 64, /* larger clusters need a window */
    SPOT_COST_LOST_MAX = 64,      /* victims of one change */
    SPOT_GRID_NONE = -1,          /* suspended: nothing runs */
};

struct spot_cost_table {
    const struct spot_job_doc *job;           /* borrowed */
    const struct spot_throughput *throughput; /* borrowed */
    struct spot_migrate_cost migrate;
    int n_low, n_max; /* counts before a change */
    int lost_max;     /* victims */
    int n_grid, p_max;
    int *d, *p;            /* [n_grid] */
    double *samples_per_s; /* [n_grid] */
    int *index;            /* [(n_max + 1) * (p_max + 1)]: grid of D x P, or SPOT_GRID_NONE */
    double *restart_s;     /* [n_grid * 2], by spot_change_kind */
    double **same;         /* [n_grid * (n_max + 1)]: hold[], move[] by victims, for `keep` */
    double **other;        /* [n_grid * (p_max + 1)]: fetch[] by victims, for P' */
    double **share;        /* [n_grid * (lost_max + 1)]: part of the draws by victims, for `most` */
    struct spot_cost_changes **row; /* [(n_max - n_low + 1) * n_grid * (lost_max + 1)] */
    double *resume;                 /* [n_grid]: from the checkpoint */
    double most_s;                  /* of spot_cost_most_s; 0: not computed yet */
    int *by_p;                      /* [n_grid] grids by number of stages */
    /* computed when outcomes are needed, else NULL: `same` and `other` for every number of victims
     * of the worst hit stage, [... * (lost_max + 1)] */
    double **same_most, **other_most;
    struct spot_cost_outcomes **outcomes;
    /* Set after init, before any query. */
    bool carries_rest; /* an unfinished migration is continued: spot_cost_total_s */
    int warm;          /* maximum spares beside a grid that mirror stages (warm_spare.h) */
    struct spot_warm_change ***warmed; /* [(warm + 1) * n_grid], filled on demand */
    double *warm_rate;                 /* [(warm + 1) * n_grid], filled with them */
    bool is_released; /* costs as in Parcae's release where it differs: the start broadcasts, and in
                         a repartition ties go to the lower instance */
};

/* A notice tells which instances leave, not only how many. What matters most is M, the number of
 * pipelines that survivors can still form without moving state (plan/liveput.h). */
struct spot_cost_outcomes {
    int n;          /* number of possible values of M */
    int *pipelines; /* [n] M, descending */
    double *prob;   /* [n] > 0, sums to 1 */
    int instances, from, lost;
    double *up_to;    /* [n] probability of M or more pipelines */
    double *weight;   /* [lost + 1] probability of so many victims in the grid */
    double restore_s; /* if no pipeline survives */
};

/* For up to throughput->n_max <= SPOT_COST_INSTANCES_MAX instances. */
void spot_cost_table_init(struct spot_cost_table *table, const struct spot_job_doc *job,
                          const struct spot_throughput *throughput);

/* For n_low..n_max instances, up to lost_max <= SPOT_COST_LOST_MAX victims, and the n_grid grids
 * grid[] of the throughput's order (ascending), for clusters of any size. */
void spot_cost_table_init_window(struct spot_cost_table *table, const struct spot_job_doc *job,
                                 const struct spot_throughput *throughput, int n_low, int n_max,
                                 int lost_max, const int *grid, int n_grid);
void spot_cost_table_release(struct spot_cost_table *table);

/* Index of grid D x P, or SPOT_GRID_NONE. */
int spot_cost_grid(const struct spot_cost_table *table, int d, int p);

/* Seconds to every grid, [n_grid]; borrowed. `from` is a grid that fits n, or SPOT_GRID_NONE: then
 * it is a restart from a checkpoint. 0 <= lost <= min(n, lost_max). */
const double *spot_cost_row(struct spot_cost_table *table, int n, int from, int lost);

/* A single entry of a row: the changes from a grid (borrowed), and the seconds to one grid. */
struct spot_cost_changes *spot_cost_changes(struct spot_cost_table *table, int n, int from,
                                            int lost);
double spot_cost_find(struct spot_cost_table *table, struct spot_cost_changes *changes, int to);

/* Values common to the changes from one grid, and their costs, computed on demand. */
struct spot_cost_changes {
    int from, lost, n;
    bool is_full;
    double restore_s, prob, *weight; /* [lost + 1] */
    double cost_s[]; /* [n_grid]; 0: not computed yet, or no cost, which is recomputed quickly */
};

/* Sizes of the arrays same, other and row. */
static inline size_t spot_cost_n_same(const struct spot_cost_table *t)
{
    return (size_t)t->n_grid * (size_t)(t->n_max + 1);
}

static inline size_t spot_cost_n_other(const struct spot_cost_table *t)
{
    return (size_t)t->n_grid * (size_t)(t->p_max + 1);
}

static inline size_t spot_cost_n_row(const struct spot_cost_table *t)
{
    return (size_t)(t->n_max - t->n_low + 1) * (size_t)t->n_grid * (size_t)(t->lost_max + 1);
}

static inline double spot_cost_of(struct spot_cost_table *table, struct spot_cost_changes *changes,
                                  int to)
{
    return changes->cost_s[to] > 0 ? changes->cost_s[to] : spot_cost_find(table, changes, to);
}

/* Lower bound, within rounding, on the seconds of a change to a grid: from any grid and with any
 * victims, except the same grid without victims. is_kept: P stays and D does not increase. */
double spot_cost_least_s(const struct spot_cost_table *table, int to, bool is_kept);

/* Upper bound on the seconds of any change from a grid. */
double spot_cost_most_s(struct spot_cost_table *table);

/* The same as spot_cost_row when M is known; borrowed; `from` is a grid. The expected seconds to a
 * grid, given the i-th M, are computed at each call; their mean over prob equals spot_cost_row. */
const struct spot_cost_outcomes *spot_cost_outcomes(struct spot_cost_table *table, int n, int from,
                                                    int lost);
double spot_cost_outcome_s(struct spot_cost_table *table, const struct spot_cost_outcomes *outcomes,
                           int i, int to);

/* Upper bound on the seconds of any change from a grid, whatever the up to `lost` victims; without
 * warm spares. */
double spot_cost_limit_s(const struct spot_cost_table *table, int lost);

/* Number of spares, beside a grid of n instances, that mirror stages. Samples per second of a grid
 * with that many: sending to them makes steps longer; samples_per_s[] without spares. */
int spot_cost_mirroring(struct spot_cost_table *table, int n, int grid);
double spot_cost_rate(struct spot_cost_table *table, int n, int grid);
/* Seconds of a change that the spares beside `from` save: the transfers to places that they take. 0
 * if P changes. The saving of not reading their state back is not included here, but in the
 * cost. */
double spot_cost_warm_saves_s(struct spot_cost_table *table, int n, int from, int lost, int to);

/* The start of a run on a grid. */
double spot_cost_start_s(const struct spot_cost_table *table, int to);

/* The cost for known victims: dead[k] of stage k's replicas. */
double spot_cost_drawn_s(struct spot_cost_table *table, int from, int lost, const int *dead,
                         int to);

/* A job that runs a grid. */
struct spot_cost_state {
    int n;          /* instances */
    int grid;       /* or SPOT_GRID_NONE */
    double carry_s; /* of an unfinished migration */
};

/* Seconds until `to` trains; cost_s is the time of the change alone. Without an unfinished
 * migration that is cost_s; if nothing changes, carry_s. If a change meets an unfinished migration:
 * with table->carries_rest nothing is dropped, so first the state that still has to move (the time
 * beyond the restart of the unfinished one), then the change, and at least what remained; otherwise
 * the change and another restart. */
static inline double spot_cost_total_s(const struct spot_cost_table *table,
                                       const struct spot_cost_state *state, int to, double cost_s)
{
    const double carry = state->carry_s;
    double begun = 0, total;

    if (carry <= 0)
        return cost_s;
    if (cost_s <= 0)
        return carry;
    if (!table->carries_rest)
        return cost_s + table->restart_s[2 * to + SPOT_CHANGE_REMOVE];
    if (state->grid != SPOT_GRID_NONE)
        begun = table->restart_s[2 * state->grid + SPOT_CHANGE_REMOVE];
    total = (carry > begun ? carry - begun : 0) + cost_s;
    return total > carry ? total : carry;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_COST_TABLE_H */

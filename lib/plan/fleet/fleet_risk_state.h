/* SPDX-License-Identifier: MIT */
/* fleet_risk_state.h - shared by the files of fleet_risk: merged scenarios, the master program, the
 * choice of splits. */
#ifndef SPOT_PLAN_FLEET_FLEET_RISK_STATE_H
#define SPOT_PLAN_FLEET_FLEET_RISK_STATE_H

#include "plan/fleet/fleet_recourse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scenarios that are equal for every useful count are merged. */
struct spot_fleet_scenes {
    size_t n;
    int32_t *there; /* [n][n_offer] */
    double *prob;   /* [n] */
    double *lost;   /* [n] unserved share of the last fleet evaluated */
    size_t *order;  /* [n_bad] those with an unserved share, largest first */
    size_t n_bad;
};
void spot_fleet_scenes_init(struct spot_fleet_scenes *scenes, const struct spot_fleet_risk *risk,
                            const double *most);
void spot_fleet_scenes_release(struct spot_fleet_scenes *scenes);

/* Capacity by type of counts x [n_offer], possibly fractional, in a scenario. */
void spot_fleet_capacity(const struct spot_fleet_risk *risk, const int32_t *there, const double *x,
                         double *capacity);

/* Mean of lost over the worst 1 - tail of the probability. */
double spot_fleet_scenes_cvar(struct spot_fleet_scenes *scenes, double tail);

/* Exact, for every scenario: fills lost. */
double spot_fleet_scenes_evaluate(struct spot_fleet_scenes *scenes, struct spot_fleet_recourse *r,
                                  const double *x);
/* A lower bound from the pool's cuts. */
double spot_fleet_scenes_below(struct spot_fleet_scenes *scenes,
                               const struct spot_fleet_recourse *r, const double *x);

/* True if the scenarios with the largest losses at the last counts prove a CVaR above `limit`:
 * their mean is a lower bound for any x. These few detect most fleets that are too small. */
bool spot_fleet_scenes_is_over(const struct spot_fleet_scenes *scenes,
                               const struct spot_fleet_recourse *r, const double *x, double limit);

struct spot_fleet_row {
    double *value, right; /* the row: sum over [n_offer] of value * x, plus excess, >= right */
    size_t loose;
};

/* Columns of the master: counts, their sums by type, unserved shares above the limit. */
struct spot_fleet_master {
    const struct spot_fleet_risk *risk;
    struct spot_fleet_recourse recourse;
    struct spot_fleet_scenes scenes;
    struct spot_lp *lp;
    size_t n_whole;             /* n_offer + types of several offers */
    size_t *sum;                /* [n_offer] column of its type's sum; 0: none */
    double *most;               /* [n_whole] no more is useful or allowed */
    double *capacity;           /* [n_type] scratch */
    double unit;                /* unit of unserved shares in the program */
    double usd_per_h_most;      /* of everything available */
    struct spot_fleet_row *row; /* [n_row] */
    size_t n_row, cap_row, n_made;
    size_t *cut; /* [scenes.n] the strongest one at the last answer */
    size_t *column;
    double *value;
};
void spot_fleet_master_init(struct spot_fleet_master *m, const struct spot_fleet_risk *risk);
/* Drop rows that have long been slack, if there are many. */
void spot_fleet_master_forget(struct spot_fleet_master *master);
void spot_fleet_master_release(struct spot_fleet_master *m);

/* Add a row that x of the program's last answer violates: from the pool's cuts, or, if none does
 * and `is_exact`, from new ones. Returns whether there was one. */
bool spot_fleet_master_separate(struct spot_fleet_master *m, bool is_exact);

/* Learns by how much the bound of a node rises when a column is split (pseudo-costs): the column
 * with the largest product of both sides is split next. */
#define SPOT_FLEET_WHOLE_WITHIN 1e-6

struct spot_fleet_split {
    size_t column;
    bool is_up;
    double part;  /* minimum movement of the column; 0: the node did not result from a split */
    double bound; /* of the node that was split */
};

struct spot_fleet_branch {
    size_t n_offer, n_whole;
    double *gain[2], *seen[2]; /* [n_whole] down and up: sum per unit; number of observations */
};
void spot_fleet_branch_init(struct spot_fleet_branch *branch, size_t n_offer, size_t n_whole);
void spot_fleet_branch_release(struct spot_fleet_branch *branch);

/* The bound of a node that resulted from a split. */
void spot_fleet_branch_learn(struct spot_fleet_branch *branch, const struct spot_fleet_split *split,
                             double bound);

/* The column of x [n_whole] to split, SIZE_MAX: all are integers. */
size_t spot_fleet_branch_column(const struct spot_fleet_branch *branch, const double *x);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_RISK_STATE_H */

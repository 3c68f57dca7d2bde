/* SPDX-License-Identifier: MIT */
/* fleet_risk_state.h - what the files of fleet_risk share: scenarios merged, the master program,
 * what to split. */
#ifndef SPOT_PLAN_FLEET_FLEET_RISK_STATE_H
#define SPOT_PLAN_FLEET_FLEET_RISK_STATE_H

#include "plan/fleet/fleet_recourse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scenarios that are equal as far as a count can be of use are one. */
struct spot_fleet_scenes {
    size_t n;
    int32_t *there; /* [n][n_offer] */
    double *prob;   /* [n] */
    double *lost;   /* [n] unserved share of the fleet evaluated last */
    size_t *order;  /* [n_bad] those that lose something, most first */
    size_t n_bad;
};
void spot_fleet_scenes_init(struct spot_fleet_scenes *scenes, const struct spot_fleet_risk *risk,
                            const double *most);
void spot_fleet_scenes_release(struct spot_fleet_scenes *scenes);

/* Capacity by type of counts x [n_offer], not always whole, in a scenario. */
void spot_fleet_capacity(const struct spot_fleet_risk *risk, const int32_t *there, const double *x,
                         double *capacity);

/* Mean of lost over the worst 1 - tail of the probability. */
double spot_fleet_scenes_cvar(struct spot_fleet_scenes *scenes, double tail);

/* Exact, of every scenario: fills lost. */
double spot_fleet_scenes_evaluate(struct spot_fleet_scenes *scenes, struct spot_fleet_recourse *r,
                                  const double *x);
/* What the cuts of the pool know it to be at least. */
double spot_fleet_scenes_below(struct spot_fleet_scenes *scenes,
                               const struct spot_fleet_recourse *r, const double *x);

/* Whether the scenarios that lost most at the counts looked at last prove more than `limit`: their
 * mean is below CVaR, whatever x. Most fleets that are too small are seen to be by these few. */
bool spot_fleet_scenes_is_over(const struct spot_fleet_scenes *scenes,
                               const struct spot_fleet_recourse *r, const double *x, double limit);

struct spot_fleet_row {
    double *value, right; /* [n_offer] sum value x + excess >= right */
    size_t loose;
};

/* Columns of the master: counts, their sums by type, what is unserved above the limit. */
struct spot_fleet_master {
    const struct spot_fleet_risk *risk;
    struct spot_fleet_recourse recourse;
    struct spot_fleet_scenes scenes;
    struct spot_lp *lp;
    size_t n_whole;             /* n_offer + n_type */
    double *most;               /* [n_whole] no more is of use or allowed */
    double *capacity;           /* [n_type] scratch */
    double unit;                /* in which the program counts unserved shares */
    double usd_per_h_most;      /* of all that may be had */
    struct spot_fleet_row *row; /* [n_row] */
    size_t n_row, cap_row, n_made;
    size_t *cut; /* [scenes.n] the one that knows most at the last answer */
    size_t *column;
    double *value;
};
void spot_fleet_master_init(struct spot_fleet_master *m, const struct spot_fleet_risk *risk);
/* Drop rows that have not bound for long, where there are many. */
void spot_fleet_master_forget(struct spot_fleet_master *master);
void spot_fleet_master_release(struct spot_fleet_master *m);

/* Add a row that x of the program's last answer violates: of the cuts of the pool, or, where none
 * does and `is_exact`, of new ones. Returns whether there was one. */
bool spot_fleet_master_separate(struct spot_fleet_master *m, bool is_exact);

/* By how much the bound of a node rises when a column is split there, learnt as nodes are solved
 * (pseudo-costs): the column of the most product of both sides is split next. */
#define SPOT_FLEET_WHOLE_WITHIN 1e-6

struct spot_fleet_split {
    size_t column;
    bool is_up;
    double part;  /* by which the column must at least move; 0: no split made this node */
    double bound; /* of the node that was split */
};

struct spot_fleet_branch {
    size_t n_offer, n_whole;
    double *gain[2], *seen[2]; /* [n_whole] down and up: summed, by whole unit; how often */
};
void spot_fleet_branch_init(struct spot_fleet_branch *branch, size_t n_offer, size_t n_whole);
void spot_fleet_branch_release(struct spot_fleet_branch *branch);

/* A node that came of a split has this bound. */
void spot_fleet_branch_learn(struct spot_fleet_branch *branch, const struct spot_fleet_split *split,
                             double bound);

/* The column of x [n_whole] to split, SIZE_MAX: all are whole. */
size_t spot_fleet_branch_column(const struct spot_fleet_branch *branch, const double *x);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_RISK_STATE_H */

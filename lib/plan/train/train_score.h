/* SPDX-License-Identifier: MIT */
/* train_score.h - the two solvers of train_plan.c that account for changes; used there only. */
#ifndef SPOT_PLAN_TRAIN_TRAIN_SCORE_H
#define SPOT_PLAN_TRAIN_TRAIN_SCORE_H

#include "plan/liveput_dp.h"
#include "plan/train_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* List the grids worth scoring, ascending in the throughput's order; the caller frees *grid. These
 * are all with a known speed if a cost table can hold them and they are not too many; otherwise the
 * fastest few for every count within WINDOW of the current one. Returns their number. */
int spot_train_grids(const struct spot_train_question *q, int **grid);

/* Instances of the current grid that are lost: by how much the grid exceeds `now`. */
int spot_train_missing(const struct spot_train_question *q);

/* Upper bound of the number of instances, from the forecast, the announcements, and the present or
 * recent count. */
int spot_train_most(const struct spot_train_question *q);

/* True if the leaving instances are named and few enough to be distinguished. */
bool spot_train_sees_victims(const struct spot_train_question *q);

/* True if a grid may be larger than the present count, because instances may be gained when it
 * begins. */
bool spot_train_may_exceed(const struct spot_train_question *q);

/* Data kept between questions about one job. */
struct spot_train_memory {
    bool has_table, has_dp, has_tail;
    struct spot_cost_table table;
    int low, high, lost_max, n_grid, *grid; /* of the table */
    struct spot_liveput_dp dp;
    bool has_notice, sees_losses, sees_victims; /* for which dp was initialised */
    struct spot_count_chain chain;              /* the chain for which dp has values */
    struct spot_count_law law;                  /* the law that the chain follows, if any */
};
void spot_train_forget(struct spot_train_memory *memory);

/* train_ahead.c: the dynamic program over the forecast's steps and beyond, as spot_train_score. */
void spot_train_score_ahead(struct spot_train_choice *choice, size_t n_choice,
                            const struct spot_train_question *q, struct spot_train_memory *memory,
                            double *bound, double *suspend);

/* Fill cost_s, samples_per_s and score of every choice for q->solver; the choices are among
 * grid[n_grid]. *bound: upper bound of samples_per_s. *suspend: the score of running nothing.
 * Returns 0, or -1 with *err. */
int spot_train_score(struct spot_train_choice *choice, size_t n_choice,
                     const struct spot_train_question *q, const int *grid, int n_grid,
                     double *bound, double *suspend, struct spot_err *err);

/* Value of samples_per_s at usd_per_h, for an objective in money: more is better. */
double spot_train_worth(const struct spot_train_question *q, double samples_per_s,
                        double usd_per_h);

struct spot_cost_table;

/* train_hold.c: for every choice how many spares to hold, under an objective in money. Each count
 * of instances held is evaluated separately: losses hit it in proportion to its share of the
 * instances, gains fill it up to that count and no further, and every instance is paid for while it
 * is present. Fills spares, samples_per_s and usd_per_h of the best count. */
void spot_train_hold(struct spot_train_choice *choice, size_t n_choice,
                     const struct spot_train_question *q, struct spot_cost_table *table);

/* The distribution of the next interval's net change for `held` of the present instances, of which
 * no more than `held` will be kept. Changes above size_max count as size_max; of those above
 * SPOT_CHAIN_SMALL_MAX only some sizes are used, others are divided between their two neighbours so
 * that the mean is preserved. */
struct spot_count_chain;
void spot_train_chain(const struct spot_change_dist *dist, int held, int size_max,
                      struct spot_count_chain *chain);

/* train_risk.c: is_shut[] of the dynamic program (liveput_dp.h) for a limit on the risk of losing
 * every replica of some stage in an interval. The risk is that of the forecast's losses, as far as
 * they hit `held` of the present instances, for every count. Freed by the caller. NULL if there is
 * no limit. */
struct spot_liveput_dp;
bool *spot_train_shut(const struct spot_train_question *q, int held,
                      const struct spot_liveput_dp *dp);

/* pmf[n_max + 1] of the count; writes that of one interval later to next[]. */
void spot_train_step_count(const struct spot_count_chain *chain, int n_max, const double *pmf,
                           double *next);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_TRAIN_SCORE_H */

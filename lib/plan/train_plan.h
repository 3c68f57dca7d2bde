/* SPDX-License-Identifier: MIT */
/* train_plan.h - the grid that a training job should run next, ranked alternatives, reasons. */
#ifndef SPOT_PLAN_TRAIN_PLAN_H
#define SPOT_PLAN_TRAIN_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "model/job_doc.h"
#include "model/plan_doc.h"
#include "model/throughput.h"
#include "plan/change_dist.h"
#include "plan/cost_table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_train_solver {
    SPOT_SOLVER_LIVEPUT, /* expected surviving throughput of the next interval, changes are free */
    SPOT_SOLVER_DP,      /* the stochastic dynamic program: plan/liveput_dp.h */
};

enum spot_train_objective {
    SPOT_OBJECTIVE_SAMPLES,        /* most samples from the available instances */
    SPOT_OBJECTIVE_USD_PER_SAMPLE, /* cheapest sample: machines that do not pay off are released */
    SPOT_OBJECTIVE_MIX, /* value of samples at usd_per_sample, less the cost of machines */
};

/* The last two also decide how many spares to keep: SPOT_SOLVER_DP compares the savings and the
 * cost of each number; under the other solvers spares save nothing. */

struct spot_train_question {
    const struct spot_job_doc *job;
    const struct spot_throughput *throughput;
    const struct spot_change_dist *dist;
    double time_s;
    int spares_min;       /* instances to keep out of the grid */
    double max_loss_prob; /* 1: no limit */
    enum spot_train_solver solver;
    enum spot_train_objective objective;
    double usd_per_sample; /* SPOT_OBJECTIVE_MIX: value of a sample */
    /* The current grid; 0: nothing runs, and a start is free. If the grid has more than dist->now
     * instances, the others have just been lost and it is not known which: the cost of the change
     * includes that loss. At most throughput->n_max instances. */
    int current_d, current_p;
    bool carries_rest; /* how a change is charged that meets an unfinished one, see cost_table.h */
    double pending_s;  /* remaining time of the change to the current grid */
    /* When the grid begins to run: now, with the present instances, or with the next interval,
     * whose changes occur at its beginning. announced[n_announced] are the known changes of the
     * coming intervals, < 0 lost. tells_losses, tells_gains: whether changes of that kind are known
     * before the grid is chosen. A grid that does not fit at its beginning is cut to fewer
     * pipelines. */
    bool is_next, tells_losses, tells_gains;
    const int *announced;
    int n_announced;
    bool is_terse; /* compute only the grid, without expectations and sentences */
    struct spot_train_memory *memory; /* memory shared by calls about one job; may be NULL */
    int warm;    /* maximum spares that mirror stages, now and later (train/warm_spare.h) */
    int leaving; /* instances of `now` that are under notice */
    int horizon; /* number of intervals that expectations cover; the job's look-ahead */
    /* up to this number of instances all grids and counts are considered; 0: as many as a cost
     * table can hold */
    int exact_max;
};

/* The expected results of one grid. */
struct spot_train_choice {
    int d, p;
    int spares; /* instances kept beside the grid; with an objective in money the rest leave */
    double raw; /* samples_per_s without losses */
    int warm;   /* of the spares, those that mirror stages */
    double mirror_share;  /* share of a step's time for sending to them */
    double warm_saves_s;  /* average saving in the change after one loss */
    double cost_s;        /* seconds of the change from the current grid */
    double usd_per_h;     /* of the grid and its spares; -1 without a price */
    double score;         /* the maximised objective */
    double samples_per_s; /* expected: after the next interval's losses, or over the horizon */
    double loss_prob;     /* some stage loses every replica in the next interval */
    double break_prob;    /* fewer than d pipelines are recoverable */
};

/* Owns everything that its document points to, except the job's name. */
struct spot_train_plan {
    struct spot_plan_doc doc;
    struct spot_train_choice *choice; /* [n_choice], best first */
    size_t n_choice;
    /* one of doc.why: a warning that the speeds compared are uncertain; NULL: none */
    const char *caveat;
    char **text; /* the sentences of doc.why and of the alternatives */
    size_t n_text, text_cap;
};

/* Cached tables and values for further questions about one job and throughput. Answers do not
 * depend on it. */
struct spot_train_memory *spot_train_memory_new(void);
void spot_train_memory_free(struct spot_train_memory *memory);

/* Answer the question. SPOT_SOLVER_LIVEPUT maximises the expected surviving throughput
 *     sum over (lost, gained) of prob * sum over m of P[M = m] * throughput(m, P),
 * M the recoverable pipelines of the grid among now - lost instances (plan/liveput.h); the other
 * two account for every change; for more than SPOT_COST_INSTANCES_MAX instances they consider a
 * window of counts and grids around the current ones. If no grid fits the answer is to suspend.
 * Returns 0, or -1 with *err: SPOT_EDATA if the objective needs a price that the job does not have,
 * or too many instances leave at once. */
int spot_train_plan_make(struct spot_train_plan *plan, const struct spot_train_question *q,
                         struct spot_err *err);

/* True if all grids and counts would take too long, so that only a window of them is considered, as
 * for more than SPOT_COST_INSTANCES_MAX instances. The program's work is about sweeps * counts *
 * grids^2 * outcomes, with up to 100 sweeps; counts * grids^2 is what is bounded. */
bool spot_train_is_cut(const struct spot_train_question *q);
void spot_train_plan_release(struct spot_train_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_PLAN_H */

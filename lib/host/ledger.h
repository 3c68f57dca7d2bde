/* SPDX-License-Identifier: MIT */
/* ledger.h - the samples that the ranks of one node have taken, and which commits are allowed.
 *
 * Which samples a step has is arithmetic (ledger_plan.h), and each is read exactly once an epoch if
 * the steps that end up in the state are consecutive. This is ensured here: a round begins at the
 * step of the state that it continues from; no earlier step is given out again, and a step is not
 * committed before each rank has taken all steps up to it.
 *
 * A rank may take steps in any order, several at once, and repeatedly, as prefetching data loaders
 * do. It may be SPOT_LEDGER_AHEAD_MAX steps ahead of the first one that it has not taken.
 *
 * Rank and world count the ranks that share the samples. Ranks that work on the same samples (model
 * parallel) ask as the same rank.
 */
#ifndef SPOT_HOST_LEDGER_H
#define SPOT_HOST_LEDGER_H

#include <stdint.h>

#include "common/err.h"
#include "host/ledger_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_LEDGER_AHEAD_MAX = 1024 };

struct spot_ledger;

struct spot_ledger *spot_ledger_new(void);
void spot_ledger_free(struct spot_ledger *ledger); /* may be NULL */

/* A round of `world` ranks, `n_local` of them here (1 to world), continues from the state of
 * `step`: that many steps are done. -1: not known, since the trainer keeps its state elsewhere;
 * then a rank continues from the step that it asks for first. The plan is kept. */
void spot_ledger_begin(struct spot_ledger *ledger, int64_t n_local, int64_t world, int64_t step);

/* The first plan counts; declaring the same again is allowed. Returns 0, or -1 with *err
 * (SPOT_EDATA): as spot_ledger_plan_check, or it contradicts the first one. */
int spot_ledger_declare(struct spot_ledger *ledger, const struct spot_ledger_plan *plan,
                        struct spot_err *err);
/* NULL: none was declared. */
const struct spot_ledger_plan *spot_ledger_plan(const struct spot_ledger *ledger);

/* The share of a rank in a step; -1: the first that it has not taken. Returns 0, or -1 with *err
 * (SPOT_EDATA), and nothing is taken: no plan, as spot_ledger_plan_share, a world that differs from
 * earlier requests of the round, more ranks than are here, a step that is committed or too far
 * ahead. */
int spot_ledger_take(struct spot_ledger *ledger, int64_t rank, int64_t world, int64_t step,
                     struct spot_ledger_share *share, struct spot_err *err);

/* Check that a state with `step` completed steps may be committed. All ranks that requested samples
 * in this round must have taken all steps before it, and no later step may be committed already. A
 * round without requests may commit any step. Returns 0, or -1 with *err (SPOT_EDATA), which names
 * rank and step. */
int spot_ledger_may_commit(const struct spot_ledger *ledger, int64_t step, struct spot_err *err);
/* The state with `step` completed steps has been committed. */
void spot_ledger_committed(struct spot_ledger *ledger, int64_t step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_LEDGER_H */

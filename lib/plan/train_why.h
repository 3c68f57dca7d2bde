/* SPDX-License-Identifier: MIT */
/* train_why.h - composes the sentences of a plan; used in lib/plan/train_* only. */
#ifndef SPOT_PLAN_TRAIN_WHY_H
#define SPOT_PLAN_TRAIN_WHY_H

#include "plan/train_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Instances that a grid can use: those not under notice. */
int spot_train_staying(const struct spot_train_question *q);

/* Returns a sentence owned by the plan; _why also adds it to doc.why. */
const char *spot_train_say(struct spot_train_plan *plan, const char *fmt, ...) SPOT_PRINTF(2, 3);
void spot_train_because(struct spot_train_plan *plan, const char *sentence);

/* The source of a choice's speed: "profile" and so on, as in spot.plan/1; and as the end of a
 * sentence, "" for measured speeds. */
const char *spot_train_source(const struct spot_train_question *q,
                              const struct spot_train_choice *c);
const char *spot_train_by_what(const struct spot_train_question *q,
                               const struct spot_train_choice *c);

/* doc.why of plan->choice[0], or of a plan to suspend; plan->caveat. */
void spot_train_why(struct spot_train_plan *plan, const struct spot_train_question *q);
void spot_train_why_suspend(struct spot_train_plan *plan, const struct spot_train_question *q);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_WHY_H */

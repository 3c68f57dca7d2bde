/* SPDX-License-Identifier: MIT */
/* share_value.h - what each way to run a job is worth for the round; private to share_*.c. */
#ifndef SPOT_PLAN_SHARE_SHARE_VALUE_H
#define SPOT_PLAN_SHARE_SHARE_VALUE_H

#include "plan/share_round.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocate *choice and fill its values. Returns 0, or -1 with *err and nothing allocated. */
int share_values(const struct spot_share_problem *problem, const struct spot_share_way *way,
                 size_t n_way, const struct spot_share_terms *terms,
                 struct spot_share_choice *choice, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SHARE_SHARE_VALUE_H */

/* SPDX-License-Identifier: MIT */
/* plan_buy.h - `buy` of a spot.plan/1 of kind fleet: the machines to hold. */
#ifndef SPOT_MODEL_PLAN_BUY_H
#define SPOT_MODEL_PLAN_BUY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_PLAN_BUY_ROWS = 10000, SPOT_PLAN_BUY_MACHINES = 1000000000 };

/* Strings are borrowed from the document. Zone "" is any zone. */
struct spot_plan_buy {
    const char *zone, *type;
    bool is_on_demand;
    int64_t count; /* 0..SPOT_PLAN_BUY_MACHINES, and so is the sum of all rows */
};

/* Read all rows of a loaded document; the caller frees *buy. Returns 0, or -1 with *err
 * (SPOT_EDATA: another document, another kind, or an invalid row) and *buy NULL. */
int spot_plan_buy_read(const struct spot_json_doc *doc, struct spot_plan_buy **buy, size_t *n,
                       struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_PLAN_BUY_H */

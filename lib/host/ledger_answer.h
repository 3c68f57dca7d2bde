/* SPDX-License-Identifier: MIT */
/* ledger_answer.h - a request for samples, as JSON, and its answer (docs/formats/ledger.md).
 *
 *   {"step":7,"rank":0,"world":2,"dataset_size":10,"global_batch":4,"seed":1}
 *   {..."step":7,"epoch":2,"rank":0,"world":2,"total":4,
 *    "ranges":[{"epoch":2,"from":8,"to":10}],"samples":[3,0]}
 */
#ifndef SPOT_HOST_LEDGER_ANSWER_H
#define SPOT_HOST_LEDGER_ANSWER_H

#include "common/json.h"
#include "host/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_LEDGER_LISTED_MAX = 16384 }; /* samples in an answer */

/* Read an object's fields of a plan into *plan; absent ones are unchanged. Returns 1, 0 if it
 * has none of them, -1 with *err (SPOT_EDATA), also if the result is invalid
 * (spot_ledger_plan_check). */
int spot_ledger_plan_read(const struct spot_json_doc *doc, struct spot_ledger_plan *plan,
                          struct spot_err *err);

struct spot_ledger_question {
    int64_t step; /* -1: the next one */
    int64_t rank, world;
    struct spot_ledger_plan plan;
    bool has_plan;  /* it declares a plan */
    bool is_listed; /* samples, not only ranges */
};

/* From doc->root. `known` is the plan declared before, for fields that the request leaves out;
 * NULL: none. Returns 0, or -1 with *err, as spot_ledger_plan_read. */
int spot_ledger_question_read(struct spot_ledger_question *question,
                              const struct spot_json_doc *doc, const struct spot_ledger_plan *known,
                              struct spot_err *err);

/* Declare the plan of a request and take its share. Returns 0, or -1 with *err (SPOT_EDATA): as
 * spot_ledger_declare and spot_ledger_take, also for a share of more than SPOT_LEDGER_LISTED_MAX
 * samples if they are to be listed. */
int spot_ledger_question_take(const struct spot_ledger_question *question,
                              struct spot_ledger *ledger, struct spot_ledger_share *share,
                              struct spot_err *err);
/* Write the share, as members of the object open in jw. */
void spot_ledger_question_answer(const struct spot_ledger_question *question,
                                 const struct spot_ledger *ledger,
                                 const struct spot_ledger_share *share, struct spot_jw *jw);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_LEDGER_ANSWER_H */

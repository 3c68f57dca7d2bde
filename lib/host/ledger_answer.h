/* SPDX-License-Identifier: MIT */
/* ledger_answer.h - a question for samples, as JSON, and its answer (docs/formats/agent.md).
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

/* Answer the question in doc->root: members into the object that is open in jw. A question may
 * declare the plan as well. Returns 0, or -1 with *err (SPOT_EDATA), as spot_ledger_declare and
 * spot_ledger_take, also for a share of more than SPOT_LEDGER_LISTED_MAX samples where they are to
 * be listed: then nothing was written. */
int spot_ledger_answer(struct spot_ledger *ledger, const struct spot_json_doc *doc,
                       struct spot_jw *jw, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_LEDGER_ANSWER_H */

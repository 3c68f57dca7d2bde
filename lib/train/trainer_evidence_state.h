/* SPDX-License-Identifier: MIT */
/* trainer_evidence_state.h - evidence: the chain of commits, votes on the state and repeated
 * microbatches; private to lib/train/trainer*.c. */
#ifndef SPOT_TRAIN_TRAINER_EVIDENCE_STATE_H
#define SPOT_TRAIN_TRAINER_EVIDENCE_STATE_H

#include "common/buf.h"
#include "common/json_writer.h"
#include "train/trainer_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* trainer_chain.c: continue the chain of a log; return the chain of the commits up to a step, "" if
 * unknown; add a commit to the chain and to the commit's event, which may be NULL. */
void spot_trainer_open_chain(struct spot_trainer *c);
void spot_trainer_chain_hex(const struct spot_trainer *c, int64_t step, char hex[SPOT_HASH_HEX]);
void spot_trainer_put_chain(struct spot_trainer *c, struct spot_jw *jw,
                            const struct spot_step_parameters *parameters);

/* trainer_replicas.c: compare the hashes of state and sums that the holders of each bundle report.
 * The majority is right, and is written to vote[]. Returns 0; 1 if a step must be computed again;
 * -1 with *err if there is no majority, so that no member can be convicted. */
int spot_trainer_compare_holders(struct spot_trainer *c, struct spot_err *err);
/* The state after a step is hashed in the next step's vote. After the last step a separate vote is
 * needed: whether it is still due; begin it; take a member's vote, 1 if malformed; evaluate it when
 * all have voted. Those that return int return 0, or -1 with *err. */
bool spot_trainer_must_confirm(const struct spot_trainer *c);
void spot_trainer_confirm(struct spot_trainer *c);
int spot_trainer_take_states(struct spot_trainer *c, uint32_t id, struct spot_wire_in *in);
int spot_trainer_confirmed(struct spot_trainer *c, struct spot_err *err);
/* A member was convicted of a fault: log it, set the member aside and end the epoch. */
struct spot_fault_found {
    const char *what; /* "activation", "gradient", "sum", "state" */
    int64_t stage;    /* -1: not of a stage */
    int bundle, tensor;
    int64_t element, difference; /* the only element that differs; -1: several */
    int64_t n_other;             /* members that reported another value */
};
int spot_trainer_convict(struct spot_trainer *c, uint32_t id, const struct spot_fault_found *found,
                         struct spot_err *err);

/* trainer_convicted.c: set aside the members that an earlier run of the job convicted; record one
 * for a later run. */
void spot_trainer_recall_convicted(struct spot_trainer *c);
void spot_trainer_note_convicted(const struct spot_trainer *c, const char *name);

/* trainer_verify.c: before a step, choose what is checked in it; append that to the order to a
 * member of pipeline d, and read the tokens of `again`. */
void spot_trainer_verify_step(struct spot_trainer *c);
int spot_trainer_put_check(struct spot_trainer *c, uint32_t d, bool reads, struct spot_buf *out,
                           struct spot_err *err);
/* Read the reports at the end of a vote; sets bad for malformed ones. */
void spot_trainer_take_reports(struct spot_trainer *c, uint32_t id, struct spot_wire_in *in);
/* Evaluate the reports when all have voted: 0 if nothing differs, 1 if the step must be computed
 * again, -1 with *err. */
int spot_trainer_verify_votes(struct spot_trainer *c, struct spot_err *err);
/* The epoch is over: drop checks in progress. */
void spot_trainer_verify_quiesced(struct spot_trainer *c);
void spot_trainer_verify_release(struct spot_trainer *c);
/* Write the checks' part of the status and the metrics. */
void spot_trainer_verify_status(const struct spot_trainer *c, struct spot_jw *jw);
void spot_trainer_verify_metrics(const struct spot_trainer *c, struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_EVIDENCE_STATE_H */

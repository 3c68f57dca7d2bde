/* SPDX-License-Identifier: MIT */
/* trainer_evidence_state.h - what a commit proves; private to lib/train/trainer*.c. */
#ifndef SPOT_TRAIN_TRAINER_EVIDENCE_STATE_H
#define SPOT_TRAIN_TRAINER_EVIDENCE_STATE_H

#include "common/buf.h"
#include "common/json_writer.h"
#include "train/trainer_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* trainer_chain.c: continue the chain of a log; that of the commits up to a step, "": none is
 * known; add a commit to it, and to its event, which may be NULL. */
void spot_trainer_open_chain(struct spot_trainer *c);
void spot_trainer_chain_hex(const struct spot_trainer *c, int64_t step, char hex[SPOT_HASH_HEX]);
void spot_trainer_put_chain(struct spot_trainer *c, struct spot_jw *jw,
                            const struct spot_step_parameters *parameters);

/* trainer_replicas.c: of what the holders of each bundle say of state and sums, what most say is
 * right, and stands in vote[]. Returns 0; 1: a step must be computed again; -1 with *err: nobody
 * can be accused. */
int spot_trainer_compare_holders(struct spot_trainer *c, struct spot_err *err);
/* No step follows, in whose vote the state is hashed: is that still to be voted on? Do that; a
 * member's vote, 1: malformed; all have voted: it is as it should be, or a member was convicted.
 * Return 0, or -1 with *err. */
bool spot_trainer_must_confirm(const struct spot_trainer *c);
void spot_trainer_confirm(struct spot_trainer *c);
int spot_trainer_take_states(struct spot_trainer *c, uint32_t id, struct spot_wire_in *in);
int spot_trainer_confirmed(struct spot_trainer *c, struct spot_err *err);
/* A member was proved to be at fault: it is logged, and set aside; the epoch will be broken. tensor
 * < 0: of no tensor. */
struct spot_fault_found {
    const char *what; /* "activation", "gradient", "sum", "state" */
    int64_t stage;    /* -1: not of a stage */
    int bundle, tensor;
    int64_t element, difference; /* the only element that differs; -1: several */
    int64_t n_other;             /* how many say otherwise */
};
int spot_trainer_convict(struct spot_trainer *c, uint32_t id, const struct spot_fault_found *found,
                         struct spot_err *err);

/* trainer_convicted.c: those that an earlier run of the job convicted are set aside; and note one,
 * for a later run. */
void spot_trainer_recall_convicted(struct spot_trainer *c);
void spot_trainer_note_convicted(const struct spot_trainer *c, const char *name);

/* trainer_verify.c: before a step: what is checked in it; append it to the order to a member of
 * pipeline d, and read the tokens of `again`. */
void spot_trainer_verify_step(struct spot_trainer *c);
int spot_trainer_put_check(struct spot_trainer *c, uint32_t d, bool reads, struct spot_buf *out,
                           struct spot_err *err);
/* The end of a vote: sets bad for what is not a report. */
void spot_trainer_take_reports(struct spot_trainer *c, uint32_t id, struct spot_wire_in *in);
/* All have voted: returns 0 if nothing differs, 1 if the step is computed again, -1 with *err. */
int spot_trainer_verify_votes(struct spot_trainer *c, struct spot_err *err);
/* The epoch is over: what was under way is forgotten. */
void spot_trainer_verify_quiesced(struct spot_trainer *c);
void spot_trainer_verify_release(struct spot_trainer *c);
/* Its part of the status and the metrics. */
void spot_trainer_verify_status(const struct spot_trainer *c, struct spot_jw *jw);
void spot_trainer_verify_metrics(const struct spot_trainer *c, struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_EVIDENCE_STATE_H */

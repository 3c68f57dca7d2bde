/* SPDX-License-Identifier: MIT */
/* trainer_step_state.h - rounds, and validation between rounds; private to lib/train/trainer*.c. */
#ifndef SPOT_TRAIN_TRAINER_STEP_STATE_H
#define SPOT_TRAIN_TRAINER_STEP_STATE_H

#include "train/trainer_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* trainer_observe.c: report a commit to the observer and carry out its requests. */
void spot_trainer_observe(struct spot_trainer *c, double step_s);
int spot_trainer_probed(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame);

/* trainer_validate.c: open the validation data, if any; report the validation loss. */
int spot_trainer_open_val(struct spot_trainer *c, struct spot_err *err);
void spot_trainer_recall_val(struct spot_trainer *c);
/* Between two steps: whether the validation loss of the current weights is due; begin the next
 * batch; take a computed one. Those that return int return 0, or -1 with *err. */
bool spot_trainer_val_is_due(const struct spot_trainer *c);
int spot_trainer_validate(struct spot_trainer *c, struct spot_err *err);
int spot_trainer_validated(struct spot_trainer *c, struct spot_err *err);

/* trainer_step.c: send each active member the tokens of its microbatches, where `read` gives those
 * of sequence k of microbatch j, with this order. */
typedef int spot_trainer_read(const struct spot_trainer *c, int64_t j, int64_t k, uint32_t *token,
                              struct spot_err *err);
int spot_trainer_send_tokens(struct spot_trainer *c, uint32_t order, spot_trainer_read *read,
                             struct spot_err *err);
int spot_trainer_begin(void *job, struct spot_view *view, struct spot_err *err);
int spot_trainer_take_vote(void *job, struct spot_view *view, struct spot_peer *peer, int64_t step,
                           struct spot_wire_in *in, struct spot_err *err);
int spot_trainer_commit(void *job, struct spot_view *view, enum spot_verdict *verdict,
                        struct spot_err *err);
void spot_trainer_quiesced(void *job, struct spot_view *view);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_STEP_STATE_H */

/* SPDX-License-Identifier: MIT */
/* trainer_evidence_state.h - what a commit proves; private to lib/train/trainer*.c. */
#ifndef SPOT_TRAIN_TRAINER_EVIDENCE_STATE_H
#define SPOT_TRAIN_TRAINER_EVIDENCE_STATE_H

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

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_EVIDENCE_STATE_H */

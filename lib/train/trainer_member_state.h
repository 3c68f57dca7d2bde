/* SPDX-License-Identifier: MIT */
/* trainer_member_state.h - members and the messages that they send; private to
 * lib/train/trainer*.c. */
#ifndef SPOT_TRAIN_TRAINER_MEMBER_STATE_H
#define SPOT_TRAIN_TRAINER_MEMBER_STATE_H

#include "train/trainer_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* trainer_member.c: the trainer's object of a member; NULL for one that has left. */
struct spot_trainer_member *spot_trainer_member(const struct spot_trainer *c, uint32_t id);
bool spot_trainer_is_aside(const struct spot_trainer *c, uint32_t id);
int spot_trainer_accept(void *job, struct spot_peer *peer, bool was_ours, struct spot_wire_in *in,
                        char *why, size_t n);
void spot_trainer_welcome(void *job, struct spot_peer *peer, struct spot_buf *out);
int spot_trainer_report(void *job, struct spot_peer *peer, struct spot_wire_in *in);
void spot_trainer_forget(void *job, struct spot_peer *peer);
bool spot_trainer_owes(void *job, const struct spot_peer *peer, bool as_machine);
int spot_trainer_message(void *job, struct spot_peer *peer, const struct spot_frame *frame,
                         struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_MEMBER_STATE_H */

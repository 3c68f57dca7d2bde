/* SPDX-License-Identifier: MIT */
/* trainer_durable_state.h - what of the state is written, and where; private to
 * lib/train/trainer*.c. */
#ifndef SPOT_TRAIN_TRAINER_DURABLE_STATE_H
#define SPOT_TRAIN_TRAINER_DURABLE_STATE_H

#include "train/trainer_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* trainer_state.c */
void spot_trainer_save(struct spot_trainer *c); /* request a durable generation from the holders */
bool spot_trainer_save_is_due(const struct spot_trainer *c);
double
spot_trainer_lag_s(const struct spot_trainer *c); /* work that would be lost with all members */
/* 1 for a malformed snapshot or report of a file: the member must be dropped. */
int spot_trainer_snapshot(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame,
                          struct spot_err *err);
int spot_trainer_written(struct spot_trainer *c, const struct spot_frame *frame);
/* An epoch is over, or the job
 * continues from step `most`: a generation of a newer step is given up, as is one that only lost
 * members could complete. Does one of this step still come from present members? */
void spot_trainer_settle_savers(struct spot_trainer *c, int64_t most);
bool spot_trainer_awaits_savers(const struct spot_trainer *c, int64_t step);
int spot_trainer_store_news(void *job, struct spot_err *err);
/* A member was convicted by the vote on the state of this step: a generation of it that was asked
 * of that member, too, does not stay; id 0: none does, holders differ and nobody can be accused. */
void spot_trainer_distrust(struct spot_trainer *c, uint32_t id);
/* Ask one holder to send a bundle. */
void spot_trainer_ask_bundle(struct spot_trainer *c, int bundle);
/* For the final state: request what was not yet requested and now fits into memory. */
void spot_trainer_ask_more(struct spot_trainer *c);

/* The position in the machine of who sends a bundle, or the number of members. */
size_t spot_trainer_holder(const struct spot_trainer *c, int bundle);

/* trainer_show.c: weights for those who follow the job. A client names a step; when it, or a later
 * one, has committed, the holders send their weights, from memory, before the next step changes
 * them, and the coordinator keeps them until the next that is asked for is whole. Nothing becomes
 * durable by that. */
/* Before a step begins: ask the holders, if somebody waits for the one that has committed. */
void spot_trainer_show(struct spot_trainer *c);
/* A holder's answer; 1 for a malformed one. */
int spot_trainer_shown(struct spot_trainer *c, const struct spot_frame *frame);
/* The newest step that is whole, -1: none; from now on `wanted` is waited for, unless it is 0. */
int64_t spot_trainer_watch(struct spot_trainer *c, int64_t wanted);
/* Weights of it, as in SHOWN; NULL: they are not here. */
const struct spot_buf *spot_trainer_look(const struct spot_trainer *c, int64_t step,
                                         uint32_t bundle);
void spot_trainer_end_show(struct spot_trainer *c);

/* trainer_result.c: hash and file of the final state, a bundle at a time: from the disk, or, if it
 * cannot be there, as members send them. Begin; a bundle has arrived; the one awaited, -1: none;
 * give up. */
int spot_trainer_pull(struct spot_trainer *c, struct spot_err *err);
int spot_trainer_pulled(struct spot_trainer *c, const struct spot_frame *frame,
                        struct spot_err *err);
int spot_trainer_pulling(const struct spot_trainer *c);
void spot_trainer_drop_result(struct spot_trainer *c);
int spot_trainer_finish(struct spot_trainer *c, struct spot_trainer_result *result,
                        struct spot_err *err);

/* trainer_export.c: a client's question; is a client waiting for a generation? */
int spot_trainer_client(void *job, const struct spot_frame *frame, struct spot_buf *answer,
                        uint64_t *status, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_DURABLE_STATE_H */

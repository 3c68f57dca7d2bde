/* SPDX-License-Identifier: MIT */
/* trainer_durable_state.h - durable generations, followers, export and the final result; private to
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
double spot_trainer_lag_s(
    const struct spot_trainer *c); /* seconds of work that would be lost with all members */
/* Take a snapshot, or a report of a written file; 1 if malformed: the member must be dropped. */
int spot_trainer_snapshot(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame,
                          struct spot_err *err);
int spot_trainer_written(struct spot_trainer *c, const struct spot_frame *frame);
/* An epoch is over, or the job continues from step `most`: give up a generation of a newer step,
 * and one that only lost members could complete. The second function: true if the present members
 * can still complete a generation of a step. */
void spot_trainer_settle_savers(struct spot_trainer *c, int64_t most);
bool spot_trainer_awaits_savers(const struct spot_trainer *c, int64_t step);
int spot_trainer_store_news(void *job, struct spot_err *err);
/* A member was convicted by the vote on the state of this step: discard a generation of that step
 * to which the member contributed. id 0: holders differ without a majority; discard any. */
void spot_trainer_distrust(struct spot_trainer *c, uint32_t id);
/* Ask one holder to send a bundle. */
void spot_trainer_ask_bundle(struct spot_trainer *c, int bundle);
/* For the final state: request further bundles as memory allows. */
void spot_trainer_ask_more(struct spot_trainer *c);

/* Index in the machine of the member that is to send a bundle; the number of members if there is
 * none. */
size_t spot_trainer_holder(const struct spot_trainer *c, int bundle);

/* trainer_show.c: weights for clients that follow the job. A client names a step. When that step or
 * a later one has committed, the holders send their weights from memory, before the next step
 * changes them; the coordinator keeps them until the next requested set is complete. Nothing
 * becomes durable by it. */
/* Before a step begins: ask the holders if a client waits for the committed step. */
void spot_trainer_show(struct spot_trainer *c);
/* Take a holder's answer; 1 if malformed. */
int spot_trainer_shown(struct spot_trainer *c, const struct spot_frame *frame);
/* The newest complete step, -1: none. From now on a client waits for `wanted`, unless it is 0. */
int64_t spot_trainer_watch(struct spot_trainer *c, int64_t wanted);
/* Weights of a bundle at that step, as in SHOWN; NULL if not available. */
const struct spot_buf *spot_trainer_look(const struct spot_trainer *c, int64_t step,
                                         uint32_t bundle);
void spot_trainer_end_show(struct spot_trainer *c);

/* trainer_result.c: hash and file of the final state, a bundle at a time: from the disk, or from
 * members if there is no durable state. Begin; a bundle has arrived; the awaited bundle, -1: none;
 * give up. */
int spot_trainer_pull(struct spot_trainer *c, struct spot_err *err);
int spot_trainer_pulled(struct spot_trainer *c, const struct spot_frame *frame,
                        struct spot_err *err);
int spot_trainer_pulling(const struct spot_trainer *c);
void spot_trainer_drop_result(struct spot_trainer *c);
int spot_trainer_finish(struct spot_trainer *c, struct spot_trainer_result *result,
                        struct spot_err *err);

/* trainer_export.c: answer a client's request; whether a client waits for a generation. */
int spot_trainer_client(void *job, const struct spot_frame *frame, struct spot_buf *answer,
                        uint64_t *status, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_DURABLE_STATE_H */

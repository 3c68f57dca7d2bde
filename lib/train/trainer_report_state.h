/* SPDX-License-Identifier: MIT */
/* trainer_report_state.h - what the job reports; private to lib/train/trainer*.c. */
#ifndef SPOT_TRAIN_TRAINER_REPORT_STATE_H
#define SPOT_TRAIN_TRAINER_REPORT_STATE_H

#include "train/trainer_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* trainer_status.c */
void spot_trainer_status(void *job, struct spot_jw *jw);
bool spot_trainer_status_member(void *job, const struct spot_peer *peer, struct spot_jw *jw);
void spot_trainer_show_progress(struct spot_trainer *c);
double spot_trainer_lr(const struct spot_trainer *c); /* of the current step */

/* trainer_meter.c: no effect if not enabled. A step has committed, this long after the previous
 * one; an epoch begins, all transfers are complete; make the documents when they are due, or now,
 * at the end of the job. */
int spot_trainer_open_meter(struct spot_trainer *c, struct spot_err *err);
void spot_trainer_meter_step(struct spot_trainer *c, double step_s);
void spot_trainer_meter_formed(struct spot_trainer *c);
void spot_trainer_publish(struct spot_trainer *c, bool is_last);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_REPORT_STATE_H */

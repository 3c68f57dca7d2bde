/* SPDX-License-Identifier: MIT */
/* trainer_move_state.h - when and how state moves between members; private to lib/train/trainer*.c.
 */
#ifndef SPOT_TRAIN_TRAINER_MOVE_STATE_H
#define SPOT_TRAIN_TRAINER_MOVE_STATE_H

#include "train/trainer_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* trainer_restore.c: state that no member holds is read by the members that need it. A member
 * requests what it cannot read. Requests are answered in their order, within a fixed limit of
 * memory, again whenever the connection accepts more. Reset when an epoch is formed; whether there
 * are requests to answer; take a member's request, 1 if the bundle is not its own. */
void spot_trainer_restore_anew(struct spot_trainer *c);
void spot_relay_release(struct spot_frame_relay *relay);
int spot_trainer_unread(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame,
                        struct spot_err *err);
int spot_trainer_restore(struct spot_trainer *c, struct spot_err *err);
bool spot_trainer_is_restoring(const struct spot_trainer *c);

/* Below this the time measures messages, not the link. */
enum { SPOT_TRAINER_RATE_BYTE = 32 << 20 };

/* trainer_rate.c: update the rate in bytes/s of a member's link, 0 if never measured, when `byte`
 * bytes arrived in took_s; the rate for the planner, given the best rate of all. */
double spot_trainer_rate_seen(double before_byte_per_s, double byte, double took_s);
double spot_trainer_rate_for_plan(double best_byte_per_s, double mine_byte_per_s);
/* A member has received everything that was moved to it; write the rate of its link and of the best
 * one. */
void spot_trainer_note_moved(const struct spot_trainer *c, struct spot_trainer_member *who);
double spot_trainer_byte_per_s(const struct spot_trainer *c, const struct spot_trainer_member *who);
double spot_trainer_best_byte_per_s(const struct spot_trainer *c);

/* trainer_worth.c: an epoch begins. Whether it is better to move n_byte, the most that a member
 * lacks, ahead of the new grid. Whether a larger grid does not pay for its pause, given how often
 * members are lost; examined again at each commit. */
void spot_trainer_note_formed(struct spot_trainer *c);
bool spot_trainer_prefers_precopy(struct spot_trainer *c, const struct spot_grid *now,
                                  const struct spot_grid *then, double n_byte);
bool spot_trainer_puts_off(struct spot_trainer *c, const struct spot_grid *then);

/* trainer_precopy.c: how many bundles are pre-copied at a time, initially. The form is that of a
 * new grid, *old the previous one. If the old grid can continue during the moves, and pre-copies
 * pay off, the form becomes the old one with pre-copies, and true is returned. */
void spot_trainer_pace_precopies(struct spot_trainer *c);
bool spot_trainer_precopy(struct spot_trainer *c, struct spot_form *old);
void spot_trainer_precopy_some(struct spot_trainer *c);             /* before a step */
void spot_trainer_precopied(struct spot_trainer *c, double step_s); /* at a commit */
/* At a commit: when a leaving member's deadline is near, move the rest at once. */
void spot_trainer_watch_deadlines(struct spot_trainer *c);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_MOVE_STATE_H */

/* SPDX-License-Identifier: MIT */
/* trainer_place_state.h - places members in the grid; private to lib/train/trainer*.c. */
#ifndef SPOT_TRAIN_TRAINER_PLACE_STATE_H
#define SPOT_TRAIN_TRAINER_PLACE_STATE_H

#include "train/trainer_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* trainer_form.c: choose a grid, place members and send FORM, or hold the job. */
int spot_trainer_layout(void *job, struct spot_view *view, struct spot_err *err);
void spot_trainer_list_peers(struct spot_trainer *c); /* all members of the form */
int64_t spot_trainer_bundle_byte(const struct spot_trainer *c, int bundle); /* its size */
/* Where a bundle comes from that no member holds at the epoch's step. */
enum spot_origin spot_trainer_origin(const struct spot_trainer *c);
/* While no epoch runs: make the members' state durable, unless it already is. */
void spot_trainer_idle(void *job, struct spot_view *view);
/* True if an epoch formed now would differ from the current one in grid, buddies or a newer
 * state. */
bool spot_trainer_would_change(void *job, struct spot_view *view);

/* trainer_recover.c: the newest step whose state is available from the members' memory, from
 * durable storage, or from nothing (step 0). While steps run: whether idle members together hold a
 * newer step than the current one. */
int64_t spot_trainer_newest(const struct spot_trainer *c);
bool spot_trainer_finds_newer(const struct spot_trainer *c);
/* A resumed job waits for the holders of its newest step, at most for a lease; the wait ends for
 * good once a step has been chosen. */
void spot_trainer_await(struct spot_trainer *c);
bool spot_trainer_awaits(const struct spot_trainer *c);

/* trainer_form.c: true if a generation that is being written may be the state that an epoch
 * needs. */
bool spot_trainer_awaits_store(const struct spot_trainer *c);
void spot_trainer_settle_step(struct spot_trainer *c);
bool spot_trainer_may_begin(void *job, struct spot_view *view);
bool spot_trainer_may_leave(void *job, struct spot_view *view);
/* True if this member has the bundle of this step. Members set aside do not count as sources for
 * others, but their state is made durable unless another member holds it. */
bool spot_trainer_holds(const struct spot_trainer *c, uint32_t id, int bundle, int64_t step);
/* True if state must be made durable for that reason before an epoch of this step. */
bool spot_trainer_must_keep(const struct spot_trainer *c, int64_t step);

/* trainer_buddy.c: choose a mirror for each stage whose replicas would all be lost together; adds
 * the transfers that the mirrors need. */
void spot_trainer_choose_buddies(struct spot_trainer *c);
/* True if a stage of the current epoch without a buddy could have one now. */
bool spot_trainer_lacks_buddy(const struct spot_trainer *c);

bool spot_trainer_same_domain(const struct spot_trainer *c, uint32_t a, uint32_t b);

/* trainer_warm.c: add to the form what members without a place mirror; whether there is one that
 * could mirror and does not; the share of the state that a member keeps; a member had too little
 * memory for its mirrors. */
void spot_trainer_warm(struct spot_trainer *c);
bool spot_trainer_lacks_warm(const struct spot_trainer *c);
double spot_trainer_warmth(const struct spot_trainer *c, uint32_t id);
bool spot_trainer_mirrors(const struct spot_trainer *c, uint32_t id, uint32_t p); /* all of p */
void spot_trainer_cool(const struct spot_trainer *c, struct spot_trainer_member *who);

/* trainer_split.c: a member took work_s for its part of a step; set how many microbatches each
 * pipeline of the form computes; whether another split has been better by enough, for long enough,
 * that an epoch is due. */
void spot_trainer_note_pace(struct spot_trainer *c, uint32_t id, double work_s);
void spot_trainer_choose_split(struct spot_trainer *c);
bool spot_trainer_split_drifts(struct spot_trainer *c);

/* trainer_plan.c: check that the job can run on this grid with enough members. Returns 0, or -1
 * with *err of the given code that begins with `what`. */
int spot_trainer_check_grid(const struct spot_trainer *c, const struct spot_grid *grid,
                            const char *what, enum spot_code code, struct spot_err *err);
int spot_trainer_plan(void *job, const struct spot_plan_doc *plan, bool *changed,
                      struct spot_err *err);

/* trainer_pin.c: while an epoch runs, whether a member is not at its pinned place; change a
 * placement, the members' index by position of the form, to respect the pins: true if a change was
 * needed. */
bool spot_trainer_breaks_pin(const struct spot_trainer *c);
bool spot_trainer_pin(const struct spot_trainer *c, int *node_of_position);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_PLACE_STATE_H */

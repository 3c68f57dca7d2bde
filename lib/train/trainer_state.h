/* SPDX-License-Identifier: MIT */
/* trainer_state.h - shared by the parts of the trainer; private to lib/train/trainer*.c.
 *
 * The trainer is the workload of a group of one view: a round is an optimizer step.
 */
#ifndef SPOT_TRAIN_TRAINER_STATE_H
#define SPOT_TRAIN_TRAINER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/store.h"
#include "cluster/group.h"
#include "common/err.h"
#include "train/form.h"
#include "train/meter.h"
#include "train/model_dir.h"
#include "train/movement.h"
#include "train/pins.h"
#include "train/sampler.h"
#include "train/saver.h"
#include "train/state_sources.h"
#include "train/train_protocol.h"
#include "train/trainer.h"
#include "train/validator.h"
#include "weights/load.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The trainer's object of a worker. */
struct spot_trainer_member {
    struct spot_peer *peer;
    bool keeps;      /* the state it held when it joined is valid */
    char device[32]; /* PCI address of its CUDA device, "" if it has none */
    bool cannot_mirror;
    bool sends;       /* it sends bundles that it was asked to write */
    double warm_byte; /* of sums, as a warm spare: more did not fit; 0: no limit known */
    int64_t *held;    /* [n_bundle], step of its copy, -1 */
    struct spot_member_seen seen; /* of its last vote; filled if there is an observer */
    double moved_byte_per_s;      /* measured rate of receiving; 0: not known */
    double paced_work,
        paced_s; /* recent work, in units of spot_grid_cost, and its duration; 0: not known */
};

struct spot_trainer_vote {
    double norm2;
    struct spot_stage_times times; /* of one microbatch, of the slowest that computes it */
    uint32_t overflow, nonfinite;
    bool is_in;
};

/* Transfers of a form that members cannot read themselves, see trainer_restore.c. */
struct spot_frame_relay {
    uint32_t *transfer; /* [n], of which the first n_sent were sent */
    size_t n, n_sent;
    int64_t sent_byte;
    double since_s; /* when the moves of the form began */
};

struct spot_trainer {
    const struct spot_trainer_options *options;
    struct spot_group_options group_options;
    struct spot_group *group;
    struct spot_view *view;             /* the only view */
    const struct spot_machine *machine; /* of it */
    struct spot_journal *journal;       /* of the group */

    struct spot_job_config config;
    uint64_t job;
    int64_t n_microbatch; /* G */
    int n_bundle;
    struct spot_weights *weights;     /* to start from; NULL: drawn under the seed */
    struct spot_model_dir *model_dir; /* destination of the result; NULL: a file, or none */
    struct spot_corpus corpus;
    struct spot_sampler sampler;
    struct spot_validator validator;
    struct spot_saver saver;
    struct spot_movement movement;

    struct spot_grid want; /* from --grid or the newest plan; 0: by the number of members */
    struct spot_pins pins; /* of the newest plan */
    /* number of members when it was last reported that they are too few for it */
    size_t compromise_n;

    struct spot_form form; /* of machine->epoch */
    struct spot_state_sources sources;
    struct spot_frame_relay relay; /* of the form's transfers */
    double await_until_s; /* after a restart, no step is chosen before: the holders' leases end */
    double *loss;         /* [G] of the step */
    struct spot_trainer_vote *vote; /* [n_bundle] */
    double compute_s;               /* slowest member of the step */
    float last_loss;                /* of the newest step, if known */
    bool knows_loss;
    double last_commit_s, step_s; /* smoothed time between commits */
    bool is_damage_reported;      /* the reason for the next epoch's rollback was reported */
    double keep_until_s;          /* what only members set aside hold is made durable until then */
    struct spot_grid formed_want; /* `want` when the form was made */
    bool is_redoing;              /* the step is repeated with smaller exponents */
    double read_s;                /* time to read the tokens of the step */
    struct spot_buf still;        /* tokens of step 0, for an observer of synthetic data */
    struct spot_split_drift drift;
    bool is_final;                     /* all steps have committed: collecting the result */
    struct spot_result_writer *result; /* partial result, if it cannot go to disk */
    double progress_shown_s;
    struct spot_meter *meter; /* NULL: no metrics */
    size_t n_precopied;       /* pre-copies of the form that it has counted */
};

/* trainer_open.c: open earlier state, which is used with --resume and rejected without. State
 * behind a command is first only read, then claimed from its previous writer. Return 0, or -1 with
 * *err. */
int spot_trainer_open_state(struct spot_trainer *c, struct spot_err *err);
int spot_trainer_take_state(struct spot_trainer *c, struct spot_err *err);

/* trainer_lead.c: wait until this coordinator leads, if there are several. Returns 0, 1 if the job
 * is done: *result is that of the earlier leader, or -1 with *err. */
int spot_trainer_lead(struct spot_trainer *c, struct spot_trainer_result *result,
                      struct spot_err *err);

/* trainer_member.c: the entries of the table about members; NULL for one that is gone. */
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

/* trainer_form.c: choose a grid, place members, send FORM; or hold. */
int spot_trainer_layout(void *job, struct spot_view *view, struct spot_err *err);
void spot_trainer_list_peers(struct spot_trainer *c); /* of the form: all members that take part */
int64_t spot_trainer_bundle_byte(const struct spot_trainer *c, int bundle); /* of its state */
/* The origin of a bundle of the epoch's step that no member holds. */
enum spot_origin spot_trainer_origin(const struct spot_trainer *c);
/* While nothing runs: make what the members hold durable, unless it already is. */
void spot_trainer_idle(void *job, struct spot_view *view);
/* Would an epoch formed now differ from the current one: grid, buddies, a newer state? */
bool spot_trainer_would_change(void *job, struct spot_view *view);

/* trainer_recover.c: the newest step whose state is available from the members' memory, from
 * durable storage, or from nothing (step 0). While steps run: do idle members together hold a newer
 * step than the current one? */
int64_t spot_trainer_newest(const struct spot_trainer *c);
bool spot_trainer_finds_newer(const struct spot_trainer *c);
/* A resumed job waits for the holders of its newest step, for a lease at most; once a step has been
 * chosen the wait is over for good. */
void spot_trainer_await(struct spot_trainer *c);
bool spot_trainer_awaits(const struct spot_trainer *c);
/* trainer_form.c: a generation that is being written may be the state that an epoch needs. */
bool spot_trainer_awaits_store(const struct spot_trainer *c);
void spot_trainer_settle_step(struct spot_trainer *c);
bool spot_trainer_may_begin(void *job, struct spot_view *view);
bool spot_trainer_may_leave(void *job, struct spot_view *view);
/* Does this member have the bundle of this step? Members set aside do not count as sources for
 * others, but their state is made durable unless another member holds it. */
bool spot_trainer_holds(const struct spot_trainer *c, uint32_t id, int bundle, int64_t step);
/* Must that be done first, before an epoch of this step? */
bool spot_trainer_must_keep(const struct spot_trainer *c, int64_t step);

/* trainer_restore.c: what no member holds is read by the members that need it. What a member cannot
 * read it requests: send that in the order of requests, and no more at once than memory allows,
 * whatever the state and the replicas; called again as the connection accepts more. Are there more
 * to send? An epoch is formed; a member requests, 1 if the bundle is not its own. */
void spot_trainer_restore_anew(struct spot_trainer *c);
void spot_relay_release(struct spot_frame_relay *relay);
int spot_trainer_unread(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame,
                        struct spot_err *err);
int spot_trainer_restore(struct spot_trainer *c, struct spot_err *err);
bool spot_trainer_is_restoring(const struct spot_trainer *c);

/* Below this the time measures messages, not the link. */
enum { SPOT_TRAINER_RATE_BYTE = 32 << 20 };

/* trainer_rate.c: bytes/s measured on a member's link, 0: never; `byte` bytes arrived in took_s.
 * What the planner is given for it, with the best rate of all. */
double spot_trainer_rate_seen(double before_byte_per_s, double byte, double took_s);
double spot_trainer_rate_for_plan(double best_byte_per_s, double mine_byte_per_s);
/* A member has everything that was moved to it; the rate of its link, and of the best one. */
void spot_trainer_note_moved(const struct spot_trainer *c, struct spot_trainer_member *who);
double spot_trainer_byte_per_s(const struct spot_trainer *c, const struct spot_trainer_member *who);
double spot_trainer_best_byte_per_s(const struct spot_trainer *c);

/* trainer_worth.c: an epoch begins. Is it better to
 * move n_byte, the most that one of them lacks, ahead of the new grid? Does a grid that only grows
 * not pay for its pause, given how often members go? It is examined again at each commit. */
void spot_trainer_note_formed(struct spot_trainer *c);
bool spot_trainer_prefers_precopy(struct spot_trainer *c, const struct spot_grid *now,
                                  const struct spot_grid *then, double n_byte);
bool spot_trainer_puts_off(struct spot_trainer *c, const struct spot_grid *then);

/* trainer_buddy.c: choose a mirror for each stage whose replicas would all be lost together; adds
 * the transfers that the mirrors need. */
void spot_trainer_choose_buddies(struct spot_trainer *c);
/* Could a stage of the current epoch without a buddy have one now? */
bool spot_trainer_lacks_buddy(const struct spot_trainer *c);

bool spot_trainer_same_domain(const struct spot_trainer *c, uint32_t a, uint32_t b);

/* trainer_warm.c: add to the form what members without a place mirror. Is there one that could
 * mirror and does not? The share of the state that a member keeps; a member had no memory for its
 * mirrors. */
void spot_trainer_warm(struct spot_trainer *c);
bool spot_trainer_lacks_warm(const struct spot_trainer *c);
double spot_trainer_warmth(const struct spot_trainer *c, uint32_t id);
bool spot_trainer_mirrors(const struct spot_trainer *c, uint32_t id, uint32_t p); /* all of it */
void spot_trainer_cool(const struct spot_trainer *c, struct spot_trainer_member *who);

/* trainer_precopy.c: how many bundles are pre-copied at a time, initially. The form is that of a
 * new grid, *old the previous one. If that can continue meanwhile, and the moves are worth it, it
 * becomes the form again, with pre-copies, and true is returned. */
void spot_trainer_pace_precopies(struct spot_trainer *c);
bool spot_trainer_precopy(struct spot_trainer *c, struct spot_form *old);
void spot_trainer_precopy_some(struct spot_trainer *c);             /* before a step */
void spot_trainer_precopied(struct spot_trainer *c, double step_s); /* at a commit */
/* At a commit: is a leaving member about to be gone? Then the rest is moved at once. */
void spot_trainer_watch_deadlines(struct spot_trainer *c);

/* trainer_observe.c: report a commit to the observer and carry out its requests. */
void spot_trainer_observe(struct spot_trainer *c, double step_s);
int spot_trainer_probed(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame);

/* trainer_split.c: a member took work_s for its part of a step; how many microbatches each pipeline
 * of the form computes; has another split been better by enough, for long enough, that an epoch is
 * due? */
void spot_trainer_note_pace(struct spot_trainer *c, uint32_t id, double work_s);
void spot_trainer_choose_split(struct spot_trainer *c);
bool spot_trainer_split_drifts(struct spot_trainer *c);

/* trainer_validate.c: the validation data, if any; and what is known of their loss. */
int spot_trainer_open_val(struct spot_trainer *c, struct spot_err *err);
void spot_trainer_recall_val(struct spot_trainer *c);
/* Between two steps: is the validation loss of the current weights due? Then begin the next batch;
 * it has been computed. Return 0, or -1 with *err. */
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
/* Ask one holder to send a bundle. */
void spot_trainer_ask_bundle(struct spot_trainer *c, int bundle);
/* For the final state: request what was not yet requested and now fits into memory. */
void spot_trainer_ask_more(struct spot_trainer *c);

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

/* trainer_plan.c: could the job run on this grid with enough members? Returns 0, or -1 with *err of
 * the given code that begins with `what`. */
int spot_trainer_check_grid(const struct spot_trainer *c, const struct spot_grid *grid,
                            const char *what, enum spot_code code, struct spot_err *err);
int spot_trainer_plan(void *job, const struct spot_plan_doc *plan, bool *changed,
                      struct spot_err *err);

/* trainer_pin.c: while an epoch runs: is a member with a pinned place elsewhere? Change a
 * placement, the members' index by position of the form, to respect them; was a change needed? */
bool spot_trainer_breaks_pin(const struct spot_trainer *c);
bool spot_trainer_pin(const struct spot_trainer *c, int *node_of_position);

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

#endif /* SPOT_TRAIN_TRAINER_STATE_H */

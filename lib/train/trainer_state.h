/* SPDX-License-Identifier: MIT */
/* trainer_state.h - what the parts of the trainer share; private to lib/train/trainer*.c.
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
#include "train/coordinator.h"
#include "train/form.h"
#include "train/model_dir.h"
#include "train/sampler.h"
#include "train/save_cost.h"
#include "train/state_sources.h"
#include "train/train_protocol.h"
#include "weights/load.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What training knows of a worker. */
struct spot_trainer_member {
    struct spot_peer *peer;
    bool keeps;      /* what it held when it joined counts */
    char device[32]; /* PCI address of its CUDA device, "" if it has none */
    bool cannot_mirror;
    bool sends;                   /* bundles that it was asked to write */
    double warm_byte;             /* of sums, as a warm spare: more did not fit; 0: not known */
    int64_t *held;                /* [n_bundle], step of the copy it holds, -1 */
    struct spot_member_seen seen; /* of its last vote; filled where there is an observer */
    double moved_byte_per_s;      /* what it was seen to receive; 0: not known */
    double paced_work, paced_s; /* what it computed lately, in units of spot_grid_cost, and how long
                                   that took; 0: not known */
};

struct spot_trainer_vote {
    double norm2;
    struct spot_stage_times times; /* of one microbatch, of the slowest that computes it */
    uint32_t overflow, nonfinite;
    bool is_in;
};

/* The loss of the validation data, see trainer_validate.c. */
struct spot_trainer_val {
    struct spot_corpus corpus;
    struct spot_sampler sampler;
    int64_t step; /* of the newest weights whose loss is known, -1 */
    float loss;
    int64_t batch; /* that is computed, -1: none */
    double sum;    /* of the microbatches before */
    double began_s;
};

/* A place that the newest plan gives to a member. */
struct spot_trainer_pin {
    char name[SPOT_NAME_MAX];
    int64_t d, p, m;
    bool is_told; /* that it is not to be had */
};

struct spot_trainer {
    const struct spot_coordinator_options *options;
    struct spot_group_options group_options;
    struct spot_group *group;
    struct spot_view *view;             /* the only one */
    const struct spot_machine *machine; /* of it */
    struct spot_journal *journal;       /* of the group */

    struct spot_job_config config;
    uint64_t job;
    int64_t n_microbatch; /* G */
    int n_bundle;
    struct spot_weights *weights;     /* to start from; NULL: drawn under the seed */
    struct spot_model_dir *model_dir; /* where the result goes; NULL: a file, or nowhere */
    struct spot_corpus corpus;
    struct spot_sampler sampler;
    struct spot_trainer_val val;
    struct spot_store *store;

    struct spot_grid want;        /* from --grid or the newest plan; 0: as members allow */
    struct spot_trainer_pin *pin; /* [n_pin] */
    size_t n_pin;
    size_t compromise_n; /* members when it was last said that they are too few for it */

    struct spot_form form; /* of machine->epoch */
    struct spot_state_sources sources;
    uint32_t *unread; /* [n_unread], transfers of the form that members cannot make by themselves */
    size_t n_unread, n_restored; /* the first so many of them were sent */
    int64_t relayed_byte;        /* with them */
    double moving_since_s;       /* when its moves began */
    double await_until_s; /* after a restart, until a step is chosen: the holders' leases end */
    double *loss;         /* [G] of the step */
    struct spot_trainer_vote *vote; /* [n_bundle] */
    double compute_s;               /* slowest member of the step */
    float last_loss;                /* of the newest step, if it is known */
    bool knows_loss;
    double last_commit_s, step_s; /* smoothed time between commits */
    double durable_s;             /* when the newest generation was asked for */
    int64_t durable_step;         /* of that */
    double durable_next_s;        /* when the step after it began */
    double durable_of_s;          /* the same of the newest that is on disk; else the first step */
    struct spot_save_cost save_cost;
    uint32_t n_not_durable; /* tries in a row that failed */
    double not_durable_told_s;
    struct spot_err not_durable; /* why the newest of them did */
    bool has_told_lag;
    bool is_damage_told; /* why the next epoch goes back */
    double keep_until_s; /* what only members set aside hold is made durable until then */
    size_t precopy_n;    /* pre-copies at a time */
    double usual_s;      /* of a step, before there were any */
    double form_s;       /* of the last epoch formed with next to nothing to move */
    double layout_s;     /* when the last one was begun */
    double exposed_s, exposed_since_s;  /* members times seconds, up to then */
    size_t n_gone;                      /* members in that time */
    struct spot_grid formed_want;       /* when the form was made */
    bool is_put_off;                    /* a larger grid is not worth its pause yet */
    bool is_ahead;                      /* pre-copies are those of a grid to come */
    bool is_precopied;                  /* all pre-copies are in force: the next grid is due */
    size_t n_leaver;                    /* members that were leaving when they were listed */
    bool is_redoing;                    /* the step was asked for with smaller exponents */
    double read_s;                      /* reading the tokens of the step */
    struct spot_buf still;              /* tokens of step 0, for an observer of synthetic data */
    uint32_t n_epoch_commit;            /* of the epoch that runs */
    uint32_t n_drift;                   /* commits in a row at which another split was better */
    uint32_t drift_patience;            /* so many are believed; 0: not yet set */
    int64_t export_step;                /* a client waits until a step as new as this is durable */
    bool is_final;                      /* all steps have committed: collecting the result */
    struct spot_trainer_result *result; /* as far as it came, where the disk will not have it */
    int64_t sent_byte; /* of the newest generation: what members sent instead of writing it */
    uint32_t *saver;   /* [n_bundle], who was asked for it; 0: nobody */
    struct spot_err state_err; /* why the final generation could not be written */
    double progress_shown_s;
    struct spot_trainer_meter *meter; /* NULL: nobody looks on */
};

/* trainer_open.c: the state from before, which is used with --resume and refused without. What is
 * behind a command is only looked at, and then taken from who wrote there. Return 0, or -1 with
 * *err. */
int spot_trainer_open_state(struct spot_trainer *c, struct spot_err *err);
int spot_trainer_take_state(struct spot_trainer *c, struct spot_err *err);

/* trainer_lead.c: wait until this coordinator leads, where there are several. Returns 0, 1 if the
 * job is done: *result is what the one before has told, or -1 with *err. */
int spot_trainer_lead(struct spot_trainer *c, struct spot_coordinator_result *result,
                      struct spot_err *err);

/* trainer_member.c: the part of the table that is about members; NULL for one that is gone. */
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
void spot_trainer_list_peers(struct spot_trainer *c); /* of the form: all that take part */
int64_t spot_trainer_bundle_byte(const struct spot_trainer *c, int bundle); /* of its state */
/* Where a bundle of the epoch's step comes from that no member holds. */
enum spot_origin spot_trainer_origin(const struct spot_trainer *c);
/* While nothing runs: make what the members hold durable, if it is not yet. */
void spot_trainer_idle(void *job, struct spot_view *view);
/* Would an epoch formed now be another than the one that runs: grid, buddies, a newer state? */
bool spot_trainer_would_change(void *job, struct spot_view *view);

/* trainer_recover.c: the newest step whose state can be put together from the members' memory, from
 * durable storage, or from nothing (step 0). While steps run: could members that are idle put
 * together a newer one than these have come to? */
int64_t spot_trainer_newest(const struct spot_trainer *c);
bool spot_trainer_finds_newer(const struct spot_trainer *c);
/* A job that goes on waits for the memory of those who held its newest step, for a lease at most;
 * once a step has been chosen that wait is over for good. */
void spot_trainer_await(struct spot_trainer *c);
bool spot_trainer_awaits(const struct spot_trainer *c);
void spot_trainer_settle_step(struct spot_trainer *c);
bool spot_trainer_may_begin(void *job, struct spot_view *view);
bool spot_trainer_may_leave(void *job, struct spot_view *view);
/* Is this the one to have the bundle of this step from? Of who is set aside not for others to get,
 * but to make durable what nobody else has. */
bool spot_trainer_holds(const struct spot_trainer *c, uint32_t id, int bundle, int64_t step);
/* Must that come first, before an epoch of this step? */
bool spot_trainer_must_keep(const struct spot_trainer *c, int64_t step);

/* trainer_restore.c: what no member holds is read by who needs it. What one cannot read it asks
 * for: send that in the order of asking, and no more at once than memory bears, whatever the state
 * and the replicas; called again as the wire takes them. Are there more to come? An epoch is
 * formed; a member asks, 1 if for what is not its own. */
void spot_trainer_restore_anew(struct spot_trainer *c);
int spot_trainer_unread(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame,
                        struct spot_err *err);
int spot_trainer_restore(struct spot_trainer *c, struct spot_err *err);
bool spot_trainer_is_restoring(const struct spot_trainer *c);

/* With less the time is that of messages, not of the link. */
enum { SPOT_TRAINER_RATE_BYTE = 32 << 20 };

/* trainer_rate.c: bytes/s that a member's link was seen to carry, 0: never seen; byte of them came
 * in took_s. What the planner is told of it, given the best of all. */
double spot_trainer_rate_seen(double before_byte_per_s, double byte, double took_s);
double spot_trainer_rate_told(double best_byte_per_s, double mine_byte_per_s);
/* A member has all that moved to it; the rate of its link, and of the best one. */
void spot_trainer_note_moved(const struct spot_trainer *c, struct spot_trainer_member *who);
double spot_trainer_byte_per_s(const struct spot_trainer *c, const struct spot_trainer_member *who);
double spot_trainer_best_byte_per_s(const struct spot_trainer *c);

/* trainer_worth.c: members come, go, or are looked at, at a commit. An epoch begins. Is it better
 * that n_byte, the most that one of them lacks, move ahead of the new grid? Is a grid that only
 * grows not worth its pause, as members go? It is looked at again at each commit. */
void spot_trainer_note_members(struct spot_trainer *c);
void spot_trainer_note_formed(struct spot_trainer *c);
bool spot_trainer_is_better_ahead(struct spot_trainer *c, const struct spot_grid *now,
                                  const struct spot_grid *then, double n_byte);
bool spot_trainer_puts_off(struct spot_trainer *c, const struct spot_grid *then);

/* trainer_buddy.c: who mirrors each stage whose replicas would all go at once; adds the transfers
 * that the mirrors need. */
void spot_trainer_choose_buddies(struct spot_trainer *c);
/* Could a stage of the epoch that runs have a buddy now that it has none? */
bool spot_trainer_lacks_buddy(const struct spot_trainer *c);

bool spot_trainer_same_domain(const struct spot_trainer *c, uint32_t a, uint32_t b);

/* trainer_warm.c: add to the form what members without a place mirror. Is there one that could and
 * does not? The share of the state that a member keeps; one had no room for what it was to mirror.
 */
void spot_trainer_warm(struct spot_trainer *c);
bool spot_trainer_lacks_warm(const struct spot_trainer *c);
double spot_trainer_warmth(const struct spot_trainer *c, uint32_t id);
bool spot_trainer_mirrors(const struct spot_trainer *c, uint32_t id, uint32_t p); /* all of it */
void spot_trainer_cool(const struct spot_trainer *c, struct spot_trainer_member *who);

/* trainer_precopy.c: how many bundles are handed over at first. The form is that of a new grid,
 * *old the one before. Where that can go on meanwhile, and the moves are worth it, it becomes the
 * form again, with pre-copies, and true is returned. */
void spot_trainer_pace_precopies(struct spot_trainer *c);
bool spot_trainer_precopy(struct spot_trainer *c, struct spot_form *old);
void spot_trainer_precopy_some(struct spot_trainer *c);          /* before a step */
void spot_trainer_handed(struct spot_trainer *c, double step_s); /* at a commit */
/* At a commit: is a member that leaves soon gone? Then what is left moves at once. */
void spot_trainer_watch_deadlines(struct spot_trainer *c);

/* trainer_observe.c: tell the observer of a commit and grant its wish. */
void spot_trainer_observe(struct spot_trainer *c, double step_s);
int spot_trainer_probed(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame);

/* trainer_split.c: a member took work_s for its part of a step; how many microbatches each pipeline
 * of the form computes; is another split better by so much, and for so long, that an epoch is due?
 */
void spot_trainer_note_pace(struct spot_trainer *c, uint32_t id, double work_s);
void spot_trainer_choose_split(struct spot_trainer *c);
bool spot_trainer_split_drifts(struct spot_trainer *c);

/* trainer_validate.c: the validation data, if there are any; and what is known of their loss. */
int spot_trainer_open_val(struct spot_trainer *c, struct spot_err *err);
void spot_trainer_recall_val(struct spot_trainer *c);
/* The state goes back to a step: what was told of those above is void. */
void spot_trainer_void_val(struct spot_trainer *c, int64_t step);
/* Between two steps: is the loss to be told of the weights as they are? Then the next batch is
 * begun; and it has been computed. Return 0, or -1 with *err. */
bool spot_trainer_val_is_due(const struct spot_trainer *c);
int spot_trainer_validate(struct spot_trainer *c, struct spot_err *err);
int spot_trainer_validated(struct spot_trainer *c, struct spot_err *err);

/* trainer_step.c: give each active member the tokens of its microbatches, as `read` has those of
 * sequence k of microbatch j, with this order. */
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

/* trainer_lag.c: a step has committed; a generation is asked for; it is on disk or could not be.
 * How often one is due, and how much of the job's time would be lost with all members now. Say when
 * it is too much.
 */
void spot_trainer_note_step(struct spot_trainer *c, double step_s);
void spot_trainer_lag_begun(struct spot_trainer *c);
void spot_trainer_lag_step(struct spot_trainer *c); /* one begins */
void spot_trainer_lag_ended(struct spot_trainer *c, bool is_durable);
double spot_trainer_durable_every_s(const struct spot_trainer *c);
double spot_trainer_lag_s(const struct spot_trainer *c);
void spot_trainer_watch_lag(struct spot_trainer *c);

/* trainer_state.c */
void spot_trainer_save(struct spot_trainer *c); /* ask holders for a durable generation */
bool spot_trainer_save_is_due(const struct spot_trainer *c);
/* 1 for a malformed snapshot, or word of a file: the member must go. */
int spot_trainer_snapshot(struct spot_trainer *c, uint32_t id, const struct spot_frame *frame,
                          struct spot_err *err);
int spot_trainer_written(struct spot_trainer *c, const struct spot_frame *frame);
/* trainer_saver.c: does a member owe a bundle? One is gone. An epoch is over, or the job goes on
 * from step `most`: a generation of a newer one is given up, and one that only those who are gone
 * could complete. Does one of this step still come from those who are here? */
bool spot_trainer_owes_bundle(const struct spot_trainer *c, uint32_t id);
void spot_trainer_lost_saver(struct spot_trainer *c, uint32_t id);
void spot_trainer_settle_savers(struct spot_trainer *c, int64_t most);
bool spot_trainer_awaits_savers(const struct spot_trainer *c, int64_t step);
int spot_trainer_store_news(void *job, struct spot_err *err);
/* Ask one holder for a bundle, to be sent. */
void spot_trainer_ask_bundle(struct spot_trainer *c, int bundle);
/* Of the last state: ask for what nobody was asked for and fits into memory now. */
void spot_trainer_ask_more(struct spot_trainer *c);

/* trainer_result.c: hash and file of the last state, a bundle at a time: from the disk, or, where
 * it cannot be there, as members send them. Begin with that; one has come; which is awaited, -1
 * none; give it up. */
int spot_trainer_pull(struct spot_trainer *c, struct spot_err *err);
int spot_trainer_pulled(struct spot_trainer *c, const struct spot_frame *frame,
                        struct spot_err *err);
int spot_trainer_pulling(const struct spot_trainer *c);
void spot_trainer_drop_result(struct spot_trainer *c);
int spot_trainer_finish(struct spot_trainer *c, struct spot_coordinator_result *result,
                        struct spot_err *err);

/* trainer_export.c: a client's question; does one wait for a generation? */
int spot_trainer_client(void *job, const struct spot_frame *frame, struct spot_buf *answer,
                        uint64_t *status, struct spot_err *err);
bool spot_trainer_export_is_due(const struct spot_trainer *c);

/* trainer_plan.c: can the job run on this grid, if there are members for it? Returns 0, or -1 with
 * *err of the given code that begins with `what`. */
int spot_trainer_check_grid(const struct spot_trainer *c, const struct spot_grid *grid,
                            const char *what, enum spot_code code, struct spot_err *err);
int spot_trainer_plan(void *job, const struct spot_plan_doc *plan, bool *changed,
                      struct spot_err *err);

/* trainer_pin.c: take over the places of a plan whose grid is wanted; are they others than before?
 * While an epoch runs: does a member that has one sit elsewhere? Change a placement, the members'
 * index by position of the form, so that they are kept; was there one to change? */
bool spot_trainer_take_pins(struct spot_trainer *c, const struct spot_plan_doc *plan);
bool spot_trainer_breaks_pin(const struct spot_trainer *c);
bool spot_trainer_pin(const struct spot_trainer *c, int *node_of_position);

/* trainer_status.c */
void spot_trainer_status(void *job, struct spot_jw *jw);
bool spot_trainer_status_member(void *job, const struct spot_peer *peer, struct spot_jw *jw);
void spot_trainer_show_progress(struct spot_trainer *c);
double spot_trainer_lr(const struct spot_trainer *c); /* of the step that is computed */

/* trainer_meter.c: what is told over HTTP and in a file; no effect where nobody asked for it. A
 * step has committed, so long after the one before; an epoch begins, all have what moved; the job
 * goes back; make the documents when they are due, or now, as the job ends. */
int spot_trainer_open_meter(struct spot_trainer *c, struct spot_err *err);
void spot_trainer_meter_step(struct spot_trainer *c, double step_s);
void spot_trainer_meter_formed(struct spot_trainer *c);
void spot_trainer_meter_rolled_back(struct spot_trainer *c, int64_t n_step);
void spot_trainer_publish(struct spot_trainer *c, bool is_last);
void spot_trainer_close_meter(struct spot_trainer *c);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_STATE_H */

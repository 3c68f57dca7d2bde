/* SPDX-License-Identifier: MIT */
/* coord.h - what the parts of the coordinator share; private to lib/job/coord_*.c. */
#ifndef SPOT_TRAIN_COORD_H
#define SPOT_TRAIN_COORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "checkpoint/store.h"
#include "cluster/machine.h"
#include "cluster/suspect.h"
#include "comm/endpoint.h"
#include "comm/link.h"
#include "common/err.h"
#include "train/coordinator.h"
#include "train/form.h"
#include "train/journal.h"
#include "train/sampler.h"
#include "train/train_protocol.h"
#include "weights/load.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A connection; a member once its hello was accepted. */
struct spot_coord_peer {
    struct spot_link link;
    uint32_t id;     /* 0: no member */
    bool is_closing; /* close when everything is sent */
    bool awaits_end; /* a client that is answered when the job has stopped */
    bool cannot_mirror;
    char name[SPOT_NAME_MAX];
    char domain[SPOT_NAME_MAX]; /* failure domain */
    double since_s, heard_s;    /* connected; last sign of life */
    double progress_s;          /* when it last got further */
    uint64_t progress;
    /* as it says, as its connection comes from, as it reached us; of kind UNIX where there is none
     */
    struct spot_endpoint at, seen_at, ours_at;
    bool is_proved;               /* it told whom it reaches: it may have a place */
    bool is_on_trial;             /* set aside, and asked once more */
    double asked_s, joined_s;     /* whom it reaches, 0: to be asked; since when it is a member */
    int64_t *held;                /* [n_bundle], step of the copy it holds, -1 */
    uint32_t n_owed;              /* snapshots it was asked for that have not come */
    struct spot_member_seen seen; /* of its last vote; filled where there is an observer */
    double paced_work, paced_s; /* what it computed lately, in units of spot_grid_cost, and how long
                                   that took; 0: not known */
};

struct spot_coord_vote {
    double norm2;
    struct spot_stage_times times; /* of one microbatch, of the slowest that computes it */
    uint32_t overflow, nonfinite;
    bool is_in;
};

struct spot_local {
    pid_t pid; /* 0: not running */
    double start_s;
    int64_t start_step; /* of the job, when it was started */
    int n_futile;       /* deaths in a row at once, or without a step in between */
};

/* How a plan came. Times of plans compare within one way only: a file may be made from a trace that
 * began long before the job, while those of replan come from its events. */
/* How a plan came. The last is of the second, taken whatever its time. */
enum spot_plan_way { SPOT_PLAN_FILE, SPOT_PLAN_PUSHED, SPOT_PLAN_FORCED };

struct spot_coord {
    const struct spot_coordinator_options *options;
    struct spot_job_config config;
    uint64_t job, key;
    int64_t n_microbatch; /* G */
    int n_bundle;
    struct spot_weights *weights; /* to start from; NULL: drawn under the seed */
    struct spot_corpus corpus;
    struct spot_sampler sampler;
    struct spot_store *store;
    struct spot_journal journal;
    struct spot_machine machine;

    struct spot_endpoint endpoint;
    struct spot_tls_context *tls; /* NULL: no key, nothing is heard from off this machine */
    char *private_dir;            /* of the socket, unless --listen named one */
    int private_fd;               /* of it, where its name is too long for a socket; else -1 */
    double swept_s;               /* when dead workers' sockets were last removed */
    int listener, wake[2];
    struct spot_coord_peer **peer;
    size_t n_peer, cap_peer;
    uint32_t last_id;

    struct spot_degrees want; /* from --grid or the newest plan; 0: as members allow */
    size_t compromise_n;      /* members when it was last said that they are too few for it */
    bool is_suspended;        /* the plan says: stop and keep the state */
    double plan_time_s[2];    /* of the newest plan taken, by enum spot_plan_way */
    bool has_plan;            /* one was taken */
    double force_time_s;      /* of the last one taken, by either way */
    uint64_t plan_stamp;      /* of the plan file when it was read */
    double plan_check_s;

    struct spot_form form; /* of machine.epoch */
    size_t n_restored;     /* of its transfers: those looked at that come from here */
    double settle_until_s;
    double await_until_s; /* after a restart, until a step is chosen: the holders' leases end */
    double breath_s;      /* when members were last told that this lives, within long work */
    double full_until_s;  /* no descriptor for another connection until then */
    double polled_s;      /* what was to be read then has been: who is silent since is silent */
    double stall_s;       /* options->stall_s, twice that after each stall without a commit */
    double *loss;         /* [G] of the step */
    struct spot_coord_vote *vote; /* [n_bundle] */
    double compute_s;             /* slowest member of the step */
    float last_loss;              /* of the newest step, if it is known */
    bool knows_loss;
    double last_commit_s, step_s; /* smoothed time between commits */
    double durable_s;             /* when the newest generation was asked for */
    double durable_took_s;        /* from there until it was on disk, the last time */
    int n_broken;                 /* epochs in a row that broke without a commit */
    bool has_failed;              /* the last one did: what members say of each other counts */
    struct spot_suspects suspects;
    double keep_until_s;        /* what only members set aside hold is made durable until then */
    size_t hand_n;              /* handovers at a time */
    double usual_s;             /* of a step, before there were any */
    bool is_ahead;              /* all are in force: the next grid is due */
    bool is_redoing;            /* the step was asked for with smaller exponents */
    double read_s;              /* reading the tokens of the step */
    struct spot_buf still;      /* tokens of step 0, for an observer of synthetic data */
    uint32_t n_epoch_commit;    /* of the epoch that runs */
    uint32_t n_drift;           /* commits in a row at which other shares were better */
    uint32_t drift_patience;    /* so many are believed; 0: not yet set */
    bool is_final;              /* all steps have committed: collecting the result */
    struct spot_frame **result; /* [n_bundle], final snapshots */
    struct spot_err state_err;  /* why the final generation could not be written */
    bool is_drained;            /* a client wants the job to stop */
    double spent_usd, billed_s; /* for members so far, and until when; continued from the log */
    bool stop_wanted, is_over;
    struct spot_local *local; /* [options->n_local] */
    double progress_shown_s;
};

/* coord_member.c */
struct spot_coord_peer *spot_coord_find(const struct spot_coord *c, uint32_t id);
void spot_coord_send(struct spot_coord *c, struct spot_coord_peer *peer, uint32_t type,
                     uint64_t tag, const void *data, size_t n_byte);
/* From now on this member owes an answer: who was idle before has not stalled. */
void spot_coord_ask(struct spot_coord_peer *peer);
/* The same to every member that takes part in the steps of this epoch. */
void spot_coord_send_active(struct spot_coord *c, uint32_t type, uint64_t tag, const void *data,
                            size_t n_byte);
int spot_coord_hello(struct spot_coord *c, struct spot_coord_peer *peer,
                     const struct spot_frame *frame, struct spot_err *err);
int spot_coord_inventory(struct spot_coord *c, struct spot_coord_peer *peer,
                         struct spot_wire_in *in);

/* coord_effect.c: carry out an effect and those that follow from it; let those go that leave and
 * have no part in the epoch that runs. */
int spot_coord_act(struct spot_coord *c, enum spot_effect effect, struct spot_err *err);
void spot_coord_release_leavers(struct spot_coord *c);

/* coord_message.c: the job ends with rc and *err: answer who asked it to stop, and let members go
 * that nobody will come back for; handle a frame; log an event about a member, `why` may be NULL.
 */
void spot_coord_drained(struct spot_coord *c, int rc, const struct spot_err *err);
int spot_coord_message(struct spot_coord *c, struct spot_coord_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err);
int spot_coord_log_member(struct spot_coord *c, const char *event,
                          const struct spot_coord_peer *peer, const char *why,
                          struct spot_err *err);

/* coord_link.c: take connections in; read and handle what one sent (1: it is gone); forget one and
 * go on without its member; give up those that are dead. */
void spot_coord_accept(struct spot_coord *c);
int spot_coord_serve_peer(struct spot_coord *c, struct spot_coord_peer *peer, short events,
                          struct spot_err *err);
int spot_coord_lose_peer(struct spot_coord *c, size_t i, const char *why, struct spot_err *err);
int spot_coord_drop_dead(struct spot_coord *c, struct spot_err *err);
void spot_coord_free_peer(struct spot_coord *c, size_t i);

/* coord_form.c: choose a grid, place members, send FORM; or hold. */
int spot_coord_form(struct spot_coord *c, struct spot_err *err);
void spot_coord_list_peers(struct spot_coord *c); /* of the form: all that take part */
int64_t spot_coord_bundle_byte(const struct spot_coord *c, int bundle); /* of its state */
/* Where a bundle of the epoch's step comes from that no member holds. */
enum spot_origin spot_coord_origin(const struct spot_coord *c);
/* While nothing runs: make what the members hold durable, if it is not yet. */
void spot_coord_keep(struct spot_coord *c);
/* Would an epoch formed now be another than the one that runs: grid, buddies? */
bool spot_coord_would_change(const struct spot_coord *c);

/* coord_recover.c: the newest step whose state can be put together from the members' memory, from
 * durable storage, or from nothing (step 0). While steps run: could members that are idle put
 * together a newer one than these have come to? */
int64_t spot_coord_newest(const struct spot_coord *c);
bool spot_coord_finds_newer(const struct spot_coord *c);
/* A job that goes on waits for the memory of those who held its newest step, for a lease at most;
 * once a step has been chosen that wait is over for good. */
void spot_coord_await(struct spot_coord *c);
bool spot_coord_awaits(const struct spot_coord *c);
void spot_coord_settle_step(struct spot_coord *c);

/* coord_restore.c: send the next bundles that no member holds, to each member in the order in which
 * it waits for them, and no more at once than memory bears, whatever the state and the replicas;
 * called again as the wire takes them. Are there more to come? */
int spot_coord_restore(struct spot_coord *c, struct spot_err *err);
bool spot_coord_is_restoring(const struct spot_coord *c);

/* coord_rift.c: two members that live and do not reach each other do not work together: one is set
 * aside. Take what a member says of others, -1 when it makes no sense; judge that, and say how many
 * were set aside. */
int spot_coord_accuse(struct spot_coord *c, const struct spot_coord_peer *reporter,
                      struct spot_wire_in *in);
size_t spot_coord_judge(struct spot_coord *c);
/* Who may have a place; how many; who may not, though it lives. */
bool spot_coord_may_place(const struct spot_coord *c, const struct spot_member *member);
size_t spot_coord_placeable(const struct spot_coord *c);
bool spot_coord_is_aside(const struct spot_coord *c, uint32_t id);
/* Is this the one to have the bundle of this step from? Of who is set aside not for others to get,
 * but to make durable what nobody else has. */
bool spot_coord_holds(const struct spot_coord *c, uint32_t id, int bundle, int64_t step);
/* Must that come first, before an epoch of this step? */
bool spot_coord_must_keep(const struct spot_coord *c, int64_t step);

/* coord_reach.c: before a member has a place it tells which of the others it reaches; so does one
 * that was set aside when its time is over, and goes if it still does not. */
void spot_coord_meet(struct spot_coord *c, struct spot_coord_peer *peer);
int spot_coord_reached(struct spot_coord *c, struct spot_coord_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err);
void spot_coord_retry_aside(struct spot_coord *c);     /* by time */
bool spot_coord_is_asking(const struct spot_coord *c); /* somebody has not told yet */
/* Where `to` finds a member, NULL: we; in a text of SPOT_ADDRESS_MAX + 8 bytes. */
void spot_coord_address(const struct spot_coord_peer *peer, const struct spot_coord_peer *to,
                        char *text);
/* Which of these members do not answer us, in (*missed)[i], or false for all if none does. */
void spot_coord_witness(const struct spot_coord *c, struct spot_coord_peer *const *peer, size_t n,
                        bool *missed);
void spot_coord_tell_aside(struct spot_coord *c, struct spot_coord_peer *peer, uint32_t type,
                           const char *why);

/* coord_buddy.c: who mirrors each stage whose replicas would all go at once; adds the transfers
 * that the mirrors need. */
void spot_coord_choose_buddies(struct spot_coord *c);
/* Could a stage of the epoch that runs have a buddy now that it has none? */
bool spot_coord_lacks_buddy(const struct spot_coord *c);

/* coord_ahead.c: the form is that of a new grid, *old the one before. Where that can go on
 * meanwhile, and the moves are worth it, it becomes the form again, with handovers, and true is
 * returned. */
bool spot_coord_move_ahead(struct spot_coord *c, struct spot_form *old);
void spot_coord_hand(struct spot_coord *c);                  /* before a step */
void spot_coord_handed(struct spot_coord *c, double step_s); /* at a commit */

/* coord_observe.c: tell the observer of a commit and grant its wish. */
void spot_coord_observe(struct spot_coord *c, double step_s);
int spot_coord_probed(struct spot_coord *c, struct spot_coord_peer *peer,
                      const struct spot_frame *frame);

/* coord_share.c: a member took work_s for its part of a step; how many microbatches each pipeline
 * of the form computes; are others better by so much, and for so long, that an epoch is due? */
void spot_coord_note_pace(struct spot_coord *c, uint32_t id, double work_s);
void spot_coord_choose_shares(struct spot_coord *c);
bool spot_coord_shares_drift(struct spot_coord *c);

/* coordinator.c: tell the members that we are there, in the middle of something long. */
void spot_coord_breathe(void *coord);

/* coord_step.c */
int spot_coord_step(struct spot_coord *c, struct spot_err *err);
/* 1 for a vote that makes no sense: its step is void, and the member must go. */
int spot_coord_vote(struct spot_coord *c, uint32_t id, struct spot_wire_in *in,
                    struct spot_err *err);
int spot_coord_commit(struct spot_coord *c, enum spot_effect *next, struct spot_err *err);

/* coord_state.c */
void spot_coord_save(struct spot_coord *c); /* ask holders for a durable generation */
bool spot_coord_save_is_due(const struct spot_coord *c);
/* 1 for a snapshot that makes no sense: the member must go. */
int spot_coord_snapshot(struct spot_coord *c, const struct spot_frame *frame, struct spot_err *err);
int spot_coord_store_news(struct spot_coord *c, struct spot_err *err);
int spot_coord_finish(struct spot_coord *c, struct spot_coordinator_result *result,
                      struct spot_err *err);

/* coord_bill.c: what members cost since the last time; is the budget spent? */
void spot_coord_bill(struct spot_coord *c);
bool spot_coord_is_broke(const struct spot_coord *c);
/* What is said then, for what tell_stopped says. */
int spot_coord_tell_broke(const struct spot_coord *c, struct spot_err *err);

/* coord_plan.c */
/* Can the job run on this grid, if there are members for it? Returns 0, or -1 with *err of the
 * given code that begins with `what`. */
int spot_coord_check_grid(const struct spot_coord *c, const struct spot_degrees *grid,
                          const char *what, enum spot_code code, struct spot_err *err);
int spot_coord_plan_text(struct spot_coord *c, const char *text, size_t n_byte, const char *source,
                         enum spot_plan_way way, bool *changed, struct spot_err *err);
/* The plan file as the job starts: here a bad one is an error. */
int spot_coord_plan_first(struct spot_coord *c, struct spot_err *err);
void spot_coord_plan_check(struct spot_coord *c, bool force, bool *changed);
void spot_coord_status(const struct spot_coord *c, struct spot_buf *out);

/* coord_listen.c */
int spot_coord_listen(struct spot_coord *c, struct spot_err *err);
void spot_coord_unlisten(struct spot_coord *c);
void spot_coord_drop_private(struct spot_coord *c); /* when no worker uses it any more */

/* coord_local.c */
int spot_coord_local_start(struct spot_coord *c, struct spot_err *err);
int spot_coord_local_keep(struct spot_coord *c, struct spot_err *err);
void spot_coord_local_stop(struct spot_coord *c);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_COORD_H */

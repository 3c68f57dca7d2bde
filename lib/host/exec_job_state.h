/* SPDX-License-Identifier: MIT */
/* exec_job_state.h - shared by the parts of the coordinator's side; private to lib/host. */
#ifndef SPOT_HOST_EXEC_JOB_STATE_H
#define SPOT_HOST_EXEC_JOB_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/group.h"
#include "common/elapsed.h"
#include "host/exec_job.h"
#include "host/exec_protocol.h"
#include "host/ledger_plan.h"
#include "host/state_pull.h"
#include "host/state_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The pace of a rank. */
struct spot_exec_rank_pace {
    uint64_t step;
    double one_s; /* time of a step; 0: not known */
};

/* At the end of the job: whether a node has the last commit where the script looks for it. */
enum spot_exec_laid {
    SPOT_EXEC_LAID_NOT,
    SPOT_EXEC_LAID_ASKED,
    SPOT_EXEC_LAID,
    SPOT_EXEC_LAID_FAILED
};

/* The workload's object of a peer, from its HELLO on. */
struct spot_exec_member {
    struct spot_exec_held held;
    uint32_t id, epoch; /* epoch: the newest one in which it is active; 0: none */
    uint32_t group_rank;
    bool has_saved; /* it has saved in that epoch */
    enum spot_exec_warmth warmth;
    bool was_told_keep;
    double joined_s;
    bool has_had_place; /* it has had a place in a round */
    enum spot_exec_laid laid;

    struct spot_exec_rank_pace *pace; /* [n_rank]; NULL: none reported in this round */
    double slow_s; /* since when one of its ranks has been slow, by spot_clock_s; 0: none is slow */
    bool was_told_slow, is_slow; /* a warning was given; gets no place if there are enough others */

    struct spot_exec_holdings has; /* states that it holds, as it reported and as learned since */
    uint32_t entered;              /* the newest epoch announced to it, with or without a place */
    bool has_took;                 /* it has announced a step that is not decided */
    enum spot_exec_scope scope;
    uint64_t took; /* that step */
    uint64_t took_byte;
    struct spot_state_saved took_saved;
    double took_s; /* time at which it was announced, by spot_clock_s */
};

/* A commit made by all places of its round. */
struct spot_exec_point {
    bool is_set;
    struct spot_state_id id;
    uint32_t world;      /* number of its places */
    double agreed_s;     /* when it was agreed, by spot_clock_s; 0: under another coordinator */
    uint64_t moved_byte; /* bytes moved to make it safe */
    struct spot_state_saved saved;
};

/* A move that was ordered and has not ended. */
struct spot_exec_order {
    struct spot_exec_move move;
    bool is_due; /* a round waits for it */
};

enum { SPOT_EXEC_DOUBTED_MAX = 8 };

struct spot_exec_states {
    bool has_key; /* for the running round: */
    uint64_t key;
    bool has_floor; /* steps of it up to the floor are decided */
    uint64_t floor;
    char refused[SPOT_WHY_MAX]; /* why the last refused step was refused */
    double late_s; /* time of the next warning; the delay doubles each time, since some ranks save
                      for long */

    uint32_t writer; /* the only node with files in the newest commit, UINT32_MAX: several */
    bool has_asked;  /* nodes were ordered to take a step that is not decided */
    uint64_t asked;
    enum spot_exec_scope scope;

    /* a checkpoint found in a node's directory before the first round, which begins from it; not
     * yet a commit */
    struct spot_exec_point found;
    bool has_begun; /* a round of this coordinator has begun */
    char found_by[SPOT_NAME_MAX];
    uint32_t found_round; /* the newest round that began from `found`; commits of earlier rounds are
                             older */

    struct spot_state_id tried; /* commit from which the newest rounds began, which failed, */
    uint32_t n_tried; /* number of rounds in a row that failed before they had saved anything */
    struct spot_state_id doubted[SPOT_EXEC_DOUBTED_MAX]; /* [n_doubted] commits that are passed over
                                                            for an older one */
    size_t n_doubted;
    /* the warning about ranks that do not continue from the given state was given */
    bool has_warned_anew;

    struct spot_exec_point newest; /* the newest agreed commit: a new round would begin with it */
    struct spot_exec_point safe;   /* the newest that survives the loss of any one domain */
    struct spot_exec_point target; /* the one being made safe */
    bool is_alone;                 /* there is no other node to hold it */
    bool is_stale;                 /* a member joined, left or received a state: examine it again */
    size_t n_stayer;               /* number of members expected to stay at the last examination */
    bool has_news;                 /* members must be told which states to keep */

    bool has_standing; /* the step of the log's last commit */
    uint64_t standing;

    struct spot_exec_order *order; /* [n_order] */
    size_t n_order, cap_order;
    uint64_t last_serial;
    double not_before_s; /* earliest time of the next attempt to make it safe */
    uint64_t moved_byte; /* since the coordinator began, only to make commits safe */
};

struct spot_exec_bucket;

/* Commits on the coordinator's machine. */
struct spot_exec_disk {
    int lock_fd;
    struct spot_state_store *store; /* NULL: none */
    struct spot_exec_point newest;  /* completed there by this coordinator */
    struct spot_exec_point target;  /* being copied, */
    struct spot_state_pull *pull;   /* place by place; NULL: none */
    uint64_t serial;                /* of the pull, */
    uint32_t from;                  /* and the member that sends it */
    double next_s;                  /* time of the next copy */
    bool has_failed; /* the last copy failed, or that from here through the command */
};

struct spot_exec_job {
    const struct spot_exec_options *options;
    struct spot_group *group;
    struct spot_view *view;
    double began_s, round_s;      /* start of this coordinator; start of the round */
    char run_id[SPOT_RUN_ID_MAX]; /* "": not drawn yet, and an agent may still report one */
    uint32_t n_started;           /* number of rounds */

    uint32_t group_world, restart_count; /* of the current round, or the last one; 0: none */
    bool is_kept;                        /* the epoch continues with the ranks that ran before it */
    bool *is_done;                       /* [group_world] */

    struct spot_ledger_plan plan; /* the first plan of samples that a node reported */
    bool has_plan;

    bool holds; /* the command supports waiting: newcomers get a place once they are warm */

    uint32_t n_failed;      /* rounds that ended because a rank failed */
    uint32_t n_futile;      /* failed rounds in a row that did not run for long */
    double not_before_s;    /* earliest start of the next round */
    uint32_t charged_epoch; /* epoch and time of the failure counted last; the loss of a node may
                               turn out to be its cause */
    double charged_s;
    bool gives_up; /* the job fails unless that failure is forgiven */
    char why[SPOT_WHY_MAX];

    double watched_s; /* the pace of ranks */

    struct spot_exec_states states;
    struct spot_exec_disk disk;
    struct spot_exec_bucket *bucket; /* NULL: no command */

    uint32_t saving_epoch; /* epoch whose ranks were told to save, and until when; 0: none */
    double saving_s, saving_until_s;
    double saving_of_s; /* how long the first leaver had then; INFINITY: not known */
    bool is_saved;      /* saved, and the job is to stop */
    bool is_finishing;  /* all ranks have ended; the newest commit goes to --state and all nodes */
    double finish_until_s;  /* for the next of them */
    uint64_t finish_serial; /* moves up to it are not retries */
    size_t n_unfinished;    /* moves to nodes that are not finished */

    char changes[SPOT_WHY_MAX]; /* since the newest round began: "node a lost, node b joined" */
    bool has_begun;             /* this coordinator has begun a round */
    struct spot_wait wait;      /* wait for nodes */
};

extern const struct spot_workload spot_exec_workload; /* its object: struct spot_exec_job */

/* exec_layout.c: entries of the workload's table. */
bool spot_exec_may_begin(void *exec, struct spot_view *view);
int spot_exec_layout(void *exec, struct spot_view *view, struct spot_err *err);
bool spot_exec_would_change(void *exec, struct spot_view *view);

/* exec_states.c: the states that members hold. Members of the view in order; NULL for one set
 * aside. */
struct spot_exec_member *spot_exec_member_at(const struct spot_exec_job *job, size_t i);
bool spot_exec_holds(const struct spot_exec_member *member, const struct spot_state_id *id,
                     uint32_t place);
void spot_exec_add_holding(struct spot_exec_job *job, struct spot_exec_member *member,
                           const struct spot_state_id *id, uint32_t place, uint32_t world);
void spot_exec_drop_holding(struct spot_exec_member *member, const struct spot_state_id *id,
                            uint32_t place);
bool spot_exec_is_safe(const struct spot_exec_job *job, const struct spot_exec_point *point);
/* Set `newest` and `safe` from what members reported. */
void spot_exec_find_points(struct spot_exec_job *job);
/* A round failed before it had saved anything: the commit from which it began may be the cause.
 * After several such failures in a row an older commit is tried. */
void spot_exec_doubt(struct spot_exec_job *job);
/* Ranks have reported their first step of the round: warn if it is before the step at which the
 * round began.
 */
void spot_exec_check_anew(struct spot_exec_job *job, uint64_t step);
void spot_exec_adopt_found_point(struct spot_exec_job *job); /* a round begins from it */
/* The member to send a place of a point: a holder with the fewest orders; NULL: none. */
struct spot_exec_member *spot_exec_find_giver(const struct spot_exec_job *job,
                                              const struct spot_exec_point *point, uint32_t place);
/* The best member for another copy of it; NULL: no member would make it safer. */
struct spot_exec_member *spot_exec_find_buddy(const struct spot_exec_job *job,
                                              const struct spot_exec_point *point, uint32_t place);

/* exec_orders.c: states that are moved. */
/* Plan moves of the states that members with a place in the next round lack. */
void spot_exec_plan_restore(struct spot_exec_job *job, struct spot_exec_member *const *member,
                            size_t n);
bool spot_exec_restores_all(const struct spot_exec_job *job);
void spot_exec_drop_orders(struct spot_exec_job *job);
void spot_exec_forget_orders(struct spot_exec_job *job, uint32_t id); /* that member has left */
int spot_exec_on_moved(struct spot_exec_job *job, struct spot_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err);
int spot_exec_make_safe(struct spot_exec_job *job, struct spot_err *err);

/* exec_agree.c: which steps are committed. */
int spot_exec_on_took(struct spot_exec_job *job, struct spot_peer *peer,
                      const struct spot_frame *frame, struct spot_err *err);
int spot_exec_on_offer(struct spot_exec_job *job, struct spot_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err);
/* The ranks of a place have ended: the others' pending commits no longer wait for that place. */
int spot_exec_agree_without(struct spot_exec_job *job, struct spot_err *err);
/* Warn which nodes a commit has been waiting for. */
void spot_exec_warn_late(struct spot_exec_job *job);
/* Call before the epoch's layout is sent: no commits are pending in it. */
void spot_exec_begin_round(struct spot_exec_job *job);
int spot_exec_log_restored(struct spot_exec_job *job, struct spot_err *err);
int spot_exec_log_step(struct spot_exec_job *job, const char *event, uint64_t step,
                       void (*more)(const struct spot_exec_job *job, struct spot_jw *jw),
                       struct spot_err *err);

/* exec_durable.c: commits on the coordinator's disk. */
int spot_exec_disk_open(struct spot_exec_job *job, struct spot_err *err);
void spot_exec_disk_close(struct spot_exec_job *job);
bool spot_exec_disk_holds(const struct spot_exec_job *job, const struct spot_exec_point *point,
                          uint32_t place);
void spot_exec_disk_quiesced(struct spot_exec_job *job); /* the epoch is over */
void spot_exec_disk_forget(struct spot_exec_job *job, uint32_t id);
int spot_exec_disk_tick(struct spot_exec_job *job, struct spot_err *err);
/* True if the newest commit would not yet survive the loss of all nodes, and its copy may still
 * succeed. */
bool spot_exec_disk_is_behind(const struct spot_exec_job *job);
void spot_exec_disk_hurry(struct spot_exec_job *job); /* the next copy must not wait */
int spot_exec_disk_hear(struct spot_exec_job *job, struct spot_peer *peer,
                        const struct spot_frame *frame, struct spot_err *err);

/* exec_bucket.c: copies commits from disk behind the command, and restores from there. */
int spot_exec_bucket_open(struct spot_exec_job *job, struct spot_err *err);
void spot_exec_bucket_close(struct spot_exec_job *job);
/* true while the disk is not ready */
bool spot_exec_bucket_restores(const struct spot_exec_job *job);
/* true while the disk must keep its commits */
bool spot_exec_bucket_copies(const struct spot_exec_job *job);
int spot_exec_bucket_tick(struct spot_exec_job *job, struct spot_err *err);
void spot_exec_bucket_hurry(struct spot_exec_job *job);
/* The newest commit that survives the loss of all nodes: on disk, or behind the command if there is
 * one. */
const struct spot_exec_point *spot_exec_durable(const struct spot_exec_job *job);

/* exec_orders.c: order the moves of what nodes lack of the newest commit; returns how many are in
 * progress. */
size_t spot_exec_bring_newest(struct spot_exec_job *job, struct spot_exec_member *to);

/* exec_finish.c: all ranks have ended. Lay the newest commit out on all nodes; true: that is done,
 * or takes too long. */
bool spot_exec_hand_out(struct spot_exec_job *job);
void spot_exec_heard_laid(struct spot_exec_job *job, struct spot_peer *peer,
                          const struct spot_frame *frame);

/* exec_news.c: news of the job, for people. A member has left; a round begins. */
void spot_exec_news_gone(struct spot_exec_job *job, struct spot_peer *peer);
void spot_exec_news_round(struct spot_exec_job *job, struct spot_exec_member *const *member,
                          size_t n);
void spot_exec_news_wait(struct spot_exec_job *job); /* called while there are too few nodes */
void spot_exec_describe_newest(const struct spot_exec_job *job, char text[SPOT_STATE_DESCRIBED]);

/* exec_layout.c: tell newcomers of the running epoch, so that they can hold states. */
void spot_exec_invite(struct spot_exec_job *job);

/* exec_warm.c: newcomers start their processes while the others work. True if the member may have a
 * place now. */
bool spot_exec_is_ready(const struct spot_exec_job *job, const struct spot_exec_member *member);
void spot_exec_heard_warm(struct spot_exec_job *job, struct spot_exec_member *member,
                          uint64_t warmth);
void spot_exec_keep_warm(struct spot_exec_job *job);

/* exec_slow.c: slow ranks, for which others wait. */
void spot_exec_heard_pace(struct spot_exec_job *job, struct spot_peer *peer,
                          const struct spot_frame *frame);
void spot_exec_watch_pace(struct spot_exec_job *job);
void spot_exec_forget_pace(
    struct spot_exec_member *member); /* a new round begins, or the member has left */
void spot_exec_put_ranks(const struct spot_exec_job *job, struct spot_jw *jw); /* for status */

/* exec_plan.c: a node reported the plan of samples that its ranks declared. */
int spot_exec_heard_plan(struct spot_exec_job *job, struct spot_peer *peer,
                         const struct spot_frame *frame, struct spot_err *err);

/* exec_end.c: the ends of rounds. True if all ranks have ended, and the newest commit has been
 * copied to --state or the copy has failed: then the job ends. */
bool spot_exec_check_done(struct spot_exec_job *job);
int spot_exec_message(void *exec, struct spot_peer *peer, const struct spot_frame *frame,
                      struct spot_err *err);
int spot_exec_tick(void *exec, struct spot_err *err);
/* A member has left: if it caused the failure counted last, do not count that failure. */
void spot_exec_forgive(struct spot_exec_job *job, const struct spot_exec_member *member);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_JOB_STATE_H */

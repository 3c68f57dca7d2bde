/* SPDX-License-Identifier: MIT */
/* exec_job_state.h - what the parts of the coordinator's side share; private to lib/host. */
#ifndef SPOT_HOST_EXEC_JOB_STATE_H
#define SPOT_HOST_EXEC_JOB_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/group.h"
#include "host/exec_job.h"
#include "host/exec_protocol.h"
#include "host/ledger_plan.h"
#include "host/state_pull.h"
#include "host/state_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A peer's, from its hello on. */
struct spot_exec_member {
    struct spot_exec_held held;
    uint32_t id, epoch; /* the newest epoch in which it is active; 0: none */
    uint32_t group_rank;
    bool has_saved; /* in that epoch */
    enum spot_exec_warmth warmth;
    bool was_told_keep;
    double joined_s;

    struct spot_exec_holdings has; /* states, as it reported them and as we heard since */
    uint32_t entered; /* the newest epoch that it was told of, with a place or without */
    bool has_took;    /* it has told of a step that is not decided: */
    uint64_t took;    /* which one, */
    uint64_t took_byte;
};

/* A commit that all places of its round have made. */
struct spot_exec_point {
    bool is_set;
    struct spot_state_id id;
    uint32_t world;      /* places that it has */
    double agreed_s;     /* when, by spot_clock_s; 0: another coordinator saw that */
    uint64_t moved_byte; /* to make it safe */
};

/* A move that was ordered and has not ended. */
struct spot_exec_order {
    struct spot_exec_move move;
    bool is_due; /* a round waits for it */
};

struct spot_exec_states {
    bool has_key; /* of the round that runs: */
    uint64_t key;
    bool has_floor; /* steps of it up to the floor are decided */
    uint64_t floor;
    char refused[SPOT_WHY_MAX]; /* why the last one that was refused was */

    struct spot_exec_point newest; /* agreed: what a round would begin with */
    struct spot_exec_point safe;   /* the newest that no loss of one domain takes away */
    struct spot_exec_point target; /* that is being made safe */
    bool is_alone;                 /* there is nobody else to hold it */
    bool is_stale;                 /* somebody came, went or got a state: look at it again */
    size_t n_stayer;               /* members on whom one may rely, when that was done */
    bool has_news;                 /* members are to be told what they hold on to */

    bool has_standing; /* the step at which the log stands */
    uint64_t standing;

    struct spot_exec_order *order; /* [n_order] */
    size_t n_order, cap_order;
    uint64_t last_serial;
    double not_before_s; /* the next try to make it safe */
    uint64_t moved_byte; /* since the coordinator began, for safety alone */
};

struct spot_exec_bucket;

/* Commits beside the coordinator. */
struct spot_exec_disk {
    int lock_fd;
    struct spot_state_store *store; /* NULL: there are none */
    struct spot_exec_point newest;  /* that this coordinator has completed there */
    struct spot_exec_point target;  /* that is being copied, */
    struct spot_state_pull *pull;   /* place by place; NULL: none is */
    uint64_t serial;                /* of the pull, */
    uint32_t from;                  /* and the member that gives it */
    double next_s;                  /* the next copy */
    bool has_failed;                /* the last one, or the one from here to the store */
};

struct spot_exec_job {
    const struct spot_exec_options *options;
    struct spot_group *group;
    struct spot_view *view;
    double began_s;
    char run_id[SPOT_RUN_ID_MAX]; /* "": not drawn yet, and an agent may still bring it */
    uint32_t n_started;           /* rounds */

    uint32_t group_world, restart_count; /* of the round that runs, or the last one; 0: none */
    bool is_kept;                        /* the epoch goes on with ranks that ran before it */
    bool *is_done;                       /* [group_world] */

    struct spot_ledger_plan plan; /* of samples, the first that a node told */
    bool has_plan;

    bool holds; /* the command can wait: newcomers are placed when they are warm */

    uint32_t n_failed;      /* rounds that ended since a rank failed */
    uint32_t n_futile;      /* of them, in a row that did not stay up */
    double not_before_s;    /* the next round */
    uint32_t charged_epoch; /* whose failure was counted last, when; a loss may be the cause */
    double charged_s;
    bool gives_up; /* unless that was so */
    char why[SPOT_WHY_MAX];

    struct spot_exec_states states;
    struct spot_exec_disk disk;
    struct spot_exec_bucket *bucket; /* NULL: there is no command */

    uint32_t saving_epoch; /* whose ranks were told to save, until when; 0: none */
    double saving_until_s;
    bool is_saved;     /* and the job is to stop */
    bool is_finishing; /* all ranks have ended; the newest commit is on its way to --state */
};

/* exec_layout.c: entries of the workload's table. */
bool spot_exec_may_begin(void *exec, struct spot_view *view);
int spot_exec_layout(void *exec, struct spot_view *view, struct spot_err *err);
bool spot_exec_would_change(void *exec, struct spot_view *view);

/* exec_states.c: who holds what. Members of the view in order; NULL for one that is set aside. */
struct spot_exec_member *spot_exec_member_at(const struct spot_exec_job *job, size_t i);
bool spot_exec_holds(const struct spot_exec_member *member, const struct spot_state_id *id,
                     uint32_t place);
void spot_exec_add_holding(struct spot_exec_job *job, struct spot_exec_member *member,
                           const struct spot_state_id *id, uint32_t place, uint32_t world);
void spot_exec_drop_holding(struct spot_exec_member *member, const struct spot_state_id *id,
                            uint32_t place);
bool spot_exec_is_safe(const struct spot_exec_job *job, const struct spot_exec_point *point);
/* Set newest and safe from what members report. */
void spot_exec_find_points(struct spot_exec_job *job);
/* Who gives the place of a point: the member with the fewest orders; NULL: nobody. */
struct spot_exec_member *spot_exec_find_giver(const struct spot_exec_job *job,
                                              const struct spot_exec_point *point, uint32_t place);
/* Who is best to have another copy of it; NULL: nobody would make it safer. */
struct spot_exec_member *spot_exec_find_buddy(const struct spot_exec_job *job,
                                              const struct spot_exec_point *point, uint32_t place);

/* exec_orders.c: states that are moved. */
/* What those who have a place in the next round lack of its state. */
void spot_exec_plan_restore(struct spot_exec_job *job, struct spot_exec_member *const *member,
                            size_t n);
bool spot_exec_restores_all(const struct spot_exec_job *job);
void spot_exec_drop_orders(struct spot_exec_job *job);
void spot_exec_forget_orders(struct spot_exec_job *job, uint32_t id); /* that member is gone */
int spot_exec_on_moved(struct spot_exec_job *job, struct spot_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err);
int spot_exec_make_safe(struct spot_exec_job *job, struct spot_err *err);

/* exec_agree.c: what is committed. */
int spot_exec_on_took(struct spot_exec_job *job, struct spot_peer *peer,
                      const struct spot_frame *frame, struct spot_err *err);
/* The ranks of a place have ended: who told of a step does not wait for that place. */
int spot_exec_agree_without(struct spot_exec_job *job, struct spot_err *err);
/* Before the epoch's layout is told: nobody has told of a step in it. */
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
/* The newest commit is not yet where it is to survive all nodes, and may get there. */
bool spot_exec_disk_is_behind(const struct spot_exec_job *job);
void spot_exec_disk_hurry(struct spot_exec_job *job); /* it is not waited for the next time */
int spot_exec_disk_hear(struct spot_exec_job *job, struct spot_peer *peer,
                        const struct spot_frame *frame, struct spot_err *err);

/* exec_bucket.c: what is on the disk goes behind the command, and comes from there. */
int spot_exec_bucket_open(struct spot_exec_job *job, struct spot_err *err);
void spot_exec_bucket_close(struct spot_exec_job *job);
bool spot_exec_bucket_restores(const struct spot_exec_job *job); /* the disk is not ready yet */
bool spot_exec_bucket_copies(const struct spot_exec_job *job); /* the disk must keep what it has */
int spot_exec_bucket_tick(struct spot_exec_job *job, struct spot_err *err);
void spot_exec_bucket_hurry(struct spot_exec_job *job);
/* The newest commit that outlives all nodes: on the disk, or behind the command if there is one. */
const struct spot_exec_point *spot_exec_durable(const struct spot_exec_job *job);

/* exec_layout.c: newcomers are told of the epoch that runs, so that they can hold states. */
void spot_exec_invite(struct spot_exec_job *job);

/* exec_warm.c: newcomers begin beside the others. Is it to have a place now? */
bool spot_exec_is_ready(const struct spot_exec_job *job, const struct spot_exec_member *member);
void spot_exec_heard_warm(struct spot_exec_job *job, struct spot_exec_member *member,
                          uint64_t warmth);
void spot_exec_keep_warm(struct spot_exec_job *job);

/* exec_plan.c: a node tells the plan of samples that its ranks declared. */
int spot_exec_heard_plan(struct spot_exec_job *job, struct spot_peer *peer,
                         const struct spot_frame *frame, struct spot_err *err);

/* exec_end.c: how rounds end. Have all ranks ended? Then the job does, as soon as its newest commit
 * is where --state wants it, or that has failed. */
bool spot_exec_check_done(struct spot_exec_job *job);
int spot_exec_message(void *exec, struct spot_peer *peer, const struct spot_frame *frame,
                      struct spot_err *err);
int spot_exec_tick(void *exec, struct spot_err *err);
/* A member is gone: was it the cause of the failure that was counted? */
void spot_exec_forgive(struct spot_exec_job *job, const struct spot_exec_member *member);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_JOB_STATE_H */

/* SPDX-License-Identifier: MIT */
/* group_state.h - shared by the parts of a group; private to lib/cluster/group*.c. */
#ifndef SPOT_CLUSTER_GROUP_STATE_H
#define SPOT_CLUSTER_GROUP_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cluster/group.h"
#include "cluster/restart.h"
#include "cluster/suspect.h"
#include "comm/endpoint.h"
#include "comm/link.h"
#include "comm/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A connection; a member once its HELLO was accepted. */
struct spot_peer {
    struct spot_group *group;
    struct spot_view *view; /* NULL: not a member */
    void *data;             /* the workload's */
    struct spot_link link;
    int at_fd; /* its descriptor, kept after it was closed */
    uint32_t watched;
    uint32_t id;     /* 0: not a member */
    bool is_closing; /* close when everything is sent */
    bool awaits_end; /* a client to be answered when the job has stopped */
    char name[SPOT_NAME_MAX];
    char domain[SPOT_NAME_MAX]; /* failure domain */
    double since_s, received_s; /* time of the connection; time of the last sign of life */
    double leaves_s;            /* time at which a member with a notice will leave; 0: not known */
    double progress_s;          /* time of its last progress */
    uint64_t progress;
    /* the peer's address as announced, as seen from its connection, and our address on its
     * connection; kind UNIX if unknown */
    struct spot_endpoint at, seen_at, ours_at;
    bool is_proved;           /* it has reported which members it reaches, and may have a place */
    bool is_on_trial;         /* was set aside and is being probed again */
    double asked_s, joined_s; /* time of the order REACH, 0: none yet; when it became a member */
};

struct spot_view {
    struct spot_group *group;
    uint32_t index;
    struct spot_machine machine;
    uint32_t reported_epoch; /* the newest epoch before which members and workload were told to
                                quiesce */
    uint32_t *placed;        /* [n_placed], ids of the members of the newest layout */
    size_t n_placed;
    bool is_formed;  /* a layout is in force */
    bool is_resting; /* all rounds are done */
    bool has_failed; /* the last epoch failed: accusations of members count */
    int n_broken;    /* epochs in a row that broke without a commit */
    double settle_until_s;
    double stall_s; /* options->stall_s, twice that after each stall without a commit */
    double last_commit_s;
};

struct spot_local {
    pid_t pid; /* 0: not running */
    double start_s;
    int64_t start_round; /* the job's round when the process was started */
    int n_futile;        /* consecutive deaths without a round in between */
    struct spot_restart restart;
    double again_s; /* no restart before then */
    int words_fd;   /* socket for its last error message */
};

/* How a plan arrived. Times of plans are compared only within one way: a plan file may be made from
 * a trace that began long before the job, while those of `replan` come from its events. FORCED is a
 * pushed plan that is accepted whatever its time. */
enum spot_plan_way { SPOT_PLAN_FILE, SPOT_PLAN_PUSHED, SPOT_PLAN_FORCED };

struct spot_group {
    const struct spot_group_options *options;
    const struct spot_workload *workload;
    void *job;
    uint64_t key;
    struct spot_lead *lead; /* NULL: there is no store */
    struct spot_journal_keep keep;
    struct spot_journal_record before; /* record of the previous leader; all zero: none */
    bool is_taken_over;
    struct spot_journal journal;
    uint32_t last_epoch; /* the last number used by any view */
    struct spot_view **view;
    size_t n_view, cap_view;

    struct spot_endpoint endpoint;
    struct spot_tls_context *tls; /* NULL: no key, local connections only */
    char *private_dir;            /* directory of the socket, if no address was given */
    int private_fd; /* its descriptor, if its name is too long for a socket; else -1 */
    double swept_s; /* when dead workers' sockets were last removed */
    int listener, wake[2];
    struct spot_watch watch;
    int work_fd; /* the watched descriptor of the workload; -1: none */
    uint32_t listener_watched, work_watched;
    struct spot_peer **peer;
    size_t n_peer, cap_peer, n_named; /* members first, by id; then other peers */
    uint32_t last_id;

    bool is_suspended;     /* the plan says to stop and keep the state */
    double plan_time_s[2]; /* time of the newest accepted plan, by enum spot_plan_way */
    bool has_plan;         /* a plan was accepted */
    double force_time_s;   /* time of the last forced plan */
    uint64_t plan_stamp;   /* stamp of the plan file when it was read */
    double plan_check_s;

    double keepalive_s;  /* when the last keepalive was sent during long work */
    double full_until_s; /* when out of descriptors: no new connections until then */
    double polled_s;     /* time of the last poll; peers not heard from since then have timed out */
    struct spot_suspects suspects;
    struct spot_group_counts counts;
    bool is_drained; /* a client asked the job to stop */
    bool stop_wanted, is_over;
    struct spot_local *local; /* [options->n_local] */
    double ran_s;             /* when an epoch of any view was last seen running */
};

/* group_view.c: a new view; the view with this index, created if missing; carry out an effect and
 * those that follow from it. */
int spot_view_act(struct spot_view *view, enum spot_effect effect, struct spot_err *err);
/* Start a new epoch if the layout would change: in one view, in all. */
int spot_view_consider(struct spot_view *view, struct spot_err *err);
int spot_group_consider(struct spot_group *group, struct spot_err *err);
void spot_view_free(struct spot_view *view);
void spot_view_idle(struct spot_view *view);
/* Release leaving members that have no part in the running epoch. */
void spot_view_release_leavers(struct spot_view *view);
/* While nothing runs: true if all members are present with which an epoch should begin. */
bool spot_view_may_start(struct spot_view *view);

/* group_member.c */
int spot_group_hello(struct spot_group *group, struct spot_peer *peer,
                     const struct spot_frame *frame, struct spot_err *err);

/* group_message.c: handle a frame; log an event about a member, `why` may be NULL. */
int spot_group_message(struct spot_group *group, struct spot_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err);
int spot_group_log_member(struct spot_group *group, const char *event, const struct spot_peer *peer,
                          const char *why, struct spot_err *err);

/* group_link.c: accept connections, limiting unidentified ones; read and handle frames of a peer
 * (returns 1 when it is closed); remove a peer and continue without its member; drop dead peers. */
void spot_group_accept(struct spot_group *group);
size_t spot_group_waiters(const struct spot_group *group); /* clients that wait for the end */
int spot_group_serve_peer(struct spot_group *group, struct spot_peer *peer, uint32_t events,
                          struct spot_err *err);
int spot_group_lose_peer(struct spot_group *group, size_t i, const char *why, struct spot_err *err);
int spot_group_drop_dead(struct spot_group *group, struct spot_err *err);
void spot_group_free_peer(struct spot_group *group, size_t i);

/* group_unreachable.c: of two members that are alive but cannot reach each other, one is set aside.
 * Read a member's accusations, -1 when malformed; judge them and return the number of members set
 * aside. */
int spot_group_accuse(struct spot_group *group, const struct spot_peer *reporter,
                      struct spot_wire_in *in);
size_t spot_group_judge(struct spot_group *group);

/* group_reach.c: before a member gets a place it must report which of the others it reaches. A
 * member set aside is probed again when its time is over, and dismissed if it still fails. */
void spot_group_meet(struct spot_group *group, struct spot_peer *peer);
int spot_group_reached(struct spot_group *group, struct spot_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err);
void spot_group_retry_aside(struct spot_group *group); /* called by the loop */
bool spot_view_is_asking(
    const struct spot_view *view); /* true while a member has not answered REACH */
/* Sets (*missed)[i] for members that do not answer this coordinator; all false if none answers. */
void spot_group_witness(const struct spot_group *group, struct spot_peer *const *peer, size_t n,
                        bool *missed);
void spot_peer_report_aside(struct spot_peer *peer, uint32_t type, const char *why);

/* group_plan.c */
int spot_group_plan_text(struct spot_group *group, const char *text, size_t n_byte,
                         const char *source, enum spot_plan_way way, bool *changed,
                         struct spot_err *err);
void spot_group_plan_check(struct spot_group *group, bool force, bool *changed);

/* group_listen.c */
int spot_group_listen(struct spot_group *group, struct spot_err *err);
void spot_group_unlisten(struct spot_group *group);
void spot_group_drop_private(struct spot_group *group); /* once no worker uses it */

/* group_lead.c: store the log's record from now on; check the lease before acting; give up the
 * lead. */
int spot_group_keep(struct spot_group *group, int64_t *round, struct spot_err *err);
int spot_group_hold(struct spot_group *group, struct spot_err *err);
void spot_group_resign(struct spot_group *group);

/* group_local.c */
int spot_group_local_start(struct spot_group *group, struct spot_err *err);
int spot_group_local_keep(struct spot_group *group, struct spot_err *err);
void spot_group_local_stop(struct spot_group *group);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_GROUP_STATE_H */

/* SPDX-License-Identifier: MIT */
/* group.h - a coordinator and the workers that come and go: takes them in, forms epochs, commits
 * rounds by vote, for a workload (workload.h).
 *
 *   new -> open -> [add views, read the plan] -> run -> say_end, dismiss -> close
 *
 * Not thread-safe; one group runs in a process at a time (signals). Nothing is printed: warnings,
 * notes and progress go to functions of the options.
 */
#ifndef SPOT_CLUSTER_GROUP_H
#define SPOT_CLUSTER_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/journal.h"
#include "cluster/journal_keep.h"
#include "cluster/lead.h"
#include "cluster/machine.h"
#include "cluster/protocol.h"
#include "cluster/workload.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_group_options {
    const char *name;          /* begins those of private directories */
    const char *old_plan_hint; /* told who gives a plan that is too old: how it is taken; NULL */
    const char *listen;        /* NULL: a private Unix socket */
    const char *key_file;      /* TLS with this key, on every connection; NULL: none */
    const char *events;        /* JSON Lines; NULL: none, "-": stdout */
    const char *plan;          /* spot.plan/1 file, read again when it changes; "-": stdin; NULL */
    bool resume;               /* the events are continued */
    const char *store;         /* etcd://...: where coordinators agree on who leads; NULL: alone */
    double store_lease_s;

    uint64_t n_local; /* worker processes to start and keep */
    /* In a new process: become worker `index`, which joins at `address`. Does not return, or the
     * process ends with status 127. NULL if n_local is 0. */
    void (*become_worker)(void *user, uint64_t index, const char *address);

    double price_usd_per_h; /* of one member; 0: not known */
    double budget_usd;      /* stop when so much is spent; 0: no limit */
    double lease_s;         /* a silent member is lost after this */
    double grace_s;  /* how long a worker is there after a notice that does not say; 0: not known */
    double stall_s;  /* so is one that makes no progress */
    double settle_s; /* wait this long after a join before the first epoch */
    void *user;
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
    void (*listening)(void *user, const char *address); /* at what options.listen said; NULL */
    void (*standing_by)(void *user, const char *store); /* another coordinator leads; NULL */
};

/* --- the life of a group ---------------------------------------------------- */

/* Nothing is touched but the key file. The options, the table and the job outlive the group. NULL
 * with *err. */
struct spot_group *spot_group_new(const struct spot_group_options *options,
                                  const struct spot_workload *workload, void *job,
                                  struct spot_err *err);
/* From here on spot_group_has_begun says so: what the process leaves must be put in order. */
void spot_group_begin(void);
/* Where there is a store, wait until this coordinator leads; and tell of the job as the one before
 * left it, until spot_group_open: NULL, there was none. `identity` is the job's. Returns 0, or -1
 * with *err: SPOT_EUSAGE where the store has another job, SPOT_EPREEMPTED when stopped before. */
int spot_group_lead(struct spot_group *group, const char *identity,
                    const struct spot_journal_record **before, struct spot_err *err);
/* The lead is the caller's from now on, to free when all that the next coordinator needs is free;
 * spot_group_free does that at its end where nobody took it. NULL: there is no store. */
struct spot_lead *spot_group_take_lead(struct spot_group *group);
/* The job goes on: it was said so, or a coordinator led it before. */
bool spot_group_resumes(const struct spot_group *group);
/* Listen, and open the log; *round gets the newest that it says was committed, -1: none. Returns 0,
 * or -1 with *err. */
int spot_group_open(struct spot_group *group, int64_t *round, struct spot_err *err);
/* The next view, in which `round` is the next. Only for views that should not begin at round 0. */
struct spot_view *spot_group_add_view(struct spot_group *group, int64_t round);
/* The plan file as the job starts: here a bad one is an error. */
int spot_group_read_plan(struct spot_group *group, struct spot_err *err);
/* Start the local workers and serve, until spot_group_end or a wish to stop has been fulfilled. */
int spot_group_run(struct spot_group *group, struct spot_err *err);
/* Called by the workload: the job is done, the loop ends. */
void spot_group_end(struct spot_group *group);
bool spot_group_is_over(const struct spot_group *group);
/* Tell all members that the job is done. */
void spot_group_dismiss(struct spot_group *group);
/* Answer the clients that wait for the end, with an exit status; and if the job is not done but was
 * asked to stop by one, or its budget is spent, let members go that nobody will come back for. */
void spot_group_say_end(struct spot_group *group, bool is_done, int status, const char *text);
/* Flush and close the log. Returns 0, or -1 with *err, which may be NULL. */
int spot_group_close_journal(struct spot_group *group, struct spot_err *err);
void spot_group_free(struct spot_group *group); /* may be NULL */

/* Async-signal-safe: make the state durable and stop. A second call, half a second later or more,
 * stops at once. */
void spot_group_stop(void);
/* How often that was asked for. */
int spot_group_stops(void);
/* Async-signal-safe: is there something to put in order before this process ends? */
bool spot_group_has_begun(void);
/* Async-signal-safe: read the plan file again. */
void spot_group_reload(void);

/* --- what a workload asks of it --------------------------------------------- */

struct spot_journal *spot_group_journal(struct spot_group *group);
/* The newest epoch of all views. */
uint32_t spot_group_epoch(const struct spot_group *group);
/* A signal, a client or the budget wants the job to stop. */
bool spot_group_is_stopping(const struct spot_group *group);
/* A plan says: stop and keep the state. */
bool spot_group_is_suspended(const struct spot_group *group);
double spot_group_spent_usd(const struct spot_group *group);
bool spot_group_is_broke(const struct spot_group *group); /* the budget is spent */
size_t spot_group_members(const struct spot_group *group);
/* Where it listens, in a text of SPOT_ADDRESS_MAX + 8 bytes. */
void spot_group_address(const struct spot_group *group, char *text);
/* Tell the members that we are there, in the middle of something long; group is a struct
 * spot_group. */
void spot_group_send_keepalive(void *group);
/* Bytes that wait to be sent, to all. */
size_t spot_group_queued_byte(const struct spot_group *group);
/* This local worker gets its notice; no effect if there is none. */
void spot_group_notice_local(struct spot_group *group, uint64_t index);

/* --- who looks on ------------------------------------------------------------ */

/* What a member is, as spot.status/1 says it: with a place; it only hands over; without a place;
 * there is no grid; others do not reach it. */
enum spot_group_role {
    SPOT_IS_ACTIVE,
    SPOT_IS_SOURCE,
    SPOT_IS_SPARE,
    SPOT_IS_WAITING,
    SPOT_IS_ASIDE,
    SPOT_GROUP_ROLES
};
const char *spot_group_role_name(enum spot_group_role role);

struct spot_group_census {
    size_t n[SPOT_GROUP_ROLES]; /* members by role */
    size_t n_leaving;           /* of all: they have a notice */
};
/* A spot.status/1 document behind `out`; *census, which may be NULL, gets who it names. */
void spot_group_status(struct spot_group *group, struct spot_group_census *census,
                       struct spot_buf *out);

/* Since this coordinator began. A member has one end: with notice or without. */
struct spot_group_counts {
    uint64_t n_joined, n_noticed, n_killed;
};
const struct spot_group_counts *spot_group_counts(const struct spot_group *group);
/* The group's part of the metrics, `census` being that of now. */
void spot_group_metrics(const struct spot_group *group, const struct spot_group_census *census,
                        struct spot_buf *out);

/* --- peers ------------------------------------------------------------------ */

/* NULL for a stranger, and for who is gone. */
struct spot_peer *spot_group_find(const struct spot_group *group, uint32_t id);
struct spot_peer *spot_group_find_name(const struct spot_group *group, const char *name);
uint32_t spot_peer_id(const struct spot_peer *peer);
const char *spot_peer_name(const struct spot_peer *peer);
const char *
spot_peer_domain(const struct spot_peer *peer); /* failure domain, "" if none is known */
void *spot_peer_data(const struct spot_peer *peer);
void spot_peer_set_data(struct spot_peer *peer, void *data);
/* Until it is gone: INFINITY without a notice, or where the grace period is not known. */
double spot_peer_time_left_s(const struct spot_peer *peer);
/* Set aside: it lives, and gets no place. */
bool spot_peer_is_aside(const struct spot_peer *peer);

/* A send that fails is no error here: the loop sees the dead connection and acts on it. The frame
 * is of the epoch of the peer's view. */
void spot_peer_send(struct spot_peer *peer, uint32_t type, uint64_t tag, const void *data,
                    size_t n_byte);
/* From now on this member owes an answer: who was idle before has not stalled. */
void spot_peer_ask(struct spot_peer *peer);
/* Close the connection of a peer that sent a malformed message; the job goes on without it. */
void spot_peer_drop(struct spot_peer *peer, const char *what);
/* A member of a view that waits becomes one of another that waits; both keep their rounds. */
void spot_peer_move(struct spot_peer *peer, struct spot_view *to);
/* Where `to` finds a member, in a text of SPOT_ADDRESS_MAX + 8 bytes. */
void spot_peer_address(const struct spot_peer *peer, const struct spot_peer *to, char *text);

/* --- views ------------------------------------------------------------------ */

/* The view of this index; those up to it are made. */
struct spot_view *spot_group_view(struct spot_group *group, uint32_t index);
uint32_t spot_view_index(const struct spot_view *view);
/* The key `view` of an event; the first one needs none. jw may be NULL. */
void spot_view_put(const struct spot_view *view, struct spot_jw *jw);
/* Who is a member of it, with which role; phase, epoch and round. */
const struct spot_machine *spot_view_machine(const struct spot_view *view);
/* The same to every member that is active in its epoch. */
void spot_view_send_active(struct spot_view *view, uint32_t type, uint64_t tag, const void *data,
                           size_t n_byte);
/* May it have a place? How many may? */
bool spot_view_may_place(const struct spot_view *view, const struct spot_member *member);
size_t spot_view_placeable(const struct spot_view *view);

/* In layout. */
void spot_view_set_role(struct spot_view *view, uint32_t id, enum spot_role role);
void spot_view_form(struct spot_view *view, int64_t round);
void spot_view_hold(struct spot_view *view); /* calls idle of the table */

/* In begin: all rounds are done, members owe no more votes in this epoch. */
void spot_view_rest(struct spot_view *view);
/* A new epoch is wanted at the next commit. */
void spot_view_want_change(struct spot_view *view);
bool spot_view_wants_change(const struct spot_view *view);
/* The epoch cannot go on, though nobody was lost. No effect for one that is over. */
int spot_view_break(struct spot_view *view, uint32_t epoch, struct spot_err *err);
/* In commit: the round that will be the next. */
int64_t spot_view_reached(const struct spot_view *view);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_GROUP_H */

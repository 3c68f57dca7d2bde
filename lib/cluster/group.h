/* SPDX-License-Identifier: MIT */
/* group.h - a coordinator and its workers: takes workers in, forms epochs, commits rounds by vote,
 * for a workload (workload.h).
 *
 *   new -> open -> [add views, read the plan] -> run -> report_end, dismiss -> close
 *
 * Not thread-safe; one group runs in a process at a time (signals). Prints nothing: warnings, notes
 * and progress go to functions in the options.
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
    const char *name; /* prefix of private directories */
    /* hint how to force a plan, appended to the message that refuses an old one; NULL: none */
    const char *old_plan_hint;
    const char *listen;   /* NULL: a private Unix socket */
    const char *key_file; /* TLS with this key, on every connection; NULL: none */
    const char *events;   /* JSON Lines; NULL: none, "-": stdout */
    const char *plan;     /* spot.plan/1 file, read again when it changes; "-": stdin; NULL */
    bool resume;          /* continue the events of an earlier run */
    const char *store;    /* etcd://...: coordinators elect a leader there; NULL: none */
    double store_lease_s;

    uint64_t n_local; /* worker processes to start and keep */
    /* In a new process: become worker `index`, which joins at `address`. Does not return; if it
     * does, the process exits with status 127. NULL if n_local is 0. */
    void (*become_worker)(void *user, uint64_t index, const char *address);
    /* Before that: what the parent tells it, see spot_first_words; "" for nothing. May be NULL. */
    void (*first_message)(void *user, char *text, size_t n);

    double lease_s;   /* a member not heard from for this long is lost */
    double grace_s;   /* grace period of a notice that does not give one; 0: not known */
    double stall_s;   /* a member that makes no progress for this long is lost */
    double settle_s;  /* wait this long after a join before the first epoch, if others may join */
    uint64_t n_first; /* and until this many members have joined */
    void *user;
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
    void (*note)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* who joins, leaves, is lost; NULL */
    void (*listening)(void *user, const char *address);   /* resolved options.listen; NULL */
    void (*standing_by)(void *user, const char *store);   /* another coordinator leads; NULL */
};

/* --- start and end of a group ---------------------------------------------------- */

/* Reads the key file, and has no other effect. The options, the table and the job must outlive the
 * group. NULL with *err. */
struct spot_group *spot_group_new(const struct spot_group_options *options,
                                  const struct spot_workload *workload, void *job,
                                  struct spot_err *err);
/* From now on spot_group_has_begun is true: the process must clean up before it ends. */
void spot_group_begin(void);
/* With a store, wait until this coordinator leads. *before gets the record that the previous leader
 * left, valid until spot_group_open; NULL: none. `identity` is the job's. Returns 0, or -1 with
 * *err: SPOT_EUSAGE if the store has another job, SPOT_EPREEMPTED when stopped first. */
int spot_group_lead(struct spot_group *group, const char *identity,
                    const struct spot_journal_record **before, struct spot_err *err);
/* Transfer the lead to the caller, which must free it once everything the next coordinator needs is
 * released; else spot_group_free does so last. NULL: there is no store. */
struct spot_lead *spot_group_take_lead(struct spot_group *group);
/* True if the job continues an earlier run: `resume` is set, or another coordinator led it
 * before. */
bool spot_group_resumes(const struct spot_group *group);
/* Listen, and open the log; *round gets the newest committed round in it, -1: none. Returns 0, or
 * -1 with *err. */
int spot_group_open(struct spot_group *group, int64_t *round, struct spot_err *err);
/* Add a view whose next round is `round`. Needed only for views that do not begin at round 0. */
struct spot_view *spot_group_add_view(struct spot_group *group, int64_t round);
/* Read the plan file at the start of the job; at this point a bad plan is an error. */
int spot_group_read_plan(struct spot_group *group, struct spot_err *err);
/* Start the local workers and serve, until spot_group_end or until a stop request was carried
 * out. */
int spot_group_run(struct spot_group *group, struct spot_err *err);
/* Called by the workload: the job is done, the loop ends. */
void spot_group_end(struct spot_group *group);
bool spot_group_is_over(const struct spot_group *group);
/* Tell all members that the job is done. */
void spot_group_dismiss(struct spot_group *group);
/* Answer the clients that wait for the end, with an exit status. If a client stopped a job that is
 * not done, also dismiss its members, since no coordinator will return. */
void spot_group_report_end(struct spot_group *group, bool is_done, int status, const char *text);
/* Flush and close the log. Returns 0, or -1 with *err, which may be NULL. */
int spot_group_close_journal(struct spot_group *group, struct spot_err *err);
void spot_group_free(struct spot_group *group); /* may be NULL */

/* Async-signal-safe: make the state durable and stop. A second call, at least half a second later,
 * stops at once. */
void spot_group_stop(void);
/* How often spot_group_stop was called. */
int spot_group_stops(void);
/* Async-signal-safe: true if the process should end without waiting for durable state: after the
 * second spot_group_stop, or after the first if the group does not run yet and has nothing to
 * save. */
bool spot_group_gives_up(void);
/* Async-signal-safe: true if this process must clean up before it ends. */
bool spot_group_has_begun(void);
/* Async-signal-safe: read the plan file again. */
void spot_group_reload(void);

/* --- called by a workload --------------------------------------------------- */

struct spot_journal *spot_group_journal(struct spot_group *group);
/* The newest epoch of all views. */
uint32_t spot_group_epoch(const struct spot_group *group);
/* A signal or a client has asked the job to stop. */
bool spot_group_is_stopping(const struct spot_group *group);
/* A plan says to stop and keep the state. */
bool spot_group_is_suspended(const struct spot_group *group);
size_t spot_group_members(const struct spot_group *group);
/* The listening address, in a text of SPOT_ADDRESS_MAX + 8 bytes. */
void spot_group_address(const struct spot_group *group, char *text);
/* Tell the members during long work that this coordinator is alive; group is a struct
 * spot_group. */
void spot_group_send_keepalive(void *group);
/* Bytes queued for sending, to all peers. */
size_t spot_group_queued_byte(const struct spot_group *group);
/* Deliver a notice to this local worker; no effect if there is no such worker. */
void spot_group_notice_local(struct spot_group *group, uint64_t index);

/* --- status and metrics ------------------------------------------------------ */

/* Role of a member, as in spot.status/1: has a place; only sends its state; has no place; no grid
 * is in force; unreachable for others. */
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
    size_t n_leaving;           /* members of any role that have a notice */
};
/* Append a spot.status/1 document to `out`; *census, which may be NULL, gets the member counts. */
void spot_group_status(struct spot_group *group, struct spot_group_census *census,
                       struct spot_buf *out);

/* Counts since the start of this coordinator. The end of a member counts once, with or without a
 * notice. */
struct spot_group_counts {
    uint64_t n_joined, n_noticed, n_killed;
};
const struct spot_group_counts *spot_group_counts(const struct spot_group *group);
/* The group's part of the metrics; `census` is the current one. */
void spot_group_metrics(const struct spot_group *group, const struct spot_group_census *census,
                        struct spot_buf *out);

/* --- peers ------------------------------------------------------------------ */

/* NULL if the id is unknown or its member has left. */
struct spot_peer *spot_group_find(const struct spot_group *group, uint32_t id);
struct spot_peer *spot_group_find_name(const struct spot_group *group, const char *name);
uint32_t spot_peer_id(const struct spot_peer *peer);
const char *spot_peer_name(const struct spot_peer *peer);
const char *
spot_peer_domain(const struct spot_peer *peer); /* failure domain, "" if none is known */
void *spot_peer_data(const struct spot_peer *peer);
void spot_peer_set_data(struct spot_peer *peer, void *data);
/* Seconds until it leaves; INFINITY without a notice, or if the grace period is not known. */
double spot_peer_time_left_s(const struct spot_peer *peer);
/* See spot_link_round_trip_s, of its connection. */
double spot_peer_round_trip_s(const struct spot_peer *peer);
/* Set aside: alive, but gets no place. */
bool spot_peer_is_aside(const struct spot_peer *peer);

/* Set a member aside permanently because a fault was proved; it is told `why`. The caller breaks
 * the epoch (spot_view_break). The other functions do this for a name without a connected member,
 * and return whether a name was convicted. */
void spot_peer_convict(struct spot_peer *peer, const char *why);
void spot_group_convict(struct spot_group *group, const char *name, const char *why);
bool spot_peer_is_convicted(const struct spot_peer *peer);

/* A failed send is not an error here: the loop detects the closed connection. The frame carries the
 * epoch of the peer's view. */
void spot_peer_send(struct spot_peer *peer, uint32_t type, uint64_t tag, const void *data,
                    size_t n_byte);
/* The same, transferring ownership of the memory: *data is empty afterwards. */
void spot_peer_submit(struct spot_peer *peer, uint32_t type, uint64_t tag,
                      struct spot_buf *data_take);
/* From now on this member owes an answer; its stall time starts now. */
void spot_peer_ask(struct spot_peer *peer);
/* Close the connection of a peer that sent a malformed message; the job goes on without it. */
void spot_peer_drop(struct spot_peer *peer, const char *what);
/* Move a member from one waiting view to another waiting view; both keep their rounds. */
void spot_peer_move(struct spot_peer *peer, struct spot_view *to);
/* The address at which `to` reaches a member, in a text of SPOT_ADDRESS_MAX + 8 bytes. */
void spot_peer_address(const struct spot_peer *peer, const struct spot_peer *to, char *text);

/* --- views ------------------------------------------------------------------ */

/* The view with this index; views up to it are created. */
struct spot_view *spot_group_view(struct spot_group *group, uint32_t index);
uint32_t spot_view_index(const struct spot_view *view);
/* Put the key `view` of an event; the first view needs none. jw may be NULL. */
void spot_view_put(const struct spot_view *view, struct spot_jw *jw);
/* The view's members with their roles, its phase, epoch and round. */
const struct spot_machine *spot_view_machine(const struct spot_view *view);
/* Send the same to every member that is active in its epoch. */
void spot_view_send_active(struct spot_view *view, uint32_t type, uint64_t tag, const void *data,
                           size_t n_byte);
/* May this member have a place? How many members may? */
bool spot_view_may_place(const struct spot_view *view, const struct spot_member *member);
size_t spot_view_placeable(const struct spot_view *view);

/* Call these in `layout`. */
void spot_view_set_role(struct spot_view *view, uint32_t id, enum spot_role role);
void spot_view_form(struct spot_view *view, int64_t round);
void spot_view_hold(struct spot_view *view); /* calls `idle` of the workload */

/* Call in `begin`: all rounds are done, and members owe no more votes in this epoch. */
void spot_view_rest(struct spot_view *view);
/* Request a new epoch at the next commit. */
void spot_view_want_change(struct spot_view *view);
bool spot_view_wants_change(const struct spot_view *view);
/* End the epoch, which cannot continue although no member was lost. No effect if it is already
 * over. */
int spot_view_break(struct spot_view *view, uint32_t epoch, struct spot_err *err);
/* Call in `commit`. Returns the round that will be next. */
int64_t spot_view_reached(const struct spot_view *view);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_GROUP_H */

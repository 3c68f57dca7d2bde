/* SPDX-License-Identifier: MIT */
/* clang-format off */
/* workload.h - the coordinator's side of a workload: the table of functions that a group calls.
 *
 * The group knows its members, which epoch runs in which view and when a round commits. The
 * workload decides what a round computes, what members hold and which member gets which place.
 * `job` is its object.
 *
 * Calls come from one thread, the loop of the group (group.h), in this order for a view:
 *
 *   accept, welcome             of each member that joins
 *   quiesced, report, layout    an epoch: members report what they hold, places are assigned
 *   ready                       of each member with a place
 *   begin, vote ..., commit     the rounds of it
 *   forget                      a member is gone
 *
 * Functions return 0, or -1 with *err, which ends the job. Functions that read what a member sent
 * may also return 1: malformed; the member is dropped and the job goes on. Entries that may be NULL
 * are marked; they then do nothing, and count as 0 or true as noted.
 */
/* clang-format on */
#ifndef SPOT_CLUSTER_WORKLOAD_H
#define SPOT_CLUSTER_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/machine.h"
#include "comm/link.h"
#include "comm/wire.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/json_writer.h"
#include "model/plan_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_group; /* group.h */
struct spot_view;
struct spot_peer;

enum spot_verdict {
    SPOT_VERDICT_COMMIT, /* the round is done */
    SPOT_VERDICT_REDO,   /* it is repeated; the members were told how. In lockstep only */
};

struct spot_workload {
    const char *name;
    enum spot_rounds rounds;
    /* Members with a place are useful even while no round commits: they wait for requests. Local
     * workers are given up only if none ever gets a place. */
    bool does_wait;
    /* May be NULL. Names of events that are too frequent for the recent events of a status; ends
     * with NULL. */
    const char *const *frequent_events;

    /* A worker asks to join; `hello` is the rest of its HELLO, after the fields in protocol.h.
     * `was_ours`: it was a member of this same coordinator before. Returns 1 with `why` (n bytes)
     * to refuse it; 2 if it works for another workload: it is then sent the name of this one.
     * Otherwise the workload may set its object for the member with spot_peer_set_data; `forget` is
     * called once for each peer that has one, joined or not. */
    int (*accept)(void *job, struct spot_peer *peer, bool was_ours, struct spot_wire_in *hello,
                  char *why, size_t n);
    /* May be NULL. Append the rest of its WELCOME, after the fields in protocol.h. */
    void (*welcome)(void *job, struct spot_peer *peer, struct spot_buf *out);
    /* May be NULL. Read its held state, the start of its REPORT; 1: malformed. */
    int (*report)(void *job, struct spot_peer *peer, struct spot_wire_in *in);
    /* May be NULL. The member has left or was lost: free its object. */
    void (*forget)(void *job, struct spot_peer *peer);
    /* May be NULL: 0. The view that it joins, counted from 0; a new one begins at round 0. */
    uint32_t (*view_of)(void *job, const struct spot_peer *peer);

    /* May be NULL: true. While nothing runs in the view: whether an epoch may begin; false to wait,
     * for example for state that is still expected. */
    bool (*may_begin)(void *job, struct spot_view *view);
    /* FORM: assign places among the members that may have one (spot_view_may_place). Set their
     * roles with spot_view_set_role, send each of them SPOT_MSG_FORM, and call spot_view_form with
     * the round of the state. If no layout is possible now, call spot_view_hold. */
    int (*layout)(void *job, struct spot_view *view, struct spot_err *err);
    /* May be NULL. The member has everything that the layout assigned to it. */
    void (*ready)(void *job, struct spot_peer *peer);
    /* May be NULL: true. Whether a new layout would differ from the one in force. Called after a
     * join or a plan. */
    bool (*would_change)(void *job, struct spot_view *view);

    /* A round begins: send SPOT_MSG_ROUND to the active members, or call spot_view_rest if there
     * are no more rounds. Where rounds are announced it is called once per epoch, when all are
     * ready. */
    int (*begin)(void *job, struct spot_view *view, struct spot_err *err);
    /* May be NULL: a vote says nothing, and is for the round of the view alone. A member votes for
     * it, or announces `round`. 1: malformed. */
    int (*vote)(void *job, struct spot_view *view, struct spot_peer *peer, int64_t round,
                struct spot_wire_in *in, struct spot_err *err);
    /* May be NULL: there is nothing to tell. All have voted: the rounds from the view's to
     * spot_view_reached, exclusive, are committed. Tell the members. */
    int (*commit)(void *job, struct spot_view *view, enum spot_verdict *verdict,
                  struct spot_err *err);
    /* May be NULL. The epoch is over: drop work in progress. */
    void (*quiesced)(void *job, struct spot_view *view);

    /* May be NULL. A member's message that is not in protocol.h, or a SPOT_MSG_FAILED with a
     * non-zero tag; call spot_peer_drop if it is malformed. */
    int (*message)(void *job, struct spot_peer *peer, const struct spot_frame *frame,
                   struct spot_err *err);
    /* May be NULL: unknown requests are refused. A client's request that is not in protocol.h:
     * *status and `answer` are sent back. */
    int (*client)(void *job, const struct spot_frame *frame, struct spot_buf *answer,
                  uint64_t *status, struct spot_err *err);
    /* May be NULL. A plan that is newer than the one before. *changed: a different layout is wanted
     * now. -1 with *err: it cannot be followed, and the job continues unchanged. */
    int (*plan)(void *job, const struct spot_plan_doc *plan, bool *changed, struct spot_err *err);

    /* May be NULL: then `as_machine`. Whether this member owes an answer; `as_machine`: it has not
     * reported, is not ready or has not voted. A member that owes an answer and makes no progress
     * has stalled. */
    bool (*owes)(void *job, const struct spot_peer *peer, bool as_machine);
    /* May be NULL: true. While nothing runs: whether leaving members may go, because their state is
     * not needed any more. */
    bool (*may_leave)(void *job, struct spot_view *view);
    /* May be NULL. Nothing runs, or a member was lost or will leave while nothing runs: make held
     * state durable. */
    void (*idle)(void *job, struct spot_view *view);

    /* May be NULL. Called every tenth of a second or more often. */
    int (*tick)(void *job, struct spot_err *err);
    /* May be NULL, then both are. A descriptor for the loop to poll, -1: none now; called when it
     * is readable. */
    int (*fd)(void *job);
    int (*readable)(void *job, struct spot_err *err);

    /* May be NULL: true. While the job stops: whether everything that can be saved was saved.
     * Called repeatedly. */
    bool (*is_saved)(void *job);

    /* May be NULL. Add the workload's fields to spot.status/1, and to a member's part of it.
     * Returns whether the member has a place; without the function, active members do. */
    void (*status)(void *job, struct spot_jw *jw);
    bool (*status_member)(void *job, const struct spot_peer *peer, struct spot_jw *jw);
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_WORKLOAD_H */

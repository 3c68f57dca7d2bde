/* SPDX-License-Identifier: MIT */
/* clang-format off */
/* workload.h - what a group asks of the work that it runs: the table of the coordinator's side.
 *
 * The group knows who is a member, which epoch runs in which view and when a round commits. What a
 * round is, what members hold and who gets which place is the workload's. `job` is its own object.
 *
 * Calls come from one thread, the loop of the group (group.h), in this order for a view:
 *
 *   accept, welcome             of each member that joins
 *   quiesced, report, layout    an epoch: members have said what they hold, places are given
 *   ready                       of each member with a place
 *   begin, vote ..., commit     the rounds of it
 *   forget                      a member is gone
 *
 * Functions return 0, or -1 with *err, which ends the job; where a member may send something malformed, also 1:
 * it is dropped and the job goes on. Entries that may be NULL are marked; they then do nothing,
 * and say 0 or true as noted.
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
    SPOT_VERDICT_REDO,   /* it is done again; the members were told how. In lockstep alone */
};

struct spot_workload {
    const char *name;
    enum spot_rounds rounds;
    /* Who has a place in an epoch that runs is of use though no round is done: it waits for
     * requests. Local workers are given up only where none ever gets that far. */
    bool does_wait;

    /* A worker that wants to join: the rest of its HELLO, behind what protocol.h says. `was_ours`:
     * it was with this very coordinator before. 1 with `why` (n bytes): it is refused; 2: it works
     * for another workload, and is told the name of this one. Else the workload's object for the
     * member may be set with spot_peer_set_data; forget is called once for each peer that has one,
     * joined or not. */
    int (*accept)(void *job, struct spot_peer *peer, bool was_ours, struct spot_wire_in *hello,
                  char *why, size_t n);
    /* May be NULL. What its WELCOME says beyond protocol.h. */
    void (*welcome)(void *job, struct spot_peer *peer, struct spot_buf *out);
    /* May be NULL. The start of its REPORT, what it holds; 1: malformed. */
    int (*report)(void *job, struct spot_peer *peer, struct spot_wire_in *in);
    /* May be NULL. The member is gone: free its object. */
    void (*forget)(void *job, struct spot_peer *peer);
    /* May be NULL: 0. Which view it joins, counted from 0; one that is new begins at round 0. */
    uint32_t (*view_of)(void *job, const struct spot_peer *peer);

    /* May be NULL: true. Nothing runs in the view: may an epoch begin, or is something waited for
     * that it would miss? */
    bool (*may_begin)(void *job, struct spot_view *view);
    /* FORM: choose places among those who may have one (spot_view_may_place); say who does what
     * with spot_view_set_role, send each of them SPOT_MSG_FORM, and say spot_view_form with the
     * round at which the state stands. Or spot_view_hold: it cannot run now. */
    int (*layout)(void *job, struct spot_view *view, struct spot_err *err);
    /* May be NULL. The member has all that the layout gave it. */
    void (*ready)(void *job, struct spot_peer *peer);
    /* May be NULL: true. Would a layout that was made now be another than the one that runs? Asked
     * after a join or a plan. */
    bool (*would_change)(void *job, struct spot_view *view);

    /* A round begins: send SPOT_MSG_ROUND to the active members, or spot_view_rest when there are
     * no more. Where rounds are announced it is called once in an epoch: all are ready. */
    int (*begin)(void *job, struct spot_view *view, struct spot_err *err);
    /* A member votes for the round of the view, or announces `round`. 1: malformed. */
    int (*vote)(void *job, struct spot_view *view, struct spot_peer *peer, int64_t round,
                struct spot_wire_in *in, struct spot_err *err);
    /* All have voted; what is committed are the rounds from that of the view to
     * spot_view_reached, which is not committed itself. Tell the members. */
    int (*commit)(void *job, struct spot_view *view, enum spot_verdict *verdict,
                  struct spot_err *err);
    /* May be NULL. The epoch is over: forget what was under way. */
    void (*quiesced)(void *job, struct spot_view *view);

    /* May be NULL. A message of a member that is not in protocol.h, or a SPOT_MSG_FAILED with a tag
     * that is not 0; spot_peer_drop for one that is malformed. */
    int (*message)(void *job, struct spot_peer *peer, const struct spot_frame *frame,
                   struct spot_err *err);
    /* May be NULL: it is told that nobody knows. A client's question beyond protocol.h: *status and
     * `answer` go back. */
    int (*client)(void *job, const struct spot_frame *frame, struct spot_buf *answer,
                  uint64_t *status, struct spot_err *err);
    /* May be NULL. A plan that is newer than the one before. *changed: something else is wanted
     * now. -1 with *err: it cannot be followed, and the job goes on as it was. */
    int (*plan)(void *job, const struct spot_plan_doc *plan, bool *changed, struct spot_err *err);

    /* May be NULL: as the machine says. Does this member owe an answer? `as_machine`: it has not
     * reported, is not ready or has not voted. Who owes one and gets no further has stalled. */
    bool (*owes)(void *job, const struct spot_peer *peer, bool as_machine);
    /* May be NULL: true. While nothing runs: is what leaving members hold needed no more? */
    bool (*may_leave)(void *job, struct spot_view *view);
    /* May be NULL. Nothing runs, or a member was lost or will leave while nothing runs: make
     * durable what is held. */
    void (*idle)(void *job, struct spot_view *view);

    /* May be NULL. Every tenth of a second or more often. */
    int (*tick)(void *job, struct spot_err *err);
    /* May be NULL, then both are. A descriptor that the loop waits for, -1: none now; it can be
     * read. */
    int (*fd)(void *job);
    int (*readable)(void *job, struct spot_err *err);

    /* May be NULL: true. The job is to stop: can nothing more be saved? Asked again and again. */
    bool (*is_saved)(void *job);

    /* May be NULL. Fields of its own in spot.status/1, and in a member's part of it. Returns
     * whether the member has a place; without the function, who is active has. */
    void (*status)(void *job, struct spot_jw *jw);
    bool (*status_member)(void *job, const struct spot_peer *peer, struct spot_jw *jw);
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_WORKLOAD_H */

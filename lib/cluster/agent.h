/* SPDX-License-Identifier: MIT */
/* agent.h - the worker's side of a group: it joins, obeys, and joins again when it was orphaned.
 *
 * The agent has the connections, the lease, the notice and the epochs; what the group is for is a
 * workload's, a table of functions that the agent calls from one thread, one after another:
 *
 *   hello, welcome                  at each join
 *   quiesced, report                an epoch is over: cancel what waits, say what is held
 *   form                            a new epoch: take one's place in it
 *   order                           rounds, commits, and messages of the workload's own
 *   work                            no order waits
 *   orphaned                        the coordinator is gone
 *   leaving, left                   the connections are about to be closed, and are
 *
 * What is held outlives epochs and coordinators: a workload lets go of it when the agent is back
 * from spot_agent_run, or when a welcome says that it does not count.
 *
 * Waits for other members end with an error when the epoch is revoked (comm/mesh.h). A workload
 * gives any error of an epoch to spot_agent_report, and goes on.
 */
#ifndef SPOT_CLUSTER_AGENT_H
#define SPOT_CLUSTER_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/endpoint.h"
#include "comm/link.h"
#include "comm/mesh.h"
#include "comm/tls.h"
#include "comm/wire.h"
#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions that return int return 0, or -1 with *err, which ends the agent; `job` is the
 * workload's object. A function that is NULL has nothing to do. */
struct spot_agent_workload {
    /* Put what this worker can do and holds. */
    void (*hello)(void *job, struct spot_buf *out);
    /* Read what the coordinator says of its job; 1 when it is malformed. */
    int (*welcome)(void *job, struct spot_wire_in *in, struct spot_err *err);
    /* Put what is held, between epochs. */
    void (*report)(void *job, struct spot_buf *out);
    /* Epochs below spot_agent.epoch are over: cancel what waits for them. */
    void (*quiesced)(void *job);
    /* Epoch spot_agent.epoch begins as the frame says: call spot_agent_enter, and bring about what
     * is needed for its first round. 0: all is in its place, and the agent says so; 1: it is not,
     * and spot_agent_report was told why. */
    int (*form)(void *job, const struct spot_frame *frame, struct spot_err *err);
    /* Carry out ROUND, COMMIT or an order of the workload's own. One that is not known, or of an
     * epoch that is over, is no error. */
    int (*order)(void *job, const struct spot_frame *frame, struct spot_err *err);
    /* No order waits: go on by itself, until there is one (spot_mesh_has_order) or nothing to do.
     */
    int (*work)(void *job, struct spot_err *err);
    /* There is no coordinator: wait so long for one, at the job's own business. NULL: sleep. */
    int (*idle)(void *job, double wait_s, struct spot_err *err);
    /* The coordinator is gone, and another may be joined: what is held must be whole. */
    int (*orphaned)(void *job, struct spot_err *err);
    /* The connections are about to be closed: no other thread may use them from now on. */
    void (*leaving)(void *job);
    /* The connections are closed: what was lent to them may go. */
    void (*left)(void *job);
};

struct spot_agent_options {
    const char *join;     /* address of the coordinator, or the store that tells it */
    const char *key_file; /* of the job; NULL: none, and nothing off this machine */
    const char *name;     /* NULL: "PID" */
    const char *domain;   /* failure domain, such as a zone; NULL: its own */
    bool is_private; /* no other coordinator will ever listen at `join`: once it has answered, and
                      * nobody listens, there is nothing to wait for */
    double join_timeout_s;                                /* time limit for joining or rejoining */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* set aside, and back; NULL */
};

struct spot_agent {
    /* given by the caller */
    const struct spot_agent_options *options;
    const struct spot_agent_workload *workload;
    void *job;

    /* for the workload to read */
    struct spot_mesh *mesh; /* NULL while not connected */
    uint64_t key;           /* of the group joined last */
    uint32_t id;            /* this member there; never 0 */
    uint32_t epoch;         /* that runs, or is being formed */
    bool has_joined;        /* a coordinator has taken it in */
    char other[16];         /* the workload of a coordinator that refused it for its own; or "" */
    bool was_dismissed;     /* one let it go: it and other members do not reach each other */

    /* the agent's own */
    struct spot_tls_context *tls;  /* the job's key or NULL */
    struct spot_frame *pending;    /* an order that ended a wait for another */
    char at[SPOT_ADDRESS_MAX + 8]; /* of the coordinator that leads, as a store tells it */
    double lease_s;
    bool is_done, is_unfit;
};

/* Work until the job is done. Returns 0, or -1 with *err: SPOT_EPREEMPTED after a notice or when
 * nobody needs this worker any more, SPOT_EINFEASIBLE when refused or unfit, SPOT_ESYS when the
 * coordinator is gone or has dismissed it, or what the workload set. */
int spot_agent_run(struct spot_agent *agent, struct spot_err *err);

/* Async-signal-safe: this instance will be taken away. The agent of this process says so as soon as
 * it has joined, and leaves when it is told to. */
void spot_agent_notice(void);
/* Before that: until when it is there, left_s from now; NAN: not known, as when nothing is said. */
void spot_agent_expect(double left_s);

/* --- for the workload ---------------------------------------------------- */

/* Enter the epoch that is formed with these peers. Returns 0, or -1 with *err for
 * spot_agent_report. */
int spot_agent_enter(struct spot_agent *agent, const struct spot_mesh_peer *peer, size_t n_peer,
                     struct spot_err *err);

/* Send to the coordinator in the current epoch; the buffer is released. */
int spot_agent_tell(struct spot_agent *agent, uint32_t type, uint64_t tag,
                    struct spot_buf *out_take, struct spot_err *err);

/* Say what went wrong with an epoch: nothing when it was revoked (SPOT_EPREEMPTED), since the next
 * order says all; that a connection broke (SPOT_ESYS), and whom this worker did not reach; or that
 * it cannot go on. Returns 0 if it can go on with the next epoch, else -1 with *err. */
int spot_agent_report(struct spot_agent *agent, const struct spot_err *why, struct spot_err *err);

/* The same for what the workload can go on without; `what` is known to its coordinator's side, and
 * not 0. */
int spot_agent_report_part(struct spot_agent *agent, uint64_t what, const struct spot_err *why,
                           struct spot_err *err);

/* Does what fails now fail because of this machine, and not a connection? Then the next report says
 * that, and the agent gives up: it would fail again. */
void spot_agent_set_unfit(struct spot_agent *agent, bool is_unfit);

/* Wait for an order of this type and tag, within an order. Another one ends the wait and is kept
 * for later: NULL with SPOT_EPREEMPTED. The caller frees the frame. */
struct spot_frame *spot_agent_await(struct spot_agent *agent, uint32_t type, uint64_t tag,
                                    struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_AGENT_H */

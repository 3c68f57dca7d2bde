/* SPDX-License-Identifier: MIT */
/* agent.h - the worker's side of a group: joins, carries out orders, and rejoins when the
 * coordinator is gone.
 *
 * The agent owns the connections, the lease, the notice and the epochs. What the group computes is
 * up to the workload, a table of functions that the agent calls from one thread, one at a time:
 *
 *   hello, welcome                  at each join
 *   quiesced, report                an epoch is over: cancel pending work, report what is held
 *   form                            a new epoch: take a place in it
 *   order                           rounds, commits, and the workload's own messages
 *   work                            no order is pending
 *   orphaned                        the coordinator is gone
 *   leaving, left                   the connections are about to be closed; are closed
 *
 * Held state outlives epochs and coordinators: a workload frees it when spot_agent_run has
 * returned, or when a WELCOME says that it does not count.
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
 * workload's object. A NULL function does nothing. */
struct spot_agent_workload {
    /* Append what this worker can do and what it holds. */
    void (*hello)(void *job, struct spot_buf *out);
    /* Read what the coordinator says about its job. Returns 1 when it is malformed. */
    int (*welcome)(void *job, struct spot_wire_in *in, struct spot_err *err);
    /* Append what is held, between epochs. */
    void (*report)(void *job, struct spot_buf *out);
    /* Epochs below spot_agent.epoch are over: cancel whatever waits for them. */
    void (*quiesced)(void *job);
    /* Epoch spot_agent.epoch begins as the frame describes: call spot_agent_enter, and prepare its
     * first round. Returns 0 when everything is in place (the agent reports READY), 1 when it is
     * not and the reason was given to spot_agent_report. */
    int (*form)(void *job, const struct spot_frame *frame, struct spot_err *err);
    /* Carry out ROUND, COMMIT or one of the workload's own orders. An unknown order, or one of an
     * epoch that is over, is not an error. */
    int (*order)(void *job, const struct spot_frame *frame, struct spot_err *err);
    /* No order is pending: work until one arrives (spot_mesh_has_order) or nothing is left to
     * do. */
    int (*work)(void *job, struct spot_err *err);
    /* No coordinator: do the job's own work for wait_s, then return. NULL: sleep. */
    int (*idle)(void *job, double wait_s, struct spot_err *err);
    /* The coordinator is gone and another may be joined: held state must be whole. */
    int (*orphaned)(void *job, struct spot_err *err);
    /* The connections are about to be closed: no other thread may use them any more. */
    void (*leaving)(void *job);
    /* The connections are closed: memory lent to them may be freed. */
    void (*left)(void *job);
    /* It leaves after a notice: say what becomes of its work. NULL: nothing of it is lost. */
    void (*report_left)(void *job, struct spot_err *err);
};

struct spot_agent_options {
    const char *join;     /* address of the coordinator, or the store that holds it */
    const char *key_file; /* the job's key; NULL: no TLS, and local connections only */
    const char *name;     /* NULL: "PID" */
    const char *domain;   /* failure domain, such as a zone; NULL: its own */
    const char *machine;  /* for a workload that asks: TYPE or TYPE/MARKET; NULL: not told */
    bool is_private; /* no other coordinator will ever listen at `join`: once it has answered, a
                        refused connection means that there is nothing to wait for */
    double join_timeout_s;                                /* time limit for joining or rejoining */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* set aside, or no longer; may be NULL */
};

struct spot_agent {
    /* set by the caller */
    const struct spot_agent_options *options;
    const struct spot_agent_workload *workload;
    void *job;

    /* for the workload to read */
    struct spot_mesh *mesh; /* NULL while not connected */
    uint64_t key;           /* of the group joined last */
    uint32_t id;            /* this member's id in it; never 0 */
    uint32_t epoch;         /* the one that runs, or is being formed */
    bool has_joined;        /* a coordinator has taken it in */
    char other[16];     /* the workload of a coordinator that refused this worker because workloads
                           differ; or "" */
    bool was_dismissed; /* it and other members cannot reach each other */

    /* private to the agent */
    struct spot_tls_context *tls;  /* the job's key or NULL */
    struct spot_frame *pending;    /* an order that interrupted a wait for another */
    char at[SPOT_ADDRESS_MAX + 8]; /* of the leading coordinator, as a store gives it */
    double lease_s;
    bool is_done, is_unfit;
};

/* Work until the job is done. Returns 0, or -1 with *err: SPOT_EPREEMPTED after a notice or when
 * this worker is no longer needed, SPOT_EINFEASIBLE when refused or unfit, SPOT_ESYS when the
 * coordinator is gone or has dismissed it, or what the workload set. */
int spot_agent_run(struct spot_agent *agent, struct spot_err *err);

/* Async-signal-safe: this instance will be taken away. The agent of this process reports it as soon
 * as it has joined, and leaves when told to. */
void spot_agent_notice(void);
/* Has this process been told so? */
bool spot_agent_was_noticed(void);
/* Call before spot_agent_notice: the instance will stay left_s from now; NAN, the default: not
 * known. */
void spot_agent_expect(double left_s);

/* --- for the workload ---------------------------------------------------- */

/* Enter the epoch being formed, with these peers. Returns 0, or -1 with *err for
 * spot_agent_report. */
int spot_agent_enter(struct spot_agent *agent, const struct spot_mesh_peer *peer, size_t n_peer,
                     struct spot_err *err);

/* Send to the coordinator in the current epoch; the buffer is released. */
int spot_agent_send(struct spot_agent *agent, uint32_t type, uint64_t tag,
                    struct spot_buf *out_take, struct spot_err *err);

/* Report what went wrong with an epoch: nothing if it was revoked (SPOT_EPREEMPTED), since the
 * next order tells the rest; that a connection broke (SPOT_ESYS), and which peers this worker
 * did not reach; or that it cannot go on. Returns 0 if it can go on with the next epoch, else -1
 * with *err. */
int spot_agent_report(struct spot_agent *agent, const struct spot_err *why, struct spot_err *err);

/* The same for a failure that the workload can go on without; `what` identifies it to the
 * coordinator's side of the workload, and is not 0. */
int spot_agent_report_part(struct spot_agent *agent, uint64_t what, const struct spot_err *why,
                           struct spot_err *err);

/* Set whether failures are now due to this machine, not to a connection. If so, the next report
 * says it and the agent gives up, since it would fail again. */
void spot_agent_set_unfit(struct spot_agent *agent, bool is_unfit);

/* While carrying out an order, wait for an order of this type and tag. Any other order ends the
 * wait and is kept for later: NULL with SPOT_EPREEMPTED. The caller frees the frame. */
struct spot_frame *spot_agent_await(struct spot_agent *agent, uint32_t type, uint64_t tag,
                                    struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_AGENT_H */

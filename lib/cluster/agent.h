/* SPDX-License-Identifier: MIT */
/* agent.h - the worker's side of a group: joins, carries out orders, and rejoins when the
 * coordinator is lost.
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
 * returned, or when a WELCOME invalidates it.
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
    /* Append the worker's capabilities and the state that it holds. */
    void (*hello)(void *job, struct spot_buf *out);
    /* Read the coordinator's description of its job. Returns 1 when it is malformed. */
    int (*welcome)(void *job, struct spot_wire_in *in, struct spot_err *err);
    /* Append the held state, between epochs. */
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
    /* The coordinator is lost and another may be joined: make the held state consistent. */
    int (*orphaned)(void *job, struct spot_err *err);
    /* The connections are about to be closed: no other thread may use them any more. */
    void (*leaving)(void *job);
    /* The connections are closed: memory lent to them may be freed. */
    void (*left)(void *job);
    /* The worker leaves after a notice: set *err to a message about its work. NULL: none of its
     * work is lost. */
    void (*report_left)(void *job, struct spot_err *err);
};

struct spot_agent_options {
    const char *join;     /* address of the coordinator, or the store that holds it */
    const char *key_file; /* the job's key; NULL: no TLS, and local connections only */
    const char *name;     /* NULL: "PID" */
    const char *domain;   /* failure domain, such as a zone; NULL: its own */
    const char *machine;  /* TYPE or TYPE/MARKET, for workloads that use it; NULL: not known */
    bool is_private; /* no other coordinator will ever listen at `join`: after a first answer, a
                        refused connection is final */
    double join_timeout_s; /* time limit for joining or rejoining */
    void (*warn)(const char *fmt, ...)
        SPOT_PRINTF(1, 2); /* reports that the worker was set aside, or no longer is; may be NULL */
};

struct spot_agent {
    /* set by the caller */
    const struct spot_agent_options *options;
    const struct spot_agent_workload *workload;
    void *job;

    /* for the workload to read */
    struct spot_mesh *mesh; /* NULL while not connected */
    uint64_t key;           /* of the group joined last */
    uint32_t id;            /* this member's id in that group; never 0 */
    uint32_t epoch;         /* the epoch that runs or is being formed */
    bool has_joined;        /* a coordinator has taken it in */
    char other[16];     /* the workload of a coordinator that refused this worker because workloads
                           differ; or "" */
    bool was_dismissed; /* dismissed because it and other members cannot reach each other */

    /* private to the agent */
    struct spot_tls_context *tls;  /* the job's key or NULL */
    struct spot_frame *pending;    /* an order that interrupted a wait for another */
    char at[SPOT_ADDRESS_MAX + 8]; /* of the leading coordinator, as a store gives it */
    double lease_s;
    bool is_done, is_unfit;
};

/* Work until the job is done. Returns 0, or -1 with *err: SPOT_EPREEMPTED after a notice or when
 * this worker is no longer needed, SPOT_EINFEASIBLE when refused or unfit, SPOT_ESYS when the
 * coordinator is lost or has dismissed it, or an error of the workload. */
int spot_agent_run(struct spot_agent *agent, struct spot_err *err);

/* Async-signal-safe: report that this instance will be taken away. The agent of this process
 * reports it as soon as it has joined, and leaves when the coordinator orders it. */
void spot_agent_notice(void);
/* True after spot_agent_notice. */
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

/* Report the failure of an epoch. If it was revoked (SPOT_EPREEMPTED) nothing is sent, since the
 * next order follows anyway; if a connection broke (SPOT_ESYS), the peers that this worker did not
 * reach; otherwise that this worker cannot continue. Returns 0 if it can continue with the next
 * epoch, else -1 with *err. */
int spot_agent_report(struct spot_agent *agent, const struct spot_err *why, struct spot_err *err);

/* The same for a failure of a part without which the workload can continue; `what` != 0 identifies
 * it to the coordinator's side of the workload. */
int spot_agent_report_part(struct spot_agent *agent, uint64_t what, const struct spot_err *why,
                           struct spot_err *err);

/* Set whether failures are now due to this machine, not to a connection. If so, the next report
 * says so and the agent ends, since it would fail again. */
void spot_agent_set_unfit(struct spot_agent *agent, bool is_unfit);

/* While carrying out an order, wait for an order of this type and tag. Any other order ends the
 * wait and is kept for later: NULL with SPOT_EPREEMPTED. The caller frees the frame. */
struct spot_frame *spot_agent_await(struct spot_agent *agent, uint32_t type, uint64_t tag,
                                    struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_AGENT_H */

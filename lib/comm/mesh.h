/* SPDX-License-Identifier: MIT */
/* mesh.h - a worker's connections: one to its coordinator, one to each peer with which it exchanges
 * frames.
 *
 * One thread moves bytes, renews the lease and receives the end of epochs; the caller's thread
 * computes and blocks only here. Every wait ends: with the frame, or with an error when the epoch
 * is revoked or the peer or the coordinator is lost. Data frames carry their epoch; those of an
 * older one are dropped, those of a newer one wait until it is entered.
 *
 * Of two members of an epoch, the younger (larger id) connects to the elder when it enters. A
 * connection on demand is made by whichever needs it first: to send, or to find out whether a peer
 * that it has waited for still answers. Nothing is sent on it before the peer has accepted. If both
 * connect at the same time, the connection of the younger is used.
 */
#ifndef SPOT_COMM_MESH_H
#define SPOT_COMM_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/link.h"
#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_MESH_WHY_MAX = 200 };

struct spot_mesh;

struct spot_mesh_config {
    const char *join;                   /* address of the coordinator */
    const struct spot_tls_context *tls; /* the job's key; NULL: local connections only */
    size_t payload_max;                 /* bytes in one frame */
    double heartbeat_s;                 /* > 0 */
    uint32_t type_heartbeat; /* to the coordinator, with progress in the tag; the coordinator
                                answers it */
    uint32_t type_notice;    /* to the coordinator: this instance will be taken away */
    uint32_t type_revoke;    /* from the coordinator: epochs below the frame's are over */
    uint32_t type_ping;      /* between peers: request for a sign of life */
    uint32_t type_pong;      /* the answer to it */
    uint32_t type_hello;     /* between peers: the job's key in the tag, sender's id as epoch, the
                                receiver's in four bytes */
    uint32_t type_offer; /* the same from a connection on demand, which the peer declines by a pong
                            of tag 1 if it is making one itself */
    uint32_t type_probe; /* the same from a probe, see comm/probe.h */
};

/* Connect to the coordinator, listen for peers next to its socket (Unix) or at the IP address from
 * which it is reached, start the thread. NULL with *err: SPOT_EUSAGE for a bad address, or one of
 * another machine without a key; SPOT_ESYS if the coordinator does not answer. A coordinator with
 * another key gives SPOT_EINFEASIBLE from the first wait for an order. */
struct spot_mesh *spot_mesh_open(const struct spot_mesh_config *config, struct spot_err *err);
void spot_mesh_close(struct spot_mesh *mesh);

/* The address at which peers reach this worker. */
const char *spot_mesh_address(const struct spot_mesh *mesh);

/* Async-signal-safe: have the thread send a notice, again if it differs; its tag is left_ms, the
 * time until this instance is gone, 0: not known. */
void spot_mesh_notice(struct spot_mesh *mesh, uint32_t left_ms);

/* Report progress: work was done. Sent with the next heartbeat. */
void spot_mesh_progress(struct spot_mesh *mesh);

/* How long silence is tolerated, in seconds; 0: forever. A coordinator that does not answer
 * heartbeats is presumed lost after 5 leases, a peer that is waited for and does not answer pings
 * after one. */
void spot_mesh_lease(struct spot_mesh *mesh, double lease_s);

/* A member of this epoch that this worker cannot exchange frames with, possibly itself. */
struct spot_mesh_suspect {
    uint32_t id;
    bool has_answered; /* the connection was established, and broke */
    char why[SPOT_MESH_WHY_MAX];
};

/* Copies the suspects found since the epoch was entered, at most n_max. Returns their number. */
size_t spot_mesh_suspects(struct spot_mesh *mesh, struct spot_mesh_suspect *suspect, size_t n_max);

/* Set this worker's id and the job's secret before the first epoch is entered: probes are answered
 * from now on. */
void spot_mesh_own(struct spot_mesh *mesh, uint64_t key, uint32_t id);

/* Send to the coordinator. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_mesh_report(struct spot_mesh *mesh, uint32_t type, uint32_t epoch, uint64_t tag,
                     const void *data, size_t n_byte, struct spot_err *err);
/* The same, transferring ownership of the memory to the mesh: *data is empty afterwards. */
int spot_mesh_submit(struct spot_mesh *mesh, uint32_t type, uint32_t epoch, uint64_t tag,
                     struct spot_buf *data_take, struct spot_err *err);

/* Wait for the coordinator's next frame; the caller frees it. NULL with *err (SPOT_ESYS) when the
 * coordinator is lost or timeout_s has passed (negative: no limit). */
struct spot_frame *spot_mesh_order(struct spot_mesh *mesh, double timeout_s, struct spot_err *err);

/* True if spot_mesh_order would return at once: a frame has arrived, or the coordinator is lost. */
bool spot_mesh_has_order(struct spot_mesh *mesh);

/* A descriptor that is readable when a frame of the coordinator has arrived or it is lost, for
 * callers that wait elsewhere. They then call spot_mesh_has_order, which makes it unreadable.
 * Created by the first call; -1 with *err (SPOT_ESYS). */
int spot_mesh_order_fd(struct spot_mesh *mesh, struct spot_err *err);

/* True when the coordinator's connection is lost. */
bool spot_mesh_is_orphan(struct spot_mesh *mesh);

struct spot_mesh_peer {
    uint32_t id; /* never 0 */
    char address[136];
    bool on_demand; /* no connection until one is needed; set on both sides, or on neither */
};

/* Enter an epoch: `key` is the job's secret for peers, `id` this worker. Connections to peers that
 * stay are kept, others are closed; all elder peers that are not on demand are connected to, even
 * if some of them fail. Returns 0, or -1 with the first *err. */
int spot_mesh_enter(struct spot_mesh *mesh, uint32_t epoch, uint64_t key, uint32_t id,
                    const struct spot_mesh_peer *peer, size_t n_peer, struct spot_err *err);

/* Send data to a peer in the current epoch; the bytes are sent or copied on return. Returns 0, or
 * -1 with *err: SPOT_EPREEMPTED when the epoch is revoked, SPOT_ESYS when the peer is lost (*err
 * names it). */
int spot_mesh_send(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err);

/* Send data to a worker of the job that is in another epoch, as if from a member of that epoch;
 * connects to it if necessary. Its frames are received with the sender's id, and are dropped when
 * the receiver enters its next epoch. Returns 0, or -1 as above. */
int spot_mesh_send_abroad(struct spot_mesh *mesh, const struct spot_mesh_peer *to, uint32_t epoch,
                          uint32_t type, uint64_t tag, const void *data, size_t n_byte,
                          struct spot_err *err);

/* spot_mesh_send without a copy: the bytes must not change before spot_mesh_keep. */
int spot_mesh_lend(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err);

/* Lent memory may change from now on: copies what is not yet sent, and drops frames of epochs that
 * are over. */
void spot_mesh_keep(struct spot_mesh *mesh);

/* Wait for a peer's frame of this type and tag; the caller frees it. NULL as above. */
struct spot_frame *spot_mesh_recv(struct spot_mesh *mesh, uint32_t peer, uint32_t type,
                                  uint64_t tag, struct spot_err *err);

/* True if spot_mesh_recv would return at once, with the frame or an error. Waits up to limit_s for
 * that; 0: does not wait. */
bool spot_mesh_wait(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                    double limit_s);

/* True if the frame has arrived. */
bool spot_mesh_has(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag);

/* Drop received frames of this type with tags [first, end), of any sender. */
void spot_mesh_discard(struct spot_mesh *mesh, uint32_t type, uint64_t first, uint64_t end);

/* Bytes queued for a peer; 0 if there is no connection. */
size_t spot_mesh_queued(struct spot_mesh *mesh, uint32_t peer);

/* Wait until at most n_byte are queued for a peer; the peer's thread receives them independently of
 * its caller. Returns 0, or -1 as above. */
int spot_mesh_room(struct spot_mesh *mesh, uint32_t peer, size_t n_byte, struct spot_err *err);

/* For callers that wait elsewhere: returns -1 as above if a wait for these peers must end, else
 * 0. */
int spot_mesh_check(struct spot_mesh *mesh, const uint32_t *peer, size_t n_peer,
                    struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_MESH_H */

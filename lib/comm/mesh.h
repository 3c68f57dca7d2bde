/* SPDX-License-Identifier: MIT */
/* mesh.h - a worker's connections: one to its coordinator, one to every peer of its epoch.
 *
 * A thread moves bytes, keeps the lease alive and hears of epochs that end; the caller's thread
 * computes and blocks only here. Every wait ends: with the frame, or with an error when the epoch
 * is revoked, the peer is gone or the coordinator is. Data frames carry their epoch; those of an
 * older one are dropped, those of a newer one wait until it is entered.
 * Of two members, the younger (larger id) connects to the elder.
 */
#ifndef SPOT_COMM_MESH_H
#define SPOT_COMM_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/link.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_MESH_WHY_MAX = 200 };

struct spot_mesh;

struct spot_mesh_config {
    const char *join;                   /* address of the coordinator */
    const struct spot_tls_context *tls; /* the job's key, NULL: nothing leaves this machine */
    size_t payload_max;                 /* bytes in one frame */
    double heartbeat_s;                 /* > 0 */
    uint32_t type_heartbeat; /* to the coordinator; tag: progress made; it answers in kind */
    uint32_t type_notice;    /* to the coordinator: this instance will go away */
    uint32_t type_revoke;    /* from the coordinator: epochs below the frame's are over */
    uint32_t type_ping;      /* between peers: are you there? */
    uint32_t type_pong;      /* the answer */
    uint32_t type_hello;     /* between peers: the job's key in the tag, sender's id as epoch, the
                                receiver's in four bytes */
    uint32_t type_probe;     /* the same from who only wants to know: see comm/probe.h */
};

/* Connect to the coordinator, listen for peers beside it (Unix) or at the IP address from which it
 * is reached, start the thread. NULL with *err: SPOT_EUSAGE for a bad address, or one off this
 * machine without a key; SPOT_ESYS when nobody answers. A coordinator with another key gives
 * SPOT_EINFEASIBLE from the first wait for an order. */
struct spot_mesh *spot_mesh_open(const struct spot_mesh_config *config, struct spot_err *err);
void spot_mesh_close(struct spot_mesh *mesh);

/* Where peers find this worker. */
const char *spot_mesh_address(const struct spot_mesh *mesh);

/* Async-signal-safe: let the thread send the notice, again if it is another; its tag is left_ms,
 * until this instance is gone, 0: not known. */
void spot_mesh_notice(struct spot_mesh *mesh, uint32_t left_ms);

/* Work was done; the next heartbeat tells. */
void spot_mesh_progress(struct spot_mesh *mesh);

/* How long silence is borne, in seconds; 0: for ever. A coordinator that does not answer heartbeats
 * is gone after 5 leases, a peer that is waited for and does not answer pings after one. */
void spot_mesh_lease(struct spot_mesh *mesh, double lease_s);

/* A member of this epoch that this worker cannot exchange frames with, maybe itself. */
struct spot_mesh_suspect {
    uint32_t id;
    bool has_answered; /* the connection stood, and broke */
    char why[SPOT_MESH_WHY_MAX];
};

/* Those found since the epoch was entered, at most n_max of them. Returns how many. */
size_t spot_mesh_suspects(struct spot_mesh *mesh, struct spot_mesh_suspect *suspect, size_t n_max);

/* This worker's id and the job's secret, known before the first epoch is entered: who probes it is
 * answered from now on. */
void spot_mesh_own(struct spot_mesh *mesh, uint64_t key, uint32_t id);

/* Send to the coordinator. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_mesh_tell(struct spot_mesh *mesh, uint32_t type, uint32_t epoch, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err);

/* Wait for the coordinator's next frame; the caller frees it. NULL with *err (SPOT_ESYS) when the
 * coordinator is gone or timeout_s has passed (negative: no limit). */
struct spot_frame *spot_mesh_order(struct spot_mesh *mesh, double timeout_s, struct spot_err *err);

/* Has the coordinator sent something that was not taken yet, or is it gone? */
bool spot_mesh_has_order(struct spot_mesh *mesh);

/* True when the coordinator's connection is lost. */
bool spot_mesh_is_orphan(struct spot_mesh *mesh);

struct spot_mesh_peer {
    uint32_t id; /* never 0 */
    char address[136];
};

/* Enter an epoch: `key` is the job's secret for peers, `id` this worker. Connections to peers that
 * stay are kept, others are closed; elders are connected to, all of them, whoever cannot be.
 * Returns 0, or -1 with the first *err. */
int spot_mesh_enter(struct spot_mesh *mesh, uint32_t epoch, uint64_t key, uint32_t id,
                    const struct spot_mesh_peer *peer, size_t n_peer, struct spot_err *err);

/* Send data to a peer in the current epoch; the bytes are taken or copied on return.
 * Returns 0, or -1 with *err: SPOT_EPREEMPTED when the epoch is revoked, SPOT_ESYS when the peer
 * is gone (*err names it). */
int spot_mesh_send(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err);

/* Send data to a worker of the job that is in another epoch, as if from a member of that one; it is
 * connected to if need be. Its frames are received with the sender's id, and are lost when the
 * receiver enters its next epoch. Returns 0, or -1 as above. */
int spot_mesh_send_abroad(struct spot_mesh *mesh, const struct spot_mesh_peer *to, uint32_t epoch,
                          uint32_t type, uint64_t tag, const void *data, size_t n_byte,
                          struct spot_err *err);

/* spot_mesh_send without a copy: the bytes must not change before spot_mesh_keep. */
int spot_mesh_lend(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err);

/* What was lent may change from now on: copies what is still on its way, and drops what is of an
 * epoch that is over. */
void spot_mesh_keep(struct spot_mesh *mesh);

/* Wait for a peer's frame of this type and tag; the caller frees it. NULL as above. */
struct spot_frame *spot_mesh_recv(struct spot_mesh *mesh, uint32_t peer, uint32_t type,
                                  uint64_t tag, struct spot_err *err);

/* Would recv not wait, since the frame is there or it would fail? Looks for limit_s, 0: once. */
bool spot_mesh_wait(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                    double limit_s);

/* Is the frame there? */
bool spot_mesh_has(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag);

/* Drop frames of this type with tags [first, end) that are there, whoever sent them. */
void spot_mesh_discard(struct spot_mesh *mesh, uint32_t type, uint64_t first, uint64_t end);

/* Bytes that are queued for a peer; 0 where there is no connection. */
size_t spot_mesh_queued(struct spot_mesh *mesh, uint32_t peer);

/* Wait until at most n_byte are queued for a peer, which takes them off whatever its caller does.
 * Returns 0, or -1 as above. */
int spot_mesh_room(struct spot_mesh *mesh, uint32_t peer, size_t n_byte, struct spot_err *err);

/* For who waits elsewhere: must a wait for these peers end? Returns 0, or -1 as above. */
int spot_mesh_check(struct spot_mesh *mesh, const uint32_t *peer, size_t n_peer,
                    struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_MESH_H */

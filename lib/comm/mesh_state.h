/* SPDX-License-Identifier: MIT */
/* mesh_state.h - shared by mesh.c, which runs in the caller's thread, and mesh_thread.c, the thread
 * that moves bytes. Private to them. */
#ifndef SPOT_COMM_MESH_STATE_H
#define SPOT_COMM_MESH_STATE_H

#include <pthread.h>

#include "comm/endpoint.h"
#include "comm/link.h"
#include "comm/mesh.h"
#include "comm/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_MESH_PEERS_MAX = 1024, SPOT_MESH_ID_BYTE = 4 };

struct spot_mesh_conn {
    size_t index; /* in peer[] */
    int at_fd;    /* its descriptor, kept after it was closed */
    uint32_t id;  /* 0: no HELLO from it yet */
    uint32_t watched;
    bool is_gone;
    bool is_offered; /* made on demand, not accepted yet; its link is closed if the peer declined */
    double since_s, received_s, ping_s; /* connected; last frame from it; last ping */
    char address[SPOT_ADDRESS_MAX +
                 8]; /* the address that this worker connected to; "": the peer connected */
    struct spot_link link;
    struct spot_frame_list inbox;
};

struct spot_mesh {
    struct spot_mesh_config config;
    struct spot_endpoint coordinator, own;
    char address[SPOT_ADDRESS_MAX + 8];
    int listener, wake[2];
    struct spot_watch watch; /* descriptors that the thread watches */
    int order_wake;          /* an eventfd that signals orders; -1: not requested */
    pthread_t thread;
    bool has_thread;
    struct spot_mesh_flags *flags;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    struct spot_link control;
    struct spot_frame_list orders;
    bool is_orphan;
    bool is_full;         /* out of descriptors for another connection, until the next beat */
    bool is_short;        /* out of descriptors, although only peers use them */
    struct spot_err lost; /* why the coordinator is lost */
    uint32_t epoch, revoked_below, id;
    uint64_t key;
    struct spot_mesh_conn *peer[SPOT_MESH_PEERS_MAX];
    size_t n_peer;
    uint32_t listener_watched, control_watched; /* watched events; 0: not added yet */
    double swept_s;                             /* when silent ones were last dropped */
    double beat_s;                              /* when the last heartbeat went out */
    double lease_s, control_received_s; /* see spot_mesh_lease; last frame from the coordinator */
    struct spot_mesh_peer *member;      /* [n_member] of this epoch: only members can be suspects */
    size_t n_member, cap_member;
    uint32_t refused; /* the last peer that refused a connection on demand; when */
    double refused_s;
    struct spot_mesh_suspect *suspect; /* [n_suspect] suspects of this epoch */
    size_t n_suspect, cap_suspect;
};

struct spot_mesh_flags *spot_mesh_flags_new(void);
void spot_mesh_stop(struct spot_mesh *mesh);

/* The thread's function; the other functions are called with the lock held. */
void *spot_mesh_run_thread(void *user);
void spot_mesh_wake(struct spot_mesh *mesh);

/* The coordinator is lost: wake all waits. */
void spot_mesh_lose_control(struct spot_mesh *mesh, const struct spot_err *why);

/* Add a connection made (is_server false) or accepted. NULL with *err, the descriptor closed. */
struct spot_mesh_conn *spot_mesh_add_peer(struct spot_mesh *mesh, int fd_take, bool is_server,
                                          struct spot_err *err);
void spot_mesh_free_peer(struct spot_mesh *mesh, size_t i);

/* True for a member of this epoch, including this worker. */
bool spot_mesh_is_member(const struct spot_mesh *mesh, uint32_t id);
/* mesh_suspect.c: record a suspect; only the first finding about a peer in a running epoch
 * counts. */
void spot_mesh_suspect(struct spot_mesh *mesh, uint32_t id, bool has_answered, const char *why);
/* The connection to a peer broke. */
void spot_mesh_suspect_broken(struct spot_mesh *mesh, const struct spot_mesh_conn *p,
                              const struct spot_err *why);
/* There is no connection to a peer: it cannot be reached, or this process is out of descriptors. */
void spot_mesh_suspect_missed(struct spot_mesh *mesh, uint32_t id, const struct spot_err *why);
/* True if the error means that this machine is out of a resource. */
bool spot_mesh_is_short(int sys_errno);

/* Free waiting frames of epochs that are over. */
void spot_mesh_drop_late(struct spot_mesh *mesh);
/* The peer's connection; if there are several, one that is accepted, or else not broken. */
struct spot_mesh_conn *spot_mesh_find_peer(const struct spot_mesh *mesh, uint32_t id);

/* mesh_dial.c: connect to a peer, releasing the lock while that waits; the same on demand, without
 * effect for other peers and while there is a connection; true if the peer's offer must be declined
 * because a connection to it is being made; an offered connection was answered by a pong of this
 * tag, or broke: true if that is no loss of the peer. */
int spot_mesh_connect(struct spot_mesh *mesh, const struct spot_mesh_peer *peer,
                      struct spot_err *err);
int spot_mesh_demand(struct spot_mesh *mesh, uint32_t id, struct spot_err *err);
bool spot_mesh_declines(const struct spot_mesh *mesh, uint32_t peer);
void spot_mesh_offer_answered(struct spot_mesh_conn *p, uint64_t tag);
bool spot_mesh_offer_failed(struct spot_mesh *mesh, struct spot_mesh_conn *p);

/* mesh.c: return an error if a wait in this epoch must end, else 0; return whether a frame has
 * arrived on any connection. */
int spot_mesh_check_wait(const struct spot_mesh *mesh, const struct spot_mesh_conn *p, uint32_t id,
                         struct spot_err *err);
bool spot_mesh_has_from(const struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag);

/* Handle the epoll events of a connection. A broken connection keeps what it received, so that a
 * peer's last frames are read. */
void spot_mesh_serve_peer(struct spot_mesh *mesh, size_t i, uint32_t events);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_MESH_STATE_H */

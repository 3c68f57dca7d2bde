/* SPDX-License-Identifier: MIT */
/* mesh_state.h - what the two halves of a mesh share: mesh.c, the caller's thread, and
 * mesh_thread.c, the one that moves bytes. Private to them. */
#ifndef SPOT_COMM_MESH_STATE_H
#define SPOT_COMM_MESH_STATE_H

#include <pthread.h>

#include "comm/endpoint.h"
#include "comm/link.h"
#include "comm/mesh.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_MESH_PEERS_MAX = 1024, SPOT_MESH_ID_BYTE = 4 };

struct spot_mesh_conn {
    uint32_t id; /* 0: has not said hello yet */
    bool is_gone;
    double since_s, heard_s, ping_s;    /* connected; last word of it; last asked */
    char address[SPOT_ADDRESS_MAX + 8]; /* that was connected to; "": it came */
    struct spot_link link;
    struct spot_frame_list inbox;
};

struct spot_mesh {
    struct spot_mesh_config config;
    struct spot_endpoint coordinator, own;
    char address[SPOT_ADDRESS_MAX + 8];
    int listener, wake[2];
    pthread_t thread;
    bool has_thread;
    struct spot_mesh_flags *flags;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    struct spot_link control;
    struct spot_frame_list orders;
    bool is_orphan;
    bool is_full;         /* no descriptor for another connection, until the next beat */
    bool is_short;        /* there was none although only peers have them */
    struct spot_err lost; /* why it is an orphan */
    uint32_t epoch, revoked_below, id;
    uint64_t key;
    struct spot_mesh_conn *peer[SPOT_MESH_PEERS_MAX];
    size_t n_peer;
    double beat_s;                   /* when the last heartbeat went out */
    double lease_s, control_heard_s; /* see spot_mesh_lease; last word of the coordinator */
    uint32_t *member;                /* [n_member] of this epoch: others are not suspected */
    size_t n_member, cap_member;
    struct spot_mesh_suspect *suspect; /* of this epoch */
    size_t n_suspect, cap_suspect;
};

struct spot_mesh_flags *spot_mesh_flags_new(void);
void spot_mesh_stop(struct spot_mesh *mesh);

/* The thread; the rest is called with the lock held. */
void *spot_mesh_run_thread(void *user);
void spot_mesh_wake(struct spot_mesh *mesh);

/* The coordinator is gone: everyone who waits learns it. */
void spot_mesh_lose_control(struct spot_mesh *mesh, const struct spot_err *why);

/* A connection made (is_server false) or taken. NULL with *err, the descriptor closed. */
struct spot_mesh_conn *spot_mesh_add_peer(struct spot_mesh *mesh, int fd_take, bool is_server,
                                          struct spot_err *err);
void spot_mesh_free_peer(struct spot_mesh *mesh, size_t i);

/* Of this epoch, this worker itself too. */
bool spot_mesh_is_member(const struct spot_mesh *mesh, uint32_t id);
/* mesh_suspect.c: the first thing that is found out about a peer in an epoch that goes on counts.
 */
void spot_mesh_suspect(struct spot_mesh *mesh, uint32_t id, bool has_answered, const char *why);
/* The connection to a peer broke. */
void spot_mesh_suspect_broken(struct spot_mesh *mesh, const struct spot_mesh_conn *p,
                              const struct spot_err *why);
/* There is no connection to a peer: it cannot be reached, or this process has no descriptor left.
 */
void spot_mesh_suspect_missed(struct spot_mesh *mesh, uint32_t id, const struct spot_err *why);
/* Is it this machine that is short of something? */
bool spot_mesh_is_short(int sys_errno);

/* Free what waits of epochs that are over. */
void spot_mesh_drop_late(struct spot_mesh *mesh);
/* One that is not gone where there are two. */
struct spot_mesh_conn *spot_mesh_find_peer(const struct spot_mesh *mesh, uint32_t id);

/* mesh.c: connect to who is not connected to; why a wait in this epoch must end, 0 if it need not;
 * is a frame there, by whichever connection it came? */
int spot_mesh_connect(struct spot_mesh *mesh, const struct spot_mesh_peer *peer,
                      struct spot_err *err);
int spot_mesh_check_wait(const struct spot_mesh *mesh, const struct spot_mesh_conn *p, uint32_t id,
                         struct spot_err *err);
bool spot_mesh_has_from(const struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag);

/* Do what poll() says can be done. A connection that broke keeps what it delivered, so that a
 * peer's last words are read. */
void spot_mesh_serve_peer(struct spot_mesh *mesh, size_t i, short events);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_MESH_STATE_H */

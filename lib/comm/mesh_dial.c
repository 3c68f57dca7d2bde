/* SPDX-License-Identifier: MIT */
/* Connections that a worker makes to its peers. Called with the lock held. */
#include <stdio.h>
#include <unistd.h>

#include "comm/mesh_state.h"
#include "common/clock.h"
#include "common/le.h"

static const double retry_s = 0.25;

/* Connecting to a stopped process can take seconds, during which the lease must be renewed: the
 * lock is released meanwhile. */
static int dial(struct spot_mesh *mesh, const struct spot_mesh_peer *peer, struct spot_err *err)
{
    struct spot_endpoint to;
    int fd;

    if (spot_endpoint_parse_reach(
            peer->address, mesh->config.tls ? SPOT_REACH_NUMERIC : SPOT_REACH_HERE, &to, err))
        return -1;
    pthread_mutex_unlock(&mesh->lock);
    fd = spot_endpoint_start(&to, err);
    pthread_mutex_lock(&mesh->lock);
    return fd;
}

/* Adds the connection, and says in a frame of this type who connects to whom. */
static int introduce(struct spot_mesh *mesh, const struct spot_mesh_peer *peer, int fd_take,
                     uint32_t type, struct spot_err *err)
{
    struct spot_mesh_conn *const p = spot_mesh_add_peer(mesh, fd_take, false, err);
    uint8_t id[SPOT_MESH_ID_BYTE];

    if (!p)
        return -1;
    p->id = peer->id;
    snprintf(p->address, sizeof(p->address), "%s", peer->address);
    p->is_offered = type == mesh->config.type_offer;
    if (p->is_offered)
        p->ping_s = p->since_s;
    spot_le_put(id, peer->id, sizeof(id));
    if (!spot_link_send(&p->link, type, mesh->id, mesh->key, id, sizeof(id), err))
        return 0;
    if (p->is_offered)
        spot_mesh_free_peer(mesh, p->index); /* nothing was received on it */
    else
        p->is_gone = true;
    return -1;
}

int spot_mesh_connect(struct spot_mesh *mesh, const struct spot_mesh_peer *peer,
                      struct spot_err *err)
{
    const int fd = dial(mesh, peer, err);

    return fd < 0 ? -1 : introduce(mesh, peer, fd, mesh->config.type_hello, err);
}

/* --- on demand ------------------------------------------------------------- */

static struct spot_mesh_peer *find_member(const struct spot_mesh *mesh, uint32_t id)
{
    for (size_t i = 0; i < mesh->n_member; i++)
        if (mesh->member[i].id == id)
            return &mesh->member[i];
    return NULL;
}

static bool has_connection(const struct spot_mesh *mesh, uint32_t id)
{
    const struct spot_mesh_conn *const p = spot_mesh_find_peer(mesh, id);

    return p && !p->is_gone;
}

/* The peer may have connected meanwhile, or the epoch ended. */
static int offer(struct spot_mesh *mesh, const struct spot_mesh_peer *peer, struct spot_err *err)
{
    const int fd = dial(mesh, peer, err);

    if (fd < 0)
        return -1;
    if (!has_connection(mesh, peer->id) && !spot_mesh_check_wait(mesh, NULL, 0, NULL))
        return introduce(mesh, peer, fd, mesh->config.type_offer, err);
    close(fd);
    return 0;
}

/* Only the younger of two must be able to connect to the other: an elder that cannot tries again
 * later, and waits for the younger one, which tries as well. */
int spot_mesh_demand(struct spot_mesh *mesh, uint32_t id, struct spot_err *err)
{
    const struct spot_mesh_peer *const member = find_member(mesh, id);
    struct spot_err why = { 0 };
    struct spot_mesh_peer peer;

    if (!member || !member->on_demand || has_connection(mesh, id) ||
        (mesh->refused == id && spot_clock_s() - mesh->refused_s < retry_s))
        return 0;
    peer = *member; /* the lock is released meanwhile */
    if (!offer(mesh, &peer, &why)) {
        spot_mesh_wake(mesh);
        return 0;
    }
    if (mesh->id < id && !spot_mesh_is_short(why.sys_errno)) {
        mesh->refused = id;
        mesh->refused_s = spot_clock_s();
        return 0;
    }
    spot_mesh_suspect_missed(mesh, id, &why);
    if (err)
        *err = why;
    return -1;
}

/* Of two that offer at the same time, the elder accepts. If the peer offers because the connection
 * to it has ended, that will be seen here, too, and then this epoch ends: frames may be lost. */
bool spot_mesh_declines(const struct spot_mesh *mesh, uint32_t peer)
{
    const struct spot_mesh_conn *const p = spot_mesh_find_peer(mesh, peer);

    if (!p || p->is_gone)
        return false;
    return p->is_offered ? p->link.fd >= 0 && peer < mesh->id : true;
}

void spot_mesh_offer_answered(struct spot_mesh_conn *p, uint64_t tag)
{
    if (tag)
        spot_link_close(&p->link); /* the peer's own connection takes its place */
    else
        p->is_offered = false;
}

bool spot_mesh_offer_failed(struct spot_mesh *mesh, struct spot_mesh_conn *p)
{
    if (p->id < mesh->id)
        return false;
    mesh->refused = p->id;
    mesh->refused_s = spot_clock_s();
    return true;
}

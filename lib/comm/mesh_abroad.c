/* SPDX-License-Identifier: MIT */
/* Frames to and from workers of other epochs. Received frames may be kept for long. */
#include <stdlib.h>

#include "comm/mesh_state.h"

int spot_mesh_send_abroad(struct spot_mesh *mesh, const struct spot_mesh_peer *to, uint32_t epoch,
                          uint32_t type, uint64_t tag, const void *data, size_t n_byte,
                          struct spot_err *err)
{
    struct spot_mesh_conn *p;
    int rc;

    pthread_mutex_lock(&mesh->lock);
    p = spot_mesh_find_peer(mesh, to->id);
    rc = spot_mesh_check_wait(mesh, p, to->id, err);
    if (!rc && (!p || p->is_offered))
        rc = spot_mesh_connect(mesh, to, err);
    p = spot_mesh_find_peer(mesh, to->id);
    if (!rc && spot_link_send(&p->link, type, epoch, tag, data, n_byte, err)) {
        p->is_gone = true;
        rc = -1;
    }
    spot_mesh_wake(mesh);
    pthread_mutex_unlock(&mesh->lock);
    return rc;
}

bool spot_mesh_has(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag)
{
    bool has;

    pthread_mutex_lock(&mesh->lock);
    has = spot_mesh_has_from(mesh, peer, type, tag);
    pthread_mutex_unlock(&mesh->lock);
    return has;
}

void spot_mesh_discard(struct spot_mesh *mesh, uint32_t type, uint64_t first, uint64_t end)
{
    pthread_mutex_lock(&mesh->lock);
    for (size_t i = 0; i < mesh->n_peer; i++) {
        struct spot_frame_list *const inbox = &mesh->peer[i]->inbox;
        struct spot_frame_list kept = { NULL, NULL };
        struct spot_frame *frame;

        while ((frame = spot_frame_pop(inbox)))
            if (frame->type == type && frame->tag >= first && frame->tag < end)
                free(frame);
            else
                spot_frame_push(&kept, frame);
        *inbox = kept;
    }
    pthread_mutex_unlock(&mesh->lock);
}

size_t spot_mesh_queued(struct spot_mesh *mesh, uint32_t peer)
{
    const struct spot_mesh_conn *p;
    size_t n;

    pthread_mutex_lock(&mesh->lock);
    p = spot_mesh_find_peer(mesh, peer);
    n = p ? spot_link_queued(&p->link) : 0;
    pthread_mutex_unlock(&mesh->lock);
    return n;
}

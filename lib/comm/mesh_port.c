/* SPDX-License-Identifier: MIT */
#include "comm/mesh_port.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { FRAME_BYTE = 4 << 20 }; /* maximum size of a frame; most writes are one chunk */

struct mesh_port {
    struct spot_port port;
    struct spot_mesh *mesh;
    uint32_t peer, type;
    uint64_t tag;
    size_t queue_byte;
    struct spot_frame *frame; /* the frame being read */
    size_t at;
};

static int read_frames(struct spot_port *port, void *data, size_t n_byte, size_t *got,
                       struct spot_err *err)
{
    struct mesh_port *p = (struct mesh_port *)port;

    if (!p->frame) {
        p->frame = spot_mesh_recv(p->mesh, p->peer, p->type, p->tag, err);
        p->at = 0;
        if (!p->frame)
            return -1;
    }
    *got = p->frame->n_byte - p->at;
    *got = *got < n_byte ? *got : n_byte;
    memcpy(data, p->frame->data + p->at, *got);
    p->at += *got;
    if (p->at == p->frame->n_byte) {
        free(p->frame);
        p->frame = NULL;
    }
    return 0;
}

static int write_frames(struct spot_port *port, const void *data, size_t n_byte,
                        struct spot_err *err)
{
    struct mesh_port *p = (struct mesh_port *)port;
    const char *at = data;

    while (n_byte) {
        const size_t n = n_byte < FRAME_BYTE ? n_byte : FRAME_BYTE;

        if ((p->queue_byte && spot_mesh_room(p->mesh, p->peer, p->queue_byte, err)) ||
            spot_mesh_send(p->mesh, p->peer, p->type, p->tag, at, n, err))
            return -1;
        at += n;
        n_byte -= n;
    }
    return 0;
}

static int wait_frame(struct spot_port *port, double limit_s)
{
    const struct mesh_port *p = (const struct mesh_port *)port;

    return p->frame || spot_mesh_wait(p->mesh, p->peer, p->type, p->tag, limit_s);
}

static void close_port(struct spot_port *port)
{
    struct mesh_port *p = (struct mesh_port *)port;

    free(p->frame);
    free(p);
}

struct spot_port *spot_mesh_port(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                                 size_t queue_byte)
{
    struct mesh_port *p = spot_xcalloc(1, sizeof(*p));

    p->port = (struct spot_port){ read_frames, write_frames, wait_frame, close_port, 0 };
    p->mesh = mesh;
    p->peer = peer;
    p->type = type;
    p->tag = tag;
    p->queue_byte = queue_byte;
    return &p->port;
}

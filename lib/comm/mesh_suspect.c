/* SPDX-License-Identifier: MIT */
/* Records the members of an epoch with which this worker cannot exchange frames. Called with the
 * lock held, except spot_mesh_suspects. */
#include <errno.h>
#include <stdio.h>

#include "comm/mesh_state.h"
#include "common/clock.h"
#include "common/xalloc.h"

bool spot_mesh_is_short(int sys_errno)
{
    return sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == ENOBUFS ||
           sys_errno == ENOMEM;
}

static bool is_known(const struct spot_mesh_suspect *suspect, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (suspect[i].id == id)
            return true;
    return false;
}

bool spot_mesh_is_member(const struct spot_mesh *mesh, uint32_t id)
{
    for (size_t i = 0; i < mesh->n_member; i++)
        if (mesh->member[i].id == id)
            return true;
    return id == mesh->id;
}

void spot_mesh_suspect(struct spot_mesh *mesh, uint32_t id, bool has_answered, const char *why)
{
    struct spot_mesh_suspect *s;

    /* at the end of an epoch all connections close */
    if (!id || !spot_mesh_is_member(mesh, id) || mesh->epoch < mesh->revoked_below ||
        is_known(mesh->suspect, mesh->n_suspect, id))
        return;
    mesh->suspect =
        spot_xgrow(mesh->suspect, &mesh->cap_suspect, mesh->n_suspect + 1, sizeof(*mesh->suspect));
    s = &mesh->suspect[mesh->n_suspect++];
    *s = (struct spot_mesh_suspect){ .id = id, .has_answered = has_answered };
    snprintf(s->why, sizeof(s->why), "%s", why);
}

void spot_mesh_suspect_broken(struct spot_mesh *mesh, const struct spot_mesh_conn *p,
                              const struct spot_err *why)
{
    char text[SPOT_MESH_WHY_MAX];

    snprintf(text, sizeof(text), "%.130s%s%.60s", p->address, *p->address ? ": " : "", why->msg);
    spot_mesh_suspect(mesh, p->id, p->received_s > 0, text);
}

void spot_mesh_suspect_missed(struct spot_mesh *mesh, uint32_t id, const struct spot_err *why)
{
    char text[SPOT_MESH_WHY_MAX];

    snprintf(text, sizeof(text), "%.199s", why->msg);
    spot_mesh_suspect(mesh, spot_mesh_is_short(why->sys_errno) ? mesh->id : id, false, text);
}

/* A peer that was pinged, and has not answered for half the time limit, is a suspect as well: all
 * members that wait for the same silent peer report it when the first of them gives up. */
static void add_unheard(struct spot_mesh *mesh)
{
    const double now_s = spot_clock_s();

    for (size_t i = 0; mesh->lease_s > 0 && i < mesh->n_peer; i++) {
        const struct spot_mesh_conn *p = mesh->peer[i];

        if (p->id && !p->is_gone && p->ping_s > p->received_s &&
            now_s - p->ping_s > mesh->lease_s / 2)
            spot_mesh_suspect(mesh, p->id, false, "it does not answer");
    }
}

size_t spot_mesh_suspects(struct spot_mesh *mesh, struct spot_mesh_suspect *suspect, size_t n_max)
{
    size_t n = 0;

    pthread_mutex_lock(&mesh->lock);
    add_unheard(mesh);
    while (n < n_max && n < mesh->n_suspect) {
        suspect[n] = mesh->suspect[n];
        n++;
    }
    pthread_mutex_unlock(&mesh->lock);
    return n;
}

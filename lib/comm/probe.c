/* SPDX-License-Identifier: MIT */
#include "comm/probe.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mesh_state.h"
#include "common/clock.h"
#include "common/le.h"

enum { AT_ONCE = 16, SLICE_MS = 20 };

struct dial {
    struct spot_link link;
    const struct spot_mesh_peer *peer; /* NULL: free */
    struct spot_mesh_suspect *found;
    double until_s;
};

struct round {
    const struct spot_probe_config *config;
    uint32_t me;
    struct dial dial[AT_ONCE];
    int n_open;
};

static void end(struct round *r, struct dial *d, const struct spot_err *why)
{
    spot_link_release(&d->link);
    if (why)
        snprintf(d->found->why, sizeof(d->found->why), "%.130s: %.60s", d->peer->address, why->msg);
    else
        d->found->id = 0;
    d->peer = NULL;
    r->n_open--;
}

static int dial(struct round *r, struct dial *d, const struct spot_mesh_peer *peer,
                struct spot_err *err)
{
    const struct spot_probe_config *const c = r->config;
    uint8_t id[SPOT_MESH_ID_BYTE];
    struct spot_endpoint e;
    int fd;

    if (spot_endpoint_parse_reach(peer->address, c->tls ? SPOT_REACH_NUMERIC : SPOT_REACH_HERE, &e,
                                  err) ||
        (fd = spot_endpoint_start(&e, err)) < 0)
        return -1;
    spot_link_init(&d->link, fd, SPOT_MESH_ID_BYTE);
    spot_le_put(id, peer->id, sizeof(id));
    if (!spot_link_secure(&d->link, c->tls, false, err) &&
        !spot_link_send(&d->link, c->type_probe, r->me, c->key, id, sizeof(id), err))
        return 0;
    spot_link_release(&d->link);
    return -1;
}

/* Starts a probe. Returns 1 if out of descriptors: try again when another probe has ended. */
static int begin(struct round *r, const struct spot_mesh_peer *peer,
                 struct spot_mesh_suspect *found)
{
    struct spot_err why = { 0 };
    struct dial *d = r->dial;

    while (d->peer)
        d++;
    if (!dial(r, d, peer, &why)) {
        d->peer = peer;
        d->found = found;
        d->until_s = spot_clock_s() + r->config->limit_s;
        r->n_open++;
        return 0;
    }
    if (spot_mesh_is_short(why.sys_errno)) {
        if (r->n_open)
            return 1;
        found->id = r->me;
    }
    snprintf(found->why, sizeof(found->why), "%.199s", why.msg);
    return 0;
}

static void serve(struct round *r, struct dial *d, short events)
{
    struct spot_frame_list in = { NULL, NULL };
    struct spot_err why = { 0 };
    struct spot_frame *frame;
    int rc = 0;

    if (events & POLLOUT)
        rc = spot_link_flush(&d->link, &why);
    if (!rc && (events & (POLLIN | POLLHUP | POLLERR)))
        rc = spot_link_read(&d->link, &in, &why);
    frame = spot_frame_pop(&in);
    spot_frame_list_release(&in);
    if (frame && frame->type == r->config->type_pong && frame->epoch == d->peer->id) {
        end(r, d, NULL);
    } else if (frame) {
        spot_err_set(&why, SPOT_ESYS, "another process answers");
        end(r, d, &why);
    } else if (rc) {
        end(r, d, &why);
    } else if (spot_clock_s() > d->until_s) {
        spot_err_set(&why, SPOT_ESYS, "no answer for %g s", r->config->limit_s);
        end(r, d, &why);
    }
    free(frame);
}

/* Polls only open connections: poll() refuses a list longer than the limit on descriptors. */
static void turn(struct round *r)
{
    struct pollfd set[AT_ONCE];
    struct dial *of[AT_ONCE];
    nfds_t n = 0;

    for (int i = 0; i < AT_ONCE; i++) {
        struct dial *const d = &r->dial[i];

        if (!d->peer)
            continue;
        of[n] = d;
        set[n++] = (struct pollfd){
            .fd = d->link.fd,
            .events = (short)(POLLIN | (spot_link_wants_write(&d->link) ? POLLOUT : 0))
        };
    }
    if (poll(set, n, SLICE_MS) < 0)
        for (nfds_t k = 0; k < n; k++)
            set[k].revents = 0; /* poll() was interrupted by a signal; time limits still apply */
    for (nfds_t k = 0; k < n; k++)
        serve(r, of[k], set[k].revents);
}

int spot_probe(const struct spot_probe_config *config, uint32_t me,
               const struct spot_mesh_peer *peer, size_t n, struct spot_mesh_suspect *found)
{
    struct round r = { .config = config, .me = me };
    bool is_over = false;
    size_t i = 0;

    for (size_t k = 0; k < n; k++)
        found[k] = (struct spot_mesh_suspect){ .id = peer[k].id };
    while ((i < n || r.n_open) && !is_over) {
        while (i < n && r.n_open < AT_ONCE && !begin(&r, &peer[i], &found[i]))
            i++;
        if (r.n_open)
            turn(&r);
        is_over = config->is_over && config->is_over(config->user);
    }
    for (int k = 0; k < AT_ONCE; k++)
        if (r.dial[k].peer)
            spot_link_release(&r.dial[k].link);
    return is_over && (i < n || r.n_open) ? 1 : 0;
}

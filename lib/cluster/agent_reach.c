/* SPDX-License-Identifier: MIT */
/* Tests which members this worker reaches, and handles being set aside. */
#include <stdlib.h>

#include "cluster/agent_state.h"
#include "cluster/suspect_io.h"
#include "comm/probe.h"
#include "common/xalloc.h"

void spot_agent_put_suspects(struct spot_agent *a, struct spot_buf *out)
{
    struct spot_mesh_suspect *const suspect = spot_xcalloc(SPOT_SUSPECTS_MAX, sizeof(*suspect));

    spot_suspect_io_put(out, suspect, spot_mesh_suspects(a->mesh, suspect, SPOT_SUSPECTS_MAX));
    free(suspect);
}

/* True when an order has arrived: a new epoch must not wait for silent members. */
static bool is_called(void *user)
{
    return spot_mesh_has_order(user);
}

static struct spot_mesh_peer *get_peers(struct spot_wire_in *in, uint32_t *n)
{
    struct spot_mesh_peer *peer;

    *n = spot_get_count(in, 8);
    if (in->bad)
        *n = 0;
    peer = spot_xcalloc(*n + 1, sizeof(*peer));
    for (uint32_t i = 0; i < *n; i++) {
        peer[i].id = spot_get_u32(in);
        spot_get_text(in, peer[i].address, sizeof(peer[i].address));
    }
    return peer;
}

int spot_agent_reach(struct spot_agent *a, const struct spot_frame *frame, struct spot_err *err)
{
    const struct spot_probe_config config = { .tls = a->tls,
                                              .key = a->key,
                                              .type_probe = SPOT_MSG_KNOCK,
                                              .type_pong = SPOT_MSG_PONG,
                                              .limit_s = a->lease_s > 0 ? a->lease_s : 5,
                                              .is_over = is_called,
                                              .user = a->mesh };
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_mesh_suspect *found;
    struct spot_mesh_peer *peer;
    struct spot_buf out = { 0 };
    uint32_t n;
    int rc;

    peer = get_peers(&in, &n);
    if (!spot_wire_in_done(&in)) {
        free(peer);
        return spot_err_set(err, SPOT_EDATA,
                            "malformed request to probe members from the coordinator");
    }
    found = spot_xcalloc(n + 1, sizeof(*found));
    rc = spot_probe(&config, a->id, peer, n, found);
    spot_suspect_io_put(&out, found, rc ? 0 : n);
    free(found);
    free(peer);
    return spot_agent_send(a, SPOT_MSG_REACHED, rc ? 1 : 0, &out, err);
}

int spot_agent_set_aside(struct spot_agent *a, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    char why[SPOT_WHY_MAX];

    spot_get_plain(&in, why, sizeof(why));
    if (frame->type == SPOT_MSG_DISMISSED) {
        a->was_dismissed = true;
        return spot_err_set(err, SPOT_ESYS, "set aside by the job: %.450s", why);
    }
    if (a->options->warn && *why)
        a->options->warn("set aside by the job: %s", why);
    else if (a->options->warn)
        a->options->warn("the job uses this worker again");
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Joining and leaving a group. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cluster/agent_state.h"
#include "cluster/find_leader.h"
#include "common/clock.h"
#include "common/version.h"

static const double pause_s = 0.05; /* between two tries to join */

/* A signal handler has no other way to reach the agent. */
static struct spot_mesh *_Atomic noticed_mesh;
static _Atomic bool was_noticed;
static _Atomic int64_t until_ms; /* by spot_clock_s; 0: not known */

void spot_agent_expect(double left_s)
{
    until_ms = isnan(left_s) ? 0 : (int64_t)((spot_clock_s() + fmin(fmax(left_s, 0), 1e6)) * 1e3);
}

/* At least 1, because 0 means not known. */
static uint32_t left_ms(void)
{
    const int64_t until = until_ms;

    return until ? (uint32_t)fmax(1, (double)until - spot_clock_s() * 1e3) : 0;
}

void spot_agent_notice(void)
{
    struct spot_mesh *mesh;

    was_noticed = true;
    mesh = noticed_mesh;
    if (mesh)
        spot_mesh_notice(mesh, left_ms());
}

bool spot_agent_was_noticed(void)
{
    return was_noticed;
}

static int send_hello(struct spot_agent *a, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    char name[SPOT_NAME_MAX];

    snprintf(name, sizeof(name), "%ld", (long)getpid());
    spot_put_u32(&out, SPOT_PROTOCOL);
    spot_put_text(&out, spot_version());
    spot_put_text(&out, a->options->name ? a->options->name : name);
    spot_put_text(&out, spot_mesh_address(a->mesh));
    spot_put_text(&out, a->options->domain ? a->options->domain : "");
    spot_put_u64(&out, a->key);
    if (a->workload->hello)
        a->workload->hello(a->job, &out);
    return spot_agent_send(a, SPOT_MSG_HELLO, 0, &out, err);
}

static int on_refused(struct spot_agent *a, bool is_for_other, struct spot_wire_in *in,
                      struct spot_err *err)
{
    char why[SPOT_WHY_MAX];

    if (is_for_other) {
        spot_get_plain(in, a->other, sizeof(a->other));
        return spot_err_set(err, SPOT_EINFEASIBLE, "refused: the job at %s is to %s",
                            a->options->join, a->other);
    }
    spot_get_plain(in, why, sizeof(why));
    return spot_err_set(err, SPOT_EINFEASIBLE, "refused: %s", why);
}

static int on_welcome(struct spot_agent *a, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    int rc = 1;

    if (frame->type == SPOT_MSG_REFUSED)
        return on_refused(a, frame->tag == 1, &in, err);
    a->id = spot_get_u32(&in);
    a->key = spot_get_u64(&in);
    a->lease_s = spot_get_f64(&in);
    if (frame->type == SPOT_MSG_WELCOME && !in.bad)
        rc = a->workload->welcome ? a->workload->welcome(a->job, &in, err) : 0;
    if (rc > 0 || (!rc && !spot_wire_in_done(&in)))
        return spot_err_set(err, SPOT_ESYS, "%s is not a coordinator of this version",
                            a->options->join);
    if (rc)
        return -1;
    if (a->lease_s > 0)
        spot_mesh_lease(a->mesh, a->lease_s);
    spot_mesh_own(a->mesh, a->key, a->id);
    return 0;
}

static int join_once(struct spot_agent *a, struct spot_err *err)
{
    struct spot_mesh_config mesh = {
        .tls = a->tls,
        .payload_max = SPOT_PAYLOAD_MAX,
        .heartbeat_s = 0.25,
        .type_heartbeat = SPOT_MSG_HEARTBEAT,
        .type_notice = SPOT_MSG_NOTICE,
        .type_revoke = SPOT_MSG_QUIESCE,
        .type_ping = SPOT_MSG_PING,
        .type_pong = SPOT_MSG_PONG,
        .type_hello = SPOT_MSG_PEER,
        .type_offer = SPOT_MSG_OFFER,
        .type_probe = SPOT_MSG_KNOCK,
    };
    struct spot_frame *frame;
    int rc;

    a->epoch = 0;
    mesh.join = spot_leader_find(a->options->join, a->at, err);
    a->mesh = mesh.join ? spot_mesh_open(&mesh, err) : NULL;
    if (!a->mesh || send_hello(a, err))
        return -1;
    frame = spot_mesh_order(a->mesh, 5, err);
    if (!frame)
        return -1;
    rc = on_welcome(a, frame, err);
    free(frame);
    if (!rc) {
        a->has_joined = true;
        noticed_mesh = a->mesh;
        if (was_noticed)
            spot_mesh_notice(a->mesh, left_ms());
    }
    return rc;
}

/* True if nothing listens at the address of a coordinator that can have no successor. */
static bool is_abandoned(const struct spot_agent *a, const struct spot_err *err)
{
    return a->options->is_private && a->has_joined &&
           (err->sys_errno == ECONNREFUSED || err->sys_errno == ENOENT);
}

static int away_too_long(const struct spot_agent *a, struct spot_err *err)
{
    const struct spot_err why = *err;

    return spot_err_set(err, SPOT_ESYS, "no coordinator at %s for %g s: %.300s", a->options->join,
                        a->options->join_timeout_s, why.msg);
}

/* Retries until a coordinator answers; a refusal counts as an answer. */
int spot_agent_join(struct spot_agent *a, struct spot_err *err)
{
    const double until_s = spot_clock_s() + a->options->join_timeout_s;

    for (;;) {
        if (!join_once(a, err))
            return 0;
        spot_agent_leave(a);
        if (was_noticed)
            return spot_err_set(err, SPOT_EPREEMPTED, "preempted while %s",
                                a->has_joined ? "the coordinator does not answer" : "joining");
        if (err->code == SPOT_ESYS && a->has_joined && spot_clock_s() > until_s)
            return away_too_long(a, err);
        if (err->code != SPOT_ESYS || spot_clock_s() > until_s || is_abandoned(a, err))
            return -1;
        if (a->workload->idle) {
            if (a->workload->idle(a->job, pause_s, err))
                return -1;
        } else {
            spot_clock_sleep(pause_s);
        }
    }
}

void spot_agent_leave(struct spot_agent *a)
{
    noticed_mesh = NULL;
    free(a->pending);
    a->pending = NULL;
    if (a->workload->leaving)
        a->workload->leaving(a->job);
    spot_mesh_close(a->mesh);
    a->mesh = NULL;
    if (a->workload->left)
        a->workload->left(a->job);
}

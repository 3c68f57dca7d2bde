/* SPDX-License-Identifier: MIT */
/* The worker's side of the toy. */
#include <stdlib.h>

#include "cluster/agent.h"
#include "cluster/protocol.h"
#include "common/clock.h"
#include "toy.h"

struct member {
    struct spot_agent agent;
    int64_t known, at;        /* the last commit known of; rounds below are done here */
    uint64_t value[TOY_KEPT]; /* of rounds [known, at], by round % TOY_KEPT */
    enum toy_way way;
    int64_t n_round;
    uint32_t pause_ms, formed; /* the epoch it has a place in */
};

static void put_held(void *job, struct spot_buf *out)
{
    const struct member *const m = job;

    spot_put_i64(out, m->known);
    spot_put_i64(out, m->at);
}

static int welcome(void *job, struct spot_wire_in *in, struct spot_err *err)
{
    struct member *const m = job;

    (void)err;
    m->way = (enum toy_way)spot_get_u32(in);
    m->n_round = spot_get_i64(in);
    m->pause_ms = spot_get_u32(in);
    return !spot_wire_in_done(in);
}

/* --- a new epoch ----------------------------------------------------------- */

static int give(struct member *m, int64_t round, const struct spot_mesh_peer *to, uint32_t n,
                struct spot_err *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (spot_mesh_send(m->agent.mesh, to[i].id, TOY_MSG_COUNTER, (uint64_t)round,
                           &m->value[round % TOY_KEPT], sizeof(*m->value), err))
            return -1;
    return 0;
}

static int take(struct member *m, int64_t round, uint32_t giver, struct spot_err *err)
{
    struct spot_frame *const frame =
        spot_mesh_recv(m->agent.mesh, giver, TOY_MSG_COUNTER, (uint64_t)round, err);
    struct spot_wire_in in;

    if (!frame)
        return -1;
    in = spot_wire_in(frame->data, frame->n_byte);
    m->value[round % TOY_KEPT] = spot_get_u64(&in);
    free(frame);
    return 0;
}

/* i64 round, u32 giver (0: the value follows), u64 value, peers; the giver's are those who lack it.
 */
static int form(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct member *const m = job;
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const int64_t round = spot_get_i64(&in);
    const uint32_t giver = spot_get_u32(&in);
    const uint64_t value = spot_get_u64(&in);
    const uint32_t n = spot_get_count(&in, 8);
    struct spot_mesh_peer *const peer = calloc(n + 1, sizeof(*peer));
    const bool has_it = m->known <= round && round <= m->at;
    struct spot_err why = { 0 };
    int rc;

    for (uint32_t i = 0; i < n; i++) {
        peer[i].id = spot_get_u32(&in);
        spot_get_text(&in, peer[i].address, sizeof(peer[i].address));
    }
    rc = spot_agent_enter(&m->agent, peer, n, &why);
    if (!rc && giver == m->agent.id)
        rc = give(m, round, peer, n, &why);
    else if (!rc && !has_it && giver)
        rc = take(m, round, giver, &why);
    else if (!has_it)
        m->value[round % TOY_KEPT] = value;
    free(peer);
    if (rc)
        return spot_agent_report(&m->agent, &why, err) ? -1 : 1;
    m->known = m->at = round;
    m->formed = frame->epoch;
    return 0;
}

/* --- rounds ---------------------------------------------------------------- */

/* Do a round as far as it can be done without the others, and say so. */
static int vote(struct member *m, struct spot_err *err)
{
    struct spot_buf out = { 0 };

    if (m->pause_ms)
        spot_clock_sleep(m->pause_ms / 1e3);
    spot_put_u64(&out, m->value[m->at % TOY_KEPT]);
    return spot_agent_send(&m->agent, SPOT_MSG_VOTE, (uint64_t)m->at, &out, err);
}

static void count(struct member *m)
{
    m->value[(m->at + 1) % TOY_KEPT] = toy_next(m->value[m->at % TOY_KEPT], m->at);
    m->at++;
}

/* Announced rounds: go on until there is something to hear. */
static int go_on(struct member *m, struct spot_err *err)
{
    while (m->at < m->n_round && m->at - m->known < TOY_AHEAD &&
           !spot_mesh_has_order(m->agent.mesh)) {
        if (vote(m, err))
            return -1;
        count(m);
    }
    return 0;
}

static int order(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct member *const m = job;

    if (frame->epoch != m->agent.epoch || m->formed != frame->epoch)
        return 0;
    if (frame->type == SPOT_MSG_COMMIT) /* of the rounds below the tag */
        for (m->known = (int64_t)frame->tag; m->at < m->known;)
            count(m);
    if (m->way == TOY_ANNOUNCED)
        return go_on(m, err);
    return frame->type == SPOT_MSG_ROUND ? vote(m, err) : 0;
}

int toy_count(const struct toy_options *options, int64_t *round, uint64_t *value,
              struct spot_err *err)
{
    static const struct spot_agent_workload workload = {
        .hello = put_held, .welcome = welcome, .report = put_held, .form = form, .order = order
    };
    const struct spot_agent_options agent = { .join = options->address,
                                              .name = options->name,
                                              .join_timeout_s = options->join_timeout_s };
    struct member m = { .formed = 0 };
    int rc;

    m.agent = (struct spot_agent){ .options = &agent, .workload = &workload, .job = &m };
    rc = spot_agent_run(&m.agent, err);
    *round = m.formed && m.formed == m.agent.epoch ? m.at : -1;
    *value = m.value[m.at % TOY_KEPT];
    return rc;
}

/* SPDX-License-Identifier: MIT */
/* dispatch_rig.h - a server whose members are made up: what a group would do for it is here. One
 * test file includes it once. */
#ifndef SPOT_TESTS_DISPATCH_RIG_H
#define SPOT_TESTS_DISPATCH_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "serve/serve_protocol.h"
#include "serve/server_state.h"
#include "serve/server_verify.h"
#include "suite.h"

enum { MEMBERS = 6, BATCH = 4, QUEUE = 16 };

/* --- members, in place of a group's ------------------------------------------------- */

struct computed {
    uint64_t sequence;
    uint64_t seed;
    uint32_t choice, next, assignment; /* to an engine's worker */
};

struct spot_view {
    struct spot_machine machine;
    uint32_t broken; /* epoch; 0: none */
};

struct spot_peer {
    uint32_t id;
    char name[16];
    void *data;
    struct spot_view view;
    struct spot_member member;
    struct computed has[2 * BATCH];
    size_t n;
    bool is_aside, was_dropped, is_convicted;
    double left_s, round_trip_s;
    int n_asked, n_forgotten, n_moves;
    struct spot_seat seat;
    struct spot_replica replica;
};

static struct spot_peer peer[MEMBERS];
static struct spot_server server;
static struct spot_server_options options;
static struct spot_model_version version;
static uint32_t last_id, n_drawn;

uint32_t spot_peer_id(const struct spot_peer *p)
{
    return p->id;
}

const char *spot_peer_name(const struct spot_peer *p)
{
    return p->name;
}

void *spot_peer_data(const struct spot_peer *p)
{
    return p->data;
}

bool spot_peer_is_aside(const struct spot_peer *p)
{
    return p->is_aside;
}

bool spot_peer_is_convicted(const struct spot_peer *p)
{
    return p->is_convicted;
}

void spot_peer_convict(struct spot_peer *p, const char *why)
{
    (void)why;
    p->is_convicted = p->is_aside = true;
}

/* What was found, in place of server_events.c. */
static int n_corrupt, n_differs;

int spot_server_log_corrupt(struct spot_server *s, const struct spot_check *c, size_t voice,
                            size_t position, const char *what, size_t n_other, struct spot_err *err)
{
    (void)s, (void)c, (void)voice, (void)position, (void)what, (void)n_other, (void)err;
    n_corrupt++;
    return 0;
}

int spot_server_log_differs(struct spot_server *s, const struct spot_check *c, size_t position,
                            struct spot_err *err)
{
    (void)s, (void)c, (void)position, (void)err;
    n_differs++;
    return 0;
}

double spot_peer_round_trip_s(const struct spot_peer *p)
{
    return p->round_trip_s;
}

double spot_peer_time_left_s(const struct spot_peer *p)
{
    return p->left_s;
}

void spot_peer_ask(struct spot_peer *p)
{
    p->n_asked++;
}

void spot_peer_drop(struct spot_peer *p, const char *what)
{
    (void)what;
    p->was_dropped = true;
}

struct spot_peer *spot_group_find(const struct spot_group *g, uint32_t id)
{
    (void)g;
    for (int i = 0; i < MEMBERS; i++)
        if (peer[i].id == id)
            return &peer[i];
    return NULL;
}

const struct spot_machine *spot_view_machine(const struct spot_view *view)
{
    return &view->machine;
}

int spot_view_break(struct spot_view *view, uint32_t epoch, struct spot_err *err)
{
    (void)err;
    view->broken = epoch;
    return 0;
}

/* Each is a replica of its own, in place of server_layout.c. */
bool spot_server_can_replace(const struct spot_server *s, const struct spot_replica *place)
{
    (void)s;
    (void)place;
    return false;
}

void spot_server_form(const struct spot_server *s, const struct spot_replica *place,
                      const struct spot_peer *to, struct spot_relay_form *form)
{
    (void)s;
    (void)to;
    *form = (struct spot_relay_form){ .P = 1, .M = 1 };
    form->member[0].id = place->peer->id;
}

const char *spot_peer_domain(const struct spot_peer *p)
{
    return p == &peer[2] ? "far" : "near";
}

static inline void forget(struct spot_peer *p, uint64_t sequence)
{
    for (size_t i = p->n; i-- > 0;)
        if (p->has[i].sequence == sequence)
            p->has[i] = p->has[--p->n];
}

void spot_peer_send(struct spot_peer *p, uint32_t type, uint64_t tag, const void *data,
                    size_t n_byte)
{
    struct spot_wire_in in = spot_wire_in(data, n_byte);
    struct spot_request request = { 0 };
    struct computed c = { .sequence = tag };

    p->n_moves += type == SPOT_MSG_MOVE;
    if (type != SPOT_MSG_CONTINUE && type != SPOT_MSG_FORGET)
        return;
    forget(p, tag);
    p->n_forgotten += type == SPOT_MSG_FORGET;
    if (type == SPOT_MSG_FORGET)
        return;
    c.choice = spot_get_u32(&in);
    c.next = spot_get_u32(&in);
    for (uint32_t i = 0; i < c.next; i++)
        (void)spot_get_u32(&in);
    ck_assert_int_eq(spot_request_get(&request, &in), 0);
    c.seed = request.sample.seed;
    spot_request_release(&request);
    c.assignment = options.is_foreign ? spot_get_u32(&in) : 0;
    ck_assert_uint_lt(p->n, 2 * BATCH);
    p->has[p->n++] = c;
}

/* --- a server -------------------------------------------------------------------------- */

static inline void join(struct spot_peer *p)
{
    struct spot_server *const s = &server;

    memset(p, 0, sizeof(*p));
    p->id = ++last_id;
    snprintf(p->name, sizeof(p->name), "w%d", (int)(p - peer));
    p->seat = (struct spot_seat){ .peer = p, .replica = &p->replica };
    p->data = &p->seat;
    p->left_s = 1e9;
    p->member = (struct spot_member){ .id = p->id, .role = SPOT_ROLE_ACTIVE };
    p->view.machine = (struct spot_machine){ .epoch = p->id, .member = &p->member, .n_member = 1 };
    p->replica = (struct spot_replica){
        .peer = p, .view = &p->view, .version = &version, .is_running = true
    };
    s->place = spot_xgrow(s->place, &s->cap_place, s->n_place + 1, sizeof(struct spot_replica *));
    s->place[s->n_place++] = &p->replica;
}

static inline void die(struct spot_peer *p)
{
    spot_server_take_back(&server, &p->replica, true);
    for (size_t i = 0; i < server.n_place; i++)
        if (server.place[i] == &p->replica)
            server.place[i] = server.place[--server.n_place];
    p->id = 0;
}

static inline void set_up(void)
{
    static const struct spot_vocabulary none;

    memset(&server, 0, sizeof(server));
    memset(peer, 0, sizeof(peer));
    options = (struct spot_server_options){
        .P = 1, .M = 1, .n_sequence = BATCH, .n_queue = QUEUE, .linger_s = 0
    };
    version.model.is_foreign = false;
    server.options = &options;
    server.grid = (struct spot_grid){ .P = 1, .M = 1 };
    server.n_at_once = BATCH;
    server.target = server.current = &version;
    version.model.vocabulary = none;
    version.model.vocabulary.bpe = spot_bpe_of_bytes();
    version.model.shape =
        (struct spot_shape){ .vocab = 256, .n_layer = 1, .width = 16, .n_head = 1, .n_shard = 1 };
}

static inline void tear_down(void)
{
    struct spot_err err = { 0 };

    while (server.n_work) {
        spot_server_cancel(&server, server.work[0]);
        server.work[0]->ended_s = 1e-9;
        ck_assert_int_eq(spot_server_expire(&server, &err), 0);
    }
    ck_assert_uint_eq(server.n_sequence, 0);
    spot_bpe_free(version.model.vocabulary.bpe);
    free(server.sequence);
    free(server.queued);
    spot_fair_queue_release(&server.fair);
    free(server.work);
    for (int i = 0; i < MEMBERS; i++)
        spot_server_hold_nothing(&peer[i].replica);
    free(server.place);
}

static inline struct spot_completion *submit(uint32_t n_choice, int64_t n_token)
{
    struct spot_request r = { .n_prompt = 1, .n_choice = n_choice, .n_token_max = n_token };
    struct spot_completion *c = NULL;

    snprintf(r.id, sizeof(r.id), "cmpl-%u", (unsigned)++n_drawn);
    r.prompt = spot_xcalloc(1, sizeof(*r.prompt));
    r.n_logprob = -1;
    r.sample.seed = n_drawn;
    return spot_server_submit(&server, &r, &c) == SPOT_ADMIT ? c : NULL;
}

static inline uint32_t token_of(uint64_t seed, uint32_t choice, uint32_t position)
{
    return (uint32_t)('a' + spot_rng_mix(seed, (uint64_t)choice << 32 | position) % 26);
}

static inline struct spot_frame *frame_of(uint32_t epoch, const void *data, size_t n)
{
    struct spot_frame *const frame = spot_xcalloc(sizeof(*frame) + n, 1);

    frame->type = SPOT_MSG_TOKENS;
    frame->epoch = epoch;
    frame->n_byte = (uint32_t)n;
    memcpy(frame->data, data, n);
    return frame;
}

/* The next tokens of the first `most` that it has; `wrong`: the last is another one. */
static inline void tell(struct spot_peer *p, size_t most, bool wrong)
{
    struct spot_buf out = { 0 };
    struct spot_frame *frame;
    struct spot_err err = { 0 };
    const size_t n = p->n < most ? p->n : most;

    spot_put_u32(&out, 1);
    spot_put_u32(&out, 0);
    spot_put_u32(&out, 2);
    spot_put_f64(&out, 0);
    spot_put_f64(&out, 0);
    spot_put_u64(&out, 0);
    spot_put_u32(&out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        struct computed *const c = &p->has[i];
        struct spot_step_token t = { .position = c->next };

        t.token.id = token_of(c->seed, c->choice, c->next++) ^ (wrong && i + 1 == n);
        t.token.epoch = c->assignment;
        spot_put_u64(&out, c->sequence);
        spot_step_token_put(&out, &t);
    }
    frame = frame_of(p->id, out.data, out.n);
    ck_assert_int_eq(spot_server_tokens(&server, &p->replica, frame, &err), 0);
    free(frame);
    spot_buf_release(&out);
}

static inline struct spot_peer *whose(const struct spot_sequence *q, int k)
{
    return q->place[k] ? spot_group_find(NULL, q->place[k]) : NULL;
}

static inline void stand_still(struct spot_peer *p)
{
    p->replica.told_s = spot_clock_s() - 100;
    p->replica.step_s = 0.01;
}

#endif /* SPOT_TESTS_DISPATCH_RIG_H */

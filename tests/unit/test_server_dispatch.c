/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "serve/serve_protocol.h"
#include "serve/server_state.h"
#include "suite.h"

/* Goal: with members that are made up here, who come, leave, stand still, are set aside and die as
 * dice say: each choice has a member as soon as one can take it, never the same twice, the least
 * loaded, and not the one that just failed it; its tokens are committed once each, in order; what
 * is counted is what is there. */

enum { MEMBERS = 6, BATCH = 4, QUEUE = 16, STEPS = 30000 };

/* --- members, in place of a group's ------------------------------------------------- */

struct computed {
    uint64_t sequence;
    uint64_t seed;
    uint32_t choice, next;
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
    bool is_aside, was_dropped;
    double left_s;
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

static void forget(struct spot_peer *p, uint64_t sequence)
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
    ck_assert_uint_lt(p->n, 2 * BATCH);
    p->has[p->n++] = c;
}

/* --- a server -------------------------------------------------------------------------- */

static void join(struct spot_peer *p)
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

static void die(struct spot_peer *p)
{
    spot_server_take_back(&server, &p->replica, true);
    for (size_t i = 0; i < server.n_place; i++)
        if (server.place[i] == &p->replica)
            server.place[i] = server.place[--server.n_place];
    p->id = 0;
}

static void set_up(void)
{
    static const struct spot_vocabulary none;

    memset(&server, 0, sizeof(server));
    memset(peer, 0, sizeof(peer));
    options = (struct spot_server_options){
        .P = 1, .M = 1, .n_sequence = BATCH, .n_queue = QUEUE, .linger_s = 0
    };
    server.options = &options;
    server.grid = (struct spot_grid){ .P = 1, .M = 1 };
    server.n_at_once = BATCH;
    server.target = server.current = &version;
    version.model.vocabulary = none;
    version.model.vocabulary.bpe = spot_bpe_of_bytes();
    version.model.shape =
        (struct spot_shape){ .vocab = 256, .n_layer = 1, .width = 16, .n_head = 1, .n_shard = 1 };
}

static void tear_down(void)
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
    free(server.work);
    free(server.place);
}

static struct spot_completion *submit(uint32_t n_choice, int64_t n_token)
{
    struct spot_request r = { .n_prompt = 1, .n_choice = n_choice, .n_token_max = n_token };
    struct spot_completion *c = NULL;

    snprintf(r.id, sizeof(r.id), "cmpl-%u", (unsigned)++n_drawn);
    r.prompt = spot_xcalloc(1, sizeof(*r.prompt));
    r.n_logprob = -1;
    r.sample.seed = n_drawn;
    return spot_server_submit(&server, &r, &c) == SPOT_ADMIT ? c : NULL;
}

static uint32_t token_of(uint64_t seed, uint32_t choice, uint32_t position)
{
    return (uint32_t)('a' + spot_rng_mix(seed, (uint64_t)choice << 32 | position) % 26);
}

static struct spot_frame *frame_of(uint32_t epoch, const void *data, size_t n)
{
    struct spot_frame *const frame = spot_xcalloc(sizeof(*frame) + n, 1);

    frame->type = SPOT_MSG_TOKENS;
    frame->epoch = epoch;
    frame->n_byte = (uint32_t)n;
    memcpy(frame->data, data, n);
    return frame;
}

/* The next tokens of the first `most` that it has; `wrong`: the last is another one. */
static void tell(struct spot_peer *p, size_t most, bool wrong)
{
    struct spot_buf out = { 0 };
    struct spot_frame *frame;
    struct spot_err err = { 0 };
    const size_t n = p->n < most ? p->n : most;

    spot_put_u32(&out, 1);
    spot_put_u32(&out, 2);
    spot_put_f64(&out, 0);
    spot_put_f64(&out, 0);
    spot_put_u64(&out, 0);
    spot_put_u32(&out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        struct computed *const c = &p->has[i];
        struct spot_step_token t = { .position = c->next };

        t.token.id = token_of(c->seed, c->choice, c->next++) ^ (wrong && i + 1 == n);
        spot_put_u64(&out, c->sequence);
        spot_step_token_put(&out, &t);
    }
    frame = frame_of(p->id, out.data, out.n);
    ck_assert_int_eq(spot_server_tokens(&server, &p->replica, frame, &err), 0);
    free(frame);
    spot_buf_release(&out);
}

static struct spot_peer *whose(const struct spot_sequence *q, int k)
{
    return q->place[k] ? spot_group_find(NULL, q->place[k]) : NULL;
}

static void stand_still(struct spot_peer *p)
{
    p->replica.told_s = spot_clock_s() - 100;
    p->replica.step_s = 0.01;
}

/* --- one thing at a time ----------------------------------------------------------------- */

START_TEST(the_least_loaded_computes_and_the_rest_waits)
{
    struct spot_completion *c;

    join(&peer[0]);
    join(&peer[1]);
    ck_assert_ptr_nonnull(c = submit(3, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[0].replica.load + peer[1].replica.load, 3);
    ck_assert_uint_ge(peer[0].replica.load, 1);
    ck_assert_uint_ge(peer[1].replica.load, 1);
    ck_assert_int_eq(peer[0].n_asked, 1); /* to stay alive while it has work, not again and again */
    ck_assert_ptr_nonnull(c = submit(QUEUE, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[0].replica.load, BATCH);
    ck_assert_uint_eq(peer[1].replica.load, BATCH);
    ck_assert_uint_eq(spot_server_waiting(&server), QUEUE + 3 - 2 * BATCH);
    ck_assert_ptr_null(submit(QUEUE, 5));
    ck_assert_uint_eq(server.sequence[0]->place[0] != 0, 1); /* the oldest first */
}
END_TEST

/* Of n choices each has its share to less than one choice: weights are whole numbers here, so in
 * exact fractions. */
START_TEST(load_is_shared_by_weight)
{
    struct spot_route route[] = { { "", "far", 3 }, { "", "", 2 } };
    static const unsigned weight[] = { 1, 2, 3 };

    for (int i = 0; i < 3; i++)
        join(&peer[i]);
    snprintf(route[1].node, sizeof(route[1].node), "%s", peer[1].name);
    server.route = route;
    server.n_route = 2;
    server.n_at_once = 100;
    for (unsigned n = 1; n <= QUEUE; n++) {
        struct spot_completion *const c = submit(1, 5);

        ck_assert_ptr_nonnull(c);
        spot_completion_unref(c);
        for (int i = 0; i < 3; i++) {
            const unsigned six_times = 6 * peer[i].replica.load, wanted = n * weight[i];

            ck_assert_uint_lt(six_times, wanted + 6);
            ck_assert_uint_gt(six_times + 6, wanted);
        }
    }
    server.route = NULL;
}
END_TEST

START_TEST(a_request_goes_to_its_own_version_alone)
{
    static struct spot_model_version next;
    struct spot_completion *c;

    next.model = version.model;
    join(&peer[0]);
    join(&peer[1]);
    peer[1].replica.version = &next;
    ck_assert_ptr_nonnull(c = submit(3, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[0].replica.load, 3);
    ck_assert_uint_eq(peer[1].replica.load, 0);
    server.current = &next;
    ck_assert_ptr_nonnull(c = submit(1, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[1].replica.load, 1);
    ck_assert_uint_eq(version.n_work, 1);
    ck_assert_uint_eq(next.n_work, 1);
    peer[0].replica.is_retiring = true; /* nobody else has its version: it goes on */
    spot_server_dispatch(&server);
    ck_assert_uint_eq(peer[0].replica.load, 3);
    ck_assert_uint_eq(peer[1].replica.load, 1);
    peer[1].replica.version = &version;
    spot_server_dispatch(&server);
    ck_assert_uint_eq(peer[1].replica.load, 4);
}
END_TEST

enum { LEAVES, ASIDE, SILENT, STOPPED, WAYS };

START_TEST(who_may_not_take_gets_nothing_new)
{
    struct spot_completion *c;

    join(&peer[0]);
    join(&peer[1]);
    peer[0].member.is_leaving = _i == LEAVES;
    peer[0].is_aside = _i == ASIDE;
    peer[0].replica.is_running = _i != STOPPED;
    if (_i == SILENT) {
        peer[0].replica.load = 1;
        stand_still(&peer[0]);
    }
    ck_assert_ptr_nonnull(c = submit(2, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[0].n, 0);
    ck_assert_uint_eq(peer[1].n, 2);
}
END_TEST

START_TEST(two_compute_what_a_leaver_or_a_silent_one_has_until_the_other_has_caught_up)
{
    struct spot_completion *c;
    struct spot_sequence *q;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    q = server.sequence[0];
    tell(&peer[0], 1, false);
    tell(&peer[0], 1, false);
    join(&peer[1]);
    if (_i)
        stand_still(&peer[0]);
    else
        peer[0].member.is_leaving = true;
    spot_server_dispatch(&server);
    ck_assert_ptr_eq(whose(q, 0), &peer[0]);
    ck_assert_ptr_eq(whose(q, 1), &peer[1]);
    ck_assert_uint_eq(peer[1].has[0].next, 2); /* what is committed goes along */
    if (!_i)
        tell(&peer[0], 1, false); /* it goes on meanwhile */
    ck_assert_int_eq(peer[0].n_forgotten, 0);
    tell(&peer[1], 1, false); /* the second of the two to say so, where the leaver goes on */
    ck_assert_int_eq(peer[0].n_forgotten, 1);
    ck_assert_ptr_null(whose(q, 0));
    ck_assert_uint_eq(peer[0].replica.load, 0);
    ck_assert_uint_eq(c->choice[0].n_token, 3);
    ck_assert(!peer[1].was_dropped);
    spot_completion_unref(c);
}
END_TEST

START_TEST(what_failed_is_given_to_another_and_to_the_same_if_there_is_no_other)
{
    struct spot_completion *c;
    struct spot_sequence *q;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    spot_completion_unref(c);
    q = server.sequence[0];
    die(&peer[0]);
    ck_assert_uint_eq(q->place[0], 0);
    join(&peer[0]); /* of the same name */
    join(&peer[1]);
    ck_assert_ptr_nonnull(c = submit(2, 9)); /* the other has more to do */
    spot_completion_unref(c);
    spot_server_dispatch(&server);
    ck_assert_ptr_eq(whose(q, 0), &peer[1]);
    die(&peer[1]);
    die(&peer[0]);
    join(&peer[1]);
    spot_server_dispatch(&server);
    ck_assert_ptr_eq(whose(q, 0), &peer[1]);
}
END_TEST

START_TEST(another_token_than_is_committed_drops_who_told_it)
{
    struct spot_completion *c;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    tell(&peer[0], 1, false);
    join(&peer[1]);
    peer[0].member.is_leaving = true;
    spot_server_dispatch(&server);
    tell(&peer[0], 1, false);
    tell(&peer[1], 1, true);
    ck_assert(peer[1].was_dropped);
    ck_assert(!peer[0].was_dropped);
    ck_assert_uint_eq(c->choice[0].n_token, 2);
    spot_completion_unref(c);
}
END_TEST

START_TEST(who_leaves_goes_when_nothing_is_left_or_time_is_up)
{
    struct spot_completion *c;
    struct spot_err err;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    spot_completion_unref(c);
    peer[0].member.is_leaving = true;
    ck_assert_int_eq(spot_server_release_leavers(&server, &err), 0);
    ck_assert_uint_eq(peer[0].view.broken, 0); /* nobody has what it has */
    if (_i == 0)
        peer[0].left_s = 0.4;
    if (_i == 1)
        peer[0].replica.leaving_s -= 11;
    if (_i == 2) {
        join(&peer[1]);
        spot_server_dispatch(&server);
        tell(&peer[1], 1, false);
    }
    ck_assert_int_eq(spot_server_release_leavers(&server, &err), 0);
    ck_assert_uint_eq(peer[0].view.broken, peer[0].id);
}
END_TEST

START_TEST(words_of_another_epoch_or_malformed_ones_commit_nothing)
{
    struct spot_completion *c;
    struct spot_frame *frame;
    struct spot_err err;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    frame = frame_of(peer[0].id + 1, "123456789", 9);
    ck_assert_int_eq(spot_server_tokens(&server, &peer[0].replica, frame, &err), 0);
    ck_assert(!peer[0].was_dropped);
    frame->epoch = peer[0].id;
    ck_assert_int_eq(spot_server_tokens(&server, &peer[0].replica, frame, &err), 0);
    free(frame);
    ck_assert(peer[0].was_dropped);
    ck_assert_uint_eq(c->choice[0].n_token, 0);
    spot_completion_unref(c);
}
END_TEST

/* --- all at once --------------------------------------------------------------------------- */

static void check_counts(void)
{
    uint32_t load[MEMBERS] = { 0 };

    for (size_t i = 0; i < server.n_sequence; i++) {
        const struct spot_sequence *const q = server.sequence[i];

        ck_assert(!q->place[0] || q->place[0] != q->place[1]);
        ck_assert(!i || q->number > server.sequence[i - 1]->number);
        for (int k = 0; k < SPOT_SEQUENCE_PLACES; k++)
            if (q->place[k]) {
                ck_assert_ptr_nonnull(whose(q, k));
                load[whose(q, k) - peer]++;
            }
    }
    for (int i = 0; i < MEMBERS; i++)
        if (peer[i].id) {
            ck_assert_uint_eq(load[i], peer[i].replica.load);
            ck_assert_uint_le(load[i], BATCH);
        }
}

/* Nobody waits beside one who has room. */
static void check_nobody_waits(void)
{
    bool has_room = false;

    for (int i = 0; i < MEMBERS; i++)
        has_room |=
            peer[i].id && spot_replica_may_take(&peer[i].replica) && peer[i].replica.load < BATCH;
    ck_assert(!has_room || !spot_server_waiting(&server));
}

static void check_answer(const struct spot_completion *c)
{
    for (uint32_t i = 0; i < c->request.n_choice; i++) {
        const struct spot_choice *const h = &c->choice[i];

        ck_assert_int_eq(h->finish, SPOT_FINISH_LENGTH);
        ck_assert_int_eq((int64_t)h->n_token, c->request.n_token_max);
        for (uint32_t k = 0; k < h->n_token; k++)
            ck_assert_uint_eq(h->token[k].id, token_of(c->request.sample.seed, i, k));
    }
}

static void happen(struct spot_rng *rng)
{
    struct spot_peer *const p = &peer[spot_rng_below(rng, MEMBERS)];
    const uint64_t what = spot_rng_below(rng, 100);

    if (!p->id || p->was_dropped) {
        ck_assert(!p->was_dropped);
        if (what < 30)
            join(p);
    } else if (what < 70) {
        tell(p, 1 + spot_rng_below(rng, BATCH), false);
    } else if (what < 73) {
        die(p);
    } else if (what < 76) {
        p->member.is_leaving = true;
    } else if (what < 80 && p->n) {
        stand_still(p);
    } else if (what < 82) {
        p->is_aside = !p->is_aside;
    }
    if (p->id && p->view.broken) {
        spot_server_take_back(&server, &p->replica, false);
        die(p);
    }
}

enum { OPEN = 64 };

START_TEST(whatever_happens_each_choice_is_whole_and_once)
{
    struct spot_completion *open[OPEN] = { 0 };
    struct spot_rng rng;
    struct spot_err err = { 0 };
    size_t n_done = 0;

    spot_rng_init(&rng, (uint64_t)_i, 0);
    for (int step = 0; step < STEPS; step++) {
        struct spot_completion **const c = &open[spot_rng_below(&rng, OPEN)];

        if (!*c && spot_rng_below(&rng, 3) == 0)
            *c = submit(1 + (uint32_t)spot_rng_below(&rng, 3),
                        1 + (int64_t)spot_rng_below(&rng, 20));
        happen(&rng);
        spot_server_dispatch(&server);
        check_counts();
        check_nobody_waits();
        ck_assert_int_eq(spot_server_release_leavers(&server, &err), 0);
        for (int i = 0; i < OPEN; i++)
            if (open[i] && !open[i]->n_open) {
                check_answer(open[i]);
                spot_completion_unref(open[i]);
                open[i] = NULL;
                n_done++;
            }
        ck_assert_int_eq(spot_server_expire(&server, &err), 0);
    }
    ck_assert_uint_gt(n_done, STEPS / 100);
    for (int i = 0; i < OPEN; i++)
        spot_completion_unref(open[i]);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("server_dispatch");

    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, the_least_loaded_computes_and_the_rest_waits);
    tcase_add_test(c, load_is_shared_by_weight);
    tcase_add_test(c, a_request_goes_to_its_own_version_alone);
    tcase_add_loop_test(c, who_may_not_take_gets_nothing_new, 0, WAYS);
    tcase_add_loop_test(
        c, two_compute_what_a_leaver_or_a_silent_one_has_until_the_other_has_caught_up, 0, 2);
    tcase_add_test(c, what_failed_is_given_to_another_and_to_the_same_if_there_is_no_other);
    tcase_add_test(c, another_token_than_is_committed_drops_who_told_it);
    tcase_add_loop_test(c, who_leaves_goes_when_nothing_is_left_or_time_is_up, 0, 3);
    tcase_add_test(c, words_of_another_epoch_or_malformed_ones_commit_nothing);
    tcase_add_loop_test(c, whatever_happens_each_choice_is_whole_and_once, 1, 4);
    return run_case("server_dispatch", c);
}

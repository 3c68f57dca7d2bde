/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/mesh.h"
#include "comm/mesh_state.h"
#include "common/clock.h"
#include "mesh_rig.h"

/* Goal: a connection on demand is made by the first that needs it, whichever that is; both at once
 * make one; a peer that cannot be reached, is silent or dies is a loss; the end of the epoch ends
 * the wait for it. */

static void enter_on_demand(int i, uint32_t epoch)
{
    struct spot_mesh_peer both[2];

    for (int k = 0; k < 2; k++) {
        both[k] = peer[k];
        both[k].on_demand = true;
    }
    ck_assert_int_eq(spot_mesh_enter(mesh[i], epoch, KEY, (uint32_t)i + 1, both, 2, NULL), 0);
}

static void open_on_demand(void)
{
    open_meshes();
    enter_on_demand(0, 5);
    enter_on_demand(1, 5);
}

/* Connections whose peer is known. */
static size_t connections(int i)
{
    size_t n = 0;

    pthread_mutex_lock(&mesh[i]->lock);
    for (size_t k = 0; k < mesh[i]->n_peer; k++)
        n += mesh[i]->peer[k]->id && mesh[i]->peer[k]->link.fd >= 0;
    pthread_mutex_unlock(&mesh[i]->lock);
    return n;
}

static void send_to_other(int from, uint64_t tag)
{
    ck_assert_int_eq(spot_mesh_send(mesh[from], (uint32_t)(2 - from), DATA, tag, "five", 5, NULL),
                     0);
}

static void receive(int to, uint64_t tag)
{
    struct spot_frame *const f = spot_mesh_recv(mesh[to], (uint32_t)(2 - to), DATA, tag, NULL);

    ck_assert_ptr_nonnull(f);
    ck_assert_mem_eq(f->data, "five", 5);
    free(f);
}

START_TEST(whoever_sends_first_connects_and_both_use_that_connection)
{
    for (int from = 0; from < 2; from++) {
        open_on_demand();
        ck_assert_uint_eq(connections(0) + connections(1), 0);
        send_to_other(from, 1);
        receive(!from, 1);
        send_to_other(!from, 2);
        receive(from, 2);
        ck_assert_uint_eq(connections(0), 1);
        ck_assert_uint_eq(connections(1), 1);
        for (uint32_t epoch = 6; epoch < 8; epoch++) { /* it stays */
            enter_on_demand(0, epoch);
            enter_on_demand(1, epoch);
            send_to_other(!from, epoch);
            receive(from, epoch);
        }
        ck_assert_uint_eq(connections(0) + connections(1), 2);
        close_meshes();
    }
}
END_TEST

static void *talk(void *number)
{
    const int i = *(const int *)number;

    for (uint64_t tag = 0; tag < 50; tag++)
        send_to_other(i, tag);
    for (uint64_t tag = 0; tag < 50; tag++)
        receive(i, tag);
    return NULL;
}

static void both_talk(void)
{
    static const int number[2] = { 0, 1 };
    pthread_t thread[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, talk, (void *)(uintptr_t)&number[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
}

START_TEST(both_connect_at_once_and_one_connection_is_left)
{
    static const unsigned char key[SPOT_TLS_KEY_BYTE] = "0123456789abcdef0123456789abcde";

    for (int round = 0; round < 200; round++) {
        tls = round % 10 == 9 ? spot_tls_context_new(key, NULL) : NULL;
        open_on_demand();
        both_talk();
        ck_assert_uint_eq(connections(0), 1);
        ck_assert_uint_eq(connections(1), 1);
        close_meshes();
        spot_tls_context_free(tls);
    }
    tls = NULL;
}
END_TEST

static struct spot_frame *next_frame(struct spot_link *link)
{
    struct spot_frame_list in = { NULL, NULL };

    while (!in.head) {
        poll(&(struct pollfd){ .fd = link->fd, .events = POLLIN }, 1, 60000);
        ck_assert_int_eq(spot_link_read(link, &in, NULL), 0);
    }
    ck_assert_ptr_null(in.head->next);
    return in.head;
}

static void expect(struct spot_link *link, uint32_t type, uint64_t tag)
{
    struct spot_frame *const f = next_frame(link);

    ck_assert_uint_eq(f->type, type);
    if (type != OFFER) /* whose tag is the key */
        ck_assert_uint_eq(f->tag, tag);
    free(f);
}

/* The peer of mesh `me`, played by the test: it listens, is offered a connection, and offers one
 * itself before it has answered. */
struct crossing {
    int me, fd;
    struct spot_link theirs, ours;
    pthread_t thread;
};

static void *send_one(void *number)
{
    send_to_other(*(const int *)number, 1);
    return NULL;
}

static void cross(struct crossing *c)
{
    const uint8_t to[SPOT_MESH_ID_BYTE] = { (uint8_t)(c->me + 1) };
    struct spot_mesh_peer both[2];
    struct spot_endpoint e;

    open_meshes();
    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &e, NULL), 0);
    c->fd = spot_endpoint_listen(&e, NULL);
    memcpy(both, peer, sizeof(both));
    both[0].on_demand = both[1].on_demand = true;
    spot_endpoint_print(&e, both[!c->me].address);
    ck_assert_int_eq(spot_mesh_enter(mesh[c->me], 5, KEY, peer[c->me].id, both, 2, NULL), 0);
    pthread_create(&c->thread, NULL, send_one, &c->me);
    poll(&(struct pollfd){ .fd = c->fd, .events = POLLIN }, 1, 60000);
    spot_link_init(&c->theirs, spot_endpoint_accept(c->fd), 1 << 20);
    expect(&c->theirs, OFFER, 0);
    ck_assert_int_eq(spot_endpoint_parse(peer[c->me].address, &e, NULL), 0);
    spot_link_init(&c->ours, spot_endpoint_connect(&e, NULL), 1 << 20);
    c->ours.is_stranger = true; /* reads one frame at a time */
    ck_assert_int_eq(spot_link_send(&c->ours, OFFER, peer[!c->me].id, KEY, to, sizeof(to), NULL),
                     0);
}

static void end_crossing(struct crossing *c)
{
    pthread_join(c->thread, NULL);
    ck_assert_uint_eq(connections(c->me), 1);
    spot_link_release(&c->theirs);
    spot_link_release(&c->ours);
    close(c->fd);
    close_meshes();
}

START_TEST(of_two_offers_that_cross_the_younger_declines_that_of_the_elder)
{
    struct crossing c = { .me = 1 };

    cross(&c);
    expect(&c.ours, PONG, 1);
    ck_assert_int_eq(spot_link_send(&c.theirs, PONG, 1, 0, NULL, 0, NULL), 0);
    expect(&c.theirs, DATA, 1);
    end_crossing(&c);
}
END_TEST

/* Whether its own offer was declined before or not. */
START_TEST(of_two_offers_that_cross_the_elder_accepts_that_of_the_younger)
{
    for (int declines = 0; declines < 2; declines++) {
        struct spot_frame_list in = { NULL, NULL };
        struct crossing c = { .me = 0 };
        struct spot_frame *f;

        cross(&c);
        if (declines)
            (void)spot_link_send(&c.theirs, PONG, 2, 1, NULL, 0, NULL);
        expect(&c.ours, PONG, 0);
        f = next_frame(&c.ours);
        ck_assert_uint_eq(f->type, DATA);
        free(f);
        while (!spot_link_read(&c.theirs, &in, NULL)) /* it is closed */
            poll(&(struct pollfd){ .fd = c.theirs.fd, .events = POLLIN }, 1, 60000);
        ck_assert_ptr_null(in.head);
        end_crossing(&c);
    }
}
END_TEST

/* Only the younger can reach the other. */
START_TEST(an_elder_that_cannot_connect_waits_for_the_younger)
{
    struct spot_mesh_peer both[2];
    static const int number = 0;
    pthread_t thread;

    open_meshes();
    for (int k = 0; k < 2; k++) {
        both[k] = peer[k];
        both[k].on_demand = true;
    }
    snprintf(both[1].address, sizeof(both[1].address), "127.0.0.1:1");
    ck_assert_int_eq(spot_mesh_enter(mesh[0], 5, KEY, 1, both, 2, NULL), 0);
    enter_on_demand(1, 5);
    pthread_create(&thread, NULL, talk, (void *)(uintptr_t)&number);
    spot_clock_sleep(0.05); /* it has been refused */
    for (uint64_t tag = 0; tag < 50; tag++)
        send_to_other(1, tag);
    for (uint64_t tag = 0; tag < 50; tag++)
        receive(1, tag);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(connections(0), 1);
    close_meshes();
}
END_TEST

/* What the younger waits for is not sent, as the elder cannot connect: it does. */
START_TEST(who_has_waited_for_long_connects_to_see_whether_the_peer_answers)
{
    struct spot_mesh_peer both[2];
    pthread_t thread;

    for (int waits = 0; waits < 2; waits++) {
        open_meshes();
        for (int k = 0; k < 2; k++) {
            both[k] = peer[k];
            both[k].on_demand = true;
        }
        ck_assert_int_eq(spot_mesh_enter(mesh[0], 5, KEY, 1, both, 2, NULL), 0);
        ck_assert_int_eq(spot_mesh_enter(mesh[1], 5, KEY, 2, both, 2, NULL), 0);
        spot_mesh_lease(mesh[waits], 0.4);
        pthread_create(&thread, NULL, talk, (void *)(uintptr_t) & (const int){ !waits });
        spot_clock_sleep(1); /* more than the lease */
        for (uint64_t tag = 0; tag < 50; tag++)
            receive(waits, tag);
        for (uint64_t tag = 0; tag < 50; tag++)
            send_to_other(waits, tag);
        pthread_join(thread, NULL);
        close_meshes();
    }
}
END_TEST

/* A younger peer that cannot reach the other accuses it at once. */
START_TEST(a_younger_one_that_cannot_connect_reports_the_peer)
{
    struct spot_mesh_suspect suspect[2];
    struct spot_mesh_peer both[2];
    struct spot_err err = { 0 };

    open_meshes();
    for (int k = 0; k < 2; k++) {
        both[k] = peer[k];
        both[k].on_demand = true;
    }
    snprintf(both[0].address, sizeof(both[0].address), "127.0.0.1:1");
    ck_assert_int_eq(spot_mesh_enter(mesh[1], 5, KEY, 2, both, 2, NULL), 0);
    ck_assert_int_eq(spot_mesh_send(mesh[1], 1, DATA, 1, "x", 1, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_uint_eq(spot_mesh_suspects(mesh[1], suspect, 2), 1);
    ck_assert_uint_eq(suspect[0].id, 1);
    ck_assert(!suspect[0].has_answered);
    close_meshes();
}
END_TEST

/* The listener of a process that is stopped accepts, and nobody answers. */
START_TEST(a_silent_peer_is_given_up_after_the_lease)
{
    struct spot_mesh_suspect suspect[2];
    struct spot_mesh_peer silent[2];
    struct spot_err err = { 0 };
    struct spot_endpoint e;
    int fd;

    for (int from = 0; from < 2; from++)
        for (int sends = 0; sends < 2; sends++) {
            open_meshes();
            ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &e, NULL), 0);
            fd = spot_endpoint_listen(&e, NULL);
            memcpy(silent, peer, sizeof(silent));
            silent[0].on_demand = silent[1].on_demand = true;
            spot_endpoint_print(&e, silent[!from].address);
            ck_assert_int_eq(spot_mesh_enter(mesh[from], 5, KEY, peer[from].id, silent, 2, NULL),
                             0);
            spot_mesh_lease(mesh[from], 0.2);
            if (sends)
                ck_assert_int_eq(spot_mesh_send(mesh[from], peer[!from].id, DATA, 1, "x", 1, &err),
                                 -1);
            else
                ck_assert_ptr_null(spot_mesh_recv(mesh[from], peer[!from].id, DATA, 1, &err));
            ck_assert_int_eq(err.code, SPOT_ESYS);
            ck_assert_uint_eq(spot_mesh_suspects(mesh[from], suspect, 2), 1);
            ck_assert_uint_eq(suspect[0].id, peer[!from].id);
            ck_assert(!suspect[0].has_answered);
            close(fd);
            close_meshes();
        }
}
END_TEST

START_TEST(a_peer_that_dies_and_an_epoch_that_ends_are_noticed)
{
    static const char *const what[] = { "close", "revoke", "orphan" };
    static const enum spot_code code[] = { SPOT_ESYS, SPOT_EPREEMPTED, SPOT_ESYS };

    for (int k = 0; k < 3; k++)
        for (int is_connected = k == 0; is_connected < 2; is_connected++) {
            struct spot_err err = { 0 };
            pthread_t thread;

            open_on_demand();
            if (is_connected) {
                send_to_other(0, 1);
                receive(1, 1);
            }
            pthread_create(&thread, NULL, later, (void *)(uintptr_t)what[k]);
            ck_assert_ptr_null(spot_mesh_recv(mesh[0], 2, DATA, 9, &err));
            ck_assert_int_eq(err.code, code[k]);
            pthread_join(thread, NULL);
            close_meshes();
        }
}
END_TEST

/* It may have been sent before the one that there is was accepted. */
START_TEST(an_offer_beside_a_connection_is_declined)
{
    const uint8_t to[SPOT_MESH_ID_BYTE] = { 1 };
    struct spot_frame_list in = { NULL, NULL };
    struct spot_endpoint e;
    struct spot_link again;
    struct spot_frame *f;

    open_on_demand();
    both_talk();
    ck_assert_int_eq(spot_endpoint_parse(peer[0].address, &e, NULL), 0);
    spot_link_init(&again, spot_endpoint_connect(&e, NULL), 1 << 20);
    ck_assert_int_eq(spot_link_send(&again, OFFER, 2, KEY, to, sizeof(to), NULL), 0);
    while (!in.head) {
        poll(&(struct pollfd){ .fd = again.fd, .events = POLLIN }, 1, 60000);
        ck_assert_int_eq(spot_link_read(&again, &in, NULL), 0);
    }
    f = spot_frame_pop(&in);
    ck_assert_uint_eq(f->type, PONG);
    ck_assert_uint_eq(f->tag, 1);
    free(f);
    both_talk();
    ck_assert_uint_eq(connections(0), 1);
    spot_link_release(&again);
    close_meshes();
}
END_TEST

int main(void)
{
    return run_suite("mesh_demand", add_tests(tcase_create("core")));
}

/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/mesh.h"
#include "comm/mesh_state.h"
#include "comm/probe.h"
#include "common/clock.h"
#include "mesh_rig.h"

/* Goal: every wait of a worker ends. Meshes of one process and a coordinator played by the test:
 * a revoked epoch wakes who waits, a dead peer and a dead coordinator are errors, frames of an
 * older epoch are dropped and those of a newer one are kept, a peer without the key is nobody. */

static size_t inbox_of(struct spot_mesh *m)
{
    size_t n = 0;

    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->n_peer; i++)
        for (const struct spot_frame *f = m->peer[i]->inbox.head; f; f = f->next)
            n++;
    pthread_mutex_unlock(&m->lock);
    return n;
}

/* The knock is there by then, and has been read. */
static void *own_later(void *what)
{
    while (!inbox_of(mesh[0]))
        spot_clock_sleep(0.005);
    spot_mesh_own(mesh[0], KEY, 1);
    return what;
}

static enum spot_code wait_while(const char *what)
{
    struct spot_err err = { 0 };
    pthread_t thread;

    pthread_create(&thread, NULL, later, (void *)(uintptr_t)what);
    ck_assert_ptr_null(spot_mesh_recv(mesh[0], 2, DATA, 1, &err));
    pthread_join(thread, NULL);
    return err.code;
}

START_TEST(frames_go_both_ways_whoever_connected)
{
    open_meshes();
    enter(0, 5);
    enter(1, 5);
    for (int i = 0; i < 2; i++) {
        struct spot_frame *f;

        ck_assert_int_eq(spot_mesh_send(mesh[i], (uint32_t)(2 - i), DATA, 7, "seven", 5, NULL), 0);
        ck_assert_int_eq(spot_mesh_send(mesh[i], (uint32_t)(2 - i), DATA, 8, "eight", 5, NULL), 0);
        f = spot_mesh_recv(mesh[!i], (uint32_t)i + 1, DATA, 8, NULL); /* by tag, not by order */
        ck_assert_mem_eq(f->data, "eight", 5);
        free(f);
        f = spot_mesh_recv(mesh[!i], (uint32_t)i + 1, DATA, 7, NULL);
        ck_assert_mem_eq(f->data, "seven", 5);
        free(f);
    }
    close_meshes();
}
END_TEST

START_TEST(a_revoked_epoch_wakes_who_waits_and_the_order_is_read)
{
    struct spot_frame *f;

    open_meshes();
    enter(0, 5);
    enter(1, 5);
    ck_assert_int_eq(wait_while("revoke"), SPOT_EPREEMPTED);
    ck_assert_int_eq(spot_mesh_send(mesh[0], 2, DATA, 1, "x", 1, NULL), -1);
    f = spot_mesh_order(mesh[0], 5, NULL);
    ck_assert_uint_eq(f->type, REVOKE);
    free(f);
    enter(0, 9); /* and the new epoch works */
    enter(1, 9);
    ck_assert_int_eq(spot_mesh_send(mesh[0], 2, DATA, 1, "x", 1, NULL), 0);
    f = spot_mesh_recv(mesh[1], 1, DATA, 1, NULL);
    ck_assert_ptr_nonnull(f);
    free(f);
    close_meshes();
}
END_TEST

START_TEST(a_dead_peer_and_a_dead_coordinator_are_errors)
{
    static const char *const what[] = { "close", "orphan" };

    for (int k = 0; k < 2; k++) {
        struct spot_frame *f;

        open_meshes();
        enter(0, 5);
        enter(1, 5);
        ck_assert_int_eq(spot_mesh_send(mesh[1], 1, DATA, 3, "last words", 10, NULL), 0);
        f = spot_mesh_recv(mesh[0], 2, DATA, 3, NULL); /* they are connected now */
        ck_assert_ptr_nonnull(f);
        free(f);
        ck_assert_int_eq(wait_while(what[k]), SPOT_ESYS);
        ck_assert(spot_mesh_is_orphan(mesh[0]) == (k == 1));
        close_meshes();
    }
}
END_TEST

/* Both are in epochs of their own, without each other. */
START_TEST(a_worker_of_another_epoch_is_sent_to_and_not_suspected)
{
    struct spot_mesh_suspect suspect[2];
    struct spot_frame *f;

    for (int from = 0; from < 2; from++) { /* the elder to the younger, and back */
        open_meshes();
        ck_assert_int_eq(spot_mesh_enter(mesh[0], 5, KEY, 1, NULL, 0, NULL), 0);
        ck_assert_int_eq(spot_mesh_enter(mesh[1], 6, KEY, 2, NULL, 0, NULL), 0);
        ck_assert(!spot_mesh_wait(mesh[!from], peer[from].id, DATA, 1, 0));
        for (uint64_t tag = 1; tag < 3; tag++)
            ck_assert_int_eq(spot_mesh_send_abroad(mesh[from], &peer[!from], from ? 5 : 6, DATA,
                                                   tag, "page", 4, NULL),
                             0);
        ck_assert(spot_mesh_wait(mesh[!from], peer[from].id, DATA, 2, 20));
        f = spot_mesh_recv(mesh[!from], peer[from].id, DATA, 1, NULL);
        ck_assert_mem_eq(f->data, "page", 4);
        free(f);
        spot_mesh_close(mesh[from]); /* whoever waits for more is told */
        mesh[from] = NULL;
        ck_assert(spot_mesh_wait(mesh[!from], peer[from].id, DATA, 3, 20));
        ck_assert_ptr_null(spot_mesh_recv(mesh[!from], peer[from].id, DATA, 3, NULL));
        ck_assert_uint_eq(spot_mesh_suspects(mesh[!from], suspect, 2), 0);
        close_meshes();
    }
}
END_TEST

/* Both connect at once: neither connection takes the place of the other. */
START_TEST(two_workers_of_different_epochs_send_to_each_other_at_once)
{
    for (int round = 0; round < 20; round++) {
        open_meshes();
        ck_assert_int_eq(spot_mesh_enter(mesh[0], 5, KEY, 1, NULL, 0, NULL), 0);
        ck_assert_int_eq(spot_mesh_enter(mesh[1], 6, KEY, 2, NULL, 0, NULL), 0);
        for (uint64_t tag = 0; tag < 8; tag++)
            for (int from = 0; from < 2; from++)
                ck_assert_int_eq(spot_mesh_send_abroad(mesh[from], &peer[!from], from ? 5 : 6, DATA,
                                                       tag, "page", 4, NULL),
                                 0);
        for (int to = 0; to < 2; to++) {
            ck_assert(spot_mesh_wait(mesh[to], peer[!to].id, DATA, 7, 20));
            for (uint64_t tag = 0; tag < 8; tag++)
                ck_assert(spot_mesh_has(mesh[to], peer[!to].id, DATA, tag));
            spot_mesh_discard(mesh[to], DATA, 0, 7);
            ck_assert(!spot_mesh_has(mesh[to], peer[!to].id, DATA, 6));
            ck_assert(spot_mesh_has(mesh[to], peer[!to].id, DATA, 7));
        }
        close_meshes();
    }
}
END_TEST

static void wait_for_inbox(size_t n)
{
    const double until_s = spot_clock_s() + 60;

    while (inbox_of(mesh[0]) != n) {
        ck_assert_double_lt(spot_clock_s(), until_s);
        spot_clock_sleep(1e-3);
    }
}

START_TEST(older_frames_are_dropped_and_newer_ones_wait)
{
    struct spot_frame *f;

    open_meshes();
    enter(0, 5);
    enter(1, 5);
    ck_assert_int_eq(spot_mesh_send(mesh[1], 1, DATA, 1, "old", 3, NULL), 0);
    ck_assert_int_eq(spot_mesh_send(mesh[1], 1, DATA, 2, "old", 3, NULL), 0);
    f = spot_mesh_recv(mesh[0], 2, DATA, 2, NULL);
    free(f);
    enter(1, 6); /* first to enter: what it sends is early */
    ck_assert_int_eq(spot_mesh_send(mesh[1], 1, DATA, 1, "new", 3, NULL), 0);
    wait_for_inbox(1 + 1); /* and tag 1 of epoch 5, which nobody asked for */
    enter(0, 6);
    f = spot_mesh_recv(mesh[0], 2, DATA, 1, NULL);
    ck_assert_mem_eq(f->data, "new", 3);
    free(f);
    close_meshes();
}
END_TEST

/* Whatever nobody took goes with its epoch, whether it waits by then or comes later. */
START_TEST(frames_of_epochs_that_are_over_do_not_pile_up)
{
    open_meshes();
    for (uint32_t epoch = 5; epoch < 15; epoch++) {
        enter(0, epoch);
        enter(1, epoch);
        ck_assert_int_eq(spot_mesh_send(mesh[1], 1, DATA, 1, "untaken", 7, NULL), 0);
        wait_for_inbox(1);
    }
    enter(0, 15);
    ck_assert_uint_eq(inbox_of(mesh[0]), 0);
    ck_assert_int_eq(spot_mesh_send(mesh[1], 1, DATA, 2, "late", 4, NULL), 0);
    enter(1, 15);
    ck_assert_int_eq(spot_mesh_send(mesh[1], 1, DATA, 3, "now", 3, NULL), 0);
    free(spot_mesh_recv(mesh[0], 2, DATA, 3, NULL));
    ck_assert_uint_eq(inbox_of(mesh[0]), 0);
    close_meshes();
}
END_TEST

/* A child of the test: many connections that say nothing. Ends with 0 once one of them was closed
 * from the other side. */
static void be_many_strangers(const char *address)
{
    enum { MANY = 60 };
    const double until_s = spot_clock_s() + 60;
    struct pollfd set[MANY];
    struct spot_endpoint e;

    if (spot_endpoint_parse(address, &e, NULL))
        leave(2);
    for (int i = 0; i < MANY; i++)
        set[i] = (struct pollfd){ .fd = spot_endpoint_connect(&e, NULL), .events = POLLIN };
    while (spot_clock_s() < until_s)
        if (poll(set, MANY, 100) > 0)
            leave(0);
    leave(1);
}

START_TEST(strangers_make_room_when_descriptors_run_out)
{
    struct rlimit before, few;
    int status;
    pid_t child;

    open_meshes();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 32;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0); /* before the first of them comes */
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        setrlimit(RLIMIT_NOFILE, &before);
        be_many_strangers(peer[0].address);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    enter(0, 5);
    close_meshes();
}
END_TEST

START_TEST(a_stranger_without_the_key_takes_nobodys_place)
{
    struct spot_frame_list in = { NULL, NULL };
    struct spot_endpoint e;
    struct spot_link liar;
    struct spot_frame *f;
    double until_s;

    open_meshes();
    enter(0, 5);
    enter(1, 5);
    ck_assert_int_eq(spot_endpoint_parse(peer[0].address, &e, NULL), 0);
    spot_link_init(&liar, spot_endpoint_connect(&e, NULL), 1 << 20);
    ck_assert_int_eq(spot_link_send(&liar, HELLO, 2, KEY + 1, NULL, 0, NULL), 0);
    (void)spot_link_send(&liar, DATA, 5, 1, "lie", 3, NULL);
    for (until_s = spot_clock_s() + 60; !spot_link_read(&liar, &in, NULL);) { /* shown the door */
        ck_assert_double_lt(spot_clock_s(), until_s);
        spot_clock_sleep(0.01);
    }
    ck_assert_int_eq(spot_mesh_send(mesh[1], 1, DATA, 1, "yes", 3, NULL), 0);
    f = spot_mesh_recv(mesh[0], 2, DATA, 1, NULL);
    ck_assert_mem_eq(f->data, "yes", 3);
    free(f);
    spot_link_release(&liar);
    close_meshes();
}
END_TEST

/* The job's secret is of no use to who has not the key of the connection, nor is a name. */
START_TEST(with_a_key_frames_go_both_ways_and_a_keyless_stranger_is_nobody)
{
    static const unsigned char key[SPOT_TLS_KEY_BYTE] = "0123456789abcdef0123456789abcde";
    struct spot_frame_list in = { NULL, NULL };
    struct spot_err err = { 0 };
    struct spot_endpoint e;
    struct spot_link liar;

    tls = spot_tls_context_new(key, NULL);
    open_meshes();
    enter(0, 5);
    enter(1, 5);
    for (int i = 0; i < 2; i++) {
        struct spot_frame *f;

        ck_assert_int_eq(spot_mesh_send(mesh[i], (uint32_t)(2 - i), DATA, 7, "seven", 5, NULL), 0);
        f = spot_mesh_recv(mesh[!i], (uint32_t)i + 1, DATA, 7, NULL);
        ck_assert_mem_eq(f->data, "seven", 5);
        free(f);
    }
    ck_assert_int_eq(spot_endpoint_parse(peer[0].address, &e, NULL), 0);
    spot_link_init(&liar, spot_endpoint_connect(&e, NULL), 1 << 20);
    ck_assert_int_eq(spot_link_send(&liar, HELLO, 2, KEY, NULL, 0, NULL), 0);
    while (!spot_link_read(&liar, &in, &err))
        poll(&(struct pollfd){ .fd = liar.fd, .events = POLLIN }, 1, 60000);
    ck_assert_ptr_null(in.head);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE); /* an alert, and the end */
    spot_link_release(&liar);
    close_meshes();
    spot_tls_context_free(tls);
    tls = NULL;
}
END_TEST

START_TEST(a_hello_that_is_long_or_comes_with_more_is_read_with_care)
{
    static const size_t n_byte[] = { 65, 1 << 22 };

    open_meshes();
    enter(0, 5);
    for (int k = 0; k < 2; k++) {
        struct spot_frame_list in = { NULL, NULL };
        struct spot_endpoint e;
        struct spot_link liar;
        uint8_t *data = calloc(1, n_byte[k]);

        ck_assert_int_eq(spot_endpoint_parse(peer[0].address, &e, NULL), 0);
        spot_link_init(&liar, spot_endpoint_connect(&e, NULL), 1 << 20);
        (void)spot_link_send(&liar, HELLO, 2, KEY, data, n_byte[k], NULL);
        while (!spot_link_read(&liar, &in, NULL)) /* shown the door */
            poll(&(struct pollfd){ .fd = liar.fd, .events = POLLIN }, 1, 60000);
        spot_link_release(&liar);
        free(data);
    }
    close_meshes();
}
END_TEST

/* A peer that was let in, and hears without a word. */
static struct spot_link be_a_silent_peer(uint32_t id)
{
    const uint8_t to[SPOT_MESH_ID_BYTE] = { 1 };
    struct spot_endpoint e;
    struct spot_link link;

    ck_assert_int_eq(spot_endpoint_parse(peer[0].address, &e, NULL), 0);
    spot_link_init(&link, spot_endpoint_connect(&e, NULL), 1 << 20);
    ck_assert_int_eq(spot_link_send(&link, HELLO, id, KEY, to, sizeof(to), NULL), 0);
    return link;
}

START_TEST(a_peer_that_answers_no_ping_is_given_up_after_the_lease)
{
    const uint32_t id = 2;
    struct spot_frame_list in = { NULL, NULL };
    struct spot_mesh_suspect suspect[2];
    struct spot_frame *f;
    struct spot_err err = { 0 };
    struct spot_link link;
    int n_ping = 0;

    open_meshes();
    enter(0, 5);
    link = be_a_silent_peer(id);
    ck_assert_int_eq(spot_link_send(&link, DATA, 5, 0, "here", 4, NULL), 0);
    f = spot_mesh_recv(mesh[0], id, DATA, 0, &err); /* its last word */
    ck_assert_ptr_nonnull(f);
    free(f);
    spot_mesh_lease(mesh[0], 0.2);
    ck_assert_int_eq(spot_mesh_check(mesh[0], &id, 1, &err), 0);
    ck_assert_ptr_null(spot_mesh_recv(mesh[0], id, DATA, 1, &err));
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_str_eq(err.msg, "member 2 does not answer");
    ck_assert_int_eq(spot_mesh_check(mesh[0], &id, 1, &err), -1);
    ck_assert_int_eq(spot_mesh_send(mesh[0], id, DATA, 1, "x", 1, &err), -1);
    ck_assert_str_eq(err.msg, "member 2 was lost");
    while (!spot_link_read(&link, &in, NULL)) /* it was closed */
        poll(&(struct pollfd){ .fd = link.fd, .events = POLLIN }, 1, 60000);
    while ((f = spot_frame_pop(&in))) {
        n_ping += f->type == PING;
        free(f);
    }
    ck_assert_int_ge(n_ping, 1);
    ck_assert_uint_eq(spot_mesh_suspects(mesh[0], suspect, 2), 1);
    ck_assert_uint_eq(suspect[0].id, id);
    ck_assert_msg(strstr(suspect[0].why, "no answer for 0.2 s") != NULL, "%s", suspect[0].why);
    spot_link_release(&link);
    close_meshes();
}
END_TEST

/* Whom nobody has seen yet is waited for as long. */
START_TEST(a_peer_that_never_comes_is_given_up_after_the_lease)
{
    struct spot_err err = { 0 };

    open_meshes();
    enter(0, 5);
    spot_mesh_lease(mesh[0], 0.2);
    ck_assert_int_eq(spot_mesh_send(mesh[0], 2, DATA, 1, "x", 1, &err), -1);
    ck_assert_str_eq(err.msg, "member 2 does not answer");
    close_meshes();
}
END_TEST

START_TEST(who_knocks_before_the_key_is_known_is_answered_when_it_is)
{
    const struct spot_probe_config config = {
        .key = KEY, .type_probe = KNOCK, .type_pong = PONG, .limit_s = 20
    };
    struct spot_mesh_suspect found;
    pthread_t thread;

    open_meshes();
    pthread_create(&thread, NULL, own_later, NULL);
    ck_assert_int_eq(spot_probe(&config, 2, &peer[0], 1, &found), 0);
    ck_assert_msg(!found.id, "%s", found.why);
    pthread_join(thread, NULL);
    close_meshes();
}
END_TEST

START_TEST(heartbeats_tell_progress_and_a_notice_is_sent_once)
{
    int n_notice = 0, n_beat = 0;
    uint64_t progress = 0;
    struct spot_frame_list in = { NULL, NULL };

    open_meshes();
    spot_mesh_progress(mesh[0]);
    spot_mesh_progress(mesh[0]);
    pthread_mutex_lock(&mesh[0]->lock); /* the thread is not to come between them */
    spot_mesh_notice(mesh[0], 1500);
    spot_mesh_notice(mesh[0], 1500);
    pthread_mutex_unlock(&mesh[0]->lock);
    while (n_beat < 5) {
        struct spot_frame *f;

        ck_assert_int_eq(poll(&(struct pollfd){ .fd = control[0].fd, .events = POLLIN }, 1, 60000),
                         1);
        ck_assert_int_eq(spot_link_read(&control[0], &in, NULL), 0);
        while ((f = spot_frame_pop(&in))) {
            if (f->type == NOTICE) {
                n_notice++;
                ck_assert_uint_eq(f->tag, 1500);
            }
            n_beat += f->type == BEAT;
            progress = f->type == BEAT ? f->tag : progress;
            free(f);
        }
    }
    ck_assert_int_eq(n_notice, 1);
    ck_assert_uint_eq(progress, 2);
    close_meshes();
}
END_TEST

/* What it said before it died may be a commit: whoever does not hear of it holds an older step. */
START_TEST(the_last_order_of_a_coordinator_that_died_is_heard)
{
    for (int k = 0; k < 100; k++) {
        struct spot_frame *f;

        open_meshes();
        spot_clock_sleep(k % 10 * 1e-3); /* the lease is renewed at other moments */
        ck_assert_int_eq(spot_link_send(&control[0], DATA, 5, 60, NULL, 0, NULL), 0);
        spot_link_release(&control[0]);
        while (!spot_mesh_report(mesh[0], DATA, 5, 60, NULL, 0, NULL))
            ;
        f = spot_mesh_order(mesh[0], 5, NULL);
        ck_assert_msg(f, "round %d", k);
        ck_assert_uint_eq(f->tag, 60);
        free(f);
        ck_assert_ptr_null(spot_mesh_order(mesh[0], 5, NULL));
        close_meshes();
    }
}
END_TEST

static bool is_late(void *until_s)
{
    return spot_clock_s() > *(const double *)until_s;
}

/* One descriptor for questions at a time, and fewer in all than poll() would be asked about at
 * once. */
START_TEST(a_probe_with_few_descriptors_ends_and_tells_who_is_silent)
{
    struct spot_mesh_peer silent[3] = { { .id = 2 }, { .id = 3 }, { .id = 4 } };
    double until_s = spot_clock_s() + 60;
    const struct spot_probe_config config = {
        .key = KEY, .limit_s = 0.05, .is_over = is_late, .user = &until_s
    };
    struct spot_mesh_suspect found[3];
    struct spot_endpoint e;
    struct rlimit few;

    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &e, NULL), 0);
    ck_assert_int_ge(listener = spot_endpoint_listen(&e, NULL), 0);
    for (int i = 0; i < 3; i++)
        spot_endpoint_print(&e, silent[i].address);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &few), 0);
    few.rlim_cur = (rlim_t)listener + 2;
    ck_assert_int_lt((int)few.rlim_cur, 16);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_eq(spot_probe(&config, 1, silent, 3, found), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(found[i].id, silent[i].id);
        ck_assert_ptr_nonnull(strstr(found[i].why, "no answer for 0.05 s"));
    }
    few.rlim_cur = few.rlim_max;
    setrlimit(RLIMIT_NOFILE, &few);
    close(listener);
}
END_TEST

int main(void)
{
    return run_suite("mesh", add_tests(tcase_create("core")));
}

/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "comm/mesh_port.h"
#include "comm/mesh_state.h"
#include "mesh_rig.h"

/* Goal: ports carry streams in both directions without a deadlock and within their queue; one to a
 * member that is gone, or of an epoch that is over, fails; the lease is kept whatever peers do. */

enum { TRAFFIC = 24 << 20, PIECE = 1 << 20, QUEUE = 2 << 20 };

static void fill(unsigned char *to, int from, size_t at, size_t n)
{
    for (size_t k = 0; k < n; k++)
        to[k] = (unsigned char)((at + k) * 31 + (at + k) / 4099 + (size_t)from);
}

/* What may wait for the wire at member i. */
static size_t queued(int i)
{
    size_t n = 0;

    pthread_mutex_lock(&mesh[i]->lock);
    for (size_t k = 0; k < mesh[i]->n_peer; k++)
        n += spot_link_left(&mesh[i]->peer[k]->link);
    pthread_mutex_unlock(&mesh[i]->lock);
    return n;
}

static void write_traffic(int i, struct spot_port *port)
{
    unsigned char *const piece = malloc(PIECE);

    for (size_t at = 0; at < TRAFFIC; at += PIECE) {
        fill(piece, i, at, PIECE);
        ck_assert_int_eq(port->write(port, piece, PIECE, NULL), 0);
        ck_assert_uint_le(queued(i), QUEUE + PIECE);
    }
    free(piece);
}

/* Both write all of it before they read. */
static void *exchange(void *user)
{
    const int i = *(const int *)user;
    struct spot_port *const port = spot_mesh_port(mesh[i], (uint32_t)(2 - i), DATA, 7, QUEUE);
    unsigned char *const piece = malloc(PIECE), *const want = malloc(PIECE);

    write_traffic(i, port);
    for (size_t at = 0, n; at < TRAFFIC; at += n) { /* in pieces of another size */
        n = TRAFFIC - at < 300007 ? TRAFFIC - at : 300007;
        ck_assert_int_eq(spot_port_read_all(port, piece, n, NULL), 0);
        fill(want, !i, at, n);
        ck_assert(!memcmp(piece, want, n));
    }
    ck_assert_int_eq(port->wait(port, 0), 0);
    port->close(port);
    free(piece);
    free(want);
    return NULL;
}

START_TEST(ports_of_two_members_that_write_first_do_not_wait_for_each_other)
{
    static const int number[2] = { 0, 1 };
    pthread_t thread;

    open_meshes();
    enter(0, 5);
    enter(1, 5);
    pthread_create(&thread, NULL, exchange, (void *)(uintptr_t)&number[1]);
    exchange((void *)(uintptr_t)&number[0]);
    pthread_join(thread, NULL);
    close_meshes();
}
END_TEST

/* However much was written into the void before. */
START_TEST(a_port_to_a_member_that_is_gone_or_of_an_epoch_that_is_over_fails)
{
    static const char *const what[] = { "close", "revoke" };
    static const enum spot_code code[] = { SPOT_ESYS, SPOT_EPREEMPTED };
    static unsigned char piece[PIECE];

    for (int k = 0; k < 2; k++) {
        struct spot_err err = { 0 };
        struct spot_port *port;
        pthread_t thread;
        size_t got;

        open_meshes();
        enter(0, 5);
        enter(1, 5);
        port = spot_mesh_port(mesh[0], 2, DATA, 7, QUEUE);
        pthread_create(&thread, NULL, later, (void *)(uintptr_t)what[k]);
        while (!port->write(port, piece, 4096, &err))
            ;
        ck_assert_int_eq(err.code, code[k]);
        ck_assert_int_eq(port->wait(port, 5), 1); /* a read fails at once, too */
        ck_assert_int_eq(port->read(port, piece, 1, &got, &err), -1);
        ck_assert_int_eq(err.code, code[k]);
        pthread_join(thread, NULL);
        port->close(port);
        close_meshes();
    }
}
END_TEST

/* A socket that takes no more connections: its listener is stopped. Returns its descriptor. */
static int be_full(struct spot_mesh_peer *elder, int waiting[2])
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/spot-full-%d", (int)getpid());
    snprintf(elder->address, sizeof(elder->address), "unix:%s", at.sun_path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(listen(fd, 0), 0);
    for (int i = 0; i < 2; i++) {
        waiting[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        fcntl(waiting[i], F_SETFL, O_NONBLOCK);
        (void)connect(waiting[i], (struct sockaddr *)&at, sizeof(at));
    }
    return fd;
}

static atomic_bool has_entered;

static void *enter_stuck(void *elder)
{
    (void)spot_mesh_enter(mesh[1], 5, KEY, 2, elder, 1, NULL);
    atomic_store(&has_entered, true);
    return NULL;
}

START_TEST(the_lease_is_kept_while_a_peer_takes_no_connections)
{
    struct spot_mesh_peer elder = { .id = 1 };
    struct spot_frame_list in = { NULL, NULL };
    struct spot_frame *f;
    int waiting[2], n_beat = 0, fd;
    pthread_t thread;

    open_meshes();
    fd = be_full(&elder, waiting);
    pthread_create(&thread, NULL, enter_stuck, &elder);
    while (n_beat < 10) {
        poll(&(struct pollfd){ .fd = control[1].fd, .events = POLLIN }, 1, 20000);
        ck_assert_int_eq(spot_link_read(&control[1], &in, NULL), 0);
        while ((f = spot_frame_pop(&in))) {
            n_beat += f->type == BEAT;
            free(f);
        }
    }
    ck_assert(!atomic_load(&has_entered));
    close(fd); /* nobody waits for it any more */
    unlink(elder.address + strlen("unix:"));
    for (int i = 0; i < 2; i++)
        close(waiting[i]);
    pthread_join(thread, NULL);
    close_meshes();
}
END_TEST

int main(void)
{
    return run_suite("mesh_port", add_tests(tcase_create("core")));
}

/* SPDX-License-Identifier: MIT */
/* mesh_rig.h - two meshes of one process and a coordinator that the test plays. */
#ifndef SPOT_TESTS_MESH_RIG_H
#define SPOT_TESTS_MESH_RIG_H

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/mesh.h"
#include "common/clock.h"
#include "suite.h"

enum { BEAT = 1, NOTICE, REVOKE, HELLO, DATA, PONG, KNOCK, PING, OFFER, KEY = 4711 };

static int listener, n_open;
static struct spot_link control[2];
static struct spot_mesh *mesh[2];
static struct spot_mesh_peer peer[2];
static struct spot_tls_context *tls; /* NULL: in the clear */

/* Two meshes dial in over loopback: sockets by process id would be one and the same here. */
static inline void open_meshes(void)
{
    char join[SPOT_ADDRESS_MAX + 8];
    struct spot_endpoint e;

    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &e, NULL), 0);
    listener = spot_endpoint_listen(&e, NULL);
    ck_assert_int_ge(listener, 0);
    spot_endpoint_print(&e, join);
    for (n_open = 0; n_open < 2; n_open++) {
        const struct spot_mesh_config config = { .join = join,
                                                 .tls = tls,
                                                 .payload_max = 1 << 24,
                                                 .heartbeat_s = 0.05,
                                                 .type_heartbeat = BEAT,
                                                 .type_notice = NOTICE,
                                                 .type_revoke = REVOKE,
                                                 .type_ping = PING,
                                                 .type_pong = PONG,
                                                 .type_hello = HELLO,
                                                 .type_offer = OFFER,
                                                 .type_probe = KNOCK };

        mesh[n_open] = spot_mesh_open(&config, NULL);
        ck_assert_ptr_nonnull(mesh[n_open]);
        poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, 60000);
        spot_link_init(&control[n_open], spot_endpoint_accept(listener), 1 << 20);
        ck_assert_int_eq(spot_link_secure(&control[n_open], tls, true, NULL), 0);
        peer[n_open].id = (uint32_t)n_open + 1;
        snprintf(peer[n_open].address, sizeof(peer[n_open].address), "%s",
                 spot_mesh_address(mesh[n_open]));
    }
}

static inline void close_meshes(void)
{
    for (int i = 0; i < 2; i++) {
        spot_mesh_close(mesh[i]);
        spot_link_release(&control[i]);
    }
    close(listener);
}

static inline void enter(int i, uint32_t epoch)
{
    ck_assert_int_eq(spot_mesh_enter(mesh[i], epoch, KEY, (uint32_t)i + 1, peer, 2, NULL), 0);
}

/* In a moment, while the test waits: revoke, or lose the coordinator, or close mesh 1. */
static inline void *later(void *what)
{
    spot_clock_sleep(0.1);
    if (!strcmp(what, "revoke")) {
        ck_assert_int_eq(spot_link_send(&control[0], REVOKE, 9, 0, NULL, 0, NULL), 0);
    } else if (!strcmp(what, "orphan")) {
        spot_link_release(&control[0]);
    } else {
        spot_mesh_close(mesh[1]);
        mesh[1] = NULL;
    }
    return NULL;
}

#endif /* SPOT_TESTS_MESH_RIG_H */

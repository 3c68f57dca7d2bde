/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "train/trainer_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUNDLES = 4, MICROBATCHES = 8 };

/* Goal: no hello, inventory, vote, plan or complaint from the wire crashes a coordinator, and what
 * it takes over makes sense. The first byte says which. */

static void hush(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void hush(const char *fmt, ...)
{
    (void)fmt;
}

static const struct spot_coordinator_options options = { .lease_s = 1, .warn = hush };

static void check_member(const struct spot_coord_peer *peer)
{
    if (!memchr(peer->name, '\0', sizeof(peer->name)) ||
        !memchr(peer->address, '\0', sizeof(peer->address)) ||
        !memchr(peer->domain, '\0', sizeof(peer->domain)))
        abort();
    for (int b = 0; b < BUNDLES; b++)
        if (peer->held[b] < -1)
            abort();
}

static void say(struct spot_coord *c, struct spot_coord_peer *peer, uint32_t type,
                const uint8_t *data, size_t size)
{
    struct spot_frame *frame = spot_frame_new(type, 0, 0, size);

    if (size)
        memcpy(frame->data, data, size);
    (void)spot_coord_message(c, peer, frame, NULL);
    free(frame);
}

static void play(struct spot_coord *c, struct spot_coord_peer *peer, const uint8_t *data,
                 size_t size)
{
    struct spot_wire_in in = spot_wire_in(data + 1, size - 1);

    switch (data[0] % 5) {
    case 0:
        say(c, peer, SPOT_MSG_HELLO, data + 1, size - 1);
        if (peer->id)
            check_member(peer);
        break;
    case 1:
        peer->held = calloc(BUNDLES, sizeof(*peer->held));
        if (!spot_coord_inventory(c, peer, &in))
            check_member(peer);
        break;
    case 2:
        peer->id = 1;
        (void)spot_coord_vote(c, 1, &in, NULL);
        break;
    case 3:
        say(c, peer, size % 2 ? SPOT_MSG_REPLAN : SPOT_MSG_REPLAN_FORCE, data + 1, size - 1);
        break;
    default:
        peer->id = 1;
        say(c, peer, SPOT_MSG_FAILED, data + 1, size - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_coord c = { .options = &options,
                            .config.kernel = "portable",
                            .n_bundle = BUNDLES,
                            .n_microbatch = MICROBATCHES,
                            .job = UINT64_C(0x3030303030303030) };
    struct spot_coord_peer *peer = calloc(1, sizeof(*peer));
    struct spot_coord_vote vote[BUNDLES] = { { 0 } };
    double loss[MICROBATCHES];
    int fd[2];

    if (!size || size > 1 << 15 || !peer || socketpair(AF_UNIX, SOCK_STREAM, 0, fd)) {
        free(peer);
        return 0;
    }
    (void)fcntl(fd[0], F_SETFL, O_NONBLOCK);
    spot_link_init(&peer->link, fd[0], SPOT_HELLO_MAX);
    spot_machine_init(&c.machine, SPOT_ROUNDS_LOCKSTEP, &c.last_epoch, 0);
    c.peer = &peer;
    c.n_peer = 1;
    c.vote = vote;
    c.loss = loss;
    play(&c, peer, data, size);
    spot_link_release(&peer->link);
    close(fd[1]);
    free(peer->held);
    free(peer);
    spot_machine_release(&c.machine);
    return 0;
}

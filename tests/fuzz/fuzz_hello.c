/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/group_state.h"
#include "train/trainer_member_state.h"
#include "train/trainer_place_state.h"
#include "train/trainer_step_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUNDLES = 4, MICROBATCHES = 8 };

/* Goal: no hello, report, vote, plan or complaint from the wire crashes a coordinator, and what it
 * takes over makes sense. The first byte says which. */

static void hush(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void hush(const char *fmt, ...)
{
    (void)fmt;
}

static const struct spot_trainer_options options = { .warn = hush };
static const struct spot_group_options group_options = { .lease_s = 1, .warn = hush };

static void idle(void *job, struct spot_view *view)
{
    (void)job, (void)view;
}

static int layout(void *job, struct spot_view *view, struct spot_err *err)
{
    (void)job, (void)err;
    spot_view_hold(view);
    return 0;
}

static const struct spot_workload training = {
    .accept = spot_trainer_accept,
    .welcome = spot_trainer_welcome,
    .report = spot_trainer_report,
    .forget = spot_trainer_forget,
    .message = spot_trainer_message,
    .plan = spot_trainer_plan,
    .layout = layout,
    .idle = idle,
};

static void check_member(const struct spot_peer *peer)
{
    const struct spot_trainer_member *const who = peer->data;

    if (!memchr(peer->name, '\0', sizeof(peer->name)) ||
        !memchr(peer->domain, '\0', sizeof(peer->domain)))
        abort();
    for (int b = 0; b < BUNDLES; b++)
        if (who->held[b] < -1)
            abort();
}

static void say(struct spot_group *g, struct spot_peer *peer, uint32_t type, uint64_t tag,
                const uint8_t *data, size_t size)
{
    struct spot_frame *frame = spot_frame_new(type, 0, tag, size);

    if (size)
        memcpy(frame->data, data, size);
    (void)spot_group_message(g, peer, frame, NULL);
    free(frame);
}

static void join(struct spot_peer *peer, struct spot_view *view)
{
    struct spot_trainer_member *const who = calloc(1, sizeof(*who));

    who->held = calloc(BUNDLES, sizeof(*who->held));
    who->peer = peer;
    peer->data = who;
    peer->id = 1;
    peer->view = view;
    spot_machine_join(&view->machine, 1);
}

static void play(struct spot_trainer *c, struct spot_peer *peer, const uint8_t *data, size_t size)
{
    struct spot_wire_in in = spot_wire_in(data + 1, size - 1);
    struct spot_group *const g = c->group;

    switch (data[0] % 5) {
    case 0:
        say(g, peer, SPOT_MSG_HELLO, 0, data + 1, size - 1);
        if (peer->id)
            check_member(peer);
        break;
    case 1:
        join(peer, c->view);
        if (!spot_trainer_report(c, peer, &in))
            check_member(peer);
        break;
    case 2:
        join(peer, c->view);
        (void)spot_trainer_take_vote(c, c->view, peer, 0, &in, NULL);
        break;
    case 3:
        say(g, peer, size % 2 ? SPOT_MSG_REPLAN : SPOT_MSG_REPLAN_FORCE, 0, data + 1, size - 1);
        break;
    default:
        join(peer, c->view);
        say(g, peer, SPOT_MSG_FAILED, size % 2, data + 1, size - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_trainer_vote vote[BUNDLES] = { { 0 } };
    uint32_t saver[BUNDLES] = { 0 };
    double loss[MICROBATCHES];
    struct spot_trainer c = { .options = &options,
                              .config.kernel = "portable",
                              .n_bundle = BUNDLES,
                              .n_microbatch = MICROBATCHES,
                              .vote = vote,
                              .saver = { .asked = saver, .n_bundle = BUNDLES },
                              .loss = loss,
                              .job = UINT64_C(0x3030303030303030) };
    struct spot_peer *peer;
    int fd[2];

    if (!size || size > 1 << 15 || socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
        return 0;
    c.group = spot_group_new(&group_options, &training, &c, NULL);
    c.view = spot_group_add_view(c.group, 0);
    c.machine = spot_view_machine(c.view);
    peer = calloc(1, sizeof(*peer));
    peer->group = c.group;
    (void)fcntl(fd[0], F_SETFL, O_NONBLOCK);
    spot_link_init(&peer->link, fd[0], SPOT_HELLO_MAX);
    c.group->peer = calloc(1, sizeof(struct spot_peer *));
    c.group->peer[0] = peer;
    c.group->n_peer = 1;
    play(&c, peer, data, size);
    close(fd[1]);
    spot_group_free(c.group);
    return 0;
}

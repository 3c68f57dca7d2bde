/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/group_state.h"
#include "cluster/protocol.h"
#include "common/utf8.h"
#include "common/version.h"
#include "host/exec_job_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: whatever nodes say in whatever order, what they hold, commit and find included, crashes no
 * coordinator; a round begins with what is whole, and with nothing that is doubted while there is
 * something else. Steps of a play: the first byte says what, the others how. */

enum { NODES = 3, STEPS_MAX = 200 };

static double now_s;

double spot_clock_s(void)
{
    return now_s;
}

double spot_clock_cpu_s(void)
{
    return now_s;
}

void spot_clock_sleep(double duration_s)
{
    now_s += duration_s;
}

static void hush(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void hush(const char *fmt, ...)
{
    (void)fmt;
}

static const struct spot_exec_options options = {
    .group = { .lease_s = 1, .warn = hush, .resume = true },
    .hash = 1,
    .n_rank = 1,
    .n_min = 1,
    .n_max = 2,
    .max_restarts = 9,
    .note = hush,
    .hands_out = true,
    .finish_s = 1,
    .save_s = 1,
};

static struct spot_exec_job job;
static struct spot_err err;
static int other[NODES]; /* ends of links */

struct play {
    const uint8_t *at, *end;
};

static uint8_t take(struct play *p)
{
    return p->at < p->end ? *p->at++ : 0;
}

static struct spot_peer *peer_of(uint8_t byte)
{
    return job.group->n_peer ? job.group->peer[byte % job.group->n_peer] : NULL;
}

/* --- what nodes say --------------------------------------------------------------------------- */

static struct spot_state_id id_of(struct play *p)
{
    const uint8_t byte = take(p);

    return (struct spot_state_id){ byte >> 6,
                                   byte & 32 && job.states.has_key ? job.states.key : byte >> 4 & 1,
                                   byte & 7 };
}

static void put_held(struct spot_buf *out, struct play *p)
{
    const uint8_t byte = take(p);
    struct spot_exec_held held = { .restart_count = byte & 3,
                                   .group_world = 1 + (byte >> 2 & 1),
                                   .state = (byte >> 3) % SPOT_EXEC_STATES,
                                   .key = byte & 128 ? job.states.key : byte >> 6 };

    held.group_rank = byte & 64 ? held.group_world - 1 : 0;
    strcpy(held.run_id, byte & 32 ? job.run_id : "");
    spot_exec_put_held(out, &held);
}

static void put_holdings(struct spot_buf *out, struct play *p)
{
    struct spot_exec_holding of[4] = { { "" } };
    struct spot_exec_holdings all = { of, take(p) % 5, 4 };

    for (size_t i = 0; i < all.n; i++) {
        const uint8_t byte = take(p);

        strcpy(of[i].run_id, byte & 1 ? job.run_id : "");
        of[i].id = id_of(p);
        of[i].world = 1 + (byte >> 1 & 1);
        of[i].place = of[i].world - 1;
        of[i].saved.at_ns = byte >> 2;
        strcpy(of[i].saved.what, "ckpt");
    }
    spot_exec_put_holdings(out, &all);
}

static void say(struct spot_peer *peer, uint32_t type, uint64_t tag, const struct spot_buf *out)
{
    struct spot_frame *const frame =
        spot_frame_new(type, spot_view_machine(job.view)->epoch, tag, out->n);

    if (out->n)
        memcpy(frame->data, out->data, out->n);
    (void)spot_group_message(job.group, peer, frame, &err);
    free(frame);
}

static void join(struct spot_peer *peer, struct play *p)
{
    struct spot_buf out = { 0 };
    char name[8] = "node?";

    name[4] = (char)('a' + take(p) % NODES);
    spot_put_u32(&out, SPOT_PROTOCOL);
    spot_put_text(&out, spot_version());
    spot_put_text(&out, name);
    spot_put_text(&out, "unix:/nowhere");
    spot_put_text(&out, "");
    spot_put_u64(&out, 0);
    spot_put_text(&out, SPOT_EXEC_NAME);
    spot_put_u64(&out, options.hash);
    spot_put_u32(&out, options.n_rank);
    put_held(&out, p);
    put_holdings(&out, p);
    say(peer, SPOT_MSG_HELLO, 0, &out);
    peer->is_proved = peer->id > 0;
    spot_buf_release(&out);
}

static void report(struct spot_peer *peer, struct play *p)
{
    struct spot_buf out = { 0 };

    put_held(&out, p);
    put_holdings(&out, p);
    spot_put_u32(&out, 0);
    say(peer, SPOT_MSG_REPORT, 0, &out);
    spot_buf_release(&out);
}

static void took(struct spot_peer *peer, struct play *p)
{
    const struct spot_state_id id = { job.restart_count, job.states.key, take(p) };
    const struct spot_state_saved saved = { take(p), "ckpt" };
    struct spot_buf out = { 0 };

    spot_state_id_put(&out, &id);
    spot_put_u64(&out, 1);
    spot_put_text(&out, saved.at_ns % 7 ? "" : "no room");
    spot_put_u8(&out, (uint8_t)(saved.at_ns % SPOT_EXEC_SCOPES));
    spot_state_saved_put(&out, &saved);
    say(peer, SPOT_MSG_EXEC_TOOK, 0, &out);
    spot_buf_release(&out);
}

static void ended(struct spot_peer *peer, struct play *p)
{
    struct spot_buf out = { 0 };

    spot_put_u32(&out, 0);
    spot_put_u32(&out, take(p));
    spot_put_text(&out, "");
    say(peer, SPOT_MSG_EXEC_ENDED, 0, &out);
    spot_buf_release(&out);
}

/* Of any content. */
static void anything(struct spot_peer *peer, struct play *p)
{
    static const uint32_t type[] = {
        SPOT_MSG_READY,       SPOT_MSG_VOTE,        SPOT_MSG_EXEC_DONE,  SPOT_MSG_EXEC_ENDED,
        SPOT_MSG_EXEC_SAVED,  SPOT_MSG_EXEC_WARM,   SPOT_MSG_EXEC_TOOK,  SPOT_MSG_EXEC_MOVED,
        SPOT_MSG_EXEC_OFFER,  SPOT_MSG_EXEC_PACE,   SPOT_MSG_EXEC_LAID,  SPOT_MSG_EXEC_LEDGER,
        SPOT_MSG_EXEC_RECORD, SPOT_MSG_EXEC_PIECES, SPOT_MSG_EXEC_FETCH, SPOT_MSG_REPORT,
    };
    const uint32_t which = type[take(p) % (sizeof(type) / sizeof(*type))];
    const uint64_t tag = take(p);
    struct spot_buf out = { 0 };
    size_t n = take(p);

    n = n < (size_t)(p->end - p->at) ? n : (size_t)(p->end - p->at);
    spot_buf_add(&out, p->at, n);
    p->at += n;
    say(peer, which, tag, &out);
    spot_buf_release(&out);
}

/* --- what happens ----------------------------------------------------------------------------- */

static void begin(void)
{
    if (job.view->machine.phase == SPOT_PHASE_WAIT && spot_view_may_start(job.view))
        (void)spot_view_act(job.view, spot_machine_start(&job.view->machine), &err);
}

static void connect_peer(size_t i)
{
    struct spot_peer *const peer = calloc(1, sizeof(*peer));
    int fd[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
        abort();
    (void)fcntl(fd[0], F_SETFL, O_NONBLOCK);
    other[i] = fd[1];
    peer->group = job.group;
    peer->since_s = peer->received_s = now_s;
    spot_link_init(&peer->link, fd[0], SPOT_HELLO_MAX);
    job.group->peer[job.group->n_peer++] = peer;
}

static void play(struct play *p)
{
    const uint8_t op = take(p);
    struct spot_peer *const peer = peer_of(op >> 4);

    if (!peer)
        return;
    switch (op % 9) {
    case 0:
        if (!peer->id)
            join(peer, p);
        break;
    case 1:
        report(peer, p);
        break;
    case 2:
        took(peer, p);
        break;
    case 3:
        ended(peer, p);
        break;
    case 4:
        begin();
        break;
    case 5:
        now_s += 0.1 * take(p);
        (void)spot_exec_tick(&job, &err);
        break;
    case 6:
        if (job.group->n_peer > 1)
            (void)spot_group_lose_peer(job.group, (size_t)(op >> 4) % job.group->n_peer, "", &err);
        break;
    default:
        anything(peer, p);
    }
}

static bool is_doubted(const struct spot_state_id *id)
{
    for (size_t i = 0; i < job.states.n_doubted; i++)
        if (!spot_state_id_compare(&job.states.doubted[i], id))
            return true;
    return false;
}

static void check(void)
{
    const struct spot_exec_states *const s = &job.states;

    if (s->n_doubted > SPOT_EXEC_DOUBTED_MAX || (s->newest.is_set && !s->newest.world) ||
        (s->newest.is_set && is_doubted(&s->newest.id)) || !spot_utf8_is_plain(job.why) ||
        !spot_utf8_is_plain(s->newest.saved.what) || (job.group_world && !job.is_done))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct play p = { data, data + size };

    if (size > 2000)
        return 0;
    now_s = 1;
    job = (struct spot_exec_job){
        .options = &options, .disk.lock_fd = -1, .run_id = "r", .states.writer = UINT32_MAX
    };
    job.group = spot_group_new(&options.group, &spot_exec_workload, &job, &err);
    if (!job.group)
        abort();
    job.view = spot_group_add_view(job.group, 0);
    job.group->peer = calloc(NODES, sizeof(struct spot_peer *));
    job.group->cap_peer = NODES;
    for (size_t i = 0; i < NODES; i++)
        connect_peer(i);
    for (int i = 0; i < STEPS_MAX && p.at < p.end; i++) {
        play(&p);
        check();
    }
    spot_exec_drop_orders(&job);
    spot_exec_disk_close(&job);
    spot_group_free(job.group);
    free(job.states.order);
    free(job.is_done);
    for (size_t i = 0; i < NODES; i++)
        close(other[i]);
    return 0;
}

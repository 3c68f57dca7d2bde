/* SPDX-License-Identifier: MIT */
/* clang-format off */
/* proxy.c - a bad network between one worker, its coordinator and its peers.
 *
 *   proxy LISTEN JOB PEERS COMMANDS
 *
 * The worker joins at LISTEN and is passed on to JOB; its hello is changed so that its peers come
 * to PEERS. The oldest member of a job is connected to by all others, so all that it says and hears
 * passes here. Commands come line by line from the FIFO COMMANDS; each is echoed when it is done:
 *
 *   cut WHAT        close connections; WHAT is control, data or all
 *   hold WHAT DIR   keep what goes in DIR, in, out or both, seen from the worker; bytes are not lost
 *   release         let go what was kept, in order
 *   delay MS        everything takes so long
 *   trap TYPE N     hold all at the N-th frame of this message type from now on, and say "trapped"
 *   again           join once more with the hello of before; nobody is behind that connection
 *   zombie          say everything of older epochs again: to the job on the connection that lives and
 *                   on a new one, to the peers and to the worker
 */
/* clang-format on */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/link.h"
#include "comm/wire.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "train/train_protocol.h"

enum { PAIRS_MAX = 64, KEPT_MAX = 4096, KEPT_BYTE_MAX = 1 << 16 };
enum { WORKER, WORLD }; /* the sides of a pair: what comes from 0 goes out */

struct late { /* a frame on its way */
    struct late *next;
    double due_s;
    struct spot_frame *frame;
};

struct pair {
    bool is_control, is_ghost; /* ghost: replayed, nobody is on the worker's side */
    bool is_over[2];           /* that side has hung up */
    struct spot_link side[2];
    struct late *head[2], *tail[2]; /* by the side it came from */
};

static struct pair pair[PAIRS_MAX];
static int n_pair;
static bool held[2][2]; /* [is_control][side it came from] */
static double delay_s;
static uint32_t trap_type;
static int trap_in; /* frames until the trap; 0: none is set */
static const char *job, *peers;
static char worker[SPOT_ADDRESS_MAX + 8]; /* its own address for peers */
static struct kept {
    struct spot_frame *frame;
    bool is_control;
    int from;
} kept[KEPT_MAX];
static size_t n_kept;
static uint32_t epoch; /* newest that was seen */

static int dial(const char *address)
{
    struct spot_endpoint e;

    return spot_endpoint_parse(address, &e, NULL) ? -1 : spot_endpoint_connect(&e, NULL);
}

static int listen_at(const char *address)
{
    struct spot_endpoint e;
    struct spot_err err = { 0 };
    const int fd = spot_endpoint_parse(address, &e, &err) ? -1 : spot_endpoint_listen(&e, &err);

    if (fd < 0) {
        fprintf(stderr, "proxy: %s\n", err.msg);
        exit(1);
    }
    return fd;
}

static int send_on(struct spot_link *link, struct spot_frame *frame_take)
{
    spot_frame_push(&link->sending, frame_take);
    return spot_link_flush(link, NULL);
}

static struct spot_frame *copy(const struct spot_frame *frame)
{
    struct spot_frame *f = spot_frame_new(frame->type, frame->epoch, frame->tag, frame->n_byte);

    memcpy(f->data, frame->data, frame->n_byte);
    return f;
}

static struct pair *open_pair(int from_worker, int from_world, bool is_control)
{
    struct pair *p = &pair[n_pair];

    if (n_pair == PAIRS_MAX || from_world < 0) {
        if (from_worker >= 0)
            close(from_worker);
        if (from_world >= 0)
            close(from_world);
        return NULL;
    }
    memset(p, 0, sizeof(*p));
    p->is_control = is_control;
    p->is_ghost = from_worker < 0;
    spot_link_init(&p->side[WORKER], from_worker, SPOT_PAYLOAD_MAX);
    spot_link_init(&p->side[WORLD], from_world, SPOT_PAYLOAD_MAX);
    n_pair++;
    return p;
}

static void drop_pair(int i)
{
    for (int k = 0; k < 2; k++) {
        spot_link_release(&pair[i].side[k]);
        while (pair[i].head[k]) {
            struct late *l = pair[i].head[k];

            pair[i].head[k] = l->next;
            free(l->frame);
            free(l);
        }
    }
    pair[i] = pair[--n_pair];
}

/* The hello with our address for peers in place of the worker's, which is remembered. */
static struct spot_frame *rewrite_hello(struct spot_frame *hello_take)
{
    struct spot_wire_in in = spot_wire_in(hello_take->data, hello_take->n_byte);
    char version[SPOT_VERSION_MAX], name[SPOT_NAME_MAX];
    struct spot_buf out = { 0 };
    struct spot_frame *hello;

    spot_put_u32(&out, spot_get_u32(&in));
    spot_get_text(&in, version, sizeof(version));
    spot_get_text(&in, name, sizeof(name));
    spot_get_text(&in, worker, sizeof(worker));
    spot_put_text(&out, version);
    spot_put_text(&out, name);
    spot_put_text(&out, peers);
    spot_buf_add(&out, in.at, (size_t)(in.end - in.at));
    hello = spot_frame_new(hello_take->type, hello_take->epoch, hello_take->tag, out.n);
    memcpy(hello->data, out.data, out.n);
    spot_buf_release(&out);
    free(hello_take);
    return hello;
}

static void take_in(struct pair *p, int from, struct spot_frame *frame)
{
    struct late *l = spot_xcalloc(1, sizeof(*l));

    if (frame->type == SPOT_MSG_HELLO)
        frame = rewrite_hello(frame);
    if (frame->type == SPOT_MSG_FORM && frame->epoch > epoch)
        epoch = frame->epoch;
    if (n_kept < KEPT_MAX && frame->n_byte <= KEPT_BYTE_MAX && frame->type != SPOT_MSG_HEARTBEAT)
        kept[n_kept++] =
            (struct kept){ .frame = copy(frame), .is_control = p->is_control, .from = from };
    if (trap_in && frame->type == trap_type && --trap_in == 0) {
        memset(held, true, sizeof(held));
        printf("trapped\n");
        fflush(stdout);
    }
    *l = (struct late){ .due_s = spot_clock_s() + delay_s, .frame = frame };
    if (p->tail[from] && p->head[from])
        p->tail[from]->next = l;
    else
        p->head[from] = l;
    p->tail[from] = l;
}

/* What may go on, goes on. */
static int let_go(struct pair *p)
{
    for (int from = 0; from < 2; from++)
        while (p->head[from] && !held[p->is_control][from] &&
               p->head[from]->due_s <= spot_clock_s()) {
            struct late *l = p->head[from];
            int rc = 0;

            p->head[from] = l->next;
            if (p->is_ghost && from == WORLD)
                free(l->frame); /* nobody hears the answer */
            else
                rc = send_on(&p->side[!from], l->frame);
            free(l);
            if (rc)
                return -1;
        }
    return 0;
}

/* Returns -1 when one side has hung up and all it said is delivered. */
static int serve(struct pair *p)
{
    for (int k = 0; k < 2; k++) {
        struct spot_frame_list in = { NULL, NULL };
        struct spot_frame *frame;

        if (p->side[k].fd >= 0 && !p->is_over[k])
            p->is_over[k] =
                spot_link_flush(&p->side[k], NULL) || spot_link_read(&p->side[k], &in, NULL);
        while ((frame = spot_frame_pop(&in)))
            take_in(p, k, frame);
    }
    if (let_go(p))
        return -1;
    /* an end is told like any other byte: not while the direction is held */
    return (p->is_over[0] || p->is_over[1]) && !held[p->is_control][WORKER] &&
                   !held[p->is_control][WORLD]
               ? -1
               : 0;
}

static void play_old(struct pair *p)
{
    for (size_t i = 0; i < n_kept; i++) {
        const struct kept *k = &kept[i];
        const bool is_old = k->frame->epoch < epoch && k->frame->type != SPOT_MSG_HELLO &&
                            k->frame->type != SPOT_MSG_WELCOME && k->frame->type != SPOT_MSG_PEER &&
                            k->frame->type != SPOT_MSG_NOTICE && k->frame->type != SPOT_MSG_LEAVE &&
                            k->frame->type != SPOT_MSG_FINISH && k->frame->epoch > 0;

        if (is_old && k->is_control == p->is_control && k->from == WORKER)
            (void)send_on(&p->side[WORLD], copy(k->frame));
        if (is_old && k->is_control == p->is_control && k->from == WORLD && !k->is_control &&
            !p->is_ghost)
            (void)send_on(&p->side[WORKER], copy(k->frame));
    }
}

/* A new connection to the job that begins with the hello of before. */
static struct pair *join_again(void)
{
    struct pair *p = open_pair(-1, dial(job), true);

    for (size_t i = 0; p && i < n_kept; i++)
        if (kept[i].frame->type == SPOT_MSG_HELLO) {
            (void)send_on(&p->side[WORLD], copy(kept[i].frame));
            break;
        }
    return p;
}

static void hold(const char *what, const char *direction)
{
    for (int control = 0; control < 2; control++)
        if (!strcmp(what, "all") || control == !strcmp(what, "control")) {
            held[control][WORKER] |= strcmp(direction, "in") != 0;
            held[control][WORLD] |= strcmp(direction, "out") != 0;
        }
}

static void obey(const char *line)
{
    char word[3][32] = { "", "", "" };

    (void)sscanf(line, "%31s %31s %31s", word[0], word[1], word[2]);
    if (!strcmp(word[0], "cut")) {
        for (int i = n_pair; i-- > 0;)
            if (!strcmp(word[1], "all") || pair[i].is_control == !strcmp(word[1], "control"))
                drop_pair(i);
    } else if (!strcmp(word[0], "hold")) {
        hold(word[1], word[2]);
    } else if (!strcmp(word[0], "release")) {
        memset(held, 0, sizeof(held));
    } else if (!strcmp(word[0], "trap")) {
        trap_type = (uint32_t)atoi(word[1]);
        trap_in = atoi(word[2]);
    } else if (!strcmp(word[0], "delay")) {
        delay_s = atof(word[1]) * 1e-3;
    } else if (!strcmp(word[0], "again")) {
        (void)join_again();
    } else if (!strcmp(word[0], "zombie")) {
        const int n = n_pair;
        struct pair *ghost = join_again();

        if (ghost)
            play_old(ghost);
        for (int i = 0; i < n; i++)
            play_old(&pair[i]);
    }
    printf("%s\n", line);
    fflush(stdout);
}

static void read_commands(int fd)
{
    static char text[4096];
    static size_t n;
    ssize_t got;
    char *end;

    while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0) {
        n += (size_t)got;
        text[n] = '\0';
        while ((end = strchr(text, '\n'))) {
            *end = '\0';
            obey(text);
            n -= (size_t)(end + 1 - text);
            memmove(text, end + 1, n + 1);
        }
    }
}

int main(int argc, char **argv)
{
    int control, data, commands;

    if (argc != 5) {
        fprintf(stderr, "usage: proxy LISTEN JOB PEERS COMMANDS\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    job = argv[2];
    peers = argv[3];
    control = listen_at(argv[1]);
    data = listen_at(peers);
    commands = open(argv[4], O_RDWR | O_NONBLOCK | O_CLOEXEC); /* both ends: never at its end */
    if (commands < 0) {
        perror(argv[4]);
        return 1;
    }
    for (;;) {
        struct pollfd set[3 + 2 * PAIRS_MAX] = { { .fd = control, .events = POLLIN },
                                                 { .fd = data, .events = POLLIN },
                                                 { .fd = commands, .events = POLLIN } };
        nfds_t n = 3;
        int fd;

        for (int i = 0; i < n_pair; i++)
            for (int k = 0; k < 2; k++)
                if (pair[i].side[k].fd >= 0 && !pair[i].is_over[k])
                    set[n++] = (struct pollfd){ .fd = pair[i].side[k].fd, .events = POLLIN };
        poll(set, n, 2); /* due frames and full sockets are looked after by time */
        read_commands(commands);
        while ((fd = spot_endpoint_accept(control)) >= 0)
            (void)open_pair(fd, dial(job), true);
        while ((fd = spot_endpoint_accept(data)) >= 0) {
            const int there = *worker ? dial(worker) : -1;

            if (there < 0)
                close(fd);
            else
                (void)open_pair(there, fd, false);
        }
        for (int i = n_pair; i-- > 0;)
            if (serve(&pair[i]))
                drop_pair(i);
    }
}

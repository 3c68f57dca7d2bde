/* SPDX-License-Identifier: MIT */
/* move_rig.h - what the tests of moves share: a file, both ends, a port that is cut. */
#ifndef SPOT_TESTS_MOVE_RIG_H
#define SPOT_TESTS_MOVE_RIG_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/fd_port.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "shard/receiver.h"
#include "shard/sender.h"
#include "suite.h"

static char dir[64], target[96], part[96], journal[96];

static inline void set_up(void)
{
    snprintf(dir, sizeof(dir), "%s/spot-move-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(target, sizeof(target), "%s/m", dir);
    snprintf(part, sizeof(part), "%s/m.part", dir);
    snprintf(journal, sizeof(journal), "%s/m.journal", dir);
}

static inline void tear_down(void)
{
    unlink(target);
    unlink(part);
    unlink(journal);
    rmdir(dir);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { CAN_FORK = 0 }; /* a sanitizer's locks do not survive a fork beside other threads */
#else
enum { CAN_FORK = 1 };
#endif

/* --- a file to send --- */

struct file {
    struct spot_buf bytes;
    size_t n_header;
};

static inline void make_file(struct file *f, uint64_t n_float, uint64_t n_half, uint64_t seed)
{
    static char name[3][2] = { "a", "b", "e" };
    const struct spot_st_tensor t[3] = {
        { .name = name[0], .dtype = SPOT_DT_F32, .n_dim = 1, .dim = { n_float } },
        { .name = name[1], .dtype = SPOT_DT_BF16, .n_dim = 1, .dim = { n_half } },
        { .name = name[2], .dtype = SPOT_DT_U8, .n_dim = 1, .dim = { 0 } },
    };
    struct spot_rng rng;
    uint64_t n;

    memset(f, 0, sizeof(*f));
    n = spot_st_write(t, 3, &f->bytes);
    f->n_header = f->bytes.n;
    spot_buf_more(&f->bytes, n);
    spot_rng_init(&rng, seed, 0);
    for (uint64_t i = 0; i < n; i++)
        f->bytes.data[f->bytes.n++] = (unsigned char)spot_rng_next(&rng);
}

static inline int read_file(void *user, uint64_t at, void *data, size_t n_byte,
                            struct spot_err *err)
{
    const struct file *f = user;

    (void)err;
    memcpy(data, f->bytes.data + f->n_header + at, n_byte);
    return 0;
}

static inline struct spot_sender *sender_of(struct file *f, uint32_t chunk_byte, double deadline_s)
{
    const struct spot_sender_options options = { .codec = SPOT_CODEC_AUTO,
                                                 .chunk_byte = chunk_byte,
                                                 .source = "test",
                                                 .silence_s = 2,
                                                 .deadline_s = deadline_s };
    const struct spot_source source = { f->bytes.data, f->n_header, NULL, read_file, f };
    struct spot_err err = { 0 };
    struct spot_sender *o = spot_sender_new(&options, &source, &err);

    ck_assert_msg(o != NULL, "%s", err.msg);
    return o;
}

/* 1 if the target is the file, 0 if there is none; anything else fails the test. */
static inline int target_is(const struct file *f)
{
    FILE *in = fopen(target, "rb");
    unsigned char *bytes;
    size_t n;

    if (!in)
        return 0;
    bytes = malloc(f->bytes.n + 1);
    n = fread(bytes, 1, f->bytes.n + 1, in);
    fclose(in);
    ck_assert_uint_eq(n, f->bytes.n);
    ck_assert_mem_eq(bytes, f->bytes.data, n);
    free(bytes);
    return 1;
}

/* --- a port that is cut --- */

struct cut_port {
    struct spot_port port;
    struct spot_port *inner;
    size_t n_read, n_write; /* may still pass */
    bool is_deadly;         /* the process dies there, as by kill -9 */
};

static inline int cut(struct cut_port *c, struct spot_err *err)
{
    if (c->is_deadly)
        leave(9);
    return spot_err_set(err, SPOT_ESYS, "cut");
}

static inline int cut_read(struct spot_port *port, void *data, size_t n_byte, size_t *got,
                           struct spot_err *err)
{
    struct cut_port *c = (struct cut_port *)port;

    if (!c->n_read)
        return cut(c, err);
    if (c->inner->read(c->inner, data, n_byte < c->n_read ? n_byte : c->n_read, got, err))
        return -1;
    c->n_read -= *got;
    return 0;
}

static inline int cut_write(struct spot_port *port, const void *data, size_t n_byte,
                            struct spot_err *err)
{
    struct cut_port *c = (struct cut_port *)port;
    const size_t n = n_byte < c->n_write ? n_byte : c->n_write;

    if (c->inner->write(c->inner, data, n, err))
        return -1;
    c->n_write -= n;
    return n < n_byte ? cut(c, err) : 0;
}

static inline int cut_wait(struct spot_port *port, double limit_s)
{
    struct cut_port *c = (struct cut_port *)port;

    return c->n_read ? c->inner->wait(c->inner, limit_s) : 1;
}

static inline void cut_close(struct spot_port *port)
{
    struct cut_port *c = (struct cut_port *)port;

    c->inner->close(c->inner);
    free(c);
}

static inline struct spot_port *cut_after(struct spot_port *inner, size_t n_read, size_t n_write,
                                          bool is_deadly)
{
    struct cut_port *c = spot_xcalloc(1, sizeof(*c));

    *c = (struct cut_port){ .port = { cut_read, cut_write, cut_wait, cut_close, 0 },
                            .inner = inner,
                            .n_read = n_read,
                            .n_write = n_write,
                            .is_deadly = is_deadly };
    return &c->port;
}

static inline void make_pair(double limit_s, struct spot_port *end[2])
{
    int fd[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    end[0] = spot_port_fd(fd[0], fd[0], limit_s);
    end[1] = spot_port_fd(fd[1], fd[1], limit_s);
}

/* --- both ends --- */

struct serving {
    struct spot_sender *sender;
    struct spot_port *port;
    struct spot_err err;
    pthread_t thread;
    int rc;
};

static inline void *run_sender(void *user)
{
    struct serving *s = user;

    s->rc = spot_sender_serve(s->sender, s->port, &s->err);
    s->port->close(s->port);
    return NULL;
}

static inline void start_serving(struct serving *s, struct spot_sender *sender,
                                 struct spot_port *port)
{
    memset(s, 0, sizeof(*s));
    s->sender = sender;
    s->port = port;
    ck_assert_int_eq(pthread_create(&s->thread, NULL, run_sender, s), 0);
}

static inline struct spot_receiver *receiver_of(uint64_t sync_byte)
{
    const struct spot_receiver_options options = {
        .path = target, .partial = { .sync_byte = sync_byte, .sync_s = 1000 }, .silence_s = 2
    };

    return spot_receiver_new(&options);
}

/* Until committed, failed or out of ports. Returns whether it is committed. */
static inline bool wait_for(struct spot_receiver *receiver, struct spot_receiver_state *state)
{
    do
        spot_receiver_wait(receiver, 0.5, state);
    while (!state->is_committed && !state->is_fatal && state->n_port);
    return state->is_committed;
}

/* One attempt over one port, the receiver's side limited. */
static inline bool attempt(struct file *f, uint32_t chunk_byte, size_t n_read, size_t n_write,
                           uint64_t *raw_byte)
{
    struct spot_sender *sender = sender_of(f, chunk_byte, 0);
    struct spot_receiver *receiver = receiver_of(1);
    struct spot_receiver_state state;
    struct spot_port *end[2];
    struct serving serving;
    uint64_t wire;
    bool ok;

    make_pair(2, end);
    start_serving(&serving, sender, end[0]);
    ck_assert_int_eq(spot_receiver_add(receiver, cut_after(end[1], n_read, n_write, false), NULL),
                     0);
    ok = wait_for(receiver, &state);
    spot_receiver_free(receiver);
    pthread_join(serving.thread, NULL);
    if (!serving.rc) /* the source may let go only when the file is there */
        ck_assert_int_eq(target_is(f), 1);
    spot_sender_progress(sender, raw_byte, &wire);
    spot_sender_free(sender);
    return ok;
}

#endif /* SPOT_TESTS_MOVE_RIG_H */

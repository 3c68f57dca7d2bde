/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memrchr. NOLINT(bugprone-reserved-identifier) */
#include "common/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/threads.h"
#include "common/xalloc.h"

enum { PIECE_BYTE = 4096 }; /* PIPE_BUF */

struct spot_outlet {
    int fd;
    size_t room_byte;
    bool counts_lost;
    pthread_t thread;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t moved; /* there is more, or less, to write */
    struct spot_buf text; /* [sent, n) is to be written */
    size_t sent;
    uint64_t n_lost, n_reported; /* dropped texts; those already reported to the reader */
    double taken_s;              /* when a byte was last written, or a wait began */
    int error;                   /* errno of a write that failed; 0: none */
    bool is_slow;                /* a wait timed out, and not everything was written since */
    bool is_over;
    bool is_left_alone; /* the thread is blocked in write() and was abandoned */
};

static size_t left(const struct spot_outlet *o)
{
    return o->text.n - o->sent;
}

static void release(struct spot_outlet *o)
{
    if (o->fd >= 0)
        close(o->fd);
    pthread_cond_destroy(&o->moved);
    pthread_mutex_destroy(&o->lock);
    spot_buf_release(&o->text);
    free(o);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Copies the next bytes to be written, whole lines if possible. */
static size_t next_piece(const struct spot_outlet *o, char piece[PIECE_BYTE])
{
    const unsigned char *const from = o->text.data + o->sent;
    size_t n = left(o) < PIECE_BYTE ? left(o) : PIECE_BYTE;

    if (left(o) > PIECE_BYTE) {
        const unsigned char *const end = memrchr(from, '\n', n);

        n = end ? (size_t)(end - from) + 1 : n;
    }
    memcpy(piece, from, n);
    return n;
}

/* Writes a piece. May block forever. */
static ssize_t write_out(int fd, const char *piece, size_t n)
{
    struct pollfd set = { .fd = fd, .events = POLLOUT };
    ssize_t taken;

    while ((taken = write(fd, piece, n)) < 0 && (errno == EAGAIN || errno == EINTR))
        (void)poll(&set, 1, -1); /* another process set O_NONBLOCK */
    return taken;
}

static void take_away(struct spot_outlet *o, size_t n)
{
    o->sent += n;
    o->taken_s = spot_clock_s();
    if (o->sent == o->text.n) {
        o->sent = o->text.n = 0;
        o->is_slow = false;
    }
}

static void *run(void *outlet)
{
    struct spot_outlet *const o = outlet;
    char piece[PIECE_BYTE];
    bool is_left_alone;

    pthread_mutex_lock(&o->lock);
    while (!o->error && !o->is_left_alone) {
        size_t n;
        ssize_t taken;

        while (!left(o) && !o->is_over)
            pthread_cond_wait(&o->moved, &o->lock);
        if (!left(o))
            break;
        n = next_piece(o, piece);
        pthread_mutex_unlock(&o->lock);
        taken = write_out(o->fd, piece, n);
        pthread_mutex_lock(&o->lock);
        if (taken > 0)
            take_away(o, (size_t)taken);
        else
            o->error = taken ? errno : EIO;
        pthread_cond_broadcast(&o->moved);
    }
    is_left_alone = o->is_left_alone;
    pthread_mutex_unlock(&o->lock);
    if (is_left_alone)
        release(o);
    return NULL;
}

/* --- callers --------------------------------------------------------------------------------- */

/* Removes written bytes when they are half of the buffer, so that each byte is moved at most
 * once. */
static void add(struct spot_outlet *o, const char *text, size_t n)
{
    if (o->sent > left(o)) {
        memmove(o->text.data, o->text.data + o->sent, left(o));
        o->text.n = left(o);
        o->sent = 0;
    }
    if (!left(o))
        o->taken_s = spot_clock_s();
    spot_buf_add(&o->text, text, n);
}

/* After a first drop everything is dropped until half of the buffer is free: few gaps, but longer
 * ones. */
static void put(struct spot_outlet *o, const char *text, size_t n)
{
    const size_t room_byte = o->n_lost > o->n_reported ? o->room_byte / 2 : o->room_byte;
    char note[64] = "";
    size_t n_note = 0;

    if (o->counts_lost && o->n_lost > o->n_reported)
        n_note = (size_t)snprintf(note, sizeof(note), "[%llu lines left out]\n",
                                  (unsigned long long)(o->n_lost - o->n_reported));
    if (left(o) + n_note + n > room_byte) {
        o->n_lost++;
        return;
    }
    add(o, note, n_note);
    o->n_reported = o->n_lost;
    add(o, text, n);
    pthread_cond_broadcast(&o->moved);
}

int spot_outlet_put(struct spot_outlet *o, const char *text, size_t n_byte)
{
    int error;

    pthread_mutex_lock(&o->lock);
    error = o->error;
    if (!error && n_byte)
        put(o, text, n_byte);
    pthread_mutex_unlock(&o->lock);
    errno = error;
    return error ? -1 : 0;
}

static void wait_until(struct spot_outlet *o, double until_s)
{
    const struct timespec at = { .tv_sec = (time_t)until_s,
                                 .tv_nsec = (long)(1e9 * (until_s - floor(until_s))) };

    (void)pthread_cond_timedwait(&o->moved, &o->lock, &at);
}

static bool wait_for(struct spot_outlet *o, size_t most_byte, double limit_s)
{
    const double begin_s = spot_clock_s();

    while (!o->error && left(o) > most_byte && !o->is_slow) {
        const double until_s = fmax(begin_s, o->taken_s) + limit_s;

        if (spot_clock_s() >= until_s)
            o->is_slow = true;
        else
            wait_until(o, until_s);
    }
    return !o->error && left(o) <= most_byte;
}

bool spot_outlet_wait(struct spot_outlet *o, size_t most_byte, double limit_s)
{
    bool is_done;

    pthread_mutex_lock(&o->lock);
    is_done = wait_for(o, most_byte, limit_s);
    pthread_mutex_unlock(&o->lock);
    return is_done;
}

uint64_t spot_outlet_lost(struct spot_outlet *o)
{
    uint64_t n;

    pthread_mutex_lock(&o->lock);
    n = o->n_lost;
    pthread_mutex_unlock(&o->lock);
    return n;
}

/* --- create and free ----------------------------------------------------- */

struct spot_outlet *spot_outlet_new(int fd, size_t room_byte, bool counts_lost,
                                    struct spot_err *err)
{
    struct spot_outlet *const o = spot_xcalloc(1, sizeof(*o));
    pthread_condattr_t monotonic;

    o->room_byte = room_byte;
    o->counts_lost = counts_lost;
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&o->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
    o->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (o->fd < 0)
        spot_err_sys(err, "cannot write output");
    else if (!spot_thread_start(&o->thread, run, o, err))
        return o;
    release(o);
    return NULL;
}

size_t spot_outlet_free(struct spot_outlet *o, double limit_s)
{
    bool is_left_alone;
    size_t n;

    if (!o)
        return 0;
    pthread_mutex_lock(&o->lock);
    o->is_slow = false;
    is_left_alone = !wait_for(o, 0, limit_s) && !o->error;
    o->is_left_alone = is_left_alone;
    o->is_over = true;
    n = left(o);
    if (is_left_alone)
        pthread_detach(o->thread); /* the thread frees the outlet when its write returns */
    pthread_cond_broadcast(&o->moved);
    pthread_mutex_unlock(&o->lock);
    if (is_left_alone)
        return n;
    pthread_join(o->thread, NULL);
    release(o);
    return n;
}

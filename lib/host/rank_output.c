/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pipe2. NOLINT(bugprone-reserved-identifier) */
#include "host/rank_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/outlet.h"
#include "common/pio.h"
#include "common/threads.h"
#include "common/xalloc.h"

enum {
    LINE_MAX_BYTE = 4000, /* with its label below PIPE_BUF, so that a write to a pipe is atomic */
    LABEL_MAX = 24,
    READ_BYTE = 4096,    /* limit on a read from one pipe, before the others get their turn */
    ROOM_BYTE = 1 << 18, /* half of it is for a read of empty lines, each with its label */
    PATH_BYTE = 4096
};

static const double patience_s = 1; /* wait for a terminal that accepts nothing */

struct stream {
    int pipe_fd, log_fd; /* -1: closed; no log */
    int terminal;        /* index into spot_rank_output.terminal */
    char label[LABEL_MAX];
    char line[LINE_MAX_BYTE];
    size_t n_byte;
};

struct spot_rank_output {
    struct spot_rank_output_options options;
    struct spot_outlet *terminal[2]; /* NULL: none */
    struct stream *stream;           /* [n_stream] two for each rank */
    size_t n_stream;
    bool has_warned, is_over;
    int wake[2];
    pthread_mutex_t lock;
    pthread_t thread;
};

/* --- the terminal -------------------------------------------------------------- */

/* Wait for room for the next read, for a limited time if nobody reads. Called without the lock,
 * which the start of a round must not wait for. */
static void make_room(const struct spot_rank_output *o, const struct stream *s)
{
    if (o->terminal[s->terminal])
        (void)spot_outlet_wait(o->terminal[s->terminal], ROOM_BYTE / 2, patience_s);
}

static void put_line(struct spot_rank_output *o, struct stream *s)
{
    char text[LABEL_MAX + LINE_MAX_BYTE + 1];
    const size_t n = strlen(s->label);

    memcpy(text, s->label, n);
    memcpy(text + n, s->line, s->n_byte);
    text[n + s->n_byte] = '\n';
    /* fails if nobody reads */
    (void)spot_outlet_put(o->terminal[s->terminal], text, n + s->n_byte + 1);
    s->n_byte = 0;
}

static void put_terminal(struct spot_rank_output *o, struct stream *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '\n')
            s->line[s->n_byte++] = text[i];
        if (text[i] == '\n' || s->n_byte == sizeof(s->line))
            put_line(o, s);
    }
}

/* --- files --------------------------------------------------------------------- */

static void warn_once(struct spot_rank_output *o, const char *what)
{
    if (!o->has_warned && o->options.warn)
        o->options.warn("cannot write the logs of ranks to '%s': %s", what, strerror(errno));
    o->has_warned = true;
}

static void put_file(struct spot_rank_output *o, struct stream *s, const char *text, size_t n)
{
    while (n && s->log_fd >= 0) {
        const ssize_t k = write(s->log_fd, text, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            warn_once(o, o->options.log_dir);
            return;
        }
        text += k;
        n -= (size_t)k;
    }
}

/* Open DIR/ROUND/RANK.out or .err; for the node itself DIR/ROUND/node-RANK, named after its first
 * rank. */
static void open_log(struct spot_rank_output *o, size_t i, uint32_t round, uint32_t rank)
{
    struct stream *const s = &o->stream[i];
    char path[PATH_BYTE];
    const int n =
        snprintf(path, sizeof(path), "%s/%lu/%s%lu.%s", o->options.log_dir, (unsigned long)round,
                 i / 2 == o->options.n ? "node-" : "", (unsigned long)rank, i % 2 ? "err" : "out");

    /* a link or a FIFO that a rank put there is neither followed nor waited for */
    s->log_fd =
        n < (int)sizeof(path)
            ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666)
            : -1;
    if (s->log_fd < 0)
        warn_once(o, path);
}

static void close_log(struct stream *s)
{
    spot_close(s->log_fd);
    s->log_fd = -1;
}

/* Create the directories above; existing ones are no error. */
static void make_above(char *path)
{
    for (char *at = path; (at = strchr(at + 1, '/'));) {
        *at = '\0';
        (void)mkdir(path, 0777);
        *at = '/';
    }
}

int spot_rank_output_make_dir(const char *log_dir, struct spot_err *err)
{
    char path[PATH_BYTE];
    struct stat st;
    int rc;

    if (snprintf(path, sizeof(path), "%s/", log_dir) < (int)sizeof(path))
        make_above(path);
    rc = stat(log_dir, &st);
    if (!rc && !S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        rc = -1;
    }
    return rc || access(log_dir, W_OK | X_OK)
               ? spot_err_sys(err, "cannot write the logs of ranks to '%s'", log_dir)
               : 0;
}

static void make_dirs(struct spot_rank_output *o, uint32_t round)
{
    char path[PATH_BYTE];

    if (snprintf(path, sizeof(path), "%s/%lu/", o->options.log_dir, (unsigned long)round) <
        (int)sizeof(path))
        make_above(path);
}

/* --- pipes --------------------------------------------------------------------- */

/* With the lock: read available output without waiting. Returns false when the other end is
 * closed. */
static bool drain(struct spot_rank_output *o, struct stream *s, int reads)
{
    char text[READ_BYTE];

    while (reads-- > 0) {
        const ssize_t n = read(s->pipe_fd, text, sizeof(text));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        put_file(o, s, text, (size_t)n);
        if (o->terminal[s->terminal])
            put_terminal(o, s, text, (size_t)n);
    }
    return true;
}

/* All writers have ended: read to the end, including a last line without a newline. */
static void finish(struct spot_rank_output *o, struct stream *s)
{
    enum { ALL = 1 << 20 };

    if (s->pipe_fd >= 0)
        (void)drain(o, s, ALL);
    if (s->n_byte)
        put_line(o, s);
    close_log(s);
}

static void read_some(struct spot_rank_output *o, struct stream *s)
{
    make_room(o, s);
    pthread_mutex_lock(&o->lock);
    if (s->pipe_fd >= 0 && !drain(o, s, 1)) {
        close(s->pipe_fd);
        s->pipe_fd = -1;
    }
    pthread_mutex_unlock(&o->lock);
}

static size_t fill(const struct spot_rank_output *o, struct pollfd *set)
{
    for (size_t i = 0; i < o->n_stream; i++)
        set[i] = (struct pollfd){ .fd = o->stream[i].pipe_fd, .events = POLLIN };
    set[o->n_stream] = (struct pollfd){ .fd = o->wake[0], .events = POLLIN };
    return o->n_stream + 1;
}

static void *empty(void *output)
{
    struct spot_rank_output *const o = output;
    struct pollfd *const set = spot_xcalloc(o->n_stream + 1, sizeof(*set));

    pthread_mutex_lock(&o->lock);
    while (!o->is_over) {
        const size_t n = fill(o, set);

        pthread_mutex_unlock(&o->lock);
        if (poll(set, n, -1) < 0)
            memset(set, 0, n * sizeof(*set));
        for (size_t i = 0; i < o->n_stream; i++)
            if (set[i].revents)
                read_some(o, &o->stream[i]);
        pthread_mutex_lock(&o->lock);
    }
    pthread_mutex_unlock(&o->lock);
    free(set);
    return NULL;
}

void spot_rank_output_round(struct spot_rank_output *o, uint32_t round, uint32_t first_rank)
{
    pthread_mutex_lock(&o->lock);
    if (o->options.log_dir)
        make_dirs(o, round);
    for (size_t i = 0; i < o->n_stream; i++) {
        struct stream *const s = &o->stream[i];
        const uint32_t local = (uint32_t)(i / 2), rank = first_rank + local;

        finish(o, s);
        if (local < o->options.n)
            snprintf(s->label, sizeof(s->label), "[%lu] ", (unsigned long)rank);
        else
            snprintf(s->label, sizeof(s->label), "[node] ");
        if (o->options.log_dir)
            open_log(o, i, round, local < o->options.n ? rank : first_rank);
    }
    pthread_mutex_unlock(&o->lock);
}

/* --- create and free ----------------------------------------------------------------- */

static void release(struct spot_rank_output *o)
{
    for (size_t i = 0; i < o->n_stream; i++) {
        close_log(&o->stream[i]);
        spot_close(o->stream[i].pipe_fd);
    }
    for (int i = 0; i < 2; i++) {
        (void)spot_outlet_free(o->terminal[i], patience_s);
        spot_close(o->wake[i]);
    }
    pthread_mutex_destroy(&o->lock);
    free(o->stream);
    free(o);
}

static int open_terminals(struct spot_rank_output *o, struct spot_err *err)
{
    const int fd[2] = { o->options.out_fd, o->options.err_fd };

    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0 && !(o->terminal[i] = spot_outlet_new(fd[i], ROOM_BYTE, true, err)))
            return -1;
    return 0;
}

struct spot_rank_output *spot_rank_output_new(const struct spot_rank_output_options *options,
                                              int (*pipe)[2], struct spot_err *err)
{
    struct spot_rank_output *const o = spot_xcalloc(1, sizeof(*o));

    o->options = *options;
    o->n_stream = 2 * ((size_t)options->n + 1);
    o->stream = spot_xcalloc(o->n_stream, sizeof(*o->stream));
    for (size_t i = 0; i < o->n_stream; i++) {
        o->stream[i].pipe_fd = pipe[i / 2][i % 2];
        o->stream[i].terminal = (int)(i % 2);
        o->stream[i].log_fd = -1;
    }
    o->wake[0] = o->wake[1] = -1;
    pthread_mutex_init(&o->lock, NULL);
    if (pipe2(o->wake, O_CLOEXEC))
        (void)spot_err_sys(err, "cannot make a pipe for what ranks write");
    else if (!open_terminals(o, err) && !spot_thread_start(&o->thread, empty, o, err))
        return o;
    release(o);
    return NULL;
}

void spot_rank_output_free(struct spot_rank_output *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    o->is_over = true;
    (void)!write(o->wake[1], "", 1);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    for (size_t i = 0; i < o->n_stream; i++) {
        make_room(o, &o->stream[i]);
        finish(o, &o->stream[i]);
    }
    release(o);
}

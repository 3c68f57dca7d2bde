/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* F_GETPIPE_SZ. NOLINT(bugprone-reserved-identifier) */
#include "checkpoint/state_command.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/backoff.h"
#include "common/clock.h"
#include "common/spawn.h"
#include "common/utf8.h"
#include "common/xalloc.h"

enum { IN, OUT, WHY, ENDS, READ = 0, WRITE = 1, PIECE_BYTE = 64 << 10, LINE_BYTE = 160 };
enum { TICK_MS = 50, END_MS = 5 }; /* poll interval; the same once the output has ended */

static const double first_pause_s = 0.2; /* before the second try; doubles each time */
static const double kill_s = 1;          /* for a killed process to end */

extern char **environ;

/* One try. */
struct run {
    const struct spot_state_command *command;
    const struct spot_command_io *io;
    pid_t pid, watcher;
    int watched;   /* write end of a pipe; its closing tells the watcher that this process has ended
                    */
    int end[ENDS]; /* our ends of its standard streams; -1: closed */
    struct spot_buf piece;
    size_t sent; /* bytes of it already sent */
    bool has_more;
    char line[LINE_BYTE + SPOT_UTF8_MAX]; /* the last line of its standard error */
    size_t n_line;
    bool has_line;        /* that line has ended */
    double moved_s;       /* when a byte was last moved */
    bool is_ours;         /* the failure is not the command's: no further try */
    struct spot_err *err; /* the error in that case */
};

/* --- start ---------------------------------------------------------------------- */

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Starts a shell with those streams (-1: none). Returns 0 or an errno. */
static int spawn_shell(pid_t *pid, pid_t group, char *const argv[], const int theirs[ENDS])
{
    posix_spawn_file_actions_t action;
    posix_spawnattr_t attribute;
    int rc;

    posix_spawn_file_actions_init(&action);
    for (int i = 0; i < ENDS; i++)
        if (theirs[i] >= 0)
            posix_spawn_file_actions_adddup2(&action, theirs[i], i);
        else
            posix_spawn_file_actions_addopen(&action, i, "/dev/null", O_RDWR, 0);
    posix_spawnattr_init(&attribute);
    spot_spawn_afresh(&attribute, group);
    rc = posix_spawn(pid, "/bin/sh", &action, &attribute, argv, environ);
    posix_spawnattr_destroy(&attribute);
    posix_spawn_file_actions_destroy(&action);
    return rc;
}

/* Start the watcher, the leader of the process group, which kills the group when this process has
 * ended for any reason: it sees the end of a pipe. A line through that pipe means that the command
 * has ended. Returns 0 or an errno. */
static int spawn_watcher(struct run *r)
{
    char sh[] = "sh", flag[] = "-c", script[] = "read -r line || kill -KILL 0";
    char *const argv[] = { sh, flag, script, NULL };
    int fd[2], rc;

    if (spot_endpoint_pipe(fd))
        return errno;
    (void)fcntl(fd[READ], F_SETFL, 0);
    rc = spawn_shell(&r->watcher, 0, argv, (const int[ENDS]){ fd[READ], -1, -1 });
    close_end(&fd[READ]);
    r->watched = fd[WRITE];
    return rc;
}

/* Starts the command. Returns 0 or an errno. */
static int spawn(struct run *r, const char *verb, const char *key, const int theirs[ENDS])
{
    static const char arguments[] = " \"$@\"";
    const size_t n = strlen(r->command->command) + sizeof(arguments);
    char sh[] = "sh", flag[] = "-c", *const script = spot_xcalloc(n, 1);
    char *const v = spot_xstrdup(verb), *const k = spot_xstrdup(key);
    char *const argv[] = { sh, flag, script, sh, v, k, NULL };
    int rc;

    snprintf(script, n, "%s%s", r->command->command, arguments);
    rc = spawn_shell(&r->pid, r->watcher, argv, theirs);
    free(script);
    free(v);
    free(k);
    return rc;
}

/* Create pipes whose ends no other child inherits; our ends are non-blocking. */
static int start(struct run *r, const char *verb, const char *key, struct spot_err *err)
{
    int theirs[ENDS] = { -1, -1, -1 }, rc = 0;

    for (int i = 0; !rc && i < ENDS; i++) {
        int fd[2];

        rc = spot_endpoint_pipe(fd) ? errno : 0;
        if (rc)
            break;
        theirs[i] = fd[i == IN ? READ : WRITE];
        r->end[i] = fd[i == IN ? WRITE : READ];
        (void)fcntl(theirs[i], F_SETFL, 0); /* a program's streams block */
    }
    rc = rc ? rc : spawn_watcher(r);
    rc = rc ? rc : spawn(r, verb, key, theirs);
    for (int i = 0; i < ENDS; i++)
        close_end(&theirs[i]);
    errno = rc;
    return rc ? spot_err_sys(err, "cannot run the state command") : 0;
}

/* --- running ---------------------------------------------------------------- */

/* Write without SIGPIPE: an absent reader is an error of write. */
static ssize_t write_quietly(int fd, const void *data, size_t n)
{
    const struct timespec now = { 0, 0 };
    sigset_t pipe, old, pending;
    ssize_t rc;

    sigpending(&pending);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &old);
    rc = write(fd, data, n);
    if (rc < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE)) {
        sigtimedwait(&pipe, NULL, &now);
        errno = EPIPE;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

/* Send input. If the reader has ended, its exit status gives the reason. */
static void feed(struct run *r)
{
    ssize_t n;

    if (r->sent == r->piece.n && r->has_more) {
        int more;

        r->piece.n = r->sent = 0;
        more = r->io->next(r->io->user, &r->piece, r->err);
        r->is_ours = more < 0;
        r->has_more = more > 0;
    }
    if (r->is_ours || (r->sent == r->piece.n && !r->has_more)) {
        close_end(&r->end[IN]);
        return;
    }
    n = write_quietly(r->end[IN], r->piece.data + r->sent, r->piece.n - r->sent);
    if (n > 0) {
        r->sent += (size_t)n;
        r->moved_s = spot_clock_s();
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        close_end(&r->end[IN]);
    }
}

/* Reads standard output; true if there was something. */
static bool take(struct run *r)
{
    uint8_t piece[PIECE_BYTE];
    const ssize_t n = read(r->end[OUT], piece, sizeof(piece));

    if (n > 0) {
        r->moved_s = spot_clock_s();
        if (r->io->take && r->io->take(r->io->user, piece, (size_t)n, r->err))
            r->is_ours = true;
    } else if (!n || (errno != EAGAIN && errno != EINTR)) {
        close_end(&r->end[OUT]);
    }
    return n > 0 && !r->is_ours;
}

/* Read standard error and keep the beginning of its last line. One read takes all that a pipe
 * holds.
 */
static void receive(struct run *r)
{
    char text[PIECE_BYTE];
    const ssize_t n = read(r->end[WHY], text, sizeof(text));

    if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_end(&r->end[WHY]);
    for (ssize_t i = 0; i < n; i++) {
        if (text[i] == '\n' || text[i] == '\r') {
            r->has_line = true;
            continue;
        }
        if (r->has_line)
            r->n_line = 0;
        r->has_line = false;
        if (r->n_line < sizeof(r->line) - 1)
            r->line[r->n_line++] = text[i] ? text[i] : ' ';
    }
}

/* Transfer data both ways. False if the process is to be killed. */
static bool attend(struct run *r)
{
    struct pollfd fd[ENDS];

    if (r->command->goes_on && !r->command->goes_on(r->command->user)) {
        r->is_ours = true;
        spot_err_set(r->err, SPOT_EPREEMPTED, "the state command was cancelled");
        return false;
    }
    for (int i = 0; i < ENDS; i++)
        fd[i] = (struct pollfd){ .fd = r->end[i], .events = i == IN ? POLLOUT : POLLIN };
    (void)poll(fd, ENDS, r->end[OUT] < 0 ? END_MS : TICK_MS);
    if (fd[IN].revents)
        feed(r);
    if (!r->is_ours && fd[OUT].revents)
        take(r);
    if (fd[WHY].revents)
        receive(r);
    return !r->is_ours && spot_clock_s() - r->moved_s < r->command->limit_s;
}

/* --- the end ------------------------------------------------------------------------ */

static int judge(struct run *r, int status, bool was_killed, const char *verb, const char *key,
                 struct spot_err *err)
{
    char what[96];

    r->line[r->n_line] = '\0';
    r->line[spot_utf8_cut(r->line, LINE_BYTE)] = '\0';
    spot_utf8_make_plain(r->line);
    if (was_killed)
        snprintf(what, sizeof(what), "no byte moved for %g s", r->command->limit_s);
    else if (WIFSIGNALED(status))
        snprintf(what, sizeof(what), "killed by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status))
        snprintf(what, sizeof(what), "status %d", WEXITSTATUS(status));
    else if (r->has_more || r->sent < r->piece.n)
        snprintf(what, sizeof(what), "it ended with status 0 and did not take what it was given");
    else
        return 0;
    return spot_err_set(err, SPOT_ESYS, "state command: %s %s: %s%s%s", verb, key, what,
                        *r->line ? ": " : "", r->line);
}

static void wait_for(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
}

/* A process that hangs in the kernel is not waited for. */
static void kill_all(const struct run *r, int *status)
{
    const double until_s = spot_clock_s() + kill_s;

    kill(-r->watcher, SIGKILL);
    while (!waitpid(r->pid, status, WNOHANG) && spot_clock_s() < until_s)
        spot_clock_sleep(END_MS / 1e3);
}

/* Read what is left in its pipe, but no more: its children may write for ever. */
static void take_rest(struct run *r)
{
    int left = r->end[OUT] < 0 ? 0 : fcntl(r->end[OUT], F_GETPIPE_SZ);

    for (; left > 0 && take(r); left -= PIECE_BYTE)
        ;
}

static void dismiss_watcher(struct run *r)
{
    if (r->watcher)
        (void)write_quietly(r->watched, "\n", 1);
    close_end(&r->watched);
    if (r->watcher)
        wait_for(r->watcher, NULL);
}

/* Wait until the process group has ended or was killed; then read what is left in the pipes. */
static int finish(struct run *r, const char *verb, const char *key, struct spot_err *err)
{
    bool goes_on = true;
    int status = 0;
    pid_t ended;

    while ((ended = waitpid(r->pid, &status, WNOHANG)) == 0 && goes_on)
        goes_on = attend(r);
    if (!goes_on)
        kill_all(r, &status);
    if (goes_on)
        take_rest(r);
    if (r->end[WHY] >= 0)
        receive(r);
    if (goes_on && ended < 0)
        return spot_err_set(err, SPOT_ESYS,
                            "state command: %s %s: no exit status, because SIGCHLD is ignored",
                            verb, key);
    return r->is_ours ? -1 : judge(r, status, !goes_on, verb, key, err);
}

/* Returns 0, 1 if another try may succeed, -1 with *err. */
static int try_once(const struct spot_state_command *command, const char *verb, const char *key,
                    const struct spot_command_io *io, struct spot_err *err)
{
    struct run r = { .command = command,
                     .io = io,
                     .watched = -1,
                     .end = { -1, -1, -1 },
                     .has_more = io->next != NULL,
                     .moved_s = spot_clock_s(),
                     .err = err };
    const struct spot_err before = *err;
    int rc;

    if (io->rewind && io->rewind(io->user, err)) {
        *err = before.code ? before : *err; /* the error of the earlier try */
        return -1;
    }
    rc = start(&r, verb, key, err);
    if (!rc)
        rc = finish(&r, verb, key, err);
    dismiss_watcher(&r);
    for (int i = 0; i < ENDS; i++)
        close_end(&r.end[i]);
    spot_buf_release(&r.piece);
    return rc && !r.is_ours ? 1 : rc;
}

/* Waits before the next try. False if aborted. */
static bool pause_for(const struct spot_state_command *command, double pause_s)
{
    const double until_s = spot_clock_s() + pause_s;

    for (;;) {
        if (command->goes_on && !command->goes_on(command->user))
            return false;
        if (spot_clock_s() >= until_s)
            return true;
        spot_clock_sleep(TICK_MS / 1e3);
    }
}

int spot_state_command_run(const struct spot_state_command *command, const char *verb,
                           const char *key, const struct spot_command_io *io, struct spot_err *err)
{
    static const struct spot_command_io nothing = { .next = NULL };
    struct spot_err why = { 0 };
    int rc = 1;

    for (int i = 0; rc > 0 && i < SPOT_STATE_COMMAND_TRIES; i++) {
        if (!pause_for(command, i ? spot_backoff_s(i, first_pause_s, INFINITY) : 0)) {
            spot_err_set(&why, SPOT_EPREEMPTED, "the state command was cancelled");
            break;
        }
        rc = try_once(command, verb, key, io ? io : &nothing, &why);
    }
    if (rc && err)
        *err = why;
    return rc ? -1 : 0;
}

/* --- small objects, as text -------------------------------------------------------- */

struct text {
    struct spot_buf buf;
    size_t most;
    const char *key;
};

static int rewind_text(void *user, struct spot_err *err)
{
    struct text *const t = user;

    (void)err;
    t->buf.n = 0;
    return 0;
}

static int take_text(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    struct text *const t = user;

    if (n_byte > t->most - t->buf.n)
        return spot_err_set(err, SPOT_EDATA, "state command: '%s' is of more than %zu bytes",
                            t->key, t->most);
    spot_buf_add(&t->buf, data, n_byte);
    return 0;
}

int spot_state_text_get(const struct spot_state_command *command, const char *verb, const char *key,
                        size_t most, struct spot_buf *text, struct spot_err *err)
{
    struct text t = { .most = most, .key = key };
    const struct spot_command_io io = { .rewind = rewind_text, .take = take_text, .user = &t };
    const int rc = spot_state_command_run(command, verb, key, &io, err);

    spot_buf_more(&t.buf, 1)[0] = '\0';
    *text = t.buf;
    if (rc)
        spot_buf_release(text);
    return rc;
}

static int next_text(void *user, struct spot_buf *piece, struct spot_err *err)
{
    const char *const text = user;

    (void)err;
    spot_buf_add(piece, text, strlen(text));
    return 0;
}

int spot_state_text_put(const struct spot_state_command *command, const char *key, const char *text,
                        struct spot_err *err)
{
    char *const copy = spot_xstrdup(text);
    const struct spot_command_io io = { .next = next_text, .user = copy };
    const int rc = spot_state_command_run(command, "put", key, &io, err);

    free(copy);
    return rc;
}

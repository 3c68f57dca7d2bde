/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pipe2. NOLINT(bugprone-reserved-identifier) */
#include "host/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/pio.h"
#include "common/xalloc.h"
#include "host/rank_output.h"
#include "host/ranks_state.h"

struct spot_ranks {
    struct spot_ranks_options options;
    struct spot_rank_output *output;
    pid_t guard;
    int command_fd, event_fd;
    bool has_round;      /* a round was started and is not known to have stopped */
    bool has_twins;      /* there are twins, or there may be */
    bool is_lost;        /* the guard has ended */
    bool is_stuck;       /* a process did not end */
    uint32_t first_rank; /* first rank of the round */
};

static const double stuck_s = 30; /* as long as a process with large memory may take to end */

/* --- talking to the guard --------------------------------------------------------- */

static int lost(struct spot_ranks *r, struct spot_err *err)
{
    r->is_lost = true;
    return spot_err_set(err, SPOT_ESYS, "the guard process has ended, and with it the ranks");
}

static int order(struct spot_ranks *r, const struct spot_rank_command *command,
                 struct spot_err *err)
{
    ssize_t n;

    if (r->is_lost)
        return lost(r, err);
    do
        n = write(r->command_fd, command, sizeof(*command));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*command) ? 0 : lost(r, err);
}

int spot_ranks_start(struct spot_ranks *r, const struct spot_rank_env *env, struct spot_err *err)
{
    const struct spot_rank_command command = { .order = SPOT_RANK_START, .env = *env };

    r->first_rank = env->first_rank;
    spot_rank_output_round(r->output, env->restart_count, env->first_rank);
    r->has_round = r->has_twins = true;
    return order(r, &command, err);
}

int spot_ranks_save(struct spot_ranks *r, struct spot_err *err)
{
    const struct spot_rank_command command = { .order = SPOT_RANK_SAVE };

    return order(r, &command, err);
}

int spot_ranks_stop(struct spot_ranks *r, struct spot_err *err)
{
    const struct spot_rank_command command = { .order = SPOT_RANK_STOP };

    return order(r, &command, err);
}

int spot_ranks_keep_twins(struct spot_ranks *r, struct spot_err *err)
{
    const struct spot_rank_command command = { .order = SPOT_RANK_KEEP_TWINS };

    r->has_twins = true;
    return order(r, &command, err);
}

static int stuck(struct spot_ranks *r, const struct spot_rank_event *event, struct spot_err *err)
{
    char whose[32] = "";

    if (event->local < r->options.n)
        snprintf(whose, sizeof(whose), ", rank %lu,",
                 (unsigned long)(r->first_rank + event->local));
    r->is_stuck = true;
    return spot_err_set(
        err, SPOT_ESYS,
        "process %d%s has not ended %g s after SIGKILL: it waits in the kernel, for "
        "a disk or a device, and this node leaves without it",
        event->status, whose, r->options.stuck_s);
}

int spot_ranks_next(struct spot_ranks *r, double wait_s, struct spot_rank_event *event,
                    struct spot_err *err)
{
    struct pollfd set = { .fd = r->event_fd, .events = POLLIN };
    ssize_t n;

    if (poll(&set, 1, (int)ceil(1e3 * wait_s)) <= 0)
        return 0;
    n = read(r->event_fd, event, sizeof(*event));
    if (n != (ssize_t)sizeof(*event))
        return n < 0 && errno == EINTR ? 0 : lost(r, err);
    if (event->kind == SPOT_RANK_STUCK)
        return stuck(r, event, err);
    if (event->kind == SPOT_RANK_STOPPED)
        r->has_round = false;
    return 1;
}

bool spot_ranks_are_stuck(const struct spot_ranks *r)
{
    return r->is_stuck;
}

int spot_ranks_fd(const struct spot_ranks *r)
{
    return r->event_fd;
}

/* --- all of it --- */

static void close_both(int fd[2])
{
    for (int i = 0; i < 2; i++) {
        spot_close(fd[i]);
        fd[i] = -1;
    }
}

struct pipes {
    int command[2], event[2]; /* read end, write end */
    int (*in)[2], (*out)[2];  /* [n + 1]: read and write ends of output and error */
    uint32_t n;
};

static void release_pipes(struct pipes *p)
{
    for (uint32_t i = 0; i <= p->n; i++)
        close_both(p->out[i]);
    free(p->in);
    free(p->out);
}

static int open_pipes(struct pipes *p)
{
    int rc = pipe2(p->command, O_CLOEXEC) || pipe2(p->event, O_CLOEXEC);

    for (uint32_t i = 0; i < 2 * (p->n + 1); i++) {
        int fd[2] = { -1, -1 };

        rc = rc || pipe2(fd, O_CLOEXEC) || fcntl(fd[0], F_SETFL, O_NONBLOCK);
        p->in[i / 2][i % 2] = fd[0];
        p->out[i / 2][i % 2] = fd[1];
    }
    return rc ? -1 : 0;
}

static _Noreturn void become_guard(const struct spot_ranks *r, const struct pipes *p)
{
    const struct spot_rank_guard guard = {
        .options = &r->options, .command_fd = p->command[0], .event_fd = p->event[1], .out = p->out
    };

    close(p->command[1]); /* otherwise its end of file would never come */
    close(p->event[0]);
    for (uint32_t i = 0; i <= p->n; i++)
        close_both(p->in[i]);
    spot_rank_guard_run(&guard);
    _exit(1); /* not reached */
}

/* Create the guard, and divide the ends of the pipes between it and this process. */
static int start_guard(struct spot_ranks *r, struct pipes *p, struct spot_err *err)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* adopts the ranks if the guard itself is killed */
    r->guard = fork();
    if (!r->guard)
        become_guard(r, p);
    close(p->command[0]);
    close(p->event[1]);
    r->command_fd = p->command[1];
    r->event_fd = p->event[0];
    return r->guard < 0 ? spot_err_sys(err, "cannot start the guard process of the ranks") : 0;
}

static int start_output(struct spot_ranks *r, struct pipes *p, struct spot_err *err)
{
    const struct spot_rank_output_options o = { .n = r->options.n,
                                                .log_dir = r->options.log_dir,
                                                .out_fd = r->options.out_fd,
                                                .err_fd = r->options.err_fd,
                                                .warn = r->options.warn };

    r->output = spot_rank_output_new(&o, p->in, err);
    return r->output ? 0 : -1;
}

struct spot_ranks *spot_ranks_new(const struct spot_ranks_options *options, struct spot_err *err)
{
    struct spot_ranks *const r = spot_xcalloc(1, sizeof(*r));
    struct pipes p = { .command = { -1, -1 }, .event = { -1, -1 }, .n = options->n };
    int rc;

    r->options = *options;
    r->options.stuck_s = options->stuck_s > 0 ? options->stuck_s : stuck_s;
    r->command_fd = r->event_fd = -1;
    p.in = spot_xcalloc(p.n + 1, sizeof(*p.in));
    p.out = spot_xcalloc(p.n + 1, sizeof(*p.out));
    if (open_pipes(&p)) {
        rc = spot_err_sys(err, "cannot open the pipes of %u ranks", (unsigned)p.n);
        close_both(p.command);
        close_both(p.event);
        for (uint32_t i = 0; i <= p.n; i++)
            close_both(p.in[i]);
    } else {
        rc = start_guard(r, &p, err) || start_output(r, &p, err);
    }
    release_pipes(&p);
    if (!rc)
        return r;
    spot_ranks_free(r);
    return NULL;
}

static void stop_and_wait(struct spot_ranks *r)
{
    const double until_s = spot_clock_s() + r->options.stop_s + r->options.stuck_s + 2;
    struct spot_rank_event event;
    struct spot_err err;

    if (spot_ranks_stop(r, NULL))
        return;
    while (r->has_round && spot_clock_s() < until_s)
        if (spot_ranks_next(r, 0.1, &event, &err) < 0) {
            if (r->is_stuck && r->options.warn)
                r->options.warn("%s", err.msg);
            return;
        }
}

/* End the guard, which first kills all processes below it. Returns true if it left one behind.
 */
static bool end_guard(struct spot_ranks *r)
{
    const double until_s = spot_clock_s() + r->options.stuck_s + 2;
    int status = 0;

    while (waitpid(r->guard, &status, WNOHANG) == 0) {
        if (spot_clock_s() >= until_s)
            kill(r->guard, SIGKILL);
        spot_clock_sleep(0.002);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == SPOT_GUARD_LEFT_ONE;
}

void spot_ranks_free(struct spot_ranks *r)
{
    bool left_one = false;

    if (!r)
        return;
    if (r->guard > 0 && r->has_round && !r->is_stuck)
        stop_and_wait(r);
    spot_close(r->command_fd); /* the guard ends, and kills everything below it */
    if (r->guard > 0)
        left_one = end_guard(r);
    if (r->has_round || r->has_twins) /* processes of a guard that was killed */
        left_one = spot_rank_kill_children(NULL, 0, left_one ? 0 : r->options.stuck_s) || left_one;
    if (left_one && !r->is_stuck && r->options.warn)
        r->options.warn(
            "a process of the ranks has not ended %g s after SIGKILL: it is left behind",
            r->options.stuck_s);
    spot_close(r->event_fd);
    spot_rank_output_free(r->output);
    free(r);
}

/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pipe2. NOLINT(bugprone-reserved-identifier) */
#include "host/rank_twins_state.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

enum { NICENESS = 19, HOLD_TEXT_MAX = 96 };

static const char next[] = "SPOT_HOLD_NEXT=";

static const double after_s = 2; /* from the start of a rank's work to the start of its twin */
static const double pause_first_s = 1, pause_max_s = 60;

/* --- niceness ------------------------------------------------------------------------ */

/* A child tests whether niceness can be lowered again: without the privilege a process stays nice,
 * which no rank may, and the test cannot be undone either. */
static bool may_be_nice(void)
{
    const int now = getpriority(PRIO_PROCESS, 0);
    const pid_t pid = fork();
    int status = 1;

    if (!pid)
        _exit(now >= NICENESS || setpriority(PRIO_PROCESS, 0, NICENESS) ||
              setpriority(PRIO_PROCESS, 0, now));
    return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* --- pipes --------------------------------------------------------------------------- */

static void close_hold(struct spot_hold *hold)
{
    if (hold->fd >= 0)
        close(hold->fd);
    *hold = (struct spot_hold){ .fd = -1 };
}

/* One descriptor for both ends: written data stay in the pipe until they are read. */
static int open_both(void)
{
    char path[48];
    int pair[2], fd;

    if (pipe2(pair, O_CLOEXEC))
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", pair[1]);
    fd = open(path, O_RDWR | O_CLOEXEC);
    close(pair[0]);
    close(pair[1]);
    return fd;
}

void spot_twins_init(struct spot_twins *t, uint32_t n, bool is_cold)
{
    *t = (struct spot_twins){ .n = n, .ask = { -1, -1 } };
    for (uint32_t i = 0; i < n; i++) {
        t->seat[i].rank.fd = t->seat[i].twin.fd = t->seat[i].copy.fd = -1;
        t->seat[i].start_s = INFINITY;
    }
    if (is_cold || pipe2(t->ask, O_CLOEXEC))
        t->ask[0] = t->ask[1] = -1;
    else
        (void)fcntl(t->ask[0], F_SETFL, O_NONBLOCK);
    t->is_nice = t->ask[0] >= 0 && may_be_nice();
}

static void open_hold(struct spot_twins *t, struct spot_hold *hold)
{
    close_hold(hold);
    if (t->ask[0] >= 0)
        hold->fd = open_both();
    hold->token = ++t->n_token;
}

bool spot_twins_prepare(struct spot_twins *t, uint32_t local, bool is_twin)
{
    struct spot_twin_seat *const seat = &t->seat[local];
    struct spot_hold *const hold = is_twin ? &seat->twin : &seat->rank;

    open_hold(t, hold);
    return hold->fd >= 0;
}

/* Print the value of SPOT_HOLD. */
static size_t print_hold(const struct spot_twins *t, const struct spot_hold *hold, pid_t guard,
                         char text[HOLD_TEXT_MAX])
{
    return (size_t)snprintf(text, HOLD_TEXT_MAX, "/proc/%ld/fd/%d /proc/%ld/fd/%d %lu", (long)guard,
                            t->ask[1], (long)guard, hold->fd, (unsigned long)hold->token);
}

void spot_twins_enter(const struct spot_twins *t, uint32_t local, bool is_twin)
{
    const struct spot_twin_seat *const seat = &t->seat[local];
    const struct spot_hold *const hold = is_twin ? &seat->twin : &seat->rank;
    char text[HOLD_TEXT_MAX];

    unsetenv("SPOT_HOLD"); /* inherited from a job around this one */
    if (hold->fd < 0)
        return;
    print_hold(t, hold, getppid(), text);
    setenv("SPOT_HOLD", text, 1);
    if (is_twin && t->is_nice)
        (void)setpriority(PRIO_PROCESS, 0, NICENESS);
}

/* --- rounds --------------------------------------------------------------------------- */

/* Send the variables of the round; to a rank without a twin, with SPOT_HOLD_NEXT. They are shorter
 * than PIPE_BUF and the pipe is empty, so one write sends them. The process waits for end of file,
 * so our end is closed when the process has opened its own. */
static void tell(struct spot_twins *t, uint32_t local, const struct spot_rank_env *env)
{
    struct spot_hold *const hold = &t->seat[local].rank, *const copy = &t->seat[local].copy;
    char text[SPOT_RANK_ENV_TEXT_MAX + sizeof(next) + HOLD_TEXT_MAX];
    size_t n = spot_rank_env_print(env, local, text, SPOT_RANK_ENV_TEXT_MAX);

    if (hold->fd < 0)
        return;
    open_hold(t, copy);
    if (copy->fd >= 0) {
        n += (size_t)snprintf(text + n, sizeof(next), "%s", next);
        n += print_hold(t, copy, getpid(), text + n);
        text[n++] = '\n';
    }
    (void)!write(hold->fd, text, n);
    if (hold->has_asked)
        close_hold(hold);
}

/* Schedule a twin if no rank is about to announce a copy. */
static void want(struct spot_twin_seat *seat, double after)
{
    if (!seat->pid && isinf(seat->start_s) && seat->rank.fd < 0)
        seat->start_s = spot_clock_s() + after;
}

pid_t spot_twins_take(struct spot_twins *t, uint32_t local, const struct spot_rank_env *env)
{
    struct spot_twin_seat *const seat = &t->seat[local];
    const pid_t pid = seat->pid;

    close_hold(&seat->rank);
    close_hold(&seat->copy);
    seat->start_s = INFINITY;
    if (!pid)
        return 0;
    if (t->is_nice) /* for every thread of every process below it */
        (void)setpriority(PRIO_PGRP, (id_t)pid, getpriority(PRIO_PROCESS, 0));
    seat->rank = seat->twin;
    seat->twin = (struct spot_hold){ .fd = -1 };
    seat->pid = 0;
    seat->n_died = 0;
    tell(t, local, env);
    want(seat, after_s);
    return pid;
}

void spot_twins_tell(struct spot_twins *t, uint32_t local, const struct spot_rank_env *env)
{
    tell(t, local, env);
}

/* --- twins ----------------------------------------------------------------------------- */

uint32_t spot_twins_due(const struct spot_twins *t, double now_s)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (!t->seat[i].pid && t->seat[i].start_s <= now_s)
            return i;
    return UINT32_MAX;
}

double spot_twins_next_s(const struct spot_twins *t)
{
    double next_s = INFINITY;

    for (uint32_t i = 0; i < t->n; i++)
        if (!t->seat[i].pid)
            next_s = fmin(next_s, t->seat[i].start_s);
    return next_s;
}

/* Delay the next try by twice as long, up to a minute. */
static void put_off(struct spot_twin_seat *seat)
{
    close_hold(&seat->twin);
    seat->pid = 0;
    seat->start_s = spot_clock_s() + fmin(pause_max_s, pause_first_s * pow(2, seat->n_died));
    seat->n_died += seat->n_died < 16;
}

void spot_twins_started(struct spot_twins *t, uint32_t local, pid_t pid)
{
    struct spot_twin_seat *const seat = &t->seat[local];

    seat->pid = pid > 0 ? pid : 0;
    if (!seat->pid)
        put_off(seat);
}

void spot_twins_keep(struct spot_twins *t)
{
    t->is_wanted = t->ask[0] >= 0;
    for (uint32_t i = 0; t->is_wanted && i < t->n; i++)
        want(&t->seat[i], 0);
}

bool spot_twins_are_warm(const struct spot_twins *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (!t->seat[i].pid || !t->seat[i].twin.has_asked)
            return false;
    return true;
}

/* --- requests ---------------------------------------------------------------------------- */

/* True for a running child of this process that leads a group. */
static bool is_child(pid_t pid)
{
    siginfo_t info = { 0 };

    return pid > 1 && !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) &&
           !info.si_pid && getpgid(pid) == pid;
}

/* A copy that is announced after a twin was started, or an invalid one, is harmless: its hold is
 * closed when the round ends, and it exits. */
static void take_copy(struct spot_twin_seat *seat, pid_t pid)
{
    if (seat->pid || !is_child(pid))
        return;
    close_hold(&seat->twin);
    seat->twin = seat->copy;
    seat->twin.has_asked = true;
    seat->copy = (struct spot_hold){ .fd = -1 };
    seat->pid = pid;
    seat->start_s = INFINITY;
    seat->n_died = 0;
}

static void asked(struct spot_twins *t, uint32_t token, pid_t pid)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct spot_twin_seat *const seat = &t->seat[i];

        if (seat->twin.fd >= 0 && seat->twin.token == token) {
            seat->twin.has_asked = t->holds = t->is_wanted = true;
        } else if (seat->rank.fd >= 0 && seat->rank.token == token) {
            close_hold(&seat->rank); /* the process has its variables and has opened its own end */
            t->holds = t->is_wanted = true;
            want(seat, after_s);
        } else if (seat->copy.fd >= 0 && seat->copy.token == token) {
            take_copy(seat, pid);
        }
    }
}

/* Lines "TOKEN" and "TOKEN ID". */
void spot_twins_hear(struct spot_twins *t)
{
    char text[512];
    const ssize_t n = read(t->ask[0], text, sizeof(text));

    for (ssize_t i = 0; i < n; i++)
        if (text[i] >= '0' && text[i] <= '9') {
            t->heard[t->n_heard] = 10 * t->heard[t->n_heard] + (uint32_t)(text[i] - '0');
        } else if (text[i] == ' ' && !t->n_heard) {
            t->n_heard = 1;
        } else {
            asked(t, t->heard[0], (pid_t)t->heard[1]);
            t->heard[0] = t->heard[1] = 0;
            t->n_heard = 0;
        }
}

/* --- processes ---------------------------------------------------------------------------- */

bool spot_twins_has(const struct spot_twins *t, pid_t pid)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->seat[i].pid == pid)
            return true;
    return false;
}

void spot_twins_ended(struct spot_twins *t, pid_t pid)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->seat[i].pid == pid)
            put_off(&t->seat[i]);
}

void spot_twins_rank_ended(struct spot_twins *t, uint32_t local)
{
    close_hold(&t->seat[local].rank);
    close_hold(&t->seat[local].copy);
    if (t->is_wanted)
        want(&t->seat[local], after_s);
}

size_t spot_twins_list(const struct spot_twins *t, pid_t *pid)
{
    size_t n = 0;

    for (uint32_t i = 0; i < t->n; i++)
        if (t->seat[i].pid)
            pid[n++] = t->seat[i].pid;
    return n;
}

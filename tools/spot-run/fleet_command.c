/* SPDX-License-Identifier: MIT */
#include "common/pio.h"
#include "fleet_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/clock.h"
#include "common/spawn.h"
#include "common/xalloc.h"
#include "sim/guard.h"

enum { READ, WRITE, PIECE_BYTE = 64 << 10, TICK_MS = 20 };

extern char **environ;

/* A running command. */
struct seat {
    struct fleet_command *command; /* NULL: free */
    pid_t pid;
    int fd; /* its output; -1: closed */
    double until_s;
};

struct fleet_runner {
    double limit_s;
    struct spot_guard guard;
    struct seat seat[FLEET_COMMANDS_AT_ONCE];
};

struct fleet_runner *fleet_runner_new(double limit_s, struct spot_err *err)
{
    struct fleet_runner *r = spot_xcalloc(1, sizeof(*r));

    r->limit_s = limit_s;
    if (!spot_guard_start(&r->guard, FLEET_COMMANDS_AT_ONCE, err))
        return r;
    free(r);
    return NULL;
}

void fleet_runner_free(struct fleet_runner *r)
{
    if (r)
        spot_guard_stop(&r->guard);
    free(r);
}

void fleet_command_set(struct fleet_command *c, const char *name, const char *value)
{
    const size_t n = strlen(name) + strlen(value) + 2;
    size_t i = 0;

    while (c->env[i])
        i++;
    c->env[i] = spot_xcalloc(n, 1);
    snprintf(c->env[i], n, "%s=%s", name, value);
}

void fleet_command_release(struct fleet_command *c)
{
    for (int i = 0; i < FLEET_COMMAND_ENV; i++)
        free(c->env[i]);
    spot_buf_release(&c->out);
}

/* The environment: variables of the command first, which take precedence, then ours. */
static char **whole_env(const struct fleet_command *c)
{
    size_t n = 0, k = 0;
    char **env;

    while (environ[n])
        n++;
    env = spot_xcalloc(n + FLEET_COMMAND_ENV + 1, sizeof(*env));
    for (int i = 0; i < FLEET_COMMAND_ENV && c->env[i]; i++)
        env[k++] = c->env[i];
    for (size_t i = 0; i < n; i++) {
        bool is_ours = false;

        for (int j = 0; j < FLEET_COMMAND_ENV && c->env[j]; j++)
            is_ours |=
                !strncmp(environ[i], c->env[j], (size_t)(strchr(c->env[j], '=') - c->env[j]) + 1);
        if (!is_ours)
            env[k++] = environ[i];
    }
    return env;
}

/* Starts the command. Returns 0 or an errno. */
static int spawn(struct seat *s, int theirs)
{
    char sh[] = "sh", flag[] = "-c", *script = spot_xstrdup(s->command->script);
    char *argv[] = { sh, flag, script, NULL }, **env = whole_env(s->command);
    posix_spawn_file_actions_t action;
    posix_spawnattr_t attribute;
    int rc;

    posix_spawn_file_actions_init(&action);
    posix_spawn_file_actions_addopen(&action, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&action, theirs, STDOUT_FILENO);
    posix_spawnattr_init(&attribute);
    spot_spawn_afresh(&attribute, 0);
    rc = posix_spawn(&s->pid, "/bin/sh", &action, &attribute, argv, env);
    posix_spawnattr_destroy(&attribute);
    posix_spawn_file_actions_destroy(&action);
    free(env);
    free(script);
    return rc;
}

static void start(struct fleet_runner *r, size_t i, struct fleet_command *c)
{
    struct seat *s = &r->seat[i];
    int end[2], rc;

    c->is_ok = false;
    *s = (struct seat){ .command = c, .fd = -1, .until_s = spot_clock_s() + r->limit_s };
    rc = spot_endpoint_pipe(end) ? errno : 0;
    if (!rc) {
        (void)fcntl(end[WRITE], F_SETFL, 0); /* programs expect blocking streams */
        rc = spawn(s, end[WRITE]);
        close(end[WRITE]);
        s->fd = end[READ];
    }
    if (!rc) {
        r->guard.group[i] = s->pid;
        return;
    }
    snprintf(c->why, sizeof(c->why), "cannot run it: %s", strerror(rc));
    spot_close(s->fd);
    s->command = NULL;
}

/* Read output. False if there is too much. */
static bool take(struct seat *s)
{
    struct spot_buf *out = &s->command->out;
    ssize_t n;

    while ((n = read(s->fd, spot_buf_more(out, PIECE_BYTE), PIECE_BYTE)) > 0) {
        out->n += (size_t)n;
        if (out->n > s->command->out_max)
            return false;
    }
    if (!n || (errno != EAGAIN && errno != EINTR)) {
        close(s->fd);
        s->fd = -1;
    }
    return true;
}

static void leave(struct fleet_runner *r, size_t i)
{
    spot_close(r->seat[i].fd);
    r->guard.group[i] = 0;
    r->seat[i].command = NULL;
}

static void judge(struct fleet_command *c, int status)
{
    c->is_ok = WIFEXITED(status) && !WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        snprintf(c->why, sizeof(c->why), "killed by signal %d", WTERMSIG(status));
    else if (!c->is_ok)
        snprintf(c->why, sizeof(c->why), "status %d", WEXITSTATUS(status));
}

/* Remove a seat. Other processes in its group are killed too. */
static void end(struct fleet_runner *r, size_t i, const char *why)
{
    struct seat *s = &r->seat[i];

    kill(-s->pid, SIGKILL);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    snprintf(s->command->why, sizeof(s->command->why), "%s", why);
    leave(r, i);
}

static void attend(struct fleet_runner *r, size_t i)
{
    struct seat *s = &r->seat[i];
    char why[64];
    int status;
    /* first check for the end, then read: so all of its output is there */
    const pid_t ended = waitpid(s->pid, &status, WNOHANG);

    if (s->fd >= 0 && !take(s)) {
        snprintf(why, sizeof(why), "more than %zu bytes of output", s->command->out_max);
        if (ended > 0) {
            snprintf(s->command->why, sizeof(s->command->why), "%s", why);
            leave(r, i);
        } else {
            end(r, i, why);
        }
    } else if (ended > 0) {
        judge(s->command, status);
        leave(r, i);
    } else if (spot_clock_s() >= s->until_s) {
        snprintf(why, sizeof(why), "not ended after %g s", r->limit_s);
        end(r, i, why);
    }
}

void fleet_run(struct fleet_runner *r, struct fleet_command *command, size_t n)
{
    size_t next = 0, running;

    do {
        struct pollfd fd[FLEET_COMMANDS_AT_ONCE];

        running = 0;
        for (size_t i = 0; i < FLEET_COMMANDS_AT_ONCE; i++) {
            if (!r->seat[i].command && next < n)
                start(r, i, &command[next++]);
            fd[i] =
                (struct pollfd){ .fd = r->seat[i].command ? r->seat[i].fd : -1, .events = POLLIN };
        }
        (void)poll(fd, FLEET_COMMANDS_AT_ONCE, TICK_MS);
        for (size_t i = 0; i < FLEET_COMMANDS_AT_ONCE; i++) {
            if (r->seat[i].command)
                attend(r, i);
            running += r->seat[i].command != NULL;
        }
    } while (running || next < n);
}

int fleet_run_one(struct fleet_runner *r, struct fleet_command *command, const char *what,
                  struct spot_err *err)
{
    fleet_run(r, command, 1);
    return command->is_ok ? 0 : spot_err_set(err, SPOT_ESYS, "%s: %s", what, command->why);
}

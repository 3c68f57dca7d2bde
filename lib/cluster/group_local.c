/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* setenv */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/group_state.h"
#include "cluster/private_dir.h"
#include "common/clock.h"
#include "common/xalloc.h"

enum { FUTILE_DEATHS_MAX = 3 };

static const double quick_s = 1;

/* Of all views: it grows when somebody does something. */
static int64_t rounds(const struct spot_group *g)
{
    int64_t n = 0;

    for (size_t i = 0; i < g->n_view; i++)
        n += g->view[i]->machine.round;
    return n;
}

/* A fork that a SIGTERM ends: until the child is another program, it has the handlers of this one,
 * and they would act for this one. */
static pid_t fork_worker(void)
{
    sigset_t term, before;
    pid_t pid;

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &before);
    pid = fork();
    if (!pid)
        signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static int start(struct spot_group *g, size_t i, struct spot_err *err)
{
    char join[SPOT_ADDRESS_MAX + 8];

    spot_endpoint_print(&g->endpoint, join);
    g->local[i].start_s = spot_clock_s();
    g->local[i].start_round = rounds(g);
    g->local[i].pid = fork_worker();
    if (g->local[i].pid < 0) {
        g->local[i].pid = 0;
        return spot_err_sys(err, "cannot start a worker");
    }
    if (!g->local[i].pid) {
        setpgid(0, 0); /* the terminal's Ctrl-C is for the coordinator */
        g->options->become_worker(g->options->user, i, join);
        _exit(127);
    }
    return 0;
}

void spot_group_notice_local(struct spot_group *g, uint64_t index)
{
    if (g->local && index < g->options->n_local && g->local[index].pid)
        kill(g->local[index].pid, SIGTERM);
}

int spot_group_local_start(struct spot_group *g, struct spot_err *err)
{
    if (g->private_dir && setenv(SPOT_PRIVATE_DIR_ENV, g->private_dir, 1))
        return spot_err_sys(err, "cannot tell workers of '%s'", g->private_dir);
    g->local = spot_xcalloc(g->options->n_local, sizeof(*g->local));
    for (size_t i = 0; i < g->options->n_local; i++)
        if (start(g, i, err))
            return -1;
    return 0;
}

static int give_up(size_t i, int status, struct spot_err *err)
{
    char how[48];

    if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof(how), "with exit status %d", WEXITSTATUS(status));
    return spot_err_set(err, SPOT_ESYS,
                        "local worker %zu died %d times in a row before a step was done, the last "
                        "time %s",
                        i, FUTILE_DEATHS_MAX, how);
}

/* Start again what died; one that dies again and again and helps nobody is an error. */
int spot_group_local_keep(struct spot_group *g, struct spot_err *err)
{
    for (size_t i = 0; g->local && i < g->options->n_local; i++) {
        struct spot_local *l = &g->local[i];
        bool is_futile;
        int status;

        if (!l->pid || waitpid(l->pid, &status, WNOHANG) != l->pid)
            continue;
        l->pid = 0;
        is_futile = spot_clock_s() - l->start_s < quick_s || rounds(g) <= l->start_round;
        l->n_futile = is_futile ? l->n_futile + 1 : 0;
        if (l->n_futile >= FUTILE_DEATHS_MAX)
            return give_up(i, status, err);
        if (start(g, i, err))
            return -1;
    }
    return 0;
}

void spot_group_local_stop(struct spot_group *g)
{
    const double until_s = spot_clock_s() + 2;

    if (!g->local)
        return;
    for (size_t i = 0; i < g->options->n_local; i++)
        if (g->local[i].pid)
            kill(g->local[i].pid, SIGTERM);
    for (size_t i = 0; i < g->options->n_local; i++)
        while (g->local[i].pid && waitpid(g->local[i].pid, NULL, WNOHANG) == 0) {
            if (spot_clock_s() > until_s)
                kill(g->local[i].pid, SIGKILL);
            spot_clock_sleep(0.002);
        }
    free(g->local);
    g->local = NULL;
}

/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* setenv */
#include <errno.h>
#include <math.h>
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

static const double leave_s = 2, end_s = 5; /* time limits after SIGTERM, and after SIGKILL */

/* Sum of the rounds of all views; increases with every commit. */
static int64_t rounds(const struct spot_group *g)
{
    int64_t n = 0;

    for (size_t i = 0; i < g->n_view; i++)
        n += g->view[i]->machine.round;
    return n;
}

/* Forks with default signal handlers in the child: until exec it would have the handlers of the
 * coordinator. */
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
    char join[SPOT_ADDRESS_MAX + 8], first[SPOT_LAST_WORDS] = "";
    int words[2];

    spot_endpoint_print(&g->endpoint, join);
    g->local[i].start_s = spot_clock_s();
    g->local[i].start_round = rounds(g);
    if (g->options->first_message)
        g->options->first_message(g->options->user, first, sizeof(first));
    if (spot_last_words_pair(words, first, err))
        return -1;
    g->local[i].words_fd = words[0];
    g->local[i].pid = fork_worker();
    if (g->local[i].pid) {
        const int why = errno;

        close(words[1]);
        errno = why;
    }
    if (g->local[i].pid < 0) {
        g->local[i].pid = 0;
        (void)spot_err_sys(err, "cannot start a worker");
        close(words[0]);
        return -1;
    }
    if (!g->local[i].pid) {
        setpgid(0, 0); /* the terminal's Ctrl-C is for the coordinator */
        spot_last_words_pass(words[1]);
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
        return spot_err_sys(err, "cannot pass '%s' to workers", g->private_dir);
    g->local = spot_xcalloc(g->options->n_local, sizeof(*g->local));
    for (size_t i = 0; i < g->options->n_local; i++)
        if (start(g, i, err))
            return -1;
    return 0;
}

static int give_up(const struct spot_group *g, size_t i, int status, const char *words,
                   struct spot_err *err)
{
    char how[48];

    spot_restart_print_end(status, how);
    return spot_err_set(
        err, SPOT_ESYS, "local worker %zu died %d times in a row before %s, the last time %s%s%s",
        i, FUTILE_DEATHS_MAX, g->workload->does_wait ? "any worker was ready" : "a step was done",
        how, *words ? ": " : "", words);
}

static void look_who_runs(struct spot_group *g)
{
    for (size_t i = 0; i < g->n_view; i++)
        if (g->view[i]->machine.phase == SPOT_PHASE_RUN)
            g->ran_s = spot_clock_s();
}

/* True if the worker died without a completed round. In workloads that wait for requests: if no
 * member had a place since it was started. */
static bool is_futile(const struct spot_group *g, const struct spot_local *l)
{
    if (g->workload->does_wait)
        return g->ran_s < l->start_s;
    return rounds(g) <= l->start_round;
}

static bool is_any_left(const struct spot_group *g)
{
    for (size_t i = 0; i < g->options->n_local; i++)
        if (!isinf(g->local[i].again_s))
            return true;
    return g->n_named > 0;
}

/* Delays the restart of a failing worker; the job continues if it has another one. */
static int pause_failing(struct spot_group *g, size_t i, int status, const char *words,
                         struct spot_err *err)
{
    struct spot_local *const l = &g->local[i];
    const double pause_s = spot_restart_after_s(&l->restart, spot_clock_s() - l->start_s, status);
    const char *const colon = *words ? ": " : "";
    char how[48], what[48] = "it is not started again";

    l->again_s = spot_clock_s() + pause_s;
    if (pause_s <= 0)
        return 0;
    spot_restart_print_end(status, how);
    if (!isinf(pause_s))
        snprintf(what, sizeof(what), "it is restarted in %.0f s", pause_s);
    g->options->warn("local worker %zu died %d times in a row at its start, the last time %s: "
                     "%s%s%s",
                     i, l->restart.n_failed, how, what, colon, words);
    return is_any_left(g) ? 0
                          : spot_err_set(err, SPOT_ESYS,
                                         "no worker is left: local worker %zu died %d times in a "
                                         "row, the last time %s%s%s",
                                         i, l->restart.n_failed, how, colon, words);
}

static void close_words(struct spot_local *l)
{
    if (l->pid)
        close(l->words_fd);
    l->pid = 0;
}

static int on_death(struct spot_group *g, size_t i, int status, struct spot_err *err)
{
    struct spot_local *const l = &g->local[i];
    char words[SPOT_LAST_WORDS];

    spot_last_words_read(l->words_fd, words);
    close_words(l);
    l->n_futile = is_futile(g, l) ? l->n_futile + 1 : 0;
    if (l->n_futile >= FUTILE_DEATHS_MAX)
        return give_up(g, i, status, words, err);
    return l->n_futile ? 0 : pause_failing(g, i, status, words, err);
}

/* One call in each turn of the loop, not one for each worker. */
static bool has_dead_child(void)
{
    siginfo_t info = { .si_pid = 0 };

    return !waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* Restart dead workers; one that dies repeatedly without being useful is an error. */
int spot_group_local_keep(struct spot_group *g, struct spot_err *err)
{
    const bool is_any_dead = g->local && has_dead_child();

    look_who_runs(g);
    for (size_t i = 0; g->local && i < g->options->n_local; i++) {
        struct spot_local *const l = &g->local[i];
        int status;

        if (is_any_dead && l->pid && waitpid(l->pid, &status, WNOHANG) == l->pid &&
            on_death(g, i, status, err))
            return -1;
        if (!l->pid && spot_clock_s() >= l->again_s && start(g, i, err))
            return -1;
    }
    return 0;
}

/* Ends all local workers; one that hangs in the kernel after SIGKILL is not waited for. */
void spot_group_local_stop(struct spot_group *g)
{
    const double kill_at_s = spot_clock_s() + leave_s, until_s = kill_at_s + end_s;

    if (!g->local)
        return;
    for (size_t i = 0; i < g->options->n_local; i++)
        if (g->local[i].pid)
            kill(g->local[i].pid, SIGTERM);
    for (size_t i = 0; i < g->options->n_local; i++)
        while (g->local[i].pid && waitpid(g->local[i].pid, NULL, WNOHANG) == 0 &&
               spot_clock_s() < until_s) {
            if (spot_clock_s() > kill_at_s)
                kill(g->local[i].pid, SIGKILL);
            spot_clock_sleep(0.002);
        }
    for (size_t i = 0; i < g->options->n_local; i++)
        close_words(&g->local[i]);
    free(g->local);
    g->local = NULL;
}

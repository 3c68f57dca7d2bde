/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* setenv */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "train/trainer_state.h"
#include "cluster/private_dir.h"

enum { FUTILE_DEATHS_MAX = 3 };

static const double quick_s = 1;

static int start(struct spot_coord *c, size_t i, struct spot_err *err)
{
    char join[SPOT_ADDRESS_MAX + 8], name[32], threads[24];

    spot_endpoint_print(&c->endpoint, join);
    snprintf(name, sizeof(name), "local-%zu", i);
    snprintf(threads, sizeof(threads), "%llu", (unsigned long long)c->options->n_thread);
    c->local[i].start_s = spot_clock_s();
    c->local[i].start_step = c->machine.round;
    c->local[i].pid = fork();
    if (c->local[i].pid < 0) {
        c->local[i].pid = 0;
        return spot_err_sys(err, "cannot start a worker");
    }
    if (!c->local[i].pid) {
        setpgid(0, 0); /* the terminal's Ctrl-C is for the coordinator */
        /* this very program, also when another has been installed in its place meanwhile */
        execl("/proc/self/exe", "spot-run", "worker", "--quiet", "--join", join, "--name", name,
              "--threads", threads, "--backend",
              strncmp(c->config.kernel, "cuda", 4) ? "cpu" : "cuda", "--recompute",
              spot_recompute_name(c->options->recompute), "--join-timeout", "5s",
              c->tls ? "--key-file" : (char *)NULL, c->options->key_file, (char *)NULL);
        _exit(127);
    }
    return 0;
}

int spot_coord_local_start(struct spot_coord *c, struct spot_err *err)
{
    if (c->private_dir && setenv(SPOT_PRIVATE_DIR_ENV, c->private_dir, 1))
        return spot_err_sys(err, "cannot tell workers of '%s'", c->private_dir);
    c->local = spot_xcalloc(c->options->n_local, sizeof(*c->local));
    for (size_t i = 0; i < c->options->n_local; i++)
        if (start(c, i, err))
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
int spot_coord_local_keep(struct spot_coord *c, struct spot_err *err)
{
    for (size_t i = 0; c->local && i < c->options->n_local; i++) {
        struct spot_local *l = &c->local[i];
        bool is_futile;
        int status;

        if (!l->pid || waitpid(l->pid, &status, WNOHANG) != l->pid)
            continue;
        l->pid = 0;
        is_futile = spot_clock_s() - l->start_s < quick_s || c->machine.round <= l->start_step;
        l->n_futile = is_futile ? l->n_futile + 1 : 0;
        if (l->n_futile >= FUTILE_DEATHS_MAX)
            return give_up(i, status, err);
        if (start(c, i, err))
            return -1;
    }
    return 0;
}

void spot_coord_local_stop(struct spot_coord *c)
{
    const double until_s = spot_clock_s() + 2;

    if (!c->local)
        return;
    for (size_t i = 0; i < c->options->n_local; i++)
        if (c->local[i].pid)
            kill(c->local[i].pid, SIGTERM);
    for (size_t i = 0; i < c->options->n_local; i++)
        while (c->local[i].pid && waitpid(c->local[i].pid, NULL, WNOHANG) == 0) {
            if (spot_clock_s() > until_s)
                kill(c->local[i].pid, SIGKILL);
            spot_clock_sleep(0.002);
        }
    free(c->local);
    c->local = NULL;
}

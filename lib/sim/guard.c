/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* MAP_ANONYMOUS and pipe2. NOLINT(bugprone-reserved-identifier) */
#include "sim/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the guard: wait for the end of the pipe, then clear the table. Never returns. */
static void watch(const struct spot_guard *guard, int read_fd)
{
    sigset_t all;
    char byte;

    setsid(); /* a ^C at the terminal is not for the guard */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int fd = 0; fd <= 2; fd++)
        close(fd);
    while (read(read_fd, &byte, 1) < 0 && errno == EINTR)
        ;
    for (size_t i = 0; i < guard->n_seat; i++)
        if (guard->group[i] > 0)
            kill(-guard->group[i], SIGKILL);
    _exit(0);
}

int spot_guard_start(struct spot_guard *guard, size_t n_seat, struct spot_err *err)
{
    void *table = mmap(NULL, n_seat * sizeof(pid_t), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd[2];

    if (table == MAP_FAILED)
        return spot_err_sys(err, "cannot map the table of processes");
    *guard = (struct spot_guard){ .n_seat = n_seat, .group = table };
    if (pipe2(fd, O_CLOEXEC)) {
        munmap(table, n_seat * sizeof(pid_t));
        return spot_err_sys(err, "cannot open a pipe");
    }
    guard->pid = fork();
    if (!guard->pid) {
        close(fd[1]);
        watch(guard, fd[0]);
    }
    close(fd[0]);
    guard->pipe_fd = fd[1];
    if (guard->pid > 0)
        return 0;
    close(fd[1]);
    munmap(table, n_seat * sizeof(pid_t));
    return spot_err_sys(err, "cannot start the guard process");
}

void spot_guard_stop(struct spot_guard *guard)
{
    if (guard->pid <= 0)
        return;
    close(guard->pipe_fd);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    /* The cast drops volatile. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    munmap((void *)(uintptr_t)guard->group, guard->n_seat * sizeof(pid_t));
    guard->pid = 0;
}

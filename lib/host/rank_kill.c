/* SPDX-License-Identifier: MIT */
/* Finds the processes below a process, in /proc. */
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "host/ranks_state.h"

enum { DEPTH_MAX = 16, CHILDREN_MAX = SPOT_RANK_CHILDREN_MAX };

/* Lists the children of the main thread, which adopts orphans. */
size_t spot_rank_children(pid_t pid, pid_t child[CHILDREN_MAX])
{
    char path[64];
    size_t n = 0;
    char word[24];
    FILE *in;

    snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    in = fopen(path, "re");
    while (in && n < CHILDREN_MAX && fscanf(in, "%23s", word) == 1)
        child[n++] = (pid_t)strtol(word, NULL, 10);
    if (in)
        fclose(in);
    return n;
}

static size_t leave_out(pid_t *child, size_t n, const pid_t *keep, size_t n_keep)
{
    size_t left = 0;

    for (size_t i = 0; i < n; i++) {
        bool is_kept = false;

        for (size_t j = 0; j < n_keep; j++)
            is_kept = is_kept || child[i] == keep[j];
        if (!is_kept)
            child[left++] = child[i];
    }
    return left;
}

/* Each iteration adopts the children of those killed before. It does not wait for any single
 * process, which may never end. */
pid_t spot_rank_kill_children(const pid_t *keep, size_t n_keep, double limit_s)
{
    const double until_s = spot_clock_s() + limit_s;
    static pid_t child[CHILDREN_MAX];
    double pause_s = 0.0005;

    for (;;) {
        const size_t n = leave_out(child, spot_rank_children(getpid(), child), keep, n_keep);
        size_t n_left = 0;

        for (size_t i = 0; i < n; i++)
            kill(child[i], SIGKILL);
        for (size_t i = 0; i < n; i++)
            if (waitpid(child[i], NULL, WNOHANG) != child[i])
                child[n_left++] = child[i];
        if (!n)
            return 0;
        if (n_left && spot_clock_s() >= until_s)
            return child[0];
        if (n_left) {
            spot_clock_sleep(pause_s);
            pause_s = fmin(2 * pause_s, 0.05);
        }
    }
}

static bool catches(pid_t pid, int number)
{
    char path[64], line[256];
    unsigned long long caught = 0;
    FILE *in;

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    in = fopen(path, "re");
    while (in && fgets(line, sizeof(line), in))
        if (!strncmp(line, "SigCgt:", 7))
            caught = strtoull(line + 7, NULL, 16);
    if (in)
        fclose(in);
    return caught >> (number - 1) & 1;
}

/* Signal the topmost descendants that catch the signal: a shell around the trainer does not, while
 * processes forked by the trainer inherit its handler and must not get it. */
static size_t tell(pid_t pid, int number, int depth)
{
    pid_t *child;
    size_t n, told = 0;

    if (catches(pid, number))
        return kill(pid, number) ? 0 : 1;
    if (depth == DEPTH_MAX || !(child = malloc(CHILDREN_MAX * sizeof(*child))))
        return 0;
    n = spot_rank_children(pid, child);
    for (size_t i = 0; i < n; i++)
        told += tell(child[i], number, depth + 1);
    free(child);
    return told;
}

size_t spot_rank_tell(pid_t pid)
{
    const size_t n = tell(pid, SIGUSR1, 0);

    return n ? n : tell(pid, SIGTERM, 0);
}

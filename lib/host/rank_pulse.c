/* SPDX-License-Identifier: MIT */
/* Detects hanging ranks: almost no processor time, nothing read, nothing written. A collective that
 * waits for a peer looks the same, so the report shows where each rank waits. */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "host/ranks_state.h"

enum { DEPTH_MAX = 16, UTIME_FIELD = 14 /* field of /proc/PID/stat, counted from 1 */ };

static const double idle_share = 0.01; /* part of a processor's time between two checks */
static const double probe_s = 5;       /* for py-spy, which reads the stacks of Python */

struct sum {
    unsigned long long ticks, byte;
};

static void add_ticks(pid_t pid, struct sum *sum)
{
    char path[64], text[1024];
    char *at;
    FILE *in;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    in = fopen(path, "re");
    if (!in)
        return;
    at = fgets(text, sizeof(text), in) ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < UTIME_FIELD; field++)
        at = strchr(at + 1, ' ');
    if (at) {
        sum->ticks += strtoull(at, &at, 10); /* utime */
        sum->ticks += strtoull(at, &at, 10); /* stime */
    }
    fclose(in);
}

static void add_bytes(pid_t pid, struct sum *sum)
{
    char path[64], line[128];
    FILE *in;

    snprintf(path, sizeof(path), "/proc/%ld/io", (long)pid);
    in = fopen(path, "re");
    while (in && fgets(line, sizeof(line), in))
        if (!strncmp(line, "rchar: ", 7) || !strncmp(line, "wchar: ", 7))
            sum->byte += strtoull(line + 7, NULL, 10);
    if (in)
        fclose(in);
}

/* Add the process and all below it: the trainer may run below a shell. */
static void add_all(pid_t pid, int depth, struct sum *sum)
{
    pid_t *child;
    size_t n;

    add_ticks(pid, sum);
    add_bytes(pid, sum);
    if (depth == DEPTH_MAX || !(child = malloc(SPOT_RANK_CHILDREN_MAX * sizeof(*child))))
        return;
    n = spot_rank_children(pid, child);
    for (size_t i = 0; i < n; i++)
        add_all(child[i], depth + 1, sum);
    free(child);
}

bool spot_rank_pulse_look(struct spot_rank_pulse *p, pid_t pid, double limit_s)
{
    const double now_s = spot_clock_s(), passed_s = now_s - p->looked_s;
    struct sum sum = { 0 };
    bool is_idle;

    add_all(pid, 0, &sum);
    is_idle =
        p->pid == pid && sum.byte == p->byte &&
        (double)(sum.ticks - p->ticks) <= idle_share * passed_s * (double)sysconf(_SC_CLK_TCK);
    if (p->pid != pid)
        p->killed_s = 0;
    if (!is_idle)
        p->since_s = now_s;
    p->pid = pid;
    p->ticks = sum.ticks;
    p->byte = sum.byte;
    p->looked_s = now_s;
    return now_s - p->since_s >= limit_s;
}

/* --- where it waits --- */

static void read_word(pid_t pid, const char *name, char *text, size_t n)
{
    char path[64];
    FILE *in;
    size_t got = 0;

    snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, name);
    in = fopen(path, "re");
    if (in) {
        got = fread(text, 1, n - 1, in);
        fclose(in);
    }
    text[got] = '\0';
}

/* The innermost process, below shells. */
static pid_t innermost(pid_t pid)
{
    pid_t *const child = malloc(SPOT_RANK_CHILDREN_MAX * sizeof(*child));

    for (int depth = 0; child && depth < DEPTH_MAX && spot_rank_children(pid, child) == 1; depth++)
        pid = child[0];
    free(child);
    return pid;
}

static char state_of(pid_t pid)
{
    char text[1024];
    const char *at;

    read_word(pid, "stat", text, sizeof(text));
    at = strrchr(text, ')');
    return at && at[1] ? at[2] : '?';
}

void spot_rank_pulse_tell(int fd, pid_t rank_pid, uint32_t rank, double limit_s)
{
    const pid_t pid = innermost(rank_pid);
    char line[2048], wchan[128], stack[1024];
    const char state = state_of(pid);

    read_word(pid, "wchan", wchan, sizeof(wchan));
    read_word(pid, "stack", stack, sizeof(stack)); /* readable by root only */
    (void)!write(fd, line,
                 (size_t)snprintf(line, sizeof(line),
                                  "rank %lu has stood still for %g s and is killed: process %ld, "
                                  "state %c%s, in %s\n%s",
                                  (unsigned long)rank, limit_s, (long)pid, state,
                                  state == 'D'   ? " (waits for a disk or a device)"
                                  : state == 'T' ? " (stopped)"
                                                 : "",
                                  *wchan && strcmp(wchan, "0") != 0 ? wchan : "user code", stack));
}

/* In a child of the guard: executes py-spy if it is installed. */
void spot_rank_pulse_probe(pid_t rank_pid)
{
    char text[160];

    snprintf(text, sizeof(text),
             "command -v py-spy >/dev/null && exec timeout %g py-spy dump --pid %ld", probe_s,
             (long)innermost(rank_pid));
    execl("/bin/sh", "sh", "-c", text, (char *)NULL);
    _exit(127);
}

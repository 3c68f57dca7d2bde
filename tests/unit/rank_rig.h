/* SPDX-License-Identifier: MIT */
/* rank_rig.h - ranks that are real processes, and a directory $D where they tell what they do. */
#ifndef SPOT_TESTS_RANK_RIG_H
#define SPOT_TESTS_RANK_RIG_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "host/ranks.h"
#include "suite.h"

enum { PATIENCE = 6000 }; /* looks, 10 ms apart */

#define TEXT(literal) ((char *)(uintptr_t)(literal)) /* nobody writes to it */

static char dir[64];
static struct spot_err err;

static inline const char *in_dir(const char *name)
{
    static char path[4][128];
    static int at;
    char *const here = path[at++ % 4];

    snprintf(here, sizeof(path[0]), "%s/%s", dir, name);
    return here;
}

static inline void set_up(void)
{
    strcpy(dir, "/tmp/spot-ranks-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    signal(SIGPIPE, SIG_IGN);
    setenv("D", dir, 1);
    unsetenv("RANK");
    unsetenv("LOCAL_RANK");
}

static inline void tear_down(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

/* The text of a file, "" where there is none. */
static inline const char *text_of(const char *name)
{
    static char text[1 << 16];
    FILE *const in = fopen(in_dir(name), "r");
    const size_t n = in ? fread(text, 1, sizeof(text) - 1, in) : 0;

    text[n] = '\0';
    if (in)
        fclose(in);
    return text;
}

/* A process id that a script writes there. */
static inline pid_t pid_in(const char *name)
{
    long pid = 0;

    for (int look = 0; look < PATIENCE; look++) {
        const char *const text = text_of(name);

        if (strchr(text, '\n'))
            pid = strtol(text, NULL, 10);
        if (pid > 0)
            return (pid_t)pid;
        spot_clock_sleep(0.01);
    }
    ck_abort_msg("nobody wrote %s", name);
}

/* Gone, or dead and not reaped by whoever adopted it. */
static inline bool is_gone(pid_t pid)
{
    char path[64], state = 'Z';
    FILE *in;

    if (kill(pid, 0) && errno == ESRCH)
        return true;
    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    in = fopen(path, "r");
    if (in && fscanf(in, "%*d %*s %c", &state) != 1)
        state = 'Z';
    if (in)
        fclose(in);
    return state == 'Z';
}

static inline void until_gone(pid_t pid)
{
    for (int look = 0; look < PATIENCE; look++) {
        if (is_gone(pid))
            return;
        spot_clock_sleep(0.01);
    }
    ck_abort_msg("process %ld lives on", (long)pid);
}

#endif /* SPOT_TESTS_RANK_RIG_H */

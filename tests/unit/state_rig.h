/* SPDX-License-Identifier: MIT */
/* state_rig.h - a directory of its own for a test of states, and a shell in it. */
#ifndef SPOT_TESTS_STATE_RIG_H
#define SPOT_TESTS_STATE_RIG_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

static char root[64];

static inline void shell(const char *text)
{
    char command[512];

    snprintf(command, sizeof(command), "cd '%s' && %s", root, text);
    ck_assert_msg(!system(command), "%s", text);
}

/* Good until the next call. */
static inline const char *in_root(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

/* A directory below root, open until the next eight calls, which is as long as a test's line. */
static inline int dir_in_root(const char *name)
{
    static int fd[8] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    static size_t n;
    int *const at = &fd[n++ % 8];

    if (*at >= 0)
        close(*at);
    *at = open(*name ? in_root(name) : root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(*at, 0);
    return *at;
}

static inline void make_root(void)
{
    strcpy(root, "/tmp/spot-state-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

#endif /* SPOT_TESTS_STATE_RIG_H */

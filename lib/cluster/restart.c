/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* putenv */
#include "cluster/restart.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/backoff.h"
#include "common/utf8.h"

static const double quick_s = 1;
static const double killed_s = 10; /* a worker killed after this time counts as useful */
static const double steady_s = 60; /* a worker that lived this long did not fail at its start */
static const double pause_min_s = 1, pause_max_s = 32;
static const char variable[] = "SPOT_LAST_WORDS";

/* Set in the environment before the fork; the child only overwrites the number, since it must not
 * allocate between fork and exec. */
static char passed[32] = "SPOT_LAST_WORDS=-1";
static bool is_in_environment;

static int own_fd = -1;
static char first_words[SPOT_LAST_WORDS];

/* --- restart times ------------------------------------------------------------------------- */

static bool has_failed(double lived_s, int status)
{
    if (lived_s < quick_s)
        return true;
    if (WIFSIGNALED(status))
        return lived_s <
               (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM ? killed_s : steady_s);
    return WEXITSTATUS(status) && lived_s < steady_s;
}

double spot_restart_after_s(struct spot_restart *r, double lived_s, int status)
{
    r->n_failed = has_failed(lived_s, status) ? r->n_failed + 1 : 0;
    if (r->n_failed > SPOT_RESTARTS_MAX)
        return INFINITY;
    return r->n_failed < 2 ? 0 : spot_backoff_s(r->n_failed - 1, pause_min_s, pause_max_s);
}

void spot_restart_print_end(int status, char how[48])
{
    if (WIFSIGNALED(status))
        snprintf(how, 48, "by signal %d", WTERMSIG(status));
    else
        snprintf(how, 48, "with exit status %d", WEXITSTATUS(status));
}

/* --- last words ------------------------------------------------------------------- */

int spot_last_words_pair(int fd[2], const char *first, struct spot_err *err)
{
    if (!is_in_environment)
        (void)putenv(passed);
    is_in_environment = true;
    if (spot_endpoint_pair(fd))
        return spot_err_sys(err, "cannot make a pair of sockets");
    if (*first)
        (void)!write(fd[0], first, strlen(first)); /* there is room, and without it nothing fails */
    return 0;
}

void spot_last_words_read(int fd, char text[SPOT_LAST_WORDS])
{
    const ssize_t n = fd < 0 ? 0 : read(fd, text, SPOT_LAST_WORDS - SPOT_UTF8_MAX);

    text[n > 0 ? n : 0] = '\0';
    spot_utf8_make_plain(text);
}

void spot_last_words_pass(int fd)
{
    snprintf(passed, sizeof(passed), "%s=%d", variable, fd);
    (void)fcntl(fd, F_SETFD, 0);
}

void spot_last_words_take(void)
{
    const char *const text = getenv(variable);
    const int fd = text ? (int)strtol(text, NULL, 10) : -1;
    ssize_t n;

    (void)unsetenv(variable);
    is_in_environment = false;
    if (fd <= STDERR_FILENO || spot_endpoint_process(fd) != getppid())
        return;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    own_fd = fd;
    n = read(fd, first_words, sizeof(first_words) - 1); /* sent before this process began */
    first_words[n > 0 ? n : 0] = '\0';
}

const char *spot_first_words(void)
{
    return first_words;
}

void spot_last_words_report(const struct spot_err *err)
{
    if (own_fd >= 0)
        (void)!write(own_fd, err->msg, strlen(err->msg));
}

/* SPDX-License-Identifier: MIT */
/* pace.c - a process that takes its time, to be preloaded. A job that is to go on until something
 * has come about then does so on any machine, and leaves the processors to others.
 *
 *   SPOT_PACE_MS        each line of a log takes so many milliseconds; 5 if not set
 *   SPOT_PACE_STOP      after so many lines of a file named log the process gets SIGTERM: a job is
 * stopped at that event
 *   SPOT_PACE_SEND_MS   each message takes so many; none if not set
 *   SPOT_PACE_UNEVEN    if set, messages take no time and 6 ms each by turns of 13: steps of a job
 * scatter
 *   SPOT_PACE_HOLD      while a file of this name exists, each message takes 200 ms: what is under
 * way stays so until a test has seen it
 *   SPOT_PACE_SLOW      while a file of this name exists, each look at the clock takes 5 ms more:
 * what is timed seems, and is, slow, however short it is
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void rest(long ms)
{
    struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

    while (ms && nanosleep(&left, &left) && errno == EINTR)
        ;
}

static void take_time(const char *name, long ms)
{
    const char *text = getenv(name);

    rest(text ? atol(text) : ms);
}

static bool is_log(int fd)
{
    char link[64], path[4096];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path));
    return n > 4 && !memcmp(path + n - 4, "/log", 4);
}

int fflush(FILE *file)
{
    static int (*real)(FILE *);
    static long n_line;
    const char *const stop = getenv("SPOT_PACE_STOP");
    int rc;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fflush");
    if (!file || fileno(file) <= STDERR_FILENO)
        return real(file);
    take_time("SPOT_PACE_MS", 5);
    rc = real(file);
    if (stop && is_log(fileno(file)) && ++n_line == atol(stop))
        (void)raise(SIGTERM);
    return rc;
}

static void take_uneven_time(void)
{
    static unsigned n;

    rest(n++ / 13 % 2 ? 0 : 6);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static ssize_t (*real)(int, const struct msghdr *, int);
    const char *const hold = getenv("SPOT_PACE_HOLD");

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
    if (hold && !access(hold, F_OK))
        rest(200);
    else if (getenv("SPOT_PACE_UNEVEN"))
        take_uneven_time();
    else
        take_time("SPOT_PACE_SEND_MS", 0);
    return real(fd, message, flags);
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    static int (*real)(clockid_t, struct timespec *);
    const char *slow = getenv("SPOT_PACE_SLOW");

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    if (slow && !access(slow, F_OK))
        rest(5);
    return real(id, at);
}

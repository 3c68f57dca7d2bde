/* SPDX-License-Identifier: MIT */
/* pace.c - a process that takes its time, to be preloaded. A job that is to go on until something
 * has come about then does so on any machine, and leaves the processors to others.
 *
 *   SPOT_PACE_MS        each line of a log takes so many milliseconds; 5 if not set
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
#include <stdio.h>
#include <stdlib.h>
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

int fflush(FILE *file)
{
    static int (*real)(FILE *);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fflush");
    if (file && fileno(file) > STDERR_FILENO)
        take_time("SPOT_PACE_MS", 5);
    return real(file);
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

/* SPDX-License-Identifier: MIT */
/* skew.c - a machine whose calendar is wrong and leaps: to be preloaded. The wall clock is off by
 * SPOT_SKEW_S seconds, and by another hour at every second look. What measures time by it, breaks.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long skew_s(void)
{
    static _Thread_local unsigned looks;
    const char *text = getenv("SPOT_SKEW_S");

    return (text ? atol(text) : 0) + (looks++ % 2 ? 3600 : 0);
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    static int (*real)(clockid_t, struct timespec *);
    int rc;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    rc = real(id, at);
    if (!rc && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        at->tv_sec += skew_s();
    return rc;
}

time_t time(time_t *out)
{
    struct timespec at;
    time_t now;

    clock_gettime(CLOCK_REALTIME, &at);
    now = at.tv_sec;
    if (out)
        *out = now;
    return now;
}

int gettimeofday(struct timeval *out, void *zone)
{
    struct timespec at;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &at);
    out->tv_sec = at.tv_sec;
    out->tv_usec = at.tv_nsec / 1000;
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "common/clock.h"

#include <errno.h>
#include <time.h>

static double read_s(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double spot_clock_s(void)
{
    return read_s(CLOCK_MONOTONIC);
}

double spot_clock_cpu_s(void)
{
    return read_s(CLOCK_PROCESS_CPUTIME_ID);
}

void spot_clock_sleep(double duration_s)
{
    struct timespec t;

    if (duration_s <= 0)
        return;
    t.tv_sec = (time_t)duration_s;
    t.tv_nsec = (long)((duration_s - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

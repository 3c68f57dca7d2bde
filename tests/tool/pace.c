/* SPDX-License-Identifier: MIT */
/* pace.c - a log that takes its time, to be preloaded: each line takes SPOT_PACE_MS milliseconds, 5
 * if that is not set. A job that is to go on until something has come about then leaves the
 * processors to others while it waits.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int fflush(FILE *file)
{
    static int (*real)(FILE *);
    const char *text = getenv("SPOT_PACE_MS");
    const long ms = text ? atol(text) : 5;
    struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fflush");
    if (file && fileno(file) > STDERR_FILENO)
        while (nanosleep(&left, &left) && errno == EINTR)
            ;
    return real(file);
}

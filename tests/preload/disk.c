/* SPDX-License-Identifier: MIT */
/* disk.c - a disk that is slow, or full for a while: to be preloaded. What is written to files of
 * the state (gen-STEP.tmp/bundle-*) or the journal of a server (tokens.log) takes SPOT_DISK_MS
 * milliseconds a call, writing and syncing, and reading them as long; while a file SPOT_DISK_FULL
 * exists there is no room for them. SPOT_DISK_NAME: what paths of such files contain instead.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_slow(int fd)
{
    const char *const name = getenv("SPOT_DISK_NAME");
    char link[48], path[4096];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    if (name)
        return strstr(path, name) != NULL;
    return strstr(path, "/bundle-") || strstr(path, "/tokens.log");
}

static void take_time(void)
{
    const char *text = getenv("SPOT_DISK_MS");
    const long ms = text ? atol(text) : 0;
    struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

    while (ms && nanosleep(&left, &left) && errno == EINTR)
        ;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    const char *full = getenv("SPOT_DISK_FULL");

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    if (is_slow(fd)) {
        take_time();
        if (full && !access(full, F_OK)) {
            errno = ENOSPC;
            return -1;
        }
    }
    return real(fd, data, n, at);
}

ssize_t pread(int fd, void *data, size_t n, off_t at)
{
    static ssize_t (*real)(int, void *, size_t, off_t);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pread");
    if (is_slow(fd))
        take_time();
    return real(fd, data, n, at);
}

int fsync(int fd)
{
    static int (*real)(int);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    if (is_slow(fd))
        take_time();
    return real(fd);
}

/* SPDX-License-Identifier: MIT */
/* reset.c - a network that resets a connection: to be preloaded. The SPOT_RESET_AT-th recv() of
 * the process fails with ECONNRESET, whatever had come.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

ssize_t recv(int fd, void *data, size_t n, int flags)
{
    static ssize_t (*real)(int, void *, size_t, int);
    static atomic_long n_call;
    const char *const at = getenv("SPOT_RESET_AT");

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "recv");
    if (at && atomic_fetch_add(&n_call, 1) + 1 == atol(at)) {
        errno = ECONNRESET;
        return -1;
    }
    return real(fd, data, n, flags);
}

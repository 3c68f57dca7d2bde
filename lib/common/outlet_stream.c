/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* fopencookie, memrchr. NOLINT(bugprone-reserved-identifier) */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/outlet.h"
#include "common/xalloc.h"

static const double flush_s = 0.1;

struct lines {
    struct spot_outlet *outlet;
    struct spot_buf begun; /* an incomplete line */
};

bool spot_outlet_is_needed(int fd)
{
    struct stat st;

    return !fstat(fd, &st) && !S_ISREG(st.st_mode);
}

/* A write function for fopencookie: returns 0 with errno on failure. */
static ssize_t write_lines(void *cookie, const char *text, size_t n)
{
    struct lines *const l = cookie;
    const unsigned char *end;
    size_t n_whole;

    spot_buf_add(&l->begun, text, n);
    end = memrchr(l->begun.data, '\n', l->begun.n);
    if (!end)
        return (ssize_t)n;
    n_whole = (size_t)(end - l->begun.data) + 1;
    if (spot_outlet_put(l->outlet, (const char *)l->begun.data, n_whole))
        return 0;
    l->begun.n -= n_whole;
    memmove(l->begun.data, end + 1, l->begun.n);
    if (!spot_outlet_wait(l->outlet, 0, flush_s) && spot_outlet_put(l->outlet, "", 0))
        return 0;
    return (ssize_t)n;
}

static int forget(void *cookie)
{
    struct lines *const l = cookie;

    spot_buf_release(&l->begun);
    free(l);
    return 0;
}

FILE *spot_outlet_stream(struct spot_outlet *outlet, struct spot_err *err)
{
    struct lines *const l = spot_xcalloc(1, sizeof(*l));
    FILE *stream;

    l->outlet = outlet;
    stream = fopencookie(l, "w", (cookie_io_functions_t){ .write = write_lines, .close = forget });
    if (stream)
        return stream;
    spot_err_sys(err, "cannot write output");
    free(l);
    return NULL;
}

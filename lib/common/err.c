/* SPDX-License-Identifier: MIT */
#include "common/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The message is kept, since the new one may quote it. */
static void begin(struct spot_err *err, enum spot_code code, int sys_errno)
{
    err->code = code;
    err->sys_errno = sys_errno;
    err->kind = NULL;
    memset(&err->at, 0, sizeof(err->at));
}

int spot_err_set(struct spot_err *err, enum spot_code code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    begin(err, code, 0);
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    return -1;
}

int spot_err_sys(struct spot_err *err, const char *fmt, ...)
{
    const int saved = errno;
    va_list ap;
    size_t len;

    if (!err)
        return -1;
    begin(err, SPOT_ESYS, saved);
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    len = strlen(err->msg);
    snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", strerror(saved));
    return -1;
}

int spot_err_at(struct spot_err *err, const char *source, unsigned long line, size_t column,
                const char *pointer, const char *fmt, ...)
{
    char place[48] = "", what[sizeof(err->msg)];
    size_t n = 0;
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    if (line)
        n = (size_t)snprintf(place, sizeof(place), ":%lu", line);
    if (column)
        n += (size_t)snprintf(place + n, sizeof(place) - n, ":%zu", column);
    if (pointer && !*pointer)
        pointer = "/";
    spot_err_set(err, SPOT_EDATA, "%.250s%s: %.250s%s%s", source, place, pointer ? pointer : "",
                 pointer ? ": " : "", what);
    err->kind = "value";
    err->at.line = line;
    err->at.column = column;
    err->at.file_byte = (unsigned short)strnlen(source, 250);
    err->at.pointer = (unsigned short)(err->at.file_byte + n + 2);
    err->at.n_pointer = (unsigned short)(pointer ? strnlen(pointer, 250) : 0);
    return -1;
}

int spot_err_kind(struct spot_err *err, const char *kind, int rc)
{
    if (err)
        err->kind = kind;
    return rc;
}

static const char *kind_of_errno(int number)
{
    switch (number) {
    case ENOENT:
        return "missing";
    case EACCES:
    case EPERM:
    case EROFS:
        return "access";
    case EEXIST:
    case ENOTEMPTY:
        return "exists";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return "full";
    case ENOMEM:
        return "memory";
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT:
    case EPIPE:
    case EADDRINUSE:
    case EADDRNOTAVAIL:
        return "network";
    default:
        return NULL;
    }
}

const char *spot_err_name(const struct spot_err *err, char name[SPOT_ERR_NAME])
{
    static const char *const code[] = {
        [SPOT_OK] = "ok",
        [SPOT_EINFEASIBLE] = "infeasible",
        [SPOT_EUSAGE] = "usage",
        [SPOT_EDATA] = "data",
        [SPOT_ESYS] = "system",
        [SPOT_EGPU] = "gpu",
        [SPOT_EPREEMPTED] = "preempted",
    };
    const char *const kind = err->kind ? err->kind : kind_of_errno(err->sys_errno);

    snprintf(name, SPOT_ERR_NAME, "%s%s%s", code[err->code], kind ? "." : "", kind ? kind : "");
    return name;
}

int spot_err_exit_status(const struct spot_err *err)
{
    static const int status[] = {
        [SPOT_OK] = 0,   [SPOT_EINFEASIBLE] = 1, [SPOT_EUSAGE] = 2,      [SPOT_EDATA] = 3,
        [SPOT_ESYS] = 4, [SPOT_EGPU] = 5,        [SPOT_EPREEMPTED] = 75,
    };

    return status[err->code];
}

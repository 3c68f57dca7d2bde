/* SPDX-License-Identifier: MIT */
#include "common/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int spot_err_set(struct spot_err *err, enum spot_code code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    err->code = code;
    err->sys_errno = 0;
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
    err->code = SPOT_ESYS;
    err->sys_errno = saved;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    len = strlen(err->msg);
    snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", strerror(saved));
    return -1;
}

int spot_err_exit_status(const struct spot_err *err)
{
    static const int status[] = {
        [SPOT_OK] = 0,   [SPOT_EINFEASIBLE] = 1, [SPOT_EUSAGE] = 2,      [SPOT_EDATA] = 3,
        [SPOT_ESYS] = 4, [SPOT_EGPU] = 5,        [SPOT_EPREEMPTED] = 75,
    };

    return status[err->code];
}

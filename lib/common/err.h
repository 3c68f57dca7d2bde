/* SPDX-License-Identifier: MIT */
/* err.h - the one error object that every fallible library call fills.
 *
 * Library code never prints and never exits. It fills *err and returns
 * nonzero; tools/ print it once, at the top, and pick the exit status.
 */
#ifndef SPOT_COMMON_ERR_H
#define SPOT_COMMON_ERR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spot_code {
    SPOT_OK = 0,
    SPOT_EINFEASIBLE, /* well-formed question, no acceptable answer */
    SPOT_EUSAGE,      /* the command line is wrong                  */
    SPOT_EDATA,       /* an input document is wrong                 */
    SPOT_ESYS,        /* an operating system call failed (errno) */
    SPOT_EGPU,        /* CUDA or NCCL failed */
    SPOT_EPREEMPTED,  /* told to leave; state is safe; run me again */
};

struct spot_err {
    enum spot_code code;
    int sys_errno; /* errno at the failure, 0 if none */
    char msg[512]; /* no trailing newline, no full stop */
};

#if defined(__GNUC__)
#define SPOT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define SPOT_PRINTF(f, a)
#endif

/* Fill *err (which may be NULL) and return -1, so that a failing function
 * can end in `return spot_err_set(err, SPOT_EDATA, "...")`. */
int spot_err_set(struct spot_err *err, enum spot_code code, const char *fmt, ...) SPOT_PRINTF(3, 4);

/* As spot_err_set with SPOT_ESYS; appends ": " and strerror(errno). */
int spot_err_sys(struct spot_err *err, const char *fmt, ...) SPOT_PRINTF(2, 3);

/* Exit status for a code; see exit-status table in docs/conventions.md. */
int spot_err_exit_status(const struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_ERR_H */

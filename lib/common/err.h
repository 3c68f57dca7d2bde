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
    SPOT_EPREEMPTED,  /* preempted; the state is safe; run again */
};

struct spot_err {
    enum spot_code code;
    int sys_errno; /* errno at the failure, 0 if none */
    /* kind within the code, a word such as "range"; NULL: none. See spot_err_name */
    const char *kind;
    struct {                        /* position in a document */
        unsigned long line, column; /* from 1; 0: not known */
        unsigned short file_byte;   /* length of the file name at the start of msg; 0: none */
        unsigned short pointer, n_pointer; /* the JSON pointer in msg: first byte and length */
    } at;
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

/* As spot_err_set with SPOT_EDATA, of a place in the document `source`: the message begins with
 * "source:line:column: pointer: ". Left out are line and column where 0, `pointer` where NULL; ""
 * is the whole document, and written as "/". */
int spot_err_at(struct spot_err *err, const char *source, unsigned long line, size_t column,
                const char *pointer, const char *fmt, ...) SPOT_PRINTF(6, 7);

/* Set the kind of an error that was just set: a static string from the list below. Returns rc, so
 * that it can wrap the call that set the error. */
int spot_err_kind(struct spot_err *err, const char *kind, int rc);

/* The name of an error for programs: its code, followed by its kind if it has one.
 *   data.syntax data.missing data.type data.range data.limit data.value data
 *   usage.unknown usage.missing usage.value usage
 *   system.missing system.access system.exists system.full system.memory system.network system
 *   infeasible gpu preempted
 * data: the document; .missing: a key or column it lacks; .limit: too large, too deep, too many.
 * usage: the command line. system.missing: no such file. Returns name. */
enum { SPOT_ERR_NAME = 32 };
const char *spot_err_name(const struct spot_err *err, char name[SPOT_ERR_NAME]);

/* Exit status for a code; see exit-status table in docs/conventions.md. */
int spot_err_exit_status(const struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_ERR_H */

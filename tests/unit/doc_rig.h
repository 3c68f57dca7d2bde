/* SPDX-License-Identifier: MIT */
/* doc_rig.h - documents as texts of a test: read from memory or a file, edited in one place, and
 * refused with exactly one message. */
#ifndef SPOT_TESTS_DOC_RIG_H
#define SPOT_TESTS_DOC_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/err.h"
#include "suite.h"

static inline FILE *opened(const char *text)
{
    FILE *const in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

    ck_assert_ptr_nonnull(in);
    return in;
}

/* A file that holds the text; `path` gets its name, which the caller unlinks. */
static inline void put_file(char path[32], const void *text, size_t n_byte)
{
    int fd;

    snprintf(path, 32, "/tmp/spot-doc-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, n_byte), (ssize_t)n_byte);
    close(fd);
}

/* The text with `to` in place of the first `from`, which must be there; free it. */
static inline char *edited(const char *text, const char *from, const char *to)
{
    const char *const at = strstr(text, from);
    const size_t n = strlen(text) + strlen(to) + 1;
    char *const out = malloc(n);

    ck_assert_msg(at != NULL, "no %s in %s", from, text);
    snprintf(out, n, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

static inline void expect_fail(int rc, const struct spot_err *err, int code, const char *want)
{
    ck_assert_int_eq(rc, -1);
    ck_assert_str_eq(err->msg, want);
    ck_assert_int_eq(err->code, code);
}

static inline void expect_refused(int rc, const struct spot_err *err, const char *want)
{
    expect_fail(rc, err, SPOT_EDATA, want);
}

/* Of a document: "t:LINE:COLUMN: " and what is wanted, which begins with the pointer. */
static inline void expect_refused_at(int rc, const struct spot_err *err, const char *want)
{
    const char *const at = strstr(err->msg, ": ");

    ck_assert_int_eq(rc, -1);
    ck_assert_msg(at && !strncmp(err->msg, "t:", 2), "%s", err->msg);
    ck_assert_str_eq(at + 2, want);
    ck_assert_int_eq(err->code, SPOT_EDATA);
}

#endif /* SPOT_TESTS_DOC_RIG_H */

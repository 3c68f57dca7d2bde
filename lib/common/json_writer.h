/* SPDX-License-Identifier: MIT */
/* json_writer.h - write one JSON document (RFC 8259) to a stream, in order.
 *
 * Keys come out in call order and numbers in the shortest form that reads
 * back to the same double, so equal inputs give byte-equal documents.
 * Invalid UTF-8 is replaced by U+FFFD.
 * NaN and infinities have no JSON form: writing one makes spot_jw_close fail.
 */
#ifndef SPOT_COMMON_JSON_WRITER_H
#define SPOT_COMMON_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_JW_DEPTH_MAX = 72 }; /* a value that was read may be 64 deep, and be nested in others */

struct spot_jw {
    FILE *out;
    bool pretty;
    bool bad; /* a value had no JSON form */
    int depth;
    char open[SPOT_JW_DEPTH_MAX]; /* '{' or '[' per level */
    bool need_comma[SPOT_JW_DEPTH_MAX];
};

void spot_jw_init(struct spot_jw *jw, FILE *out, bool pretty);

/* `key` is NULL at top level and inside arrays. */
void spot_jw_object(struct spot_jw *jw, const char *key);
void spot_jw_array(struct spot_jw *jw, const char *key);
void spot_jw_end(struct spot_jw *jw);
void spot_jw_str(struct spot_jw *jw, const char *key, const char *value);
/* The same for text[n], which may contain NUL. */
void spot_jw_text(struct spot_jw *jw, const char *key, const void *text, size_t n);
void spot_jw_real(struct spot_jw *jw, const char *key, double value);
/* Writes nothing if x is NaN, which stands for "not known". */
void spot_jw_known(struct spot_jw *jw, const char *key, double x);
void spot_jw_int(struct spot_jw *jw, const char *key, int64_t value);
void spot_jw_bool(struct spot_jw *jw, const char *key, bool value);
void spot_jw_null(struct spot_jw *jw, const char *key);
void spot_jw_raw(struct spot_jw *jw, const char *key, const char *text); /* already JSON */

/* An array of numbers on one line, pretty or not. */
void spot_jw_reals(struct spot_jw *jw, const char *key, const double *value, size_t n);
void spot_jw_ints(struct spot_jw *jw, const char *key, const int64_t *value, size_t n);

/* End the document with a newline and flush. Reports a full disk here. */
int spot_jw_close(struct spot_jw *jw, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_JSON_WRITER_H */

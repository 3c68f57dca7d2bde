/* SPDX-License-Identifier: MIT */
/* num.h - parses and formats numbers, independent of the locale. */
#ifndef SPOT_COMMON_NUM_H
#define SPOT_COMMON_NUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_NUM_TEXT = 32 };

/* The shortest decimal form that reads back to the same finite double.
 * Returns `text`. */
const char *spot_num_format(double value, char text[SPOT_NUM_TEXT]);

/* Parse a whole string as a finite double. Returns 0 or -1. */
int spot_num_parse(const char *text, double *value);

/* 90, 90s, 5m, 1h, 2d in seconds. Returns 0 or -1. */
int spot_num_parse_secs(const char *text, double *value_s);

/* 4096, 64KiB, 1.25GB, 2MiB in bytes. Returns 0 or -1. */
int spot_num_parse_size(const char *text, double *value_byte);

/* Negative, 0 or positive as n is less than, equal to or greater than x: exact, where converting n
 * to a double would round it. */
int spot_num_compare_whole(int64_t n, double x);

/* Comparison functions for qsort, ascending: of doubles, of int64_t, and of elements that point to
 * texts. */
int spot_num_compare(const void *a, const void *b);
int spot_num_compare_int64(const void *a, const void *b);
int spot_compare_texts(const void *a, const void *b);

/* The quantile q in [0, 1] of x[n], n > 0, which it sorts; interpolated linearly. */
double spot_num_quantile(double *x, size_t n, double q);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_NUM_H */

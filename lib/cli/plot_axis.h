/* SPDX-License-Identifier: MIT */
/* plot_axis.h - chooses the marks of an axis, and formats their numbers. */
#ifndef SPOT_CLI_PLOT_AXIS_H
#define SPOT_CLI_PLOT_AXIS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks at low, low + step, ..., low + n * step; n >= 1. */
struct spot_axis {
    double low, step;
    int n;
};

/* The finest axis over [low, high], both finite, with n <= most and a step of 1, 2 or 5 times a
 * power of ten. Axes of counts include 0 and have whole numbers only. */
struct spot_axis spot_axis_over(double low, double high, bool is_count, int most);

enum { SPOT_AXIS_TEXT = 32 };

/* "1.5M" for 1500000, with k, M, G, T from 1000 on if `is_large`; else all digits. Returns text. */
const char *spot_axis_text(double value, bool is_large, char text[SPOT_AXIS_TEXT]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_PLOT_AXIS_H */

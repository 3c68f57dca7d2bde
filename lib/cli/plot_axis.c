/* SPDX-License-Identifier: MIT */
#include "cli/plot_axis.h"

#include <math.h>
#include <stdio.h>

/* Number of steps from the mark at or below `low` to the mark at or above `high`. */
static double steps_over(double low, double high, double step)
{
    return ceil(high / step) - floor(low / step);
}

struct spot_axis spot_axis_over(double low, double high, bool is_count, int most)
{
    static const double next[] = { 2, 2.5, 2 }; /* 1, 2, 5, 10 */
    double step = 1;
    int k = 0;

    if (is_count) {
        low = fmin(low, 0);
        high = fmax(high, 1);
    } else {
        if (!(high > low))
            high = low + fmax(1, fabs(low));
        step = pow(10, floor(log10((high - low) / most)));
    }
    while (steps_over(low, high, step) > most)
        step *= next[k++ % 3];
    return (struct spot_axis){ .low = floor(low / step) * step,
                               .step = step,
                               .n = (int)steps_over(low, high, step) };
}

const char *spot_axis_text(double value, bool is_large, char text[SPOT_AXIS_TEXT])
{
    static const char prefix[] = "kMGT";
    const char *p = prefix;

    if (!is_large || fabs(value) < 1000) {
        snprintf(text, SPOT_AXIS_TEXT, "%.12g", value);
        return text;
    }
    value /= 1000;
    for (; fabs(value) >= 1000 && p[1]; p++)
        value /= 1000;
    snprintf(text, SPOT_AXIS_TEXT, "%.12g%c", value, *p);
    return text;
}

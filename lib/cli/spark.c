/* SPDX-License-Identifier: MIT */
#include "cli/spark.h"

void spot_spark(FILE *out, const double *x, size_t n, bool ascii)
{
    static const char *const block[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const plain[] = { " ", ".", ":", "-", "=", "+", "*", "#" };
    const char *const *glyph = ascii ? plain : block;
    double lo, hi;

    if (!n)
        return;
    lo = hi = x[0];
    for (size_t i = 1; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    for (size_t i = 0; i < n; i++) {
        const double unit = hi > lo ? (x[i] - lo) / (hi - lo) : 0;

        fputs(glyph[(int)(unit * 7 + 0.5)], out);
    }
}

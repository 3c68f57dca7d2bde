/* SPDX-License-Identifier: MIT */
/* growth.h - does work grow with its input, or with the square of it? Two sizes are compared within
 * a run, by the processor time of this thread alone: other programs make both slower alike. */
#ifndef SPOT_TESTS_GROWTH_H
#define SPOT_TESTS_GROWTH_H

#include <math.h>
#include <time.h>

#include "suite.h"

enum { GROWTH_TIMES = 8, GROWTH_REPEATS = 5 };

static inline double growth_cpu_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The least time of some tries; `work` returns what its part to be measured took. */
static inline double growth_least_s(double (*work)(size_t n), size_t n)
{
    double least_s = INFINITY;

    for (int i = 0; i < GROWTH_REPEATS; i++)
        least_s = fmin(least_s, work(n));
    return least_s;
}

/* Input of GROWTH_TIMES n may take GROWTH_TIMES of n's time, three times that at most: caches are
 * missed and tables grow. The square would take GROWTH_TIMES of that. n must take a millisecond. */
static inline void check_growth(const char *what, double (*work)(size_t n), size_t n)
{
    const double one_s = growth_least_s(work, n), many_s = growth_least_s(work, GROWTH_TIMES * n);

    ck_assert_msg(many_s < 3 * GROWTH_TIMES * one_s, "%s: %zu take %.6f s, %d times that %.6f s",
                  what, n, one_s, GROWTH_TIMES, many_s);
}

#endif

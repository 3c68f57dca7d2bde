/* SPDX-License-Identifier: MIT */
/* backoff.h - delay before the next try after several failures. */
#ifndef SPOT_COMMON_BACKOFF_H
#define SPOT_COMMON_BACKOFF_H

#ifdef __cplusplus
extern "C" {
#endif

/* The delay after n failures, n >= 1: least_s after the first, doubled after each further one, at
 * most most_s. */
static inline double spot_backoff_s(int n, double least_s, double most_s)
{
    double s = least_s;

    for (; n > 1 && s < most_s; n--)
        s *= 2;
    return s < most_s ? s : most_s;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_BACKOFF_H */

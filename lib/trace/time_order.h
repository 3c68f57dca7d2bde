/* SPDX-License-Identifier: MIT */
/* time_order.h - sorts rows by time. */
#ifndef SPOT_TRACE_TIME_ORDER_H
#define SPOT_TRACE_TIME_ORDER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* order[i]: the number of the row that comes i-th by time; rows with equal times keep their order.
 * The n times, none of them NaN, begin at time_s and are `stride` bytes apart. O(n log n). */
void spot_time_order(const double *time_s, size_t stride, size_t n, size_t *order);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_TIME_ORDER_H */

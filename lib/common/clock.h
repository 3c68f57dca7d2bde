/* SPDX-License-Identifier: MIT */
/* clock.h - time that only moves forward, in seconds. */
#ifndef SPOT_COMMON_CLOCK_H
#define SPOT_COMMON_CLOCK_H

#ifdef __cplusplus
extern "C" {
#endif

double spot_clock_s(void);     /* monotonic, arbitrary origin */
double spot_clock_cpu_s(void); /* CPU time of this process */
void spot_clock_sleep(double duration_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_CLOCK_H */

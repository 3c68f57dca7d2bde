/* SPDX-License-Identifier: MIT */
/* clock.h - time that only moves forward, in seconds. */
#pragma once

double spot_clock_s(void);     /* monotonic, arbitrary origin */
double spot_clock_cpu_s(void); /* CPU time of this process */
void spot_clock_sleep(double duration_s);

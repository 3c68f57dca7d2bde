/* SPDX-License-Identifier: MIT */
/* bench_spotdnn - every plan of seven types with a quota of ten each (11^7), on one core. Speeds of
 * two types are made up: the time is what counts. */
#include <stdio.h>
#include <time.h>

#include "plan/fleet.h"

int main(void)
{
    static const struct spot_dnn_type type[] = {
        { 1.25, 0.38356424328464145, 1024, 0.543, 1, 10, 0, 0 },
        { 0.36, 1.2056615023474178, 1024, 1.365, 1, 10, 0, 0 },
        { 0.69, 0.8485220786408034, 1024, 1.006, 2, 10, 0, 0 },
        { 1.37, 0.8737945850541847, 2048, 1.027, 4, 10, 0, 0 },
        { 2.16, 3.7297142210235408, 8192, 3.873, 8, 10, 0, 0 },
        { 0.34, 0.84, 512, 1.0, 1, 10, 0, 0 },
        { 1.22, 1.25, 4096, 1.4, 4, 10, 0, 0 },
    };
    static const struct spot_dnn_job job = {
        11.5, 142, 1200, 0, .8, -1.92, { 876.5, -.2, 2507.6, 0, .5 }, false, type, 7, 0, 0
    };
    struct spot_dnn_speed speed;
    int64_t count[7];
    const clock_t start = clock();

    if (spot_dnn_best(&job, 0.8, 2400, count, &speed))
        return 1;
    printf("11^7 plans: %.2f s of one core, %.4f usd in %.0f s\n",
           (double)(clock() - start) / CLOCKS_PER_SEC, speed.usd, speed.time_s);
    return 0;
}

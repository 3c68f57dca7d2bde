/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/cpu/kernel_cpu.h"

/* x = 2^e f, f in [sqrt(1/2), sqrt(2)); log f = 2 atanh(z), z = (f - 1) / (f + 1), |z| < 0.1716, by
 * its series: the first omitted term, z^23 / 23, is below 1e-18 of the sum. */
double spot_log(double x)
{
    uint64_t bits;
    int64_t e;
    double f, z, z2, p = 0;

    memcpy(&bits, &x, sizeof(bits));
    e = (int64_t)(bits >> 52) - 1022;
    bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3fe0000000000000);
    memcpy(&f, &bits, sizeof(f));
    if (!(x >= 0x1p-1022) || e > 1024)
        return x > 0 ? x : NAN;
    if (f < 0.70710678118654752) {
        f *= 2;
        e--;
    }
    z = (f - 1) / (f + 1);
    z2 = z * z;
    for (int i = 21; i >= 3; i -= 2)
        p = p * z2 + 1.0 / i;
    p = p * z2 + 1;
    return 2 * z * p + ((double)e * 1.9082149292705877e-10 + (double)e * 0.693147180369123816490);
}

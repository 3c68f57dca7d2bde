/* SPDX-License-Identifier: MIT */
#include "engine/llama_rope.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/kernel_cpu.h"

/* x = -n ln 2 + r, |r| <= ln(2)/2; the series' first term left out, r^14 / 14!, is below 1e-17. */
static double exp_down(double x)
{
    const int64_t n = (int64_t)(0.5 - x * 1.4426950408889634);
    const double r = (x + (double)n * 0.693147180369123816490) + (double)n * 1.9082149292705877e-10;
    const uint64_t bits = (uint64_t)(1023 - n) << 52;
    double p = 1, scale;

    for (int i = 13; i >= 1; i--)
        p = p * r / i + 1;
    memcpy(&scale, &bits, sizeof(scale));
    return p * scale;
}

/* What is far down, or no number, fits no integer. */
double spot_exp_down(double x)
{
    return x >= -700 ? exp_down(x) : isnan(x) ? x : 0;
}

/* x = n pi/2 + r, |r| <= pi/4, pi/2 in two parts of which the first has 33 bits, so that its
 * product with n is exact; the terms left out, r^19 / 19! and r^20 / 20!, are below 1e-19. */
void spot_sincos(double x, double *sine, double *cosine)
{
    const int64_t n = (int64_t)(x * 0.63661977236758134 + 0.5);
    const double r =
        (x - (double)n * 1.57079632673412561417) - (double)n * 6.07710050650619224932e-11;
    const double r2 = r * r;
    double s = 1, c = 1;

    for (int i = 17; i >= 3; i -= 2)
        s = 1 - s * r2 / (i * (i - 1));
    for (int i = 18; i >= 2; i -= 2)
        c = 1 - c * r2 / (i * (i - 1));
    s *= r;
    *sine = n & 1 ? c : s;
    *cosine = n & 1 ? s : c;
    if (n & 2)
        *sine = -*sine;
    if ((n + 1) & 2)
        *cosine = -*cosine;
}

void spot_rope_table(float *turn, int64_t seq, int64_t head_dim, double theta)
{
    const int64_t half = head_dim / 2;
    const double log_theta = spot_log(theta);

    for (int64_t i = 0; i < half; i++) {
        const double speed = spot_exp_down(-2.0 * (double)i / (double)head_dim * log_theta);

        for (int64_t t = 0; t < seq; t++) {
            double sine, cosine;

            spot_sincos((double)t * speed, &sine, &cosine);
            turn[t * head_dim + i] = (float)cosine;
            turn[t * head_dim + half + i] = (float)sine;
        }
    }
}

/* SPDX-License-Identifier: MIT */
#include "engine/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "engine/cpu/kernel_cpu.h"

/* x = -n ln 2 + r, |r| <= ln(2)/2; the first omitted term of the series, r^14 / 14!, is below
 * 1e-17. */
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

/* Very negative arguments and NaN do not fit an integer. */
double spot_exp_down(double x)
{
    return x >= -700 ? exp_down(x) : isnan(x) ? x : 0;
}

/* x = n pi/2 + r, |r| <= pi/4, pi/2 in two parts of which the first has 33 bits, so that its
 * product with n is exact; the first omitted terms, r^19 / 19! and r^20 / 20!, are below 1e-19. */
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

/* --- speeds of rotation --------------------------------------------------------------- */

static const double two_pi = 6.283185307179586477;

/* Interpolates between long wavelengths, whose speed is divided by the factor, and short ones,
 * whose speed is not changed (Llama 3.1). */
static double by_wavelength(const struct spot_decoder *d, double speed)
{
    const double turns = (double)d->rope_original * speed / two_pi;
    const double keep = (turns - d->rope_low) / (d->rope_high - d->rope_low);

    if (turns > d->rope_high)
        return speed;
    if (turns < d->rope_low)
        return speed / d->rope_factor;
    return (1 - keep) * speed / d->rope_factor + keep * speed;
}

/* The pair that turns n times over all original positions. */
static double pair_of(const struct spot_shape *s, double n)
{
    return (double)spot_shape_rotary(s) * spot_log((double)s->kind.rope_original / (n * two_pi)) /
           (2 * spot_log(s->rope_theta));
}

static double by_pair(const struct spot_shape *s, double speed, int64_t pair)
{
    const struct spot_decoder *const d = &s->kind;
    const double last = (double)spot_shape_rotary(s) - 1;
    double low = pair_of(s, d->rope_high), high = pair_of(s, d->rope_low), keep;

    if (!d->rope_is_whole) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > last ? last : high;
    if (high == low)
        high += 0.001;
    keep = ((double)pair - low) / (high - low);
    keep = keep < 0 ? 1 : keep > 1 ? 0 : 1 - keep;
    return speed / d->rope_factor * (1 - keep) + speed * keep;
}

void spot_rope_speeds(double *speed, const struct spot_shape *s, bool is_local)
{
    const struct spot_decoder *const d = &s->kind;
    const bool is_own = is_local && d->rope_theta_local != 0;
    const int64_t n = spot_shape_rotary(s);
    const double log_theta = spot_log(is_own ? d->rope_theta_local : s->rope_theta);

    for (int64_t i = 0; i < n / 2; i++) {
        speed[i] = spot_exp_down(-2.0 * (double)i / (double)n * log_theta);
        if (is_own)
            continue;
        if (d->rope_scaling == SPOT_ROPE_LINEAR)
            speed[i] /= d->rope_factor;
        else if (d->rope_scaling == SPOT_ROPE_LLAMA3)
            speed[i] = by_wavelength(d, speed[i]);
        else if (d->rope_scaling == SPOT_ROPE_YARN)
            speed[i] = by_pair(s, speed[i], i);
        else if (d->rope_scaling == SPOT_ROPE_LONG)
            speed[i] /= d->rope_divisor[i];
    }
}

double spot_rope_gain(const struct spot_shape *s, bool is_local)
{
    const struct spot_decoder *const d = &s->kind;

    if (is_local && d->rope_theta_local != 0)
        return 1;
    if (d->rope_scaling == SPOT_ROPE_LONG)
        return d->rope_gain;
    if (d->rope_scaling != SPOT_ROPE_YARN)
        return 1;
    return d->rope_gain != 0 ? d->rope_gain : 0.1 * spot_log(d->rope_factor) + 1;
}

void spot_rope_row(float *turn, const double *speed, int64_t half, int64_t position, double gain)
{
    for (int64_t i = 0; i < half; i++) {
        double sine, cosine;

        spot_sincos((double)position * speed[i], &sine, &cosine);
        turn[i] = (float)(cosine * gain);
        turn[half + i] = (float)(sine * gain);
    }
}

void spot_rope_table(float *turn, const struct spot_shape *s, bool is_local)
{
    const int64_t n = spot_shape_rotary(s);
    double *const speed = spot_xcalloc((size_t)n, sizeof(*speed));

    spot_rope_speeds(speed, s, is_local);
    for (int64_t t = 0; t < s->seq; t++)
        spot_rope_row(turn + t * n, speed, n / 2, t, spot_rope_gain(s, is_local));
    free(speed);
}

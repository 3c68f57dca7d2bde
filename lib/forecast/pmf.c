/* SPDX-License-Identifier: MIT */
#include "forecast/pmf.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static const double SD_MIN = 0.05;

void spot_pmf_point(double *p, int cap, int k)
{
    memset(p, 0, ((size_t)cap + 1) * sizeof(*p));
    p[k < 0 ? 0 : k > cap ? cap : k] = 1;
}

/* Phi by Taylor's series around the nearest of a table of points 1/64 apart: to 1e-12, and four
 * times as fast as erfc, which was most of the cost of a normal forecast. */
enum { REACH = 8, PER_UNIT = 64, POINTS = 2 * REACH * PER_UNIT + 1 };

static double cdf_at[POINTS], density_at[POINTS];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (int i = 0; i < POINTS; i++) {
        const double z = (double)i / PER_UNIT - REACH;

        cdf_at[i] = 0.5 * erfc(-z * 0.70710678118654752440);
        density_at[i] = 0.39894228040143267794 * exp(-0.5 * z * z);
    }
}

static double normal_cdf(double z)
{
    int i;
    double at, t;

    if (z <= -REACH || z >= REACH)
        return z > 0;
    i = (int)((z + REACH) * PER_UNIT + 0.5);
    at = (double)i / PER_UNIT - REACH;
    t = z - at;
    return cdf_at[i] +
           density_at[i] * t *
               (1 - t * (at / 2 - t * ((at * at - 1) / 6 - t * at * (at * at - 3) / 24)));
}

static int clamp(double x, int lo, int hi)
{
    return x > lo ? x < hi ? (int)x : hi : lo;
}

void spot_pmf_normal(double *p, int cap, double mean, double sd)
{
    const double s = sd > SD_MIN ? sd : SD_MIN, scale = 1 / s;
    const int first = clamp(mean - REACH * s - 0.5, 0, cap); /* no mass to speak of before */
    const int end = clamp(mean + REACH * s + 1.5, 0, cap);   /* nor from here on, but the tail */
    double below = 0; /* Phi of the cell's lower edge; the first one folds the left tail in */

    pthread_once(&table_once, fill_table);
    memset(p, 0, ((size_t)cap + 1) * sizeof(*p));
    for (int k = first; k < end; k++) {
        const double upto = normal_cdf((k + 0.5 - mean) * scale);

        p[k] = upto > below ? upto - below : 0;
        below = upto > below ? upto : below;
    }
    p[end] = 1 - below;
}

void spot_pmf_add(double *p, const double *q, int cap, double weight)
{
    for (int k = 0; k <= cap; k++)
        p[k] += weight * q[k];
}

void spot_pmf_normalize(double *p, int cap, int fallback)
{
    double sum = 0;

    for (int k = 0; k <= cap; k++)
        sum += p[k];
    if (!(sum > 1e-300)) {
        spot_pmf_point(p, cap, fallback);
        return;
    }
    sum = 1 / sum;
    for (int k = 0; k <= cap; k++)
        p[k] *= sum;
}

double spot_pmf_mean(const double *p, int cap)
{
    double mean = 0;

    for (int k = 1; k <= cap; k++)
        mean += k * p[k];
    return mean;
}

int spot_pmf_quantile(const double *p, int cap, double prob)
{
    double sum = 0;
    int k = 0;

    for (; k < cap; k++) {
        sum += p[k];
        if (sum >= prob - 1e-12)
            break;
    }
    return k;
}

double spot_pmf_crps(const double *p, int cap, int y)
{
    double sum = 0, score = 0;

    for (int k = 0; k <= cap; k++) {
        sum += p[k];
        score += (sum - (y <= k)) * (sum - (y <= k));
    }
    return score;
}

double spot_pmf_below(const double *p, int now)
{
    double sum = 0;

    for (int k = 0; k < now; k++)
        sum += p[k];
    return sum < 1 ? sum : 1;
}

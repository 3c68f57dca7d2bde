/* SPDX-License-Identifier: MIT */
#include "forecast/pmf.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "common/simd.h"

static const double SD_MIN = 0.05;

void spot_pmf_point(double *p, int cap, int k)
{
    memset(p, 0, ((size_t)cap + 1) * sizeof(*p));
    p[k < 0 ? 0 : k > cap ? cap : k] = 1;
}

/* Phi by Taylor series of degree 5 around the nearest of a table of points 1/32 apart: accurate to
 * 1e-12, and several times as fast as erfc, which took most of the time of a normal forecast. */
enum { REACH = 8, PER_UNIT = 32, POINTS = 2 * REACH * PER_UNIT + 1, TERMS = 6 };

/* coefficients of t^0 .. t^5, each point in a cache line of its own */
static _Alignas(64) double series_at[POINTS][8];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

/* The derivatives of Phi are its density times Hermite polynomials of alternating sign:
 * He[k+1] = z He[k] - k He[k-1]. */
static void fill_table(void)
{
    for (int i = 0; i < POINTS; i++) {
        const double z = (double)i / PER_UNIT - REACH;
        double he = 1, before = 0, factor = 0.39894228040143267794 * exp(-0.5 * z * z);

        series_at[i][0] = 0.5 * erfc(-z * 0.70710678118654752440);
        for (int k = 1; k < TERMS; k++) {
            const double next = z * he - (k - 1) * before;

            factor /= k; /* density times (-1)^(k-1) / k! */
            series_at[i][k] = factor * he;
            factor = -factor;
            before = he;
            he = next;
        }
    }
}

/* p [4] <- Phi((edge - mean) * scale) at four edges that are `apart`; between -REACH and REACH. */
SPOT_SIMD_INLINE void four_cdf(double edge, double apart, double mean, double scale, double *p)
{
    typedef int ints __attribute__((vector_size(16)));
    const spot_four z = (edge + apart * (spot_four){ 0, 1, 2, 3 } - mean) * scale;
    const ints i = __builtin_convertvector((z + REACH) * PER_UNIT + 0.5, ints);
    const spot_four t = z + REACH - __builtin_convertvector(i, spot_four) / PER_UNIT;
    spot_four sum = { 0 };

    for (int k = TERMS; k--;)
        sum = t * sum + (spot_four){ series_at[i[0]][k], series_at[i[1]][k], series_at[i[2]][k],
                                     series_at[i[3]][k] };
    *(spot_four *)p = sum;
}

/* p[k] <- Phi((k + 1/2 - mean) * scale) for first <= k < end */
SPOT_SIMD_INLINE void upper_edges(double *p, int first, int end, double mean, double scale)
{
    for (; first < end && (first + 0.5 - mean) * scale <= -REACH; first++)
        p[first] = 0;
    for (; first < end && (end - 0.5 - mean) * scale >= REACH; end--)
        p[end - 1] = 1;
    if (first + 4 <= end) { /* the last four may overlap with those before */
        for (int k = first; k < end; k += 4) {
            const int at = k + 4 <= end ? k : end - 4;

            four_cdf(at + 0.5, 1, mean, scale, p + at);
        }
        return;
    }
    for (; first < end; first++) {
        double same[4];

        four_cdf(first + 0.5, 0, mean, scale, same);
        p[first] = same[0];
    }
}

static int clamp(double x, int lo, int hi)
{
    return x > lo ? x < hi ? (int)x : hi : lo;
}

SPOT_SIMD_INLINE void normal_inline(double *p, int cap, double mean, double sd)
{
    const double s = sd > SD_MIN ? sd : SD_MIN;
    /* below this count there is no noticeable probability */
    const int first = clamp(mean - REACH * s - 0.5, 0, cap);
    /* and none from here on, except the tail */
    const int end = clamp(mean + REACH * s + 1.5, 0, cap);
    int k = end - 1;

    memset(p, 0, ((size_t)cap + 1) * sizeof(*p));
    upper_edges(p, first, end, mean, 1 / s);
    p[end] = end > first ? 1 - p[end - 1] : 1;
    for (; k - 4 >= first; k -= 4) { /* the differences; the first cell keeps the left tail */
        const spot_four upper = *(spot_four *)(p + k - 3), lower = *(spot_four *)(p + k - 4);
        const __typeof__(upper > lower) is_more = upper > lower;

        *(spot_four *)(p + k - 3) = (spot_four)((__typeof__(is_more))(upper - lower) & is_more);
    }
    for (; k > first; k--)
        p[k] = p[k] > p[k - 1] ? p[k] - p[k - 1] : 0;
}

SPOT_SIMD_TWICE(normal, (double *p, int cap, double mean, double sd), (p, cap, mean, sd))

void spot_pmf_normal(double *p, int cap, double mean, double sd)
{
    pthread_once(&table_once, fill_table);
    normal(p, cap, mean, sd);
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

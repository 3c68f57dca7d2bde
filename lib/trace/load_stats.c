/* SPDX-License-Identifier: MIT */
#include "trace/load_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static const double width_s[SPOT_LOAD_WIDTHS] = { 1, 10, 60, 600 };
static const double BINS_MAX = 1 << 24;

static double mean_of(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / (double)n : NAN;
}

/* Mean product of deviations at distance `lag`, divided by n. */
static double covariance(const double *x, size_t n, size_t lag, double mean)
{
    double sum = 0;

    for (size_t i = 0; i + lag < n; i++)
        sum += (x[i] - mean) * (x[i + lag] - mean);
    return n ? sum / (double)n : NAN;
}

static double autocorrelation(const double *x, size_t n, size_t lag)
{
    const double mean = mean_of(x, n), variance = covariance(x, n, 0, mean);

    return n > lag + 1 && variance > 0 ? covariance(x, n, lag, mean) / variance : NAN;
}

void spot_load_count(const struct spot_load *load, double start_s, double bin_s, size_t n,
                     double *count)
{
    memset(count, 0, n * sizeof(*count));
    for (size_t i = 0; i < load->n; i++) {
        const double k = floor((load->time_s[i] - start_s) / bin_s);

        if (k >= 0 && k < (double)n)
            count[(size_t)k]++;
    }
}

static void count_arrivals(const struct spot_load *load, double bin_s, struct spot_load_counts *c)
{
    const double start_s = load->time_s[0];
    const double n = floor((load->time_s[load->n - 1] - start_s) / bin_s);
    double *count, mean;

    *c = (struct spot_load_counts){ .bin_s = bin_s, .dispersion = NAN, .peak_per_s = NAN };
    for (size_t k = 0; k < SPOT_LOAD_LAGS; k++)
        c->autocorrelation[k] = NAN;
    if (n < 2 || n > BINS_MAX)
        return;
    c->n = (size_t)n;
    count = spot_xcalloc(c->n, sizeof(*count));
    spot_load_count(load, start_s, bin_s, c->n, count);
    mean = mean_of(count, c->n);
    c->dispersion = mean > 0 ? covariance(count, c->n, 0, mean) / mean : NAN;
    c->peak_per_s = 0;
    for (size_t i = 0; i < c->n; i++)
        c->peak_per_s = fmax(c->peak_per_s, count[i] / bin_s);
    for (size_t k = 0; k < SPOT_LOAD_LAGS; k++)
        c->autocorrelation[k] = autocorrelation(count, c->n, k + 1);
    free(count);
}

static int by_value(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

int32_t *spot_load_sorted(const int32_t *token, size_t n)
{
    int32_t *sorted = spot_xcalloc(n, sizeof(*sorted));

    memcpy(sorted, token, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_value);
    return sorted;
}

static int32_t rank(const int32_t *sorted, size_t n, double share)
{
    const size_t k = (size_t)ceil(share * (double)n);

    return sorted[k ? k - 1 : 0];
}

static void sum_lengths(const int32_t *token, size_t n, struct spot_load_lengths *l)
{
    int32_t *sorted = spot_load_sorted(token, n);
    double sum = 0, square = 0;

    for (size_t i = 0; i < n; i++)
        sum += token[i];
    l->mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        square += (token[i] - l->mean) * (token[i] - l->mean);
    l->cv = sqrt(square / (double)n) / l->mean;
    l->min = sorted[0];
    l->p50 = rank(sorted, n, 0.5);
    l->p90 = rank(sorted, n, 0.9);
    l->p99 = rank(sorted, n, 0.99);
    l->max = sorted[n - 1];
    free(sorted);
}

static double correlate_lengths(const struct spot_load *load, const struct spot_load_stats *s)
{
    const double scale = s->prompt.cv * s->prompt.mean * s->output.cv * s->output.mean;
    double sum = 0;

    for (size_t i = 0; i < load->n; i++)
        sum += (load->prompt_token[i] - s->prompt.mean) * (load->output_token[i] - s->output.mean);
    return scale > 0 ? sum / (double)load->n / scale : NAN;
}

static void sum_gaps(const struct spot_load *load, struct spot_load_stats *s)
{
    const size_t n = load->n - 1;
    double *gap = spot_xcalloc(n + 1, sizeof(*gap)), mean;

    for (size_t i = 0; i < n; i++)
        gap[i] = load->time_s[i + 1] - load->time_s[i];
    mean = mean_of(gap, n);
    s->gap_cv = n > 1 && mean > 0 ? sqrt(covariance(gap, n, 0, mean)) / mean : NAN;
    s->gap_autocorrelation = autocorrelation(gap, n, 1);
    free(gap);
}

void spot_load_stats(const struct spot_load *load, struct spot_load_stats *s)
{
    double span_s;

    *s = (struct spot_load_stats){ .n = load->n,
                                   .start_s = load->time_s[0],
                                   .end_s = load->time_s[load->n - 1] };
    span_s = s->end_s - s->start_s;
    s->rate_per_s = span_s > 0 ? (double)(load->n - 1) / span_s : NAN;
    sum_gaps(load, s);
    for (size_t k = 0; k < SPOT_LOAD_WIDTHS; k++)
        count_arrivals(load, width_s[k], &s->counts[k]);
    sum_lengths(load->prompt_token, load->n, &s->prompt);
    sum_lengths(load->output_token, load->n, &s->output);
    s->length_correlation = correlate_lengths(load, s);
    s->token_per_s = s->rate_per_s * s->output.mean;
}

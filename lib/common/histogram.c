/* SPDX-License-Identifier: MIT */
#include "common/histogram.h"

#include <math.h>
#include <stdio.h>

static const double least_s = 0.00025;

double spot_histogram_bound_s(int i)
{
    return ldexp(least_s, i);
}

void spot_histogram_add(struct spot_histogram *h, double time_s)
{
    int i = 0;

    while (i < SPOT_HISTOGRAM_BUCKETS && time_s > spot_histogram_bound_s(i))
        i++;
    h->count[i]++;
    h->n++;
    h->sum_s += time_s;
}

void spot_histogram_merge(struct spot_histogram *h, const struct spot_histogram *other)
{
    for (int i = 0; i <= SPOT_HISTOGRAM_BUCKETS; i++)
        h->count[i] += other->count[i];
    h->n += other->n;
    h->sum_s += other->sum_s;
}

double spot_histogram_quantile_s(const struct spot_histogram *h, double q)
{
    const double rank = q * (double)h->n;
    double below = 0;

    for (int i = 0; h->n && i < SPOT_HISTOGRAM_BUCKETS; i++) {
        const double low_s = i ? spot_histogram_bound_s(i - 1) : 0, n = (double)h->count[i];

        if (n > 0 && below + n >= rank)
            return low_s + (spot_histogram_bound_s(i) - low_s) * (rank - below) / n;
        below += n;
    }
    return h->n ? spot_histogram_bound_s(SPOT_HISTOGRAM_BUCKETS - 1) : 0;
}

static void put_line(struct spot_buf *out, const char *name, const char *label, const char *bound,
                     uint64_t n)
{
    char line[256];
    const int length = snprintf(line, sizeof(line), "%s_bucket{%s%sle=\"%s\"} %llu\n", name,
                                label ? label : "", label ? "," : "", bound, (unsigned long long)n);

    spot_buf_add(out, line, (size_t)length);
}

void spot_histogram_put(const struct spot_histogram *h, const char *name, const char *label,
                        struct spot_buf *out)
{
    const char *const open = label ? "{" : "", *const close = label ? "}" : "";
    char text[512];
    uint64_t n = 0;
    int length;

    for (int i = 0; i < SPOT_HISTOGRAM_BUCKETS; i++) {
        n += h->count[i];
        snprintf(text, sizeof(text), "%g", spot_histogram_bound_s(i));
        put_line(out, name, label, text, n);
    }
    put_line(out, name, label, "+Inf", h->n);
    label = label ? label : "";
    length = snprintf(text, sizeof(text), "%s_sum%s%s%s %.17g\n%s_count%s%s%s %llu\n", name, open,
                      label, close, h->sum_s, name, open, label, close, (unsigned long long)h->n);
    spot_buf_add(out, text, (size_t)length);
}

/* SPDX-License-Identifier: MIT */
#include "trace/trace_stats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

/* Radix sort by the bits of positive numbers, which are in the same order, one byte at a time;
 * bytes common to all numbers are skipped. */
static void sort_positive(double *x, size_t n)
{
    enum { FEW = 512, BYTES = 8 };
    uint64_t *from, *to, *memory;
    size_t start[BYTES][256] = { 0 };

    if (n < FEW) {
        qsort(x, n, sizeof(*x), spot_num_compare);
        return;
    }
    memory = spot_xcalloc(2 * n, sizeof(*memory));
    from = memory, to = memory + n;
    memcpy(from, x, n * sizeof(*x));
    for (size_t i = 0; i < n; i++)
        for (int b = 0; b < BYTES; b++)
            start[b][from[i] >> (8 * b) & 255]++;
    for (int b = 0; b < BYTES; b++) {
        uint64_t *swap = from;
        size_t sum = 0;

        if (start[b][from[0] >> (8 * b) & 255] == n)
            continue;
        for (int k = 0; k < 256; k++) {
            const size_t here = start[b][k];

            start[b][k] = sum;
            sum += here;
        }
        for (size_t i = 0; i < n; i++)
            to[start[b][from[i] >> (8 * b) & 255]++] = from[i];
        from = to, to = swap;
    }
    memcpy(x, from, n * sizeof(*x));
    free(memory);
}

/* The nearest rank: the smallest x with at least a share p of all values at or below it. */
static double quantile(const double *sorted, size_t n, double p)
{
    const double rank = ceil(p * (double)n);

    return n ? sorted[rank > 1 ? (size_t)rank - 1 : 0] : NAN;
}

/* The time until which row i holds. */
static double held_until_s(const struct spot_trace_series *s, size_t i, double end_s)
{
    return i + 1 < s->n ? s->time_s[i + 1] : end_s;
}

static void take_moves(const struct spot_trace_series *s, int sign, double span_s,
                       struct spot_trace_moves *moves)
{
    double *size = spot_xcalloc(s->n, sizeof(*size));

    *moves = (struct spot_trace_moves){ 0 };
    for (size_t i = 1; i < s->n; i++) {
        const int32_t move = sign * (s->available[i] - s->available[i - 1]);

        if (move > 0) {
            size[moves->n++] = move;
            moves->machines += move;
        }
    }
    sort_positive(size, moves->n);
    moves->per_h = span_s > 0 ? (double)moves->n * 3600 / span_s : NAN;
    moves->size_mean = moves->n ? (double)moves->machines / (double)moves->n : NAN;
    moves->size_p50 = quantile(size, moves->n, 0.5);
    moves->size_p90 = quantile(size, moves->n, 0.9);
    moves->size_max = quantile(size, moves->n, 1);
    free(size);
}

static void take_runs(const struct spot_trace_series *s, struct spot_trace_stats *stats)
{
    double *run_s = spot_xcalloc(s->n, sizeof(*run_s));
    double last_s = NAN, sum = 0, square = 0;
    size_t n = 0;

    for (size_t i = 1; i < s->n; i++)
        if (s->available[i] != s->available[i - 1]) {
            if (!isnan(last_s))
                run_s[n++] = s->time_s[i] - last_s;
            last_s = s->time_s[i];
        }
    sort_positive(run_s, n);
    for (size_t i = 0; i < n; i++)
        sum += run_s[i];
    for (size_t i = 0; i < n; i++)
        square += (run_s[i] - sum / (double)n) * (run_s[i] - sum / (double)n);
    stats->n_run = n;
    stats->run_mean_s = n ? sum / (double)n : NAN;
    stats->run_median_s = quantile(run_s, n, 0.5);
    stats->run_max_s = quantile(run_s, n, 1);
    stats->run_cv = n ? sqrt(square / (double)n) / stats->run_mean_s : NAN;
    free(run_s);
}

static double mean_price(const struct spot_trace_series *s, double end_s)
{
    double sum = 0, time_s = 0;

    for (size_t i = 0; s->price_usd_per_h && i < s->n; i++) {
        const double held_s = held_until_s(s, i, end_s) - s->time_s[i];

        if (isnan(s->price_usd_per_h[i]))
            continue;
        sum += s->price_usd_per_h[i] * held_s;
        time_s += held_s;
    }
    return time_s > 0 ? sum / time_s : NAN;
}

void spot_trace_stats(const struct spot_trace_series *s, double end_s,
                      struct spot_trace_stats *stats)
{
    const double span_s = end_s - s->time_s[0];
    double machine_s = 0, there_s = 0;

    *stats = (struct spot_trace_stats){ .n_row = s->n,
                                        .start_s = s->time_s[0],
                                        .end_s = end_s,
                                        .interval_s = spot_trace_interval_s(s),
                                        .min = s->available[0],
                                        .max = s->available[0] };
    for (size_t i = 0; i < s->n; i++) {
        const double held_s = held_until_s(s, i, end_s) - s->time_s[i];
        const int32_t y = s->available[i];

        machine_s += y * held_s;
        there_s += y > 0 ? held_s : 0;
        stats->min = y < stats->min ? y : stats->min;
        stats->max = y > stats->max ? y : stats->max;
    }
    stats->mean = span_s > 0 ? machine_s / span_s : s->available[0];
    stats->there_share = span_s > 0 ? there_s / span_s : s->available[0] > 0;
    take_moves(s, -1, span_s, &stats->lost);
    take_moves(s, 1, span_s, &stats->gained);
    stats->lost_per_machine_h =
        machine_s > 0 ? (double)stats->lost.machines * 3600 / machine_s : NAN;
    take_runs(s, stats);
    stats->price_mean_usd_per_h = mean_price(s, end_s);
}

double spot_trace_correlation(const struct spot_trace_series *a, const struct spot_trace_series *b,
                              double end_s)
{
    double time_s = fmax(a->time_s[0], b->time_s[0]);
    size_t i = spot_trace_find(a, time_s), j = spot_trace_find(b, time_s);
    /* Shifted by the first values, so that sums of small numbers keep their precision. */
    const double a0 = a->available[i - 1], b0 = b->available[j - 1];
    double w = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;

    while (time_s < end_s) {
        const double next_s = fmin(held_until_s(a, i - 1, end_s), held_until_s(b, j - 1, end_s));
        const double held_s = next_s - time_s;
        const double p = a->available[i - 1] - a0, q = b->available[j - 1] - b0;

        w += held_s;
        x += p * held_s;
        y += q * held_s;
        xx += p * p * held_s;
        yy += q * q * held_s;
        xy += p * q * held_s;
        time_s = next_s;
        i += i < a->n && a->time_s[i] <= time_s;
        j += j < b->n && b->time_s[j] <= time_s;
    }
    xx = w * xx - x * x;
    yy = w * yy - y * y;
    return xx > 0 && yy > 0 ? (w * xy - x * y) / sqrt(xx * yy) : NAN;
}

struct change {
    double time_s;
    size_t series, row;
};

static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    return (x->time_s > y->time_s) - (x->time_s < y->time_s);
}

/* List every row of every series, by time. */
static struct change *sort_changes(const struct spot_trace *trace, size_t *n)
{
    struct change *change;

    *n = 0;
    for (size_t k = 0; k < trace->n_series; k++)
        *n += trace->series[k].n;
    change = spot_xcalloc(*n, sizeof(*change));
    *n = 0;
    for (size_t k = 0; k < trace->n_series; k++)
        for (size_t i = 0; i < trace->series[k].n; i++)
            change[(*n)++] = (struct change){ trace->series[k].time_s[i], k, i };
    qsort(change, *n, sizeof(*change), compare_changes);
    return change;
}

void spot_trace_together(const struct spot_trace *trace, struct spot_trace_together *together)
{
    double *none_s = spot_xcalloc(trace->n_series, sizeof(*none_s));
    int32_t *now = spot_xcalloc(trace->n_series, sizeof(*now));
    double all_s = 0, last_s, span_s;
    size_t n, n_none = trace->n_series;
    struct change *change = sort_changes(trace, &n);

    *together = (struct spot_trace_together){ .start_s = trace->start_s, .end_s = trace->end_s };
    for (size_t k = 0; k < trace->n_series; k++)
        together->start_s = fmax(together->start_s, trace->series[k].time_s[0]);
    span_s = together->end_s - together->start_s;
    last_s = together->start_s;
    for (size_t i = 0; i <= n; i++) {
        const double time_s = i < n ? change[i].time_s : together->end_s;

        if (time_s > last_s) {
            all_s += n_none == trace->n_series ? time_s - last_s : 0;
            last_s = time_s;
        }
        if (i < n) {
            int32_t *y = &now[change[i].series];
            const int32_t next = trace->series[change[i].series].available[change[i].row];

            n_none += (next == 0) - (*y == 0);
            *y = next;
        }
    }
    together->none_if_independent = 1;
    for (size_t k = 0; k < trace->n_series; k++) {
        const struct spot_trace_series *s = &trace->series[k];

        for (size_t i = 0; i < s->n; i++)
            if (!s->available[i])
                none_s[k] += fmax(
                    held_until_s(s, i, together->end_s) - fmax(s->time_s[i], together->start_s), 0);
        together->none_if_independent *= span_s > 0 ? none_s[k] / span_s : !now[k];
    }
    together->none_share = span_s > 0 ? all_s / span_s : n_none == trace->n_series;
    free(change);
    free(now);
    free(none_s);
}

void spot_trace_slices(const struct spot_trace_series *s, double start_s, double end_s, size_t n,
                       double *mean)
{
    const double slice_s = (end_s - start_s) / (double)n;
    size_t i = spot_trace_find(s, start_s);

    for (size_t k = 0; k < n; k++) {
        const double stop_s = k + 1 < n ? start_s + slice_s * (double)(k + 1) : end_s;
        double time_s = start_s + slice_s * (double)k, sum = 0;

        while (i < s->n && s->time_s[i] < stop_s) {
            sum += i ? s->available[i - 1] * (s->time_s[i] - time_s) : 0;
            time_s = s->time_s[i++];
        }
        sum += i ? s->available[i - 1] * (stop_s - time_s) : 0;
        mean[k] = slice_s > 0 ? sum / slice_s : s->available[0];
    }
}

/* SPDX-License-Identifier: MIT */
#include "trace/load_seen.h"

#include <math.h>

enum { BIN_S = 60, BINS_MAX = 60, PRIOR_BINS = 5 };

/* The number of requests up to time_s inclusive, at most `most`, from which it is searched for. */
static size_t count_until(const struct spot_load *load, double time_s, size_t most)
{
    size_t low = 0, high = most;

    for (size_t step = 1; step <= most; step *= 2) {
        if (load->time_s[most - step] <= time_s) {
            low = most - step + 1;
            break;
        }
        high = most - step;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (load->time_s[middle] <= time_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t spot_load_arrivals(const struct spot_load *load, double from_s, double to_s)
{
    const size_t until = count_until(load, to_s, load->n);

    return to_s > from_s ? until - count_until(load, from_s, until) : 0;
}

double spot_load_rate_seen(const struct spot_load *load, double start_s, double now_s,
                           double window_s)
{
    const double span_s = fmin(now_s - start_s, window_s);

    return span_s > 0 ? (double)spot_load_arrivals(load, now_s - span_s, now_s) / span_s : 0;
}

double spot_load_dispersion_seen(const struct spot_load *load, double from_s, double to_s)
{
    double mean = 0, square = 0;
    size_t until = count_until(load, to_s, load->n), before;
    int n = 0;

    for (; n < BINS_MAX && to_s - BIN_S * (n + 1) >= from_s; n++, until = before) {
        const double count =
            (double)(until - (before = count_until(load, to_s - BIN_S * (n + 1.0), until)));

        mean += count;
        square += count * count;
    }
    if (n < 2 || !(mean > 0))
        return 1;
    mean /= n;
    square = (square - n * mean * mean) / (n - 1);
    return (n * square / mean + PRIOR_BINS) / (n + PRIOR_BINS);
}

/* A single stage with all layers takes the least time, whether it fits into memory or not. */
static double least_s(const struct spot_job_serve *serve, const struct spot_serve_length *length)
{
    double least = INFINITY;

    for (size_t i = 0; i < serve->n_cell; i++) {
        const struct spot_serve_shape shape = { 1, serve->cell[i].M, 1, 1, 1 };
        struct spot_serve_time t;

        if (serve->cell[i].B == 1 && !spot_serve_time_of(serve, &shape, length, &t))
            least = fmin(least, t.request_s);
    }
    return least;
}

size_t spot_load_lengths_seen(const struct spot_job_serve *serve, const struct spot_load *load,
                              const int32_t *cached_token, double now_s, size_t most,
                              struct spot_serve_length *length)
{
    size_t n = 0;

    for (size_t k = count_until(load, now_s, load->n); k-- > 0 && n < most;) {
        const struct spot_serve_length of = { load->prompt_token[k], load->output_token[k],
                                              cached_token ? cached_token[k] : 0 };

        if (load->time_s[k] + least_s(serve, &of) <= now_s)
            length[n++] = of;
    }
    for (size_t i = 0; i < n / 2; i++) {
        const struct spot_serve_length last = length[n - 1 - i];

        length[n - 1 - i] = length[i];
        length[i] = last;
    }
    return n;
}

int spot_load_check_cache(const struct spot_job_serve *serve, const struct spot_load *load,
                          const char *source, struct spot_err *err)
{
    if (!load->block_token)
        return spot_err_set(err, SPOT_EDATA,
                            "%s: no column blocks says which prompts begin alike, so no cache "
                            "finds any",
                            source);
    if (!spot_serve_knows_lengths(serve))
        return spot_err_set(err, SPOT_EDATA,
                            "the job's profile lacks prefill_token_s: what a cache saves is "
                            "unknown");
    return 0;
}

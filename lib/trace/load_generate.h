/* SPDX-License-Identifier: MIT */
/* load_generate.h - loads drawn from distributions of arrivals and of lengths.
 *
 * Arrivals, prompts and answers are drawn from separate streams, so that changing the distribution
 * of one leaves the others unchanged.
 */
#ifndef SPOT_TRACE_LOAD_GENERATE_H
#define SPOT_TRACE_LOAD_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "trace/load_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_arrival_kind {
    SPOT_ARRIVAL_POISSON,
    /* Gaps between requests are Gamma with this coefficient of variation: shape 1 / cv^2. */
    SPOT_ARRIVAL_GAMMA,
    /* Poisson during a burst, nothing in between; bursts and pauses are exponential. */
    SPOT_ARRIVAL_ON_OFF,
    /* What SpotServe's artifact generates and calls "CV": gaps are Gamma with shape 1000 / rate /
     * cv and scale cv, in milliseconds. Their true coefficient of variation is sqrt(cv rate /
     * 1000): .046 for "CV 6" at .35 requests per second, nearly deterministic. */
    SPOT_ARRIVAL_SPOTSERVE,
    SPOT_ARRIVALS
};

/* Their names, "poisson", "gamma", "on-off", "spotserve". */
extern const char *const spot_arrival_name[SPOT_ARRIVALS];

struct spot_arrival_dist {
    enum spot_arrival_kind kind;
    double rate_per_s;            /* mean, > 0 */
    double cv;                    /* of gamma and spotserve, > 0 */
    double on_mean_s, off_mean_s; /* of on-off, > 0 */
    /* A daily cycle on any of them: the rate at t is rate_per_s (1 + swing cos(2 pi (t - peak_s) /
     * period_s)) */
    double swing; /* 0..1; 0: none */
    double period_s, peak_s;
};

/* The true coefficient of variation of the gaps, without the daily cycle. */
double spot_arrival_cv(const struct spot_arrival_dist *dist);

enum spot_length_kind { SPOT_LENGTH_FIXED, SPOT_LENGTH_LOGNORMAL, SPOT_LENGTH_EMPIRICAL };

struct spot_length_dist {
    enum spot_length_kind kind;
    double token;          /* fixed: the length; log-normal: the median */
    double sigma;          /* log-normal: standard deviation of the logarithm */
    const int32_t *sample; /* [n_sample] empirical, borrowed */
    size_t n_sample;
};

/* "512" or "lognormal:MEDIAN:SIGMA". Returns 0, or -1 with *err (SPOT_EUSAGE), where `name` is the
 * option. */
int spot_length_parse(struct spot_length_dist *dist, const char *name, const char *text,
                      struct spot_err *err);

struct spot_load_dist {
    struct spot_arrival_dist arrival;
    struct spot_length_dist prompt, output;
    bool is_paired;  /* both are samples of one load: pairs are drawn together */
    int64_t context; /* > 0: a pair of lengths that exceeds it is drawn again */
};

/* Draws lengths of requests from `rng`: at least 1. */
struct spot_length_draw {
    int32_t prompt_token, output_token;
};

struct spot_load_source; /* the three streams of a seed */
struct spot_load_source *spot_load_source_new(const struct spot_load_dist *dist, uint64_t seed);
void spot_load_source_free(struct spot_load_source *source);

/* The lengths of the next request. Returns 0, or -1 with *err (SPOT_EINFEASIBLE) if a thousand
 * draws do not fit the context. */
int spot_load_draw_lengths(struct spot_load_source *source, struct spot_length_draw *draw,
                           struct spot_err *err);

/* Requests from time_s 0 to end_s, n_max at most (0: no limit). Times are whole microseconds.
 * Returns 0, or -1 with *err (SPOT_EINFEASIBLE) and an empty load: lengths that never fit, more
 * than SPOT_LOAD_ROWS_MAX requests, none at all. */
int spot_load_generate(struct spot_load *load, const struct spot_load_dist *dist, double end_s,
                       size_t n_max, uint64_t seed, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_LOAD_GENERATE_H */

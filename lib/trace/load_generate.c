/* SPDX-License-Identifier: MIT */
#include "trace/load_generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/rng.h"
#include "common/xalloc.h"

static const double PI = 3.14159265358979323846;

const char *const spot_arrival_name[SPOT_ARRIVALS] = { "poisson", "gamma", "on-off", "spotserve" };

enum { STREAM_ARRIVALS, STREAM_PROMPTS, STREAM_OUTPUTS, STREAMS };

struct spot_load_source {
    struct spot_load_dist dist;
    struct spot_rng rng[STREAMS];
    bool is_on;         /* on-off: in a burst */
    double spell_end_s; /* end of the burst or pause, in the time of a flat day */
};

double spot_arrival_cv(const struct spot_arrival_dist *dist)
{
    switch (dist->kind) {
    case SPOT_ARRIVAL_GAMMA:
        return dist->cv;
    case SPOT_ARRIVAL_SPOTSERVE:
        return sqrt(dist->cv * dist->rate_per_s / 1000);
    case SPOT_ARRIVAL_ON_OFF: {
        /* Interrupted Poisson process (Kuczura 1973): a gap is a mixture of two exponentials. */
        const double on = 1 / dist->on_mean_s, off = 1 / dist->off_mean_s;
        const double rate = dist->rate_per_s * (on + off) / off;

        return sqrt(1 + 2 * on * rate / ((on + off) * (on + off)));
    }
    default:
        return 1;
    }
}

/* --- draws --- */

static double draw_exponential(struct spot_rng *rng)
{
    return -log1p(-spot_rng_unit(rng));
}

/* Gamma-distributed with mean `shape`. Marsaglia and Tsang 2000; for shapes below 1 with a power of
 * a uniform number. */
static double draw_gamma(struct spot_rng *rng, double shape)
{
    const double least = shape < 1 ? shape + 1 : shape;
    const double d = least - 1.0 / 3, c = 1 / sqrt(9 * d);
    double x, v, u;

    do {
        x = spot_rng_normal(rng);
        v = 1 + c * x;
        v = v * v * v;
        u = 1 - spot_rng_unit(rng);
    } while (v <= 0 || log(u) >= 0.5 * x * x + d - d * v + d * log(v));
    return d * v * (shape < 1 ? pow(1 - spot_rng_unit(rng), 1 / shape) : 1);
}

static void start_on_off(struct spot_load_source *s)
{
    const struct spot_arrival_dist *l = &s->dist.arrival;
    struct spot_rng *rng = &s->rng[STREAM_ARRIVALS];

    s->is_on = spot_rng_unit(rng) * (l->on_mean_s + l->off_mean_s) < l->on_mean_s;
    s->spell_end_s = draw_exponential(rng) * (s->is_on ? l->on_mean_s : l->off_mean_s);
}

/* The next request of a flat day after time_s. */
static double next_on_off(struct spot_load_source *s, double time_s)
{
    const struct spot_arrival_dist *l = &s->dist.arrival;
    struct spot_rng *rng = &s->rng[STREAM_ARRIVALS];
    const double on_rate = l->rate_per_s * (l->on_mean_s + l->off_mean_s) / l->on_mean_s;

    for (;;) {
        if (s->is_on) {
            const double next_s = time_s + draw_exponential(rng) / on_rate;

            if (next_s <= s->spell_end_s)
                return next_s;
        }
        time_s = s->spell_end_s;
        s->is_on = !s->is_on;
        s->spell_end_s += draw_exponential(rng) * (s->is_on ? l->on_mean_s : l->off_mean_s);
    }
}

static double next_arrival(struct spot_load_source *s, double time_s)
{
    const struct spot_arrival_dist *l = &s->dist.arrival;
    struct spot_rng *rng = &s->rng[STREAM_ARRIVALS];

    switch (l->kind) {
    case SPOT_ARRIVAL_GAMMA:
        return time_s + draw_gamma(rng, 1 / (l->cv * l->cv)) * l->cv * l->cv / l->rate_per_s;
    case SPOT_ARRIVAL_SPOTSERVE:
        return time_s + draw_gamma(rng, 1000 / l->rate_per_s / l->cv) * l->cv / 1000;
    case SPOT_ARRIVAL_ON_OFF:
        return next_on_off(s, time_s);
    default:
        return time_s + draw_exponential(rng) / l->rate_per_s;
    }
}

/* Convert from the time of a flat day, which is the integral of the rate over a real day: the time
 * at which the integral is `flat_s`, by Newton steps between valid bounds. */
static double on_clock(const struct spot_arrival_dist *l, double flat_s)
{
    const double turn = 2 * PI / l->period_s, most = l->swing / turn;
    const double at_0 = most * sin(-turn * l->peak_s);
    double low = flat_s - 2 * most, high = flat_s + 2 * most, t = flat_s;

    for (int i = 0; i < 100 && high - low > 1e-9; i++) {
        const double over = t + most * sin(turn * (t - l->peak_s)) - at_0 - flat_s;
        const double slope = 1 + l->swing * cos(turn * (t - l->peak_s));

        if (over > 0)
            high = t;
        else
            low = t;
        if (fabs(over) < 1e-9)
            break;
        t = slope > 1e-6 ? t - over / slope : low;
        if (!(t > low && t < high))
            t = low + (high - low) / 2;
    }
    return t;
}

static double draw_length(const struct spot_length_dist *dist, struct spot_rng *rng)
{
    switch (dist->kind) {
    case SPOT_LENGTH_LOGNORMAL:
        return rint(dist->token * exp(dist->sigma * spot_rng_normal(rng)));
    case SPOT_LENGTH_EMPIRICAL:
        return dist->sample[spot_rng_below(rng, dist->n_sample)];
    default:
        return dist->token;
    }
}

int spot_load_draw_lengths(struct spot_load_source *s, struct spot_length_draw *draw,
                           struct spot_err *err)
{
    const struct spot_load_dist *l = &s->dist;

    for (int i = 0; i < 1000; i++) {
        double prompt, output;

        if (l->is_paired) {
            const size_t k = spot_rng_below(&s->rng[STREAM_PROMPTS], l->prompt.n_sample);

            prompt = l->prompt.sample[k];
            output = l->output.sample[k];
        } else {
            prompt = fmax(draw_length(&l->prompt, &s->rng[STREAM_PROMPTS]), 1);
            output = fmax(draw_length(&l->output, &s->rng[STREAM_OUTPUTS]), 1);
        }
        if (prompt > SPOT_LOAD_TOKENS_MAX || output > SPOT_LOAD_TOKENS_MAX ||
            (l->context && prompt + output > (double)l->context))
            continue;
        *draw = (struct spot_length_draw){ (int32_t)prompt, (int32_t)output };
        return 0;
    }
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "of a thousand prompts and answers drawn, none fits a context of %lld",
                        (long long)(l->context ? l->context : SPOT_LOAD_TOKENS_MAX));
}

/* --- a load --- */

struct spot_load_source *spot_load_source_new(const struct spot_load_dist *dist, uint64_t seed)
{
    struct spot_load_source *s = spot_xcalloc(1, sizeof(*s));

    s->dist = *dist;
    for (uint64_t k = 0; k < STREAMS; k++)
        spot_rng_init(&s->rng[k], seed, k);
    if (dist->arrival.kind == SPOT_ARRIVAL_ON_OFF)
        start_on_off(s);
    return s;
}

void spot_load_source_free(struct spot_load_source *s)
{
    free(s);
}

int spot_load_generate(struct spot_load *load, const struct spot_load_dist *dist, double end_s,
                       size_t n_max, uint64_t seed, struct spot_err *err)
{
    struct spot_load_source *s = spot_load_source_new(dist, seed);
    double flat_s = 0;
    int rc = 0;

    *load = (struct spot_load){ 0 };
    while (!rc && (!n_max || load->n < n_max)) {
        struct spot_length_draw draw;
        double time_s;

        flat_s = next_arrival(s, flat_s);
        time_s = dist->arrival.swing > 0 ? on_clock(&dist->arrival, flat_s) : flat_s;
        if (!(time_s <= end_s))
            break;
        if (load->n == SPOT_LOAD_ROWS_MAX)
            rc = spot_err_set(err, SPOT_EINFEASIBLE, "more than %d requests", SPOT_LOAD_ROWS_MAX);
        else
            rc = spot_load_draw_lengths(s, &draw, err);
        if (!rc)
            spot_load_add(load, rint(fmax(time_s, 0) * 1e6) / 1e6, draw.prompt_token,
                          draw.output_token, NULL);
    }
    if (!rc && !load->n)
        rc = spot_err_set(err, SPOT_EINFEASIBLE, "no request came within %.4g s at %.4g per second",
                          end_s, dist->arrival.rate_per_s);
    if (rc)
        spot_load_release(load);
    spot_load_source_free(s);
    return rc;
}

int spot_length_parse(struct spot_length_dist *dist, const char *name, const char *text,
                      struct spot_err *err)
{
    static const char lognormal[] = "lognormal:";
    char *copy = spot_xstrdup(text), *sigma = NULL;
    const bool is_lognormal = !strncmp(copy, lognormal, sizeof(lognormal) - 1);
    char *token = is_lognormal ? copy + sizeof(lognormal) - 1 : copy;
    int rc = 0;

    *dist = (struct spot_length_dist){ .kind = is_lognormal ? SPOT_LENGTH_LOGNORMAL
                                                            : SPOT_LENGTH_FIXED };
    if (is_lognormal && (sigma = strchr(token, ':')))
        *sigma++ = '\0';
    if (spot_num_parse(token, &dist->token) || !(dist->token >= 1) ||
        dist->token > SPOT_LOAD_TOKENS_MAX || (!is_lognormal && dist->token != rint(dist->token)) ||
        (is_lognormal && (!sigma || spot_num_parse(sigma, &dist->sigma) || !(dist->sigma >= 0) ||
                          dist->sigma > 10)))
        rc = spot_err_set(err, SPOT_EUSAGE,
                          "--%s must be a number of tokens, 1 or more, or lognormal:MEDIAN:SIGMA, "
                          "got '%.64s'",
                          name, text);
    free(copy);
    return rc;
}

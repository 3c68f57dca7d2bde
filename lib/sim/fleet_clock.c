/* SPDX-License-Identifier: MIT */
#include "sim/fleet_clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { BINS = 32, PRUNE_EACH = 16 };
static const double frequency_least = 0.125, frequency_most = 0.7, frequency_step = 0.001;
static const double drift = 0.003;       /* of a bin to each side, a tick */
static const double jump = 1e-4;         /* a probe process that begins anew */
static const double stray = 0.02;        /* changes of a probe that are seen in another tick */
static const double weight_least = 1e-6; /* of the best: below, a period is dropped */
static const double rate_prior = 0.02, rate_prior_ticks = 50;

struct period {
    double frequency, log_weight;
    double *phase; /* [n_region][BINS]; NULL: each tick is a probe */
    double *next;  /* [n_region] P(the next tick is one) */
};

struct spot_fleet_clock {
    size_t n_zone, n_region, n_period, n_step;
    size_t *region;  /* [n_zone] */
    double *changes; /* [n_zone] */
    double *value;   /* [n_region] of next(), all periods together */
    struct period *period;
};

static void add_period(struct spot_fleet_clock *c, double frequency)
{
    struct period *p = &c->period[c->n_period++];

    *p = (struct period){ .frequency = frequency,
                          .next = spot_xcalloc(c->n_region, sizeof(double)) };
    for (size_t r = 0; r < c->n_region; r++)
        p->next[r] = frequency;
    if (frequency >= 1)
        return;
    p->phase = spot_xcalloc(c->n_region * BINS, sizeof(double));
    for (size_t i = 0; i < c->n_region * BINS; i++)
        p->phase[i] = 1.0 / BINS;
}

struct spot_fleet_clock *spot_fleet_clock_new(const size_t *region, size_t n_zone)
{
    const size_t n = (size_t)((frequency_most - frequency_least) / frequency_step) + 1;
    struct spot_fleet_clock *c = spot_xcalloc(1, sizeof(*c));

    c->n_zone = n_zone;
    c->region = spot_xcalloc(n_zone, sizeof(*c->region));
    memcpy(c->region, region, n_zone * sizeof(*region));
    for (size_t z = 0; z < n_zone; z++)
        c->n_region = region[z] + 1 > c->n_region ? region[z] + 1 : c->n_region;
    c->changes = spot_xcalloc(n_zone, sizeof(double));
    c->value = spot_xcalloc(c->n_region, sizeof(double));
    c->period = spot_xcalloc(n + 1, sizeof(*c->period));
    add_period(c, 1);
    for (size_t i = 0; i < n; i++)
        add_period(c, frequency_least + (double)i * frequency_step);
    c->period[0].log_weight = log((double)n); /* as likely as all others together */
    for (size_t r = 0; r < c->n_region; r++)
        c->value[r] = 1;
    return c;
}

static void free_period(struct period *p)
{
    free(p->phase);
    free(p->next);
}

void spot_fleet_clock_free(struct spot_fleet_clock *c)
{
    for (size_t i = 0; i < c->n_period; i++)
        free_period(&c->period[i]);
    free(c->period);
    free(c->region);
    free(c->changes);
    free(c->value);
    free(c);
}

/* Advance phases by a tick. probed[] gets the part that passed a probe, rest[] the other. The
 * loop is most of the work of this file: without a branch, so that compilers use vectors. */
static void advance(const double *phase, double frequency, double *probed, double *rest)
{
    const double shift = frequency * BINS;
    const size_t whole = (size_t)shift;
    const double part = shift - (double)whole;
    double before[BINS + 2] = { 0 }, after[2 * BINS] = { 0 };
    double *const to = after + whole; /* whole < BINS: frequency_most */

    memcpy(before + 1, phase, BINS * sizeof(double));
    for (size_t b = 0; b <= BINS; b++)
        to[b] = before[b] * part + before[b + 1] * (1 - part);
    memcpy(rest, after, BINS * sizeof(double));
    memcpy(probed, after + BINS, BINS * sizeof(double));
}

/* Chance of what was seen in a tick with a probe, and without. */
static void likelihood(const struct spot_fleet_clock *c, size_t region, double frequency,
                       const bool *changed, double *probe, double *none)
{
    *probe = *none = 1;
    for (size_t z = 0; z < c->n_zone; z++) {
        double h;

        if (c->region[z] != region)
            continue;
        h = (rate_prior * rate_prior_ticks + c->changes[z]) /
            (rate_prior_ticks + (double)c->n_step) / frequency;
        h = fmin(0.5, h);
        *probe *= changed[z] ? h : 1 - h;
        *none *= changed[z] ? h * stray : 1 - h * stray;
    }
}

static void see(struct spot_fleet_clock *c, struct period *p, size_t region, const bool *changed)
{
    double probed[BINS], rest[BINS], near[BINS + 2], probe, none, sum = 0;
    double *phase;

    likelihood(c, region, p->frequency, changed, &probe, &none);
    if (!p->phase) {
        p->log_weight += log(probe);
        return;
    }
    phase = p->phase + region * BINS;
    advance(phase, p->frequency, probed, rest);
    for (size_t b = 0; b < BINS; b++)
        sum += phase[b] = probed[b] * probe + rest[b] * none;
    p->log_weight += log(sum);
    near[0] = phase[BINS - 1];
    memcpy(near + 1, phase, BINS * sizeof(double));
    near[BINS + 1] = rest[0] * none;
    for (size_t b = 0; b < BINS; b++)
        phase[b] =
            (1 - jump) * ((1 - 2 * drift) * near[b + 1] + drift * (near[b] + near[b + 2])) / sum +
            jump / BINS;
    advance(phase, p->frequency, probed, rest);
    p->next[region] = 0;
    sum = 0;
    for (size_t b = 0; b < BINS; b++) {
        p->next[region] += probed[b];
        sum += phase[b];
    }
    p->next[region] /= sum;
}

static double best_of(const struct spot_fleet_clock *c)
{
    double best = -HUGE_VAL;

    for (size_t i = 0; i < c->n_period; i++)
        best = fmax(best, c->period[i].log_weight);
    return best;
}

static void prune(struct spot_fleet_clock *c)
{
    const double least = best_of(c) + log(weight_least);
    size_t n = 0;

    for (size_t i = 0; i < c->n_period; i++)
        if (c->period[i].log_weight >= least)
            c->period[n++] = c->period[i];
        else
            free_period(&c->period[i]);
    c->n_period = n;
}

static void mix(struct spot_fleet_clock *c)
{
    const double best = best_of(c);
    double sum = 0;

    memset(c->value, 0, c->n_region * sizeof(double));
    for (size_t i = 0; i < c->n_period; i++) {
        const struct period *p = &c->period[i];
        const double weight = exp(p->log_weight - best);

        sum += weight;
        for (size_t r = 0; r < c->n_region; r++)
            c->value[r] += weight * p->next[r] / p->frequency;
    }
    for (size_t r = 0; r < c->n_region; r++)
        c->value[r] /= sum;
}

void spot_fleet_clock_step(struct spot_fleet_clock *c, const bool *changed)
{
    for (size_t i = 0; i < c->n_period; i++)
        for (size_t r = 0; r < c->n_region; r++)
            see(c, &c->period[i], r, changed);
    c->n_step++;
    for (size_t z = 0; z < c->n_zone; z++)
        c->changes[z] += changed[z];
    if (c->n_step % PRUNE_EACH == 0)
        prune(c);
    mix(c);
}

double spot_fleet_clock_next(const struct spot_fleet_clock *c, size_t zone)
{
    return (1 - stray) * c->value[c->region[zone]] + stray;
}

void spot_fleet_clock_restart(struct spot_fleet_clock *c)
{
    for (size_t i = 0; i < c->n_period; i++)
        for (size_t k = 0; c->period[i].phase && k < c->n_region * BINS; k++)
            c->period[i].phase[k] = 1.0 / BINS;
    for (size_t r = 0; r < c->n_region; r++)
        c->value[r] = 1;
}

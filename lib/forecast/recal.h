/* SPDX-License-Identifier: MIT */
/* recal.h - recalibration of distributions, learned online from the outcomes of earlier ones.
 *
 * Two corrections, each to the odds of events, so that a distribution stays a distribution:
 *   change  the odds that the count differs from the current one, times exp(a + b x + c r), where x
 *           is the binary logarithm of the age of the count in units of the mean time between
 *           changes, and r that of the ratio of changes in the newest intervals to those expected;
 *   tails   the odds of the distribution's lower and upper fifth, times exp(d) and exp(e).
 * a to e are kept separately for each step ahead and start at values that were right on average
 * over public traces. They are updated by logistic regression with a normal prior, one observation
 * at a time (the extended Kalman filter); outcomes h steps ahead overlap h-fold and count 1/h each.
 * Source: recalibration as in Gneiting, Balabdaoui, Raftery 2007; the events, the terms and the
 * filter are ours. Deterministic and causal.
 */
#ifndef SPOT_FORECAST_RECAL_H
#define SPOT_FORECAST_RECAL_H

#include <stdbool.h>
#include <stdint.h>

#include "forecast/daily.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_RECAL_STEPS = 12, /* steps ahead that are learned; later ones use the last one's terms */
    SPOT_RECAL_TERMS = 3,
    SPOT_RECAL_RECENT = 60, /* intervals, for restlessness; must fit in a word */
};

/* A distribution that was given, kept until its outcome is known. */
struct spot_recal_event {
    double change;     /* probability of a changed count, before correction */
    double tail[2];    /* P(Y <= low) and P(Y >= high), after the correction of changes */
    int32_t low, high; /* -1 and cap + 1: no such tail */
};

struct spot_recal_moment {
    uint64_t at; /* number of values seen so far; 0: none */
    double x[SPOT_RECAL_TERMS], weight;
    int64_t now;
    struct spot_daily_time time;
    struct spot_recal_event event[SPOT_RECAL_STEPS];
};

/* Offsets from the start values; zeroed initially. */
struct spot_recal_step {
    double shift[SPOT_RECAL_TERMS];
    double known[SPOT_RECAL_TERMS][SPOT_RECAL_TERMS]; /* by how much the covariance has shrunk */
    double tail[2], sure[2];                          /* d and e; precision gained from data */
    struct spot_daily daily;                          /* of the odds of a change */
};

struct spot_recal {
    uint64_t n, n_change;
    uint64_t changes; /* whether the newest intervals had one: a bit for each, the newest lowest */
    int64_t newest, age;
    struct spot_recal_step step[SPOT_RECAL_STEPS];
    struct spot_recal_moment moment[SPOT_RECAL_STEPS]; /* ring buffer by n */
};

/* Observe the next value, and learn from the earlier distributions that forecast it. */
void spot_recal_observe(struct spot_recal *recal, int y);

/* True if the newest value is to be learned from. At first all are, later fewer and fewer, so that
 * n values cost O(log n) thousand distributions. */
bool spot_recal_is_due(const struct spot_recal *recal);

/* The number of values that the newest one stands for, if it is to be learned from. */
double spot_recal_weight(const struct spot_recal *recal);

/* Correct prob [horizon * (cap + 1)], distributions given at the newest value; with `learn` keep
 * them, to learn from their outcomes. `day`: intervals in a day, 0 if not known. */
void spot_recal_apply(struct spot_recal *recal, int cap, double day, int horizon, bool learn,
                      double *prob);

/* True if a state that was read from a file is valid. */
bool spot_recal_is_sound(const struct spot_recal *recal, int cap);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_RECAL_H */

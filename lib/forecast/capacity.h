/* SPDX-License-Identifier: MIT */
/* capacity.h - estimates from probes whether an instance is available now, and for how long.
 *
 * A place (zone and type) has capacity or none, in continuous time. New capacity is short-lived or
 * lasting, and each kind is lost at its own rate; so capacity that has lasted long is likely to
 * continue. Answers are sometimes wrong: a request is refused though there is capacity (`missed`),
 * or granted though there is none (`false_yes`). The state is filtered exactly from answers at any
 * times. The rate of a place is the common rate times a level of the place, which is gamma
 * distributed, as in the model `hazard`: EM with the conjugate posterior mean; the weight of the
 * prior is set by the likelihood of the losses of all places (Clayton 1978). Expected losses and
 * times of a chain that is observed at certain times are integrals of its matrix exponential (Van
 * Loan 1978). A placement score shifts both rates; a provider's rate of interruptions shifts the
 * mean of the level. */
#ifndef SPOT_FORECAST_CAPACITY_H
#define SPOT_FORECAST_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_CAPACITY_NONE = 0, /* states: no capacity */
    SPOT_CAPACITY_SHORT,
    SPOT_CAPACITY_LASTING,
    SPOT_CAPACITY_STATES
};

struct spot_capacity_seen {
    double time_s;
    bool is_granted;
    double score; /* 3 points of 1..10, from 5.5; 0: or not given; holds until the next one */
};

struct spot_capacity_place {
    const struct spot_capacity_seen *seen; /* [n], by time */
    size_t n;
    double score;  /* the newest score; holds from the newest answer on */
    double advice; /* log of the provider's hazard relative to that of all places; 0: not given */
    double loss_level, gain_level; /* learned; 1 before */
};

struct spot_capacity {
    double loss_per_s[SPOT_CAPACITY_STATES]; /* by state; 0 for no capacity */
    double gain_per_s, lasting; /* rate of new capacity, and share of it that is lasting */
    double missed, false_yes;
    double by_score, by_advice;
    double loss_firm, gain_firm; /* weights of the priors of the levels, in losses and gains */
    double likelihood;           /* logarithm, including the priors of the rates */
};

/* Set the initial parameters, before any observation. */
void spot_capacity_start(struct spot_capacity *market);

/* Learn from all places; sets their levels. Cost: O(turns * answers), at most
 * SPOT_CAPACITY_ANSWERS_MAX newest ones, as many of each place. */
enum { SPOT_CAPACITY_ANSWERS_MAX = 1 << 15, SPOT_CAPACITY_TURNS_MAX = 60 };
void spot_capacity_fit(struct spot_capacity *market, struct spot_capacity_place *place, size_t n);

/* Compute p [SPOT_CAPACITY_STATES], the distribution of the state at now_s, which is not before the
 * newest answer. Returns the log likelihood of the answers. */
double spot_capacity_filter(const struct spot_capacity *market,
                            const struct spot_capacity_place *place, double now_s, double *p);

/* Take in one more answer now. */
void spot_capacity_hear(const struct spot_capacity *market, bool is_granted, double *p);

/* The probability that a request made now is granted and there is capacity. */
double spot_capacity_granted(const struct spot_capacity *market, const double *p);

/* The probability that an instance granted now still exists after_s later. */
double spot_capacity_stays(const struct spot_capacity *market,
                           const struct spot_capacity_place *place, const double *p,
                           double after_s);

/* The contribution of one place to the statistics of an iteration: expected losses and gains of
 * each kind, and times in each state weighted by the score's factor on the rate. For tests. */
struct spot_capacity_stats {
    double n_loss[SPOT_CAPACITY_STATES], n_gain[SPOT_CAPACITY_STATES];
    double time_s[SPOT_CAPACITY_STATES];
    /* first and second derivative of the log likelihood with respect to the weight of the score */
    double slope, bend;
    double on, on_refused, off, off_granted;
    double likelihood;
};
struct spot_capacity_stats spot_capacity_expect(const struct spot_capacity *market,
                                                const struct spot_capacity_place *place);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_CAPACITY_H */

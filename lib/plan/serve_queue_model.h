/* SPDX-License-Identifier: MIT */
/* serve_queue_model.h - waiting times of requests for replicas that serve in batches, by formula.
 *
 * D replicas take up to B of one queue at once and serve them in S seconds. While all are busy a
 * batch starts every S / D. With A arrivals between two starts the queue after a start is Q' =
 * max(Q + A - B, 0), and its tail decays like z^-k, where z > 1 solves E[z^A] = z^B. A is Poisson,
 * negative binomial if arrivals come in bursts, binomial if they are regular. Simplifications
 * (batches that are not full, drift of starts) are checked against the simulator:
 * tests/unit/test_serve_queue_model.c.
 */
#ifndef SPOT_PLAN_SERVE_QUEUE_MODEL_H
#define SPOT_PLAN_SERVE_QUEUE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_serve_station {
    int64_t replicas, batch; /* D, B: >= 1 */
    double service_s;        /* S > 0, of a batch */
    double rate_per_s;       /* arrivals, >= 0 */
    bool is_paced;           /* replicas start in turn: spot_serve_queue_pace of the simulator */
    double dispersion;       /* variance over mean of arrivals in several S; 1: Poisson */
};

/* The probability that all replicas are busy when a request arrives. */
double spot_serve_station_busy(const struct spot_serve_station *station);

/* The distribution of the wait for a batch to start; from spot_serve_waits_of. */
struct spot_serve_waits {
    double service_s, period_s, replicas;
    double load;         /* of the station */
    double spread;       /* 1: replicas start independently of each other; 0: in turn */
    double busy;         /* probability that all replicas are busy when a request arrives */
    double behind, stay; /* probability that a full batch is ahead, and that another one follows
                            each such batch */
};

struct spot_serve_waits spot_serve_waits_of(const struct spot_serve_station *station);

/* The percentile of the wait, 0 <= percentile < 1; INFINITY if the queue grows. */
double spot_serve_waits_percentile(const struct spot_serve_waits *waits, double percentile);

double spot_serve_waits_mean(const struct spot_serve_waits *waits);

/* The percentile of the time from arrival to departure, if the time after the wait is after_s [n]
 * with the probabilities share [n], n >= 1. */
double spot_serve_waits_sojourn(const struct spot_serve_waits *waits, const double *after_s,
                                const double *share, size_t n, double percentile);

/* Varying service times make starts irregular, as bursts do: the dispersion at which a station with
 * their mean has equal waits. scv: their variance over the square of their mean. */
double spot_serve_station_dispersion(const struct spot_serve_station *station, double scv);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_QUEUE_MODEL_H */

/* SPDX-License-Identifier: MIT */
/* serve_queue_model.h - how long requests wait for replicas that answer in batches, by formula.
 *
 * D replicas take up to B of one queue at once and answer them in S seconds. While all are busy a
 * batch starts every S / D. With A arrivals between two starts the queue behind a start is
 * Q' = max(Q + A - B, 0), and its tail falls like z^-k, where z > 1 solves E[z^A] = z^B. A is
 * Poisson, negative binomial where arrivals come in bursts, binomial where they are regular.
 * What was left out (how full a batch is, that starts drift) is checked against the simulator:
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
    double dispersion;       /* variance over mean of arrivals in some S; 1: Poisson */
};

/* The probability that all replicas are busy when a request comes. */
double spot_serve_station_busy(const struct spot_serve_station *station);

/* The distribution of the wait for a batch to start; from spot_serve_waits_of. */
struct spot_serve_waits {
    double service_s, period_s, replicas;
    double load;         /* of the station */
    double spread;       /* 1: replicas start apart from each other as it happens; 0: in turn */
    double busy;         /* all replicas are, when a request comes */
    double behind, stay; /* a full batch is ahead; and behind each such one another */
};

struct spot_serve_waits spot_serve_waits_of(const struct spot_serve_station *station);

/* What a share `percentile` (0..1, below 1) of requests do not exceed; INFINITY where the queue
 * grows. */
double spot_serve_waits_percentile(const struct spot_serve_waits *waits, double percentile);

double spot_serve_waits_mean(const struct spot_serve_waits *waits);

/* What a share `percentile` of requests do not exceed from coming to leaving, where what follows
 * the wait is after_s [n] with the probabilities share [n], n >= 1. */
double spot_serve_waits_sojourn(const struct spot_serve_waits *waits, const double *after_s,
                                const double *share, size_t n, double percentile);

/* Services that scatter make starts irregular, as bursts do: the dispersion with which a station of
 * their mean waits as long. scv: their variance over the square of their mean. */
double spot_serve_station_dispersion(const struct spot_serve_station *station, double scv);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_QUEUE_MODEL_H */

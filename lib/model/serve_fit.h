/* SPDX-License-Identifier: MIT */
/* serve_fit.h - the profile of a replica that serves, from what its requests took.
 *
 * Requests of a server's log, or of a simulation. By least squares, coefficients never below 0:
 *   a token    = a + b (n - 1) + c n (context - mean context),  n: requests that share the pass
 *   the prompt = A + B (prompt - mean prompt), what it waited for passes of others taken off
 * Who answered is not in a log: each request is taken to have gone to the least filled replica, as
 * our server does it. What an answer took over that is the spread, its mean 1.
 */
#ifndef SPOT_MODEL_SERVE_FIT_H
#define SPOT_MODEL_SERVE_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/job_serve.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SERVE_FIT_LEAST = 8, SPOT_SERVE_FIT_QUANTILES = 41 };

struct spot_serve_sample {
    double came_s;                 /* on the clock; those below count from it */
    double queue_s, ttft_s, e2e_s; /* given to a replica, first token, last */
    int64_t prompt_token, output_token;
};

/* One "layer", M 1, batches up to max_batch, a power of two; parts of a batch add up. Slopes of
 * lengths are there where lengths differed. Returns 0, or -1 with *err (SPOT_EDATA): fewer than
 * SPOT_SERVE_FIT_LEAST requests with two tokens or more. */
int spot_serve_fit(struct spot_job_serve *serve, const struct spot_serve_sample *sample, size_t n,
                   int64_t replicas, int64_t max_batch, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SERVE_FIT_H */

/* SPDX-License-Identifier: MIT */
/* serve_fit.h - the profile of a replica that serves, from what its requests took.
 *
 * Requests of a server's log, or of a simulation. A moment on a replica is one of tokens alone, or
 * of prompts that are under way, from the first that comes until none is (a spell). By least
 * squares, coefficients never below 0:
 *   a token = a + b (n - 1) + c n (context - mean context),  n: requests that share the pass
 *   a spell = A of a prompt that came to an idle replica, J of each that met somebody,
 *             + B (prompt - mean prompt) of each, + passes of the others meanwhile
 * J over A is what a prompt that joins takes of one alone. Who answered is not in a log: each
 * request is taken to have gone to the least filled replica, as our server does it. What an answer
 * took over all that is the spread, its mean 1.
 *
 * Replicas on one machine: while k are at work each takes sharing[k - 1] as long, and all of the
 * above is what they take alone.
 */
#ifndef SPOT_MODEL_SERVE_FIT_H
#define SPOT_MODEL_SERVE_FIT_H

#include <stdbool.h>
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

struct spot_serve_logged {
    const struct spot_serve_sample *sample; /* [n] */
    size_t n;
    int64_t replicas, max_batch; /* max_batch: of a replica, a power of two */
    bool shares_machine;         /* the replicas do; up to SPOT_SERVE_SHARING_MAX of them */
};

/* One "layer", M 1, batches up to max_batch; parts of a batch add up. Slopes of lengths are there
 * where lengths differed, a join where prompts met somebody and came alone as well. Returns 0, or
 * -1 with *err (SPOT_EDATA): fewer than SPOT_SERVE_FIT_LEAST requests with two tokens or more. */
int spot_serve_fit(struct spot_job_serve *serve, const struct spot_serve_logged *logged,
                   struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SERVE_FIT_H */

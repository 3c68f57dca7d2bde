/* SPDX-License-Identifier: MIT */
/* serve_fit.h - fits the profile of a serving replica to the times of its requests.
 *
 * Requests come from a server's log, or from a simulation. At any moment a replica processes only
 * tokens, or also prompts: from the first prompt that arrives until none is left (a spell). By
 * least squares, coefficients never below 0:
 *   a token = a + b (n - 1) + c n (context - mean context),  n: requests that share the pass
 *   a spell = A for a prompt that came to an idle replica, J for each that met others,
 *             + B (prompt - mean prompt) for each, + passes of the others meanwhile
 * J over A is the relative time of a joining prompt. Logs do not say which replica answered: each
 * request is assigned to the least loaded replica, as our server does. An answer's time relative to
 * this model gives the spread, its mean 1.
 *
 * Replicas on one machine: while k are busy each takes sharing[k - 1] times as long, and the above
 * is what they take alone.
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
    double came_s;                 /* arrival; the times below count from it */
    double queue_s, ttft_s, e2e_s; /* assigned to a replica, first token, last token */
    int64_t prompt_token, output_token;
};

struct spot_serve_logged {
    const struct spot_serve_sample *sample; /* [n] */
    size_t n;
    int64_t replicas, max_batch; /* max_batch: of a replica, a power of two */
    bool shares_machine;         /* replicas share one; up to SPOT_SERVE_SHARING_MAX of them */
};

/* One "layer", M 1, batches up to max_batch; parts of a batch add up. Length slopes are fitted if
 * lengths differ, a join if prompts arrived both with others present and alone. Returns 0, or -1
 * with *err (SPOT_EDATA): fewer than SPOT_SERVE_FIT_LEAST requests with at least two tokens. */
int spot_serve_fit(struct spot_job_serve *serve, const struct spot_serve_logged *logged,
                   struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SERVE_FIT_H */

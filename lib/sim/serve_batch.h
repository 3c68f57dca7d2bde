/* SPDX-License-Identifier: MIT */
/* serve_batch.h - the time of a batch of a load's requests by a job's profile: by its longest
 * prompt and answer if the profile covers lengths, scattered if it has a spread. */
#ifndef SPOT_SIM_SERVE_BATCH_H
#define SPOT_SIM_SERVE_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "model/job_serve.h"
#include "sim/serve_queue.h"
#include "trace/load_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_serve_batches {
    const struct spot_job_serve *serve;
    const struct spot_load *load;
    /* Pass by pass (SPOT_BATCH_PASSES), from that queue: tokens already sent count as part of the
     * prompt, and batch sizes between two powers of two are interpolated. NULL: batches are static.
     */
    const struct spot_served *served;
    /* Tokens of prompts found in caches (cached_token), from that queue; NULL: none. */
    const struct spot_served *found;
    uint64_t seed; /* for the spread of times: a request takes the same time on every replica */
};

/* `shape` is that of a full batch; one of fewer requests keeps its parts, as far as it has requests
 * for them. */
struct spot_batch_time spot_serve_batch_time(const struct spot_serve_batches *batches,
                                             const struct spot_serve_shape *shape,
                                             const size_t *request, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_BATCH_H */

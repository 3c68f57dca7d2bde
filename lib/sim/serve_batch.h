/* SPDX-License-Identifier: MIT */
/* serve_batch.h - what a batch of a load's requests takes by a job's profile: by its longest prompt
 * and answer where the profile knows lengths, scattered where it knows a spread. */
#ifndef SPOT_SIM_SERVE_BATCH_H
#define SPOT_SIM_SERVE_BATCH_H

#include <stdbool.h>
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
    /* Pass by pass (SPOT_BATCH_PASSES), of that queue: what was told is a part of the prompt, and
     * batches between two powers of two take times between theirs. NULL: batches are static. */
    const struct spot_served *served;
    uint64_t seed; /* of the spread: the same for a request whoever answers it */
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

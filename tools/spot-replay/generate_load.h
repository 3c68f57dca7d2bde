/* SPDX-License-Identifier: MIT */
/* generate_load.h - spot-replay generate --kind load, and the lengths that import gives requests.
 */
#ifndef SPOT_REPLAY_GENERATE_LOAD_H
#define SPOT_REPLAY_GENERATE_LOAD_H

#include "cli/tool.h"
#include "trace/load_generate.h"

/* What the command line says; starts as REPLAY_LOAD_DEFAULT. */
struct replay_load {
    const char *arrivals, *swing, *prompt, *output, *lengths;
    double rate_per_s;
    uint64_t n_request, context;
};

#define REPLAY_LOAD_DEFAULT                                                      \
    {                                                                            \
        .arrivals = "poisson", .prompt = "512", .output = "128", .rate_per_s = 1 \
    }

/* The distributions of lengths. `sample` holds the load of --lengths, if there is one. Returns 0,
 * or -1. */
int replay_load_lengths(const struct replay_load *opt, struct spot_load_dist *dist,
                        struct spot_load *sample, struct spot_err *err);

/* Generate one and write it. Returns 0, or -1 with *err. */
int replay_generate_load(const struct replay_load *opt, double hours,
                         const struct spot_tool_common *common, struct spot_err *err);

#endif /* SPOT_REPLAY_GENERATE_LOAD_H */

/* SPDX-License-Identifier: MIT */
/* live_play.h - plays a trace on a host: copies of a command come and go as its machines do.
 *
 * One loop: apply the trace up to now, perform due starts and kills, then wait for the next due
 * time or a signal. Which copy leaves depends only on the trace and the seed, never on timing.
 */
#ifndef SPOT_SIM_LIVE_PLAY_H
#define SPOT_SIM_LIVE_PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/rng.h"
#include "sim/supervisor.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_live {
    /* set by the caller, as are host, self, log, grace, speedup, origin and n_running_max */
    struct spot_supervisor supervisor;
    uint64_t max;     /* maximum number of copies */
    double no_notice; /* share of the machines that leave without notice */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);

    const struct spot_trace *trace;
    struct spot_rng rng;
    size_t *next;     /* [n_series] next row, or next event where nodes have names */
    size_t *n_wanted; /* [n_series] copies that the trace offers; 0 where nodes have names */
    uint64_t n_named; /* machines named so far */
    int signal_got;   /* the first signal to stop us, 0 if none */
    bool is_capped;
};

/* The trace is borrowed, already cut and scaled. */
void spot_live_init(struct spot_live *l, const struct spot_trace *trace, uint64_t seed);
void spot_live_release(struct spot_live *l);

/* Play to the end of the trace, or a signal, until all copies are gone; a second signal ends it at
 * once. Returns 0, or -1 with *err. */
int spot_live_play(struct spot_live *l, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_LIVE_PLAY_H */

/* SPDX-License-Identifier: MIT */
/* live_play.h - a trace played on a host: copies of a command come and go as its machines do.
 *
 * One loop: apply what the trace says by now, start and kill what is due, then
 * wait until the next of those moments or a signal. Who leaves depends on the
 * trace and the seed alone, never on timing.
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
    uint64_t max;     /* never more copies than this */
    double no_notice; /* share of the leaving that get no notice */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);

    const struct spot_trace *trace;
    struct spot_rng rng;
    size_t *next;     /* [n_series] next row, or next event where nodes have names */
    size_t *n_wanted; /* [n_series] copies that the trace offers; 0 where nodes have names */
    uint64_t n_named; /* machines named so far */
    int signal_got;   /* the first signal to stop us, 0 if none */
    bool is_capped;
};

/* The trace is borrowed, cut and scaled already. */
void spot_live_init(struct spot_live *l, const struct spot_trace *trace, uint64_t seed);
void spot_live_release(struct spot_live *l);

/* To the end of the trace, or a signal, until all are gone; at the second signal at once. Returns
 * 0, or -1 with *err. */
int spot_live_play(struct spot_live *l, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_LIVE_PLAY_H */

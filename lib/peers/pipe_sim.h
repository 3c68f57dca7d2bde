/* SPDX-License-Identifier: MIT */
/* pipe_sim.h - one minibatch through a pipeline, event by event: Varuna's simulator.
 *
 * P stages, M micro batches, stage k needs forward_us[k] and backward_us[k] for one of them, and
 * recomputes in forward_us[k]. A stage computes one thing at a time, in the order of a static
 * schedule made in unit time; if its recompute is not ready it takes its next forward first. Up to
 * four transfers of a stage overlap. The all-reduce is added once, at the end. Source:
 * microsoft/varuna, tools/simulator, commit a2145cc.
 */
#ifndef SPOT_PEERS_PIPE_SIM_H
#define SPOT_PEERS_PIPE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_PIPE_STAGES_MAX = 256, SPOT_PIPE_TASKS_MAX = 1 << 20 };

enum spot_pipe_policy {
    SPOT_PIPE_VARUNA, /* backward, then recompute, then forward */
    SPOT_PIPE_GPIPE,  /* all forwards, then recompute and backward from the last micro batch */
    SPOT_PIPE_1F1B,   /* one forward, one backward; no recompute */
};

struct spot_pipe_task {
    char kind; /* F forward, R recompute, B backward */
    int micro; /* from 0 */
};

/* The schedule of every stage: *task is [p][2 m or at most 3 m], stage k from k * 3 * m on, with
 * n_task[k] entries; the caller frees *task. p in 1..STAGES_MAX, m >= 1, p * m <= TASKS_MAX. */
void spot_pipe_schedule(enum spot_pipe_policy policy, int p, int m, struct spot_pipe_task **task,
                        int *n_task);

struct spot_pipe_sim {
    enum spot_pipe_policy policy;
    int p, m;
    const int64_t *forward_us, *backward_us; /* [p], >= 0 */
    int64_t send_us, send_far_us;            /* to a neighbour on the same machine, on another */
    int64_t allreduce_us;
    int per_machine; /* stages k and k + 1 share a machine if k / per_machine are equal */
    /* As released: events of the same microsecond are ordered by the C library's random numbers,
     * and 1F1B waits for ever for a recompute that is never scheduled. Otherwise events are ordered
     * by their causes, and 1F1B completes. */
    bool is_released;
};

/* Microseconds of a minibatch. Returns 0, or -1 with *err: SPOT_EDATA for sizes out of range,
 * SPOT_EINFEASIBLE if the pipeline deadlocks. */
int spot_pipe_sim_run(const struct spot_pipe_sim *sim, int64_t *us, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_PIPE_SIM_H */

/* SPDX-License-Identifier: MIT */
/* bamboo_sim.h - training with redundant computation, event by event: Bamboo's simulator.
 *
 * Nodes come and go by name. A node is ready some time after it came; ready nodes meet in a
 * rendezvous, the first D * P of them become D pipelines of P stages, the rest wait. Every node
 * also holds its successor's stage: one loss is absorbed by the predecessor (steps then take 1.5
 * times as long), a loss that hits a node with two stages is fatal: all nodes meet again. At the
 * end of a step the nodes meet again if that balances the load or allows another pipeline. Source:
 * uclasystem/bamboo, project_pactum/simulation, commit 8080929. Times in milliseconds.
 */
#ifndef SPOT_PEERS_BAMBOO_SIM_H
#define SPOT_PEERS_BAMBOO_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_bamboo_job {
    int stages;             /* P */
    int64_t samples;        /* per step */
    int64_t boot_ms;        /* from arrival to ready; the release: 45,000 */
    int64_t local_ms;       /* rendezvous at the end of a step */
    int64_t global_ms;      /* rendezvous after a fatal loss, or to start; the release: 30,000 */
    int n_step;             /* maximum pipelines with a known step time */
    const int64_t *step_ms; /* [n_step + 1], by pipelines from 1; 0: that many cannot run */
    double usd_per_h;       /* of a node */
    /* Corrected mode only: a fatal loss loads the last checkpoint. */
    int64_t save_every_ms, save_ms, load_ms; /* 0: no checkpoints, no work is ever lost */
    /* Instead of a fixed save_every_ms: period * sqrt(2 * save_ms * mean time between losses so
     * far), with one loss assumed in the prior_ms before the run. 0: fixed. */
    int64_t prior_ms;
    double period;
    /* As released: events of the same time and kind come in the order of Python's heap; a step that
     * ends during a rendezvous still counts and starts a second one, and if the second outlasts the
     * first, nothing runs afterwards; the loss of an idle node slows the others; waiting nodes are
     * miscounted when one of them leaves. */
    bool is_released;
};

struct spot_bamboo_event {
    int64_t ms;
    bool is_add;
    int node; /* a name: a number from 0 */
};

/* The state of the system from one event to the next. */
enum spot_bamboo_state {
    SPOT_BAMBOO_STOPPED,
    SPOT_BAMBOO_MEETING,
    SPOT_BAMBOO_TRAINING,
    SPOT_BAMBOO_SAVING,
};
struct spot_bamboo_span {
    int64_t from_ms, to_ms;
    enum spot_bamboo_state state;
    int n_boot, n_ready, n_member; /* nodes that boot, wait, have a stage */
    int d, p;
    int64_t steps, lost_steps; /* that ended, or were lost, at from_ms */
};

struct spot_bamboo_result {
    int64_t steps, preemptions, fatal;
    double preemption_mean_h, preemption_median_h, preemption_stdev_h; /* between losses */
    double lifetime_mean_h, lifetime_median_h, lifetime_stdev_h;
    double instances, samples_per_s, usd_per_h; /* means over the run */
    double value;                               /* samples/s per USD/h, mean over steps */
    double end_h;                               /* end of the last step */
};

/* Play n_event events until end_ms. on_span (may be NULL) gets every span in order of time. Returns
 * 0, or -1 with *err: SPOT_EDATA for an event out of order for its node (added twice, removed while
 * absent), SPOT_EINFEASIBLE if a number of pipelines occurs that has no step time (as released;
 * corrected, the largest that has one is used). A run without a step is all 0. */
int spot_bamboo_sim_run(const struct spot_bamboo_job *job, const struct spot_bamboo_event *event,
                        size_t n_event, int64_t end_ms, struct spot_bamboo_result *result,
                        void (*on_span)(const struct spot_bamboo_span *span, void *user),
                        void *user, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_BAMBOO_SIM_H */

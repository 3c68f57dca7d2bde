/* SPDX-License-Identifier: MIT */
/* serve_play.h - a load answered on instances that come and go, under one policy. */
#ifndef SPOT_SIM_SERVE_PLAY_H
#define SPOT_SIM_SERVE_PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/job_doc.h"
#include "plan/serve_solver.h"
#include "sim/serve_batch.h"
#include "sim/serve_move.h"
#include "sim/serve_queue.h"
#include "trace/load_trace.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_serve_policy {
    /* Pipelines keep the (P, M) of the start. One that loses an instance is gone, others go on;
     * instances that are free become a pipeline when there are enough. */
    SPOT_SERVE_REROUTING,
    /* The same; who loses an answer asks again, behind everybody who waits. */
    SPOT_SERVE_REQUEUE,
    /* At every change SpotServe's rule is asked, and all pipelines start anew from storage. */
    SPOT_SERVE_REPARALLELIZATION,
    /* The rule, with weights and answers moved within the grace period: nothing is answered twice
     * unless there is no place for it. A move that takes longer than the grace period is none: all
     * starts anew from storage. A change that comes while another is under way waits for its end.
     */
    SPOT_SERVE_SPOTSERVE,
    /* As its artifact does it: the batch is max_batch, whatever the rule chose with it. */
    SPOT_SERVE_SPOTSERVE_RELEASED,
    SPOT_SERVE_SPOT,        /* ours: sim/serve_spot.h */
    SPOT_SERVE_CLAIRVOYANT, /* and told what comes */
    /* A fixed number of instances, which stay. */
    SPOT_SERVE_ON_DEMAND,
    SPOT_SERVE_POLICIES
};

extern const char *const spot_serve_policy_name[SPOT_SERVE_POLICIES];
extern const char *const spot_serve_policy_about[SPOT_SERVE_POLICIES];

/* An instance comes or goes. */
struct spot_serve_event {
    double time_s;
    bool comes;
    uint32_t instance;
};

struct spot_serve_play {
    const struct spot_job_doc *job; /* of kind serve */
    const struct spot_load *load;
    struct spot_serve_event *event; /* [n_event], by time, losses first */
    size_t n_event;
    double start_s, end_s; /* of the trace */
    double rate_per_s;     /* what the rule is asked for; 0: what came in the last 5 minutes */
    size_t capacity; /* rerouting: its shape is that for so many; 0: for those that come first */
    double switch_s; /* weights and answers moved between instances, where `moves` is NULL */
    struct spot_serve_moves *moves; /* their bytes over measured links; NULL: switch_s */
    double grace_s;                 /* a loss is announced so early */
    double load_s;                  /* weights from storage */
    double boot_s;                  /* spot: from asking for an instance to it */
    double hand_s;                  /* spot: a pause in which answers under way change instance */
    struct spot_serve_slo slo;      /* spot: what it plans for */
    struct spot_serve_queue_rule rule;
    uint64_t seed; /* of the spread of service times */
};

/* The comings and goings of a trace, all series together; where it counts, who goes is drawn from
 * the seed. free() them. Sets start_s and end_s too. */
void spot_serve_play_trace(struct spot_serve_play *play, const struct spot_trace *trace,
                           uint64_t seed);

/* Comings that a loss follows within merge_s come with it: one change, as SpotServe's artifact has
 * it. */
void spot_serve_play_merge(struct spot_serve_play *play, double merge_s);

/* How long a change of the grid takes. */
double spot_serve_play_move_s(const struct spot_serve_play *play,
                              const struct spot_serve_change *change);

/* How long the batches of a run's queue take. */
struct spot_serve_batches spot_serve_play_batches(const struct spot_serve_play *play,
                                                  const struct spot_serve_queue *queue);

/* From time_s on. */
struct spot_serve_step {
    double time_s;
    int64_t there, held; /* instances */
    int64_t D, P, M;     /* D 0: none answers */
};

struct spot_serve_result {
    struct spot_serve_totals totals;
    struct spot_served *served;   /* [load->n] */
    size_t changes;               /* of the grid */
    double instance_s;            /* paid */
    struct spot_serve_step *step; /* [n_step] where something changed */
    size_t n_step, step_cap;
};

/* Append a step if it differs from the last. */
void spot_serve_result_note(struct spot_serve_result *result, const struct spot_serve_step *step);
void spot_serve_result_release(struct spot_serve_result *result);

/* `n` is of SPOT_SERVE_ON_DEMAND. Returns 0, or -1 with *err (SPOT_EINFEASIBLE): `n` instances do
 * not hold the model. */
int spot_serve_play_run(const struct spot_serve_play *play, enum spot_serve_policy policy,
                        int64_t n, struct spot_serve_result *result, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_PLAY_H */

/* SPDX-License-Identifier: MIT */
/* serve_play.h - a load served on changing instances: the input of every policy, and its result.
 * Our policy is sim/serve_spot.h, those of other systems are in lib/peers. */
#ifndef SPOT_SIM_SERVE_PLAY_H
#define SPOT_SIM_SERVE_PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/job_doc.h"
#include "plan/decision.h"
#include "sim/serve_batch.h"
#include "sim/serve_move.h"
#include "sim/serve_queue.h"
#include "trace/load_trace.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An instance arrives or is lost. */
struct spot_serve_event {
    double time_s;
    bool comes;
    uint32_t instance;
};

struct spot_serve_play {
    const struct spot_job_doc *job; /* of kind serve */
    const struct spot_load *load;
    const struct spot_trace *trace; /* trace of the events; NULL: joint losses are not known */
    struct spot_serve_event *event; /* [n_event], by time, losses first */
    size_t n_event;
    double start_s, end_s; /* of the trace */
    double rate_per_s;     /* request rate for the rule; 0: arrivals of the last 5 minutes */
    size_t capacity; /* rerouting: its shape is chosen for this many; 0: for those at the start */
    double switch_s; /* time to move weights and answers between instances, if `moves` is NULL */
    /* computes that time from bytes over measured links; NULL: switch_s */
    struct spot_serve_moves *moves;
    double grace_s;            /* notice before a loss */
    double load_s;             /* time to load weights from storage */
    double boot_s;             /* spot: from requesting an instance to getting it */
    double hand_s;             /* spot: a pause in which answers in progress change instance */
    struct spot_serve_slo slo; /* spot: its planning target */
    struct spot_serve_queue_rule rule;
    uint64_t seed;       /* of the spread of service times */
    double note_every_s; /* decisions are recorded at this interval; 0: not at all */
};

/* The arrivals and losses of a trace, over all series; if it has counts, the lost instances are
 * drawn from the seed. free() them. Sets start_s and end_s too, and borrows the trace. */
void spot_serve_play_trace(struct spot_serve_play *play, const struct spot_trace *trace,
                           uint64_t seed);

/* Merge arrivals with a loss that follows within merge_s: one change, as in SpotServe's
 * artifact. */
void spot_serve_play_merge(struct spot_serve_play *play, double merge_s);

/* The duration of a change of the grid. */
double spot_serve_play_move_s(const struct spot_serve_play *play,
                              const struct spot_serve_change *change);

/* The batch times of a run's queue. */
struct spot_serve_batches spot_serve_play_batches(const struct spot_serve_play *play,
                                                  const struct spot_serve_queue *queue);

/* State from time_s on. */
struct spot_serve_step {
    double time_s;
    int64_t there, held; /* instances */
    int64_t D, P, M;     /* D 0: not serving */
};

/* The last decision of `spot` at the end of an interval. */
struct spot_serve_decided {
    double time_s;
    int64_t there;                       /* instances, without those that were announced to leave */
    int64_t waiting;                     /* requests in no batch */
    struct spot_grid runs;               /* running grid; D 0: nothing */
    char state[SPOT_DECISION_STATE_MAX]; /* state of the decider before this observation */
    struct spot_grid asked;              /* D 0: nothing holds the model */
    int64_t spares;
};

struct spot_serve_result {
    struct spot_serve_totals totals;
    struct spot_served *served;   /* [load->n] */
    size_t changes;               /* number of changes of the grid */
    double instance_s;            /* instance-seconds paid */
    struct spot_serve_step *step; /* [n_step] at each change */
    size_t n_step, step_cap;
    struct spot_serve_decided *decided; /* [n_decided] */
    size_t n_decided, decided_cap;
};

/* Append a step if it differs from the last. */
void spot_serve_result_note(struct spot_serve_result *result, const struct spot_serve_step *step);
void spot_serve_result_release(struct spot_serve_result *result);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_PLAY_H */

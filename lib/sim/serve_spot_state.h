/* SPDX-License-Identifier: MIT */
/* serve_spot_state.h - shared by the parts of our serving policy. Private to them. */
#ifndef SPOT_SIM_SERVE_SPOT_STATE_H
#define SPOT_SIM_SERVE_SPOT_STATE_H

#include "plan/decision.h"
#include "sim/seen.h"
#include "sim/serve_spot.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_NO_UNIT SIZE_MAX
#define SPOT_TICK_S  30

enum spot_sim_member_state {
    SPOT_MEMBER_ABSENT,  /* not available */
    SPOT_MEMBER_OFFERED, /* available, not held */
    SPOT_MEMBER_BOOTS,   /* requested */
    SPOT_MEMBER_HELD,    /* paid for and usable */
};

/* An instance of the trace. */
struct spot_sim_member {
    enum spot_sim_member_state state;
    size_t unit;        /* the unit it belongs to, or will; SPOT_NO_UNIT: free */
    double loss_s;      /* announced time; INFINITY: none */
    double true_loss_s; /* actual time, for the clairvoyant only */
    double came_s;
    bool has_replacement; /* a swap is in progress */
};

/* Replicas on instances of their own: one pipeline on several, or several on one. */
enum spot_unit_state { SPOT_UNIT_FILLS, SPOT_UNIT_UP, SPOT_UNIT_PAUSED, SPOT_UNIT_GONE };

struct spot_unit {
    enum spot_unit_state state;
    bool drains;
    size_t *replica; /* [n_replica] of the queue, once the unit was up */
    size_t n_replica;
    size_t *member; /* [n_member] */
    size_t n_member;
};

enum spot_task_kind {
    SPOT_TASK_BOOTED,  /* member a has booted */
    SPOT_TASK_UP,      /* unit a has its weights */
    SPOT_TASK_DRAIN,   /* unit a will end soon */
    SPOT_TASK_PAUSE,   /* unit a moves its state */
    SPOT_TASK_SWAP,    /* member b replaces member c in unit a */
    SPOT_TASK_STOP,    /* all pause to change shape */
    SPOT_TASK_RESHAPE, /* all resume in the new shape */
};

struct spot_task {
    double time_s;
    enum spot_task_kind kind;
    size_t a, b, c;
};

struct spot_shape_times {
    struct spot_serve_shape shape;
    size_t max_batch;
    struct spot_batch_time time[SPOT_SERVE_BATCH_MAX + 1]; /* for batches of 1.. requests */
    /* with the parts that answer them soonest */
    struct spot_serve_shape fit[SPOT_SERVE_BATCH_MAX + 1];
    const struct spot_serve_batches *batches; /* of the run */
    bool is_by_request; /* times depend on the requests in the batch, and their progress */
};

struct spot_serve_run {
    const struct spot_serve_play *play;
    struct spot_serve_result *result;
    bool is_clairvoyant;
    double lead_s; /* losses are known this early */
    double now_s;
    struct spot_serve_queue *queue;
    struct spot_serve_batches batches;
    struct spot_sim_member *member; /* [n_member] */
    size_t n_member;
    size_t *present; /* [n_present] ascending: all others are absent and in no unit */
    size_t n_present, present_cap;
    struct spot_unit *unit;              /* [n_unit]; numbers are not reused */
    size_t n_unit, unit_cap, first_unit; /* first_unit: earlier ones no longer exist */
    struct spot_task *task;              /* [n_task] */
    size_t n_task, task_cap;
    struct spot_shape_times **times; /* [n_times] */
    size_t n_times, times_cap;
    struct spot_serve_offer now, next; /* current offer; target of a change */
    bool is_reshaping, is_started;
    double there_s;  /* instance-seconds observed, of all available ones */
    size_t n_losses; /* losses observed */
    int32_t
        *cached; /* tokens of prompts that a replica's cache would hold, for the decider; or NULL */
    struct spot_seen_trace *seen;   /* of the trace; NULL: none */
    struct spot_serve_place *place; /* [n_place], observed joint losses */
    size_t n_place;
    struct spot_serve_rule rule;
    struct spot_decider *decider;
    struct spot_serve_offer answer; /* the decider's last answer; D 0: none yet */
};

/* serve_spot_units.c: replicas and their instances */
void spot_serve_run_task(struct spot_serve_run *r, double time_s, enum spot_task_kind kind,
                         size_t a, size_t b, size_t c);
bool spot_serve_run_is_free(const struct spot_serve_run *r, size_t member);
size_t
spot_serve_run_live_units(const struct spot_serve_run *r); /* number of units that do not drain */
void spot_serve_run_set_up(struct spot_serve_run *r, size_t k);
void spot_serve_run_drop(struct spot_serve_run *r, size_t k);
void spot_serve_run_drain(struct spot_serve_run *r, size_t k, bool drains);
void spot_serve_run_end_drained(struct spot_serve_run *r);
/* Form a unit of the current shape, on free members. Returns whether there were enough. */
bool spot_serve_run_form(struct spot_serve_run *r);
void spot_serve_run_pause(struct spot_serve_run *r, size_t k);
void spot_serve_run_swap(struct spot_serve_run *r, size_t k, size_t to, size_t from);
void spot_serve_run_stop_all(struct spot_serve_run *r);
void spot_serve_run_reshape(struct spot_serve_run *r);
void spot_serve_run_release(struct spot_serve_run *r);

/* The time to move from the current grid to another, with `lost` of its instances replaced. */
double spot_serve_run_move_s(const struct spot_serve_run *r, const struct spot_grid *to,
                             int64_t lost);

/* serve_spot_decide.c: choose a shape, and change to it */
void spot_serve_run_decide(struct spot_serve_run *r);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_SPOT_STATE_H */

/* SPDX-License-Identifier: MIT */
/* event_order.h - checks which events may follow each other in a job's log, docs/formats/event.md.
 *
 * Each event must agree with the state that results from the events before it: the epoch, the step,
 * the members. A line that was omitted, repeated, moved or changed is detected at the first later
 * one that does not fit.
 */
#ifndef SPOT_MODEL_EVENT_ORDER_H
#define SPOT_MODEL_EVENT_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ORDER_WHY = 160 };

enum spot_order_phase {
    SPOT_ORDER_WAIT,     /* no epoch */
    SPOT_ORDER_QUIESCED, /* the previous epoch is over */
    SPOT_ORDER_MIGRATED,
    SPOT_ORDER_FORMED, /* steps may follow */
    SPOT_ORDER_DONE,
};

struct spot_order_member {
    int64_t id;
    bool is_noticed;
};

/* Of a serving job: members that compute together, and their epochs. */
struct spot_order_view {
    bool is_known; /* an event has mentioned it */
    int64_t epoch, step;
    bool is_quiesced; /* and no epoch was formed since */
};

/* Zero it at the start. */
struct spot_event_order {
    enum spot_order_phase phase;
    int64_t epoch;
    int64_t step;                     /* committed, and not rolled back */
    int64_t step_max;                 /* the largest ever committed */
    bool is_begun;                    /* the step after it has begun */
    bool is_resumed;                  /* a restart, after which no epoch was formed yet */
    double resumed_s;                 /* time of that */
    int64_t id_last;                  /* last id of a member of this coordinator */
    struct spot_order_member *member; /* [n_member] */
    size_t n_member, cap_member;
    bool is_exec;    /* a job of a foreign command: `step` is unused */
    int64_t restart; /* its current round */
    bool has_begun;  /* an event of a job was seen */
    bool is_serving; /* `step` then counts tokens, and `epoch` is the newest of all views */
    struct spot_order_view *view; /* [n_view] */
    size_t n_view, cap_view;
};

/* Check the next event of a job. Returns NULL, or the JSON pointer of the inconsistent field, with
 * *why; it must not be called after that. */
const char *spot_event_order_take(struct spot_event_order *order, const struct spot_event *event,
                                  char why[SPOT_ORDER_WHY]);
void spot_event_order_release(struct spot_event_order *order);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_EVENT_ORDER_H */

/* SPDX-License-Identifier: MIT */
/* history.h - the history of a job in bounded space: points along its steps, and its newest pauses.
 *
 * When the space is full every second point is dropped, and from then on half as many are added: a
 * curve of any length keeps between half and all of SPOT_HISTORY_POINTS.
 */
#ifndef SPOT_TRAIN_HISTORY_H
#define SPOT_TRAIN_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/json_writer.h"
#include "model/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_HISTORY_POINTS = 512, SPOT_HISTORY_PAUSES = 128 };

struct spot_history_point {
    double time_s; /* of the job */
    int64_t step;  /* committed at that time */
    double loss, step_s;
    size_t n_member;
    struct spot_grid grid;
};

struct spot_history_pause {
    double time_s, pause_s; /* end of the pause */
    int64_t step;           /* the first one after it */
    const char *cause;      /* a constant */
};

struct spot_history { /* zeroed: empty */
    struct spot_history_point point[SPOT_HISTORY_POINTS], last;
    size_t n_point;
    uint64_t every,
        n_skipped; /* one point of n_stride is kept, 0 means 1; points since the last one kept */
    struct spot_history_pause pause[SPOT_HISTORY_PAUSES]; /* pause i is at i % PAUSES */
    size_t n_pause;                                       /* number of pauses since the start */
};

/* A step has committed. Points of this step and later ones were rolled back, and are dropped. */
void spot_history_add(struct spot_history *history, const struct spot_history_point *point);
void spot_history_add_pause(struct spot_history *history, const struct spot_history_pause *pause);
/* Write keys `points` and `pauses` into an open object: arrays of arrays, oldest first. */
void spot_history_put(const struct spot_history *history, struct spot_jw *jw);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_HISTORY_H */

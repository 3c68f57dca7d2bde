/* SPDX-License-Identifier: MIT */
/* history.h - how a job went, in bounded room: points along its steps, and its newest pauses.
 *
 * When the room is full every second point goes, and from then on half as many come: a curve of any
 * length keeps between half and all of SPOT_HISTORY_POINTS.
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
    int64_t step;  /* that committed then */
    double loss, step_s;
    size_t n_member;
    struct spot_grid grid;
};

struct spot_history_pause {
    double time_s, pause_s; /* when it was over */
    int64_t step;           /* that was the first behind it */
    const char *cause;      /* a constant */
};

struct spot_history { /* all zeros: nothing has happened */
    struct spot_history_point point[SPOT_HISTORY_POINTS], last;
    size_t n_point;
    uint64_t every, n_skipped; /* one of so many is kept, 0 stands for 1; since the last kept one */
    struct spot_history_pause pause[SPOT_HISTORY_PAUSES]; /* the i-th ever at i % MAX */
    size_t n_pause;                                       /* ever */
};

/* A step has committed. Points of this step and later ones are of a past that was given up. */
void spot_history_add(struct spot_history *history, const struct spot_history_point *point);
void spot_history_add_pause(struct spot_history *history, const struct spot_history_pause *pause);
/* Keys `points` and `pauses` of an object that is open: arrays of arrays, oldest first. */
void spot_history_put(const struct spot_history *history, struct spot_jw *jw);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_HISTORY_H */

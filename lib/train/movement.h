/* SPDX-License-Identifier: MIT */
/* movement.h - what this job has seen of moves of state, and how it makes them: at once, while all
 * members wait, or by pre-copy, bundle by bundle beside the steps. */
#ifndef SPOT_TRAIN_MOVEMENT_H
#define SPOT_TRAIN_MOVEMENT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_movement {
    /* how long members last */
    double exposed_s, exposed_since_s; /* members times seconds, up to exposed_since_s */
    size_t n_gone;                     /* members lost in that time */

    double form_s;   /* of the last epoch formed with almost nothing to move */
    double layout_s; /* when the last one began */
    bool is_put_off; /* a larger grid does not pay for its pause yet */

    /* pre-copies of the form */
    bool is_for_grid;  /* they are for a future grid */
    bool is_precopied; /* all are in effect: the next grid is due */
    size_t n_leaver;   /* leaving members when the form's peers were listed */
    size_t n_precopy;  /* at a time */
    double usual_s;    /* usual step time, before there were any */
};

/* The number of members changes from n; one of them goes. */
void spot_movement_members(struct spot_movement *m, size_t n);
/* Of a grid of n members until the first of them goes: members go at one rate, each by itself.
 * INFINITY: too few have gone to tell. */
double spot_movement_lasts_s(const struct spot_movement *m, double n);

/* The share of a step's time that the first pre-copies may take: for a spare, which no grid waits
 * for, steps must not become longer. */
double spot_movement_share(const struct spot_movement *m);
/* A step with pre-copies took step_s: as many at a time as steps bear. */
void spot_movement_pace(struct spot_movement *m, double step_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_MOVEMENT_H */

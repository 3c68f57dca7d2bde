/* SPDX-License-Identifier: MIT */
/* movement.h - statistics of a job's moves of state, and their pace: at once, while all members
 * wait, or by pre-copy, bundle by bundle during the steps. */
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
    size_t n_gone;                     /* number of members lost in that time */

    double form_s;   /* time to form the last epoch that moved almost nothing */
    double layout_s; /* time at which the last such epoch began to form */
    bool is_put_off; /* a larger grid does not pay for its pause yet */

    /* pre-copies of the form */
    bool is_for_grid;  /* they are for a future grid */
    bool is_precopied; /* all are in effect: the next grid is due */
    size_t n_leaver;   /* leaving members when the form's peers were listed */
    size_t n_precopy;  /* number of bundles sent in a step */
    double usual_s;    /* usual step time, measured before pre-copies began */
};

/* The number of members changes from n; a member is lost. */
void spot_movement_members(struct spot_movement *m, size_t n);
/* Expected time in seconds until a grid of n members loses the first one; members are lost
 * independently at one rate. INFINITY if too few have been lost to estimate it. */
double spot_movement_lasts_s(const struct spot_movement *m, double n);

/* The share of a step's time that the first pre-copies may take. 0 for a spare, which no grid waits
 * for. */
double spot_movement_share(const struct spot_movement *m);
/* A step with pre-copies took step_s: adjust the number of pre-copies at a time. */
void spot_movement_pace(struct spot_movement *m, double step_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_MOVEMENT_H */

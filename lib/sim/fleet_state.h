/* SPDX-License-Identifier: MIT */
/* fleet_state.h - the state within a tick of fleet_sim, for the files of its policies. */
#ifndef SPOT_SIM_FLEET_STATE_H
#define SPOT_SIM_FLEET_STATE_H

#include "sim/fleet_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_unit {
    size_t zone, born; /* tick of its launch */
};

struct spot_fleet_ours;

struct spot_fleet_state {
    const struct spot_fleet_play *play;
    enum spot_fleet_policy policy;
    size_t t, wanted;             /* replicas, in this tick */
    double backlog;               /* replica-ticks of load that would be queued */
    const int32_t *room;          /* [n_zone] of this tick */
    struct spot_fleet_unit *unit; /* [n_unit], by launch */
    size_t *on_demand;            /* [n_on_demand] ticks of launch, ascending */
    size_t n_unit, n_on_demand, cap_unit, cap_on_demand;
    int *in_zone;              /* [n_zone] */
    bool *is_active;           /* [n_zone] SpotHedge's Z_A */
    size_t *failed_at, *tried; /* [n_zone] tick + 1, 0: never; attempt's round */
    size_t next, attempts_round;
    size_t region_at, region_n; /* zones of one region */
    struct spot_fleet_ours *ours;
    struct spot_fleet_step *step; /* [n_tick]; NULL: not wanted */
    struct spot_fleet_result *total;
};

static inline bool spot_fleet_is_ready(const struct spot_fleet_state *s, size_t born)
{
    return born + s->play->cold <= s->t;
}

/* Serving machines on demand. */
static inline size_t spot_fleet_standing(const struct spot_fleet_state *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_on_demand; i++)
        n += spot_fleet_is_ready(s, s->on_demand[i]);
    return n;
}

/* Launch in a zone; false: no room. */
bool spot_fleet_launch(struct spot_fleet_state *s, size_t zone);
void spot_fleet_end_unit(struct spot_fleet_state *s, size_t unit);
/* Launch or end on demand, newest first, until there are n. */
void spot_fleet_set_on_demand(struct spot_fleet_state *s, size_t n);
size_t spot_fleet_ready(const struct spot_fleet_state *s);

/* Published policies: fleet_place.c. */
void spot_fleet_place(struct spot_fleet_state *s);
void spot_fleet_failed(struct spot_fleet_state *s, size_t zone);

/* Ours: fleet_spot.c. */
struct spot_fleet_ours *spot_fleet_ours_new(const struct spot_fleet_play *play);
void spot_fleet_ours_free(struct spot_fleet_ours *ours);
size_t spot_fleet_ours_wanted(struct spot_fleet_state *s);
int spot_fleet_ours_step(struct spot_fleet_state *s, struct spot_err *err);

/* The whole trace known: fleet_omniscient.c. */
int spot_fleet_omniscient(const struct spot_fleet_play *play, struct spot_fleet_result *result,
                          struct spot_fleet_step *step, int32_t *in_zone, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_STATE_H */

/* SPDX-License-Identifier: MIT */
/* fleet_play.h - the interface of policies in fleet_sim.h, and the state that they see in a
 * tick. */
#ifndef SPOT_SIM_FLEET_PLAY_H
#define SPOT_SIM_FLEET_PLAY_H

#include "sim/fleet_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_unit {
    size_t zone, born; /* tick of its launch */
};

struct spot_fleet_state {
    const struct spot_fleet_play *play;
    const struct spot_fleet_player *player;
    void *own;                    /* state of the policy */
    size_t t, wanted;             /* wanted: replicas, in this tick */
    double backlog;               /* replica-ticks of load that would be queued */
    const int32_t *room;          /* [n_zone] of this tick */
    struct spot_fleet_unit *unit; /* [n_unit], by launch */
    size_t *on_demand;            /* [n_on_demand] ticks of launch, ascending */
    size_t n_unit, n_on_demand, cap_unit, cap_on_demand;
    int *in_zone;                 /* [n_zone] */
    struct spot_fleet_step *step; /* [n_tick]; NULL: not wanted */
    struct spot_fleet_result *total;
};

struct spot_fleet_player {
    const char *name, *about;
    /* Launch and end in a tick, after losses. Returns 0, or -1 with *err. */
    int (*place)(struct spot_fleet_state *s, struct spot_err *err);
    int kind; /* number of the policy, for its own use */
    /* Published parameters: additional replicas, and the use of on demand. */
    int extra;
    enum spot_fleet_fallback fallback;
    void (*open)(struct spot_fleet_state *s); /* may be NULL, like the two below */
    void (*close)(struct spot_fleet_state *s);
    void (*lost)(struct spot_fleet_state *s, size_t zone); /* a replica in that zone was lost */
    /* In place of the functions above, for a policy that knows the whole trace:
     * fleet_omniscient.c. */
    int (*know)(const struct spot_fleet_play *play, struct spot_fleet_result *result,
                struct spot_fleet_step *step, int32_t *in_zone, struct spot_err *err);
};

/* Ours and yardsticks, by enum spot_fleet_own; ends with a NULL name. Those of others:
 * peers/spothedge.h. */
extern const struct spot_fleet_player spot_fleet_players[];

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

/* Ours: fleet_spot.c. */
void spot_fleet_ours_open(struct spot_fleet_state *s);
void spot_fleet_ours_close(struct spot_fleet_state *s);
int spot_fleet_ours_place(struct spot_fleet_state *s, struct spot_err *err);

/* The whole trace known: fleet_omniscient.c. */
int spot_fleet_omniscient(const struct spot_fleet_play *play, struct spot_fleet_result *result,
                          struct spot_fleet_step *step, int32_t *in_zone, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_PLAY_H */

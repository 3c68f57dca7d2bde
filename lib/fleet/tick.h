/* SPDX-License-Identifier: MIT */
/* tick.h - one turn of a fleet: list, plan, decide, save, act, save. */
#ifndef SPOT_FLEET_TICK_H
#define SPOT_FLEET_TICK_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "fleet/controller.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Result of an action. */
struct spot_fleet_outcome {
    bool is_done; /* false: failed, or not known */
    char **id;    /* of a launch, [n_id]; freed by spot_fleet_tick */
    size_t n_id;
};

/* Access to state, cloud and planner. Each function returns 0, or -1 with *err, which ends the
 * turn. */
struct spot_fleet_world {
    double (*now_s)(void *user);
    /* Makes the text durable: after it returns, a restarted controller reads this text. */
    int (*save)(void *user, const char *text, size_t n_byte, struct spot_err *err);
    /* *listed lives until the next call. */
    int (*list)(void *user, const struct spot_fleet_listed **listed, size_t *n,
                struct spot_err *err);
    /* Sets the fleet's target and current prices, given its running machines; may be NULL. */
    int (*plan)(void *user, struct spot_fleet *fleet, struct spot_err *err);
    /* Runs all actions, in any order. */
    int (*run)(void *user, const struct spot_fleet_action *action, size_t n,
               struct spot_fleet_outcome *result, struct spot_err *err);
    void *user;
};

/* Returns 0; or -1 with *err, when listing, planning or saving the state failed; no command has
 * then run that was not saved before. *n_foreign (may be NULL): listed machines of others. */
int spot_fleet_tick(struct spot_fleet *fleet, const struct spot_fleet_world *world,
                    size_t *n_foreign, struct spot_err *err);

/* The time at which the next turn begins, in seconds: a multiple of every_s > 0 after the last turn
 * was due, so that turns keep to the steps of the trace that they forecast. Turns that a long turn
 * missed are skipped. */
double spot_fleet_next_turn(double due_s, double every_s, double now_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FLEET_TICK_H */

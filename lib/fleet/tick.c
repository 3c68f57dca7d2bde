/* SPDX-License-Identifier: MIT */
#include "fleet/tick.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"

static int save(const struct spot_fleet *fleet, const struct spot_fleet_world *world,
                struct spot_err *err)
{
    size_t n;
    char *const text = spot_fleet_write_state(fleet, &n);
    const int rc = world->save(world->user, text, n, err);

    free(text);
    return rc;
}

/* Records the results of launches, even if the rest of the turn failed. */
static void take_results(struct spot_fleet *fleet, const struct spot_fleet_world *world,
                         const struct spot_fleet_action *action, size_t n,
                         struct spot_fleet_outcome *result)
{
    for (size_t i = 0; i < n; i++) {
        struct spot_fleet_outcome *r = &result[i];

        /* strings of an action belong to the fleet; those of a launch are valid until its result is
         * recorded */
        if (action[i].verb == SPOT_FLEET_LAUNCHES) {
            char *const token = spot_xstrdup(action[i].token);

            spot_fleet_launched(fleet, world->now_s(world->user), token, r->is_done, r->id,
                                r->n_id);
            free(token);
        } else {
            spot_fleet_told(fleet, world->now_s(world->user), &action[i], r->is_done);
        }
        for (size_t k = 0; k < r->n_id; k++)
            free(r->id[k]);
        free(r->id);
    }
}

static int act(struct spot_fleet *fleet, const struct spot_fleet_world *world,
               const struct spot_fleet_action *action, size_t n, struct spot_err *err)
{
    struct spot_fleet_outcome *result = spot_xcalloc(n, sizeof(*result));
    int rc = world->run(world->user, action, n, result, err);

    take_results(fleet, world, action, n, result);
    free(result);
    return rc ? rc : save(fleet, world, err);
}

int spot_fleet_tick(struct spot_fleet *fleet, const struct spot_fleet_world *world,
                    size_t *n_foreign, struct spot_err *err)
{
    const struct spot_fleet_listed *listed;
    struct spot_fleet_action *action = NULL;
    size_t n_listed, n;
    int rc;

    if (world->list(world->user, &listed, &n_listed, err) ||
        spot_fleet_observe(fleet, world->now_s(world->user), listed, n_listed, n_foreign, err) ||
        (world->plan && world->plan(world->user, fleet, err)))
        return -1;
    n = spot_fleet_decide(fleet, world->now_s(world->user), &action);
    rc = save(fleet, world, err);
    if (!rc && n)
        rc = act(fleet, world, action, n, err);
    free(action);
    return rc;
}

double spot_fleet_next_turn(double due_s, double every_s, double now_s)
{
    return due_s + every_s * fmax(1, ceil((now_s - due_s) / every_s));
}

/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "fleet/controller.h"
#include "fleet/tick.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no state of a fleet crashes its reader or the turn after it, and what was read can be saved
 * and read again. The last row, with the hash of the others, is put here. */

static struct spot_fleet *read_state(const char *text, size_t n)
{
    const struct spot_fleet_setting set = { .name = "f",
                                            .max_usd_per_h = 100,
                                            .has_drain = true,
                                            .grace_s = 5,
                                            .settle_s = 60,
                                            .start_s = 1800,
                                            .pause_s = 30,
                                            .longest_s = 900,
                                            .wall_s = 1e9 };
    struct spot_fleet *fleet = spot_fleet_new(&set, 1, 0);
    struct spot_err err;

    if (!spot_fleet_read_state(fleet, text, n, "state", &err))
        return fleet;
    spot_fleet_free(fleet);
    return NULL;
}

static void turn(struct spot_fleet *fleet)
{
    const struct spot_plan_buy buy[] = { { "a", "gpu", false, 2 }, { "", "gpu", true, 1 } };
    const struct spot_fleet_listed listed[] = {
        { "i-1", "f-0000000000000001-1", "a", "gpu", false, SPOT_FLEET_RUNNING },
        { "i-9", "other", "b", "gpu", false, SPOT_FLEET_RUNNING },
    };
    struct spot_fleet_action *action = NULL;
    struct spot_err err;

    if (spot_fleet_set_target(fleet, buy, 2, &err) ||
        spot_fleet_observe(fleet, 10, listed, 2, NULL, &err))
        return;
    for (size_t n = spot_fleet_decide(fleet, 20, &action), i = 0; i < n; i++)
        if (action[i].id && !spot_fleet_is_own(fleet, action[i].token) && !*action[i].token)
            abort(); /* the state alone says which machines are the fleet's */
    free(action);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = spot_xcalloc(size + 80, 1), *again;
    struct spot_fleet *fleet, *second;
    size_t n = size;

    if (size)
        memcpy(text, data, size);
    if (!n || text[n - 1] != '\n')
        text[n++] = '\n';
    n += (size_t)sprintf(text + n, "end,%016llx,,,,,0,,,0,0,0,0\n",
                         (unsigned long long)spot_hash64(text, n));
    fleet = read_state(text, n);
    free(text);
    if (!fleet)
        return 0;
    again = spot_fleet_write_state(fleet, &n);
    second = read_state(again, n);
    if (!second)
        abort();
    free(again);
    turn(second);
    free(spot_fleet_write_state(second, &n));
    spot_fleet_free(second);
    spot_fleet_free(fleet);
    return 0;
}

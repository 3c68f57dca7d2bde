/* SPDX-License-Identifier: MIT */
/* From which step the job goes on, and whose memory is waited for before it goes back. */
#include <stdlib.h>
#include <string.h>

#include "cluster/recovery.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "train/trainer_state.h"

/* [n_member * n_bundle], as the members reported it last. What an active member said is out of date
 * while steps run: with `idle` it counts for nothing. */
static int64_t *copies(const struct spot_coord *c, bool idle)
{
    const size_t n = (size_t)c->n_bundle;
    int64_t *held = spot_xcalloc(c->machine.n_member * n, sizeof(*held));

    for (size_t i = 0; i < c->machine.n_member; i++) {
        const struct spot_member *m = &c->machine.member[i];
        const int64_t *step = spot_coord_find(c, m->id)->held;

        for (size_t b = 0; b < n; b++)
            held[i * n + b] = (idle && m->role == SPOT_ROLE_ACTIVE) ||
                                      !spot_coord_holds(c, m->id, (int)b, step[b])
                                  ? -1
                                  : step[b];
    }
    return held;
}

static int64_t newest(const struct spot_coord *c, bool idle)
{
    int64_t *held = copies(c, idle);
    const int64_t step = spot_recovery_newest(held, c->machine.n_member, (size_t)c->n_bundle,
                                              spot_store_newest(c->store));

    free(held);
    return step;
}

int64_t spot_coord_newest(const struct spot_coord *c)
{
    return newest(c, false);
}

bool spot_coord_finds_newer(const struct spot_coord *c)
{
    return newest(c, true) > c->machine.round;
}

/* --- after a restart ------------------------------------------------------ */

static bool is_here(const struct spot_coord *c, const char *name)
{
    for (size_t i = 0; i < c->n_peer; i++)
        if (c->peer[i]->id && !strcmp(c->peer[i]->name, name))
            return true;
    return false;
}

static int64_t newest_copy(const struct spot_coord *c)
{
    int64_t step = -1;

    for (size_t i = 0; i < c->machine.n_member; i++)
        for (int b = 0; b < c->n_bundle; b++) {
            const int64_t held = spot_coord_find(c, c->machine.member[i].id)->held[b];

            step = held > step ? held : step;
        }
    return step;
}

void spot_coord_await(struct spot_coord *c)
{
    if (c->options->resume)
        c->await_until_s = spot_clock_s() + c->options->lease_s;
}

bool spot_coord_awaits(const struct spot_coord *c)
{
    struct spot_recovery r = { .logged = c->machine.round };

    if (spot_clock_s() >= c->await_until_s)
        return false;
    r.newest = spot_coord_newest(c);
    r.held_max = newest_copy(c);
    for (size_t i = 0; i < c->journal.n_holder; i++)
        r.n_absent += !is_here(c, c->journal.holder[i]);
    return spot_recovery_waits(&r);
}

void spot_coord_settle_step(struct spot_coord *c)
{
    c->await_until_s = 0;
}

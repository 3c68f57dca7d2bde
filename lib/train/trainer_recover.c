/* SPDX-License-Identifier: MIT */
/* Chooses the step from which the job continues, and how long to wait for members' memory before a
 * rollback. */
#include <stdlib.h>
#include <string.h>

#include "cluster/recovery.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "train/trainer_member_state.h"
#include "train/trainer_place_state.h"

/* --- copies that count ----------------------------------------------------- */

/* True if the bundle is durable, initial, or held by a member that the others can reach. */
static bool is_elsewhere(const struct spot_trainer *c, int bundle, int64_t step)
{
    if (step == 0 || step == spot_store_newest(c->saver.store))
        return true;
    for (size_t i = 0; i < c->machine->n_member; i++) {
        const uint32_t id = c->machine->member[i].id;

        if (!spot_trainer_is_aside(c, id) && spot_trainer_member(c, id)->held[bundle] == step)
            return true;
    }
    return false;
}

/* True if only members set aside hold the bundle. The coordinator can reach them, but waits for
 * their copies no longer than for others. */
static bool is_kept_from(const struct spot_trainer *c, int bundle, int64_t step)
{
    return step == c->machine->round && !is_elsewhere(c, bundle, step) &&
           (c->keep_until_s <= 0 || spot_clock_s() < c->keep_until_s);
}

bool spot_trainer_holds(const struct spot_trainer *c, uint32_t id, int bundle, int64_t step)
{
    return spot_trainer_member(c, id)->held[bundle] == step &&
           (!spot_trainer_is_aside(c, id) || is_kept_from(c, bundle, step));
}

bool spot_trainer_must_keep(const struct spot_trainer *c, int64_t step)
{
    for (int b = 0; b < c->n_bundle; b++)
        for (size_t i = 0; i < c->machine->n_member; i++) {
            const uint32_t id = c->machine->member[i].id;

            if (spot_trainer_is_aside(c, id) && spot_trainer_holds(c, id, b, step))
                return true;
        }
    return false;
}

/* --- the newest step -------------------------------------------------------- */

/* [n_member * n_bundle], steps of copies as last reported. With `idle` the reports of active
 * members are ignored, since they are out of date while steps run. */
static int64_t *copies(const struct spot_trainer *c, bool idle)
{
    const size_t n = (size_t)c->n_bundle;
    int64_t *held = spot_xcalloc(c->machine->n_member * n, sizeof(*held));

    for (size_t i = 0; i < c->machine->n_member; i++) {
        const struct spot_member *m = &c->machine->member[i];
        const int64_t *step = spot_trainer_member(c, m->id)->held;

        for (size_t b = 0; b < n; b++)
            held[i * n + b] = (idle && m->role == SPOT_ROLE_ACTIVE) ||
                                      !spot_trainer_holds(c, m->id, (int)b, step[b])
                                  ? -1
                                  : step[b];
    }
    return held;
}

static int64_t newest(const struct spot_trainer *c, bool idle)
{
    int64_t *held = copies(c, idle);
    const int64_t step = spot_recovery_newest(held, c->machine->n_member, (size_t)c->n_bundle,
                                              spot_store_newest(c->saver.store));

    free(held);
    return step;
}

int64_t spot_trainer_newest(const struct spot_trainer *c)
{
    return newest(c, false);
}

bool spot_trainer_finds_newer(const struct spot_trainer *c)
{
    return newest(c, true) > c->machine->round;
}

/* --- after a restart ------------------------------------------------------ */

static int64_t newest_copy(const struct spot_trainer *c)
{
    int64_t step = -1;

    for (size_t i = 0; i < c->machine->n_member; i++)
        for (int b = 0; b < c->n_bundle; b++) {
            const int64_t held = spot_trainer_member(c, c->machine->member[i].id)->held[b];

            step = held > step ? held : step;
        }
    return step;
}

void spot_trainer_await(struct spot_trainer *c)
{
    if (spot_group_resumes(c->group))
        c->await_until_s = spot_clock_s() + c->options->lease_s;
}

bool spot_trainer_awaits(const struct spot_trainer *c)
{
    struct spot_recovery r = { .logged = c->machine->round };

    if (spot_clock_s() >= c->await_until_s)
        return false;
    r.newest = spot_trainer_newest(c);
    r.held_max = newest_copy(c);
    for (size_t i = 0; i < c->journal->n_holder; i++)
        r.n_absent += !spot_group_find_name(c->group, c->journal->holder[i]);
    return spot_recovery_waits(&r);
}

void spot_trainer_settle_step(struct spot_trainer *c)
{
    c->await_until_s = 0;
}

bool spot_trainer_may_begin(void *job, struct spot_view *view)
{
    const struct spot_trainer *const c = job;

    (void)view;
    return !spot_trainer_awaits(c) && !spot_trainer_awaits_store(c) &&
           !spot_trainer_must_keep(c, c->machine->round);
}

bool spot_trainer_may_leave(void *job, struct spot_view *view)
{
    const struct spot_trainer *const c = job;

    (void)view;
    return !spot_store_is_busy(c->saver.store) && !spot_trainer_awaits(c);
}

/* SPDX-License-Identifier: MIT */
/* fleet_rig.h - a cloud in memory, and a fleet whose process may die at every point of a turn. */
#ifndef SPOT_TESTS_FLEET_RIG_H
#define SPOT_TESTS_FLEET_RIG_H

#include <math.h>
#include <stdio.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "doc_rig.h"
#include "fleet/tick.h"

enum { RIG_MACHINES = 4096, RIG_NOTES = 40, RIG_WANTS = 1000 };

struct rig_machine {
    char id[24], token[SPOT_FLEET_TOKEN_MAX], zone[8], type[8];
    bool is_on_demand, is_dead;
    enum spot_fleet_life life;
    int born; /* lists before it */
};

/* Where a process may die: before and after the list, before and after each save, before a command,
 * in a launch behind the cloud's back, and after a command, whose result is not saved. */
enum rig_point {
    RIG_LISTS,
    RIG_LISTED,
    RIG_SAVES,
    RIG_SAVED,
    RIG_RUNS,
    RIG_LAUNCHED,
    RIG_RAN,
    RIG_POINTS
};

struct rig {
    struct rig_machine machine[RIG_MACHINES];
    int n, n_list, n_run, n_drain; /* n_run: launch commands that ran */
    int lag;                       /* lists until a new machine is listed */
    int capacity;                  /* of spot in zone a, -1: no limit */
    int surplus;                   /* launches of so many more than asked for */
    bool gives_wrong_type, gives_wrong_zone, lists_nothing, cannot_list, cannot_launch, cannot_end,
        cannot_drain, launches_in_vain;
    const char *double_id; /* that id is listed twice */
    double now_s;
    struct spot_rng rng;
    char *saved;
    size_t n_saved;
    int fuse; /* the process dies at this point; 0: it does not */
    enum rig_point died_at;
    bool is_dead;
    struct spot_fleet_listed listed[RIG_MACHINES];
    char note[RIG_NOTES][24];
    int n_note;
    struct spot_fleet_setting set;
    struct spot_fleet *fleet;
    uint64_t life;
    struct spot_plan_buy want[RIG_WANTS];
    char zone[RIG_WANTS][16];
    size_t n_want;
};

/* Does the process die here? Once dead it does nothing more. */
static inline bool dies(struct rig *r, enum rig_point at)
{
    if (r->fuse && !--r->fuse) {
        r->is_dead = true;
        r->died_at = at;
    }
    return r->is_dead;
}

static inline double rig_now(void *user)
{
    return ((struct rig *)user)->now_s;
}

static inline int rig_save(void *user, const char *text, size_t n, struct spot_err *err)
{
    struct rig *r = user;

    if (dies(r, RIG_SAVES))
        return spot_err_set(err, SPOT_ESYS, "died");
    free(r->saved);
    r->saved = spot_xstrdup(text);
    r->n_saved = n;
    return dies(r, RIG_SAVED) ? spot_err_set(err, SPOT_ESYS, "died") : 0;
}

static inline int rig_list(void *user, const struct spot_fleet_listed **listed, size_t *n,
                           struct spot_err *err)
{
    struct rig *r = user;

    *n = 0;
    *listed = r->listed;
    if (dies(r, RIG_LISTS) || r->cannot_list)
        return spot_err_set(err, SPOT_ESYS, "no list");
    r->n_list++;
    for (int i = 0; i < r->n && !r->lists_nothing; i++) {
        const struct rig_machine *m = &r->machine[i];

        if (m->is_dead || r->n_list - m->born <= r->lag)
            continue;
        r->listed[(*n)++] = (struct spot_fleet_listed){ m->id,   m->token,        m->zone,
                                                        m->type, m->is_on_demand, m->life };
        if (r->double_id && !strcmp(m->id, r->double_id)) {
            r->listed[*n] = r->listed[*n - 1];
            ++*n;
        }
    }
    return dies(r, RIG_LISTED) ? spot_err_set(err, SPOT_ESYS, "died") : 0;
}

static inline struct rig_machine *rig_add(struct rig *r, const char *token, const char *zone,
                                          const char *type, bool is_on_demand)
{
    struct rig_machine *m = &r->machine[r->n];

    ck_assert_int_lt(r->n, RIG_MACHINES);
    snprintf(m->id, sizeof(m->id), "i-%05d", r->n++);
    snprintf(m->token, sizeof(m->token), "%s", token);
    snprintf(m->zone, sizeof(m->zone), "%s", zone);
    snprintf(m->type, sizeof(m->type), "%s", type);
    m->is_on_demand = is_on_demand;
    m->life = SPOT_FLEET_RUNNING;
    m->born = r->n_list;
    return m;
}

static inline int rig_alive(const struct rig *r, const char *zone, int is_on_demand)
{
    int n = 0;

    for (int i = 0; i < r->n; i++)
        n += !r->machine[i].is_dead && !strcmp(r->machine[i].zone, zone) &&
             (is_on_demand < 0 || r->machine[i].is_on_demand == is_on_demand);
    return n;
}

/* As the contract of a launch command has it: a token launches once. */
static inline void rig_launch(struct rig *r, const struct spot_fleet_action *a,
                              struct spot_fleet_outcome *result)
{
    int had = 0;

    r->n_run++;
    for (int i = 0; i < r->n; i++)
        had += !strcmp(r->machine[i].token, a->token);
    for (int i = had; i < a->count + r->surplus && !r->launches_in_vain; i++) {
        if (!a->is_on_demand && *a->zone == 'a' && r->capacity >= 0 &&
            rig_alive(r, "a", 0) >= r->capacity)
            break;
        rig_add(r, a->token, r->gives_wrong_zone || !*a->zone ? "z" : a->zone,
                r->gives_wrong_type ? "other" : a->type, a->is_on_demand);
    }
    if (dies(r, RIG_LAUNCHED) || r->cannot_launch)
        return;
    result->is_done = true;
    result->id = spot_xcalloc(RIG_MACHINES, sizeof(*result->id));
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->machine[i].token, a->token))
            result->id[result->n_id++] = spot_xstrdup(r->machine[i].id);
}

static inline int rig_run(void *user, const struct spot_fleet_action *action, size_t n,
                          struct spot_fleet_outcome *result, struct spot_err *err)
{
    struct rig *r = user;
    const size_t first = n ? spot_rng_below(&r->rng, n) : 0;

    for (size_t k = 0; k < n; k++) {
        const size_t i = (first + k) % n;

        if (dies(r, RIG_RUNS))
            return spot_err_set(err, SPOT_ESYS, "died");
        if (action[i].verb == SPOT_FLEET_LAUNCHES)
            rig_launch(r, &action[i], &result[i]);
        for (int m = 0; action[i].id && m < r->n; m++)
            if (!strcmp(r->machine[m].id, action[i].id)) {
                ck_assert(!strncmp(r->machine[m].token, "chat-", 5)); /* never one of others */
                r->machine[m].is_dead |= action[i].verb == SPOT_FLEET_ENDS && !r->cannot_end;
            }
        if (action[i].verb == SPOT_FLEET_DRAINS)
            r->n_drain++;
        if (action[i].id)
            result[i].is_done =
                action[i].verb == SPOT_FLEET_DRAINS ? !r->cannot_drain : !r->cannot_end;
        if (dies(r, RIG_RAN))
            return spot_err_set(err, SPOT_ESYS, "died");
    }
    return 0;
}

static inline void rig_note(void *user, const char *event, const char *machine, const char *why)
{
    struct rig *r = user;

    (void)machine;
    (void)why;
    snprintf(r->note[r->n_note++ % RIG_NOTES], sizeof(*r->note), "%s", event);
}

static inline bool was_noted(const struct rig *r, const char *event)
{
    for (int i = 0; i < RIG_NOTES; i++)
        if (!strcmp(r->note[i], event))
            return true;
    return false;
}

/* Another life begins, with what the last one saved. */
static inline void rig_live(struct rig *r)
{
    struct spot_err err = { 0 };

    spot_fleet_free(r->fleet);
    r->is_dead = false;
    r->n_want = 0; /* a life begins without a plan */
    r->set.note = rig_note;
    r->set.user = r;
    r->set.wall_s = 1e9 + r->now_s;
    r->fleet = spot_fleet_new(&r->set, ++r->life, r->now_s);
    if (r->saved)
        ck_assert_int_eq(spot_fleet_read_state(r->fleet, r->saved, r->n_saved, "state", &err), 0);
}

static inline struct rig *rig_new(void)
{
    struct rig *r = spot_xcalloc(1, sizeof(*r));

    r->capacity = -1;
    r->set = (struct spot_fleet_setting){ .name = "chat",
                                          .max_usd_per_h = INFINITY,
                                          .settle_s = 60,
                                          .start_s = 1800,
                                          .pause_s = 20,
                                          .longest_s = 600 };
    spot_rng_init(&r->rng, 1, 1);
    rig_add(r, "batch-1-1", "a", "gpu", false); /* of somebody else */
    rig_live(r);
    return r;
}

static inline void rig_free(struct rig *r)
{
    ck_assert(!r->machine[0].is_dead);
    spot_fleet_free(r->fleet);
    free(r->saved);
    free(r);
}

static inline void rig_clear(struct rig *r)
{
    r->n_want = 0;
    ck_assert_int_eq(spot_fleet_set_target(r->fleet, NULL, 0, NULL), 0);
}

/* So many more. */
static inline void rig_want(struct rig *r, const char *zone, bool is_on_demand, int64_t n)
{
    struct spot_err err = { 0 };

    ck_assert_uint_lt(r->n_want, RIG_WANTS);
    snprintf(r->zone[r->n_want], sizeof(*r->zone), "%s", zone);
    r->want[r->n_want] = (struct spot_plan_buy){ r->zone[r->n_want], "gpu", is_on_demand, n };
    r->n_want++;
    ck_assert_int_eq(spot_fleet_set_target(r->fleet, r->want, r->n_want, &err), 0);
}

static inline void rig_price(struct rig *r, const char *zone, bool is_on_demand, double usd)
{
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_fleet_price(r->fleet, zone, "gpu", is_on_demand, usd, &err), 0);
}

/* One turn, ten seconds after the last. Returns what the turn returned. */
static inline int rig_tick(struct rig *r)
{
    const struct spot_fleet_world world = { rig_now, rig_save, rig_list, NULL, rig_run, r };
    struct spot_err err = { 0 };

    r->now_s += 10;
    return spot_fleet_tick(r->fleet, &world, NULL, &err);
}

static inline void rig_ticks(struct rig *r, int n)
{
    for (int i = 0; i < n; i++)
        rig_tick(r);
}

#endif /* SPOT_TESTS_FLEET_RIG_H */

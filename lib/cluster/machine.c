/* SPDX-License-Identifier: MIT */
#include "cluster/machine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

void spot_machine_init(struct spot_machine *m, enum spot_rounds rounds, uint32_t *last_epoch,
                       int64_t round)
{
    memset(m, 0, sizeof(*m));
    m->rounds = rounds;
    m->last_epoch = last_epoch;
    m->phase = SPOT_PHASE_WAIT;
    m->epoch = *last_epoch;
    m->round = round;
}

void spot_machine_release(struct spot_machine *m)
{
    free(m->member);
    memset(m, 0, sizeof(*m));
}

static int by_id(const void *key, const void *member)
{
    const uint32_t a = *(const uint32_t *)key, b = ((const struct spot_member *)member)->id;

    return (a > b) - (a < b);
}

struct spot_member *spot_machine_find(const struct spot_machine *m, uint32_t id)
{
    return m->n_member ? bsearch(&id, m->member, m->n_member, sizeof(*m->member), by_id) : NULL;
}

/* Without members the state machine continues at once. */
static enum spot_effect quiesce(struct spot_machine *m)
{
    m->phase = m->n_member ? SPOT_PHASE_QUIESCE : SPOT_PHASE_FORM;
    m->epoch = ++*m->last_epoch;
    m->change_wanted = false;
    for (size_t i = 0; i < m->n_member; i++) {
        m->member[i].has_replied = m->member[i].is_ready = m->member[i].has_voted = false;
        m->member[i].announced = 0;
    }
    return m->n_member ? SPOT_EFFECT_QUIESCE : SPOT_EFFECT_FORM;
}

/* In QUIESCE: continue when all have reported. */
static enum spot_effect check_replies(struct spot_machine *m)
{
    for (size_t i = 0; i < m->n_member; i++)
        if (!m->member[i].has_replied)
            return SPOT_EFFECT_NONE;
    m->phase = SPOT_PHASE_FORM;
    return SPOT_EFFECT_FORM;
}

void spot_machine_join(struct spot_machine *m, uint32_t id)
{
    size_t i = m->n_member;

    assert(!spot_machine_find(m, id));
    m->member = spot_xgrow(m->member, &m->cap, m->n_member + 1, sizeof(*m->member));
    for (; i && m->member[i - 1].id > id; i--)
        m->member[i] = m->member[i - 1];
    m->member[i] = (struct spot_member){ .id = id, .has_replied = true };
    m->n_member++;
}

enum spot_effect spot_machine_start(struct spot_machine *m)
{
    return m->phase == SPOT_PHASE_WAIT ? quiesce(m) : SPOT_EFFECT_NONE;
}

enum spot_effect spot_machine_want_change(struct spot_machine *m)
{
    m->change_wanted = m->phase != SPOT_PHASE_WAIT; /* places are assigned after WAIT anyway */
    return SPOT_EFFECT_NONE;
}

enum spot_effect spot_machine_broken(struct spot_machine *m, uint32_t epoch)
{
    if (epoch != m->epoch || (m->phase != SPOT_PHASE_MIGRATE && m->phase != SPOT_PHASE_RUN))
        return SPOT_EFFECT_NONE;
    return quiesce(m);
}

enum spot_effect spot_machine_notice(struct spot_machine *m, uint32_t id)
{
    struct spot_member *member = spot_machine_find(m, id);

    if (!member || member->is_leaving)
        return SPOT_EFFECT_NONE;
    member->is_leaving = true;
    if (m->phase == SPOT_PHASE_MIGRATE)
        return quiesce(m);
    if (m->phase == SPOT_PHASE_RUN && member->role == SPOT_ROLE_ACTIVE)
        m->change_wanted = true;
    return SPOT_EFFECT_NONE;
}

enum spot_effect spot_machine_lost(struct spot_machine *m, uint32_t id)
{
    struct spot_member *member = spot_machine_find(m, id);
    enum spot_role role;

    if (!member)
        return SPOT_EFFECT_NONE;
    role = member->role;
    m->n_member--;
    memmove(member, member + 1, (size_t)(m->member + m->n_member - member) * sizeof(*member));
    if (m->phase == SPOT_PHASE_QUIESCE)
        return check_replies(m);
    if ((m->phase == SPOT_PHASE_MIGRATE && role != SPOT_ROLE_SPARE) ||
        (m->phase == SPOT_PHASE_RUN && role == SPOT_ROLE_ACTIVE))
        return quiesce(m);
    return SPOT_EFFECT_NONE;
}

enum spot_effect spot_machine_replied(struct spot_machine *m, uint32_t id, uint32_t epoch)
{
    struct spot_member *member = spot_machine_find(m, id);

    if (!member || epoch != m->epoch || m->phase != SPOT_PHASE_QUIESCE)
        return SPOT_EFFECT_NONE;
    member->has_replied = true;
    return check_replies(m);
}

void spot_machine_hold(struct spot_machine *m)
{
    assert(m->phase == SPOT_PHASE_FORM);
    m->phase = SPOT_PHASE_WAIT;
    for (size_t i = 0; i < m->n_member; i++)
        m->member[i].role = SPOT_ROLE_SPARE;
}

enum spot_effect spot_machine_form(struct spot_machine *m, int64_t round)
{
    assert(m->phase == SPOT_PHASE_FORM);
    m->phase = SPOT_PHASE_MIGRATE;
    m->round = round;
    m->change_wanted = false; /* the new layout has taken the change into account */
    for (size_t i = 0; i < m->n_member; i++) {
        m->member[i].is_ready = m->member[i].has_voted = false;
        m->member[i].announced = round;
    }
    return SPOT_EFFECT_NONE;
}

enum spot_effect spot_machine_ready(struct spot_machine *m, uint32_t id, uint32_t epoch)
{
    struct spot_member *member = spot_machine_find(m, id);

    if (!member || epoch != m->epoch || m->phase != SPOT_PHASE_MIGRATE)
        return SPOT_EFFECT_NONE;
    member->is_ready = true;
    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role != SPOT_ROLE_SPARE && !m->member[i].is_ready)
            return SPOT_EFFECT_NONE;
    m->phase = SPOT_PHASE_RUN;
    return SPOT_EFFECT_ROUND;
}

/* The member if it may vote in this epoch, else NULL. */
static struct spot_member *voter(const struct spot_machine *m, uint32_t id, uint32_t epoch)
{
    struct spot_member *member = spot_machine_find(m, id);

    return member && epoch == m->epoch && m->phase == SPOT_PHASE_RUN &&
                   member->role == SPOT_ROLE_ACTIVE
               ? member
               : NULL;
}

int64_t spot_machine_reached(const struct spot_machine *m)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role == SPOT_ROLE_ACTIVE && m->member[i].announced < least)
            least = m->member[i].announced;
    return least == INT64_MAX ? m->round : least;
}

enum spot_effect spot_machine_voted(struct spot_machine *m, uint32_t id, uint32_t epoch,
                                    int64_t round)
{
    struct spot_member *const member = voter(m, id, epoch);

    if (!member || round == INT64_MAX ||
        (m->rounds == SPOT_ROUNDS_LOCKSTEP ? round != m->round : round < member->announced))
        return SPOT_EFFECT_NONE;
    member->has_voted = true;
    member->announced = round + 1;
    return spot_machine_reached(m) > m->round ? SPOT_EFFECT_COMMIT : SPOT_EFFECT_NONE;
}

enum spot_effect spot_machine_committed(struct spot_machine *m)
{
    assert(m->phase == SPOT_PHASE_RUN);
    m->round = spot_machine_reached(m);
    for (size_t i = 0; i < m->n_member; i++)
        m->member[i].has_voted = m->member[i].announced > m->round;
    if (m->change_wanted && m->rounds != SPOT_ROUNDS_KEPT)
        return quiesce(m);
    return m->rounds == SPOT_ROUNDS_LOCKSTEP ? SPOT_EFFECT_ROUND : SPOT_EFFECT_NONE;
}

enum spot_effect spot_machine_redo(struct spot_machine *m)
{
    assert(m->phase == SPOT_PHASE_RUN && m->rounds == SPOT_ROUNDS_LOCKSTEP);
    for (size_t i = 0; i < m->n_member; i++) {
        m->member[i].has_voted = false;
        m->member[i].announced = m->round;
    }
    return SPOT_EFFECT_ROUND;
}

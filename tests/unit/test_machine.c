/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/machine.h"
#include "common/rng.h"
#include "suite.h"

/* Goal: the promises of machine.h hold for every order of events. Model worlds, one per view of a
 * group (members with queues in both directions, a caller that chooses layouts at random), drive
 * their machines through seeded orders of joins, notices, deaths, broken links, plans and late
 * messages; a shadow that knows nothing of the machine's flags says what may happen. Views take
 * turns at random, in lockstep or with announced rounds. SPOT_ORDERS sets how many. */

enum { MEMBERS_MAX = 7, QUEUE_MAX = 64, VIEWS_MAX = 3 };

enum word { QUIESCE, FORM, ROUND, LEAVE, REPLIED, READY, VOTED };

struct message {
    enum word word;
    uint32_t epoch;
    int64_t round;
};

struct queue {
    struct message at[QUEUE_MAX];
    int head, n;
};

struct actor {
    uint32_t id; /* 0: nobody */
    bool is_told_to_leave;
    uint32_t epoch; /* as the member knows it */
    struct queue orders, answers;
    /* the shadow: what the coordinator has heard in this epoch, and the role it gave */
    bool was_asked, has_replied, has_readied;
    int64_t announced; /* all rounds below */
    int64_t next; /* as the member counts, where rounds are announced; NEVER: it does not run */
    enum spot_role role;
};

enum { NEVER = -1 };

struct world {
    struct spot_machine machine;
    struct spot_rng rng;
    uint64_t seed;
    uint32_t *last_epoch; /* of all views */
    enum spot_rounds rounds;
    struct actor actor[MEMBERS_MAX];
    uint32_t last_id;
    uint32_t epoch; /* shadow */
    int64_t round;  /* shadow */
    bool wants_change;
    int n_commit, n_event;
};

#define need(w, condition)                                                                  \
    do {                                                                                    \
        if (!(condition))                                                                   \
            ck_abort_msg("seed %llu, event %d: " #condition, (unsigned long long)(w)->seed, \
                         (w)->n_event);                                                     \
    } while (0)

static uint64_t below(struct world *w, uint64_t n)
{
    return spot_rng_below(&w->rng, n);
}

static void push(struct world *w, struct queue *q, enum word word, uint32_t epoch, int64_t round)
{
    need(w, q->n < QUEUE_MAX);
    q->at[(q->head + q->n++) % QUEUE_MAX] = (struct message){ word, epoch, round };
}

static struct message pop(struct queue *q)
{
    const struct message m = q->at[q->head];

    q->head = (q->head + 1) % QUEUE_MAX;
    q->n--;
    return m;
}

static bool placeable(const struct spot_machine *m)
{
    for (size_t i = 0; i < m->n_member; i++)
        if (!m->member[i].is_leaving)
            return true;
    return false;
}

/* --- the caller: what coordinator.c does with effects ---------------------- */

static void begin_epoch(struct world *w)
{
    need(w, w->machine.phase == (w->machine.n_member ? SPOT_PHASE_QUIESCE : SPOT_PHASE_FORM));
    need(w, w->machine.epoch > w->epoch && w->machine.epoch == *w->last_epoch);
    w->epoch = w->machine.epoch;
    w->wants_change = false;
    for (int i = 0; i < MEMBERS_MAX; i++) {
        struct actor *a = &w->actor[i];

        a->was_asked = a->id != 0;
        a->has_replied = a->has_readied = false;
        a->announced = NEVER;
        if (a->id)
            push(w, &a->orders, QUIESCE, w->epoch, 0);
    }
}

static void tell_round(struct world *w)
{
    need(w, w->machine.phase == SPOT_PHASE_RUN);
    for (int i = 0; i < MEMBERS_MAX; i++) {
        struct actor *a = &w->actor[i];

        a->announced = w->round;
        need(w, !a->id || a->role == SPOT_ROLE_SPARE || a->has_readied);
        if (a->id && a->role == SPOT_ROLE_ACTIVE)
            push(w, &a->orders, ROUND, w->epoch, w->round);
    }
}

/* Roles at random; at least one member is active, none that leaves is. */
static bool draw_roles(struct world *w)
{
    size_t n_active = 0;

    if (!placeable(&w->machine) || below(w, 16) == 0)
        return false;
    while (!n_active)
        for (int i = 0; i < MEMBERS_MAX; i++) {
            struct actor *a = &w->actor[i];
            struct spot_member *m = a->id ? spot_machine_find(&w->machine, a->id) : NULL;

            need(w, !a->id || m);
            if (!m)
                continue;
            a->role = (enum spot_role)below(w, m->is_leaving ? 2 : 3);
            m->role = a->role;
            n_active += a->role == SPOT_ROLE_ACTIVE;
        }
    return true;
}

static void form(struct world *w)
{
    need(w, w->machine.phase == SPOT_PHASE_FORM);
    for (int i = 0; i < MEMBERS_MAX; i++)
        need(w, !w->actor[i].id || !w->actor[i].was_asked || w->actor[i].has_replied);
    if (!draw_roles(w)) {
        for (int i = 0; i < MEMBERS_MAX; i++)
            w->actor[i].role = SPOT_ROLE_SPARE;
        spot_machine_hold(&w->machine);
        need(w, w->machine.phase == SPOT_PHASE_WAIT);
        return;
    }
    if (w->round && below(w, 8) == 0)
        w->round = (int64_t)below(w, (uint64_t)w->round + 1); /* a roll-back */
    need(w, spot_machine_form(&w->machine, w->round) == SPOT_EFFECT_NONE);
    for (int i = 0; i < MEMBERS_MAX; i++)
        if (w->actor[i].id && w->actor[i].role != SPOT_ROLE_SPARE)
            push(w, &w->actor[i].orders, FORM, w->epoch, 0);
}

/* The round below which every active member was heard to have gone. */
static int64_t all_reached(const struct world *w)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < MEMBERS_MAX; i++)
        if (w->actor[i].id && w->actor[i].role == SPOT_ROLE_ACTIVE && w->actor[i].announced < least)
            least = w->actor[i].announced;
    return least;
}

static enum spot_effect commit(struct world *w)
{
    const bool is_lockstep = w->rounds == SPOT_ROUNDS_LOCKSTEP;
    enum spot_effect next;

    need(w, w->machine.phase == SPOT_PHASE_RUN && w->machine.round == w->round);
    need(w, all_reached(w) > w->round && all_reached(w) == spot_machine_reached(&w->machine));
    need(w, !is_lockstep || all_reached(w) == w->round + 1);
    if (is_lockstep && below(w, 8) == 0) {
        next = spot_machine_redo(&w->machine);
        need(w, next == SPOT_EFFECT_ROUND);
        return next;
    }
    w->round = all_reached(w);
    next = spot_machine_committed(&w->machine);
    for (int i = 0; i < MEMBERS_MAX; i++) {
        const struct actor *a = &w->actor[i];

        if (a->id && a->role == SPOT_ROLE_ACTIVE &&
            spot_machine_find(&w->machine, a->id)->is_leaving)
            w->wants_change = true; /* it must be able to go now */
    }
    need(w, next == (w->wants_change ? SPOT_EFFECT_QUIESCE
                     : is_lockstep   ? SPOT_EFFECT_ROUND
                                     : SPOT_EFFECT_NONE));
    w->n_commit++;
    return next;
}

static void act(struct world *w, enum spot_effect effect)
{
    while (effect != SPOT_EFFECT_NONE) {
        const enum spot_effect now = effect;

        effect = SPOT_EFFECT_NONE;
        if (now == SPOT_EFFECT_QUIESCE) {
            begin_epoch(w);
        } else if (now == SPOT_EFFECT_FORM) {
            if (w->machine.epoch != w->epoch)
                begin_epoch(w); /* nobody to wait for */
            form(w);
        } else if (now == SPOT_EFFECT_ROUND)
            tell_round(w);
        else
            effect = commit(w);
    }
    need(w, w->machine.epoch == w->epoch && w->machine.round == w->round);
}

/* --- events ---------------------------------------------------------------- */

static void want_change(struct world *w)
{
    if (w->machine.phase == SPOT_PHASE_MIGRATE || w->machine.phase == SPOT_PHASE_RUN)
        w->wants_change = true;
    act(w, spot_machine_want_change(&w->machine));
}

static void join(struct world *w)
{
    for (int i = 0; i < MEMBERS_MAX; i++)
        if (!w->actor[i].id) {
            w->actor[i] = (struct actor){ .id = ++w->last_id, .epoch = w->epoch, .next = NEVER };
            spot_machine_join(&w->machine, w->last_id);
            if (below(w, 2) && w->machine.phase != SPOT_PHASE_WAIT)
                want_change(w);
            return;
        }
}

static void die(struct world *w, struct actor *a)
{
    const uint32_t id = a->id;

    *a = (struct actor){ .id = 0 };
    act(w, spot_machine_lost(&w->machine, id));
    need(w, !spot_machine_find(&w->machine, id));
}

/* The member obeys one order; its answer travels. */
static void obey(struct world *w, struct actor *a)
{
    const struct message m = pop(&a->orders);

    if (m.word == QUIESCE) {
        a->epoch = m.epoch;
        a->next = NEVER;
        push(w, &a->answers, REPLIED, m.epoch, 0);
    } else if (m.word == FORM) {
        a->epoch = m.epoch;
        push(w, &a->answers, READY, m.epoch, 0);
    } else if (m.word == ROUND && m.epoch == a->epoch) {
        if (w->rounds == SPOT_ROUNDS_LOCKSTEP)
            push(w, &a->answers, VOTED, m.epoch, m.round);
        else
            a->next = m.round;
    } else if (m.word == LEAVE) {
        die(w, a);
    }
}

/* A member whose rounds nobody begins completes one, or some before it says so. */
static bool go_on(struct world *w, struct actor *a)
{
    if (!a->id || a->next == NEVER || a->answers.n > 4)
        return false;
    a->next += 1 + (int64_t)below(w, 3);
    push(w, &a->answers, VOTED, a->epoch, a->next - 1);
    return true;
}

/* The coordinator hears one answer. */
static void hear(struct world *w, struct actor *a)
{
    const struct message m = pop(&a->answers);

    if (m.epoch == w->epoch) {
        a->has_replied |= m.word == REPLIED;
        a->has_readied |= m.word == READY;
        if (m.word == VOTED && (w->rounds == SPOT_ROUNDS_ANNOUNCED || m.round == w->round))
            a->announced = m.round + 1;
    }
    if (m.word == REPLIED)
        act(w, spot_machine_replied(&w->machine, a->id, m.epoch));
    else if (m.word == READY)
        act(w, spot_machine_ready(&w->machine, a->id, m.epoch));
    else
        act(w, spot_machine_voted(&w->machine, a->id, m.epoch, m.round));
}

/* Whatever a stranger, a zombie or a member of another epoch says changes nothing. */
static void lie(struct world *w)
{
    const struct spot_machine before = w->machine;
    struct spot_member member[MEMBERS_MAX];
    const bool is_stranger = below(w, 2);
    const uint32_t id =
        is_stranger ? w->last_id + 1 + (uint32_t)below(w, 9) : w->actor[below(w, MEMBERS_MAX)].id;
    const uint32_t epoch =
        is_stranger ? w->epoch : w->epoch + 1 + (uint32_t)below(w, 3) * 0x7fffffff;
    enum spot_effect effect = SPOT_EFFECT_NONE;

    for (size_t i = 0; i < before.n_member; i++)
        member[i] = before.member[i];
    switch (below(w, 6)) {
    case 0:
        effect = spot_machine_replied(&w->machine, id, epoch);
        break;
    case 1:
        effect = spot_machine_ready(&w->machine, id, epoch);
        break;
    case 2:
        effect = spot_machine_voted(&w->machine, id, epoch, w->round);
        break;
    case 3: /* the right epoch, a round that is over; in lockstep also one that has not begun */
        effect = spot_machine_voted(
            &w->machine, id, w->epoch,
            w->round + (w->rounds == SPOT_ROUNDS_LOCKSTEP && below(w, 2) ? 1 : -1));
        break;
    case 4:
        effect = is_stranger ? spot_machine_lost(&w->machine, id)
                             : spot_machine_broken(&w->machine, epoch);
        break;
    default:
        effect = is_stranger ? spot_machine_notice(&w->machine, id) : SPOT_EFFECT_NONE;
    }
    need(w, effect == SPOT_EFFECT_NONE);
    need(w, !memcmp(&before, &w->machine, sizeof(before)));
    need(w,
         !before.n_member || !memcmp(member, w->machine.member, before.n_member * sizeof(*member)));
}

/* Members that leave and are not needed are told to go, as coordinator.c does. */
static void release_leavers(struct world *w)
{
    for (int i = 0; i < MEMBERS_MAX; i++) {
        struct actor *a = &w->actor[i];
        const struct spot_member *m = a->id ? spot_machine_find(&w->machine, a->id) : NULL;

        need(w, !a->id || m);
        if (m && m->is_leaving && m->role != SPOT_ROLE_ACTIVE && !a->is_told_to_leave &&
            (w->machine.phase == SPOT_PHASE_RUN || w->machine.phase == SPOT_PHASE_WAIT)) {
            a->is_told_to_leave = true;
            push(w, &a->orders, LEAVE, 0, 0);
        }
    }
}

/* Deliver something that is under way; false when nothing is. */
static bool deliver(struct world *w)
{
    const uint64_t first = below(w, 2 * MEMBERS_MAX);

    for (uint64_t k = 0; k < 2 * MEMBERS_MAX; k++) {
        const uint64_t at = (first + k) % (2 * MEMBERS_MAX);
        struct actor *a = &w->actor[at / 2];

        if (a->id && at % 2 && a->orders.n) {
            obey(w, a);
            return true;
        }
        if (a->id && at % 2 == 0 && a->answers.n) {
            hear(w, a);
            return true;
        }
        if (at % 2 && go_on(w, a))
            return true;
    }
    return false;
}

static void start(struct world *w)
{
    if (w->machine.phase == SPOT_PHASE_WAIT && placeable(&w->machine))
        act(w, spot_machine_start(&w->machine));
}

static void disturb(struct world *w)
{
    struct actor *a = &w->actor[below(w, MEMBERS_MAX)];

    switch (below(w, 8)) {
    case 0:
    case 1:
        join(w);
        break;
    case 2:
        if (a->id)
            act(w, spot_machine_notice(&w->machine, a->id));
        break;
    case 3:
        if (a->id)
            die(w, a);
        break;
    case 4:
        act(w, spot_machine_broken(&w->machine, w->epoch - (uint32_t)below(w, 2)));
        break;
    case 5:
        want_change(w);
        break;
    default:
        lie(w);
    }
}

/* Left alone, with somebody who can take a place, the job commits. */
static void settle(struct world *w)
{
    const int goal = w->n_commit + 3;

    if (!placeable(&w->machine))
        for (int i = 0; i < MEMBERS_MAX && w->last_id; i++)
            if (w->actor[i].id && spot_machine_find(&w->machine, w->actor[i].id)->is_leaving) {
                die(w, &w->actor[i]);
                break;
            }
    join(w);
    for (int k = 0; w->n_commit < goal; k++) {
        need(w, k < 2000);
        w->n_event++;
        release_leavers(w);
        start(w);
        /* nothing under way and not waiting: an effect was lost */
        need(w, deliver(w) || w->machine.phase == SPOT_PHASE_WAIT);
    }
}

static void move(struct world *w, int *k)
{
    w->n_event++;
    if (below(w, 4) == 0) {
        disturb(w);
        ++*k;
    } else if (below(w, 8) == 0) {
        start(w);
    } else {
        release_leavers(w);
        *k += !deliver(w);
    }
}

static int play(uint64_t seed, enum spot_rounds rounds, size_t n_view)
{
    struct world view[VIEWS_MAX];
    uint32_t last_epoch;
    int n_commit = 0, n_disturb;

    for (size_t v = 0; v < n_view; v++) {
        struct world *const w = &view[v];

        *w = (struct world){ .seed = seed, .rounds = rounds, .last_epoch = &last_epoch };
        spot_rng_init(&w->rng, seed, v);
        if (!v)
            last_epoch = (uint32_t)below(w, 1000);
        w->epoch = last_epoch;
        w->round = (int64_t)below(w, 1000);
        spot_machine_init(&w->machine, rounds, &last_epoch, w->round);
    }
    n_disturb = 1 + (int)below(&view[0], 24);
    for (int k = 0; k < n_disturb * (int)n_view;)
        move(&view[n_view > 1 ? below(&view[0], n_view) : 0], &k);
    for (size_t v = 0; v < n_view; v++) { /* whatever the others' members do: they are left alone */
        settle(&view[v]);
        n_commit += view[v].n_commit;
    }
    for (size_t v = 0; v < n_view; v++)
        spot_machine_release(&view[v].machine);
    return n_commit;
}

static void play_all(enum spot_rounds rounds, size_t n_view)
{
    const char *orders = getenv("SPOT_ORDERS"), *only = getenv("SPOT_SEED");
    const uint64_t n = orders ? strtoull(orders, NULL, 10) : 100000 / n_view;
    uint64_t n_commit = 0;

    if (only)
        play(strtoull(only, NULL, 10), rounds, n_view);
    for (uint64_t seed = 1; !only && seed <= n; seed++)
        n_commit += (uint64_t)play(seed, rounds, n_view);
    ck_assert(only || n_commit >= 3 * n * n_view);
}

START_TEST(every_order_of_events_keeps_the_promises)
{
    play_all(SPOT_ROUNDS_LOCKSTEP, 1);
}
END_TEST

START_TEST(announced_rounds_keep_them)
{
    play_all(SPOT_ROUNDS_ANNOUNCED, 1);
}
END_TEST

START_TEST(views_that_take_turns_keep_them)
{
    play_all(SPOT_ROUNDS_LOCKSTEP, VIEWS_MAX);
    play_all(SPOT_ROUNDS_ANNOUNCED, VIEWS_MAX);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 3600);
    add_tests(tc);
    return run_case("machine", tc);
}

/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/machine.h"
#include "common/rng.h"

/* Goal: the promises of machine.h hold for every order of events. A model world (members with
 * queues in both directions, a caller that chooses grids at random) drives the machine through
 * seeded orders of joins, notices, deaths, broken links, plans and late messages; a shadow that
 * knows nothing of the machine's flags says what may happen. SPOT_ORDERS sets how many. */

enum { MEMBERS_MAX = 7, QUEUE_MAX = 64, NEVER = -1 };

enum word { QUIESCE, FORM, STEP, LEAVE, REPLIED, READY, VOTED };

struct message {
    enum word word;
    uint32_t epoch;
    int64_t step;
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
    bool was_asked, has_replied, has_readied, has_voted;
    enum spot_role role;
};

struct world {
    struct spot_machine machine;
    struct spot_rng rng;
    uint64_t seed;
    struct actor actor[MEMBERS_MAX];
    uint32_t last_id;
    uint32_t epoch; /* shadow */
    int64_t step;   /* shadow */
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

static void push(struct world *w, struct queue *q, enum word word, uint32_t epoch, int64_t step)
{
    need(w, q->n < QUEUE_MAX);
    q->at[(q->head + q->n++) % QUEUE_MAX] = (struct message){ word, epoch, step };
}

static struct message pop(struct queue *q)
{
    const struct message m = q->at[q->head];

    q->head = (q->head + 1) % QUEUE_MAX;
    q->n--;
    return m;
}

/* --- the caller: what coordinator.c does with effects ---------------------- */

static void begin_epoch(struct world *w)
{
    need(w, w->machine.phase == SPOT_PHASE_QUIESCE);
    need(w, w->machine.epoch == w->epoch + 1);
    w->epoch++;
    w->wants_change = false;
    for (int i = 0; i < MEMBERS_MAX; i++) {
        struct actor *a = &w->actor[i];

        a->was_asked = a->id != 0;
        a->has_replied = a->has_readied = a->has_voted = false;
        if (a->id)
            push(w, &a->orders, QUIESCE, w->epoch, 0);
    }
}

static void tell_step(struct world *w)
{
    need(w, w->machine.phase == SPOT_PHASE_RUN);
    for (int i = 0; i < MEMBERS_MAX; i++) {
        struct actor *a = &w->actor[i];

        a->has_voted = false;
        need(w, !a->id || a->role == SPOT_ROLE_SPARE || a->has_readied);
        if (a->id && a->role == SPOT_ROLE_ACTIVE)
            push(w, &a->orders, STEP, w->epoch, w->step);
    }
}

/* Roles at random; at least one member is active, none that leaves is. */
static bool draw_roles(struct world *w)
{
    size_t n_active = 0;

    if (!spot_machine_placeable(&w->machine) || below(w, 16) == 0)
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
    if (w->step && below(w, 8) == 0)
        w->step = (int64_t)below(w, (uint64_t)w->step + 1); /* a roll-back */
    need(w, spot_machine_form(&w->machine, w->step) == SPOT_EFFECT_NONE);
    for (int i = 0; i < MEMBERS_MAX; i++)
        if (w->actor[i].id && w->actor[i].role != SPOT_ROLE_SPARE)
            push(w, &w->actor[i].orders, FORM, w->epoch, 0);
}

static enum spot_effect commit(struct world *w)
{
    enum spot_effect next;

    need(w, w->machine.phase == SPOT_PHASE_RUN && w->machine.step == w->step);
    for (int i = 0; i < MEMBERS_MAX; i++)
        need(w, !w->actor[i].id || w->actor[i].role != SPOT_ROLE_ACTIVE || w->actor[i].has_voted);
    if (below(w, 8) == 0) {
        next = spot_machine_redo(&w->machine);
        need(w, next == SPOT_EFFECT_STEP);
        return next;
    }
    next = spot_machine_committed(&w->machine);
    for (int i = 0; i < MEMBERS_MAX; i++) {
        const struct actor *a = &w->actor[i];

        if (a->id && a->role == SPOT_ROLE_ACTIVE &&
            spot_machine_find(&w->machine, a->id)->is_leaving)
            w->wants_change = true; /* it must be able to go now */
    }
    need(w, next == (w->wants_change ? SPOT_EFFECT_QUIESCE : SPOT_EFFECT_STEP));
    w->step++;
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
            if (!w->machine.n_member) { /* as coordinator.c: nobody to wait for */
                w->machine.phase = SPOT_PHASE_FORM;
                effect = SPOT_EFFECT_FORM;
            }
        } else if (now == SPOT_EFFECT_FORM)
            form(w);
        else if (now == SPOT_EFFECT_STEP)
            tell_step(w);
        else
            effect = commit(w);
    }
    need(w, w->machine.epoch == w->epoch && w->machine.step == w->step);
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
            w->actor[i] = (struct actor){ .id = ++w->last_id, .epoch = w->epoch };
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
        push(w, &a->answers, REPLIED, m.epoch, 0);
    } else if (m.word == FORM) {
        a->epoch = m.epoch;
        push(w, &a->answers, READY, m.epoch, 0);
    } else if (m.word == STEP && m.epoch == a->epoch) {
        push(w, &a->answers, VOTED, m.epoch, m.step);
    } else if (m.word == LEAVE) {
        die(w, a);
    }
}

/* The coordinator hears one answer. */
static void hear(struct world *w, struct actor *a)
{
    const struct message m = pop(&a->answers);

    if (m.epoch == w->epoch) {
        a->has_replied |= m.word == REPLIED;
        a->has_readied |= m.word == READY;
        a->has_voted |= m.word == VOTED && m.step == w->step;
    }
    if (m.word == REPLIED)
        act(w, spot_machine_replied(&w->machine, a->id, m.epoch));
    else if (m.word == READY)
        act(w, spot_machine_ready(&w->machine, a->id, m.epoch));
    else
        act(w, spot_machine_voted(&w->machine, a->id, m.epoch, m.step));
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
        effect = spot_machine_voted(&w->machine, id, epoch, w->step);
        break;
    case 3: /* the right epoch, another step */
        effect =
            spot_machine_voted(&w->machine, id, w->epoch, w->step + 1 - 2 * (int64_t)below(w, 2));
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
    }
    return false;
}

static void start(struct world *w)
{
    if (w->machine.phase == SPOT_PHASE_WAIT && spot_machine_placeable(&w->machine))
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

    if (!spot_machine_placeable(&w->machine))
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

static int play(uint64_t seed)
{
    struct world w = { .seed = seed };
    int n_commit, n_disturb;

    spot_rng_init(&w.rng, seed, 0);
    w.epoch = (uint32_t)below(&w, 1000);
    w.step = (int64_t)below(&w, 1000);
    spot_machine_init(&w.machine, w.epoch, w.step);
    n_disturb = 1 + (int)below(&w, 24);
    for (int k = 0; k < n_disturb;) {
        w.n_event++;
        if (below(&w, 4) == 0) {
            disturb(&w);
            k++;
        } else if (below(&w, 8) == 0) {
            start(&w);
        } else {
            release_leavers(&w);
            if (!deliver(&w))
                k++;
        }
    }
    settle(&w);
    n_commit = w.n_commit;
    spot_machine_release(&w.machine);
    return n_commit;
}

START_TEST(every_order_of_events_keeps_the_promises)
{
    const char *orders = getenv("SPOT_ORDERS"), *only = getenv("SPOT_SEED");
    const uint64_t n = orders ? strtoull(orders, NULL, 10) : 100000;
    uint64_t n_commit = 0;

    if (only)
        play(strtoull(only, NULL, 10));
    for (uint64_t seed = 1; !only && seed <= n; seed++)
        n_commit += (uint64_t)play(seed);
    ck_assert(only || n_commit >= 3 * n);
}
END_TEST

/* The plain story, step by step, against the picture in machine.h. */
START_TEST(two_members_form_vote_and_commit)
{
    struct spot_machine m;

    spot_machine_init(&m, 7, 40);
    spot_machine_join(&m, 1);
    spot_machine_join(&m, 2);
    ck_assert_int_eq(spot_machine_start(&m), SPOT_EFFECT_QUIESCE);
    ck_assert_uint_eq(m.epoch, 8);
    ck_assert_int_eq(spot_machine_replied(&m, 1, 7), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_replied(&m, 1, 8), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_replied(&m, 2, 8), SPOT_EFFECT_FORM);
    spot_machine_find(&m, 1)->role = spot_machine_find(&m, 2)->role = SPOT_ROLE_ACTIVE;
    ck_assert_int_eq(spot_machine_form(&m, 40), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_ready(&m, 2, 8), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_ready(&m, 1, 8), SPOT_EFFECT_STEP);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 8, 40), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 8, 40), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 2, 8, 39), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 2, 8, 40), SPOT_EFFECT_COMMIT);
    ck_assert_int_eq(spot_machine_committed(&m), SPOT_EFFECT_STEP);
    ck_assert_int_eq(m.step, 41);
    /* a notice takes effect at the next commit, a death at once */
    ck_assert_int_eq(spot_machine_notice(&m, 1), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 8, 41), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_lost(&m, 2), SPOT_EFFECT_QUIESCE);
    ck_assert_uint_eq(m.epoch, 9);
    ck_assert_uint_eq(spot_machine_placeable(&m), 0);
    ck_assert_int_eq(spot_machine_replied(&m, 1, 9), SPOT_EFFECT_FORM);
    spot_machine_hold(&m);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 9, 41), SPOT_EFFECT_NONE);
    spot_machine_release(&m);
}
END_TEST

/* A join that an epoch under way already takes in does not cost a second epoch. */
START_TEST(a_change_that_the_new_grid_knows_of_is_not_made_twice)
{
    struct spot_machine m;

    spot_machine_init(&m, 0, 0);
    spot_machine_join(&m, 1);
    spot_machine_start(&m);
    spot_machine_join(&m, 2);
    spot_machine_want_change(&m);
    ck_assert_int_eq(spot_machine_replied(&m, 1, 1), SPOT_EFFECT_FORM);
    spot_machine_find(&m, 1)->role = spot_machine_find(&m, 2)->role = SPOT_ROLE_ACTIVE;
    spot_machine_form(&m, 0);
    spot_machine_ready(&m, 1, 1);
    ck_assert_int_eq(spot_machine_ready(&m, 2, 1), SPOT_EFFECT_STEP);
    spot_machine_voted(&m, 1, 1, 0);
    ck_assert_int_eq(spot_machine_voted(&m, 2, 1, 0), SPOT_EFFECT_COMMIT);
    ck_assert_int_eq(spot_machine_committed(&m), SPOT_EFFECT_STEP);
    spot_machine_release(&m);
}
END_TEST

/* Whoever holds is waited for: a plan is no reason to go on without. */
START_TEST(a_plan_does_not_end_a_wait)
{
    struct spot_machine m;

    spot_machine_init(&m, 3, 60);
    spot_machine_join(&m, 1);
    ck_assert_int_eq(spot_machine_want_change(&m), SPOT_EFFECT_NONE);
    ck_assert_int_eq(m.phase, SPOT_PHASE_WAIT);
    ck_assert_uint_eq(m.epoch, 3);
    ck_assert_int_eq(spot_machine_start(&m), SPOT_EFFECT_QUIESCE);
    ck_assert_int_eq(spot_machine_replied(&m, 1, 4), SPOT_EFFECT_FORM);
    spot_machine_find(&m, 1)->role = SPOT_ROLE_ACTIVE;
    spot_machine_form(&m, 60);
    ck_assert_int_eq(spot_machine_ready(&m, 1, 4), SPOT_EFFECT_STEP);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 4, 60), SPOT_EFFECT_COMMIT);
    ck_assert_int_eq(spot_machine_committed(&m), SPOT_EFFECT_STEP); /* its grid knows the plan */
    spot_machine_release(&m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("machine");
    TCase *tc = tcase_create("core");
    SRunner *sr;
    int n_failed;

    tcase_set_timeout(tc, 3600);
    tcase_add_test(tc, two_members_form_vote_and_commit);
    tcase_add_test(tc, a_change_that_the_new_grid_knows_of_is_not_made_twice);
    tcase_add_test(tc, a_plan_does_not_end_a_wait);
    tcase_add_test(tc, every_order_of_events_keeps_the_promises);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_set_tap(sr, "-");
    srunner_run_all(sr, CK_SILENT);
    n_failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

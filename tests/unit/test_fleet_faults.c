/* SPDX-License-Identifier: MIT */
/* Goal: whatever commands and clouds do wrong, and wherever the controller dies meanwhile, no
 * machine is paid and unknown, and none is bought twice. */
#include <stdio.h>
#include <stdlib.h>

#include "fleet_rig.h"

enum { FAULTY_TURNS = 20, SOUND_TURNS = 90, WANTED = 3 };

/* What is wrong in turn i; sound: not any more. */
static void launch_unknown(struct rig *r, int i, bool is_sound)
{
    r->cannot_launch = !is_sound && i % 3 < 2;
}
static void launch_in_vain(struct rig *r, int i, bool is_sound)
{
    (void)i;
    r->cannot_launch = r->launches_in_vain = !is_sound;
}
static void launch_fewer(struct rig *r, int i, bool is_sound)
{
    r->capacity = is_sound ? -1 : 1 + i % 3;
}
static void launch_more(struct rig *r, int i, bool is_sound)
{
    (void)i;
    r->surplus = !is_sound;
}
static void launch_wrong_type(struct rig *r, int i, bool is_sound)
{
    (void)i;
    r->gives_wrong_type = !is_sound;
}
static void launch_wrong_zone(struct rig *r, int i, bool is_sound)
{
    (void)i;
    r->gives_wrong_zone = !is_sound;
}
static void list_hiccups(struct rig *r, int i, bool is_sound)
{
    r->lists_nothing = !is_sound && i % 3 == 1;
}
static void list_fails(struct rig *r, int i, bool is_sound)
{
    r->cannot_list = !is_sound && i % 3 > 0;
}
static void list_doubles(struct rig *r, int i, bool is_sound)
{
    (void)i;
    r->double_id = is_sound ? NULL : "i-00002";
}
static void nothing_ends(struct rig *r, int i, bool is_sound)
{
    (void)i;
    r->cannot_end = r->cannot_drain = !is_sound;
}
static void clock_leaps(struct rig *r, int i, bool is_sound)
{
    r->now_s += is_sound ? 0 : i % 4 == 1 ? -3600 : i % 4 == 3 ? 7200 : 0;
}
static void machines_taken(struct rig *r, int i, bool is_sound)
{
    for (int m = 1; !is_sound && m < r->n; m++)
        if ((m + i) % 7 == 0)
            r->machine[m].is_dead = true;
}

static const struct fault {
    const char *name;
    void (*set)(struct rig *r, int i, bool is_sound);
} fault[] = {
    { "launch unknown", launch_unknown },
    { "launch in vain", launch_in_vain },
    { "fewer", launch_fewer },
    { "more", launch_more },
    { "wrong type", launch_wrong_type },
    { "wrong zone", launch_wrong_zone },
    { "list hiccups", list_hiccups },
    { "list fails", list_fails },
    { "list doubles", list_doubles },
    { "nothing ends", nothing_ends },
    { "clock leaps", clock_leaps },
    { "machines taken", machines_taken },
};
enum { FAULTS = sizeof(fault) / sizeof(*fault) };

/* Machines that were ever bought under the token of machine i. */
static int bought(const struct rig *r, int i)
{
    int n = 0;

    for (int k = 0; k < r->n; k++)
        n += !strcmp(r->machine[k].token, r->machine[i].token);
    return n;
}

static int alive(const struct rig *r)
{
    int n = 0;

    for (int i = 1; i < r->n; i++)
        n += !r->machine[i].is_dead;
    return n;
}

static void want(struct rig *r, int64_t n)
{
    rig_clear(r);
    rig_want(r, "a", false, n);
    rig_price(r, "", false, 1);
}

/* What came of it, for the table of docs/design/31-fleet.md. */
struct tally {
    int died[RIG_POINTS], most, doubled, unknown;
};

/* Returns whether the process died on the way. */
static bool play(const struct fault *f, int fuse, int lag, struct tally *t)
{
    struct rig *r = rig_new();
    bool has_died = false;

    r->lag = lag;
    r->set.has_drain = lag > 0;
    r->set.grace_s = 15;
    r->set.max_usd_per_h = WANTED;
    rig_live(r);
    r->fuse = fuse;
    for (int i = 0; i < FAULTY_TURNS + SOUND_TURNS; i++) {
        f->set(r, i, i >= FAULTY_TURNS);
        want(r, i < FAULTY_TURNS / 2 ? WANTED - 1 : WANTED);
        rig_tick(r);
        if (r->is_dead) {
            has_died = true;
            t->died[r->died_at]++;
            r->fuse = 0;
            rig_live(r);
        }
        t->most = alive(r) > t->most ? alive(r) : t->most;
        /* one turn after a launch of more than was asked for ends them */
        ck_assert_msg(alive(r) <= WANTED + 2 * r->surplus, "%s, fuse %d: %d machines", f->name,
                      fuse, alive(r));
    }
    want(r, WANTED);
    rig_tick(r); /* the last one may have been a death */
    ck_assert_msg(alive(r) == WANTED, "%s, fuse %d: %d machines at the end", f->name, fuse,
                  alive(r));
    t->unknown += alive(r) - (int)spot_fleet_total(r->fleet).held;
    ck_assert_int_eq(spot_fleet_total(r->fleet).held, WANTED); /* and all of them are known */
    for (int i = 1; i < r->n; i++) {
        t->doubled += bought(r, i) > WANTED + (f->set == launch_more);
        ck_assert_int_le(bought(r, i), WANTED + (f->set == launch_more));
    }
    rig_free(r);
    return has_died;
}

START_TEST(each_fault_with_a_death_at_each_point_loses_and_doubles_no_machine)
{
    int fuse = 1;
    struct tally t = { 0 };

    while (play(&fault[_i], fuse, _i % 3, &t))
        fuse++;
    ck_assert_int_gt(fuse, FAULTY_TURNS);
    for (int k = 0; k < RIG_POINTS; k++)
        ck_assert_int_gt(t.died[k], 0);
    if (getenv("SPOT_TEST_TABLE")) {
        printf("| %s |", fault[_i].name);
        for (int k = 0; k < RIG_POINTS; k++)
            printf(" %d |", t.died[k]);
        printf(" %d | %d | %d |\n", t.most, t.unknown, t.doubled);
    }
}
END_TEST

/* A launch command that prints what is another's. */
static int run_naming_others(void *user, const struct spot_fleet_action *action, size_t n,
                             struct spot_fleet_outcome *result, struct spot_err *err)
{
    (void)user;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(action[i].verb, SPOT_FLEET_LAUNCHES); /* the other's is never ended */
        result[i].is_done = true;
        result[i].id = spot_xcalloc(1, sizeof(char *));
        result[i].id[0] = spot_xstrdup("i-00000");
        result[i].n_id = 1;
    }
    return 0;
}

START_TEST(a_launch_that_names_a_machine_of_others_does_not_make_it_ours)
{
    struct rig *r = rig_new();
    const struct spot_fleet_world world = {
        rig_now, rig_save, rig_list, NULL, run_naming_others, r
    };
    struct spot_err err;

    rig_want(r, "a", false, 1);
    for (int i = 0; i < 6; i++) {
        r->now_s += 10;
        ck_assert_int_eq(spot_fleet_tick(r->fleet, &world, NULL, &err), 0);
        if (i == 2)
            rig_clear(r);
    }
    ck_assert(was_noted(r, "wrong"));
    ck_assert_int_eq(spot_fleet_total(r->fleet).held, 0);
    rig_free(r);
}
END_TEST

START_TEST(a_machine_that_is_listed_without_its_token_for_a_while_is_not_bought_again)
{
    struct rig *r = rig_new();
    char token[SPOT_FLEET_TOKEN_MAX];

    rig_want(r, "a", false, 1);
    rig_tick(r);
    memcpy(token, r->machine[1].token, sizeof(token));
    r->machine[1].token[0] = '\0';
    rig_ticks(r, 4);
    memcpy(r->machine[1].token, token, sizeof(token));
    rig_ticks(r, 10);
    ck_assert_int_eq(r->n, 1 + 1);
    ck_assert_int_eq(spot_fleet_total(r->fleet).running, 1);
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, each_fault_with_a_death_at_each_point_loses_and_doubles_no_machine, 0,
                        FAULTS);
    tcase_add_test(tc, a_launch_that_names_a_machine_of_others_does_not_make_it_ours);
    tcase_add_test(tc, a_machine_that_is_listed_without_its_token_for_a_while_is_not_bought_again);
    return run_suite("fleet_faults", tc);
}

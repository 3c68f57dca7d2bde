/* SPDX-License-Identifier: MIT */
/* Goal: a fleet comes to what a plan says, whatever dies, fails or lies, and buys nothing twice. */
#include "fleet_rig.h"

/* --- a death at every point --- */

static void set_target(struct rig *r, int stage)
{
    static const int64_t want[3][2] = { { 3, 2 }, { 1, 0 }, { 0, 0 } };

    rig_clear(r);
    rig_want(r, "a", false, want[stage][0]);
    rig_want(r, "b", false, want[stage][1]);
    rig_price(r, "", false, 1);
}

/* Returns whether the process died on the way. */
static bool play_with_a_death(int fuse, int lag, bool has_drain, uint64_t seed)
{
    struct rig *r = rig_new();
    int n_died = 0;

    r->lag = lag;
    r->set.has_drain = has_drain;
    r->set.grace_s = 15;
    r->set.max_usd_per_h = 5;
    spot_rng_init(&r->rng, seed, 2);
    rig_live(r);
    r->fuse = fuse;
    for (int i = 0; i < 60; i++) {
        set_target(r, i / 20);
        rig_tick(r);
        if (r->is_dead) {
            n_died++;
            r->fuse = n_died == 1 ? (int)spot_rng_below(&r->rng, 12) : 0;
            rig_live(r);
        }
        ck_assert_int_le(rig_alive(r, "a", -1) + rig_alive(r, "b", -1), 5 + 1); /* and the other */
        if (i % 20 == 19) {
            ck_assert_int_eq(rig_alive(r, "a", -1), 1 + (i < 20 ? 3 : i < 40 ? 1 : 0));
            ck_assert_int_eq(rig_alive(r, "b", -1), i < 20 ? 2 : 0);
        }
    }
    ck_assert_int_eq(r->n, 1 + 5); /* never one more was bought */
    rig_free(r);
    return n_died > 0;
}

START_TEST(dead_at_any_point_of_a_turn_it_loses_and_doubles_no_machine)
{
    for (int k = 0; k < 12; k++) {
        int fuse = 1;

        while (play_with_a_death(fuse, k % 3, k / 3 % 2, (uint64_t)k))
            fuse++;
        ck_assert_int_gt(fuse, 60 * 4); /* each turn has so many points at least */
    }
}
END_TEST

/* Each turn is a life of its own, as cron has it. */
static void live_turns(struct rig *r, int n, int64_t n_wanted)
{
    for (int i = 0; i < n; i++) {
        rig_live(r);
        rig_want(r, "a", false, n_wanted);
        rig_tick(r);
    }
}

static struct rig *r; /* of each test that follows */

static void set_up(void)
{
    r = rig_new();
}

static void tear_down(void)
{
    rig_free(r);
}

static void set_drain(double grace_s)
{
    r->set.has_drain = true;
    r->set.grace_s = grace_s;
}

START_TEST(a_fleet_without_its_state_finds_its_machines_again)
{
    rig_want(r, "a", false, 3);
    rig_ticks(r, 3);
    free(r->saved);
    r->saved = NULL;
    rig_live(r); /* under another identity they are those of another state */
    rig_tick(r);
    ck_assert_int_eq(rig_alive(r, "a", -1), 4);
    ck_assert(was_noted(r, "stranger"));
    ck_assert(!was_noted(r, "adopted"));
    free(r->saved);
    r->saved = NULL;
    r->life = 0;
    rig_live(r);
    rig_want(r, "a", false, 2);
    rig_ticks(r, 3);
    ck_assert_int_eq(r->n, 4);
    ck_assert_int_eq(rig_alive(r, "a", -1), 3);
    ck_assert(was_noted(r, "adopted"));
    rig_want(r, "a", false, 2); /* tokens of before are not given again */
    rig_ticks(r, 3);
    ck_assert_int_eq(r->n, 6);
    ck_assert_int_eq(rig_alive(r, "a", -1), 5);
}
END_TEST

/* --- a cloud that fails or lies --- */

START_TEST(one_empty_list_is_a_hiccup_and_two_are_a_loss)
{
    rig_want(r, "a", false, 4);
    rig_ticks(r, 3);
    r->lists_nothing = true;
    rig_tick(r);
    ck_assert_int_eq(r->n_run, 1);
    rig_tick(r);
    ck_assert_int_eq(r->n_run, 2);
}
END_TEST

START_TEST(a_list_that_fails_changes_nothing)
{
    rig_want(r, "a", false, 4);
    rig_ticks(r, 2);
    r->cannot_list = true;
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(rig_tick(r), -1);
    r->cannot_list = false;
    rig_ticks(r, 3);
    ck_assert_int_eq(r->n, 5);
}
END_TEST

START_TEST(what_is_taken_away_is_bought_again_and_what_leaves_is_replaced_ahead)
{
    rig_want(r, "a", false, 3);
    rig_ticks(r, 3);
    r->machine[1].is_dead = true;
    r->machine[2].life = SPOT_FLEET_LEAVING;
    rig_tick(r);
    ck_assert_int_eq(r->n, 5); /* the leaving one, which is still there */
    rig_tick(r);
    ck_assert_int_eq(r->n, 6);
    rig_ticks(r, 5);
    ck_assert_int_eq(r->n, 6);
}
END_TEST

START_TEST(a_launch_that_fails_is_asked_for_again_under_its_token_and_seldom)
{
    r->cannot_launch = r->launches_in_vain = true;
    rig_want(r, "a", false, 2);
    rig_ticks(r, 360); /* an hour */
    ck_assert_int_le(r->n_run, 12);
    ck_assert_int_eq(r->n, 1);
    r->cannot_launch = r->launches_in_vain = false;
    rig_ticks(r, 70);
    ck_assert_int_eq(r->n, 3);
}
END_TEST

START_TEST(an_unknown_launch_that_nobody_wants_any_more_is_given_up_or_ended)
{
    const bool does_launch = _i;

    r->cannot_launch = true;
    r->launches_in_vain = !does_launch;
    rig_want(r, "a", false, 2);
    rig_ticks(r, 1);
    rig_clear(r);
    rig_ticks(r, 20);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1);
    ck_assert_int_eq(spot_fleet_total(r->fleet).held, 0);
    ck_assert_int_eq(was_noted(r, "given_up"), !does_launch);
}
END_TEST

START_TEST(no_capacity_for_hours_is_bridged_on_demand_and_spot_returns)
{
    r->capacity = 1 + 1;
    rig_want(r, "a", false, 4);
    rig_price(r, "a", false, 1);
    rig_price(r, "", true, 3);
    rig_ticks(r, 3 * 360);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 1);
    ck_assert_int_eq(rig_alive(r, "a", 1), 3);
    ck_assert_int_le(r->n_run, 30);
    ck_assert(was_noted(r, "refused"));
    r->capacity = -1;
    rig_ticks(r, 70);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 4);
    ck_assert_int_eq(rig_alive(r, "a", 1), 0);
}
END_TEST

START_TEST(spot_is_bridged_in_a_market_that_the_plan_has_in_any_zone)
{
    r->capacity = 1;
    rig_want(r, "a", false, 2);
    rig_want(r, "", true, 1);
    rig_price(r, "", true, 3);
    rig_ticks(r, 20);
    ck_assert_int_eq(rig_alive(r, "z", 1), 3);
    ck_assert_int_eq(r->n, 1 + 3);
}
END_TEST

START_TEST(more_machines_than_asked_for_are_ended)
{
    r->surplus = 2;
    rig_want(r, "a", false, 3);
    rig_ticks(r, 6);
    ck_assert_int_eq(r->n, 1 + 5);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 3);
    ck_assert(was_noted(r, "too_many"));
}
END_TEST

START_TEST(a_wrong_type_is_ended_said_and_not_bought_in_a_loop)
{
    r->gives_wrong_type = true;
    rig_want(r, "a", false, 1);
    rig_ticks(r, 360);
    ck_assert(was_noted(r, "wrong"));
    ck_assert_int_le(r->n, 12);
    r->gives_wrong_type = false;
    rig_ticks(r, 70);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 1);
}
END_TEST

START_TEST(another_spelling_of_a_zone_is_ended_said_and_not_bought_in_a_loop)
{
    r->gives_wrong_zone = true;
    rig_want(r, "a", false, 1);
    rig_ticks(r, 360);
    ck_assert(was_noted(r, "wrong"));
    ck_assert_int_le(r->n, 12);
    ck_assert_int_le(rig_alive(r, "z", -1), 1);
    rig_want(r, "", false, 1); /* where any zone will do, none is wrong */
    rig_ticks(r, 70);
    ck_assert_int_eq(rig_alive(r, "z", -1), 1);
    r->gives_wrong_zone = false;
    rig_ticks(r, 200);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 1);
    ck_assert_int_eq(rig_alive(r, "z", -1), 1);
}
END_TEST

START_TEST(an_id_that_is_listed_twice_counts_once)
{
    r->double_id = "i-00001";
    rig_want(r, "a", false, 2);
    rig_ticks(r, 5);
    ck_assert_int_eq(r->n, 1 + 2);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 2);
    ck_assert(was_noted(r, "twice"));
}
END_TEST

START_TEST(a_machine_that_does_not_end_is_told_again_and_still_paid)
{
    r->set.max_usd_per_h = 2;
    rig_live(r);
    rig_price(r, "", false, 1);
    rig_want(r, "a", false, 2);
    rig_ticks(r, 3);
    r->cannot_end = true;
    rig_clear(r);
    rig_want(r, "b", false, 2);
    rig_ticks(r, 50);
    ck_assert_int_eq(rig_alive(r, "b", -1), 0); /* the two are paid: there is no money */
    r->cannot_end = false;
    rig_ticks(r, 70);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1);
    ck_assert_int_eq(rig_alive(r, "b", -1), 2);
}
END_TEST

START_TEST(one_that_never_comes_to_run_is_replaced)
{
    rig_want(r, "a", false, 1);
    rig_tick(r);
    r->machine[1].life = SPOT_FLEET_STARTING;
    rig_ticks(r, 185);
    ck_assert(r->machine[1].is_dead);
    rig_ticks(r, 5);
    ck_assert_int_eq(rig_alive(r, "a", -1), 2);
}
END_TEST

START_TEST(one_that_leaves_for_ever_is_ended)
{
    rig_want(r, "a", false, 1);
    rig_ticks(r, 2);
    r->machine[1].life = SPOT_FLEET_LEAVING;
    rig_ticks(r, 170);
    ck_assert(!r->machine[1].is_dead);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 2);
    rig_ticks(r, 15);
    ck_assert(r->machine[1].is_dead);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 1);
}
END_TEST

START_TEST(a_clock_that_jumps_back_or_ahead_buys_nothing)
{
    r->lag = 1;
    rig_want(r, "a", false, 2);
    rig_tick(r);
    r->now_s -= 1e6;
    rig_ticks(r, 5);
    r->now_s += 1e7;
    rig_ticks(r, 5);
    ck_assert_int_eq(r->n, 3);
}
END_TEST

START_TEST(lives_of_one_turn_replace_what_is_lost_and_end_what_was_drained)
{
    set_drain(25);
    live_turns(r, 2, 3);
    r->machine[1].is_dead = true;
    live_turns(r, 1, 3);
    ck_assert_int_eq(r->n, 1 + 3);
    live_turns(r, 1, 3);
    ck_assert_int_eq(r->n, 1 + 4); /* two lists lacked it */
    live_turns(r, 1, 2);
    live_turns(r, 2, 2);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 3); /* 20 s are less than the grace */
    live_turns(r, 1, 2);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 2);
    r->lists_nothing = true; /* one that ran long ago is not taken for one that never came to run */
    r->now_s += 1e5;
    live_turns(r, 1, 2);
    r->lists_nothing = false;
    live_turns(r, 5, 2);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 2);
    ck_assert_int_eq(r->n, 1 + 4);
}
END_TEST

START_TEST(a_drain_that_fails_or_never_ran_is_tried_again_before_the_end)
{
    set_drain(25);
    rig_live(r);
    rig_want(r, "a", false, 2);
    rig_ticks(r, 2);
    rig_clear(r);
    rig_want(r, "a", false, 1);
    r->cannot_drain = true;
    rig_ticks(r, 4); /* fails twice, 20 s apart */
    ck_assert_int_eq(r->n_drain, 2);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 2);
    r->cannot_drain = false;
    rig_ticks(r, 5);
    ck_assert_int_eq(r->n_drain, 3);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 2); /* the grace began with the third */
    ck_assert(!was_noted(r, "not_told"));
    rig_ticks(r, 3);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 1);
    r->cannot_drain = true; /* for ever */
    live_turns(r, 3, 0);
    ck_assert(was_noted(r, "not_told"));
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 1);
    live_turns(r, 3, 0);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1);
}
END_TEST

START_TEST(dead_before_a_drain_ran_the_next_life_runs_it)
{
    set_drain(5);
    live_turns(r, 2, 1);
    rig_live(r);
    r->fuse = 5; /* list, save: then the command */
    rig_tick(r);
    ck_assert(r->is_dead);
    ck_assert_int_eq(r->n_drain, 0);
    live_turns(r, 1, 0);
    ck_assert_int_eq(r->n_drain, 1);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 1);
    live_turns(r, 1, 0);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1);
    ck_assert_int_eq(r->n_drain, 1);
}
END_TEST

START_TEST(a_wall_clock_that_goes_back_between_lives_makes_waits_longer_only)
{
    set_drain(25);
    live_turns(r, 2, 1);
    live_turns(r, 1, 0);
    r->now_s -= 1e6;
    live_turns(r, 2, 0);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 1);
    live_turns(r, 4, 0);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1);
}
END_TEST

START_TEST(a_market_that_refuses_or_fails_has_its_pause_over_lives_of_one_turn)
{
    const bool does_fail = _i;

    r->capacity = does_fail ? -1 : 1;
    r->cannot_launch = r->launches_in_vain = does_fail;
    live_turns(r, 360, 2); /* an hour */
    ck_assert_int_le(r->n_run, 12);
    ck_assert_int_ge(r->n_run, 6);
    r->capacity = -1;
    r->cannot_launch = r->launches_in_vain = false;
    live_turns(r, 65, 2); /* the longest pause, and some */
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 2);
}
END_TEST

START_TEST(what_stands_in_for_spot_stays_over_lives_of_one_turn)
{
    r->capacity = 1;
    for (int i = 0; i < 30; i++) {
        rig_live(r);
        rig_want(r, "a", false, 2);
        rig_price(r, "", true, 3);
        rig_tick(r);
        ck_assert_int_eq(rig_alive(r, "a", 1), i ? 2 : 0);
    }
    ck_assert_int_eq(r->n, 1 + 2);
}
END_TEST

START_TEST(the_time_of_a_fleet_goes_on_between_its_lives_and_never_back)
{
    double before_s;

    live_turns(r, 10, 1);
    ck_assert_double_eq_tol(spot_fleet_elapsed_s(r->fleet), 100, .1);
    before_s = spot_fleet_elapsed_s(r->fleet);
    r->now_s -= 1e6; /* the wall clock */
    live_turns(r, 1, 1);
    ck_assert_double_ge(spot_fleet_elapsed_s(r->fleet), before_s);
    live_turns(r, 10, 1);
    ck_assert_double_eq_tol(spot_fleet_elapsed_s(r->fleet), before_s + 110, .1);
}
END_TEST

START_TEST(a_plan_that_is_refused_changes_nothing_and_leaves_no_market)
{
    static struct spot_plan_buy many[SPOT_FLEET_MARKETS + 1];
    static char zone[SPOT_FLEET_MARKETS + 1][16];
    const struct spot_plan_buy bad[][2] = {
        { { "c", "gpu", false, 1 }, { "a\tb", "gpu", false, 1 } },
        { { "c", "gpu", false, SPOT_FLEET_MACHINES }, { "d", "gpu", false, 1 } },
    };
    struct spot_err err = { 0 };

    rig_want(r, "a", false, 2);
    rig_ticks(r, 2);
    for (size_t i = 0; i < SPOT_FLEET_MARKETS + 1; i++) {
        snprintf(zone[i], sizeof(*zone), "z%zu", i);
        many[i] = (struct spot_plan_buy){ zone[i], "gpu", false, 1 };
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(spot_fleet_set_target(r->fleet, bad[i], 2, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        err = (struct spot_err){ 0 };
    }
    ck_assert_int_eq(spot_fleet_set_target(r->fleet, many, SPOT_FLEET_MARKETS + 1, &err), -1);
    ck_assert_uint_eq(spot_fleet_n_market(r->fleet), 1);
    ck_assert_int_eq(spot_fleet_total(r->fleet).target, 2);
    rig_ticks(r, 2);
    ck_assert_int_eq(r->n, 1 + 2);
}
END_TEST

/* --- money, order --- */

START_TEST(a_rise_of_prices_ends_the_dearest_and_nothing_unpriced_is_bought)
{
    r->set.max_usd_per_h = 10;
    rig_live(r);
    rig_price(r, "a", false, 1);
    rig_price(r, "b", false, 2);
    rig_want(r, "a", false, 4);
    rig_want(r, "b", false, 3);
    rig_want(r, "c", false, 1);
    rig_ticks(r, 5);
    ck_assert_int_eq(r->n, 1 + 7);
    ck_assert(was_noted(r, "held"));
    rig_price(r, "b", false, 3);
    rig_ticks(r, 5);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 4);
    ck_assert_int_eq(rig_alive(r, "b", -1), 2);
    ck_assert_double_le(spot_fleet_total(r->fleet).usd_per_h, 10);
}
END_TEST

START_TEST(spot_comes_back_also_where_all_money_is_spent_on_demand)
{
    r->capacity = 1;
    r->set.max_usd_per_h = 8;
    rig_live(r);
    rig_price(r, "", false, .4);
    rig_price(r, "", true, 1);
    rig_want(r, "a", false, 10);
    rig_ticks(r, 100);
    ck_assert_int_eq(rig_alive(r, "a", 1), 7); /* an eighth would leave nothing for spot */
    r->capacity = -1;
    rig_ticks(r, 200);
    ck_assert_int_eq(rig_alive(r, "a", 1), 0);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 10);
}
END_TEST

START_TEST(the_old_ones_stay_until_the_new_ones_run_and_are_drained_first)
{
    set_drain(25);
    rig_live(r);
    rig_want(r, "a", false, 2);
    rig_ticks(r, 3);
    rig_clear(r);
    rig_want(r, "b", false, 2);
    r->lag = 2;
    for (int i = 0; i < 4; i++) {
        rig_tick(r);
        ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 2);
    }
    rig_ticks(r, 6);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1);
    ck_assert_int_eq(rig_alive(r, "b", -1), 2);
}
END_TEST

/* Turns of 5 s from 100 on; the fourth takes 17 s, and those of 120 to 130 are left out. */
START_TEST(turns_come_in_equal_steps_whatever_they_take)
{
    static const double took_s[] = { 0, 2, 4.999, 17, 5, 0.5 };
    static const double due_s[] = { 105, 110, 115, 135, 140, 145 };
    double due = 100;

    for (size_t i = 0; i < 6; i++) {
        due = spot_fleet_next_turn(due, 5, due + took_s[i]);
        ck_assert_double_eq_tol(due, due_s[i], 1e-9);
    }
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("core");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, turns_come_in_equal_steps_whatever_they_take);
    tcase_add_loop_test(tc, an_unknown_launch_that_nobody_wants_any_more_is_given_up_or_ended, 0,
                        2);
    tcase_add_loop_test(tc, a_market_that_refuses_or_fails_has_its_pause_over_lives_of_one_turn, 0,
                        2);
    return run_suite("controller", add_tests(tc));
}

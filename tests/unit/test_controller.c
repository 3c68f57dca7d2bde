/* SPDX-License-Identifier: MIT */
/* Goal: a fleet comes to what a plan says, whatever dies, fails or lies, and buys nothing twice. */
#include "fleet/controller.h"

#include "fleet/arrivals.h"
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

START_TEST(a_fleet_without_its_state_finds_its_machines_again)
{
    struct rig *r = rig_new();

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
    rig_free(r);
}
END_TEST

START_TEST(only_tokens_of_this_form_and_identity_are_the_fleets)
{
    static const char *const foreign[] = { "chat",
                                           "chat-",
                                           "chat-manager",
                                           "chat-1",
                                           "chat-1-1",
                                           "chat-0000000000000001",
                                           "chat-0000000000000001-",
                                           "chat-0000000000000001-x",
                                           "chat-0000000000000001-01",
                                           "chat-0000000000000001-1 ",
                                           "chat-0000000000000001-1-1",
                                           "chat-000000000000000G-1",
                                           "chat-0000000000000002-1",
                                           "chatter-0000000000000001-1",
                                           "" };
    static const char *const bad[] = { "",
                                       "-",
                                       "a b",
                                       "chat-",
                                       "chat-manager",
                                       "chat-000000000000000",
                                       "chat-00000000000000001",
                                       "chat-000000000000000A",
                                       "a23456789012345678901234567890123" };
    struct rig *r = rig_new();
    char name[SPOT_FLEET_NAME_MAX + 1];
    uint64_t id = 0;
    bool has_id;

    ck_assert(spot_fleet_is_own(r->fleet, "chat-0000000000000001-10"));
    for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
        ck_assert_msg(!spot_fleet_is_own(r->fleet, foreign[i]), "%s", foreign[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        ck_assert_msg(!spot_fleet_read_name(bad[i], name, &has_id, &id), "%s", bad[i]);
    ck_assert(spot_fleet_read_name("chat_2", name, &has_id, &id) && !has_id);
    ck_assert(spot_fleet_read_name("chat-00000000000000ff", name, &has_id, &id) && has_id);
    ck_assert_str_eq(name, "chat");
    ck_assert_uint_eq(id, 255);
    rig_free(r);
}
END_TEST

START_TEST(a_state_that_was_changed_or_is_of_another_fleet_is_refused)
{
    struct rig *r = rig_new();
    struct spot_err err = { 0 };
    struct spot_fleet *other;
    struct spot_fleet_setting set = { .name = "other" };

    rig_want(r, "a", false, 3);
    rig_ticks(r, 1);
    other = spot_fleet_new(&set, 1, 0);
    ck_assert_int_eq(spot_fleet_read_state(other, r->saved, r->n_saved, "s", &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    for (size_t i = 0; i <= r->n_saved; i++) {
        ck_assert_int_eq(spot_fleet_read_state(r->fleet, r->saved, i, "s", &err),
                         i < r->n_saved ? -1 : 0);
        if (i < r->n_saved - 30) { /* the end has more than its hash */
            r->saved[i] ^= 1;
            ck_assert_int_eq(spot_fleet_read_state(other, r->saved, r->n_saved, "s", &err), -1);
            r->saved[i] ^= 1;
        }
    }
    spot_fleet_free(other);
    rig_free(r);
}
END_TEST

/* --- a cloud that fails or lies --- */

START_TEST(one_empty_list_is_a_hiccup_and_two_are_a_loss)
{
    struct rig *r = rig_new();

    rig_want(r, "a", false, 4);
    rig_ticks(r, 3);
    r->lists_nothing = true;
    rig_tick(r);
    ck_assert_int_eq(r->n_run, 1);
    rig_tick(r);
    ck_assert_int_eq(r->n_run, 2);
    rig_free(r);
}
END_TEST

START_TEST(a_list_that_fails_changes_nothing)
{
    struct rig *r = rig_new();

    rig_want(r, "a", false, 4);
    rig_ticks(r, 2);
    r->cannot_list = true;
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(rig_tick(r), -1);
    r->cannot_list = false;
    rig_ticks(r, 3);
    ck_assert_int_eq(r->n, 5);
    rig_free(r);
}
END_TEST

START_TEST(what_is_taken_away_is_bought_again_and_what_leaves_is_replaced_ahead)
{
    struct rig *r = rig_new();

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
    rig_free(r);
}
END_TEST

START_TEST(a_launch_that_fails_is_asked_for_again_under_its_token_and_seldom)
{
    struct rig *r = rig_new();

    r->cannot_launch = r->launches_in_vain = true;
    rig_want(r, "a", false, 2);
    rig_ticks(r, 360); /* an hour */
    ck_assert_int_le(r->n_run, 12);
    ck_assert_int_eq(r->n, 1);
    r->cannot_launch = r->launches_in_vain = false;
    rig_ticks(r, 70);
    ck_assert_int_eq(r->n, 3);
    rig_free(r);
}
END_TEST

START_TEST(an_unknown_launch_that_nobody_wants_any_more_is_given_up_or_ended)
{
    for (int does_launch = 0; does_launch < 2; does_launch++) {
        struct rig *r = rig_new();

        r->cannot_launch = true;
        r->launches_in_vain = !does_launch;
        rig_want(r, "a", false, 2);
        rig_ticks(r, 1);
        rig_clear(r);
        rig_ticks(r, 20);
        ck_assert_int_eq(rig_alive(r, "a", -1), 1);
        ck_assert_int_eq(spot_fleet_total(r->fleet).held, 0);
        ck_assert_int_eq(was_noted(r, "given_up"), !does_launch);
        rig_free(r);
    }
}
END_TEST

START_TEST(no_capacity_for_hours_is_bridged_on_demand_and_spot_returns)
{
    struct rig *r = rig_new();

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
    rig_free(r);
}
END_TEST

START_TEST(spot_is_bridged_in_a_market_that_the_plan_has_in_any_zone)
{
    struct rig *r = rig_new();

    r->capacity = 1;
    rig_want(r, "a", false, 2);
    rig_want(r, "", true, 1);
    rig_price(r, "", true, 3);
    rig_ticks(r, 20);
    ck_assert_int_eq(rig_alive(r, "z", 1), 3);
    ck_assert_int_eq(r->n, 1 + 3);
    rig_free(r);
}
END_TEST

START_TEST(more_machines_than_asked_for_are_ended)
{
    struct rig *r = rig_new();

    r->surplus = 2;
    rig_want(r, "a", false, 3);
    rig_ticks(r, 6);
    ck_assert_int_eq(r->n, 1 + 5);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 3);
    ck_assert(was_noted(r, "too_many"));
    rig_free(r);
}
END_TEST

START_TEST(a_wrong_type_is_ended_said_and_not_bought_in_a_loop)
{
    struct rig *r = rig_new();

    r->gives_wrong_type = true;
    rig_want(r, "a", false, 1);
    rig_ticks(r, 360);
    ck_assert(was_noted(r, "wrong"));
    ck_assert_int_le(r->n, 12);
    r->gives_wrong_type = false;
    rig_ticks(r, 70);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 1);
    rig_free(r);
}
END_TEST

START_TEST(another_spelling_of_a_zone_is_ended_said_and_not_bought_in_a_loop)
{
    struct rig *r = rig_new();

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
    rig_free(r);
}
END_TEST

START_TEST(an_id_that_is_listed_twice_counts_once)
{
    struct rig *r = rig_new();

    r->double_id = "i-00001";
    rig_want(r, "a", false, 2);
    rig_ticks(r, 5);
    ck_assert_int_eq(r->n, 1 + 2);
    ck_assert_int_eq(rig_alive(r, "a", 0), 1 + 2);
    ck_assert(was_noted(r, "twice"));
    rig_free(r);
}
END_TEST

START_TEST(a_machine_that_does_not_end_is_told_again_and_still_paid)
{
    struct rig *r = rig_new();

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
    rig_free(r);
}
END_TEST

START_TEST(one_that_never_comes_to_run_is_replaced)
{
    struct rig *r = rig_new();

    rig_want(r, "a", false, 1);
    rig_tick(r);
    r->machine[1].life = SPOT_FLEET_STARTING;
    rig_ticks(r, 185);
    ck_assert(r->machine[1].is_dead);
    rig_ticks(r, 5);
    ck_assert_int_eq(rig_alive(r, "a", -1), 2);
    rig_free(r);
}
END_TEST

START_TEST(one_that_leaves_for_ever_is_ended)
{
    struct rig *r = rig_new();

    rig_want(r, "a", false, 1);
    rig_ticks(r, 2);
    r->machine[1].life = SPOT_FLEET_LEAVING;
    rig_ticks(r, 170);
    ck_assert(!r->machine[1].is_dead);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 2);
    rig_ticks(r, 15);
    ck_assert(r->machine[1].is_dead);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 1);
    rig_free(r);
}
END_TEST

START_TEST(a_clock_that_jumps_back_or_ahead_buys_nothing)
{
    struct rig *r = rig_new();

    r->lag = 1;
    rig_want(r, "a", false, 2);
    rig_tick(r);
    r->now_s -= 1e6;
    rig_ticks(r, 5);
    r->now_s += 1e7;
    rig_ticks(r, 5);
    ck_assert_int_eq(r->n, 3);
    rig_free(r);
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

START_TEST(lives_of_one_turn_replace_what_is_lost_and_end_what_was_drained)
{
    struct rig *r = rig_new();

    r->set.has_drain = true;
    r->set.grace_s = 25;
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
    rig_free(r);
}
END_TEST

START_TEST(a_drain_that_fails_or_never_ran_is_tried_again_before_the_end)
{
    struct rig *r = rig_new();

    r->set.has_drain = true;
    r->set.grace_s = 25;
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
    rig_free(r);
}
END_TEST

START_TEST(dead_before_a_drain_ran_the_next_life_runs_it)
{
    struct rig *r = rig_new();

    r->set.has_drain = true;
    r->set.grace_s = 5;
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
    rig_free(r);
}
END_TEST

START_TEST(a_wall_clock_that_goes_back_between_lives_makes_waits_longer_only)
{
    struct rig *r = rig_new();

    r->set.has_drain = true;
    r->set.grace_s = 25;
    live_turns(r, 2, 1);
    live_turns(r, 1, 0);
    r->now_s -= 1e6;
    live_turns(r, 2, 0);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 1);
    live_turns(r, 4, 0);
    ck_assert_int_eq(rig_alive(r, "a", -1), 1);
    rig_free(r);
}
END_TEST

START_TEST(a_market_that_refuses_or_fails_has_its_pause_over_lives_of_one_turn)
{
    for (int does_fail = 0; does_fail < 2; does_fail++) {
        struct rig *r = rig_new();

        r->capacity = does_fail ? -1 : 1;
        r->cannot_launch = r->launches_in_vain = does_fail;
        live_turns(r, 360, 2); /* an hour */
        ck_assert_int_le(r->n_run, 12);
        ck_assert_int_ge(r->n_run, 6);
        r->capacity = -1;
        r->cannot_launch = r->launches_in_vain = false;
        live_turns(r, 65, 2); /* the longest pause, and some */
        ck_assert_int_eq(rig_alive(r, "a", -1), 1 + 2);
        rig_free(r);
    }
}
END_TEST

START_TEST(what_stands_in_for_spot_stays_over_lives_of_one_turn)
{
    struct rig *r = rig_new();

    r->capacity = 1;
    for (int i = 0; i < 30; i++) {
        rig_live(r);
        rig_want(r, "a", false, 2);
        rig_price(r, "", true, 3);
        rig_tick(r);
        ck_assert_int_eq(rig_alive(r, "a", 1), i ? 2 : 0);
    }
    ck_assert_int_eq(r->n, 1 + 2);
    rig_free(r);
}
END_TEST

START_TEST(the_time_of_a_fleet_goes_on_between_its_lives_and_never_back)
{
    struct rig *r = rig_new();
    double before_s;

    live_turns(r, 10, 1);
    ck_assert_double_eq_tol(spot_fleet_elapsed_s(r->fleet), 100, .1);
    before_s = spot_fleet_elapsed_s(r->fleet);
    r->now_s -= 1e6; /* the wall clock */
    live_turns(r, 1, 1);
    ck_assert_double_ge(spot_fleet_elapsed_s(r->fleet), before_s);
    live_turns(r, 10, 1);
    ck_assert_double_eq_tol(spot_fleet_elapsed_s(r->fleet), before_s + 110, .1);
    rig_free(r);
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
    struct rig *r = rig_new();
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
    rig_free(r);
}
END_TEST

/* --- the load --- */

START_TEST(arrivals_are_what_was_counted_between_looks_and_rest_is_told)
{
    struct spot_fleet_arrivals a = { .kept_s = 100 };
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    ck_assert(!spot_fleet_arrivals_came(&a, 10) && !spot_fleet_arrivals_is_at_rest(&a));
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 0, 5, 50, 100, 0 });
    ck_assert(!spot_fleet_arrivals_came(&a, 10)); /* of before it is not known when */
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 10, 7, 70, 104, 0 });
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 20, 8, 170, 104, 0 });
    ck_assert(spot_fleet_arrivals_came(&a, 10));
    spot_fleet_arrivals_write(&a, out);
    fclose(out);
    ck_assert_str_eq(text, "time_s,prompt_tokens,output_tokens\n"
                           "5.000,10,2\n10.000,10,2\n20.000,100,1\n");
    for (int i = 0; i < 12; i++) {
        ck_assert_int_eq(spot_fleet_arrivals_is_at_rest(&a), i > 8);
        spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 30 + i * 10, 8, 170, 104, 0 });
    }
    ck_assert(spot_fleet_arrivals_is_at_rest(&a) && !spot_fleet_arrivals_came(&a, 60));
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 150, 9, 170, 104, 0 });
    ck_assert(!spot_fleet_arrivals_is_at_rest(&a) && spot_fleet_arrivals_came(&a, 60));
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 160, 0, 0, 0, 0 }); /* another front */
    ck_assert_uint_eq(a.n, 1);
    for (int i = 0; i < 12; i++) { /* one waits: it was counted long ago, and is no rest */
        spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 170 + i * 10, 0, 0, 0, 1 });
        ck_assert(!spot_fleet_arrivals_is_at_rest(&a));
    }
}
END_TEST

/* --- money, order --- */

START_TEST(a_rise_of_prices_ends_the_dearest_and_nothing_unpriced_is_bought)
{
    struct rig *r = rig_new();

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
    rig_free(r);
}
END_TEST

START_TEST(spot_comes_back_also_where_all_money_is_spent_on_demand)
{
    struct rig *r = rig_new();

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
    rig_free(r);
}
END_TEST

START_TEST(the_old_ones_stay_until_the_new_ones_run_and_are_drained_first)
{
    struct rig *r = rig_new();

    r->set.has_drain = true;
    r->set.grace_s = 25;
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
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, dead_at_any_point_of_a_turn_it_loses_and_doubles_no_machine);
    tcase_add_test(tc, a_fleet_without_its_state_finds_its_machines_again);
    tcase_add_test(tc, only_tokens_of_this_form_and_identity_are_the_fleets);
    tcase_add_test(tc, a_state_that_was_changed_or_is_of_another_fleet_is_refused);
    tcase_add_test(tc, one_empty_list_is_a_hiccup_and_two_are_a_loss);
    tcase_add_test(tc, a_list_that_fails_changes_nothing);
    tcase_add_test(tc, what_is_taken_away_is_bought_again_and_what_leaves_is_replaced_ahead);
    tcase_add_test(tc, a_launch_that_fails_is_asked_for_again_under_its_token_and_seldom);
    tcase_add_test(tc, an_unknown_launch_that_nobody_wants_any_more_is_given_up_or_ended);
    tcase_add_test(tc, no_capacity_for_hours_is_bridged_on_demand_and_spot_returns);
    tcase_add_test(tc, spot_is_bridged_in_a_market_that_the_plan_has_in_any_zone);
    tcase_add_test(tc, more_machines_than_asked_for_are_ended);
    tcase_add_test(tc, a_wrong_type_is_ended_said_and_not_bought_in_a_loop);
    tcase_add_test(tc, another_spelling_of_a_zone_is_ended_said_and_not_bought_in_a_loop);
    tcase_add_test(tc, an_id_that_is_listed_twice_counts_once);
    tcase_add_test(tc, a_machine_that_does_not_end_is_told_again_and_still_paid);
    tcase_add_test(tc, one_that_never_comes_to_run_is_replaced);
    tcase_add_test(tc, one_that_leaves_for_ever_is_ended);
    tcase_add_test(tc, a_clock_that_jumps_back_or_ahead_buys_nothing);
    tcase_add_test(tc, lives_of_one_turn_replace_what_is_lost_and_end_what_was_drained);
    tcase_add_test(tc, a_drain_that_fails_or_never_ran_is_tried_again_before_the_end);
    tcase_add_test(tc, dead_before_a_drain_ran_the_next_life_runs_it);
    tcase_add_test(tc, a_wall_clock_that_goes_back_between_lives_makes_waits_longer_only);
    tcase_add_test(tc, a_market_that_refuses_or_fails_has_its_pause_over_lives_of_one_turn);
    tcase_add_test(tc, what_stands_in_for_spot_stays_over_lives_of_one_turn);
    tcase_add_test(tc, the_time_of_a_fleet_goes_on_between_its_lives_and_never_back);
    tcase_add_test(tc, a_plan_that_is_refused_changes_nothing_and_leaves_no_market);
    tcase_add_test(tc, arrivals_are_what_was_counted_between_looks_and_rest_is_told);
    tcase_add_test(tc, a_rise_of_prices_ends_the_dearest_and_nothing_unpriced_is_bought);
    tcase_add_test(tc, spot_comes_back_also_where_all_money_is_spent_on_demand);
    tcase_add_test(tc, the_old_ones_stay_until_the_new_ones_run_and_are_drained_first);
    return run_suite("controller", tc);
}

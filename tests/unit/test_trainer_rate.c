/* SPDX-License-Identifier: MIT */
/* Goal: the planner of moves is told of links what they showed, and nothing that they did not. */
#include <math.h>

#include "cluster/group_state.h"
#include "common/clock.h"
#include "suite.h"
#include "train/trainer_move_state.h"

START_TEST(links_are_equal_until_one_showed_half_of_the_best)
{
    ck_assert_double_eq(spot_trainer_rate_for_plan(8e8, 8e8), 8e8);
    ck_assert_double_eq(spot_trainer_rate_for_plan(8e8, 6e8), 8e8);
    ck_assert_double_eq(spot_trainer_rate_for_plan(8e8, 1.9e8), 2e8);
    ck_assert_double_eq(spot_trainer_rate_for_plan(8e8, 0), 8e8); /* not known */
}
END_TEST

START_TEST(only_much_is_a_measure_and_the_memory_of_it_fades)
{
    const double byte = 64 << 20;

    ck_assert_double_eq(spot_trainer_rate_seen(0, byte, 10), byte / 10);
    ck_assert_double_eq(spot_trainer_rate_seen(byte, byte, 10), byte / 2);
    ck_assert_double_eq(spot_trainer_rate_seen(byte, byte, 0.1), 10 * byte);
    ck_assert_double_eq(spot_trainer_rate_seen(5, 1 << 20, 1e-3), 5);
    ck_assert_double_eq(spot_trainer_rate_seen(5, byte, 0), 5);
}
END_TEST

START_TEST(who_has_a_notice_is_there_until_its_grace_is_over)
{
    struct spot_peer peer = { 0 };

    ck_assert(isinf(spot_peer_time_left_s(&peer)));
    peer.leaves_s = spot_clock_s() + 1000;
    ck_assert(spot_peer_time_left_s(&peer) <= 1000 && spot_peer_time_left_s(&peer) > 0);
    peer.leaves_s = 1e-9;
    ck_assert_double_eq(spot_peer_time_left_s(&peer), 0);
}
END_TEST

int main(void)
{
    return run_suite("trainer_rate", add_tests(tcase_create("rates")));
}

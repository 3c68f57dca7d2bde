/* SPDX-License-Identifier: MIT */
/* Goal: the planner of moves is told of links what they showed, and nothing that they did not. */
#include <math.h>

#include "common/clock.h"
#include "suite.h"
#include "train/coord.h"

START_TEST(links_are_equal_until_one_showed_half_of_the_best)
{
    static struct spot_coord_peer peer[4];
    struct spot_coord_peer *list[] = { &peer[0], &peer[1], &peer[2], &peer[3] };
    const struct spot_coord c = { .peer = list, .n_peer = 4 };

    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(spot_coord_byte_per_s(&c, &peer[i]), 1.25e9);
    peer[0].moved_byte_per_s = 8e8;
    peer[1].moved_byte_per_s = 6e8;
    peer[2].moved_byte_per_s = 1.9e8;
    ck_assert_double_eq(spot_coord_best_byte_per_s(&c), 8e8);
    ck_assert_double_eq(spot_coord_byte_per_s(&c, &peer[0]), 8e8);
    ck_assert_double_eq(spot_coord_byte_per_s(&c, &peer[1]), 8e8);
    ck_assert_double_eq(spot_coord_byte_per_s(&c, &peer[2]), 2e8);
    ck_assert_double_eq(spot_coord_byte_per_s(&c, &peer[3]), 8e8);
}
END_TEST

/* A model of four layers of some 50 MB: bundle 1 is enough to judge by, the arrival of none is not.
 */
START_TEST(only_much_that_came_from_members_is_a_measure)
{
    struct spot_coord_peer peer = { .id = 7 };
    struct spot_transfer transfer[] = { { 1, SPOT_FROM_MEMBER, 3, 7 },
                                        { 2, SPOT_FROM_STORE, 0, 7 },
                                        { 3, SPOT_FROM_MEMBER, 3, 8 } };
    struct spot_coord c = { .form = { .transfer = transfer, .n_transfer = 3 } };
    double byte;

    c.config.shape = (struct spot_shape){
        .n_layer = 4, .width = 512, .n_head = 8, .seq = 64, .vocab = 256, .n_shard = 1
    };
    byte = (double)spot_coord_bundle_byte(&c, 1);
    ck_assert_double_gt(byte, 32 << 20);
    c.moving_since_s = spot_clock_s() - 10;
    spot_coord_note_moved(&c, &peer);
    ck_assert_double_le(peer.moved_byte_per_s, byte / 10);
    ck_assert_double_gt(peer.moved_byte_per_s, byte / 1e4);
    peer.moved_byte_per_s = byte; /* it was once faster: the memory of that fades */
    spot_coord_note_moved(&c, &peer);
    ck_assert_double_eq(peer.moved_byte_per_s, byte / 2);
    transfer[0].origin = SPOT_FROM_STORE;
    spot_coord_note_moved(&c, &peer);
    ck_assert_double_eq(peer.moved_byte_per_s, byte / 2);
}
END_TEST

START_TEST(who_has_a_notice_is_there_until_its_grace_is_over)
{
    struct spot_coord_peer peer = { 0 };

    ck_assert(isinf(spot_coord_time_left_s(&peer)));
    peer.leaves_s = spot_clock_s() + 1000;
    ck_assert(spot_coord_time_left_s(&peer) <= 1000 && spot_coord_time_left_s(&peer) > 0);
    peer.leaves_s = 1e-9;
    ck_assert_double_eq(spot_coord_time_left_s(&peer), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rates");

    tcase_add_test(tc, links_are_equal_until_one_showed_half_of_the_best);
    tcase_add_test(tc, only_much_that_came_from_members_is_a_measure);
    tcase_add_test(tc, who_has_a_notice_is_there_until_its_grace_is_over);
    return run_suite("coord_rate", tc);
}

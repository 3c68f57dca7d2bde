/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "cluster/machine.h"
#include "suite.h"

/* Goal: what machine.h draws and says, told as stories; test_machine.c tries every other order. */

/* The plain story, step by step, against the picture in machine.h. */
START_TEST(two_members_form_vote_and_commit)
{
    struct spot_machine m;
    uint32_t last_epoch = 7;

    spot_machine_init(&m, SPOT_ROUNDS_LOCKSTEP, &last_epoch, 40);
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
    ck_assert_int_eq(spot_machine_ready(&m, 1, 8), SPOT_EFFECT_ROUND);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 8, 40), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 8, 40), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 2, 8, 39), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 2, 8, 40), SPOT_EFFECT_COMMIT);
    ck_assert_int_eq(spot_machine_committed(&m), SPOT_EFFECT_ROUND);
    ck_assert_int_eq(m.round, 41);
    /* a notice takes effect at the next commit, a death at once */
    ck_assert_int_eq(spot_machine_notice(&m, 1), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 8, 41), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_lost(&m, 2), SPOT_EFFECT_QUIESCE);
    ck_assert_uint_eq(m.epoch, 9);
    ck_assert(m.n_member == 1 && m.member[0].is_leaving);
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
    uint32_t last_epoch = 0;

    spot_machine_init(&m, SPOT_ROUNDS_LOCKSTEP, &last_epoch, 0);
    spot_machine_join(&m, 1);
    spot_machine_start(&m);
    spot_machine_join(&m, 2);
    spot_machine_want_change(&m);
    ck_assert_int_eq(spot_machine_replied(&m, 1, 1), SPOT_EFFECT_FORM);
    spot_machine_find(&m, 1)->role = spot_machine_find(&m, 2)->role = SPOT_ROLE_ACTIVE;
    spot_machine_form(&m, 0);
    spot_machine_ready(&m, 1, 1);
    ck_assert_int_eq(spot_machine_ready(&m, 2, 1), SPOT_EFFECT_ROUND);
    spot_machine_voted(&m, 1, 1, 0);
    ck_assert_int_eq(spot_machine_voted(&m, 2, 1, 0), SPOT_EFFECT_COMMIT);
    ck_assert_int_eq(spot_machine_committed(&m), SPOT_EFFECT_ROUND);
    spot_machine_release(&m);
}
END_TEST

/* Whoever holds is waited for: a plan is no reason to go on without. */
START_TEST(a_plan_does_not_end_a_wait)
{
    struct spot_machine m;
    uint32_t last_epoch = 3;

    spot_machine_init(&m, SPOT_ROUNDS_LOCKSTEP, &last_epoch, 60);
    spot_machine_join(&m, 1);
    ck_assert_int_eq(spot_machine_want_change(&m), SPOT_EFFECT_NONE);
    ck_assert_int_eq(m.phase, SPOT_PHASE_WAIT);
    ck_assert_uint_eq(m.epoch, 3);
    ck_assert_int_eq(spot_machine_start(&m), SPOT_EFFECT_QUIESCE);
    ck_assert_int_eq(spot_machine_replied(&m, 1, 4), SPOT_EFFECT_FORM);
    spot_machine_find(&m, 1)->role = SPOT_ROLE_ACTIVE;
    spot_machine_form(&m, 60);
    ck_assert_int_eq(spot_machine_ready(&m, 1, 4), SPOT_EFFECT_ROUND);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 4, 60), SPOT_EFFECT_COMMIT);
    ck_assert_int_eq(spot_machine_committed(&m), SPOT_EFFECT_ROUND); /* its grid knows the plan */
    spot_machine_release(&m);
}
END_TEST

/* What all have reached commits: the slowest decides, and whoever is ahead has not to tell again.
 */
START_TEST(announced_rounds_commit_up_to_the_slowest)
{
    uint32_t last_epoch = 5;
    struct spot_machine m;

    spot_machine_init(&m, SPOT_ROUNDS_ANNOUNCED, &last_epoch, 10);
    spot_machine_join(&m, 1);
    spot_machine_join(&m, 2);
    spot_machine_start(&m);
    spot_machine_replied(&m, 1, 6);
    ck_assert_int_eq(spot_machine_replied(&m, 2, 6), SPOT_EFFECT_FORM);
    spot_machine_find(&m, 1)->role = spot_machine_find(&m, 2)->role = SPOT_ROLE_ACTIVE;
    spot_machine_form(&m, 10);
    spot_machine_ready(&m, 1, 6);
    ck_assert_int_eq(spot_machine_ready(&m, 2, 6), SPOT_EFFECT_ROUND);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 6, 13), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 6, 12), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 2, 6, 11), SPOT_EFFECT_COMMIT);
    ck_assert_int_eq(spot_machine_reached(&m), 12);
    ck_assert_int_eq(spot_machine_committed(&m), SPOT_EFFECT_NONE);
    ck_assert_int_eq(m.round, 12);
    ck_assert_int_eq(spot_machine_voted(&m, 2, 6, 14), SPOT_EFFECT_COMMIT);
    spot_machine_want_change(&m);
    ck_assert_int_eq(spot_machine_committed(&m), SPOT_EFFECT_QUIESCE);
    ck_assert_int_eq(m.round, 14);
    ck_assert_uint_eq(last_epoch, 7);
    spot_machine_release(&m);
}
END_TEST

/* What members said before they heard of a notice does not end the epoch: they may save first. */
START_TEST(rounds_that_are_kept_end_when_the_epoch_is_broken)
{
    uint32_t last_epoch = 0;
    struct spot_machine m;

    spot_machine_init(&m, SPOT_ROUNDS_KEPT, &last_epoch, 0);
    spot_machine_join(&m, 1);
    spot_machine_join(&m, 2);
    spot_machine_start(&m);
    spot_machine_replied(&m, 1, 1);
    ck_assert_int_eq(spot_machine_replied(&m, 2, 1), SPOT_EFFECT_FORM);
    spot_machine_find(&m, 1)->role = spot_machine_find(&m, 2)->role = SPOT_ROLE_ACTIVE;
    spot_machine_form(&m, 0);
    spot_machine_ready(&m, 1, 1);
    ck_assert_int_eq(spot_machine_ready(&m, 2, 1), SPOT_EFFECT_ROUND);
    ck_assert_int_eq(spot_machine_voted(&m, 1, 1, 0), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_notice(&m, 1), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m, 2, 1, 0), SPOT_EFFECT_COMMIT);
    ck_assert_int_eq(spot_machine_committed(&m), SPOT_EFFECT_NONE);
    ck_assert(m.phase == SPOT_PHASE_RUN && m.change_wanted && m.round == 1);
    ck_assert_int_eq(spot_machine_broken(&m, 1), SPOT_EFFECT_QUIESCE);
    spot_machine_release(&m);
}
END_TEST

/* Of two views one loses its members, one runs on; no epoch number is used twice. */
START_TEST(a_view_without_members_forms_at_once_and_leaves_the_other_alone)
{
    struct spot_machine m[2];
    uint32_t last_epoch = 0;

    for (uint32_t v = 0; v < 2; v++) {
        spot_machine_init(&m[v], SPOT_ROUNDS_LOCKSTEP, &last_epoch, 0);
        spot_machine_join(&m[v], v + 1);
        spot_machine_start(&m[v]);
        ck_assert_uint_eq(m[v].epoch, v + 1);
        spot_machine_replied(&m[v], v + 1, v + 1);
        spot_machine_find(&m[v], v + 1)->role = SPOT_ROLE_ACTIVE;
        spot_machine_form(&m[v], 0);
        ck_assert_int_eq(spot_machine_ready(&m[v], v + 1, v + 1), SPOT_EFFECT_ROUND);
    }
    ck_assert_int_eq(spot_machine_lost(&m[0], 1), SPOT_EFFECT_FORM);
    ck_assert_int_eq(m[0].phase, SPOT_PHASE_FORM);
    ck_assert_uint_eq(m[0].epoch, 3);
    ck_assert_uint_eq(m[1].epoch, 2);
    ck_assert_int_eq(spot_machine_voted(&m[1], 2, 3, 0), SPOT_EFFECT_NONE);
    ck_assert_int_eq(spot_machine_voted(&m[1], 2, 2, 0), SPOT_EFFECT_COMMIT);
    ck_assert_int_eq(spot_machine_committed(&m[1]), SPOT_EFFECT_ROUND);
    spot_machine_release(&m[0]);
    spot_machine_release(&m[1]);
}
END_TEST

int main(void)
{
    return run_suite("machine_story", add_tests(tcase_create("core")));
}

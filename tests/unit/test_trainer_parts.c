/* SPDX-License-Identifier: MIT */
/* Goal: the parts of the trainer do what their headers say without a trainer: when another split is
 * due, how pre-copies are paced, how long members last, how often a generation is written, which
 * place a plan gives, what is shown to those who follow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shard/arena.h"
#include "suite.h"
#include "train/durable_lag.h"
#include "train/microbatch_split.h"
#include "train/movement.h"
#include "train/pins.h"
#include "train/trainer_durable_state.h"

static int commits_until_due(struct spot_split_drift *drift, double now_s, double best_s)
{
    for (int n = 1; n < 5000; n++) {
        drift->n_commit++;
        if (spot_split_drifts(drift, now_s, best_s))
            return n;
    }
    return 0;
}

START_TEST(another_split_is_due_after_ever_more_commits_and_not_for_a_little)
{
    struct spot_split_drift drift = { 0 };

    ck_assert_int_eq(commits_until_due(&drift, 1, 0.86), 0);
    for (int n = 5; n <= 640; n *= 2) {
        spot_split_drift_begin(&drift);
        ck_assert_int_eq(commits_until_due(&drift, 1, 0.8), n);
    }
    spot_split_drift_begin(&drift);
    ck_assert_int_eq(commits_until_due(&drift, 1, 0.8), 640); /* no more than that */
    spot_split_drift_begin(&drift);
    ck_assert_int_eq(commits_until_due(&drift, 1, 1), 0); /* calm for long */
    spot_split_drift_begin(&drift);
    ck_assert_int_eq(commits_until_due(&drift, 1, 0.8), 5);
}
END_TEST

START_TEST(pre_copies_follow_what_steps_bear)
{
    struct spot_movement m = { .is_for_grid = true, .n_precopy = 1, .usual_s = 1 };

    spot_movement_pace(&m, 1.05);
    spot_movement_pace(&m, 1.05);
    ck_assert_uint_eq(m.n_precopy, 4);
    spot_movement_pace(&m, 1.2);
    ck_assert_uint_eq(m.n_precopy, 2);
    m.is_for_grid = false; /* a spare is waited for by nobody */
    spot_movement_pace(&m, 1.05);
    spot_movement_pace(&m, 1.05);
    ck_assert_uint_eq(m.n_precopy, 1);
    ck_assert_double_lt(spot_movement_share(&m), 0.1);
}
END_TEST

START_TEST(members_go_at_a_rate_that_three_losses_tell)
{
    struct spot_movement m = { .exposed_s = 60, .n_gone = 2 };

    ck_assert(isinf(spot_movement_lasts_s(&m, 3)));
    m.n_gone = 3;
    ck_assert_double_eq(spot_movement_lasts_s(&m, 4), 5);
}
END_TEST

START_TEST(a_generation_is_as_frequent_as_its_cost_allows)
{
    struct spot_durable_lag lag = { .asked_s = 0 };

    ck_assert_double_eq(spot_durable_lag_every_s(&lag, 0, true), SPOT_DURABLE_LEAST_S);
    ck_assert_double_eq(spot_durable_lag_every_s(&lag, 0, false), 3);
    lag.cost.mean_s = 1; /* of which a twentieth of the time may consist */
    ck_assert_double_eq(spot_durable_lag_every_s(&lag, 0, true), 20);
    ck_assert_double_eq(spot_durable_lag_every_s(&lag, 0.5, true), 0.5);
    spot_durable_lag_asked(&lag, 7);
    ck_assert(!spot_durable_lag_is_due(&lag, 3600, true));
    spot_durable_lag_ended(&lag, false); /* what is at risk still begins where it did */
    ck_assert_double_eq(lag.next_s, 0);
    spot_durable_lag_step(&lag, 7, -1);
    spot_durable_lag_ended(&lag, true);
    ck_assert_double_eq(lag.next_s, lag.asked_next_s);
}
END_TEST

START_TEST(a_pin_changes_places_and_the_same_plan_is_no_news)
{
    struct spot_plan_place place[] = { { .node = "b", .d = 0, .p = 1, .m = 0 } };
    const struct spot_plan_doc plan = { .place = place, .n_place = 1 };
    const struct spot_grid grid = { 2, 2, 1 };
    int node[] = { 0, 1, 2, 3 };
    struct spot_pins pins = { NULL, 0 };

    ck_assert(spot_pins_take(&pins, &plan));
    ck_assert(!spot_pins_take(&pins, &plan));
    ck_assert_uint_eq(spot_pin_position(&grid, &pins.pin[0]), 1);
    ck_assert(spot_pin_put(node, 4, 1, 3));
    ck_assert(!spot_pin_put(node, 4, 1, 3));
    ck_assert_int_eq(node[1], 3);
    ck_assert_int_eq(node[3], 1);
    ck_assert(spot_pin_put(node, 4, 0, 9)); /* it had no place */
    ck_assert_int_eq(node[0], 9);
    place[0].m = 1;
    ck_assert(spot_pins_take(&pins, &plan));
    spot_pins_release(&pins);
}
END_TEST

/* The only bundle of the step that has committed. */
static void show(struct spot_trainer *c)
{
    struct spot_arena arena;
    struct spot_buf step = { 0 };
    struct spot_frame *frame;
    size_t n_byte;

    spot_arena_of(&c->config.shape, 0, &arena);
    n_byte = 16 + arena.n_elem * sizeof(float);
    frame = calloc(1, sizeof(*frame) + n_byte);
    frame->n_byte = n_byte;
    spot_put_i64(&step, c->machine->round);
    memcpy(frame->data, step.data, step.n);
    spot_buf_release(&step);
    spot_trainer_show(c);
    ck_assert_int_eq(spot_trainer_shown(c, frame), 0);
    free(frame);
}

START_TEST(a_step_that_the_job_went_back_behind_is_not_shown_again)
{
    struct spot_machine machine = { .round = 100 };
    struct spot_trainer *const c = calloc(1, sizeof(*c));

    c->machine = &machine;
    c->n_bundle = 1;
    c->config.shape = (struct spot_shape){
        .n_layer = 1, .width = 8, .n_head = 1, .seq = 4, .vocab = 8, .n_shard = 1
    };
    ck_assert_int_eq(spot_trainer_watch(c, 1), -1);
    show(c);
    ck_assert_int_eq(spot_trainer_watch(c, 101), 100);
    ck_assert_ptr_nonnull(spot_trainer_look(c, 100, 0));
    machine.round = 50;
    machine.epoch++;
    spot_trainer_show(c);
    ck_assert_int_eq(spot_trainer_watch(c, 1), -1);
    ck_assert_ptr_null(spot_trainer_look(c, 100, 0));
    show(c);
    ck_assert_int_eq(spot_trainer_watch(c, 51), 50);
    spot_trainer_end_show(c);
    free(c);
}
END_TEST

int main(void)
{
    return run_suite("trainer parts", add_tests(tcase_create("parts")));
}

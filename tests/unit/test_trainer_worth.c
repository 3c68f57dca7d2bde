/* SPDX-License-Identifier: MIT */
/* Goal: a job that runs takes a newcomer in when that pays by what it has measured, tells once that
 * it does not, and thinks again as time goes by; what is not a mere growth is never put off. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/group_state.h"
#include "common/clock.h"
#include "suite.h"
#include "train/grid_choice.h"
#include "train/trainer_member_state.h"
#include "train/trainer_move_state.h"
#include "train/trainer_place_state.h"

/* A job on 2x1 with members 1 and 2; member 3 has come. */
static struct spot_group group;
static struct spot_view view = { .group = &group };
static struct spot_peer peer[3], *peers[3] = { &peer[0], &peer[1], &peer[2] };
static struct spot_trainer_member who[3];
static struct spot_trainer_options options;
static struct spot_trainer c;
static uint32_t stage[2], member[2] = { 1, 2 }, buddy[1], epoch;
static struct spot_precopy precopy[8];
static int n_told;
static char told[256];

static void hear(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void hear(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(told, sizeof(told), fmt, ap);
    va_end(ap);
    n_told++;
}

/* Steps of 1 s; three members went in the 60 member seconds so far: one each 20, of three one each
 * 6.7 s. */
static void setup(void)
{
    const struct spot_shape shape = {
        .n_layer = 2, .width = 32, .n_head = 2, .seq = 16, .vocab = 256, .n_shard = 1
    };

    group.peer = peers;
    group.n_peer = group.n_named = 3;
    spot_machine_init(&view.machine, SPOT_ROUNDS_LOCKSTEP, &epoch, 7);
    for (uint32_t i = 0; i < 3; i++) {
        peer[i] = (struct spot_peer){
            .group = &group, .view = &view, .id = i + 1, .is_proved = true, .data = &who[i]
        };
        who[i] = (struct spot_trainer_member){ .peer = &peer[i] };
        spot_machine_join(&view.machine, i + 1);
    }
    view.machine.phase = SPOT_PHASE_RUN;
    options.warn = hear;
    n_told = 0;
    c = (struct spot_trainer){ .options = &options,
                               .group = &group,
                               .view = &view,
                               .machine = &view.machine,
                               .config.shape = shape,
                               .n_microbatch = 6,
                               .n_bundle = spot_shape_bundles(&shape),
                               .step_s = 1,
                               .movement = { .n_gone = 3, .exposed_s = 60 } };
    stage[1] = (uint32_t)c.n_bundle;
    c.form = (struct spot_form){
        .D = 2, .P = 1, .M = 1, .stage = stage, .member = member, .buddy = buddy
    };
    buddy[0] = 0;
}

static void teardown(void)
{
    spot_machine_release(&view.machine);
}

static const struct spot_grid larger = { 3, 1, 1 }, smaller = { 1, 1, 1 };

static bool puts_off(const struct spot_grid *grid)
{
    c.movement.exposed_since_s = 0; /* no time goes by in a test */
    return spot_trainer_puts_off(&c, grid);
}

START_TEST(a_third_pipeline_is_worth_a_short_pause_and_not_a_long_one)
{
    c.movement.form_s = 0.1; /* a third of 6.7 s more */
    ck_assert(!puts_off(&larger));
    c.movement.form_s = 5;
    ck_assert(puts_off(&larger));
    ck_assert(puts_off(&larger));
    ck_assert_int_eq(n_told, 1);
    ck_assert_ptr_nonnull(strstr(told, "grid 3x1 waits: a member leaves every 6.67 s"));
    c.movement.exposed_s = 600; /* and nobody went since */
    ck_assert(!puts_off(&larger));
    ck_assert(!c.movement.is_put_off);
}
END_TEST

START_TEST(members_of_which_few_went_are_taken_to_stay)
{
    c.movement.form_s = 5;
    c.movement.n_gone = 2;
    ck_assert(!puts_off(&larger));
}
END_TEST

START_TEST(what_moves_counts_and_a_warm_newcomer_moves_nothing)
{
    double byte = 0;

    for (int b = 0; b < c.n_bundle; b++)
        byte += (double)spot_trainer_bundle_byte(&c, b);
    who[0].moved_byte_per_s = byte / 60; /* ahead it comes too late, too */
    c.movement.form_s = 0.1;
    ck_assert(puts_off(&larger));
    c.form.precopy = precopy;
    for (uint32_t b = 0; b < (uint32_t)c.n_bundle; b++)
        precopy[c.form.n_precopy++] = (struct spot_precopy){ b, 3 };
    c.form.n_precopied = c.form.n_precopy - 1;
    ck_assert(puts_off(&larger));
    c.form.n_precopied = c.form.n_precopy;
    ck_assert(!puts_off(&larger));
}
END_TEST

START_TEST(only_growth_is_put_off)
{
    c.movement.form_s = 1000;
    ck_assert(puts_off(&larger));
    ck_assert(!puts_off(&smaller));
    c.want = larger; /* a plan came */
    ck_assert(!puts_off(&larger));
    c.formed_want = c.want;
    ck_assert(puts_off(&larger));
    spot_machine_find(&view.machine, 2)->is_leaving = true; /* an epoch is due anyhow */
    ck_assert(!puts_off(&larger));
    spot_machine_find(&view.machine, 2)->is_leaving = false;
    view.machine.phase = SPOT_PHASE_QUIESCE;
    ck_assert(!puts_off(&larger));
    view.machine.phase = SPOT_PHASE_RUN;
    c.step_s = 0; /* nothing is known of this job yet */
    ck_assert(!puts_off(&larger));
}
END_TEST

START_TEST(state_of_a_measured_size_moves_ahead_where_the_newcomer_is_worth_less)
{
    const struct spot_grid two = { 2, 1, 1 }, one = { 1, 1, 1 };
    const double byte = 1e9;

    c.movement.form_s = 0.05;
    who[1].moved_byte_per_s = byte / 0.8; /* .8 s of moves beside steps of 1 s */
    ck_assert(spot_trainer_prefers_precopy(&c, &two, &larger, byte)); /* .6 + .05 - .8 < 0 */
    ck_assert(spot_trainer_prefers_precopy(&c, &one, &two, byte));    /* .9 + .05 - .8 < .5 */
    ck_assert(spot_trainer_prefers_precopy(&c, &two, &one, byte));    /* one leaves */
    c.movement.form_s = 0.3; /* .3 + .9 - .8: still; then .3 + .53 - .07 > .5 of a step */
    ck_assert(spot_trainer_prefers_precopy(&c, &one, &two, byte));
    who[1].moved_byte_per_s = byte / 0.07;
    ck_assert(!spot_trainer_prefers_precopy(&c, &one, &two, byte));
    who[1].moved_byte_per_s = byte / 0.04; /* nobody minds */
    ck_assert(!spot_trainer_prefers_precopy(&c, &two, &larger, byte));
    ck_assert(!spot_trainer_prefers_precopy(&c, &two, &larger, 1e6)); /* too little to tell */
    c.step_s = 0;
    ck_assert(!spot_trainer_prefers_precopy(&c, &two, &larger, byte));
}
END_TEST

/* In units of one multiply-add: the longest pipeline's microbatches in the slowest stage. */
START_TEST(work_of_a_grid_is_that_of_its_longest_pipeline)
{
    const struct spot_shape *const s = &c.config.shape;
    const double all = spot_grid_cost(s, 0, (uint32_t)c.n_bundle);
    uint32_t cut[3];

    for (int64_t d = 1; d <= 6; d++) {
        const struct spot_grid g = { d, 1, 1 };

        ck_assert_double_eq_tol(spot_grid_work(s, &g, 6), all * (double)((6 + d - 1) / d), 1e-6);
    }
    spot_grid_stages(s, 2, cut);
    ck_assert_double_eq_tol(spot_grid_work(s, &(struct spot_grid){ 1, 2, 1 }, 6),
                            all + 5 * fmax(spot_grid_cost(s, 0, cut[1]),
                                           spot_grid_cost(s, cut[1], (uint32_t)c.n_bundle)),
                            1e-6);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("worth");

    tcase_add_checked_fixture(tc, setup, teardown);
    add_tests(tc);
    return run_suite("trainer_worth", tc);
}

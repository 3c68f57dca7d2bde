/* SPDX-License-Identifier: MIT */
/* Goal: the models of other systems do what their mechanisms say. Oracles: sums by hand on a job
 * whose every constant is a round number, and a clock that ticks in milliseconds for the periodic
 * checkpoints.
 *
 * The job: one stage, D instances give D samples a second in steps of 8 samples, a restart takes
 * 10 s, the state 1 s through a link, a checkpoint 2 s to save and 2 s to load beside that. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../peer_constant.h"
#include "common/rng.h"
#include "peers/registry.h"
#include "peers/train_peers.h"
#include "suite.h"

static const char one_stage[] =
    "{\"schema\":\"spot.job/1\",\"name\":\"round\",\"kind\":\"train\",\"global_batch\":8,"
    "\"layers\":[{\"params\":1000000}],\"cost\":{\"restart_s\":10,\"checkpoint_s\":4,"
    "\"move_byte_per_param\":1,\"p2p\":[{\"byte\":1000000,\"s\":1}]},\"profile\":["
    "{\"D\":1,\"P\":1,\"samples_per_s\":1},{\"D\":2,\"P\":1,\"samples_per_s\":2},"
    "{\"D\":3,\"P\":1,\"samples_per_s\":3},{\"D\":4,\"P\":1,\"samples_per_s\":4}]}";

static const char two_stages[] =
    "{\"schema\":\"spot.job/1\",\"name\":\"round\",\"kind\":\"train\",\"global_batch\":8,"
    "\"layers\":[{\"params\":1000000},{\"params\":1000000},{\"params\":3000000}],\"cost\":{"
    "\"restart_s\":10,"
    "\"checkpoint_s\":4,\"move_byte_per_param\":1,\"p2p\":[{\"byte\":1000000,\"s\":1}]},"
    "\"profile\":[{\"D\":1,\"P\":2,\"samples_per_s\":1},{\"D\":2,\"P\":2,\"samples_per_s\":2}]}";

static const char four_layers[] =
    "{\"schema\":\"spot.job/1\",\"name\":\"round\",\"kind\":\"train\",\"global_batch\":8,"
    "\"layers\":[{\"params\":1000000},{\"params\":1000000},{\"params\":1000000},{\"params\":"
    "1000000}],"
    "\"memory\":{\"P_min\":2,\"P_max\":3},\"cost\":{\"restart_s\":10,\"checkpoint_s\":4,"
    "\"move_byte_per_param\":1,\"p2p\":[{\"byte\":1000000,\"s\":1}]},\"profile\":["
    "{\"D\":1,\"P\":2,\"samples_per_s\":0.7},{\"D\":1,\"P\":3,\"samples_per_s\":1}]}";

static const char *text = one_stage;

enum { N = 10 };
static const double RESTART = 10, SAVE = 3, LOAD = 3;

struct rig {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    struct spot_sim_train sim;
    int available[N];
    struct spot_sim_row row[N];
};

static enum spot_peer_model model;             /* that play() charges */
static const struct spot_peer_prices *changed; /* in its place, unless NULL */

/* `before` instances for 300 s, then `after`, and `last` from 360 s on. */
static double play(struct rig *r, const char *policy, double notice_s, int before, int after,
                   int last)
{
    struct spot_err err = { 0 };
    struct spot_sim_total total;

    memset(r, 0, sizeof(*r));
    ck_assert_msg(!spot_job_doc_parse(&r->job, text, strlen(text), "t", &err), "%s", err.msg);
    ck_assert_msg(!spot_throughput_init(&r->throughput, &r->job, 5, SPOT_THROUGHPUT_TABLE, &err),
                  "%s", err.msg);
    spot_cost_table_init(&r->table, &r->job, &r->throughput);
    for (int i = 0; i < N; i++)
        r->available[i] = i < 5 ? before : i == 5 ? after : last;
    r->sim = (struct spot_sim_train){ .job = &r->job,
                                      .throughput = &r->throughput,
                                      .table = &r->table,
                                      .n_interval = N,
                                      .available = r->available,
                                      .interval_s = 60,
                                      .look_ahead = 12,
                                      .peers = changed ? changed : spot_peer_prices_of(model),
                                      .notice_loss_s = notice_s,
                                      .notice_gain_s = notice_s };
    ck_assert(
        !spot_sim_train_run(&r->sim, spot_registry_find("train", policy, &err), r->row, &err));
    spot_sim_total(r->row, N, &total);
    return total.samples;
}

static void unload(struct rig *r)
{
    spot_cost_table_release(&r->table);
    spot_throughput_release(&r->throughput);
    spot_job_doc_release(&r->job);
}

/* Seconds of training in t seconds with checkpoints of SAVE after every `every`; *unsaved: since
 * the last whole one. Ticks of a millisecond. */
static double by_the_clock(double t, double every, double *unsaved)
{
    long trained = 0, since = 0, saving = 0;

    for (long ms = 0; ms < lround(1000 * t); ms++) {
        if (saving) {
            if (!--saving)
                since = 0;
        } else {
            trained++;
            if (++since >= 1000 * every)
                saving = lround(1000 * SAVE);
        }
    }
    *unsaved = (double)since / 1000;
    return (double)trained / 1000;
}

static double young_s(int n_change, int n_seen)
{
    return sqrt(2 * SAVE * (10.0 + n_seen) / (1.0 + n_change) * 60);
}

/* Within a tick or two for each of a handful of checkpoints. */
#define ck_near(got, want)                                                              \
    ck_assert_msg(fabs((got) - (want)) < 0.1, "got %.6g, expected %.6g", (double)(got), \
                  (double)(want))

START_TEST(the_interval_between_checkpoints_is_youngs)
{
    struct spot_sim_train sim = { .interval_s = 60 };

    /* 2 changes in 50 intervals, one more change and 10 intervals assumed: one in 1200 s */
    ck_assert_double_eq_tol(spot_sim_save_every_s(&sim, 6, 2, 50), sqrt(2 * 6 * 1200), 1e-12);
}
END_TEST

START_TEST(torchrun_saves_periodically_and_loses_what_is_not_saved)
{
    double unsaved, first, second, end;
    struct rig r;

    first = by_the_clock(5 * 60 - RESTART, young_s(0, 0), &unsaved);
    second = by_the_clock(5 * 60 - (RESTART + LOAD + 15), young_s(1, 5), &end);
    ck_near(play(&r, "torchrun", 120, 4, 2, 2), 4 * (first - unsaved) + 2 * second);
    ck_near(r.row[5].lost_samples, 4 * unsaved);
    ck_near(r.row[5].cost_s, 28);
    unload(&r);
    ck_near(play(&r, "torchrun", 120, 2, 4, 4), /* a gain: the rendezvous waits for more */
            2 * (first - unsaved) +
                4 * by_the_clock(300 - (RESTART + LOAD + 30), young_s(1, 5), &end));
    unload(&r);
}
END_TEST

/* Once a checkpoint had begun, a rounding error of the time since the last one kept the clock from
 * going on for ever. */
START_TEST(checkpoints_of_any_length_come_to_an_end)
{
    struct spot_err err = { 0 };
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int k = 0; k < 2000; k++) {
        struct rig r;
        double sum = 0;

        play(&r, "ideal", 120, 4, 2, 3);
        r.job.cost.checkpoint_s = 30 * spot_rng_unit(&rng);
        r.sim.interval_s = 5 + 90 * spot_rng_unit(&rng);
        for (int i = 0; i < N; i++)
            r.available[i] = 1 + (int)spot_rng_below(&rng, 4);
        ck_assert(!spot_sim_train_run(
            &r.sim, spot_registry_find("train", k % 2 ? "torchrun" : "varuna", &err), r.row, &err));
        for (int c = 0; c < SPOT_SIM_CLASSES; c++)
            sum += r.row[N - 1].class_s[c];
        ck_assert_double_eq_tol(sum, r.available[N - 1] * r.sim.interval_s, 1e-9);
        unload(&r);
    }
}
END_TEST

START_TEST(varuna_saves_on_a_notice_that_is_long_enough)
{
    double unsaved, first, end;
    struct rig r;

    model = SPOT_PEER_AS_MEASURED;
    first = by_the_clock(5 * 60 - RESTART, young_s(0, 0), &unsaved);
    ck_near(play(&r, "varuna", 120, 4, 2, 2),
            4 * first +
                2 * by_the_clock(300 - (RESTART + SAVE + 5 + 120 + LOAD), young_s(1, 5), &end));
    ck_assert_double_eq(r.row[5].lost_samples, 0);
    unload(&r);
    ck_near(play(&r, "varuna", 20, 4, 2, 2),
            4 * (first - unsaved) +
                2 * by_the_clock(300 - (RESTART + 5 + 120 + LOAD), young_s(1, 5), &end));
    ck_near(r.row[5].lost_samples, 4 * unsaved);
    unload(&r);
    /* without its waits; four replicas save a quarter each, each loads the whole */
    model = SPOT_PEER_GENEROUS;
    play(&r, "varuna", 120, 4, 2, 2);
    ck_assert_double_eq_tol(r.row[5].cost_s, RESTART + 2 + 1. / 4 + LOAD, 1e-9);
    unload(&r);
    model = SPOT_PEER_PUBLISHED;
    play(&r, "varuna", 120, 4, 2, 2);
    ck_assert_double_eq_tol(r.row[5].cost_s, RESTART + 2 + 1. / 4 + LOAD + 120 + 5, 1e-9);
    unload(&r);
}
END_TEST

START_TEST(oobleck_regroups_copies_layers_and_takes_newcomers_in)
{
    struct rig r;

    /* detection 1 s, build 10 s, the layers 1 s, half a step of 8 samples; then build and layers */
    ck_near(play(&r, "oobleck", 0, 4, 3, 4),
            4 * (300 - RESTART) - 4 + 3 * (60 - (1 + RESTART + 1)) + 4 * (240 - (RESTART + 1)));
    ck_near(r.row[5].lost_samples, 4);
    unload(&r);
    /* nobody left: from the checkpoint when somebody is back */
    ck_near(play(&r, "oobleck", 0, 4, 0, 4), 4 * (300 - RESTART) - 4 + 4 * (240 - RESTART - LOAD));
    unload(&r);
    /* newcomers build apart; as released, the fourth stays outside */
    model = SPOT_PEER_GENEROUS;
    ck_near(play(&r, "oobleck", 0, 4, 3, 4),
            4 * (300 - RESTART) - 4 + 3 * (60 - (RESTART + 1)) + 4 * (240 - 1));
    unload(&r);
    model = SPOT_PEER_AS_MEASURED;
    ck_near(play(&r, "oobleck", 0, 4, 3, 4),
            4 * (300 - RESTART) - 4 + 3 * (300 - (1 + RESTART + 1)));
    ck_assert_int_eq(r.row[9].spares, 1);
    unload(&r);
    model = SPOT_PEER_PUBLISHED;
}
END_TEST

/* Four of five run. Of the five one goes: in four cases of five it hits a pipeline, whose place the
 * fifth takes at once. D stays, and the wait is charged all the same. */
START_TEST(torchft_waits_for_a_pipeline_that_is_replaced_at_once)
{
    const double timeout[] = { 60, 5.1, 60 }, join[] = { 1, 0, RESTART + 1 };
    struct rig r;

    model = (enum spot_peer_model)_i;
    ck_near(play(&r, "torchft", 0, 5, 4, 4),
            4 * (300 - RESTART) - 3.2 + 4 * (300 - 0.8 * (timeout[_i] + join[_i])));
    ck_assert_int_eq(r.row[5].d, 4);
    ck_near(r.row[5].lost_samples, 3.2);
    unload(&r);
    model = SPOT_PEER_PUBLISHED;
}
END_TEST

START_TEST(torchft_drops_the_pipeline_after_a_timeout_and_takes_newcomers_in)
{
    struct rig r;

    /* 60 s of timeout are interval 5; a copy of 1 s lets the newcomer in */
    ck_near(play(&r, "torchft", 0, 4, 3, 4), 4 * (300 - RESTART) - 4 + 4 * (240 - 1));
    ck_assert_int_eq(r.row[5].d, 3);
    ck_near(r.row[5].class_s[SPOT_SIM_RECONFIGURE], 3 * 60);
    unload(&r);
}
END_TEST

START_TEST(every_price_names_its_source)
{
    for (model = SPOT_PEER_PUBLISHED; model <= SPOT_PEER_AS_MEASURED; model++) {
        for (int peer = 0; peer < SPOT_PEER_SYSTEMS; peer++) {
            const struct spot_peer_price *p = &spot_peer_prices_of(model)->system[peer];

            ck_assert_msg(p->source && *p->source, "peer %d, model %d", peer, model);
            ck_assert(p->loss_wait_s >= 0 && p->gain_wait_s >= 0 && p->kill_s >= 0);
            ck_assert(p->restart == 1 && p->transfer == 1 && p->period == 1);
        }
        ck_assert(*spot_peer_prices_of(model)->bamboo.source);
    }
    model = SPOT_PEER_PUBLISHED;
}
END_TEST

/* Stages of 2 and 3 s: a checkpoint comes through as many links as the model says, and a loss costs
 * restart, load and the wait for it. */
START_TEST(a_checkpoint_takes_the_links_of_the_model)
{
    static const double load[] = { 3, 3, 2 + 3 }, wait[] = { 15, 5, 15 };
    struct rig r;

    model = (enum spot_peer_model)_i;
    text = two_stages;
    play(&r, "torchrun", 120, 4, 2, 2);
    ck_assert_int_eq(r.row[5].p, 2);
    ck_assert_double_eq_tol(r.row[5].cost_s, RESTART + 2 + load[_i] + wait[_i], 1e-9);
    unload(&r);
    text = one_stage;
    model = SPOT_PEER_PUBLISHED;
}
END_TEST

/* From its paper: 1.5 times the least stages, here 3 for 2, and a forward in three of forward and
 * backward computed twice, unless a bubble hides it. One pipeline trains a sample a second. */
START_TEST(bamboo_runs_half_as_many_stages_more_and_computes_a_third_twice)
{
    struct rig r;

    text = four_layers;
    for (model = SPOT_PEER_PUBLISHED; model <= SPOT_PEER_AS_MEASURED; model++) {
        const double share = model == SPOT_PEER_GENEROUS ? 0 : 1. / 3;
        double effective = 0, redundant = 0, samples;

        samples = play(&r, "bamboo", 120, 3, 3, 3);
        for (int i = 0; i < N; i++) {
            effective += r.row[i].class_s[SPOT_SIM_EFFECTIVE];
            redundant += r.row[i].class_s[SPOT_SIM_REDUNDANT];
        }
        ck_assert_int_eq(r.row[5].p, 3);
        ck_assert_double_gt(samples, 100);
        ck_assert_double_eq_tol(redundant, share * effective, 1e-6);
        ck_assert_double_le(fabs(samples - effective / 3), 8); /* a step that is not over */
        unload(&r);
    }
    text = one_stage;
    model = SPOT_PEER_PUBLISHED;
}
END_TEST

/* A restart of 10 s, state of 1 s, 2 s more to save and to load; what the models add is in the
 * sums. `before` instances, then `after`. */
static const struct {
    const char *constant, *policy;
    enum spot_peer_model model;
    int before, after;
    double cost_s;
} charged[] = {
    { "torchrun.loss-wait=60", "torchrun", SPOT_PEER_PUBLISHED, 4, 2, 10 + 3 + 60 },
    { "torchrun.loss-wait=2x", "torchrun", SPOT_PEER_PUBLISHED, 4, 2, 10 + 3 + 30 },
    { "torchrun.gain-wait=60", "torchrun", SPOT_PEER_PUBLISHED, 4, 2, 10 + 3 + 15 },
    { "torchrun.gain-wait=.5x", "torchrun", SPOT_PEER_PUBLISHED, 2, 4, 10 + 3 + 15 },
    { "torchrun.restart=0.5", "torchrun", SPOT_PEER_PUBLISHED, 4, 2, 5 + 3 + 15 },
    { "torchrun.transfer=2", "torchrun", SPOT_PEER_PUBLISHED, 4, 2, 10 + 6 + 15 },
    { "varuna.loss-wait=0x", "varuna", SPOT_PEER_PUBLISHED, 4, 2, 10 + 2.25 + 3 + 5 },
    { "varuna.kill=50", "varuna", SPOT_PEER_PUBLISHED, 4, 2, 10 + 2.25 + 3 + 120 + 50 },
    { "varuna.restart=3x", "varuna", SPOT_PEER_GENEROUS, 4, 2, 30 + 2.25 + 3 },
    { "varuna.transfer=.5x", "varuna", SPOT_PEER_GENEROUS, 4, 2, 10 + 1.125 + 1.5 },
    { "varuna.transfer=2x", "varuna", SPOT_PEER_AS_MEASURED, 4, 2, 10 + 6 + 6 + 120 + 5 },
    { "oobleck.loss-wait=2x", "oobleck", SPOT_PEER_PUBLISHED, 4, 3, 2 + 10 + 1 },
    { "oobleck.gain-wait=7", "oobleck", SPOT_PEER_PUBLISHED, 3, 4, 7 + 10 + 1 },
    { "oobleck.restart=2x", "oobleck", SPOT_PEER_PUBLISHED, 4, 3, 1 + 20 + 1 },
    { "oobleck.transfer=3x", "oobleck", SPOT_PEER_PUBLISHED, 4, 3, 1 + 10 + 3 },
    { "torchft.loss-wait=.5x", "torchft", SPOT_PEER_PUBLISHED, 4, 3, 30 },
    { "torchft.restart=2x", "torchft", SPOT_PEER_AS_MEASURED, 3, 4, 20 + 1 },
    { "torchft.transfer=2x", "torchft", SPOT_PEER_PUBLISHED, 3, 4, 2 },
};

START_TEST(a_constant_that_is_changed_is_charged)
{
    struct spot_peer_prices prices = *spot_peer_prices_of(charged[_i].model);
    struct rig r;

    ck_assert(!peer_constant_set(&prices, charged[_i].constant));
    changed = &prices;
    play(&r, charged[_i].policy, 120, charged[_i].before, charged[_i].after, charged[_i].after);
    ck_assert_double_eq_tol(r.row[5].cost_s, charged[_i].cost_s, 1e-9);
    unload(&r);
    changed = NULL;
}
END_TEST

START_TEST(a_period_that_is_changed_moves_the_checkpoints)
{
    struct spot_peer_prices prices = *spot_peer_prices_of(SPOT_PEER_PUBLISHED);
    static const char *const text_of[] = { "torchrun.period=0.5x", "torchrun.period=2x" };
    const double period = _i ? 2 : 0.5;
    double unsaved, first, second, end;
    struct rig r;

    ck_assert(!peer_constant_set(&prices, text_of[_i]));
    changed = &prices;
    first = by_the_clock(5 * 60 - RESTART, period * young_s(0, 0), &unsaved);
    second = by_the_clock(5 * 60 - (RESTART + LOAD + 15), period * young_s(1, 5), &end);
    ck_near(play(&r, "torchrun", 120, 4, 2, 2), 4 * (first - unsaved) + 2 * second);
    unload(&r);
    changed = NULL;
}
END_TEST

/* Three nodes are one pipeline of three stages; none is ever lost. */
static void play_bamboo(struct rig *r, const char *constant, double class_s[SPOT_SIM_CLASSES],
                        double *meeting_s)
{
    struct spot_peer_prices prices = *spot_peer_prices_of(SPOT_PEER_PUBLISHED);

    ck_assert(!peer_constant_set(&prices, constant));
    changed = &prices;
    text = four_layers;
    play(r, "bamboo", 120, 3, 3, 3);
    text = one_stage;
    changed = NULL;
    memset(class_s, 0, SPOT_SIM_CLASSES * sizeof(*class_s));
    *meeting_s = 0;
    for (int i = 0; i < N; i++) {
        *meeting_s += r->row[i].cost_s;
        for (int c = 0; c < SPOT_SIM_CLASSES; c++)
            class_s[c] += r->row[i].class_s[c];
    }
}

START_TEST(bamboo_is_charged_its_constants)
{
    double s[SPOT_SIM_CLASSES], meeting_s;
    struct rig r;

    play_bamboo(&r, "bamboo.redundant=3x", s, &meeting_s);
    ck_assert_double_eq_tol(s[SPOT_SIM_REDUNDANT], s[SPOT_SIM_EFFECTIVE], 1e-6);
    ck_assert_int_eq(r.row[N - 1].p, 3);
    unload(&r);
    play_bamboo(&r, "bamboo.stages=1", s, &meeting_s);
    ck_assert_int_eq(r.row[N - 1].p, 2);
    unload(&r);
    play_bamboo(&r, "bamboo.boot=10", s, &meeting_s);
    ck_assert_double_eq_tol(s[SPOT_SIM_BOOTING], 3 * 10, 1e-9);
    unload(&r);
    play_bamboo(&r, "bamboo.global=2x", s, &meeting_s);
    ck_assert_double_eq_tol(meeting_s, 60, 1e-9);
    unload(&r);
}
END_TEST

/* A loss that a neighbour absorbs costs one meeting more, when its step is over. */
START_TEST(bamboo_meets_locally_after_a_loss)
{
    static const char *const text_of[] = { "bamboo.local=1x", "bamboo.local=2x" };
    double meeting_s[2];

    text = four_layers;
    for (int k = 0; k < 2; k++) {
        struct spot_peer_prices prices = *spot_peer_prices_of(SPOT_PEER_PUBLISHED);
        struct rig r;

        ck_assert(!peer_constant_set(&prices, text_of[k]));
        changed = &prices;
        play(&r, "bamboo", 120, 3, 2, 2);
        meeting_s[k] = 0;
        for (int i = 0; i < N; i++)
            meeting_s[k] += r.row[i].cost_s;
        unload(&r);
    }
    ck_assert_double_eq_tol(meeting_s[0], 30 + 20, 1e-9);
    ck_assert_double_eq_tol(meeting_s[1], 30 + 40, 1e-9);
    text = one_stage;
    changed = NULL;
}
END_TEST

/* Checkpoints of save_s that are due at the end of a step of 8 * 4 / 3 s, from 75 s on. */
static int bamboo_saves(double save_s, double period)
{
    const double step_s = 8 * 4. / 3;
    double now = 75, saved = 75;
    int n = 0;

    while (now + step_s <= N * 60) {
        now += step_s;
        if (now - saved < period * sqrt(2 * save_s * (600 + now)))
            continue;
        if (now + save_s > N * 60)
            break;
        now += save_s;
        saved = now;
        n++;
    }
    return n;
}

START_TEST(bamboo_saves_as_often_and_as_long_as_it_is_told)
{
    static const struct {
        const char *constant;
        double save_s, period;
    } told[] = { { "bamboo.transfer=1x", 2 + 2, 1 },
                 { "bamboo.transfer=2x", 2 * (2 + 2), 1 },
                 { "bamboo.period=.5x", 2 + 2, .5 },
                 { "bamboo.period=2x", 2 + 2, 2 } };
    double s[SPOT_SIM_CLASSES], meeting_s;
    const int saves = bamboo_saves(told[_i].save_s, told[_i].period);
    struct rig r;

    play_bamboo(&r, told[_i].constant, s, &meeting_s);
    ck_assert_int_gt(saves, 0);
    ck_assert_double_eq_tol(s[SPOT_SIM_CHECKPOINT], 3 * told[_i].save_s * saves, 1e-6);
    unload(&r);
}
END_TEST

START_TEST(each_name_sets_its_own_constant)
{
    const struct spot_peer_prices *const published = spot_peer_prices_of(SPOT_PEER_PUBLISHED);

    for (const struct peer_constant *c = peer_constants; c->name; c++) {
        struct spot_peer_prices prices = *published;
        char set[64];

        snprintf(set, sizeof(set), "%s=1x", c->name);
        ck_assert(!peer_constant_set(&prices, set));
        for (const struct peer_constant *o = peer_constants; o->name; o++)
            ck_assert_double_eq(peer_constant_value(o, &prices), peer_constant_value(o, published));
        snprintf(set, sizeof(set), "%s=%g", c->name, c->most);
        ck_assert(!peer_constant_set(&prices, set));
        for (const struct peer_constant *o = peer_constants; o->name; o++)
            ck_assert_double_eq(peer_constant_value(o, &prices),
                                o == c ? c->most : peer_constant_value(o, published));
        snprintf(set, sizeof(set), "%s=%g", c->name, c->most + 1);
        ck_assert(peer_constant_set(&prices, set));
        snprintf(set, sizeof(set), "%s=%g", c->name, c->least - 1);
        ck_assert(peer_constant_set(&prices, set));
        ck_assert_double_eq(peer_constant_value(c, &prices), c->most);
    }
}
END_TEST

START_TEST(losses_are_taken_from_the_newest_samples_first)
{
    struct spot_sim_row row[3] = { { .samples = 10, .class_s = { 10 } },
                                   { .samples = 4, .class_s = { 8 } },
                                   { .samples = 9, .class_s = { 9 }, .lost_samples = 6 } };

    spot_sim_settle_losses(row, 3);
    ck_assert(row[0].samples == 8 && row[0].class_s[SPOT_SIM_EFFECTIVE] == 8);
    ck_assert(row[0].class_s[SPOT_SIM_REDONE] == 2);
    ck_assert(row[1].samples == 0 && row[1].class_s[SPOT_SIM_REDONE] == 8);
    ck_assert(row[2].samples == 9 && row[2].class_s[SPOT_SIM_REDONE] == 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, torchft_waits_for_a_pipeline_that_is_replaced_at_once, 0, 3);
    tcase_add_loop_test(tc, a_checkpoint_takes_the_links_of_the_model, 0, 3);
    tcase_add_loop_test(tc, a_constant_that_is_changed_is_charged, 0,
                        sizeof(charged) / sizeof(*charged));
    tcase_add_loop_test(tc, a_period_that_is_changed_moves_the_checkpoints, 0, 2);
    tcase_add_loop_test(tc, bamboo_saves_as_often_and_as_long_as_it_is_told, 0, 4);
    add_tests(tc);
    return run_suite("sim_peers", tc);
}

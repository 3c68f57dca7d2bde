/* SPDX-License-Identifier: MIT */
/* Goal: Bamboo's simulator is reproduced run by run, its defects included, and its corrected mode
 * has none of them. Oracles: the published runs (where they are there), scenes that can be told
 * by hand. */
#include "peers/bamboo_sim.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/rng.h"
#include "peers/peer_model.h"
#include "suite.h"

#define GOLDEN "../shared/data/golden/bamboo/"
enum { EVENTS_MAX = 512, NAMES_MAX = 256 };

static const int64_t gpt2_ms[] = { 0, 1200, 1085, 1046, 1008 };
static const int64_t bert_ms[] = { 0, 4310, 2390, 1805, 1450 };

static struct spot_bamboo_job job_of(const char *model)
{
    const bool is_gpt2 = !strcmp(model, "GPT-2");

    return (struct spot_bamboo_job){ .stages = 12,
                                     .samples = is_gpt2 ? 32 : 264,
                                     .boot_ms = 45000,
                                     .local_ms = 20000,
                                     .global_ms = 30000,
                                     .n_step = 4,
                                     .step_ms = is_gpt2 ? gpt2_ms : bert_ms,
                                     .usd_per_h = 0.91,
                                     .is_released = true };
}

struct trace {
    struct spot_bamboo_event event[EVENTS_MAX];
    size_t n;
    char name[NAMES_MAX][32];
    int n_name;
    double ms_per_unit;
};

static int number_of(struct trace *t, const char *name)
{
    for (int i = 0; i < t->n_name; i++)
        if (!strcmp(t->name[i], name))
            return i;
    ck_assert_int_lt(t->n_name, NAMES_MAX);
    snprintf(t->name[t->n_name], sizeof(t->name[0]), "%s", name);
    return t->n_name++;
}

static int on_event(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct trace *t = user;

    (void)err;
    ck_assert_int_lt((int)t->n, EVENTS_MAX);
    t->event[t->n++] =
        (struct spot_bamboo_event){ llround(atof(row->field[0]) * t->ms_per_unit),
                                    !strcmp(row->field[1], "add"), number_of(t, row->field[2]) };
    return 0;
}

static bool load(struct trace *t, const char *path, double ms_per_unit)
{
    static const char *const want[] = { "time_s", "event", "instance" };
    FILE *in = fopen(path, "re");
    struct spot_err err = { 0 };
    int rc;

    *t = (struct trace){ .ms_per_unit = ms_per_unit };
    if (!in)
        return false;
    rc = ms_per_unit == 1 ? spot_csv_read_log(in, path, want, 3, true, on_event, t, NULL, &err)
                          : spot_csv_read(in, path, want, 3, on_event, t, NULL, &err);
    ck_assert_msg(!rc, "%s", err.msg);
    fclose(in);
    return true;
}

static void expect(const json_t *result, const char *key, double got, const char *what)
{
    const double want = json_number_value(json_object_get(result, key));

    ck_assert_msg(fabs(got - want) <= 1e-9 * fmax(fabs(want), 1), "%s: %s %.12g, published %.12g",
                  what, key, got, want);
}

static void compare(const json_t *one, struct trace *t)
{
    const char *model = json_string_value(json_object_get(one, "model"));
    const json_t *want = json_object_get(one, "result");
    const struct spot_bamboo_job job = job_of(model);
    struct spot_bamboo_result got;
    struct spot_err err = { 0 };
    char what[96];

    ck_assert_msg(!spot_bamboo_sim_run(&job, t->event, t->n,
                                       json_integer_value(json_object_get(one, "duration_ms")),
                                       &got, NULL, NULL, &err),
                  "%s", err.msg);
    snprintf(what, sizeof(what), "%s, %s", json_string_value(json_object_get(one, "trace")), model);
    expect(want, "num_steps_complete", (double)got.steps, what);
    expect(want, "num_preemptions", (double)got.preemptions, what);
    expect(want, "num_fatal_failures", (double)got.fatal, what);
    expect(want, "preemption_mean", got.preemption_mean_h, what);
    expect(want, "preemption_median", got.preemption_median_h, what);
    expect(want, "preemption_stdev", got.preemption_stdev_h, what);
    expect(want, "lifetime_mean", got.lifetime_mean_h, what);
    expect(want, "lifetime_median", got.lifetime_median_h, what);
    expect(want, "lifetime_stdev", got.lifetime_stdev_h, what);
    expect(want, "average_instances", got.instances, what);
    expect(want, "average_performance", got.samples_per_s, what);
    expect(want, "average_cost", got.usd_per_h, what);
    expect(want, "average_value", got.value, what);
}

START_TEST(reproduces_every_published_run)
{
    json_error_t why;
    json_t *all = json_load_file(GOLDEN "synthetic_results.json", 0, &why), *one;
    struct trace trace;
    size_t i;

    if (!all)
        return;
    ck_assert_int_eq((int)json_array_size(all), 16);
    json_array_foreach(all, i, one)
    {
        char path[128];

        snprintf(path, sizeof(path), GOLDEN "synthetic_traces/%s",
                 json_string_value(json_object_get(one, "trace")));
        ck_assert(load(&trace, path, 1));
        compare(one, &trace);
    }
    json_decref(all);
}
END_TEST

/* The p3 trace of Bamboo's repository is the one that Parcae's has. */
START_TEST(reproduces_the_published_run_on_the_public_trace)
{
    json_error_t why;
    json_t *all = json_load_file(GOLDEN "public_trace_results.json", 0, &why);
    struct trace trace;

    if (!all || !load(&trace, "../shared/data/golden/parcae/p3_events.csv", 1000)) {
        json_decref(all);
        return;
    }
    compare(json_array_get(all, 0), &trace);
    json_decref(all);
}
END_TEST

/* 24 nodes from 0 on, then these. */
static struct spot_bamboo_result play(bool is_released, const struct spot_bamboo_event *more,
                                      size_t n)
{
    struct spot_bamboo_job job = job_of("GPT-2");
    struct spot_bamboo_event event[64];
    struct spot_bamboo_result result;
    struct spot_err err = { 0 };

    job.is_released = is_released;
    for (int i = 0; i < 24; i++)
        event[i] = (struct spot_bamboo_event){ 0, true, i };
    memcpy(event + 24, more, n * sizeof(*more));
    ck_assert_msg(!spot_bamboo_sim_run(&job, event, 24 + n, 7200000, &result, NULL, NULL, &err),
                  "%s", err.msg);
    return result;
}

/* A second rendezvous ends with nobody in it: members stay, in no pipeline, and nobody stands in
 * for the first stage. Steps and fatal losses are those of simulator.py at 8080929. */
START_TEST(a_member_without_pipelines_has_no_predecessor)
{
    static const struct spot_bamboo_event more[] = {
        { 110000, true, 19 },  { 125000, true, 20 },  { 160000, true, 21 },  { 195000, true, 22 },
        { 195000, true, 23 },  { 196000, true, 24 },  { 321000, true, 25 },  { 322000, true, 26 },
        { 337000, false, 0 },  { 352000, true, 27 },  { 377000, true, 28 },  { 412000, false, 7 },
        { 412000, false, 23 }, { 412000, true, 29 },  { 412000, false, 24 }, { 447000, false, 2 },
        { 448000, false, 3 },  { 448000, true, 30 },  { 448000, true, 31 },  { 449000, false, 6 },
        { 484000, true, 32 },  { 485000, false, 30 }, { 500000, true, 34 },  { 535000, false, 1 },
        { 551000, false, 26 }, { 576000, false, 4 },  { 578000, false, 17 }, { 698000, false, 29 },
        { 723000, false, 21 }, { 723000, false, 25 }, { 724000, false, 34 }, { 814000, false, 20 }
    };
    struct spot_bamboo_job job = job_of("GPT-2");
    struct spot_bamboo_event event[17 + sizeof(more) / sizeof(*more)];
    struct spot_bamboo_result result;
    struct spot_err err = { 0 };

    for (int i = 0; i < 17; i++)
        event[i] = (struct spot_bamboo_event){ 0, true, i < 15 ? i : i + 2 };
    memcpy(event + 17, more, sizeof(more));
    ck_assert_msg(!spot_bamboo_sim_run(&job, event, sizeof(event) / sizeof(*event), 7200000,
                                       &result, NULL, NULL, &err),
                  "%s", err.msg);
    ck_assert_int_eq((int)result.steps, 5727);
    ck_assert_int_eq((int)result.preemptions, 17);
    ck_assert_int_eq((int)result.fatal, 1);
}
END_TEST

START_TEST(corrected_neighbours_lost_at_once_do_not_stop_it_for_good)
{
    const struct spot_bamboo_event pair[] = { { 600000, false, 5 }, { 600000, false, 6 } };
    const struct spot_bamboo_event turned[] = { { 600000, false, 6 }, { 600000, false, 5 } };
    const struct spot_bamboo_result a = play(false, pair, 2), b = play(false, turned, 2);

    ck_assert_int_eq(a.fatal, 1);
    ck_assert_int_eq(b.fatal, 1);
    ck_assert_int_eq(a.steps, b.steps); /* whichever line comes first */
    /* trains 75..600 s on two pipelines, and 630..7200 s on one */
    ck_assert_int_eq(a.steps, 525000 / 1085 + 6570000 / 1200);
    ck_assert_int_lt(play(true, pair, 2).steps, a.steps / 10);
}
END_TEST

START_TEST(corrected_a_node_that_boots_is_lost_at_no_price)
{
    const struct spot_bamboo_event more[] = { { 600000, true, 30 }, { 610000, false, 30 } };
    const struct spot_bamboo_result still = play(false, more, 0), lost = play(false, more, 2);

    ck_assert_int_eq(still.steps, lost.steps);
    ck_assert_int_lt(play(true, more, 2).steps, still.steps * 4 / 5);
}
END_TEST

START_TEST(corrected_checkpoints_bound_what_a_fatal_loss_takes)
{
    struct spot_bamboo_job job = job_of("GPT-2");
    struct spot_bamboo_event event[26];
    struct spot_bamboo_result never, saved;
    struct spot_err err = { 0 };

    for (int i = 0; i < 24; i++)
        event[i] = (struct spot_bamboo_event){ 0, true, i };
    event[24] = (struct spot_bamboo_event){ 3000000, false, 5 };
    event[25] = (struct spot_bamboo_event){ 3000000, false, 6 };
    job.is_released = false;
    ck_assert(!spot_bamboo_sim_run(&job, event, 26, 7200000, &never, NULL, NULL, &err));
    job.save_every_ms = 600000;
    job.save_ms = 10000;
    job.load_ms = 20000;
    ck_assert(!spot_bamboo_sim_run(&job, event, 26, 7200000, &saved, NULL, NULL, &err));
    /* at most 600 s of steps redone, some 10 saves, one load */
    ck_assert_int_lt(saved.steps, never.steps);
    ck_assert_int_ge(saved.steps, never.steps - (600 + 11 * 10 + 20) * 1000 / 1008);
}
END_TEST

START_TEST(more_pipelines_than_are_known_stop_the_release_only)
{
    struct spot_bamboo_job job = job_of("BERT");
    struct spot_bamboo_event event[60];
    struct spot_bamboo_result result;
    struct spot_err err = { 0 };

    for (int i = 0; i < 60; i++)
        event[i] = (struct spot_bamboo_event){ 0, true, i };
    ck_assert_int_eq(spot_bamboo_sim_run(&job, event, 60, 3600000, &result, NULL, NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    job.is_released = false;
    ck_assert(!spot_bamboo_sim_run(&job, event, 60, 3600000, &result, NULL, NULL, &err));
    ck_assert_int_eq(result.steps,
                     (3600000 - 75000) / 1450); /* four run, a pipeline's worth waits */
}
END_TEST

struct total {
    int64_t at, steps, lost;
};

static void on_span(const struct spot_bamboo_span *span, void *user)
{
    struct total *t = user;

    ck_assert_int_eq(span->from_ms, t->at);
    ck_assert_int_lt(span->from_ms, span->to_ms);
    ck_assert(span->n_boot >= 0 && span->n_ready >= 0 && span->n_member >= 0);
    t->at = span->to_ms;
    t->steps += span->steps;
    t->lost += span->lost_steps;
}

START_TEST(spans_cover_the_time_and_steps_are_committed_or_lost)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct spot_bamboo_job job = job_of("GPT-2");
        struct spot_bamboo_event event[EVENTS_MAX];
        struct spot_bamboo_result result;
        struct total total = { 0 };
        struct spot_err err = { 0 };
        bool there[NAMES_MAX] = { false };
        struct spot_rng rng;
        int64_t now = 0;

        spot_rng_init(&rng, seed, 0);
        job.is_released = false;
        job.save_every_ms = 300000;
        job.save_ms = job.load_ms = 5000;
        for (size_t i = 0; i < EVENTS_MAX; i++) {
            const int node = (int)spot_rng_below(&rng, 40);

            now += i < 30 ? 1 : 1 + (int64_t)spot_rng_below(&rng, 60000);
            event[i] = (struct spot_bamboo_event){ now, !there[node], node };
            there[node] = !there[node];
        }
        ck_assert_msg(!spot_bamboo_sim_run(&job, event, EVENTS_MAX, now + 60000, &result, on_span,
                                           &total, &err),
                      "%s", err.msg);
        ck_assert_int_eq(total.at, now + 60000);
        ck_assert_int_eq(total.steps - total.lost, result.steps);
    }
}
END_TEST

START_TEST(refuses_nodes_that_come_twice_or_leave_while_away)
{
    const struct spot_bamboo_job job = job_of("GPT-2");
    const struct spot_bamboo_event twice[] = { { 0, true, 1 }, { 5, true, 1 } };
    const struct spot_bamboo_event away[] = { { 0, true, 1 }, { 5, false, 2 } };
    struct spot_bamboo_result result;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_bamboo_sim_run(&job, twice, 2, 100, &result, NULL, NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_int_eq(spot_bamboo_sim_run(&job, away, 2, 100, &result, NULL, NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

START_TEST(models_of_peers_have_names)
{
    static const char *const name[] = { "published", "generous", "as-measured" };
    static const enum spot_peer_model want[] = { SPOT_PEER_PUBLISHED, SPOT_PEER_GENEROUS,
                                                 SPOT_PEER_AS_MEASURED };
    enum spot_peer_model model;
    struct spot_err err = { 0 };

    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(spot_peer_model_parse(name[i], &model, &err), 0);
        ck_assert_int_eq(model, want[i]);
        ck_assert_ptr_nonnull(spot_peer_prices_of(model));
    }
    ck_assert_int_eq(spot_peer_model_parse("kind", &model, &err), -1);
    ck_assert_str_eq(err.msg,
                     "--peer-model: expected published, generous or as-measured, got 'kind'");
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
}
END_TEST

int main(void)
{
    return run_suite("bamboo_sim", add_tests(tcase_create("core")));
}

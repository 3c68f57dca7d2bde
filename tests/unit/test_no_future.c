/* SPDX-License-Identifier: MIT */
/* lane: compute */
/* Goal: no policy of any simulator that does not say so knows what comes: rows that are appended or
 * changed after a time change no decision before it. Oracle: the same case played twice, with
 * another future; what was decided before that time, as text, is the same to the byte. */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "peers/registry.h"
#include "peers/serve_peers.h"
#include "sim/deadline_sim.h"
#include "sim/fleet_play.h"
#include "sim/share_play.h"
#include "sim_rig.h"

enum { CASES = 200 };

/* A case: everything up to a time is drawn from `seed`, what comes later from `future`. */
struct draw {
    struct spot_rng past, future;
    uint64_t seed;
    bool is_other; /* the second play: what comes later is another, and more or less of it */
};

static struct spot_rng *rng_at(struct draw *d, bool is_later)
{
    return is_later ? &d->future : &d->past;
}

static void say(struct spot_buf *said, const char *format, ...)
{
    char line[512];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    ck_assert(n >= 0 && (size_t)n < sizeof(line));
    spot_buf_add(said, line, (size_t)n);
}

/* --- train: counts, of more instances later --- */

static void play_train(const void *row, size_t k, struct draw *d, struct spot_buf *said)
{
    enum { SEEN = 12, LONGER = 18, NOTICE = 2 };
    static struct {
        struct spot_job_doc job;
        struct spot_throughput throughput;
        struct spot_cost_table table;
        struct spot_sim_train sim;
    } f[2];
    struct spot_sim_row out[LONGER];
    int available[LONGER];

    (void)k;
    if (!f[d->is_other].sim.job)
        f[d->is_other].sim = load_sim("demo", d->is_other ? 16 : 8, &f[d->is_other].job,
                                      &f[d->is_other].throughput, &f[d->is_other].table);
    f[d->is_other].sim.available = available;
    f[d->is_other].sim.n_interval = d->is_other ? LONGER : SEEN + d->seed % 4;
    f[d->is_other].sim.notice_loss_s = d->seed % 2 ? 30 : 0;
    f[d->is_other].sim.notice_gain_s = d->seed % 8 == 7 ? 90 : 0;
    for (int i = 0; i < LONGER; i++)
        available[i] = (int)spot_rng_below(rng_at(d, i >= SEEN), i >= SEEN && d->is_other ? 17 : 9);
    samples_of(&f[d->is_other].sim, ((const struct spot_sim_policy *)row)->name, out);
    for (int i = 0; i < SEEN - NOTICE; i++)
        say(said, "%d: %dx%d of %dx%d, %.17g s, saved %.17g\n", i, out[i].d, out[i].p,
            out[i].asked_d, out[i].asked_p, out[i].cost_s, out[i].class_s[SPOT_SIM_CHECKPOINT]);
}

/* --- fleet: counts of two zones, and in half of the cases a load --- */

static void play_fleet(const void *row, size_t k, struct draw *d, struct spot_buf *said)
{
    enum { N = 60, ZONES = 2 };
    static const char *const zone[ZONES] = { "us-east-1a", "us-west-2a" };
    static const double usd[ZONES] = { 0.9, 1 };
    static struct spot_fleet_step step[N];
    static int32_t count[N * ZONES], asked[N], in_zone[N * ZONES];
    static double load[N];
    const size_t same = 1 + d->seed * 7 % (N - 1);
    struct spot_fleet_play play = { .count = count,
                                    .zone = zone,
                                    .usd_per_h = usd,
                                    .on_demand_usd_per_h = 3,
                                    .tick_s = 195,
                                    .n_zone = ZONES,
                                    .n_tick = N,
                                    .wanted = 2,
                                    .cold = 1,
                                    .availability = 0.99 };
    struct spot_fleet_result r;
    struct spot_err err;

    (void)k;
    for (size_t i = 0; i < N * ZONES; i++) {
        struct spot_rng *rng = rng_at(d, i / ZONES >= same);

        count[i] = i >= ZONES && spot_rng_below(rng, 8) ? count[i - ZONES]
                                                        : (int32_t)spot_rng_below(rng, 3);
    }
    for (size_t t = 0; t < N; t++) { /* the autoscaler follows the tick before */
        load[t] = 2 * spot_rng_unit(rng_at(d, t >= same)) * (t >= same && d->is_other ? 4 : 1);
        asked[t] = t ? (int32_t)ceil(load[t - 1]) : 1;
    }
    if (d->seed % 2 && ((const struct spot_fleet_player *)row)->place !=
                           spot_fleet_players[SPOT_FLEET_PEAK].place) {
        play.load = load;
        play.asked = asked;
        for (size_t t = 0; t < N; t++) /* the most of the whole load, as spot-replay has it */
            play.wanted = asked[t] > play.wanted ? asked[t] : play.wanted;
    }
    spot_fleet_defaults(&play, row);
    ck_assert_msg(!spot_fleet_play_run(&play, row, &r, step, in_zone, &err), "%s", err.msg);
    for (size_t t = 0; t < same; t++)
        say(said, "%zu: %d %d, %d on demand, %s\n", t, (int)in_zone[ZONES * t],
            (int)in_zone[ZONES * t + 1], step[t].on_demand, step[t].state);
}

/* --- serve: instances that come and go, requests of any length --- */

/* A walk of 3 to 14 instances, another one from `cut_s` on. */
static size_t draw_events(struct spot_serve_event *event, struct draw *d, double cut_s,
                          double end_s)
{
    uint32_t there[16], n_there = 8, named = 8;
    size_t n = 0;
    double time_s = 0;

    for (uint32_t i = 0; i < n_there; i++) {
        there[i] = i;
        event[n++] = (struct spot_serve_event){ 0, true, i };
    }
    for (;;) {
        struct spot_rng *rng = rng_at(d, time_s >= cut_s);
        double next_s = time_s + 2 + 90 * spot_rng_unit(rng);

        if (time_s < cut_s && next_s >= cut_s)
            next_s = cut_s + 5 * spot_rng_unit(rng = &d->future);
        time_s = next_s;
        if (time_s > end_s)
            return n;
        if (n_there < 14 && (n_there == 3 || spot_rng_below(rng, 2))) {
            there[n_there++] = named;
            event[n++] = (struct spot_serve_event){ time_s, true, named++ };
        } else {
            const size_t i = spot_rng_below(rng, n_there);

            event[n++] = (struct spot_serve_event){ time_s, false, there[i] };
            there[i] = there[--n_there];
        }
    }
}

static void play_serve(const void *row, size_t k, struct draw *d, struct spot_buf *said)
{
    enum { REQUESTS = 120 };
    static struct spot_job_doc job;
    struct spot_serve_event event[600];
    const double cut_s = 60 + (double)(d->seed * 29 % 140);
    struct spot_load load = { 0 };
    struct spot_serve_play play = { .job = &job,
                                    .load = &load,
                                    .event = event,
                                    .end_s = d->is_other ? 420 : 300,
                                    .rate_per_s = d->seed % 3 ? 0 : 0.4,
                                    .switch_s = 10,
                                    .load_s = 20,
                                    .grace_s = 30,
                                    .boot_s = 60,
                                    .hand_s = 1,
                                    .note_every_s = 1,
                                    .rule = { SPOT_BATCH_POOLS, 8, true, false } };
    /* a loss is known as long before it comes as its notice, or a switch, takes */
    const double known_s = cut_s - (k == SPOT_SERVE_SPOT ? play.grace_s : play.switch_s);
    struct spot_serve_result r;
    struct spot_err err;
    double time_s = 0;

    (void)row;
    if (!job.name)
        ck_assert(!spot_job_doc_load(&job, "examples/serve/gpt-20b.json", &err));
    play.n_event = draw_events(event, d, cut_s, play.end_s);
    for (int i = 0; i < REQUESTS; i++) {
        time_s += 5 * spot_rng_unit(rng_at(d, time_s >= cut_s)) / (time_s >= cut_s ? 3 : 1);
        spot_load_add(&load, time_s, 512, 128, NULL);
    }
    ck_assert_msg(!spot_serve_play_run(&play, (enum spot_serve_policy)k, 0, &r, &err), "%s",
                  err.msg);
    for (size_t i = 0; i < r.n_step && r.step[i].time_s < known_s; i++)
        say(said, "%.17g: %d there, %d held, %d %d %d\n", r.step[i].time_s, (int)r.step[i].there,
            (int)r.step[i].held, (int)r.step[i].D, (int)r.step[i].P, (int)r.step[i].M);
    for (size_t i = 0; i < r.n_decided && r.decided[i].time_s < known_s; i++)
        say(said, "%.17g: asked %d %d %d and %d, %s\n", r.decided[i].time_s,
            (int)r.decided[i].asked.D, (int)r.decided[i].asked.P, (int)r.decided[i].asked.M,
            (int)r.decided[i].spares, r.decided[i].state);
    for (size_t i = 0; i < load.n; i++)
        if (r.served[i].end_s < known_s)
            say(said, "request %zu: %.17g, %.17g\n", i, r.served[i].first_token_s,
                r.served[i].end_s);
    spot_serve_result_release(&r);
    spot_load_release(&load);
}

/* --- share: jobs that arrive, and workers that are there --- */

static int by_start(const void *a, const void *b)
{
    const struct spot_share_step *x = a, *y = b;

    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    return x->job != y->job ? (x->job > y->job) - (x->job < y->job)
                            : (x->type > y->type) - (x->type < y->type);
}

/* Six jobs, the second half after `cut_s`; rate [6][2]. */
static void draw_jobs(struct draw *d, double cut_s, struct spot_share_jobs *jobs, double *rate)
{
    char id[16];

    for (int i = 0; i < 6; i++) {
        struct spot_rng *rng = rng_at(d, i >= 3);
        struct spot_share_job *job;

        snprintf(id, sizeof(id), "j%d", i);
        job = spot_share_jobs_add(jobs, id, "k", "");
        job->arrival_s = i < 3 ? (double)spot_rng_below(rng, 300) * i
                               : cut_s + 1 + (double)spot_rng_below(rng, 500);
        job->steps = 200 + (double)spot_rng_below(rng, 2000);
        job->slo_s = 2000 + (double)spot_rng_below(rng, 5000);
        for (int t = 0; t < 2; t++)
            rate[2 * i + t] = 1 + (double)spot_rng_below(rng, 4);
    }
    spot_share_jobs_sort(jobs);
}

static void draw_supply(struct draw *d, double cut_s, struct spot_trace *supply)
{
    static char text[8192];
    size_t n = (size_t)snprintf(text, sizeof(text), "time_s,instance_type,available\n");
    struct spot_err err;
    FILE *in;

    for (int t = 0; t < 40; t++) {
        struct spot_rng *rng = rng_at(d, t >= 20);
        const int a = 1 + (int)spot_rng_below(rng, 2), b = (int)spot_rng_below(rng, 4);

        n += (size_t)snprintf(text + n, sizeof(text) - n, "%g,a,%d\n%g,b,%d\n",
                              t * (cut_s + 1) / 20, a, t * (cut_s + 1) / 20, b);
    }
    snprintf(text + n, sizeof(text) - n, "99999,a,2\n99999,b,3\n");
    in = fmemopen(text, strlen(text), "r");
    ck_assert_msg(!spot_trace_load(supply, in, "t", &err), "%s", err.msg);
    fclose(in);
}

/* What began by then, and where; an end is told if it is past. */
static void play_share(const void *row, size_t k, struct draw *d, struct spot_buf *said)
{
    static char cluster_text[] = "instance_type,count,usd_per_h\na,2,3.6\nb,3,1.2\n";
    const double cut_s = 700 + (double)(d->seed * 37 % 900);
    FILE *in = fmemopen(cluster_text, strlen(cluster_text), "r");
    struct spot_share_jobs jobs = { 0 };
    struct spot_share_cluster cluster;
    struct spot_trace supply;
    double rate[12];
    struct spot_share_play play = { .jobs = &jobs,
                                    .cluster = &cluster,
                                    .rate = rate,
                                    .round_s = 100,
                                    .switch_s = 20,
                                    .checkpoint_s = 30,
                                    .has_steps = true,
                                    .seed = 1,
                                    .supply = &supply };
    struct spot_share_outcome o;
    struct spot_err err;

    (void)k;
    ck_assert(!spot_share_cluster_read(&cluster, in, "cluster", &err));
    fclose(in);
    draw_jobs(d, cut_s, &jobs, rate);
    draw_supply(d, cut_s, &supply);
    ck_assert_msg(!spot_share_play_run(&play, row, &o, &err), "%s", err.msg);
    qsort(o.step, o.n_step, sizeof(*o.step), by_start);
    for (size_t i = 0; i < o.n_step && o.step[i].start_s < cut_s; i++)
        say(said, "%s: %d workers of %d from %d on, %.17g to %.17g\n", jobs.job[o.step[i].job].id,
            (int)o.step[i].scale, o.step[i].type, (int)o.step[i].first_worker, o.step[i].start_s,
            o.step[i].end_s < cut_s ? o.step[i].end_s : INFINITY);
    spot_share_outcome_release(&o);
    spot_trace_release(&supply);
    spot_share_jobs_release(&jobs);
    spot_share_cluster_release(&cluster);
}

/* --- deadline: spot in three places --- */

static void play_deadline(const void *row, size_t k, struct draw *d, struct spot_buf *said)
{
    enum { N = 100, START = 30, PLACES = 3 };
    const size_t known = START + 6 + d->seed % 18;
    struct spot_deadline_tick tick[N];
    uint8_t up[N * PLACES];
    struct spot_deadline_play play = {
        .market = { .work_s = 2400,
                    .deadline_s = 100 * (double)(28 + 2 * (d->seed % 8)),
                    .tick_s = 100,
                    .restart_s = { 50, 150 },
                    .restart_prob = { 0.5, 0.5 },
                    .n_restart = 2,
                    .egress_usd = (double)(d->seed % 3) * 0.02,
                    .n_place = PLACES },
        .has_spot = up,
        .n = N,
        .start = START,
        .learn_ticks = 30,
        .seed = d->seed,
    };
    struct spot_deadline_result r;
    struct spot_err err;

    (void)k;
    memset(tick, 0, sizeof(tick));
    for (int p = 0; p < PLACES; p++)
        play.market.place[p] =
            (struct spot_market_place){ .spot_usd_per_h = 0.6 + 0.2 * p,
                                        .on_demand_usd_per_h = p == 1 ? INFINITY : 3 + p,
                                        .speed = 1,
                                        .region = p > 0 };
    for (size_t i = 0; i < N * PLACES; i++) {
        struct spot_rng *rng = rng_at(d, i / PLACES >= known);

        up[i] = i >= PLACES && spot_rng_below(rng, 4) ? up[i - PLACES] : spot_rng_below(rng, 2);
    }
    if (d->is_other && d->seed % 4 == 1)
        play.n = known + 1; /* it ends early */
    ck_assert_msg(!spot_deadline_play_run(&play, row, &r, tick, &err), "%s", err.msg);
    ck_assert(!r.is_late);
    for (size_t i = 0; i < known - START; i++)
        say(said, "%zu: %d at %d\n", i, (int)tick[i].step.mode, (int)tick[i].step.place);
}

/* --- all --- */

static bool knows_train(const void *row, size_t k)
{
    const char *const name = ((const struct spot_sim_policy *)row)->name;

    (void)k;
    return ((const struct spot_sim_policy *)row)->is_on_demand || !strcmp(name, "optimal") ||
           !strcmp(name, "parcae-truth") ||
           !strcmp(name, "bamboo-released"); /* by its release: the whole trace */
}

static bool knows_fleet(const void *row, size_t k)
{
    (void)k;
    return ((const struct spot_fleet_player *)row)->know != NULL;
}

static bool knows_serve(const void *row, size_t k)
{
    (void)row;
    return k >= SPOT_SERVE_CLAIRVOYANT;
}

static bool knows_deadline(const void *row, size_t k)
{
    const struct spot_deadline_policy *const p = row;

    (void)k;
    return p->knows_law || p->knows_series;
}

/* Who says that it knows is left out. Where plays are slow each case has one policy in turn, or all
 * in the long tier. */
static const struct kind {
    const char *name;
    void (*play)(const void *row, size_t k, struct draw *d, struct spot_buf *said);
    bool (*knows)(const void *row, size_t k);
    bool is_slow;
} kinds[] = {
    { "train", play_train, knows_train, true },
    { "fleet", play_fleet, knows_fleet, false },
    { "serve", play_serve, knows_serve, false },
    { "share", play_share, NULL, true },
    { "deadline", play_deadline, knows_deadline, true },
};

static struct spot_buf said_of(const struct kind *kind, const void *row, size_t k, uint64_t seed,
                               bool is_other)
{
    struct draw d = { .seed = seed, .is_other = is_other };
    struct spot_buf said = { 0 };

    spot_rng_init(&d.past, seed, 1);
    spot_rng_init(&d.future, seed, is_other ? 3 : 2);
    kind->play(row, k, &d, &said);
    ck_assert_uint_gt(said.n, 0);
    return said;
}

START_TEST(what_comes_later_changes_no_decision)
{
    const struct kind *const kind = &kinds[_i];
    const void *row;
    size_t n = 0, n_plays = 0;

    for (size_t k = 0; (row = spot_registry_at(kind->name, k)); k++)
        n_plays += !kind->knows || !kind->knows(row, k);
    for (uint64_t seed = 0; seed < CASES; seed++)
        for (size_t k = 0, turn = 0; (row = spot_registry_at(kind->name, k)); k++) {
            struct spot_buf a, b;

            if ((kind->knows && kind->knows(row, k)) ||
                (kind->is_slow && !is_long() && seed % n_plays != turn++))
                continue;
            a = said_of(kind, row, k, seed, false);
            b = said_of(kind, row, k, seed, true);
            ck_assert_msg(a.n == b.n && !memcmp(a.data, b.data, a.n),
                          "%s %s, case %d:\n%.*s\nwith another future:\n%.*s", kind->name,
                          ((const struct spot_registered *)row)->name, (int)seed, (int)a.n,
                          (const char *)a.data, (int)b.n, (const char *)b.data);
            spot_buf_release(&a);
            spot_buf_release(&b);
            n++;
        }
    ck_assert_uint_ge(n, CASES);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("no_future");

    tcase_add_loop_test(tc, what_comes_later_changes_no_decision, 0,
                        sizeof(kinds) / sizeof(*kinds));
    return run_suite("no_future", tc);
}

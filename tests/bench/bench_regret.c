/* SPDX-License-Identifier: MIT */
/* bench_regret - how far `spot` is from nowcast and persistence on generated traces
 * (tests/trace_family.h), in points of `ideal`; or the search for a trace on which a policy lacks
 * most of nowcast.
 *
 * usage: bench_regret                            a few traces of one job
 *        bench_regret JOB FROM TO                traces FROM..TO-1 of the protocol, CSV
 *                                                (SCALE=32: of up to 32 instances,
 *                                                LEAST=48: of at least 48, STEP=3: every third,
 *                                                NOTICE=30: of this notice alone)
 *        bench_regret JOB search POLICY STEPS [SEED]   the worst trace found, by random changes
 *        bench_regret large FROM TO              traces of large changes, each with one job and one
 *                                                notice in turn (STEP as above)
 *        bench_regret generated FROM TO          traces FROM..TO-1 of the protocol, each with one
 * job and one notice in turn (SCALE as above) bench_regret timetable FROM TO          the same of
 * traces whose levels take turns bench_regret trace K                    trace K of the large ones,
 * time_s,available */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../trace_family.h"
#include "common/xalloc.h"
#include "peers/registry.h"
#include "peers/train_peers.h"

enum { INTERVALS = 480, LARGE_INTERVALS = 240, PROTOCOL_SEED = 20261123 };
enum shadow { IDEAL, SPOT, NOWCAST, PERSISTENCE, OPTIMAL, SHADOWS };

static const char *const policy_of[SHADOWS] = { "ideal", "spot", "nowcast", "persistence",
                                                "optimal" };

struct bench {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    int cap; /* of the two above; 0: not made */
    int n;   /* intervals played */
    int count[INTERVALS];
    struct spot_sim_row row[SHADOWS][INTERVALS];
};

static void give_up(const struct spot_err *err)
{
    fprintf(stderr, "bench_regret: %s\n", err->msg);
    exit(1);
}

/* Larger clusters take a minute each: SCALE=32 leaves them out, LEAST=48 the others, and STEP=3
 * plays every third trace. */
static int setting(const char *name, int otherwise)
{
    const char *value = getenv(name);

    return value ? atoi(value) : otherwise;
}

static void release(struct bench *b)
{
    if (b->cap) {
        spot_cost_table_release(&b->table);
        spot_throughput_release(&b->throughput);
    }
    b->cap = 0;
}

/* As spot-replay train has it: grids whose speed is known, unfinished migrations carried on. */
static void prepare(struct bench *b)
{
    struct spot_err err = { 0 };
    int most = 0, cap, n = 0, *grid;

    for (int i = 0; i < b->n; i++)
        most = b->count[i] > most ? b->count[i] : most;
    cap = spot_sim_cap(&b->job, most);
    if (cap == b->cap)
        return;
    release(b);
    if (spot_throughput_init(&b->throughput, &b->job, cap, SPOT_THROUGHPUT_BOTH, &err))
        give_up(&err);
    grid = spot_xcalloc((size_t)b->throughput.n_grid, sizeof(*grid));
    for (int i = 0; i < b->throughput.n_grid; i++)
        if (b->throughput.samples_per_s[b->throughput.grid_order[i]] > 0)
            grid[n++] = b->throughput.grid_order[i];
    spot_cost_table_init_window(&b->table, &b->job, &b->throughput, 0, cap, cap, grid, n);
    b->table.carries_rest = true;
    b->cap = cap;
    free(grid);
}

static struct spot_sim_train sim_of(struct bench *b, double notice_loss_s)
{
    return (struct spot_sim_train){ .job = &b->job,
                                    .throughput = &b->throughput,
                                    .table = &b->table,
                                    .n_interval = (size_t)b->n,
                                    .available = b->count,
                                    .interval_s = 60,
                                    .look_ahead = 12,
                                    .notice_loss_s = notice_loss_s,
                                    .seed = 1 };
}

static double samples_of(const struct bench *b, enum shadow k)
{
    struct spot_sim_total total;

    spot_sim_total(b->row[k], (size_t)b->n, &total);
    return total.samples;
}

/* Samples of a policy. */
static double play(struct bench *b, enum shadow k, double notice_loss_s)
{
    const struct spot_sim_train sim = sim_of(b, notice_loss_s);
    struct spot_err err = { 0 };
    const struct spot_sim_policy *p = spot_registry_find("train", policy_of[k], &err);

    if (!p || spot_sim_train_run(&sim, p, b->row[k], &err))
        give_up(&err);
    return samples_of(b, k);
}

static void play_all(struct bench *b, double notice_loss_s, double samples[SHADOWS])
{
    samples[IDEAL] = play(b, IDEAL, notice_loss_s);
    samples[NOWCAST] = play(b, NOWCAST, notice_loss_s);
    samples[PERSISTENCE] = play(b, PERSISTENCE, notice_loss_s);
    samples[SPOT] = play(b, SPOT, notice_loss_s);
    samples[OPTIMAL] = play(b, OPTIMAL, notice_loss_s);
}

static void print_row(const char *job, int k, int scale, double notice_s,
                      const double samples[SHADOWS])
{
    printf("%s,%d,%d,%g", job, k, scale, notice_s);
    for (int p = 0; p < SHADOWS; p++)
        printf(",%.1f", samples[p]);
    putchar('\n');
    fflush(stdout);
}

static const char header[] = "job,trace,scale,notice_loss_s,ideal,spot,nowcast,persistence,optimal";

static void protocol(struct bench *b, const char *job, int from, int to)
{
    static const double notice_s[] = { 0, 30, 120 }; /* at 60 s intervals 60 s tell what 30 s do */

    puts(header);
    for (int k = from; k < to; k += setting("STEP", 1)) {
        const struct family_spec spec = family_nth(PROTOCOL_SEED, k, INTERVALS);

        if (spec.most > setting("SCALE", 64) || spec.most < setting("LEAST", 0))
            continue;
        family_draw(&spec, b->count);
        prepare(b);
        for (size_t i = 0; i < sizeof(notice_s) / sizeof(*notice_s); i++) {
            double samples[SHADOWS];

            if (setting("NOTICE", (int)notice_s[i]) != (int)notice_s[i])
                continue;
            play_all(b, notice_s[i], samples);
            print_row(job, k, spec.most, notice_s[i], samples);
        }
    }
}

/* Points of `ideal` that the policy lacks of nowcast; -INFINITY where nothing can run. */
static double lack(struct bench *b, const struct family_spec *spec, enum shadow policy,
                   double notice_loss_s)
{
    double samples[SHADOWS];

    family_draw(spec, b->count);
    prepare(b);
    samples[IDEAL] = play(b, IDEAL, notice_loss_s);
    if (samples[IDEAL] <= 0)
        return -INFINITY;
    samples[NOWCAST] = play(b, NOWCAST, notice_loss_s);
    samples[policy] = play(b, policy, notice_loss_s);
    return 100 * (samples[NOWCAST] - samples[policy]) / samples[IDEAL];
}

static double vary(struct spot_rng *rng, double x, double low, double high)
{
    const double y = x * exp(0.4 * spot_rng_normal(rng));

    return y < low ? low : y > high ? high : y;
}

static struct family_spec changed(struct spot_rng *rng, const struct family_spec *s)
{
    struct family_spec t = *s;

    t.level = vary(rng, s->level, 0.2, 1);
    t.low = vary(rng, s->low + 0.01, 0, t.level);
    t.busy = vary(rng, s->busy, 0.02, 0.9);
    t.calm = vary(rng, s->calm, 0.001, 0.5);
    t.dwell = vary(rng, s->dwell, 2, 200);
    t.size = vary(rng, s->size, 1, t.most / 3.0);
    if (spot_rng_unit(rng) < 0.5)
        t.seed = spot_rng_next(rng);
    return t;
}

/* A quarter of the steps look anywhere, the others around the worst so far. */
static void search(struct bench *b, enum shadow policy, int steps, uint64_t seed)
{
    struct family_spec worst = { 0 };
    double most = -INFINITY;
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    for (int k = 0; k < steps; k++) {
        static const int most_of[] = { 8, 12, 16, 24, 32 };
        struct family_spec s = k < steps / 4 + 1 || !worst.most ? family_nth(seed, k, INTERVALS)
                                                                : changed(&rng, &worst);
        double x;

        if (s.most > 32)
            s.most = most_of[spot_rng_below(&rng, 5)];
        x = lack(b, &s, policy, 30);
        if (x <= most)
            continue;
        most = x;
        worst = s;
        printf("step %d: %s lacks %+.3f points: family %d seed %llu most %d level %.17g low %.17g "
               "busy "
               "%.17g calm %.17g dwell %.17g size %.17g\n",
               k + 1, policy_of[policy], x, (int)s.family, (unsigned long long)s.seed, s.most,
               s.level, s.low, s.busy, s.calm, s.dwell, s.size);
        fflush(stdout);
    }
    printf("%d steps, %s lacks %+.3f points at most\n", steps, policy_of[policy], most);
}

static void load(struct bench *b, const char *job)
{
    struct spot_err err = { 0 };
    char path[128];

    snprintf(path, sizeof(path), "examples/jobs/%s.json", job);
    if (spot_job_doc_load(&b->job, path, &err))
        give_up(&err);
}

static void unload(struct bench *b)
{
    release(b);
    spot_job_doc_release(&b->job);
}

/* Jobs, notices and scales in turn, so that 80 traces have every job at every place of the scales
 * and every family. */
static void large(struct bench *b, int from, int to)
{
    static const char *const job_of[] = { "gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19" };
    static const double notice_s[] = { 0, 30, 60, 120 };

    b->n = LARGE_INTERVALS;
    puts(header);
    for (int k = from; k < to; k += setting("STEP", 1)) {
        const struct family_spec spec = family_large(PROTOCOL_SEED, k, b->n);
        double samples[SHADOWS];

        load(b, job_of[k % 5]);
        family_draw(&spec, b->count);
        prepare(b);
        play_all(b, notice_s[k / 5 % 4], samples);
        print_row(job_of[k % 5], k, spec.most, notice_s[k / 5 % 4], samples);
        unload(b);
    }
}

/* Of the protocol, of up to SCALE; or with a timetable. */
static void generated(struct bench *b, bool has_timetable, int from, int to)
{
    static const char *const job_of[] = { "gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19" };
    static const double notice_s[] = { 0, 30, 120 };

    b->n = INTERVALS;
    puts(header);
    for (int k = from; k < to; k += setting("STEP", 1)) {
        const struct family_spec spec = family_nth(PROTOCOL_SEED, k, b->n);
        const double notice = notice_s[has_timetable ? k / 5 % 3 : k / 40 % 3];
        double samples[SHADOWS];

        if (!has_timetable && spec.most > setting("SCALE", 32))
            continue;
        load(b, job_of[k % 5]);
        if (has_timetable)
            family_timetable(PROTOCOL_SEED, k, b->n, b->count);
        else
            family_draw(&spec, b->count);
        prepare(b);
        play_all(b, notice, samples);
        print_row(job_of[k % 5], k, has_timetable ? 32 : spec.most, notice, samples);
        unload(b);
    }
}

static void print_trace(struct bench *b, int k)
{
    const struct family_spec spec = family_large(PROTOCOL_SEED, k, LARGE_INTERVALS);

    family_draw(&spec, b->count);
    puts("time_s,available");
    for (int i = 0; i < LARGE_INTERVALS; i++)
        printf("%d,%d\n", 60 * i, b->count[i]);
}

/* The traces of one job, or the search. */
static void one_job(struct bench *b, int argc, char **argv)
{
    const char *job = argc > 1 ? argv[1] : "gpt-6.7b";

    b->n = INTERVALS;
    load(b, job);
    if (argc > 4)
        search(b, !strcmp(argv[3], "persistence") ? PERSISTENCE : SPOT, atoi(argv[4]),
               argc > 5 ? (uint64_t)atoll(argv[5]) : 1);
    else
        protocol(b, job, argc == 1 ? 2 : atoi(argv[2]), argc == 1 ? 6 : atoi(argv[3]));
    unload(b);
}

int main(int argc, char **argv)
{
    struct bench *b = spot_xcalloc(1, sizeof(*b));

    if (argc == 3 && !strcmp(argv[1], "trace"))
        print_trace(b, atoi(argv[2]));
    else if (argc == 4 && !strcmp(argv[1], "large"))
        large(b, atoi(argv[2]), atoi(argv[3]));
    else if (argc == 4 && (!strcmp(argv[1], "generated") || !strcmp(argv[1], "timetable")))
        generated(b, *argv[1] == 't', atoi(argv[2]), atoi(argv[3]));
    else if (argc == 1 || argc == 4 || (argc > 4 && !strcmp(argv[2], "search")))
        one_job(b, argc, argv);
    else
        fputs("usage: bench_regret [JOB FROM TO | JOB search POLICY STEPS [SEED] | generated FROM "
              "TO | "
              "timetable FROM TO | large FROM TO | trace K]\n",
              stderr);
    free(b);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Goal: rounds as released give the times of the released simulator, to the last digit where no
 * program is solved, and ours ends before the best that was published. Oracles: sim_summary.csv of
 * the authors' traces, where the shared reference data are, and Python's generator. */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/csv_reader.h"
#include "peers/gavel.h"
#include "peers/python_random.h"
#include "share_rig.h"

#define GOLDEN "../shared/data/golden/gavel/"

START_TEST(random_is_that_of_python)
{
    static const size_t want[4][3] = { { 0, 1, 2 }, { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 } };
    struct spot_python_random r;

    spot_python_random_init(&r, 5);
    ck_assert_uint_eq(spot_python_random_next(&r), 2675342405u);
    spot_python_random_init(&r, 5);
    for (size_t i = 0; i < 4; i++) {
        size_t item[3] = { 0, 1, 2 };

        spot_python_random_shuffle(&r, item, 3);
        ck_assert_mem_eq(item, want[i], sizeof(item));
    }
}
END_TEST

/* --- the authors' traces --- */

static struct {
    char kind[64], type[32];
    int64_t scale;
    double per_s;
} row[600];
static size_t n_row;

static int on_rate(const struct spot_csv_row *r, void *user, struct spot_err *err)
{
    (void)user;
    snprintf(row[n_row].kind, sizeof(row->kind), "%s", r->field[0]);
    snprintf(row[n_row].type, sizeof(row->type), "%s", r->field[2]);
    return spot_csv_int(r, 1, 1, 64, &row[n_row].scale, err) ||
                   spot_csv_real(r, 3, 0, 1e9, &row[n_row++].per_s, err)
               ? -1
               : 0;
}

static void read_rates(const char *file)
{
    static const char *const want[] = { "job_type", "scale_factor", "worker_type", "steps_per_s" };
    struct spot_err err;
    FILE *in = fopen(file, "r");

    n_row = 0;
    ck_assert_msg(!spot_csv_read(in, file, want, 4, on_rate, NULL, NULL, &err), "%s", err.msg);
    fclose(in);
}

static double rate_of(const char *kind, int64_t scale, const char *type)
{
    for (size_t i = 0; i < n_row; i++)
        if (row[i].scale == scale && !strcmp(row[i].kind, kind) && !strcmp(row[i].type, type))
            return row[i].per_s;
    return 0;
}

static bool read_world(struct world *w, const char *trace)
{
    static const char cluster[] = "instance_type,count\nv100,8\np100,16\nk80,24\n";
    char path[256], line[1024], id[16];
    struct spot_err err;
    FILE *in;

    snprintf(path, sizeof(path), GOLDEN "%s", trace);
    *w = (struct world){ 0 };
    in = fopen(path, "r");
    if (!in)
        return false;
    while (fgets(line, sizeof(line), in)) {
        char *field[10], *rest = line;
        struct spot_share_job *job;

        for (size_t k = 0; k < 10; k++) {
            field[k] = rest;
            rest += strcspn(rest, "\t\n");
            *rest++ = '\0';
        }
        snprintf(id, sizeof(id), "%06zu", w->jobs.n);
        job = spot_share_jobs_add(&w->jobs, id, field[0], "");
        job->steps = atof(field[5]);
        job->scale = job->scale_min = job->scale_max = atoi(field[6]);
        job->arrival_s = atof(field[9]);
    }
    fclose(in);
    in = fmemopen((void *)(uintptr_t)cluster, strlen(cluster), "r");
    ck_assert(!spot_share_cluster_read(&w->cluster, in, "cluster", &err));
    fclose(in);
    read_rates(GOLDEN "physical_cluster_isolated.csv");
    w->rate = calloc(w->jobs.n * 3, sizeof(double));
    for (size_t i = 0; i < w->jobs.n; i++)
        for (size_t j = 0; j < 3; j++)
            w->rate[i * 3 + j] =
                rate_of(w->jobs.job[i].kind, w->jobs.job[i].scale, w->cluster.type[j].name);
    return true;
}

static struct spot_share_play as_released(const struct world *w)
{
    return (struct spot_share_play){ .jobs = &w->jobs,
                                     .cluster = &w->cluster,
                                     .rate = w->rate,
                                     .round_s = 360,
                                     .reset_s = 1920,
                                     .is_released = true };
}

/* The same with moves that take 20 s, and work that is lost by them. */
static struct spot_share_play corrected(const struct world *w)
{
    struct spot_share_play play = as_released(w);

    play.is_released = false;
    play.switch_s = 20;
    play.checkpoint_s = 360;
    play.seed = 1;
    return play;
}

/* --- as released --- */

struct summary {
    const char *trace;
    struct world world;
    struct spot_share_outcome o[SPOT_GAVEL_POLICIES];
    size_t n;
};

static int on_summary(const struct spot_csv_row *r, void *user, struct spot_err *err)
{
    struct summary *s = user;
    const bool is_exact = !strcmp(r->field[1], "fifo_perf") || !strcmp(r->field[1], "isolated");
    const enum spot_gavel_policy policy = !strcmp(r->field[1], "fifo_perf") ? SPOT_GAVEL_FIFO_PERF
                                          : !strcmp(r->field[1], "isolated")
                                              ? SPOT_GAVEL_ISOLATED
                                              : SPOT_GAVEL_MAX_MIN_PERF;
    const struct spot_share_outcome *o = &s->o[policy];
    double jct_s, makespan_s, utilisation, kept, could_keep;

    if (strcmp(r->field[0], s->trace) != 0 ||
        (!is_exact && strcmp(r->field[1], "max_min_fairness_perf") != 0))
        return 0;
    ck_assert(!spot_csv_real(r, 2, 0, 1e9, &jct_s, err) &&
              !spot_csv_real(r, 3, 0, 1e9, &makespan_s, err) &&
              !spot_csv_real(r, 4, 0, 1, &utilisation, err) &&
              !spot_csv_real(r, 5, 0, 1e9, &kept, err) &&
              !spot_csv_real(r, 6, 0, 1e9, &could_keep, err));
    s->n++;
    if (!is_exact) {
        ck_assert_double_le(fabs(o->jct_mean_s - jct_s), 0.05 * jct_s);
        ck_assert_double_le(fabs(o->makespan_s - makespan_s), 0.05 * makespan_s);
        return 0;
    }
    ck_assert_double_eq_tol(o->jct_mean_s, jct_s, 1e-6);
    ck_assert_double_eq_tol(o->makespan_s, makespan_s, 1e-6);
    ck_assert_double_eq_tol(o->utilisation, utilisation, 1e-9);
    ck_assert_double_eq(o->kept, kept);
    ck_assert_double_eq(o->could_keep, could_keep);
    return 0;
}

START_TEST(released_rounds_end_when_the_authors_did)
{
    static const char *const want[] = { "trace",       "policy",    "avg_jct_s", "makespan_s",
                                        "utilization", "lease_ext", "lease_opp" };
    static const enum spot_gavel_policy policy[] = { SPOT_GAVEL_FIFO_PERF, SPOT_GAVEL_ISOLATED,
                                                     SPOT_GAVEL_MAX_MIN_PERF };
    struct summary s = { .trace = "max_min_fairness.trace" };
    struct spot_share_play play;
    struct spot_err err;
    FILE *in;

    if (!read_world(&s.world, s.trace))
        return;
    play = as_released(&s.world);
    for (size_t i = 0; i < 3; i++)
        ck_assert_msg(
            !spot_share_play_run(&play, &spot_gavel_players[policy[i]], &s.o[policy[i]], &err),
            "%s", err.msg);
    in = fopen(GOLDEN "sim_summary.csv", "r");
    ck_assert_msg(!spot_csv_read(in, "sim_summary.csv", want, 7, on_summary, &s, NULL, &err), "%s",
                  err.msg);
    fclose(in);
    ck_assert_uint_eq(s.n, 4);
    for (size_t i = 0; i < 3; i++)
        spot_share_outcome_release(&s.o[policy[i]]);
    release(&s.world);
}
END_TEST

/* The least of what the others need, by mean completion (0) or by the end (1). */
static double best_of_theirs(const struct spot_share_play *play, bool by_end)
{
    static const enum spot_gavel_policy policy[] = { SPOT_GAVEL_MAX_MIN_PERF, SPOT_GAVEL_MAKESPAN,
                                                     SPOT_GAVEL_SUM_THROUGHPUT,
                                                     SPOT_GAVEL_FIFO_PERF, SPOT_GAVEL_ISOLATED };
    double least = INFINITY;

    for (size_t i = 0; i < sizeof(policy) / sizeof(*policy); i++) {
        struct spot_share_outcome o = play_one(play, &spot_gavel_players[policy[i]]);

        least = fmin(least, by_end ? o.makespan_s : o.jct_mean_s);
        spot_share_outcome_release(&o);
    }
    return least;
}

START_TEST(ours_ends_before_the_best_published)
{
    struct world w;
    struct spot_share_play play;
    struct spot_share_outcome o;

    if (!read_world(&w, "max_min_fairness.trace"))
        return;
    play = as_released(&w);
    o = play_one(&play, spot_share_players);
    ck_assert_double_lt(o.jct_mean_s, 3.3 * 3600); /* 3.87 h published */
    spot_share_outcome_release(&o);
    play = corrected(&w);
    o = play_one(&play, spot_share_players);
    ck_assert_double_lt(o.jct_mean_s, 0.9 * best_of_theirs(&play, false));
    spot_share_outcome_release(&o);
    release(&w);
    ck_assert(read_world(&w, "minimize_makespan.trace"));
    play = as_released(&w);
    o = play_one(&play, &spot_share_players[SPOT_SHARE_AIM_MAKESPAN]);
    ck_assert_double_lt(o.makespan_s, 17.44 * 3600);          /* published */
    ck_assert_double_lt(o.makespan_s, 1.02 * 17.0933 * 3600); /* no shares end before 17.0933 h */
    spot_share_outcome_release(&o);
    play = corrected(&w);
    o = play_one(&play, &spot_share_players[SPOT_SHARE_AIM_MAKESPAN]);
    ck_assert_double_lt(o.makespan_s, 0.9 * best_of_theirs(&play, true));
    spot_share_outcome_release(&o);
    release(&w);
}
END_TEST

int main(void)
{
    return run_suite("share_released", add_tests(tcase_create("share_released")));
}

/* SPDX-License-Identifier: MIT */
/* Goal: rounds lose what they say, and policies are near the best of all schedules. Oracles: cases
 * worked by hand, every schedule. */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/num.h"
#include "common/rng.h"
#include "peers/registry.h"
#include "plan/decision.h"
#include "plan/share_round.h"
#include "share_rig.h"

/* --- by hand --- */

static struct world small(size_t n, const char *cluster)
{
    struct world w = { 0 };
    struct spot_err err;
    char id[32];
    FILE *in = fmemopen((void *)(uintptr_t)cluster, strlen(cluster), "r");

    ck_assert_msg(!spot_share_cluster_read(&w.cluster, in, "cluster", &err), "%s", err.msg);
    fclose(in);
    for (size_t i = 0; i < n; i++) {
        snprintf(id, sizeof(id), "j%zu", i);
        spot_share_jobs_add(&w.jobs, id, "k", "");
    }
    w.rate = calloc(n * w.cluster.n, sizeof(double));
    return w;
}

static struct spot_share_play corrected(const struct world *w, double switch_s, double checkpoint_s)
{
    return (struct spot_share_play){ .jobs = &w->jobs,
                                     .cluster = &w->cluster,
                                     .rate = w->rate,
                                     .round_s = 100,
                                     .switch_s = switch_s,
                                     .checkpoint_s = checkpoint_s,
                                     .has_steps = true,
                                     .seed = 1 };
}

START_TEST(a_job_alone_takes_its_work_and_one_beginning)
{
    struct world w = small(1, "instance_type,count,usd_per_h\na,2,3.6\n");
    struct spot_share_play play = corrected(&w, 20, 0);
    struct spot_share_outcome o;

    w.jobs.job[0].steps = 500;
    w.jobs.job[0].arrival_s = 40;
    w.rate[0] = 2;
    for (size_t p = 0; spot_registry_at("share", p); p++) {
        o = play_one(&play, spot_registry_at("share", p));
        ck_assert_double_eq_tol(o.jct_s[0], 20 + 250, 1e-9);
        ck_assert_double_eq_tol(o.makespan_s, 310, 1e-9);
        ck_assert_double_eq_tol(o.usd, 270 * 0.001, 1e-9);
        ck_assert_uint_eq(o.n_step, 3);
        ck_assert_double_eq_tol(o.step[2].end_s, 310, 1e-9);
        ck_assert_double_eq_tol(o.lost_s, 20, 1e-9);
        spot_share_outcome_release(&o);
    }
    release(&w);
}
END_TEST

/* One worker is there until 150 s and again from 400 s on. */
START_TEST(what_a_trace_takes_goes_back_to_its_checkpoint)
{
    static const char text[] =
        "time_s,instance_type,available\n0,a,1\n150,a,0\n400,a,1\n9000,a,1\n";
    struct world w = small(1, "instance_type,count\na,1\n");
    struct spot_share_play play = corrected(&w, 20, 30);
    struct spot_trace supply;
    struct spot_share_outcome o;
    struct spot_err err;
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

    ck_assert_msg(!spot_trace_load(&supply, in, "t", &err), "%s", err.msg);
    fclose(in);
    play.supply = &supply;
    w.jobs.job[0].steps = 1000;
    w.rate[0] = 1;
    o = play_one(&play, spot_share_players);
    /* 130 steps by 150 s, at most 30 of them lost; again from 400 s */
    ck_assert_double_ge(o.jct_s[0], 400 + 20 + 1000 - 130);
    ck_assert_double_le(o.jct_s[0], 400 + 20 + 1000 - 100);
    ck_assert_uint_eq(o.preemptions, 1);
    ck_assert_uint_eq(o.switches, 1);
    ck_assert_double_eq_tol(o.lost_s, 40 + o.jct_s[0] - (400 + 20 + 1000 - 130), 1e-9);
    ck_assert_double_eq_tol(o.step[1].end_s, 150, 1e-9);
    spot_share_outcome_release(&o);
    spot_trace_release(&supply);
    release(&w);
}
END_TEST

/* --- every schedule of three rounds --- */

enum { N_JOB = 4, N_TYPE = 2, N_ROUND = 3 };

struct every {
    double rate[N_JOB * N_TYPE], left[N_JOB], end_s[N_JOB];
    int64_t count[N_TYPE];
    double best;
};

static void try_all(struct every *e, size_t round, size_t job, const int64_t *there);

static void next_round(struct every *e, size_t round)
{
    double sum = 0;

    for (size_t i = 0; i < N_JOB; i++)
        sum += e->left[i] <= 1e-9 ? e->end_s[i] : INFINITY;
    e->best = fmin(e->best, sum);
    if (round < N_ROUND && isinf(sum))
        try_all(e, round, 0, e->count);
}

static void try_all(struct every *e, size_t round, size_t job, const int64_t *there)
{
    if (job == N_JOB) {
        next_round(e, round + 1);
        return;
    }
    try_all(e, round, job + 1, there);
    for (size_t j = 0; j < N_TYPE && e->left[job] > 1e-9; j++) {
        const double left = e->left[job], end_s = e->end_s[job], rate = e->rate[job * N_TYPE + j];
        int64_t rest[N_TYPE];

        memcpy(rest, there, sizeof(rest));
        if (--rest[j] < 0)
            continue;
        e->left[job] = fmax(0, left - 100 * rate);
        e->end_s[job] = 100 * (double)round + fmin(100, left / rate);
        try_all(e, round, job + 1, rest);
        e->left[job] = left;
        e->end_s[job] = end_s;
    }
}

/* Nobody can be 8 % ahead of AlloX here, either: no schedule is. */
START_TEST(ours_is_near_the_best_of_all_schedules_and_never_beats_it)
{
    static const char *const name[] = { "spot", "allox", "srsf" };
    double sum[3] = { 0 }, best = 0;
    struct spot_rng rng;
    size_t n = 0;

    spot_rng_init(&rng, 21, 0);
    for (int turn = 0; turn < 60; turn++) {
        struct world w = small(N_JOB, "instance_type,count\na,1\nb,2\n");
        struct spot_share_play play = corrected(&w, 0, 0);
        struct every e = { .count = { 1, 2 }, .best = INFINITY };

        for (size_t i = 0; i < N_JOB; i++) {
            w.jobs.job[i].steps = e.left[i] = 50 + (double)spot_rng_below(&rng, 300);
            for (size_t j = 0; j < N_TYPE; j++)
                w.rate[i * N_TYPE + j] = e.rate[i * N_TYPE + j] =
                    1 + (double)spot_rng_below(&rng, 4);
        }
        next_round(&e, 0);
        for (size_t k = 0; k < 3 && isfinite(e.best); k++) {
            struct spot_err err;
            struct spot_share_outcome o =
                play_one(&play, spot_registry_find("share", name[k], &err));

            ck_assert_double_ge(o.jct_mean_s * N_JOB, e.best * (1 - 1e-9));
            sum[k] += o.jct_mean_s * N_JOB;
            spot_share_outcome_release(&o);
        }
        best += isfinite(e.best) ? e.best : 0;
        n += isfinite(e.best);
        release(&w);
    }
    ck_assert_uint_gt(n, 20);
    ck_assert_msg(sum[0] <= 1.05 * best && best > 0.92 * sum[1], "%g, %g, %g, not %g", sum[0],
                  sum[1], sum[2], best);
}
END_TEST

/* The least sum of completion times of jobs of one worker that are all there: each choice of types,
 * and on a type the shortest first. */
static double least_sum(const double *time_s, size_t n_type, const int64_t *count)
{
    double least = INFINITY;

    for (size_t code = 0; code < (size_t)pow((double)n_type, N_JOB); code++) {
        double sum = 0, mine[N_JOB];

        for (size_t j = 0; j < n_type; j++) {
            size_t n = 0;

            for (size_t i = 0, rest = code; i < N_JOB; i++, rest /= n_type)
                if (rest % n_type == j)
                    mine[n++] = time_s[i * n_type + j];
            if (n)
                qsort(mine, n, sizeof(*mine), spot_num_compare);
            for (size_t i = 0; i < n; i++) /* it delays those behind it in its queue */
                sum += mine[i] * (double)(1 + (n - 1 - i) / (size_t)count[j]);
        }
        least = fmin(least, sum);
    }
    return least;
}

START_TEST(allox_has_the_least_sum_of_ends_and_srtf_on_one_type)
{
    static const char *const name[] = { "allox", "srtf", "srsf" };
    enum { TURNS = 60 };
    struct spot_rng rng;
    struct spot_err err;
    double ratio = 0;

    spot_rng_init(&rng, 4, 4);
    for (int turn = 0; turn < TURNS; turn++) {
        const size_t n_type = turn % 3 ? 1 : 2;
        const int64_t count[2] = { 1 + turn % 2, 2 };
        char cluster[64];
        double time_s[2 * N_JOB];
        struct spot_share_play play;
        struct spot_share_outcome o;
        struct world w;

        snprintf(cluster, sizeof(cluster), "instance_type,count\na,%d\n%s", (int)count[0],
                 n_type > 1 ? "b,2\n" : "");
        w = small(N_JOB, cluster);
        play = corrected(&w, 0, 0);
        play.round_s = 1;
        for (size_t i = 0; i < N_JOB; i++) {
            w.jobs.job[i].steps = 60;
            for (size_t j = 0; j < n_type; j++) {
                const double rate = 60 / (1 + (double)spot_rng_below(&rng, 30));

                w.rate[i * n_type + j] = rate;
                time_s[i * n_type + j] = 60 / rate;
            }
        }
        o = play_one(&play, spot_registry_find("share", name[turn % 3], &err));
        if (n_type == 1)
            ck_assert_double_eq_tol(o.jct_mean_s * N_JOB, least_sum(time_s, n_type, count), 1e-6);
        else /* which a job that changes its type half way may be below */
            ratio += o.jct_mean_s * N_JOB / least_sum(time_s, n_type, count) / (TURNS / 3);
        spot_share_outcome_release(&o);
        release(&w);
    }
    ck_assert_msg(ratio > 0.97 && ratio < 1.01, "%g", ratio);
}
END_TEST

/* --- Pollux: every division of the workers --- */

enum { P_JOB = 3, P_WORKER = 7, P_ROUND = 100 };

struct divided {
    double speed[P_JOB][P_WORKER + 1];
    int on[P_JOB], most[P_JOB], begun[P_JOB];
    double age_s;
};

static double harmonic_of(const struct divided *d, const int *n)
{
    const int fair = (P_WORKER + P_JOB - 1) / P_JOB;
    double sum = 0;

    for (int i = 0; i < P_JOB; i++) {
        const double x = d->begun[i] ? d->speed[i][n[i]] / d->speed[i][fair] : n[i] / (double)fair;
        const double anew = fmax(0, d->age_s - 30 * (d->begun[i] - 1)) / (d->age_s + 30);

        sum += 1 / (x * (!d->begun[i] || n[i] == d->on[i] ? 1 : anew) * 4 / P_WORKER + 1e-3);
    }
    return P_JOB / sum;
}

static double best_division(const struct divided *d)
{
    double best = 0;

    for (int code = 0; code < (P_WORKER + 1) * (P_WORKER + 1) * (P_WORKER + 1); code++) {
        const int n[P_JOB] = { code % (P_WORKER + 1), code / (P_WORKER + 1) % (P_WORKER + 1),
                               code / (P_WORKER + 1) / (P_WORKER + 1) };
        bool may = n[0] + n[1] + n[2] <= P_WORKER;

        for (int i = 0; i < P_JOB; i++)
            may &= n[i] <= (d->most[i] ? 2 * d->most[i] : 1);
        best = may ? fmax(best, harmonic_of(d, n)) : best;
    }
    return best;
}

/* What ran in a round. */
static void take_round(const struct spot_share_outcome *o, int round, int *n)
{
    for (size_t k = 0; k < o->n_step; k++)
        if (o->step[k].type >= 0 && fabs(o->step[k].start_s - P_ROUND * round) < 1e-9)
            n[o->step[k].job] += (int)o->step[k].scale;
}

/* d is as it was left. */
static void go_on(struct divided *d, const int *n)
{
    for (int i = 0; i < P_JOB; i++) {
        d->begun[i] += n[i] && n[i] != d->on[i];
        d->on[i] = n[i];
        d->most[i] = n[i] > d->most[i] ? n[i] : d->most[i];
    }
    d->age_s += P_ROUND;
}

START_TEST(pollux_has_the_largest_harmonic_mean_of_speedups)
{
    struct spot_rng rng;
    struct spot_err err;

    spot_rng_init(&rng, 9, 0);
    for (int turn = 0; turn < 30; turn++) {
        struct world w = small(P_JOB, "instance_type,count\na,7\n");
        struct spot_share_play play = corrected(&w, 0, 0);
        struct spot_job_rates speeds = { 0 };
        struct divided d = { 0 };
        struct spot_share_outcome o;
        char text[4096] = "{\"schema\":\"spot.throughput/1\",\"rows\":[";
        size_t at = strlen(text);

        for (int i = 0; i < P_JOB; i++) {
            struct spot_share_job *job = &w.jobs.job[i];
            const double power = 0.2 + 0.1 * (double)spot_rng_below(&rng, 9);

            snprintf(job->kind, 2, "%c", 'p' + i);
            job->steps = 3000;
            job->scale = 1;
            job->scale_max = P_WORKER;
            for (int n = 1; n <= P_WORKER; n++) {
                d.speed[i][n] = pow(n, power);
                at += (size_t)snprintf(text + at, sizeof(text) - at,
                                       "%s{\"kind\":\"%c\",\"scale\":%d,\"instance_type\":\"a\","
                                       "\"steps_per_s\":%.17g}",
                                       i || n > 1 ? "," : "", 'p' + i, n, d.speed[i][n]);
            }
            w.rate[i] = 1;
        }
        at += (size_t)snprintf(text + at, sizeof(text) - at, "]}");
        ck_assert_msg(!spot_job_rates_parse(&speeds, text, at, "t", &err), "%s", err.msg);
        play.speeds = &speeds;
        o = play_one(&play, spot_registry_find("share", "pollux", &err));
        for (int round = 0; round < 6; round++) {
            int n[P_JOB] = { 0 };

            take_round(&o, round, n);
            ck_assert_double_eq_tol(harmonic_of(&d, n), best_division(&d), 1e-9);
            go_on(&d, n);
        }
        spot_share_outcome_release(&o);
        spot_job_rates_release(&speeds);
        release(&w);
    }
}
END_TEST

START_TEST(a_decision_that_is_made_again_is_the_same)
{
    const struct spot_policy *p = spot_policy_share;
    struct world w = small(1, "instance_type,count,usd_per_h\na,2,3.6\n");
    const struct spot_share_job_now job = { true, 60, 0, -1, -1, 1 };
    const int64_t count[1] = { 2 };
    const struct spot_share_seen share = { &job, count, NULL };
    const struct spot_share_rule rule = {
        .jobs = &w.jobs, .cluster = &w.cluster, .rate = w.rate, .terms = { .round_s = 100 }
    };
    struct spot_action action;
    struct spot_decider *d;
    struct spot_err err;

    w.jobs.job[0].steps = 60;
    w.rate[0] = 1;
    d = p->open(&(struct spot_rule){ .share = &rule });
    ck_assert(!p->observe(d, &(struct spot_seen){ .share = &share }, &err));
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(!p->decide(d, &action, NULL, &err), "%s", err.msg);
        ck_assert_int_eq((int)action.share->choice.way[0], 0);
    }
    p->close(d);
    release(&w);
}
END_TEST

int main(void)
{
    return run_suite("share_sim", add_tests(tcase_create("share_sim")));
}

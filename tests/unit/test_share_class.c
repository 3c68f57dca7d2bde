/* SPDX-License-Identifier: MIT */
/* Goal: jobs of high priority take workers from spot jobs at the least cost, spot jobs keep what is
 * left, and the forecast of demand has the coverage it claims. Oracles: a timeline worked by hand,
 * every subset of victims, conservation of worker time, a count of exceeded quantiles. */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/rng.h"
#include "forecast/class_demand.h"
#include "peers/registry.h"
#include "plan/share_round.h"
#include "share_rig.h"

static const char *const name[] = { "spot",         "spot:max-min", "spot:cost",   "gfs",
                                    "static-quota", "evict-least",  "evict-newest" };
enum { N_NAME = sizeof(name) / sizeof(name[0]) };

static struct world cluster_of(const char *text)
{
    struct world w = { 0 };
    struct spot_err err;
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

    ck_assert_msg(!spot_share_cluster_read(&w.cluster, in, "cluster", &err), "%s", err.msg);
    fclose(in);
    w.jobs.has_classes = true;
    return w;
}

static void add(struct world *w, enum spot_share_priority priority, double arrival_s, double run_s,
                int64_t scale)
{
    struct spot_share_job *job;
    char id[32];

    snprintf(id, sizeof(id), "j%05zu", w->jobs.n);
    job = spot_share_jobs_add(&w->jobs, id, SPOT_SHARE_KIND_SECOND, "");
    job->priority = priority;
    job->arrival_s = arrival_s;
    job->steps = run_s;
    job->scale = job->scale_min = job->scale_max = scale;
}

static void finish(struct world *w)
{
    static const struct spot_job_rates none = { 0 };
    struct spot_err err;

    spot_share_jobs_sort(&w->jobs);
    w->rate = calloc(w->jobs.n * w->cluster.n, sizeof(double));
    ck_assert_msg(!spot_share_rates(&w->jobs, &w->cluster, &none, w->rate, &err), "%s", err.msg);
}

static struct spot_share_play play_of(const struct world *w, double switch_s, double checkpoint_s)
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

static struct spot_share_outcome play_named(const struct spot_share_play *play, const char *policy)
{
    struct spot_err err;

    return play_one(play, spot_registry_find("share", policy, &err));
}

/* --- by hand --- */

/* Two spot jobs on two of four workers each; at 150 s, within a round, a job of high priority wants
 * two for 100 s. The job with less to lose stops, and goes on at 250 s. */
START_TEST(high_priority_begins_at_once_and_the_spot_job_goes_on_after_it)
{
    for (size_t p = 0; p < N_NAME; p++) {
        struct world w = cluster_of("instance_type,count\na,4\n");
        const bool is_static = !strcmp(name[p], "static-quota");
        struct spot_share_play play;
        struct spot_share_outcome o;

        add(&w, SPOT_SHARE_SPOT, 0, 1000, 2);
        add(&w, SPOT_SHARE_SPOT, 0, 1000, 2);
        add(&w, SPOT_SHARE_HIGH, 150, 100, 2);
        finish(&w);
        play = play_of(&w, 0, 0);
        o = play_named(&play, name[p]);
        ck_assert_double_eq_tol(o.of[SPOT_SHARE_HIGH].jct_mean_s, 100, 1e-9);
        ck_assert_double_eq_tol(o.of[SPOT_SHARE_HIGH].queue_s, 0, 1e-9);
        if (is_static) { /* the second begins in the round after 1000 s */
            ck_assert_double_eq_tol(o.of[SPOT_SHARE_SPOT].jct_mean_s, (1000 + 2050) / 2., 1e-9);
            ck_assert_uint_eq(o.of[SPOT_SHARE_SPOT].evictions, 0);
        } else {
            ck_assert_double_eq_tol(o.of[SPOT_SHARE_SPOT].jct_mean_s, 1050, 1e-9);
            ck_assert_double_eq_tol(o.of[SPOT_SHARE_SPOT].queue_s, 50, 1e-9);
            ck_assert_uint_eq(o.of[SPOT_SHARE_SPOT].evictions, 1);
            ck_assert_uint_eq(o.of[SPOT_SHARE_SPOT].starts, 3);
            ck_assert_double_eq_tol(o.allocation, 1, 1e-9);
        }
        spot_share_outcome_release(&o);
        release(&w);
    }
}
END_TEST

/* The spot job on `a` would have to stop; `b` is as fast, and idle. */
START_TEST(high_priority_begins_where_nothing_stops)
{
    for (size_t p = 0; p < N_NAME; p++) {
        struct world w = cluster_of("instance_type,count\na,2\nb,2\n");
        struct spot_share_play play;
        struct spot_share_outcome o;

        add(&w, SPOT_SHARE_SPOT, 0, 1000, 2);
        add(&w, SPOT_SHARE_HIGH, 150, 100, 2);
        finish(&w);
        play = play_of(&w, 20, 300);
        o = play_named(&play, name[p]);
        ck_assert_uint_eq(o.preemptions, 0);
        ck_assert_double_eq_tol(o.of[SPOT_SHARE_HIGH].jct_mean_s, 120, 1e-9);
        ck_assert_double_eq_tol(o.of[SPOT_SHARE_SPOT].lost_s, 40, 1e-9);
        spot_share_outcome_release(&o);
        release(&w);
    }
}
END_TEST

/* --- victims --- */

START_TEST(victims_are_the_cheapest_of_all_subsets)
{
    enum { MOST = 9 };
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int turn = 0; turn < 500; turn++) {
        const size_t n = 1 + spot_rng_below(&rng, MOST);
        int64_t workers[MOST], all = 0, freed = 0, need;
        double cost[MOST], least = INFINITY, sum = 0;
        bool leaves[MOST];

        for (size_t i = 0; i < n; i++) {
            workers[i] = 1 + (int64_t)spot_rng_below(&rng, 8);
            cost[i] = (double)spot_rng_below(&rng, 50);
            all += workers[i];
        }
        need = (int64_t)spot_rng_below(&rng, (uint64_t)all + 3);
        for (size_t set = 0; set < (size_t)1 << n; set++) {
            int64_t frees = 0;
            double costs = 0;

            for (size_t i = 0; i < n; i++)
                if (set >> i & 1) {
                    frees += workers[i];
                    costs += cost[i];
                }
            if (frees >= (need < all ? need : all))
                least = fmin(least, costs);
        }
        spot_share_victims(workers, cost, n, need, leaves);
        for (size_t i = 0; i < n; i++) {
            freed += leaves[i] ? workers[i] : 0;
            sum += leaves[i] ? cost[i] : 0;
        }
        ck_assert_int_ge(freed, need < all ? need : all);
        ck_assert_double_eq_tol(sum, least, 1e-9);
    }
}
END_TEST

/* --- every round of random instances --- */

static struct world draw(struct spot_rng *rng)
{
    struct world w = cluster_of("instance_type,count\na,6\nb,4\n");

    for (int i = 0; i < 40; i++)
        add(&w, spot_rng_below(rng, 2) ? SPOT_SHARE_HIGH : SPOT_SHARE_SPOT,
            (double)spot_rng_below(rng, 9000), 50 + (double)spot_rng_below(rng, 3000),
            1 + (int64_t)spot_rng_below(rng, 4));
    finish(&w);
    return w;
}

/* The rows of one round: workers of high priority on each type, and no worker is used twice. */
static void count_round(const struct world *w, const struct spot_share_step *step, size_t n,
                        int64_t *high)
{
    bool used[2][6] = { 0 };

    high[0] = high[1] = 0;
    for (size_t k = 0; k < n; k++)
        for (int64_t i = 0; step[k].type >= 0 && i < step[k].scale; i++) {
            bool *at = &used[step[k].type][step[k].first_worker + i];

            ck_assert_int_lt(step[k].first_worker + i, w->cluster.type[step[k].type].count);
            ck_assert(!*at);
            *at = true;
            high[step[k].type] += w->jobs.job[step[k].job].priority == SPOT_SHARE_HIGH;
        }
}

/* High priority waits only for high priority, and keeps its workers once it has them. */
static void check_rounds(const struct world *w, const struct spot_share_outcome *o)
{
    bool began[40] = { 0 };

    for (size_t from = 0, to; from < o->n_step; from = to) {
        int64_t high[2];

        for (to = from; to < o->n_step && o->step[to].start_s <= o->step[from].start_s; to++)
            ;
        count_round(w, o->step + from, to - from, high);
        for (size_t k = from; k < to; k++) {
            const struct spot_share_step *step = &o->step[k];
            const struct spot_share_job *job = &w->jobs.job[step->job];

            if (job->priority != SPOT_SHARE_HIGH)
                continue;
            ck_assert(step->type >= 0 || !began[step->job]);
            ck_assert(!began[step->job] || step->type == step->on);
            for (int j = 0; j < 2 && step->type < 0; j++)
                ck_assert_int_gt(high[j] + job->scale, w->cluster.type[j].count);
        }
        for (size_t k = from; k < to; k++)
            began[o->step[k].job] |= o->step[k].type >= 0;
    }
}

START_TEST(rounds_fit_high_priority_is_served_first_and_no_time_is_lost_unseen)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 8, 0);
    for (int turn = 0; turn < 15; turn++) {
        struct world w = draw(&rng);
        const struct spot_share_play play = play_of(&w, 0, 400);
        double work = 0;

        for (size_t i = 0; i < w.jobs.n; i++)
            work += w.jobs.job[i].steps * (double)w.jobs.job[i].scale;
        for (size_t p = 0; p < N_NAME; p++) {
            struct spot_share_outcome o = play_named(&play, name[p]);
            double busy = 0;

            check_rounds(&w, &o);
            for (size_t k = 0; k < o.n_step; k++)
                if (o.step[k].type >= 0)
                    busy += (o.step[k].end_s - o.step[k].start_s) * (double)o.step[k].scale;
            ck_assert_double_eq_tol(busy, work + o.lost_s, 1e-6 * busy);
            ck_assert_double_eq_tol(o.lost_s, o.of[SPOT_SHARE_SPOT].lost_s, 1e-6 * busy);
            ck_assert_uint_eq(o.of[SPOT_SHARE_HIGH].evictions, 0);
            ck_assert_uint_eq(o.of[SPOT_SHARE_SPOT].evictions, o.preemptions);
            spot_share_outcome_release(&o);
        }
        release(&w);
    }
}
END_TEST

/* --- the forecast --- */

enum { DAYS = 42, HOURS = 24 * DAYS };

/* Arrivals vary by half over the day. */
static struct world daily(struct spot_rng *rng)
{
    struct world w = cluster_of("instance_type,count\na,200\n");

    for (double t = 10; t < HOURS * 3600.0; t -= log(1 - spot_rng_unit(rng)) * 3600 / 20)
        if (spot_rng_unit(rng) < (1 + 0.5 * sin(2 * 3.14159265358979 * t / 86400)) / 1.5)
            add(&w, SPOT_SHARE_HIGH, t, 60 - 9000 * log(1 - spot_rng_unit(rng)),
                1 + (int64_t)spot_rng_below(rng, 3));
    finish(&w);
    return w;
}

/* The largest demand in [from_s, to_s): at its start, and after each arrival. */
static int64_t most_wanted(const struct world *w, const double *ended_s, double from_s, double to_s)
{
    int64_t most = 0;

    for (size_t k = 0; k <= w->jobs.n; k++) {
        const double at_s = k < w->jobs.n ? w->jobs.job[k].arrival_s : from_s;
        int64_t now = 0;

        if (at_s < from_s || at_s >= to_s)
            continue;
        for (size_t i = 0; i < w->jobs.n && w->jobs.job[i].arrival_s <= at_s; i++)
            now += ended_s[i] > at_s ? w->jobs.job[i].scale : 0;
        most = now > most ? now : most;
    }
    return most;
}

START_TEST(quantiles_of_demand_are_exceeded_as_often_as_they_say)
{
    static const double level[] = { 0.5, 0.8, 0.9 };
    static const int hours[] = { 1, 2, 4 };
    int64_t *most = calloc(HOURS, sizeof(*most));
    double *ended_s, over[3][3] = { 0 };
    struct spot_class_demand *d;
    struct spot_rng rng;
    struct world w;
    int n = 0;

    spot_rng_init(&rng, 3, 0);
    w = daily(&rng);
    ended_s = calloc(w.jobs.n, sizeof(*ended_s));
    for (size_t i = 0; i < w.jobs.n; i++)
        ended_s[i] = w.jobs.job[i].arrival_s + w.jobs.job[i].steps;
    for (int h = 0; h < HOURS; h++)
        most[h] = most_wanted(&w, ended_s, 3600.0 * h, 3600.0 * (h + 1));
    d = spot_class_demand_new(&w.jobs, &w.cluster, w.rate);
    for (int h = 24 * 10; h < HOURS - 4; h++, n++) {
        const struct spot_share_demand *law = spot_class_demand_at(d, ended_s, 3600.0 * h);

        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
                int64_t came = 0;

                for (int k = 0; k < hours[b]; k++)
                    came = most[h + k] > came ? most[h + k] : came;
                over[a][b] += came > spot_share_demand_quantile(law, 0, hours[b], level[a]);
            }
    }
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            ck_assert_msg(fabs(over[a][b] / n - (1 - level[a])) < 0.05, "%g in %d h: %g", level[a],
                          hours[b], over[a][b] / n);
    spot_class_demand_free(d);
    release(&w);
    free(ended_s);
    free(most);
}
END_TEST

/* From the jobs that had arrived by then, and of the ends by then, at once. */
START_TEST(a_forecast_depends_on_the_past_alone)
{
    struct spot_class_demand *all, *some;
    const size_t n_byte = sizeof(int64_t) * SPOT_SHARE_HOURS * SPOT_SHARE_LEVELS;
    double *ended_s;
    struct spot_rng rng;
    struct world w;
    size_t n;

    spot_rng_init(&rng, 4, 0);
    w = daily(&rng);
    n = w.jobs.n;
    ended_s = calloc(n, sizeof(*ended_s));
    all = spot_class_demand_new(&w.jobs, &w.cluster, w.rate);
    ck_assert_ptr_null(spot_class_demand_at(all, ended_s, 5));
    for (double now_s = 5000; now_s < 400000; now_s += 7000) {
        const struct spot_share_demand *x, *y;

        for (size_t i = 0; i < n; i++) {
            ended_s[i] = w.jobs.job[i].arrival_s + w.jobs.job[i].steps;
            ended_s[i] = ended_s[i] <= now_s ? ended_s[i] : INFINITY;
        }
        x = spot_class_demand_at(all, ended_s, now_s);
        for (w.jobs.n = 0; w.jobs.job[w.jobs.n].arrival_s <= now_s;)
            w.jobs.n++;
        some = spot_class_demand_new(&w.jobs, &w.cluster, w.rate);
        y = spot_class_demand_at(some, ended_s, now_s);
        ck_assert(x->from_s <= now_s && x->from_s >= now_s);
        ck_assert_mem_eq(x->most, y->most, n_byte);
        spot_class_demand_free(some);
        w.jobs.n = n;
    }
    spot_class_demand_free(all);
    free(ended_s);
    release(&w);
}
END_TEST

/* When spot jobs begin under gfs they have at most 1.5 x (workers - the demand that is exceeded in
 * an hour with probability .1), and more than a rule without quota would leave idle. */
START_TEST(gfs_keeps_spot_jobs_within_its_quota)
{
    struct world w = cluster_of("instance_type,count\na,40\n");
    struct spot_class_demand *d;
    struct spot_share_play play;
    struct spot_share_outcome o;
    struct spot_rng rng;
    double *ended_s;
    int n_start = 0, n_full = 0;

    spot_rng_init(&rng, 6, 0);
    for (int i = 0; i < 500; i++)
        add(&w, i % 3 ? SPOT_SHARE_HIGH : SPOT_SHARE_SPOT,
            400 * i + (double)spot_rng_below(&rng, 300), 500 + (double)spot_rng_below(&rng, 6000),
            1 + (int64_t)spot_rng_below(&rng, 5));
    finish(&w);
    play = play_of(&w, 0, 0);
    play.round_s = 300;
    o = play_named(&play, "gfs");
    ended_s = calloc(w.jobs.n, sizeof(*ended_s));
    d = spot_class_demand_new(&w.jobs, &w.cluster, w.rate);
    for (size_t from = 0, to; from < o.n_step; from = to) {
        const double now_s = o.step[from].start_s;
        const struct spot_share_demand *law;
        int64_t lent = 0, used = 0;
        bool starts = false, waits = false;

        for (size_t i = 0; i < w.jobs.n; i++) {
            ended_s[i] = w.jobs.job[i].arrival_s + o.jct_s[i];
            ended_s[i] = ended_s[i] <= now_s ? ended_s[i] : INFINITY;
        }
        law = spot_class_demand_at(d, ended_s, now_s);
        for (to = from; to < o.n_step && o.step[to].start_s <= now_s; to++) {
            const struct spot_share_step *step = &o.step[to];
            const bool is_spot = w.jobs.job[step->job].priority == SPOT_SHARE_SPOT;

            used += step->type >= 0 ? step->scale : 0;
            lent += is_spot && step->type >= 0 ? step->scale : 0;
            starts |= is_spot && step->type >= 0 && step->on < 0;
            waits |= is_spot && step->type < 0;
        }
        n_full += law && waits && used + 5 <= 40;
        if (!law || !starts)
            continue;
        n_start++;
        ck_assert_double_le((double)lent,
                            1.5 * (double)(40 - spot_share_demand_quantile(law, 0, 1, 0.9)) + 1e-9);
    }
    ck_assert_int_gt(n_start, 20);
    ck_assert_int_gt(n_full, 20); /* it does hold back */
    spot_class_demand_free(d);
    spot_share_outcome_release(&o);
    free(ended_s);
    release(&w);
}
END_TEST

/* Levels 1 to 100 in each hour, h more in hour h + 1. */
START_TEST(the_chance_of_more_demand_is_that_of_the_hours_it_spans)
{
    int64_t most[SPOT_SHARE_HOURS * SPOT_SHARE_LEVELS];
    const struct spot_share_demand law = { 7200, 1, most };

    for (int h = 0; h < SPOT_SHARE_HOURS; h++)
        for (int k = 0; k < SPOT_SHARE_LEVELS; k++)
            most[h * SPOT_SHARE_LEVELS + k] = 1 + k + 10 * h;
    ck_assert_int_eq(spot_share_demand_quantile(&law, 0, 1, 0.9), 90);
    ck_assert_int_eq(spot_share_demand_quantile(&law, 0, 2, 0.9), 100);
    ck_assert_int_eq(spot_share_demand_quantile(&law, 0, 9, 0), 51);
    ck_assert_double_eq_tol(spot_share_demand_exceeds(&law, 0, 80, 7200, 10800), 0.2, 1e-12);
    ck_assert_double_eq_tol(spot_share_demand_exceeds(&law, 0, 80, 7200, 14400), 0.3, 1e-12);
    /* the second hour alone: 0.8 (1 - p) = 0.7 */
    ck_assert_double_eq_tol(spot_share_demand_exceeds(&law, 0, 80, 10800, 14400), 0.125, 1e-12);
    ck_assert_double_eq_tol(spot_share_demand_exceeds(&law, 0, 80, 9000, 9000), 0, 1e-12);
    ck_assert_double_eq_tol(spot_share_demand_exceeds(&law, 0, 80, 7200, 9000), 1 - sqrt(0.8),
                            1e-12);
    ck_assert_double_eq_tol(spot_share_demand_exceeds(&law, 0, 150, 7200, 36000), 0, 1e-12);
}
END_TEST

int main(void)
{
    return run_suite("share_class", add_tests(tcase_create("share_class")));
}

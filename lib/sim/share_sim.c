/* SPDX-License-Identifier: MIT */
#include "sim/share_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "forecast/class_demand.h"
#include "sim/share_state.h"

enum { FAILURES_MAX = 5, ROUNDS_MAX = 1000000 };

/* --- input of policies --- */

struct spot_share_rule spot_share_rule_of(const struct spot_share_state *s)
{
    return (struct spot_share_rule){ .jobs = s->play->jobs,
                                     .cluster = s->play->cluster,
                                     .speeds = s->play->speeds,
                                     .rate = s->play->rate,
                                     .terms = { .round_s = s->play->round_s,
                                                .switch_s = s->play->switch_s,
                                                .checkpoint_s = s->play->checkpoint_s } };
}

struct spot_share_job_now *spot_share_jobs_now(const struct spot_share_state *s)
{
    const bool hides_on = s->play->is_released && !s->player->policy;
    struct spot_share_job_now *now = spot_xcalloc(s->n_job, sizeof(*now));

    for (size_t i = 0; i < s->n_arrived; i++)
        now[i] = (struct spot_share_job_now){ .is_there = s->job[i].is_active,
                                              .left = s->job[i].left,
                                              .unsaved = share_unsaved(s, &s->job[i], s->now_s),
                                              .isolated_s = s->job[i].isolated_s,
                                              .on = hides_on ? -1 : s->job[i].type,
                                              .on_scale = s->job[i].scale };
    return now;
}

void spot_share_view_of(const struct spot_share_state *s, struct spot_share_view *view)
{
    const struct spot_share_rule rule = spot_share_rule_of(s);
    struct spot_share_job_now *now = spot_share_jobs_now(s);

    spot_share_view_init(view, &rule, &(struct spot_share_seen){ now, s->count, NULL }, s->now_s);
    free(now);
}

const struct spot_share_demand *spot_share_demand_now(struct spot_share_state *s)
{
    const struct spot_share_demand *law;
    double *ended_s;

    if (!s->play->jobs->has_classes)
        return NULL;
    if (!s->demand)
        s->demand = spot_class_demand_new(s->play->jobs, s->play->cluster, s->play->rate);
    ended_s = spot_xcalloc(s->n_job, sizeof(*ended_s));
    for (size_t i = 0; i < s->n_job; i++)
        ended_s[i] = s->job[i].is_over ? s->job[i].end_s : INFINITY;
    law = spot_class_demand_at(s->demand, ended_s, s->now_s);
    free(ended_s);
    return law;
}

/* --- time --- */

static void arrive(struct spot_share_state *s)
{
    while (s->n_arrived < s->n_job && s->play->jobs->job[s->n_arrived].arrival_s <= s->now_s) {
        s->job[s->n_arrived].is_active = true;
        s->n_arrived++;
        s->must_solve = true;
    }
}

static void count_isolated(struct spot_share_state *s)
{
    struct spot_share_view v;
    double *per_s;

    spot_share_view_of(s, &v);
    per_s = spot_xcalloc(v.problem.n_job, sizeof(double));
    spot_share_isolated_rate(&v.problem, per_s);
    for (size_t k = 0; k < v.problem.n_job; k++) {
        struct spot_share_run *job = &s->job[v.job[k]];

        if (job->isolated_per_s > 0 && job->counted_left > job->left)
            job->isolated_s += (job->counted_left - job->left) / job->isolated_per_s;
        job->counted_left = job->left;
        job->isolated_per_s = per_s[k];
    }
    free(per_s);
    spot_share_view_release(&v);
}

/* Count, for each type, the least number of workers between from_s and to_s. */
static void count_workers(const struct spot_share_state *s, double time_s, int64_t *count)
{
    for (size_t j = 0; j < s->n_type; j++) {
        const struct spot_share_type *type = &s->play->cluster->type[j];
        int64_t there = 0;
        bool is_named = false;

        for (size_t k = 0; s->play->supply && k < s->play->supply->n_series; k++)
            if (!strcmp(s->play->supply->series[k].instance_type, type->name)) {
                is_named = true;
                there += spot_trace_at(&s->play->supply->series[k], time_s);
            }
        count[j] = is_named && there < type->count ? there : type->count;
    }
}

/* The end of an exact round: a job of high priority does not wait for it. */
static double round_until(const struct spot_share_state *s)
{
    const struct spot_share_jobs *jobs = s->play->jobs;
    const double until_s = s->now_s + s->play->round_s;

    for (size_t i = s->n_arrived; i < s->n_job && jobs->job[i].arrival_s < until_s; i++)
        if (jobs->job[i].priority == SPOT_SHARE_HIGH)
            return jobs->job[i].arrival_s;
    return until_s;
}

static double lease_end_s(const struct spot_share_state *s, const struct spot_share_run *job)
{
    if (s->play->is_released) {
        const double steps = fmin(floor(job->rate * s->play->round_s), job->left);

        return s->now_s + steps / job->rate;
    }
    return fmin(s->until_s, fmax(s->now_s, job->ready_s) + job->left / job->rate);
}

struct running {
    size_t job;
    double end_s;
};

static int by_end(const void *a, const void *b)
{
    const struct running *x = a, *y = b;

    if (x->end_s < y->end_s || x->end_s > y->end_s)
        return x->end_s > y->end_s ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

static void finish(struct spot_share_state *s, size_t i, double end_s, bool is_failed)
{
    struct spot_share_run *job = &s->job[i];

    job->is_over = true;
    job->is_active = false;
    job->end_s = end_s;
    s->n_over++;
    s->must_solve = true;
    s->outcome->jct_s[i] = is_failed ? NAN : end_s - s->play->jobs->job[i].arrival_s;
    s->outcome->n_failed += is_failed;
    s->outcome->n_done += !is_failed;
    s->outcome->makespan_s = fmax(s->outcome->makespan_s, end_s);
}

static void account(struct spot_share_state *s, size_t i, double held_s)
{
    const struct spot_share_run *job = &s->job[i];

    if (s->player->had)
        s->player->had(s, i, (size_t)job->type, held_s);
    s->busy_s += held_s * (double)job->scale;
    s->job[i].held_s += held_s;
    if (s->n_arrived < s->n_job)
        s->busy_open_s += held_s * (double)job->scale;
    for (size_t t = 0; t < s->n_type; t++)
        s->outcome->usd +=
            held_s / 3600 * (double)share_lease_held(s, i, t) * s->play->cluster->type[t].usd_per_h;
    for (size_t k = 0; k < job->n_step; k++)
        s->outcome->step[job->step + k].end_s = s->now_s + held_s;
}

/* As released: every worker does its part of the steps, and a round fails if one has none. */
static void run_released(struct spot_share_state *s, const struct running *r)
{
    struct spot_share_run *job = &s->job[r->job];
    const double steps = fmin(floor(job->rate * s->play->round_s), job->left);
    const double held_s = r->end_s - s->round_start_s;

    if (steps <= 0 || (job->scale > 1 && floor(steps / (double)job->scale) <= 0) || held_s <= 0) {
        s->must_solve = true;
        if (++job->failures >= FAILURES_MAX)
            finish(s, r->job, r->end_s, true);
        return;
    }
    job->failures = 0;
    job->left -= steps;
    account(s, r->job, held_s);
    if (job->left <= 0)
        finish(s, r->job, r->end_s, false);
}

/* When the trace first has too few workers of the type for this worker number, before end_s. */
static double gone_s(const struct spot_share_state *s, size_t type, int64_t worker, double end_s)
{
    double first_s = end_s;

    for (size_t k = 0; s->play->supply && k < s->play->supply->n_series; k++) {
        const struct spot_trace_series *series = &s->play->supply->series[k];
        size_t lo = 0, hi = series->n;

        if (strcmp(series->instance_type, s->play->cluster->type[type].name) != 0)
            continue;
        while (lo < hi) { /* binary search for the first row after now */
            const size_t mid = (lo + hi) / 2;

            if (series->time_s[mid] > s->now_s)
                hi = mid;
            else
                lo = mid + 1;
        }
        for (; lo < series->n && series->time_s[lo] < first_s; lo++) {
            int64_t there[SPOT_SHARE_TYPES_MAX];

            count_workers(s, series->time_s[lo], there);
            if (worker >= there[type]) {
                first_s = series->time_s[lo];
                break;
            }
        }
    }
    return first_s;
}

/* The time at which the trace takes workers away in the middle of a round; their jobs go back to
 * the queue at once. */
static double cut_s(const struct spot_share_state *s, size_t i, double end_s)
{
    const int64_t *worker = s->job[i].worker;

    for (size_t j = 0; j < s->n_type; j++) {
        const int64_t n = share_lease_held(s, i, j);

        worker += n;
        if (n)
            end_s = gone_s(s, j, worker[-1], end_s);
    }
    return end_s;
}

static void run_exact(struct spot_share_state *s, const struct running *r)
{
    struct spot_share_run *job = &s->job[r->job];
    const double cut = cut_s(s, r->job, r->end_s);
    const double from_s = fmax(s->now_s, job->ready_s);

    job->left = cut < r->end_s || r->end_s >= s->until_s
                    ? fmax(0, job->left - job->rate * fmax(0, cut - from_s))
                    : 0;
    if (job->left < 1e-9 * job->rate)
        job->left = 0;
    account(s, r->job, cut - s->now_s);
    if (job->left <= 0) {
        finish(s, r->job, r->end_s, false);
        share_lease_end(s, r->job, r->end_s);
    } else if (cut < r->end_s) {
        s->outcome->preemptions++;
        share_class_of(s, r->job)->evictions++;
        share_lease_end(s, r->job, cut);
        s->must_solve = true;
    }
}

static void run_round(struct spot_share_state *s)
{
    struct running *running = spot_xcalloc(s->n_pick, sizeof(*running));
    double end_s = s->now_s;

    for (size_t k = 0; k < s->n_pick; k++) {
        running[k] = (struct running){ s->pick[k].job, lease_end_s(s, &s->job[s->pick[k].job]) };
        end_s = fmax(end_s, running[k].end_s);
    }
    if (s->n_pick)
        qsort(running, s->n_pick, sizeof(*running), by_end);
    if (!s->play->is_released)
        end_s = s->until_s;
    else if (s->n_pick && s->has_round)
        s->round_start_s = s->round_end_s;
    s->has_round |= s->n_pick > 0;
    for (size_t k = 0; k < s->n_pick; k++)
        if (s->play->is_released)
            run_released(s, &running[k]);
        else
            run_exact(s, &running[k]);
    for (size_t j = 0; j < s->n_type; j++)
        s->there_s += (double)s->count[j] * (end_s - s->now_s);
    for (size_t j = 0; s->n_arrived < s->n_job && j < s->n_type; j++)
        s->there_open_s += (double)s->count[j] * (end_s - s->now_s);
    if (s->n_pick)
        s->round_end_s = end_s;
    s->now_s = end_s;
    free(running);
}

/* Nothing runs: advance to the next arrival, or by one round. */
static void wait_for_more(struct spot_share_state *s)
{
    const bool has_more = s->n_arrived < s->n_job;

    if (has_more && s->play->is_released)
        s->now_s = s->play->jobs->job[s->n_arrived].arrival_s;
    else if (has_more && s->n_arrived == s->n_over)
        s->now_s = fmax(s->now_s, s->play->jobs->job[s->n_arrived].arrival_s);
    else
        s->now_s = s->play->is_released ? s->now_s : s->until_s;
}

/* --- output of a round --- */

static struct spot_share_step *add_step(struct spot_share_state *s, size_t i,
                                        const struct spot_share_job_now *was)
{
    struct spot_share_outcome *o = s->outcome;

    o->step = spot_xgrow(o->step, &o->cap_step, o->n_step + 1, sizeof(*o->step));
    o->step[o->n_step] = (struct spot_share_step){ .job = i,
                                                   .type = -1,
                                                   .start_s = s->now_s,
                                                   .end_s = s->now_s,
                                                   .left = was->left,
                                                   .unsaved = was->unsaved,
                                                   .isolated_s = was->isolated_s,
                                                   .on = was->on,
                                                   .on_scale = was->on_scale };
    return &o->step[o->n_step++];
}

/* Add a row for each run of adjacent workers of one type. */
static void add_steps(struct spot_share_state *s, size_t i, const struct spot_share_job_now *was)
{
    const int64_t *worker = s->job[i].worker;

    for (size_t j = 0; j < s->n_type; j++) {
        const int64_t n = share_lease_held(s, i, j);
        struct spot_share_step *step = NULL;

        for (int64_t w = 0; w < n; w++)
            if (w && worker[w] == worker[w - 1] + 1) {
                step->scale++;
            } else {
                step = add_step(s, i, was);
                step->type = (int)j;
                step->first_worker = worker[w];
                step->scale = 1;
            }
        worker += n;
    }
}

/* was: the state before the round. */
static void tell_round(struct spot_share_state *s, const struct spot_share_job_now *was)
{
    for (size_t i = 0; i < s->n_arrived; i++) {
        if (!s->job[i].is_active)
            continue;
        s->job[i].step = s->outcome->n_step;
        if (s->job[i].type >= 0)
            add_steps(s, i, &was[i]);
        else
            add_step(s, i, &was[i]);
        s->job[i].n_step = s->outcome->n_step - s->job[i].step;
    }
}

static int one_round(struct spot_share_state *s, struct spot_err *err)
{
    struct spot_share_job_now *was;
    int rc;

    s->outcome->rounds++;
    arrive(s);
    s->until_s = round_until(s);
    count_workers(s, s->now_s, s->count);
    count_isolated(s);
    s->n_pick = 0;
    was = s->play->has_steps ? spot_share_jobs_now(s) : NULL;
    rc = s->player->pick(s, err);
    if (!rc) {
        share_lease_all(s);
        if (was)
            tell_round(s, was);
        if (s->n_pick)
            run_round(s);
        else
            wait_for_more(s);
    }
    free(was);
    return rc;
}

static void summarise_classes(struct spot_share_state *s)
{
    struct spot_share_outcome *o = s->outcome;
    size_t n[SPOT_SHARE_SPOT + 1] = { 0 };

    for (size_t i = 0; i < s->n_job; i++) {
        const enum spot_share_priority p = s->play->jobs->job[i].priority;

        if (isnan(o->jct_s[i]))
            continue;
        n[p]++;
        o->of[p].jct_mean_s += o->jct_s[i];
        o->of[p].queue_s += fmax(0, o->jct_s[i] - s->job[i].held_s);
    }
    for (size_t p = 0; p <= SPOT_SHARE_SPOT; p++)
        if (n[p]) {
            o->of[p].jct_mean_s /= (double)n[p];
            o->of[p].queue_s /= (double)n[p];
        }
    o->allocation = s->there_open_s > 0 ? s->busy_open_s / s->there_open_s : 0;
}

static void summarise(struct spot_share_state *s)
{
    struct spot_share_outcome *o = s->outcome;
    double *jct = spot_xcalloc(s->n_job, sizeof(double)), sum = 0, ftf = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_job; i++) {
        const struct spot_share_run *job = &s->job[i];
        const double left_s = job->counted_left / job->isolated_per_s;

        if (isnan(o->jct_s[i]))
            continue;
        jct[n++] = o->jct_s[i];
        sum += o->jct_s[i];
        ftf = o->jct_s[i] / (job->isolated_s + left_s);
        o->ftf_max = fmax(o->ftf_max, ftf);
        o->ftf_mean += ftf;
    }
    if (n) {
        qsort(jct, n, sizeof(*jct), spot_num_compare);
        o->jct_mean_s = sum / (double)n;
        o->ftf_mean /= (double)n;
        o->jct_p50_s = jct[(n - 1) / 2];
        o->jct_p90_s = jct[(size_t)ceil(0.9 * (double)n) - 1];
        o->jct_p99_s = jct[(size_t)ceil(0.99 * (double)n) - 1];
    }
    if (s->play->is_released) {
        s->there_s = 0;
        for (size_t j = 0; j < s->n_type; j++)
            s->there_s += (double)s->count[j] * o->makespan_s;
    }
    o->utilisation = s->there_s > 0 ? s->busy_s / s->there_s : 0;
    summarise_classes(s);
    free(jct);
}

static void init(struct spot_share_state *s, const struct spot_share_play *play)
{
    const size_t n = play->jobs->n, m = play->cluster->n;

    s->n_job = n;
    s->n_type = m;
    s->job = spot_xcalloc(n, sizeof(*s->job));
    for (size_t i = 0; i < n; i++)
        s->job[i] = (struct spot_share_run){
            .left = play->jobs->job[i].steps - play->jobs->job[i].done, .type = -1, .start_s = NAN
        };
    s->count = spot_xcalloc(m, sizeof(*s->count));
    s->pick = spot_xcalloc(n, sizeof(*s->pick));
    if (s->player->is_mixed) {
        s->mix = spot_xcalloc(n * m, sizeof(*s->mix));
        s->held = spot_xcalloc(n * m, sizeof(*s->held));
    }
    s->must_solve = true;
    s->outcome->jct_s = spot_xcalloc(n, sizeof(double));
    if (n)
        s->now_s = play->jobs->job[0].arrival_s;
    if (s->player->open)
        s->player->open(s);
}

static void release(struct spot_share_state *s)
{
    if (s->player->close)
        s->player->close(s);
    for (size_t i = 0; i < s->n_job; i++)
        free(s->job[i].worker);
    free(s->job);
    free(s->count);
    free(s->pick);
    free(s->mix);
    free(s->held);
    spot_class_demand_free(s->demand);
}

int spot_share_play_run(const struct spot_share_play *play, const struct spot_share_player *player,
                        struct spot_share_outcome *outcome, struct spot_err *err)
{
    struct spot_share_state s = { .play = play, .player = player, .outcome = outcome };
    int rc = 0;

    *outcome = (struct spot_share_outcome){ 0 };
    init(&s, play);
    while (!rc && s.n_over < s.n_job) {
        rc = one_round(&s, err);
        if (!rc && outcome->rounds >= ROUNDS_MAX)
            rc = spot_err_set(err, SPOT_EINFEASIBLE,
                              "%s: %zu of %zu jobs do not end within %d rounds", player->name,
                              s.n_job - s.n_over, s.n_job, ROUNDS_MAX);
    }
    if (!rc)
        summarise(&s);
    else
        spot_share_outcome_release(outcome);
    release(&s);
    return rc;
}

void spot_share_outcome_release(struct spot_share_outcome *outcome)
{
    free(outcome->jct_s);
    free(outcome->step);
    *outcome = (struct spot_share_outcome){ 0 };
}

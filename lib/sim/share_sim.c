/* SPDX-License-Identifier: MIT */
#include "sim/share_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "sim/share_state.h"

enum { FAILURES_MAX = 5, SHUFFLER_SEED = 5, ROUNDS_MAX = 1000000 };

/* --- what a policy sees --- */

void share_view_init(struct share_view *v, const struct share_state *s)
{
    size_t n = 0;

    *v = (struct share_view){ .job = spot_xcalloc(s->n_job, sizeof(*v->job)),
                              .want = spot_xcalloc(s->n_job, sizeof(*v->want)),
                              .type = spot_xcalloc(s->n_type, sizeof(*v->type)),
                              .rate = spot_xcalloc(s->n_job * s->n_type, sizeof(double)) };
    for (size_t i = 0; i < s->n_arrived; i++) {
        const struct share_job *job = &s->job[i];
        const struct spot_share_job *doc = &s->play->jobs->job[i];

        if (!job->is_active)
            continue;
        v->job[n] = i;
        v->want[n] = (struct spot_share_want){
            .weight = doc->weight,
            .left = job->left,
            .age_s = s->now_s - doc->arrival_s,
            .isolated_s = job->isolated_s,
            .slo_left_s = doc->arrival_s + doc->slo_s - s->now_s,
            .scale = doc->scale,
            .on = s->play->is_released && !spot_share_is_ours(s->policy) ? -1 : job->type,
            .on_scale = job->scale,
            .unsaved = share_unsaved(s, job, s->now_s)
        };
        memcpy(v->rate + n * s->n_type, s->play->rate + i * s->n_type, s->n_type * sizeof(double));
        n++;
    }
    for (size_t j = 0; j < s->n_type; j++) {
        const struct spot_share_type *type = &s->play->cluster->type[j];

        v->type[j] =
            (struct spot_share_machines){ s->count[j], type->usd_per_h, type->hazard_per_h };
    }
    v->problem = (struct spot_share_problem){ n, s->n_type, v->want, v->rate, v->type };
}

void share_view_release(struct share_view *v)
{
    free(v->job);
    free(v->want);
    free(v->type);
    free(v->rate);
}

/* --- time --- */

static void arrive(struct share_state *s)
{
    while (s->n_arrived < s->n_job && s->play->jobs->job[s->n_arrived].arrival_s <= s->now_s) {
        s->job[s->n_arrived].is_active = true;
        for (size_t j = 0; j < s->n_type; j++)
            s->time_s[s->n_arrived * s->n_type + j] = s->play->round_s / 2;
        s->n_arrived++;
        s->must_solve = true;
    }
}

static void count_isolated(struct share_state *s)
{
    struct share_view v;
    double *per_s;

    share_view_init(&v, s);
    per_s = spot_xcalloc(v.problem.n_job, sizeof(double));
    spot_share_isolated_rate(&v.problem, per_s);
    for (size_t k = 0; k < v.problem.n_job; k++) {
        struct share_job *job = &s->job[v.job[k]];

        if (job->isolated_per_s > 0 && job->counted_left > job->left)
            job->isolated_s += (job->counted_left - job->left) / job->isolated_per_s;
        job->counted_left = job->left;
        job->isolated_per_s = per_s[k];
    }
    free(per_s);
    share_view_release(&v);
}

/* Least number of workers of each type that are there from from_s to to_s. */
static void count_workers(const struct share_state *s, double time_s, int64_t *count)
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

static double lease_end_s(const struct share_state *s, const struct share_job *job)
{
    if (s->play->is_released) {
        const double steps = fmin(floor(job->rate * s->play->round_s), job->left);

        return s->now_s + steps / job->rate;
    }
    return fmin(s->now_s + s->play->round_s, fmax(s->now_s, job->ready_s) + job->left / job->rate);
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

static void finish(struct share_state *s, size_t i, double end_s, bool is_failed)
{
    struct share_job *job = &s->job[i];

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

static void account(struct share_state *s, size_t i, double held_s)
{
    const struct share_job *job = &s->job[i];
    const size_t j = (size_t)job->type;

    s->time_s[i * s->n_type + j] += held_s;
    s->worker_time_s[j] += held_s;
    s->busy_s += held_s * (double)job->scale;
    for (size_t t = 0; t < s->n_type; t++)
        s->outcome->usd +=
            held_s / 3600 * (double)share_lease_held(s, i, t) * s->play->cluster->type[t].usd_per_h;
    share_lease_until(s, job, s->now_s + held_s);
}

/* As released: every worker has its part of the steps, and one without any fails the round. */
static void run_released(struct share_state *s, const struct running *r)
{
    struct share_job *job = &s->job[r->job];
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

/* When the trace first leaves a type without its worker of this number, before end_s. */
static double gone_s(const struct share_state *s, size_t type, int64_t worker, double end_s)
{
    double first_s = end_s;

    for (size_t k = 0; s->play->supply && k < s->play->supply->n_series; k++) {
        const struct spot_trace_series *series = &s->play->supply->series[k];
        size_t lo = 0, hi = series->n;

        if (strcmp(series->instance_type, s->play->cluster->type[type].name) != 0)
            continue;
        while (lo < hi) { /* the first row behind now */
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

/* The trace takes workers away in the middle of a round: the jobs on them go back at once. */
static double cut_s(const struct share_state *s, size_t i, double end_s)
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

static void run_exact(struct share_state *s, const struct running *r)
{
    struct share_job *job = &s->job[r->job];
    const double cut = cut_s(s, r->job, r->end_s);
    const double from_s = fmax(s->now_s, job->ready_s);

    job->left = cut < r->end_s || r->end_s >= s->now_s + s->play->round_s
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
        share_lease_end(s, r->job, cut);
        s->must_solve = true;
    }
}

static void run_round(struct share_state *s)
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
        end_s = s->now_s + s->play->round_s;
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
    if (s->n_pick)
        s->round_end_s = end_s;
    s->now_s = end_s;
    free(running);
}

/* Nothing runs: to the next arrival, or a round on. */
static void wait_for_more(struct share_state *s)
{
    const bool has_more = s->n_arrived < s->n_job;

    if (!has_more)
        s->last_reset_s = 0;
    if (has_more && s->play->is_released)
        s->now_s = s->play->jobs->job[s->n_arrived].arrival_s;
    else if (has_more && s->n_arrived == s->n_over)
        s->now_s = fmax(s->now_s, s->play->jobs->job[s->n_arrived].arrival_s);
    else
        s->now_s += s->play->is_released ? 0 : s->play->round_s;
}

static int one_round(struct share_state *s, struct spot_err *err)
{
    s->outcome->rounds++;
    arrive(s);
    count_workers(s, s->now_s, s->count);
    count_isolated(s);
    s->n_pick = 0;
    if (s->mix)
        share_pick_hadar(s);
    else if (spot_share_is_ours(s->policy) ? share_pick_ours(s, err)
                                           : share_pick_by_priority(s, err))
        return -1;
    share_lease_all(s);
    if (s->n_pick)
        run_round(s);
    else
        wait_for_more(s);
    return 0;
}

static void summarise(struct share_state *s)
{
    struct spot_share_outcome *o = s->outcome;
    double *jct = spot_xcalloc(s->n_job, sizeof(double)), sum = 0, ftf = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_job; i++) {
        const struct share_job *job = &s->job[i];
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
    free(jct);
}

static void init(struct share_state *s, const struct spot_share_play *play)
{
    const size_t n = play->jobs->n, m = play->cluster->n;

    s->n_job = n;
    s->n_type = m;
    s->job = spot_xcalloc(n, sizeof(*s->job));
    for (size_t i = 0; i < n; i++)
        s->job[i] = (struct share_job){ .left = play->jobs->job[i].steps - play->jobs->job[i].done,
                                        .type = -1,
                                        .start_s = NAN };
    s->x = spot_xcalloc(n * m, sizeof(double));
    s->time_s = spot_xcalloc(n * m, sizeof(double));
    s->deficit_s = spot_xcalloc(n * m, sizeof(double));
    s->priority = spot_xcalloc(n * m, sizeof(double));
    s->has_x = spot_xcalloc(n, sizeof(bool));
    s->worker_time_s = spot_xcalloc(m, sizeof(double));
    s->count = spot_xcalloc(m, sizeof(*s->count));
    s->pick = spot_xcalloc(n, sizeof(*s->pick));
    if (s->policy == SPOT_SHARE_HADAR) {
        s->mix = spot_xcalloc(n * m, sizeof(*s->mix));
        s->held = spot_xcalloc(n * m, sizeof(*s->held));
    }
    s->must_solve = true;
    spot_python_random_init(&s->shuffler, (uint32_t)play->seed + SHUFFLER_SEED);
    s->outcome->jct_s = spot_xcalloc(n, sizeof(double));
    if (n)
        s->now_s = play->jobs->job[0].arrival_s;
}

static void release(struct share_state *s)
{
    for (size_t i = 0; i < s->n_job; i++)
        free(s->job[i].worker);
    free(s->job);
    free(s->x);
    free(s->time_s);
    free(s->deficit_s);
    free(s->priority);
    free(s->has_x);
    free(s->worker_time_s);
    free(s->count);
    free(s->pick);
    free(s->mix);
    free(s->held);
}

int spot_share_play_run(const struct spot_share_play *play, enum spot_share_policy policy,
                        struct spot_share_outcome *outcome, struct spot_err *err)
{
    struct share_state s = { .play = play, .policy = policy, .outcome = outcome };
    int rc = 0;

    *outcome = (struct spot_share_outcome){ 0 };
    init(&s, play);
    while (!rc && s.n_over < s.n_job) {
        rc = one_round(&s, err);
        if (!rc && outcome->rounds >= ROUNDS_MAX)
            rc = spot_err_set(
                err, SPOT_EINFEASIBLE, "%s: %zu of %zu jobs do not end within %d rounds",
                spot_share_policy_name[policy], s.n_job - s.n_over, s.n_job, ROUNDS_MAX);
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
    free(outcome->span);
    *outcome = (struct spot_share_outcome){ 0 };
}

/* SPDX-License-Identifier: MIT */
/* Gavel's rounds as released: jobs are placed greedily by their share divided by what they received
 * of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "peers/gavel.h"
#include "peers/python_random.h"

enum { SHUFFLER_SEED = 5 };

/* Arrays are [n_job][n_type], except where stated. */
struct rounds {
    double *x, *time_s, *deficit_s, *priority;
    bool *has_x; /* [n_job] */
    /* number of jobs whose time has begun, with half a round */
    size_t n_known;
    double *worker_time_s, last_reset_s; /* [n_type] */
    struct spot_python_random shuffler;
};

static double *at(double *table, const struct spot_share_state *s, size_t job)
{
    return table + job * s->n_type;
}

/* Record, for each job, the time that it was entitled to since the last reset less the time that it
 * received. */
static void reset(struct spot_share_state *s)
{
    struct rounds *r = s->own;
    const double elapsed_s = s->now_s - r->last_reset_s, credit_s = s->play->round_s / 2;

    for (size_t j = 0; j < s->n_type; j++) {
        r->worker_time_s[j] = 0;
        for (size_t i = 0; i < s->n_arrived; i++) {
            if (!s->job[i].is_active)
                continue;
            at(r->deficit_s, s, i)[j] += (r->has_x[i] ? at(r->x, s, i)[j] : 0) * elapsed_s -
                                         (at(r->time_s, s, i)[j] - credit_s);
            at(r->time_s, s, i)[j] = credit_s;
            r->worker_time_s[j] += credit_s;
        }
    }
    r->last_reset_s = s->now_s;
}

static int solve(struct spot_share_state *s, struct spot_err *err)
{
    struct rounds *r = s->own;
    struct spot_share_answer answer;
    struct spot_share_view view;
    int rc;

    spot_share_view_of(s, &view);
    rc = spot_gavel_allocate(&view.problem, (enum spot_gavel_policy)s->player->kind, &answer, err);
    memset(r->has_x, 0, s->n_job * sizeof(*r->has_x));
    for (size_t k = 0; !rc && k < view.problem.n_job; k++) {
        r->has_x[view.job[k]] = true;
        for (size_t j = 0; j < s->n_type; j++)
            at(r->x, s, view.job[k])[j] = fmin(1, fmax(0, answer.x[k * s->n_type + j]));
    }
    if (!rc)
        spot_share_answer_release(&answer);
    spot_share_view_release(&view);
    s->must_solve = false;
    s->outcome->solves++;
    return rc;
}

static void set_priorities(struct spot_share_state *s)
{
    struct rounds *r = s->own;
    for (size_t i = 0; i < s->n_arrived; i++)
        for (size_t j = 0; j < s->n_type; j++) {
            const double x = r->has_x[i] ? at(r->x, s, i)[j] : 0;
            const double part =
                r->worker_time_s[j] > 0 ? at(r->time_s, s, i)[j] / r->worker_time_s[j] : 0;

            at(r->priority, s, i)[j] = x == 0 ? 0 : part > 0 ? x / part : x * 1e9;
        }
}

struct entry {
    size_t job;
    double priority, deficit_s, x;
};

static int by_priority(const void *a, const void *b)
{
    const struct entry *p = a, *q = b;

    if (p->priority < q->priority || p->priority > q->priority)
        return p->priority > q->priority ? -1 : 1;
    if (p->deficit_s < q->deficit_s || p->deficit_s > q->deficit_s)
        return p->deficit_s > q->deficit_s ? -1 : 1;
    if (p->x < q->x || p->x > q->x)
        return p->x > q->x ? -1 : 1;
    return (p->job > q->job) - (p->job < q->job);
}

static void pick_type(struct spot_share_state *s, size_t j, struct entry *entry, bool *is_picked)
{
    struct rounds *r = s->own;
    int64_t there = s->count[j];
    size_t n = 0;

    for (size_t i = 0; i < s->n_arrived; i++)
        if (s->job[i].is_active)
            entry[n++] = (struct entry){ i, at(r->priority, s, i)[j], at(r->deficit_s, s, i)[j],
                                         r->has_x[i] ? at(r->x, s, i)[j] : 0 };
    if (n)
        qsort(entry, n, sizeof(*entry), by_priority);
    for (size_t k = 0; k < n; k++) {
        const size_t i = entry[k].job;
        const int64_t scale = s->play->jobs->job[i].scale;
        const double rate = s->play->rate[i * s->n_type + j];

        if (is_picked[i] || !(rate > 0) || scale > there ||
            (s->player->kind == SPOT_GAVEL_FIFO_PERF && entry[k].priority <= 0))
            continue;
        there -= scale;
        is_picked[i] = true;
        /* as released: the job keeps its place but waits */
        if (r->has_x[i] || !s->play->is_released)
            s->pick[s->n_pick++] = (struct spot_share_pick){ i, (int)j, scale, rate };
    }
}

/* Policies that ignore speeds shuffle the types. */
static bool is_blind(const struct spot_share_state *s)
{
    return s->player->kind == SPOT_GAVEL_ISOLATED || s->player->kind == SPOT_GAVEL_PROPORTIONAL;
}

static void welcome(struct spot_share_state *s)
{
    struct rounds *r = s->own;

    for (; r->n_known < s->n_arrived; r->n_known++)
        for (size_t j = 0; j < s->n_type; j++)
            at(r->time_s, s, r->n_known)[j] = s->play->round_s / 2;
}

static int gavel_pick(struct spot_share_state *s, struct spot_err *err)
{
    struct rounds *r = s->own;
    const bool is_due = s->now_s - r->last_reset_s >= s->play->reset_s || r->last_reset_s == 0;
    struct entry *entry = spot_xcalloc(s->n_arrived, sizeof(*entry));
    bool *is_picked = spot_xcalloc(s->n_job, sizeof(*is_picked));
    size_t order[SPOT_SHARE_TYPES_MAX];
    int rc = 0;

    welcome(s);
    if (s->must_solve && is_due) {
        reset(s);
        rc = solve(s, err);
    }
    set_priorities(s);
    for (size_t j = 0; j < s->n_type; j++)
        order[j] = j;
    if (is_blind(s))
        spot_python_random_shuffle(&r->shuffler, order, s->n_type);
    for (size_t j = 0; !rc && j < s->n_type; j++)
        pick_type(s, order[j], entry, is_picked);
    if (!s->n_pick && s->n_arrived == s->n_job)
        r->last_reset_s = 0;
    free(entry);
    free(is_picked);
    return rc;
}

static void gavel_had(struct spot_share_state *s, size_t i, size_t j, double held_s)
{
    struct rounds *r = s->own;

    at(r->time_s, s, i)[j] += held_s;
    r->worker_time_s[j] += held_s;
}

static void gavel_open(struct spot_share_state *s)
{
    const size_t n = s->n_job * s->n_type;
    struct rounds *r = s->own = spot_xcalloc(1, sizeof(*r));

    r->x = spot_xcalloc(n, sizeof(double));
    r->time_s = spot_xcalloc(n, sizeof(double));
    r->deficit_s = spot_xcalloc(n, sizeof(double));
    r->priority = spot_xcalloc(n, sizeof(double));
    r->has_x = spot_xcalloc(s->n_job, sizeof(bool));
    r->worker_time_s = spot_xcalloc(s->n_type, sizeof(double));
    spot_python_random_init(&r->shuffler, (uint32_t)s->play->seed + SHUFFLER_SEED);
}

static void gavel_close(struct spot_share_state *s)
{
    struct rounds *r = s->own;

    free(r->x);
    free(r->time_s);
    free(r->deficit_s);
    free(r->priority);
    free(r->has_x);
    free(r->worker_time_s);
    free(r);
}

#define ROW(as, text, policy)                                                                    \
    {                                                                                            \
        .name = (as), .about = (text), .pick = gavel_pick, .kind = (policy), .open = gavel_open, \
        .close = gavel_close, .had = gavel_had                                                   \
    }

const struct spot_share_player spot_gavel_players[] = {
    ROW("max-min-perf", "greatest least speed, as a share of the proportional one's (LAS)",
        SPOT_GAVEL_MAX_MIN_PERF),
    ROW("water-filling", "the same, then the second least, and so on", SPOT_GAVEL_WATER_FILLING),
    ROW("finish-time-fairness", "least greatest ratio of time to end, to that of an isolated part",
        SPOT_GAVEL_FTF),
    ROW("makespan", "least time until all are done", SPOT_GAVEL_MAKESPAN),
    ROW("sum-throughput", "most steps per second over all jobs", SPOT_GAVEL_SUM_THROUGHPUT),
    ROW("cost", "most steps per second and usd per hour, summed over jobs", SPOT_GAVEL_COST),
    ROW("cost-slo", "the same, with each job's SLO met where all can be", SPOT_GAVEL_COST_SLO),
    ROW("fifo-perf", "by arrival, each where it is fastest of what is free", SPOT_GAVEL_FIFO_PERF),
    ROW("isolated", "an equal part of every type for each job", SPOT_GAVEL_ISOLATED),
    ROW("proportional", "the same, in wall time", SPOT_GAVEL_PROPORTIONAL),
    { 0 },
};

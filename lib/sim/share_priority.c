/* SPDX-License-Identifier: MIT */
/* Rounds of Gavel as released: shares over what was received of them, greedily. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/share_state.h"

static double *at(double *table, const struct share_state *s, size_t job)
{
    return table + job * s->n_type;
}

/* What it should have had since the last reset, less what it had. */
static void reset(struct share_state *s)
{
    const double elapsed_s = s->now_s - s->last_reset_s, credit_s = s->play->round_s / 2;

    for (size_t j = 0; j < s->n_type; j++) {
        s->worker_time_s[j] = 0;
        for (size_t i = 0; i < s->n_arrived; i++) {
            if (!s->job[i].is_active)
                continue;
            at(s->deficit_s, s, i)[j] += (s->has_x[i] ? at(s->x, s, i)[j] : 0) * elapsed_s -
                                         (at(s->time_s, s, i)[j] - credit_s);
            at(s->time_s, s, i)[j] = credit_s;
            s->worker_time_s[j] += credit_s;
        }
    }
    s->last_reset_s = s->now_s;
}

static int solve(struct share_state *s, struct spot_err *err)
{
    struct spot_share_answer answer;
    struct share_view view;
    int rc;

    share_view_init(&view, s);
    rc = spot_share_allocate(&view.problem, s->policy, &answer, err);
    memset(s->has_x, 0, s->n_job * sizeof(*s->has_x));
    for (size_t k = 0; !rc && k < view.problem.n_job; k++) {
        s->has_x[view.job[k]] = true;
        for (size_t j = 0; j < s->n_type; j++)
            at(s->x, s, view.job[k])[j] = fmin(1, fmax(0, answer.x[k * s->n_type + j]));
    }
    if (!rc)
        spot_share_answer_release(&answer);
    share_view_release(&view);
    s->must_solve = false;
    s->outcome->solves++;
    return rc;
}

static void set_priorities(struct share_state *s)
{
    for (size_t i = 0; i < s->n_arrived; i++)
        for (size_t j = 0; j < s->n_type; j++) {
            const double x = s->has_x[i] ? at(s->x, s, i)[j] : 0;
            const double part =
                s->worker_time_s[j] > 0 ? at(s->time_s, s, i)[j] / s->worker_time_s[j] : 0;

            at(s->priority, s, i)[j] = x == 0 ? 0 : part > 0 ? x / part : x * 1e9;
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

static bool is_fifo(const struct share_state *s)
{
    return s->policy == SPOT_SHARE_FIFO || s->policy == SPOT_SHARE_FIFO_PERF;
}

static void pick_type(struct share_state *s, size_t j, struct entry *entry, bool *is_picked)
{
    int64_t there = s->count[j];
    size_t n = 0;

    for (size_t i = 0; i < s->n_arrived; i++)
        if (s->job[i].is_active)
            entry[n++] = (struct entry){ i, at(s->priority, s, i)[j], at(s->deficit_s, s, i)[j],
                                         s->has_x[i] ? at(s->x, s, i)[j] : 0 };
    if (n)
        qsort(entry, n, sizeof(*entry), by_priority);
    for (size_t k = 0; k < n; k++) {
        const size_t i = entry[k].job;
        const int64_t scale = s->play->jobs->job[i].scale;
        const double rate = s->play->rate[i * s->n_type + j];

        if (is_picked[i] || !(rate > 0) || scale > there || (is_fifo(s) && entry[k].priority <= 0))
            continue;
        there -= scale;
        is_picked[i] = true;
        if (s->has_x[i] || !s->play->is_released) /* as released: it holds the room, and waits */
            s->pick[s->n_pick++] = (struct share_pick){ i, (int)j, scale, rate };
    }
}

/* Those that do not look at speeds shuffle the types. */
static bool is_blind(enum spot_share_policy policy)
{
    return policy == SPOT_SHARE_FIFO || policy == SPOT_SHARE_ISOLATED ||
           policy == SPOT_SHARE_PROPORTIONAL || policy == SPOT_SHARE_MAX_MIN;
}

int share_pick_by_priority(struct share_state *s, struct spot_err *err)
{
    const bool is_due = s->now_s - s->last_reset_s >= s->play->reset_s || s->last_reset_s == 0;
    struct entry *entry = spot_xcalloc(s->n_arrived, sizeof(*entry));
    bool *is_picked = spot_xcalloc(s->n_job, sizeof(*is_picked));
    size_t order[SPOT_SHARE_TYPES_MAX];
    int rc = 0;

    if (s->must_solve && is_due) {
        reset(s);
        rc = solve(s, err);
    }
    set_priorities(s);
    for (size_t j = 0; j < s->n_type; j++)
        order[j] = j;
    if (is_blind(s->policy))
        spot_python_random_shuffle(&s->shuffler, order, s->n_type);
    for (size_t j = 0; !rc && j < s->n_type; j++)
        pick_type(s, order[j], entry, is_picked);
    free(entry);
    free(is_picked);
    return rc;
}

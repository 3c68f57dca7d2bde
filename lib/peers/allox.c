/* SPDX-License-Identifier: MIT */
/* AlloX (Le et al., EuroSys 2020): minimises the sum of completion times, as an assignment of jobs
 * to places in queues. A job that is k-th from the end of a worker's queue delays k jobs, including
 * itself, so its cost there is k times its processing time. The first job of each queue runs.
 *
 * Source: Gavel's policies/allox.py, which handles jobs of one worker. Here a job of several
 * workers is placed in one queue with its worker-time. The first jobs of the queues take their
 * workers in the order of the length of the queue behind them; remaining workers go to the shortest
 * jobs. The parameter alpha (the share of jobs that may compete) is 1: the limit is for fairness,
 * and without it the mean is smallest. Starting a job on another type counts as time. */
#include "peers/share_peers.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/assign.h"

enum { JOBS_MAX = 256 }; /* the others, with most work left, wait for a later round */

struct queue {
    const struct spot_share_state *s;
    struct spot_share_view v;
    size_t n;    /* jobs that compete */
    size_t *job; /* [n] jobs of the view, least work left first */
    int n_col;
    int *type, *place; /* [n_col]: place 1 is the last of a queue */
};

struct entry {
    size_t k, type;
    double rank;
};

static int by_rank(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->rank < y->rank || x->rank > y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->k > y->k) - (x->k < y->k);
}

/* Worker-seconds of a job on a type. */
static double area(const struct queue *q, size_t k, size_t j)
{
    const struct spot_share_want *want = &q->v.want[k];
    const double rate = q->v.rate[k * q->s->n_type + j];
    const double lost = want->on == (int)j ? 0 : want->unsaved;
    const double begin_s = want->on == (int)j ? 0 : q->s->play->switch_s;

    if (!(rate > 0) || want->scale > q->s->count[j])
        return INFINITY;
    return ((want->left + lost) / rate + begin_s) * (double)want->scale;
}

static void choose_jobs(struct queue *q)
{
    struct entry *entry = spot_xcalloc(q->v.problem.n_job, sizeof(*entry));

    for (size_t k = 0; k < q->v.problem.n_job; k++) {
        entry[k] = (struct entry){ k, 0, INFINITY };
        for (size_t j = 0; j < q->s->n_type; j++)
            entry[k].rank = fmin(entry[k].rank, area(q, k, j));
        q->n += isfinite(entry[k].rank);
    }
    if (q->v.problem.n_job)
        qsort(entry, q->v.problem.n_job, sizeof(*entry), by_rank);
    q->n = q->n < JOBS_MAX ? q->n : JOBS_MAX;
    q->job = spot_xcalloc(q->n, sizeof(*q->job));
    for (size_t i = 0; i < q->n; i++)
        q->job[i] = entry[i].k;
    free(entry);
}

/* As many places on each type as there are jobs, in as few rows as its workers allow. */
static void make_places(struct queue *q)
{
    q->type = spot_xcalloc(q->n * q->s->n_type, sizeof(*q->type));
    q->place = spot_xcalloc(q->n * q->s->n_type, sizeof(*q->place));
    for (size_t j = 0; j < q->s->n_type; j++)
        for (size_t i = 0; q->s->count[j] && i < q->n; i++) {
            q->type[q->n_col] = (int)j;
            q->place[q->n_col++] = 1 + (int)((int64_t)i / q->s->count[j]);
        }
}

static int assign(const struct queue *q, struct spot_assignment *answer, struct spot_err *err)
{
    int64_t *cost = spot_xcalloc(q->n * (size_t)q->n_col, sizeof(*cost));
    const struct spot_assign_problem problem = { .n_row = (int)q->n,
                                                 .n_col = q->n_col,
                                                 .cost = cost };
    int rc;

    for (size_t i = 0; i < q->n; i++)
        for (int c = 0; c < q->n_col; c++) {
            const double a = area(q, q->job[i], (size_t)q->type[c]);

            cost[i * (size_t)q->n_col + (size_t)c] =
                isfinite(a) ? llround(fmin(a * 10, 1e12)) * q->place[c] : SPOT_ASSIGN_FORBIDDEN;
        }
    rc = spot_assign(&problem, answer, err);
    free(cost);
    return rc;
}

static void take(struct spot_share_state *s, const struct queue *q, const struct entry *e,
                 int64_t *there, bool *is_taken)
{
    const int64_t scale = q->v.want[e->k].scale;

    if (is_taken[e->k] || there[e->type] < scale)
        return;
    is_taken[e->k] = true;
    there[e->type] -= scale;
    s->pick[s->n_pick++] = (struct spot_share_pick){ q->v.job[e->k], (int)e->type, scale,
                                                     q->v.rate[e->k * s->n_type + e->type] };
}

/* Start first the jobs with the longest queues behind them; then all others on the type where they
 * end first. */
static void run_first(struct spot_share_state *s, const struct queue *q,
                      const struct spot_assignment *answer)
{
    struct entry *entry = spot_xcalloc(q->n * (1 + s->n_type), sizeof(*entry));
    int64_t *there = spot_xcalloc(s->n_type, sizeof(*there));
    bool *is_taken = spot_xcalloc(q->v.problem.n_job, sizeof(*is_taken));
    size_t n = 0;

    for (size_t j = 0; j < s->n_type; j++)
        there[j] = s->count[j];
    for (size_t i = 0; i < q->n; i++) {
        const int c = answer->col_of_row[i];

        if (c >= 0)
            entry[n++] = (struct entry){ q->job[i], (size_t)q->type[c],
                                         -(double)q->place[c] * 1e15 +
                                             area(q, q->job[i], (size_t)q->type[c]) };
        for (size_t j = 0; j < s->n_type; j++)
            if (isfinite(area(q, q->job[i], j)))
                entry[n++] = (struct entry){ q->job[i], j, 1e15 + area(q, q->job[i], j) };
    }
    if (n)
        qsort(entry, n, sizeof(*entry), by_rank);
    for (size_t e = 0; e < n; e++)
        take(s, q, &entry[e], there, is_taken);
    free(entry);
    free(there);
    free(is_taken);
}

static int allox_pick(struct spot_share_state *s, struct spot_err *err)
{
    struct queue q = { .s = s };
    struct spot_assignment answer = { 0 };
    int rc = 0;

    spot_share_view_of(s, &q.v);
    choose_jobs(&q);
    make_places(&q);
    if (q.n)
        rc = assign(&q, &answer, err);
    if (!rc && q.n && answer.is_feasible)
        run_first(s, &q, &answer);
    s->outcome->solves++;
    spot_assignment_release(&answer);
    spot_share_view_release(&q.v);
    free(q.job);
    free(q.type);
    free(q.place);
    return rc;
}

const struct spot_share_player spot_allox_players[] = {
    { .name = "allox",
      .about = "AlloX: jobs to places in queues, least sum of completion times",
      .pick = allox_pick },
    { 0 },
};

/* SPDX-License-Identifier: MIT */
#include "plan/migration/sources.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

struct work {
    struct spot_sources *s;
    int *order; /* jobs, largest first */
    int64_t *load;
    int *best; /* holder of each job in the best answer so far */
    double best_s;
    long n_step, n_look;
};

static double time_of(const struct work *w, int node, int64_t byte)
{
    return (double)byte <= w->s->limit_byte[node] ? (double)byte / w->s->out_byte_per_s[node]
                                                  : INFINITY;
}

static int busiest(const struct work *w)
{
    int node = 0;

    for (int h = 1; h < w->s->n_node; h++)
        if (time_of(w, h, w->load[h]) > time_of(w, node, w->load[node]))
            node = h;
    return node;
}

struct rank {
    int64_t byte;
    int n_holder, job;
};

/* Largest first, then fewest holders, then the lower index. */
static int by_rank(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    if (x->byte != y->byte)
        return x->byte < y->byte ? 1 : -1;
    return x->n_holder != y->n_holder ? x->n_holder - y->n_holder : x->job - y->job;
}

static void sort_jobs(struct work *w)
{
    const int n = w->s->n_job;
    struct rank *rank = spot_xcalloc((size_t)n, sizeof *rank);

    for (int k = 0; k < n; k++)
        rank[k] = (struct rank){ w->s->job[k].byte, w->s->job[k].n_holder, k };
    qsort(rank, (size_t)n, sizeof *rank, by_rank);
    for (int k = 0; k < n; k++)
        w->order[k] = rank[k].job;
    free(rank);
}

static void give(struct work *w, int k, int to)
{
    struct spot_source_job *job = &w->s->job[k];

    if (job->from >= 0)
        w->load[job->from] -= job->byte;
    job->from = to;
    if (to >= 0)
        w->load[to] += job->byte;
}

static void fill_greedily(struct work *w)
{
    for (int i = 0; i < w->s->n_job; i++) {
        struct spot_source_job *job = &w->s->job[w->order[i]];
        int to = job->holder[0];

        for (int h = 1; h < job->n_holder; h++)
            if (time_of(w, job->holder[h], w->load[job->holder[h]] + job->byte) <
                time_of(w, to, w->load[to] + job->byte))
                to = job->holder[h];
        give(w, w->order[i], to);
    }
}

/* Take job k off the busiest node: hand it over to another node, possibly in exchange for a smaller
 * job of that node which a third node (or the busiest) can serve. All three must end below `limit`.
 */
static bool hand_over(struct work *w, int k, double limit)
{
    const struct spot_source_job *job = &w->s->job[k];
    const int giver = job->from;

    for (int h = 0; h < job->n_holder; h++) {
        const int taker = job->holder[h];

        if (taker == giver)
            continue;
        if (time_of(w, taker, w->load[taker] + job->byte) < limit) {
            give(w, k, taker);
            return true;
        }
        for (int q = 0; q < w->s->n_job && w->n_look < w->s->look_max; q++) {
            const struct spot_source_job *other = &w->s->job[q];

            w->n_look++;
            if (other->from != taker ||
                time_of(w, taker, w->load[taker] + job->byte - other->byte) >= limit)
                continue;
            for (int g = 0; g < other->n_holder; g++) {
                const int third = other->holder[g];
                const int64_t without = w->load[third] - (third == giver ? job->byte : 0);

                if (third == taker || time_of(w, third, without + other->byte) >= limit)
                    continue;
                give(w, k, taker);
                give(w, q, third);
                return true;
            }
        }
    }
    return false;
}

static void improve(struct work *w)
{
    for (int round = 0; round < 4 * w->s->n_job; round++) {
        const int node = busiest(w);
        const double limit = time_of(w, node, w->load[node]);
        bool is_better = false;

        if (limit <= w->s->target_s || w->n_look >= w->s->look_max)
            return;
        for (int i = 0; i < w->s->n_job && !is_better; i++)
            if (w->s->job[w->order[i]].from == node)
                is_better = hand_over(w, w->order[i], limit);
        if (!is_better)
            return;
    }
}

static void keep(struct work *w, double busiest_s)
{
    w->best_s = busiest_s;
    for (int k = 0; k < w->s->n_job; k++)
        w->best[k] = w->s->job[k].from;
}

/* Branch on the holder of the i-th job; so_far_s is the time of the busiest sender up to here.
 * False once the budget is spent. */
static bool branch(struct work *w, int i, double so_far_s)
{
    const int k = i < w->s->n_job ? w->order[i] : -1;

    if (so_far_s >= w->best_s || w->best_s <= w->s->target_s)
        return true;
    if (k < 0) {
        keep(w, so_far_s);
        return true;
    }
    for (int h = 0; h < w->s->job[k].n_holder; h++) {
        const int to = w->s->job[k].holder[h];
        double now_s;
        bool is_done;

        if (++w->n_step > w->s->step_max)
            return false;
        give(w, k, to);
        now_s = time_of(w, to, w->load[to]);
        is_done = branch(w, i + 1, now_s > so_far_s ? now_s : so_far_s);
        give(w, k, -1);
        if (!is_done)
            return false;
    }
    return true;
}

void spot_sources_choose(struct spot_sources *s)
{
    struct work w = { .s = s };
    int top;

    w.order = spot_xcalloc((size_t)s->n_job, sizeof(int));
    w.best = spot_xcalloc((size_t)s->n_job, sizeof(int));
    w.load = spot_xcalloc((size_t)s->n_node, sizeof(int64_t));
    for (int k = 0; k < s->n_job; k++)
        s->job[k].from = -1;
    sort_jobs(&w);
    fill_greedily(&w);
    improve(&w);
    top = busiest(&w);
    keep(&w, s->n_node ? time_of(&w, top, w.load[top]) : 0);
    if (w.best_s > s->target_s) {
        for (int k = 0; k < s->n_job; k++)
            give(&w, k, -1);
        branch(&w, 0, 0);
        for (int k = 0; k < s->n_job; k++)
            s->job[k].from = w.best[k];
    }
    s->busiest_s = w.best_s;
    free(w.order), free(w.best), free(w.load);
}

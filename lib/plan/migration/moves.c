/* SPDX-License-Identifier: MIT */
#include "plan/moves.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/migration/place.h"
#include "plan/migration/sources.h"

enum {
    SCORES_MAX = 300,          /* placements scored in one plan */
    SMALL_JOBS = 24,           /* up to here sources are searched exhaustively while scoring */
    STEPS_WHILE_SCORING = 400, /* branch and bound steps */
    STEPS_AT_THE_END = 20000,
};

struct planner {
    const struct spot_move_problem *p;
    const double *out_rate, *in_rate; /* [n_node] */
    double *ones;                     /* [n_node] */
    int *holder;                      /* [n_unit * n_node], holders of unit u from u * n_node on */
    int *n_holder;                    /* [n_unit] */
    int64_t *in_byte;                 /* [n_position * n_node] */
    struct spot_source_job *job;      /* [n_position * n_unit] */
    int *job_unit, *job_to;           /* of each job */
    int n_job;                        /* under the placement scored last */
};

static bool holds(const struct planner *w, int node, int unit)
{
    return w->p->holds[(size_t)node * w->p->n_unit + unit];
}

static bool needs(const struct planner *w, int position, int unit)
{
    return w->p->needs[(size_t)position * w->p->n_unit + unit];
}

static void init(struct planner *w, const struct spot_move_problem *p)
{
    const size_t n = (size_t)p->n_node, n_unit = (size_t)p->n_unit;

    w->p = p;
    w->ones = spot_xcalloc(n, sizeof(double));
    for (int i = 0; i < p->n_node; i++)
        w->ones[i] = 1;
    w->out_rate = p->out_byte_per_s ? p->out_byte_per_s : w->ones;
    w->in_rate = p->in_byte_per_s ? p->in_byte_per_s : w->ones;
    w->holder = spot_xcalloc(n * n_unit, sizeof(int));
    w->n_holder = spot_xcalloc(n_unit, sizeof(int));
    w->in_byte = spot_xcalloc((size_t)p->n_position * n, sizeof(int64_t));
    w->job = spot_xcalloc((size_t)p->n_position * n_unit, sizeof *w->job);
    w->job_unit = spot_xcalloc((size_t)p->n_position * n_unit, sizeof(int));
    w->job_to = spot_xcalloc((size_t)p->n_position * n_unit, sizeof(int));
    for (int u = 0; u < p->n_unit; u++)
        for (int i = 0; i < p->n_node; i++)
            if (holds(w, i, u))
                w->holder[(size_t)u * n + (size_t)w->n_holder[u]++] = i;
    for (int q = 0; q < p->n_position; q++)
        for (int i = 0; i < p->n_node; i++)
            for (int u = 0; u < p->n_unit; u++)
                if (needs(w, q, u) && w->n_holder[u] && !holds(w, i, u))
                    w->in_byte[(size_t)q * n + (size_t)i] += p->unit_byte[u];
}

static void release(struct planner *w)
{
    free(w->ones), free(w->holder), free(w->n_holder), free(w->in_byte), free(w->job);
    free(w->job_unit), free(w->job_to);
}

/* What must travel under a placement. */
static void list_jobs(struct planner *w, const int *node_of_position)
{
    int n = 0;

    for (int q = 0; q < w->p->n_position; q++)
        for (int u = 0; u < w->p->n_unit; u++) {
            const int to = node_of_position[q];

            if (!needs(w, q, u) || !w->n_holder[u] || holds(w, to, u))
                continue;
            w->job[n] =
                (struct spot_source_job){ w->p->unit_byte[u], w->holder + (size_t)u * w->p->n_node,
                                          w->n_holder[u], -1 };
            w->job_unit[n] = u;
            w->job_to[n++] = to;
        }
    w->n_job = n;
}

static struct spot_place_score score(void *user, const int *node_of_position, double give_up_s)
{
    struct planner *w = user;
    struct spot_place_score score = { 0 };
    struct spot_sources s = { .job = w->job, .n_node = w->p->n_node };

    (void)give_up_s;
    list_jobs(w, node_of_position);
    s.n_job = w->n_job;
    s.out_byte_per_s = w->out_rate;
    s.step_max = s.n_job <= SMALL_JOBS ? STEPS_AT_THE_END : STEPS_WHILE_SCORING;
    for (int q = 0; q < w->p->n_position; q++) {
        const int node = node_of_position[q];
        const int64_t byte = w->in_byte[(size_t)q * w->p->n_node + node];
        const double in_s = (double)byte / w->in_rate[node];

        score.byte += byte;
        score.n_touched += byte > 0;
        if (in_s > s.target_s)
            s.target_s = in_s;
    }
    spot_sources_choose(&s);
    score.makespan_s = s.busiest_s > s.target_s ? s.busiest_s : s.target_s;
    return score;
}

/* Number the nodes with equal holdings and links, and the positions with equal needs. */
static void classify(const struct planner *w, int *node_class, int *position_class)
{
    const struct spot_move_problem *p = w->p;
    const size_t n_unit = (size_t)p->n_unit;

    for (int i = 0; i < p->n_node; i++) {
        int j = 0;

        while (j < i && (memcmp(p->holds + i * n_unit, p->holds + j * n_unit, n_unit) ||
                         w->out_rate[i] != w->out_rate[j] || w->in_rate[i] != w->in_rate[j] ||
                         p->can_place[i] != p->can_place[j]))
            j++;
        node_class[i] = j;
    }
    for (int q = 0; q < p->n_position; q++) {
        int r = 0;

        while (r < q && memcmp(p->needs + q * n_unit, p->needs + r * n_unit, n_unit) != 0)
            r++;
        position_class[q] = r;
    }
}

/* In each sender's queue the moves come as listed; senders start side by side, and what only
 * leaving nodes hold goes before everything else. */
struct queued {
    struct spot_move move;
    bool is_urgent;
    int64_t begin_byte; /* sent before it by the same node */
};

static int by_start(const void *a, const void *b)
{
    const struct queued *x = a, *y = b;

    if (x->is_urgent != y->is_urgent)
        return x->is_urgent ? -1 : 1;
    if (x->begin_byte != y->begin_byte)
        return x->begin_byte < y->begin_byte ? -1 : 1;
    if (x->move.from != y->move.from)
        return x->move.from - y->move.from;
    if (x->move.unit != y->move.unit)
        return x->move.unit - y->move.unit;
    return x->move.to - y->move.to;
}

static bool is_leaving_with(const struct planner *w, int unit)
{
    for (int h = 0; h < w->n_holder[unit]; h++)
        if (w->p->can_place[w->holder[(size_t)unit * w->p->n_node + h]])
            return false;
    return true;
}

static void queue_jobs(const struct planner *w, struct spot_move_plan *plan)
{
    const int n_job = w->n_job;
    struct queued *queued = spot_xcalloc((size_t)n_job, sizeof *queued);
    int64_t *sent = spot_xcalloc((size_t)w->p->n_node, sizeof(int64_t));

    for (int urgent = 1; urgent >= 0; urgent--)
        for (int k = 0; k < n_job; k++) {
            const int from = w->job[k].from, unit = w->job_unit[k];

            if (is_leaving_with(w, unit) != urgent)
                continue;
            queued[k] = (struct queued){ { unit, from, w->job_to[k] }, urgent, sent[from] };
            sent[from] += w->job[k].byte;
        }
    qsort(queued, (size_t)n_job, sizeof *queued, by_start);
    for (int k = 0; k < n_job; k++) {
        plan->move[plan->n_move++] = queued[k].move;
        plan->total_byte += w->p->unit_byte[queued[k].move.unit];
    }
    free(queued), free(sent);
}

/* What no node holds comes from durable storage, beside the network. */
static void queue_lost(const struct planner *w, struct spot_move_plan *plan)
{
    for (int u = 0; u < w->p->n_unit; u++) {
        bool is_needed = false;

        for (int q = 0; q < w->p->n_position && !w->n_holder[u]; q++)
            if (needs(w, q, u)) {
                is_needed = true;
                plan->move[plan->n_move++] = (struct spot_move){ u, -1, plan->node_of_position[q] };
            }
        plan->lost_byte += is_needed ? w->p->unit_byte[u] : 0;
    }
}

static void write_plan(struct planner *w, struct spot_place *place, struct spot_move_plan *plan)
{
    const size_t n = (size_t)w->p->n_position * (size_t)w->p->n_unit;

    plan->node_of_position = place->node_of_position;
    place->node_of_position = NULL;
    plan->move = spot_xcalloc(n, sizeof *plan->move);
    plan->makespan_s = place->score.makespan_s;
    plan->bound_s = place->bound_s;
    score(w, plan->node_of_position, 0);
    queue_lost(w, plan);
    queue_jobs(w, plan);
}

int spot_moves_plan(const struct spot_move_problem *p, struct spot_move_plan *plan,
                    struct spot_err *err)
{
    struct planner w = { 0 };
    struct spot_place place;
    int *node_class = spot_xcalloc((size_t)p->n_node, sizeof(int));
    int *position_class = spot_xcalloc((size_t)p->n_position, sizeof(int));
    struct spot_place_problem search = { .n_node = p->n_node,
                                         .n_position = p->n_position,
                                         .can_place = p->can_place,
                                         .node_class = node_class,
                                         .position_class = position_class,
                                         .score_max = SCORES_MAX,
                                         .climb_max = SCORES_MAX,
                                         .score = score,
                                         .user = &w };
    int rc;

    *plan = (struct spot_move_plan){ 0 };
    init(&w, p);
    classify(&w, node_class, position_class);
    search.in_byte = w.in_byte;
    search.in_byte_per_s = w.in_rate;
    for (int i = 0; i < p->n_node; i++)
        search.out_byte_per_s += w.out_rate[i];
    rc = spot_place_search(&search, &place, err);
    if (!rc)
        write_plan(&w, &place, plan);
    spot_place_release(&place);
    release(&w);
    free(node_class), free(position_class);
    return rc;
}

void spot_move_plan_release(struct spot_move_plan *plan)
{
    free(plan->node_of_position);
    free(plan->move);
    *plan = (struct spot_move_plan){ 0 };
}

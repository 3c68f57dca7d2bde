/* SPDX-License-Identifier: MIT */
/* Static schedules in unit time: in each tick every stage takes one task; then what these finished
 * becomes ready. A backward pass is followed by its weight update, which is a separate task in
 * Varuna (first in line, so it takes a tick) and in GPipe (last in line), and is not recorded. */
#include <stdlib.h>

#include "common/xalloc.h"
#include "peers/pipe_sim.h"

enum queue { FORWARD, RECOMPUTE, BACKWARD, UPDATE, QUEUES, NOTHING = QUEUES };

/* First in, first out; room for [m] each. */
struct fifo {
    int *micro;
    int head, n;
};

struct maker {
    enum spot_pipe_policy policy;
    int p, m;
    struct fifo *queue; /* [p][QUEUES] */
    int *n_forward, *n_backward;
    bool *backward_next; /* 1F1B in its steady phase: the next task is a backward */
};

static struct fifo *queue_of(struct maker *s, int stage, enum queue kind)
{
    return &s->queue[stage * QUEUES + (int)kind];
}

static void put(struct maker *s, int stage, enum queue kind, int micro)
{
    struct fifo *q = queue_of(s, stage, kind);

    q->micro[q->head + q->n++] = micro;
}

/* 1F1B: forwards to fill the pipeline, then one of each, then backwards to drain it. (The release
 * never drains a stage that is farther from the end than there are microbatches.) */
static enum queue pick_1f1b(struct maker *s, int k)
{
    const int fill = s->p - k - 1 < s->m ? s->p - k - 1 : s->m;
    enum queue want;

    if (s->n_forward[k] < fill)
        want = FORWARD;
    else if (s->n_backward[k] >= s->m - fill)
        want = BACKWARD;
    else
        want = s->backward_next[k] ? BACKWARD : FORWARD;
    if (!queue_of(s, k, want)->n)
        return NOTHING;
    if (s->n_forward[k] >= fill && s->n_backward[k] < s->m - fill)
        s->backward_next[k] = want == FORWARD;
    s->n_forward[k] += want == FORWARD;
    s->n_backward[k] += want == BACKWARD;
    return want;
}

static enum queue pick(struct maker *s, int k)
{
    static const enum queue order[2][QUEUES] = { { UPDATE, BACKWARD, RECOMPUTE, FORWARD },
                                                 { FORWARD, BACKWARD, RECOMPUTE, UPDATE } };

    if (s->policy == SPOT_PIPE_1F1B)
        return pick_1f1b(s, k);
    for (int i = 0; i < QUEUES; i++)
        if (queue_of(s, k, order[s->policy == SPOT_PIPE_GPIPE][i])->n)
            return order[s->policy == SPOT_PIPE_GPIPE][i];
    return NOTHING;
}

static void finish(struct maker *s, int k, enum queue kind, int micro)
{
    const bool is_last = k == s->p - 1, gpipe = s->policy == SPOT_PIPE_GPIPE;

    if (kind == FORWARD) {
        if (!is_last)
            put(s, k + 1, FORWARD, micro);
        else if (!gpipe)
            put(s, k, BACKWARD, micro);
        else if (micro == s->m - 1)
            put(s, k, RECOMPUTE, micro);
    } else if (kind == RECOMPUTE) {
        put(s, k, BACKWARD, micro);
        if (gpipe && k > 0)
            put(s, k - 1, RECOMPUTE, micro);
    } else if (kind == BACKWARD) {
        put(s, k, UPDATE, micro);
        if (gpipe && is_last && micro > 0)
            put(s, k, RECOMPUTE, micro - 1);
        else if (s->policy == SPOT_PIPE_VARUNA && k > 0)
            put(s, k - 1, RECOMPUTE, micro);
        else if (s->policy == SPOT_PIPE_1F1B && k > 0)
            put(s, k - 1, BACKWARD, micro);
    }
}

/* One tick; false if no stage found work. */
static bool tick(struct maker *s, struct spot_pipe_task *task, int *n_task, enum queue *kind,
                 int *micro)
{
    static const char letter[QUEUES] = { 'F', 'R', 'B', 'U' };
    bool any = false;

    for (int k = 0; k < s->p; k++) {
        struct fifo *q;

        kind[k] = pick(s, k);
        if (kind[k] == NOTHING)
            continue;
        any = true;
        q = queue_of(s, k, kind[k]);
        micro[k] = q->micro[q->head++];
        q->n--;
        if (kind[k] != UPDATE)
            task[(size_t)k * 3 * (size_t)s->m + (size_t)n_task[k]++] =
                (struct spot_pipe_task){ letter[kind[k]], micro[k] };
    }
    for (int k = 0; k < s->p; k++)
        if (kind[k] != NOTHING)
            finish(s, k, kind[k], micro[k]);
    return any;
}

void spot_pipe_schedule(enum spot_pipe_policy policy, int p, int m, struct spot_pipe_task **task,
                        int *n_task)
{
    const size_t n = (size_t)p;
    int *place = spot_xcalloc(n * QUEUES * (size_t)m, sizeof(*place));
    struct maker s = { .policy = policy,
                       .p = p,
                       .m = m,
                       .queue = spot_xcalloc(n * QUEUES, sizeof(*s.queue)),
                       .n_forward = spot_xcalloc(n, sizeof(int)),
                       .n_backward = spot_xcalloc(n, sizeof(int)),
                       .backward_next = spot_xcalloc(n, sizeof(bool)) };
    enum queue *kind = spot_xcalloc(n, sizeof(*kind));
    int *micro = spot_xcalloc(n, sizeof(*micro));

    *task = spot_xcalloc(n * 3 * (size_t)m, sizeof(**task));
    for (size_t i = 0; i < n * QUEUES; i++)
        s.queue[i].micro = place + i * (size_t)m;
    for (int i = 0; i < m; i++)
        put(&s, 0, FORWARD, i);
    for (int k = 0; k < p; k++)
        n_task[k] = 0;
    while (tick(&s, *task, n_task, kind, micro))
        ;
    free(place);
    free(s.queue);
    free(s.n_forward);
    free(s.n_backward);
    free(s.backward_next);
    free(kind);
    free(micro);
}

/* SPDX-License-Identifier: MIT */
#include "peers/pipe_sim.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { TRANSFERS_MAX = 4, TRIES_MAX = 10, NS_PER_US = 1000 };

/* --- the C library's random(3) from its default seed, which orders the released events --- */

enum { LAG = 31, NEAR = 3, WARM_UP = 310 };

struct additive {
    uint32_t r[LAG];
    int at;
};

static uint32_t additive_next(struct additive *a)
{
    const uint32_t x = a->r[a->at] + a->r[(a->at + LAG - NEAR) % LAG];

    a->r[a->at] = x;
    a->at = (a->at + 1) % LAG;
    return x >> 1;
}

static void additive_init(struct additive *a)
{
    a->at = NEAR;
    a->r[0] = 1;
    for (int i = 1; i < LAG; i++)
        a->r[i] = (uint32_t)((uint64_t)a->r[i - 1] * 16807 % 2147483647);
    for (int i = 0; i < WARM_UP; i++)
        additive_next(a);
}

/* --- events --- */

enum what {
    BEGIN_FORWARD,
    BEGIN_RECOMPUTE,
    BEGIN_BACKWARD,
    BEGIN_SEND_ACT,
    BEGIN_SEND_GRAD,
    END_FORWARD,
    END_RECOMPUTE,
    END_BACKWARD,
    END_SEND,
    GOT_ACT,
    GOT_GRAD,
    MAY_RECOMPUTE,
};

struct event {
    int64_t ns;
    uint64_t order;
    int stage, micro;
    enum what what;
};

struct queue {
    int *micro; /* [m] */
    int n;
};

enum { FORWARD, RECOMPUTE, BACKWARD, SEND_ACT, SEND_GRAD, QUEUES };

struct stage {
    struct queue queue[QUEUES];
    struct spot_pipe_task *task; /* [n_task] in the order of completion */
    int n_task, at;
    bool is_busy;
    int n_transfer, recomputed; /* the microbatch whose activations were recomputed, or -1 */
    int last_forward, last_recompute;
};

struct run {
    const struct spot_pipe_sim *sim;
    struct stage *stage; /* [p] */
    struct event *heap;
    size_t n_event, cap;
    uint64_t n_added;
    struct additive random;
};

static bool before(const struct event *a, const struct event *b)
{
    return a->ns != b->ns ? a->ns < b->ns : a->order < b->order;
}

static bool is_taken(const struct run *r, int64_t ns)
{
    for (size_t i = 0; i < r->n_event; i++)
        if (r->heap[i].ns == ns)
            return true;
    return false;
}

static void add(struct run *r, int64_t us, int stage, int micro, enum what what)
{
    struct event e = { us * NS_PER_US, r->n_added++, stage, micro, what };
    size_t i = r->n_event;

    if (r->sim->is_released && is_taken(r, e.ns))
        for (int k = 0; k < TRIES_MAX; k++) {
            const int64_t ns = us * NS_PER_US + additive_next(&r->random) % NS_PER_US;

            if (!is_taken(r, ns)) {
                e.ns = ns;
                break;
            }
        }
    r->heap = spot_xgrow(r->heap, &r->cap, r->n_event + 1, sizeof(*r->heap));
    r->n_event++;
    for (; i && before(&e, &r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = e;
}

static struct event pop(struct run *r)
{
    const struct event first = r->heap[0], last = r->heap[--r->n_event];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < r->n_event; i = child) {
        if (child + 1 < r->n_event && before(&r->heap[child + 1], &r->heap[child]))
            child++;
        if (!before(&r->heap[child], &last))
            break;
        r->heap[i] = r->heap[child];
    }
    r->heap[i] = last;
    return first;
}

/* --- queues --- */

static void put(struct queue *q, int at, int micro)
{
    memmove(q->micro + at + 1, q->micro + at, (size_t)(q->n - at) * sizeof(int));
    q->micro[at] = micro;
    q->n++;
}

static void append(struct queue *q, int micro)
{
    put(q, q->n, micro);
}

/* Insert in ascending or descending order. */
static void insert(struct queue *q, int micro, bool down)
{
    int at = 0;

    while (at < q->n && (down ? micro < q->micro[at] : micro > q->micro[at]))
        at++;
    put(q, at, micro);
}

static int take(struct queue *q)
{
    const int micro = q->micro[0];

    q->n--;
    memmove(q->micro, q->micro + 1, (size_t)q->n * sizeof(int));
    return micro;
}

/* --- stages --- */

/* The recompute that is due is not ready: move the next forward to the front. */
static void swap_in_forward(struct stage *s)
{
    for (int i = s->at + 1; i < s->n_task; i++)
        if (s->task[i].kind == 'F') {
            const struct spot_pipe_task t = s->task[i];

            memmove(s->task + s->at + 1, s->task + s->at, (size_t)(i - s->at) * sizeof(*s->task));
            s->task[s->at] = t;
            return;
        }
}

static bool heads(const struct queue *q, int micro)
{
    return q->n && q->micro[0] == micro;
}

static bool needs_recompute(const struct run *r, int k)
{
    return k < r->sim->p - 1 && (r->sim->policy != SPOT_PIPE_1F1B || r->sim->is_released);
}

static void serve_compute(struct run *r, int k, int64_t now)
{
    struct stage *s = &r->stage[k];
    struct spot_pipe_task t;
    int kind = -1;

    if (s->is_busy || s->at == s->n_task)
        return;
    if (r->sim->policy != SPOT_PIPE_GPIPE && s->task[s->at].kind == 'R' && !s->queue[RECOMPUTE].n &&
        s->last_forward < r->sim->m - 1)
        swap_in_forward(s);
    t = s->task[s->at];
    if (t.kind == 'B' && heads(&s->queue[BACKWARD], t.micro) &&
        (!needs_recompute(r, k) || s->recomputed == t.micro))
        kind = BACKWARD;
    else if (t.kind == 'R' && s->recomputed < 0 && heads(&s->queue[RECOMPUTE], t.micro))
        kind = RECOMPUTE;
    else if (t.kind == 'F' && s->recomputed < 0 && heads(&s->queue[FORWARD], t.micro))
        kind = FORWARD;
    if (kind < 0)
        return;
    s->last_recompute += kind == RECOMPUTE;
    s->last_forward += kind == FORWARD;
    s->at++;
    add(r, now, k, take(&s->queue[kind]),
        kind == FORWARD     ? BEGIN_FORWARD
        : kind == RECOMPUTE ? BEGIN_RECOMPUTE
                            : BEGIN_BACKWARD);
}

static void serve(struct run *r, int k, int64_t now)
{
    struct stage *s = &r->stage[k];

    serve_compute(r, k, now);
    for (int q = SEND_ACT; q <= SEND_GRAD; q++)
        if (s->n_transfer < TRANSFERS_MAX && s->queue[q].n)
            add(r, now, k, take(&s->queue[q]), q == SEND_ACT ? BEGIN_SEND_ACT : BEGIN_SEND_GRAD);
}

static void ended_compute(struct run *r, const struct event *e, int64_t now)
{
    struct stage *s = &r->stage[e->stage];
    const bool gpipe = r->sim->policy == SPOT_PIPE_GPIPE, is_last = e->stage == r->sim->p - 1;

    s->is_busy = false;
    if (e->what == END_FORWARD) {
        if (!is_last)
            append(&s->queue[SEND_ACT], e->micro);
        else if (!gpipe)
            insert(&s->queue[BACKWARD], e->micro, false);
        else if (e->micro == r->sim->m - 1)
            append(&s->queue[RECOMPUTE], e->micro);
    } else if (e->what == END_BACKWARD) {
        s->recomputed = -1;
        if (e->stage > 0)
            append(&s->queue[SEND_GRAD], e->micro);
        if (is_last && gpipe && e->micro > 0)
            append(&s->queue[RECOMPUTE], e->micro - 1);
    } else {
        s->recomputed = e->micro;
        if (!gpipe || is_last)
            insert(&s->queue[BACKWARD], e->micro, gpipe);
        if (gpipe && e->stage > 0)
            add(r, now, e->stage - 1, e->micro, MAY_RECOMPUTE);
    }
}

static void received_grad(struct run *r, const struct event *e)
{
    struct stage *s = &r->stage[e->stage];
    struct queue *redo = &s->queue[RECOMPUTE];

    if (r->sim->policy == SPOT_PIPE_GPIPE)
        insert(&s->queue[BACKWARD], e->micro, true);
    else if (!needs_recompute(r, e->stage))
        insert(&s->queue[BACKWARD], e->micro, false);
    else
        append(redo, redo->n ? redo->micro[redo->n - 1] + 1 : s->last_recompute + 1);
}

static void send(struct run *r, const struct event *e, int64_t now, int to)
{
    const struct spot_pipe_sim *sim = r->sim;
    const bool near = e->stage / sim->per_machine == to / sim->per_machine;
    const int64_t end = now + (near ? sim->send_us : sim->send_far_us);

    r->stage[e->stage].n_transfer++;
    add(r, end, e->stage, e->micro, END_SEND);
    add(r, end, to, e->micro, to > e->stage ? GOT_ACT : GOT_GRAD);
}

static void handle(struct run *r, const struct event *e, int64_t now)
{
    const struct spot_pipe_sim *sim = r->sim;
    struct stage *s = &r->stage[e->stage];

    switch (e->what) {
    case BEGIN_FORWARD:
    case BEGIN_RECOMPUTE:
        s->is_busy = true;
        add(r, now + sim->forward_us[e->stage], e->stage, e->micro,
            e->what == BEGIN_FORWARD ? END_FORWARD : END_RECOMPUTE);
        break;
    case BEGIN_BACKWARD:
        s->is_busy = true;
        add(r, now + sim->backward_us[e->stage], e->stage, e->micro, END_BACKWARD);
        break;
    case BEGIN_SEND_ACT:
        send(r, e, now, e->stage + 1);
        break;
    case BEGIN_SEND_GRAD:
        send(r, e, now, e->stage - 1);
        break;
    case END_SEND:
        s->n_transfer--;
        break;
    case GOT_ACT:
        insert(&s->queue[FORWARD], e->micro, false);
        break;
    case GOT_GRAD:
        received_grad(r, e);
        break;
    case MAY_RECOMPUTE:
        insert(&s->queue[RECOMPUTE], e->micro, true);
        break;
    case END_FORWARD:
    case END_RECOMPUTE:
    case END_BACKWARD:
        ended_compute(r, e, now);
        break;
    }
    serve(r, e->stage, now);
}

int spot_pipe_sim_run(const struct spot_pipe_sim *sim, int64_t *us, struct spot_err *err)
{
    struct run r = { .sim = sim };
    const size_t p = (size_t)sim->p, m = (size_t)sim->m;
    struct spot_pipe_task *task;
    int *micro, *n_task;
    int64_t now = 0;
    bool is_done = true;

    if (sim->p < 1 || sim->p > SPOT_PIPE_STAGES_MAX || sim->m < 1 ||
        sim->m > SPOT_PIPE_TASKS_MAX / sim->p || sim->per_machine < 1)
        return spot_err_set(err, SPOT_EDATA, "a pipeline of %d stages and %d micro batches", sim->p,
                            sim->m);
    n_task = spot_xcalloc(p, sizeof(*n_task));
    micro = spot_xcalloc(p * QUEUES * (m + 1), sizeof(*micro));
    r.stage = spot_xcalloc(p, sizeof(*r.stage));
    additive_init(&r.random);
    spot_pipe_schedule(sim->policy, sim->p, sim->m, &task, n_task);
    for (size_t k = 0; k < p; k++) {
        r.stage[k] = (struct stage){ .task = task + k * 3 * m,
                                     .n_task = n_task[k],
                                     .recomputed = -1,
                                     .last_forward = -1,
                                     .last_recompute = -1 };
        for (size_t q = 0; q < QUEUES; q++)
            r.stage[k].queue[q].micro = micro + (k * QUEUES + q) * (m + 1);
    }
    for (int i = 0; i < sim->m; i++)
        append(&r.stage[0].queue[FORWARD], i);
    serve(&r, 0, 0);
    while (r.n_event) {
        const struct event e = pop(&r);

        now = e.ns / NS_PER_US;
        handle(&r, &e, now);
    }
    for (size_t k = 0; k < p; k++)
        is_done = is_done && r.stage[k].at == r.stage[k].n_task;
    free(r.heap);
    free(r.stage);
    free(task);
    free(micro);
    free(n_task);
    if (!is_done)
        return spot_err_set(err, SPOT_EINFEASIBLE, "the pipeline waits for ever");
    *us = now + sim->allreduce_us;
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "peers/bamboo_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

static const double MS_PER_H = 3600e3;
/* factor on the step time while one node does the work of two */
static const double SLOWDOWN = 1.5;
static const double AT_RISK =
    0.05; /* share of nodes without a backup above which all nodes meet again */

/* In the order in which events of one millisecond are handled. */
enum kind { ADD, REMOVE, READY, GLOBAL_OVER, LOCAL_OVER, SAVED, STEP };

struct event {
    int64_t ms;
    enum kind kind;
    uint64_t order;
    uint64_t tag; /* node; version of the step; or meeting */
};

enum node_state { BOOTING, WAITING, MEMBER };

struct node {
    int name;
    uint64_t id; /* id of this life of the node */
    int64_t start_ms;
    enum node_state state;
    int n_place, place[2]; /* pipeline * P + stage */
};

/* Growing array of doubles. */
struct list {
    double *x;
    size_t n, cap;
};

struct run {
    const struct spot_bamboo_job *job;
    struct event *heap;
    size_t n_event, cap;
    uint64_t n_order, n_id;
    struct node *node; /* [n_node] existing nodes, in order of arrival */
    size_t n_node, node_cap;
    uint64_t *member; /* [n_member] ids of the nodes in the meeting */
    size_t n_member, member_cap;
    enum spot_bamboo_state state;
    uint64_t version, meeting;
    int d, p, n_waiting;
    int64_t step_ms, start_ms, last_step_ms;
    bool has_started, fell_back, fell_back_paid;
    int64_t fell_back_ms, fell_back_steps;
    int64_t saved_ms, saved_steps, steps, fatal, preemptions;
    int64_t n_hit;                                 /* number of times at which nodes were lost */
    struct list life, between, change_h, change_n; /* change_n nodes from change_h on */
    int64_t last_loss_ms;
    double samples_h, value_h; /* integrals over time */
    struct spot_err *err;
    bool is_broken;
    int64_t span_ms, span_steps, span_lost;
    void (*on_span)(const struct spot_bamboo_span *span, void *user);
    void *user;
};

static void put(struct list *l, double x)
{
    l->x = spot_xgrow(l->x, &l->cap, l->n + 1, sizeof(*l->x));
    l->x[l->n++] = x;
}

/* --- events: follows Python's heapq exactly, so that equal events are in its order --- */

static bool before(const struct run *r, const struct event *a, const struct event *b)
{
    if (a->ms != b->ms)
        return a->ms < b->ms;
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return !r->job->is_released && a->order < b->order;
}

static void rise(struct run *r, size_t at)
{
    const struct event e = r->heap[at];

    for (; at && before(r, &e, &r->heap[(at - 1) / 2]); at = (at - 1) / 2)
        r->heap[at] = r->heap[(at - 1) / 2];
    r->heap[at] = e;
}

static void add(struct run *r, int64_t ms, enum kind kind, uint64_t tag)
{
    r->heap = spot_xgrow(r->heap, &r->cap, r->n_event + 1, sizeof(*r->heap));
    r->heap[r->n_event++] = (struct event){ ms, kind, r->n_order++, tag };
    rise(r, r->n_event - 1);
}

static struct event pop(struct run *r)
{
    const struct event first = r->heap[0], last = r->heap[--r->n_event];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < r->n_event; at = child) {
        if (child + 1 < r->n_event && !before(r, &r->heap[child], &r->heap[child + 1]))
            child++;
        r->heap[at] = r->heap[child];
    }
    if (r->n_event) {
        r->heap[at] = last;
        rise(r, at);
    }
    return first;
}

/* --- meetings --- */

static struct node *find(struct run *r, uint64_t id)
{
    for (size_t i = 0; i < r->n_node; i++)
        if (r->node[i].id == id)
            return &r->node[i];
    return NULL;
}

static void join(struct run *r, uint64_t id)
{
    r->member = spot_xgrow(r->member, &r->member_cap, r->n_member + 1, sizeof(*r->member));
    r->member[r->n_member++] = id;
}

static void invite(struct run *r)
{
    r->n_member = 0;
    for (size_t i = 0; i < r->n_node; i++)
        if (r->node[i].state != BOOTING)
            join(r, r->node[i].id);
}

static void set_timer(struct run *r, int64_t now, bool is_global, int64_t more_ms)
{
    add(r, now + (is_global ? r->job->global_ms : r->job->local_ms) + more_ms,
        is_global ? GLOBAL_OVER : LOCAL_OVER, r->meeting);
}

static void meet(struct run *r, int64_t now, bool is_global, int64_t more_ms)
{
    r->state = SPOT_BAMBOO_MEETING;
    r->meeting++;
    invite(r);
    set_timer(r, now, is_global, more_ms);
}

static bool saves(const struct run *r)
{
    return !r->job->is_released && (r->job->save_every_ms > 0 || r->job->prior_ms > 0);
}

static bool is_save_due(const struct run *r, int64_t now)
{
    const double between = (double)(r->job->prior_ms + now) / (1 + (double)r->n_hit);
    const double every = r->job->prior_ms > 0
                             ? r->job->period * sqrt(2 * (double)r->job->save_ms * between)
                             : (double)r->job->save_every_ms;

    return saves(r) && (double)(now - r->saved_ms) >= every;
}

static void fail(struct run *r, int64_t now)
{
    int64_t load = 0;

    r->fatal++;
    if (saves(r)) {
        r->span_lost += r->steps - r->saved_steps;
        r->steps = r->saved_steps;
        load = r->job->load_ms;
    }
    meet(r, now, true, load);
}

/* Assign the stages to nodes, row by row. */
static void assign(struct run *r)
{
    size_t most = r->n_member / (size_t)r->job->stages, n;

    while (!r->job->is_released && most > 0 &&
           (most > (size_t)r->job->n_step || !r->job->step_ms[most]))
        most--;
    r->d = (int)most;
    r->p = most ? r->job->stages : 0;
    n = most * (size_t)r->job->stages;
    r->n_waiting = (int)(r->n_member - n);
    for (size_t i = 0; i < r->n_member; i++) {
        struct node *node = find(r, r->member[i]);

        node->state = i < n ? MEMBER : WAITING;
        node->n_place = i < n;
        node->place[0] = (int)i;
    }
    r->n_member = 0;
}

static void meeting_over(struct run *r, const struct event *e)
{
    if (!r->job->is_released && (e->tag != r->meeting || r->state != SPOT_BAMBOO_MEETING))
        return;
    for (size_t i = 0; i < r->n_member; i++)
        if (!find(r, r->member[i])) { /* a member left meanwhile: start the meeting again */
            invite(r);
            set_timer(r, e->ms, e->kind == GLOBAL_OVER, 0);
            return;
        }
    assign(r);
    r->fell_back = r->fell_back_paid = false;
    r->version++;
    if (!r->d) {
        r->state = SPOT_BAMBOO_STOPPED;
        return;
    }
    r->state = SPOT_BAMBOO_TRAINING;
    if (r->d > r->job->n_step || !r->job->step_ms[r->d]) {
        spot_err_set(r->err, SPOT_EINFEASIBLE, "no step time for %d pipelines", r->d);
        r->is_broken = true;
        return;
    }
    r->step_ms = r->job->step_ms[r->d];
    add(r, e->ms + r->step_ms, STEP, r->version);
    if (!r->has_started)
        r->start_ms = r->last_step_ms = r->saved_ms = e->ms;
    r->has_started = true;
}

/* --- nodes --- */

static struct node *by_name(struct run *r, uint64_t name)
{
    for (size_t i = 0; i < r->n_node; i++)
        if (r->node[i].name == (int)name)
            return &r->node[i];
    return NULL;
}

static void came(struct run *r, const struct event *e)
{
    if (by_name(r, e->tag)) {
        spot_err_set(r->err, SPOT_EDATA, "node %d comes at %lld ms, but it is there", (int)e->tag,
                     (long long)e->ms);
        r->is_broken = true;
        return;
    }
    r->node = spot_xgrow(r->node, &r->node_cap, r->n_node + 1, sizeof(*r->node));
    r->node[r->n_node++] = (struct node){ .name = (int)e->tag, .id = ++r->n_id, .start_ms = e->ms };
    add(r, e->ms + r->job->boot_ms, READY, r->n_id);
}

static void ready(struct run *r, const struct event *e)
{
    struct node *node = find(r, e->tag);

    if (!node)
        return;
    node->state = WAITING;
    if (r->state == SPOT_BAMBOO_STOPPED)
        meet(r, e->ms, true, 0);
    else if (r->state == SPOT_BAMBOO_MEETING)
        join(r, node->id);
    else
        r->n_waiting++;
}

/* The predecessor of a lost stage takes it over; false if that is impossible. */
static bool take_over(struct run *r, int place)
{
    const int p = r->job->stages;
    const int search = place % p ? place - 1 : place + p - 1;

    if (!r->p && !(place % p))
        return true; /* as released: a second rendezvous left members outside of every pipeline */
    for (size_t i = 0; i < r->n_node; i++) {
        struct node *node = &r->node[i];

        for (int k = 0; k < node->n_place; k++)
            if (node->place[k] == search) {
                if (node->n_place > 1)
                    return false;
                node->place[node->n_place++] = place;
                return true;
            }
    }
    return true; /* as released: no node holds the stage, which is ignored */
}

static void slow_down(struct run *r, int64_t now)
{
    if (r->state != SPOT_BAMBOO_TRAINING && r->state != SPOT_BAMBOO_SAVING)
        return;
    if (r->fell_back)
        return;
    r->fell_back = true;
    r->fell_back_paid = false;
    r->fell_back_ms = now;
    r->fell_back_steps = r->steps;
    r->step_ms = (int64_t)((double)r->step_ms * SLOWDOWN);
}

static void left(struct run *r, const struct event *e)
{
    struct node *at = by_name(r, e->tag), node;

    if (!at) {
        spot_err_set(r->err, SPOT_EDATA, "node %d leaves at %lld ms, but it is not there",
                     (int)e->tag, (long long)e->ms);
        r->is_broken = true;
        return;
    }
    node = *at;
    memmove(at, at + 1, (size_t)(r->node + r->n_node - at - 1) * sizeof(*at));
    r->n_node--;
    put(&r->life, (double)(e->ms - node.start_ms));
    r->n_hit += !r->preemptions || e->ms != r->last_loss_ms;
    if (r->preemptions++)
        put(&r->between, (double)(e->ms - r->last_loss_ms));
    r->last_loss_ms = e->ms;
    if (node.state == MEMBER) {
        if (node.n_place > 1 || !take_over(r, node.place[0])) {
            fail(r, e->ms);
            return;
        }
    } else if (!r->job->is_released) {
        r->n_waiting -= node.state == WAITING && r->state >= SPOT_BAMBOO_TRAINING;
        return;
    }
    slow_down(r, e->ms);
}

/* --- steps --- */

static bool should_meet(const struct run *r)
{
    int overloaded = 0, active;

    for (size_t i = 0; i < r->n_node; i++)
        overloaded += r->node[i].state == MEMBER && r->node[i].n_place > 1;
    active = r->d * r->p - overloaded;
    if (overloaded && (r->n_waiting >= overloaded || 2. * overloaded / active > AT_RISK))
        return true;
    active = (active + r->n_waiting) / r->job->stages;
    if (!r->job->is_released && active > r->job->n_step)
        active = r->job->n_step;
    return active > r->d;
}

/* USD from one step to the next: the cost per hour changes with the nodes. */
static double spent(const struct run *r, double from_h, double to_h)
{
    double usd = 0;

    for (size_t k = r->change_h.n; k-- > 0;) {
        const double at = r->change_h.x[k];
        const double price = r->change_n.x[k] * r->job->usd_per_h;

        if (!k || at <= from_h)
            return usd + price * (to_h - from_h);
        usd += price * (to_h - at);
        to_h = at;
    }
    return usd;
}

static void step_over(struct run *r, const struct event *e)
{
    const int64_t took = e->ms - r->last_step_ms;
    const double from_h = (double)r->last_step_ms / MS_PER_H, to_h = (double)e->ms / MS_PER_H;
    const double rate = (double)r->job->samples / ((double)took / 1e3);

    if (e->tag != r->version || (!r->job->is_released && r->state != SPOT_BAMBOO_TRAINING))
        return;
    if (r->fell_back && !r->fell_back_paid && r->fell_back_steps == r->steps) {
        add(r, e->ms + (int64_t)((double)(e->ms - r->fell_back_ms) * (SLOWDOWN - 1)), STEP,
            r->version);
        r->fell_back_paid = true;
        return;
    }
    r->steps++;
    r->span_steps++;
    r->samples_h += (to_h - from_h) * rate;
    r->value_h += (to_h - from_h) * rate / (spent(r, from_h, to_h) / ((double)took / MS_PER_H));
    r->last_step_ms = e->ms;
    if (should_meet(r)) {
        meet(r, e->ms, false, 0);
    } else if (is_save_due(r, e->ms)) {
        r->state = SPOT_BAMBOO_SAVING;
        add(r, e->ms + r->job->save_ms, SAVED, r->version);
    } else {
        add(r, e->ms + r->step_ms, STEP, r->version);
    }
}

static void saved(struct run *r, const struct event *e)
{
    if (e->tag != r->version || r->state != SPOT_BAMBOO_SAVING)
        return;
    r->state = SPOT_BAMBOO_TRAINING;
    r->saved_ms = e->ms;
    r->saved_steps = r->steps;
    add(r, e->ms + r->step_ms, STEP, r->version);
}

/* --- the run --- */

static void tell_span(struct run *r, int64_t now)
{
    struct spot_bamboo_span span = { .from_ms = r->span_ms,
                                     .to_ms = now,
                                     .state = r->state,
                                     .d = r->d,
                                     .p = r->p,
                                     .steps = r->span_steps,
                                     .lost_steps = r->span_lost };

    if (now <= r->span_ms)
        return;
    for (size_t i = 0; i < r->n_node; i++) {
        span.n_boot += r->node[i].state == BOOTING;
        span.n_ready += r->node[i].state == WAITING;
        span.n_member += r->node[i].state == MEMBER;
    }
    if (r->on_span)
        r->on_span(&span, r->user);
    r->span_ms = now;
    r->span_steps = r->span_lost = 0;
}

static void handle(struct run *r, const struct event *e)
{
    switch (e->kind) {
    case ADD:
        came(r, e);
        break;
    case REMOVE:
        left(r, e);
        break;
    case READY:
        ready(r, e);
        break;
    case GLOBAL_OVER:
    case LOCAL_OVER:
        meeting_over(r, e);
        break;
    case SAVED:
        saved(r, e);
        break;
    case STEP:
        step_over(r, e);
        break;
    }
}

/* Called after the last event of a millisecond; the count at time 0 is recorded by the next one. */
static void note_count(struct run *r, int64_t now)
{
    const double n = (double)r->n_node;

    if (r->n_event && r->heap[0].ms == now)
        return;
    if (!r->change_n.n) {
        if (!now)
            return;
        put(&r->change_h, 0);
        put(&r->change_n, n);
    } else if (r->change_n.x[r->change_n.n - 1] != n) {
        put(&r->change_h, (double)now / MS_PER_H);
        put(&r->change_n, n);
    }
}

/* --- statistics --- */

static double mean(const struct list *l)
{
    double sum = 0;

    for (size_t i = 0; i < l->n; i++)
        sum += l->x[i];
    return l->n ? sum / (double)l->n : 0;
}

static double stdev(const struct list *l)
{
    const double m = mean(l);
    double sum = 0;

    for (size_t i = 0; i < l->n; i++)
        sum += (l->x[i] - m) * (l->x[i] - m);
    return l->n > 1 ? sqrt(sum / (double)(l->n - 1)) : 0;
}

static double median(struct list *l)
{
    if (!l->n)
        return 0;
    qsort(l->x, l->n, sizeof(*l->x), spot_num_compare);
    return (l->x[(l->n - 1) / 2] + l->x[l->n / 2]) / 2;
}

static void sum_up(struct run *r, int64_t now, struct spot_bamboo_result *result)
{
    const double end_h = (double)r->last_step_ms / MS_PER_H;
    const double trained_h = end_h - (double)r->start_ms / MS_PER_H;
    double node_h = 0;

    for (size_t i = 0; i < r->n_node; i++)
        put(&r->life, (double)(now - r->node[i].start_ms));
    for (size_t k = 0; k < r->change_n.n; k++)
        node_h += r->change_n.x[k] *
                  ((k + 1 < r->change_n.n ? r->change_h.x[k + 1] : end_h) - r->change_h.x[k]);
    *result = (struct spot_bamboo_result){
        .steps = r->steps,
        .preemptions = r->preemptions,
        .fatal = r->fatal,
        .preemption_mean_h = mean(&r->between) / MS_PER_H,
        .preemption_stdev_h = stdev(&r->between) / MS_PER_H,
        .lifetime_mean_h = mean(&r->life) / MS_PER_H,
        .lifetime_stdev_h = stdev(&r->life) / MS_PER_H,
        .lifetime_median_h = median(&r->life) / MS_PER_H,
        .instances = end_h > 0 ? node_h / end_h : 0,
        .usd_per_h = end_h > 0 ? node_h / end_h * r->job->usd_per_h : 0,
        .samples_per_s = trained_h > 0 ? r->samples_h / trained_h : 0,
        .value = trained_h > 0 ? r->value_h / trained_h : 0,
        .end_h = end_h,
    };
    /* as released, the median between losses is in fact their mean */
    result->preemption_median_h =
        r->job->is_released ? result->preemption_mean_h : median(&r->between) / MS_PER_H;
}

int spot_bamboo_sim_run(const struct spot_bamboo_job *job, const struct spot_bamboo_event *event,
                        size_t n_event, int64_t end_ms, struct spot_bamboo_result *result,
                        void (*on_span)(const struct spot_bamboo_span *span, void *user),
                        void *user, struct spot_err *err)
{
    struct run r = { .job = job, .err = err, .on_span = on_span, .user = user };
    int64_t now = 0;

    for (size_t i = 0; i < n_event; i++)
        add(&r, event[i].ms, event[i].is_add ? ADD : REMOVE, (uint64_t)event[i].node);
    while (r.n_event && !r.is_broken) {
        const struct event e = pop(&r);

        if (e.ms > end_ms) {
            now = end_ms;
            break;
        }
        tell_span(&r, e.ms);
        now = e.ms;
        handle(&r, &e);
        note_count(&r, now);
    }
    if (!r.is_broken)
        tell_span(&r, end_ms);
    sum_up(&r, now, result);
    free(r.heap);
    free(r.node);
    free(r.member);
    free(r.life.x);
    free(r.between.x);
    free(r.change_h.x);
    free(r.change_n.x);
    return r.is_broken ? -1 : 0;
}

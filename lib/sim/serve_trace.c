/* SPDX-License-Identifier: MIT */
/* Arrivals and losses from a trace, as events for the serving policies. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "sim/serve_play.h"

struct roster {
    struct spot_serve_play *play;
    size_t cap;
    uint32_t n_named;
    uint32_t *there; /* [n_there] */
    size_t n_there, there_cap;
    struct spot_rng rng;
};

static void note(struct roster *r, double time_s, bool comes, uint32_t instance)
{
    struct spot_serve_play *p = r->play;

    p->event = spot_xgrow(p->event, &r->cap, p->n_event + 1, sizeof(*p->event));
    p->event[p->n_event++] = (struct spot_serve_event){ time_s, comes, instance };
}

/* True if a node was added at this time: one that is added and removed at the same time is
 * ignored. */
static bool came_just_now(struct roster *r, const struct spot_trace_event *event)
{
    struct spot_serve_play *p = r->play;

    for (size_t i = p->n_event; i-- > 0 && p->event[i].time_s >= event->time_s;)
        if (p->event[i].instance == event->node) {
            if (!p->event[i].comes)
                return false;
            memmove(p->event + i, p->event + i + 1, (--p->n_event - i) * sizeof(*p->event));
            return true;
        }
    return false;
}

static void set_event(struct roster *r, const struct spot_trace_event *event)
{
    const bool comes = event->kind == SPOT_TRACE_ADD;

    if (event->kind != SPOT_TRACE_NOTICE && (comes || !came_just_now(r, event)))
        note(r, event->time_s, comes, event->node);
}

static void set_count(struct roster *r, double time_s, int32_t n)
{
    while (r->n_there > (size_t)n) {
        const size_t k = (size_t)spot_rng_below(&r->rng, r->n_there);

        note(r, time_s, false, r->there[k]);
        memmove(r->there + k, r->there + k + 1, (--r->n_there - k) * sizeof(*r->there));
    }
    while (r->n_there < (size_t)n) {
        r->there = spot_xgrow(r->there, &r->there_cap, r->n_there + 1, sizeof(*r->there));
        r->there[r->n_there++] = r->n_named;
        note(r, time_s, true, r->n_named++);
    }
}

static int by_time(const void *a, const void *b)
{
    const struct spot_serve_event *x = a, *y = b;

    if (x->time_s < y->time_s || x->time_s > y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    if (x->comes != y->comes)
        return x->comes ? 1 : -1;
    return x->instance < y->instance ? -1 : x->instance > y->instance;
}

/* A node that comes back counts as a new instance without state. Events are in order. */
static void name_again(struct spot_serve_play *play, uint32_t n_named)
{
    /* instance + 1 of a node; 0: never added */
    uint32_t *now = spot_xcalloc(n_named, sizeof(*now));
    uint32_t next = n_named;

    for (size_t i = 0; i < play->n_event; i++) {
        struct spot_serve_event *e = &play->event[i];
        uint32_t *mine = &now[e->instance];

        if (e->comes)
            *mine = *mine ? ++next : e->instance + 1;
        if (*mine)
            e->instance = *mine - 1;
    }
    free(now);
}

void spot_serve_play_trace(struct spot_serve_play *play, const struct spot_trace *trace,
                           uint64_t seed)
{
    uint32_t n_named = 0;
    struct roster r = { .play = play };

    play->trace = trace;
    play->start_s = trace->start_s;
    play->end_s = trace->end_s;
    for (size_t k = 0; k < trace->n_series; k++) {
        const struct spot_trace_series *s = &trace->series[k];

        r.n_there = 0;
        r.n_named = n_named > (uint32_t)trace->n_node ? n_named : (uint32_t)trace->n_node;
        spot_rng_init(&r.rng, seed, k);
        for (size_t i = 0; !s->event && i < s->n; i++)
            set_count(&r, s->time_s[i], s->available[i]);
        for (size_t i = 0; s->event && i < s->n_event; i++)
            set_event(&r, &s->event[i]);
        n_named = r.n_named;
    }
    free(r.there);
    qsort(play->event, play->n_event, sizeof(*play->event), by_time);
    name_again(play, n_named > (uint32_t)trace->n_node ? n_named : (uint32_t)trace->n_node);
}

void spot_serve_play_merge(struct spot_serve_play *play, double merge_s)
{
    double loss_s = INFINITY;

    for (size_t i = play->n_event; i-- > 0;) {
        struct spot_serve_event *e = &play->event[i];

        if (!e->comes)
            loss_s = e->time_s;
        else if (loss_s - e->time_s <= merge_s)
            e->time_s = loss_s;
    }
    if (play->n_event)
        qsort(play->event, play->n_event, sizeof(*play->event), by_time);
}

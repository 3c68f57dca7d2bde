/* SPDX-License-Identifier: MIT */
#include "trace/lifetimes.h"

#include <math.h>
#include <stdlib.h>

#include "common/num.h"
#include "common/xalloc.h"

/* --- lives --- */

/* The watch, and where what is found goes. */
struct watch {
    double from_s, to_s;
    struct spot_life *life;
    size_t n, cap;
};

/* A node was there from born_s to gone_s. */
static void watched(struct watch *w, double born_s, double gone_s, bool is_lost)
{
    const double enter_s = fmax(born_s, w->from_s), leave_s = fmin(gone_s, w->to_s);

    if (leave_s < enter_s)
        return;
    w->life = spot_xgrow(w->life, &w->cap, w->n + 1, sizeof(*w->life));
    w->life[w->n++] = (struct spot_life){ .enter_s = enter_s - born_s,
                                          .leave_s = leave_s - born_s,
                                          .is_lost = is_lost && gone_s <= w->to_s };
}

/* born[node] is NaN while it is not there. */
static void watch_series(struct watch *w, const struct spot_trace_series *s, double end_s,
                         double *born)
{
    const bool is_end = s->available[s->n - 1] == 0 && s->time_s[s->n - 1] >= end_s;

    for (size_t i = 0; i < s->n_event; i++) {
        const struct spot_trace_event *e = &s->event[i];

        if (e->kind == SPOT_TRACE_ADD) {
            born[e->node] = e->time_s;
        } else if (e->kind == SPOT_TRACE_REMOVE) {
            watched(w, born[e->node], e->time_s, !(is_end && e->time_s >= end_s));
            born[e->node] = NAN;
        }
    }
    for (size_t i = 0; i < s->n_event; i++) { /* those that are still there */
        const uint32_t node = s->event[i].node;

        if (!isnan(born[node]))
            watched(w, born[node], end_s, false);
        born[node] = NAN;
    }
}

struct spot_life *spot_lives(const struct spot_trace *trace, const char *source, double from_s,
                             double to_s, size_t *n, struct spot_err *err)
{
    struct watch w = { .from_s = from_s, .to_s = to_s };
    double *born;

    *n = 0;
    if (!trace->n_node) {
        spot_err_set(err, SPOT_EDATA, "%s: names no nodes, expected the columns time_s,event,node",
                     source);
        return NULL;
    }
    born = spot_xcalloc(trace->n_node, sizeof(*born));
    for (size_t i = 0; i < trace->n_node; i++)
        born[i] = NAN;
    w.life = spot_xgrow(NULL, &w.cap, 1, sizeof(*w.life));
    for (size_t k = 0; k < trace->n_series; k++)
        watch_series(&w, &trace->series[k], trace->end_s, born);
    free(born);
    *n = w.n;
    return w.life;
}

/* --- hazards --- */

static double edge_of(int k)
{
    return k ? 60 * pow(2, (k - 1) / 2.0) : 0;
}

/* Fill the fine classes: time lived and losses. */
static void count(const struct spot_life *life, size_t n, struct spot_age_class *c)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < SPOT_AGE_CLASSES_MAX && edge_of(k) <= life[i].leave_s; k++) {
            const double end_s = k + 1 < SPOT_AGE_CLASSES_MAX ? edge_of(k + 1) : INFINITY;
            const double from_s = fmax(life[i].enter_s, edge_of(k));
            const bool is_here = life[i].leave_s <= end_s && (life[i].leave_s > edge_of(k) || !k);

            c[k].lived_s += fmax(0, fmin(life[i].leave_s, end_s) - from_s);
            c[k].lost += is_here && life[i].is_lost;
        }
}

/* Join classes in place. Returns how many are left. */
static size_t join(struct spot_age_class *c, size_t least)
{
    size_t n = 0, tail = 0;

    for (size_t k = 0; k < SPOT_AGE_CLASSES_MAX; k++) {
        struct spot_age_class *to = &c[n];

        if (!tail) {
            *to = c[k];
        } else {
            to->lived_s += c[k].lived_s;
            to->lost += c[k].lost;
        }
        tail = 1;
        if (to->lost >= least && to->lived_s > 0) {
            n++;
            tail = 0;
        }
    }
    if (!tail || !n)
        return n + tail;
    c[n - 1].lived_s += c[n].lived_s; /* the oldest, too few to tell anything by themselves */
    c[n - 1].lost += c[n].lost;
    return n;
}

/* Kaplan-Meier at the start of each class; at risk at age t: enter < t <= leave. */
static void fill_alive(const struct spot_life *life, size_t n, struct spot_age_class *c, size_t n_c)
{
    double *enter = spot_xcalloc(3 * n, sizeof(*enter)), *leave = enter + n, *lost = leave + n;
    double alive = 1;
    size_t n_lost = 0, in = 0, out = 0, k = 0;

    for (size_t i = 0; i < n; i++) {
        enter[i] = life[i].enter_s;
        leave[i] = life[i].leave_s;
        if (life[i].is_lost)
            lost[n_lost++] = life[i].leave_s;
    }
    qsort(enter, n, sizeof(*enter), spot_num_compare);
    qsort(leave, n, sizeof(*leave), spot_num_compare);
    qsort(lost, n_lost, sizeof(*lost), spot_num_compare);
    for (size_t i = 0; i < n_lost;) {
        const double t = lost[i];
        size_t same = 0;

        for (; k < n_c && c[k].age_s < t; k++)
            c[k].alive = alive;
        for (; i < n_lost && lost[i] == t; i++)
            same++;
        while (in < n && (enter[in] < t || t <= 0))
            in++;
        while (out < n && leave[out] < t)
            out++;
        alive *= 1 - (double)same / (double)(in - out);
    }
    for (; k < n_c; k++)
        c[k].alive = alive;
    free(enter);
}

/* Byar's approximation (Breslow and Day 1987, eq. 2.13): within 1 % of the exact limits from two
 * losses on. */
static double byar(double lost, double side)
{
    const double x = lost > 0 ? 1 - 1 / (9 * lost) + side * 1.959964 / (3 * sqrt(lost)) : 0;

    return x > 0 ? lost * x * x * x : 0;
}

size_t spot_age_classes(const struct spot_life *life, size_t n, size_t least,
                        struct spot_age_class *out)
{
    double lived_s = 0;
    size_t n_class, lost = 0;

    for (size_t i = 0; i < n; i++) {
        lived_s += life[i].leave_s - life[i].enter_s;
        lost += life[i].is_lost;
    }
    if (!lost || lived_s <= 0)
        return 0;
    for (int k = 0; k < SPOT_AGE_CLASSES_MAX; k++)
        out[k] = (struct spot_age_class){ .age_s = edge_of(k) };
    count(life, n, out);
    n_class = join(out, least);
    for (size_t k = 0; k < n_class; k++) {
        out[k].per_s = (double)out[k].lost / out[k].lived_s;
        out[k].low_s = byar((double)out[k].lost, -1) / out[k].lived_s;
        out[k].high_s = byar((double)out[k].lost + 1, 1) / out[k].lived_s;
    }
    fill_alive(life, n, out, n_class);
    return n_class;
}

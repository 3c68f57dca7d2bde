/* SPDX-License-Identifier: MIT */
#include "sim/live_play.h"

#include <assert.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

void spot_live_init(struct spot_live *l, const struct spot_trace *trace, uint64_t seed)
{
    l->trace = trace;
    l->next = spot_xcalloc(trace->n_series, sizeof(*l->next));
    l->n_wanted = spot_xcalloc(trace->n_series, sizeof(*l->n_wanted));
    l->supervisor.from_s = trace->start_s;
    spot_rng_init(&l->rng, seed, 0);
}

void spot_live_release(struct spot_live *l)
{
    spot_supervisor_release(&l->supervisor);
    free(l->next);
    free(l->n_wanted);
}

/* Nodes of an event trace keep their identity unless several make one copy. */
static bool is_by_name(const struct spot_trace_series *s)
{
    return s->event != NULL;
}

static size_t n_members(const struct spot_live *l, size_t series)
{
    size_t n = 0;

    for (size_t i = 0; i < l->supervisor.n; i++)
        n += !l->supervisor.member[i].is_leaving &&
             (series == SIZE_MAX || l->supervisor.member[i].series == series);
    return n;
}

/* Add one machine; `name` NULL: with a new name. False if --max forbids it. */
static bool hire(struct spot_live *l, size_t k, const char *name, double time_s)
{
    const struct spot_trace_series *s = &l->trace->series[k];
    char fresh[32];

    if (n_members(l, SIZE_MAX) >= l->max) {
        if (!l->is_capped)
            l->warn("at %.15g s the trace offers more than --max %llu copies", time_s,
                    (unsigned long long)l->max);
        l->is_capped = true;
        return false;
    }
    if (!name)
        snprintf(fresh, sizeof(fresh), "node%llu", (unsigned long long)++l->n_named);
    spot_supervisor_add(&l->supervisor, name ? name : fresh, k, s->zone, s->instance_type, time_s);
    return true;
}

/* The i-th member of a series that is not leaving. */
static size_t find_member(const struct spot_live *l, size_t series, size_t i)
{
    for (size_t m = 0; m < l->supervisor.n; m++)
        if (!l->supervisor.member[m].is_leaving && l->supervisor.member[m].series == series && !i--)
            return m;
    assert(!"fewer members than counted");
    return 0;
}

static int dismiss(struct spot_live *l, size_t member, double time_s, struct spot_err *err)
{
    const bool has_notice = spot_rng_unit(&l->rng) >= l->no_notice;

    return spot_supervisor_leave(&l->supervisor, member, time_s, has_notice, "trace", err);
}

/* Count form: choose the machines that leave at random, then fill every series up as far as --max
 * allows. */
static int apply_row(struct spot_live *l, size_t k, double time_s, struct spot_err *err)
{
    for (size_t n = n_members(l, k); n > l->n_wanted[k]; n--)
        if (dismiss(l, find_member(l, k, (size_t)spot_rng_below(&l->rng, n)), time_s, err))
            return -1;
    for (size_t i = 0; i < l->trace->n_series; i++)
        for (size_t n = n_members(l, i); n < l->n_wanted[i]; n++)
            if (!hire(l, i, NULL, time_s))
                return 0;
    return 0;
}

static int apply_event(struct spot_live *l, size_t k, const struct spot_trace_event *e,
                       struct spot_err *err)
{
    const char *name = l->trace->node_name[e->node];

    if (e->kind == SPOT_TRACE_ADD) {
        hire(l, k, name, e->time_s);
        return 0;
    }
    for (size_t i = 0; i < l->supervisor.n; i++) {
        const struct spot_instance *m = &l->supervisor.member[i];

        if (m->is_leaving || m->series != k || strcmp(m->name, name) != 0)
            continue;
        if (e->kind == SPOT_TRACE_NOTICE)
            return spot_supervisor_leave(&l->supervisor, i, e->time_s, true, "trace", err);
        return dismiss(l, i, e->time_s, err);
    }
    return 0; /* beyond --max, or the machine left at its notice */
}

/* Time of the next change of series k, infinity at its end. */
static double next_change_s(const struct spot_live *l, size_t k)
{
    const struct spot_trace_series *s = &l->trace->series[k];

    if (is_by_name(s))
        return l->next[k] < s->n_event ? s->event[l->next[k]].time_s : INFINITY;
    return l->next[k] < s->n ? s->time_s[l->next[k]] : INFINITY;
}

static double first_change_s(const struct spot_live *l, size_t *series)
{
    double first_s = INFINITY;

    for (size_t k = 0; k < l->trace->n_series; k++)
        if (next_change_s(l, k) < first_s) {
            first_s = next_change_s(l, k);
            *series = k;
        }
    return first_s;
}

static int apply_changes(struct spot_live *l, double until_s, struct spot_err *err)
{
    size_t k = 0;
    double time_s;

    while ((time_s = first_change_s(l, &k)) <= until_s) {
        const struct spot_trace_series *s = &l->trace->series[k];
        const size_t i = l->next[k]++;

        if (!is_by_name(s))
            l->n_wanted[k] = (size_t)s->available[i];
        if (is_by_name(s) ? apply_event(l, k, &s->event[i], err) : apply_row(l, k, time_s, err))
            return -1;
        /* Even if we are late, every machine that the trace had for a while is started, so that the
         * log does not depend on the speed of this machine. */
        if (first_change_s(l, &k) > time_s && spot_supervisor_start_due(&l->supervisor, err))
            return -1;
    }
    return 0;
}

/* Give every machine the notice. */
static int dismiss_all(struct spot_live *l, const char *why, struct spot_err *err)
{
    const double time_s =
        spot_supervisor_trace_s(&l->supervisor, spot_supervisor_now_s(&l->supervisor));

    for (size_t i = l->supervisor.n; i-- > 0;)
        if (!l->supervisor.member[i].is_leaving &&
            spot_supervisor_leave(&l->supervisor, i, time_s, true, why, err))
            return -1;
    return 0;
}

int spot_live_play(struct spot_live *l, struct spot_err *err)
{
    struct spot_supervisor *supervisor = &l->supervisor;
    bool is_over = false;
    size_t series;
    int got;

    do {
        const double time_s =
            spot_supervisor_trace_s(supervisor, spot_supervisor_now_s(supervisor));
        double next_s;

        if (spot_supervisor_reap(supervisor, err))
            return -1;
        if (!is_over && apply_changes(l, fmin(time_s, l->trace->end_s), err))
            return -1;
        if (!is_over && (time_s >= l->trace->end_s || l->signal_got)) {
            is_over = true;
            if (dismiss_all(l, l->signal_got ? "signal" : "end", err))
                return -1;
        }
        if (spot_supervisor_kill_due(supervisor, err) || spot_supervisor_start_due(supervisor, err))
            return -1;
        if (is_over && !supervisor->n)
            return 0;
        next_s = spot_supervisor_next_s(supervisor);
        if (!is_over)
            next_s = fmin(next_s,
                          (fmin(first_change_s(l, &series), l->trace->end_s) - supervisor->from_s) /
                              supervisor->speedup);
        got = supervisor->host->wait(supervisor->self, next_s - spot_supervisor_now_s(supervisor));
        if (got && got != SIGCHLD && l->signal_got)
            return 0; /* a second request: stop without waiting */
        if (got && got != SIGCHLD)
            l->signal_got = got;
    } while (true);
}

/* SPDX-License-Identifier: MIT */
#include "model/exec_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

const char *spot_hosting_cause_name(enum spot_hosting_cause cause)
{
    static const char *const name[] = { "start", "failure", "kill", "notice", "join", "other" };

    return name[cause];
}

const char *spot_hosting_place_name(enum spot_hosting_place place)
{
    static const char *const name[] = { "memory", "disk", "store" };

    return name[place];
}

/* --- one event ------------------------------------------------------------------------------- */

static void on_formed(struct spot_hosting *h, const struct spot_event *event)
{
    struct spot_hosting_round *r;
    int cause = SPOT_HOSTING_START;

    if (event->is_kept) {
        h->kept++;
    } else {
        while (h->n_round && cause < SPOT_HOSTING_OTHER &&
               (cause == SPOT_HOSTING_START || !h->has[cause]))
            cause++;
        h->round = spot_xgrow(h->round, &h->cap_round, h->n_round + 1, sizeof(*h->round));
        r = &h->round[h->n_round++];
        *r = (struct spot_hosting_round){ .cause = (enum spot_hosting_cause)cause,
                                          .restart = event->restart,
                                          .nodes = event->grid.D,
                                          .ended_s = h->n_round > 1 ? h->ended_s : NAN,
                                          .formed_s = event->time_s,
                                          .commit_s = NAN,
                                          .before_s = h->commits ? h->commit_s : NAN };
    }
    memset(h->has, 0, sizeof(h->has));
}

static void add_point(struct spot_hosting *h, double time_s, int64_t step, int place)
{
    h->point = spot_xgrow(h->point, &h->cap_point, h->n_point + 1, sizeof(*h->point));
    h->point[h->n_point++] =
        (struct spot_hosting_point){ .time_s = time_s, .step = step, .place = place };
}

static void on_cause(struct spot_hosting *h, const struct spot_event *event,
                     enum spot_hosting_cause cause)
{
    h->has[cause] = true;
    h->mark = spot_xgrow(h->mark, &h->cap_mark, h->n_mark + 1, sizeof(*h->mark));
    h->mark[h->n_mark++] = (struct spot_hosting_mark){ .time_s = event->time_s, .cause = cause };
}

static void on_committed(struct spot_hosting *h, const struct spot_event *event)
{
    add_point(h, event->time_s, event->step, SPOT_HOSTING_PLACES);
    h->commits++;
    h->step = event->step;
    h->commit_s = event->time_s;
    if (h->n_round && isnan(h->round[h->n_round - 1].commit_s))
        h->round[h->n_round - 1].commit_s = event->time_s;
}

static void on_durable(struct spot_hosting *h, const struct spot_event *event)
{
    for (int p = 0; p < SPOT_HOSTING_PLACES; p++) {
        struct spot_hosting_durable *const d = &h->durable[p];

        if (!event->where || strcmp(event->where, spot_hosting_place_name(p)) != 0)
            continue;
        add_point(h, event->time_s, event->step, p);
        d->count++;
        d->step = event->step;
        d->moved_byte += event->moved_byte;
        d->lag_max_s = fmax(d->lag_max_s, event->lag_s);
    }
}

void spot_hosting_take(struct spot_hosting *h, const struct spot_event *event)
{
    switch (event->kind) {
    case SPOT_EVENT_EXEC:
        h->coordinators++;
        break;
    case SPOT_EVENT_FORMED:
        on_formed(h, event);
        break;
    case SPOT_EVENT_QUIESCE:
        h->ended_s = event->time_s;
        break;
    case SPOT_EVENT_FAILED:
        h->failures++;
        on_cause(h, event, SPOT_HOSTING_FAILURE);
        break;
    case SPOT_EVENT_LOST:
        on_cause(h, event, SPOT_HOSTING_KILL);
        break;
    case SPOT_EVENT_NOTICE:
        on_cause(h, event, SPOT_HOSTING_NOTICE);
        break;
    case SPOT_EVENT_LEFT:
        h->has[SPOT_HOSTING_NOTICE] = true;
        break;
    case SPOT_EVENT_JOINED:
        on_cause(h, event, SPOT_HOSTING_JOIN);
        break;
    case SPOT_EVENT_STATE_COMMITTED:
        on_committed(h, event);
        break;
    case SPOT_EVENT_STATE_RESTORED:
        h->restores++;
        h->step = event->step;
        add_point(h, event->time_s, event->step, SPOT_HOSTING_PLACES);
        break;
    case SPOT_EVENT_ROLLED_BACK:
        h->rollbacks++;
        h->rolled_back += event->from - event->to;
        h->step = event->to;
        break;
    case SPOT_EVENT_DURABLE:
        on_durable(h, event);
        break;
    case SPOT_EVENT_FINISHED:
        h->is_finished = true;
        break;
    case SPOT_EVENT_GIVEN_UP:
        h->has_given_up = true;
        break;
    default:
        break;
    }
}

void spot_hosting_release(struct spot_hosting *h)
{
    free(h->round);
    free(h->point);
    free(h->mark);
    *h = (struct spot_hosting){ 0 };
}

/* --- numbers --- */

size_t spot_hosting_rounds(const struct spot_hosting *h, enum spot_hosting_cause cause)
{
    size_t n = 0;

    for (size_t i = 0; i < h->n_round; i++)
        n += h->round[i].cause == cause;
    return n;
}

struct spot_hosting_pauses spot_hosting_pauses(const struct spot_hosting *h,
                                               enum spot_hosting_cause cause)
{
    double *const x = spot_xcalloc(h->n_round + 1, sizeof(*x));
    struct spot_hosting_pauses p = { 0, NAN, NAN };

    for (size_t i = 0; i < h->n_round; i++)
        if (h->round[i].cause == cause && isfinite(h->round[i].commit_s) &&
            isfinite(h->round[i].before_s))
            x[p.n++] = h->round[i].commit_s - h->round[i].before_s;
    if (p.n) {
        qsort(x, p.n, sizeof(*x), spot_num_compare);
        p.median_s = p.n % 2 ? x[p.n / 2] : (x[p.n / 2 - 1] + x[p.n / 2]) / 2;
        p.max_s = x[p.n - 1];
    }
    free(x);
    return p;
}

double spot_hosting_down_s(const struct spot_hosting *h)
{
    double down_s = 0;

    for (size_t i = 0; i < h->n_round; i++)
        if (isfinite(h->round[i].ended_s))
            down_s += h->round[i].formed_s - h->round[i].ended_s;
    return down_s;
}

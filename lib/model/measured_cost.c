/* SPDX-License-Identifier: MIT */
#include "model/measured_cost.h"

#include <stdlib.h>

#include "common/num.h"
#include "common/unpack.h"
#include "common/xalloc.h"
#include "model/event.h"
#include "model/event_order.h"

struct change {
    double gap_s; /* time from one commit to the next */
    double moved_byte;
    int64_t redone; /* steps that were repeated */
    bool is_join, is_restore;
};

struct reader {
    struct change *change, now;
    size_t n_change, change_cap;
    double *step_s; /* between commits of one group */
    size_t n_step, step_cap;
    double commit_s; /* time of the newest; < 0: none yet */
    int64_t members;
    bool is_changing;
};

static void begin(struct reader *r)
{
    if (!r->is_changing)
        r->now = (struct change){ 0 };
    r->is_changing = true;
}

static void committed(struct reader *r, double time_s)
{
    const double gap = time_s - r->commit_s;

    if (r->commit_s >= 0 && r->is_changing) {
        r->now.gap_s = gap;
        r->change = spot_xgrow(r->change, &r->change_cap, r->n_change + 1, sizeof(*r->change));
        r->change[r->n_change++] = r->now;
    } else if (r->commit_s >= 0) {
        r->step_s = spot_xgrow(r->step_s, &r->step_cap, r->n_step + 1, sizeof(*r->step_s));
        r->step_s[r->n_step++] = gap;
    }
    r->is_changing = false;
    r->commit_s = time_s;
}

/* Steps that were expected to be repeated, and need not be. */
static void restored(struct reader *r, int64_t n)
{
    struct change *c = &r->now;

    begin(r);
    for (size_t i = r->n_change; n > 0; c = &r->change[--i]) {
        const int64_t back = n < c->redone ? n : c->redone;

        c->redone -= back;
        n -= back;
        if (!i)
            break;
    }
}

static void on_event(struct reader *r, const struct spot_event *e)
{
    switch (e->kind) {
    case SPOT_EVENT_QUIESCE:
        begin(r);
        break;
    case SPOT_EVENT_MIGRATE:
        begin(r);
        r->now.moved_byte += (double)e->moved_byte;
        r->now.is_restore |= e->restored_byte > 0;
        break;
    case SPOT_EVENT_ROLLED_BACK:
        begin(r);
        r->now.redone += e->from - e->to;
        r->now.is_restore = true;
        break;
    case SPOT_EVENT_RESTORED:
        restored(r, e->step - e->from);
        break;
    case SPOT_EVENT_FORMED:
        begin(r);
        r->now.is_join = e->members > r->members;
        r->members = e->members;
        break;
    case SPOT_EVENT_LEFT:
    case SPOT_EVENT_LOST:
        r->members -= r->members > 0; /* a member under notice still counts when its group forms */
        break;
    case SPOT_EVENT_COMMITTED:
        committed(r, e->time_s);
        break;
    default:
        break;
    }
}

static int read_events(struct reader *r, FILE *in, const char *source, struct spot_err *err)
{
    struct spot_event_order order = { 0 };
    struct spot_event_log log = { .in = in, .source = source, .order = &order, .drops_cut = true };
    struct spot_event event;
    int rc;

    while ((rc = spot_event_next(&log, &event, err)) > 0) {
        if (r->n_change == SPOT_MEASURED_CHANGES_MAX) {
            rc = spot_json_fail(&log.doc, "", err, "more than %d changes",
                                SPOT_MEASURED_CHANGES_MAX);
            break;
        }
        on_event(r, &event);
    }
    spot_event_log_release(&log);
    spot_event_order_release(&order);
    return rc;
}

static double at_least_zero(double x)
{
    return x > 0 ? x : 0;
}

/* Sums by group: the means of x and y, and the slope that both groups share. */
struct sums {
    double n[2], x[2], y[2], xx, xy;
};

static void fit(struct reader *r, struct spot_measured_cost *m)
{
    struct sums s = { 0 };
    double level[2], restore = 0;

    if (r->n_step)
        qsort(r->step_s, r->n_step, sizeof(*r->step_s), spot_num_compare);
    *m = (struct spot_measured_cost){ .n_change = r->n_change,
                                      .step_s = r->n_step ? r->step_s[r->n_step / 2] : 0 };
    for (int pass = 0; pass < 2; pass++) /* first the means, then the deviations from them */
        for (size_t i = 0; i < r->n_change; i++) {
            const struct change *c = &r->change[i];
            const double pause = at_least_zero(c->gap_s - m->step_s);
            const int k = c->is_join;

            if (c->is_restore)
                continue;
            if (!pass) {
                s.n[k]++;
                s.x[k] += c->moved_byte;
                s.y[k] += pause;
            } else {
                const double dx = c->moved_byte - s.x[k] / s.n[k];

                s.xx += dx * dx;
                s.xy += dx * (pause - s.y[k] / s.n[k]);
            }
        }
    m->byte_s = s.xx > 0 ? at_least_zero(s.xy / s.xx) : 0;
    for (int k = 0; k < 2; k++)
        level[k] = s.n[k] > 0 ? at_least_zero((s.y[k] - m->byte_s * s.x[k]) / s.n[k]) : -1;
    m->n_join = (size_t)s.n[1];
    m->leave_s = level[0] >= 0 ? level[0] : at_least_zero(level[1]);
    m->join_s = level[1] >= 0 ? level[1] : m->leave_s;
    for (size_t i = 0; i < r->n_change; i++) {
        const struct change *c = &r->change[i];

        if (!c->is_restore)
            continue;
        m->n_restore++;
        restore += at_least_zero(c->gap_s - m->step_s - m->byte_s * c->moved_byte -
                                 (c->is_join ? m->join_s : m->leave_s)) +
                   (double)c->redone * m->step_s;
    }
    m->restore_s = m->n_restore ? restore / (double)m->n_restore : 0;
}

int spot_measured_cost_read(struct spot_measured_cost *m, FILE *in, const char *source,
                            struct spot_err *err)
{
    struct reader r = { .commit_s = -1 };
    struct spot_unpack unpack;
    int rc;

    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    rc = spot_unpack_close(&unpack, read_events(&r, unpack.in, source, err), err);
    if (!rc && !r.n_change)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no change of the grid between two commits", source);
    if (!rc)
        fit(&r, m);
    free(r.change);
    free(r.step_s);
    return rc;
}

int spot_measured_cost_load(struct spot_measured_cost *m, const char *path, struct spot_err *err)
{
    FILE *in = fopen(path, "re");
    int rc;

    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    rc = spot_measured_cost_read(m, in, path, err);
    fclose(in);
    return rc;
}

void spot_measured_cost_apply(const struct spot_measured_cost *m, struct spot_job_cost *c)
{
    static const double FAR = 1e9; /* bytes up to which the line is extrapolated */

    c->process_s = c->extra_s = c->restart_s = 0;
    c->add_per_group_s = c->remove_per_group_s = c->add_per_node_s = c->remove_per_node_s = 0;
    c->n_regroup = c->n_build = 0;
    c->regroup_s = m->leave_s;
    c->rendezvous_s = at_least_zero(m->join_s - m->leave_s);
    c->p2p = spot_xrealloc(c->p2p, 2, sizeof(*c->p2p));
    c->p2p[0] = (struct spot_job_xy){ 1, m->byte_s };
    c->p2p[1] = (struct spot_job_xy){ FAR, m->byte_s * FAR };
    c->n_p2p = 2;
    if (m->n_restore)
        c->checkpoint_s = c->restore_s = m->restore_s;
    else
        c->restore_s = c->checkpoint_s;
}

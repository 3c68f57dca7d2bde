/* SPDX-License-Identifier: MIT */
#include "model/measured_cost.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/line.h"
#include "common/unpack.h"
#include "common/xalloc.h"

struct line {
    const char *event;
    double time_s;
    int64_t moved_byte, restored_byte, members, from, to;
};

struct change {
    double gap_s; /* from commit to commit */
    double moved_byte;
    int64_t redone; /* steps */
    bool is_join, is_restore;
};

struct reader {
    struct change *change, now;
    size_t n_change, change_cap;
    double *step_s; /* between commits of one group */
    size_t n_step, step_cap;
    double time_s, commit_s; /* newest; commit_s < 0: none yet */
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

static void on_event(struct reader *r, const struct line *e)
{
    if (!strcmp(e->event, "quiesce")) {
        begin(r);
    } else if (!strcmp(e->event, "migrate")) {
        begin(r);
        r->now.moved_byte += (double)e->moved_byte;
        r->now.is_restore |= e->restored_byte > 0;
    } else if (!strcmp(e->event, "rolled_back")) {
        begin(r);
        r->now.redone += e->from > e->to ? e->from - e->to : 0;
        r->now.is_restore = true;
    } else if (!strcmp(e->event, "formed")) {
        begin(r);
        r->now.is_join = e->members > r->members;
        r->members = e->members;
    } else if (!strcmp(e->event, "left") || !strcmp(e->event, "lost")) {
        r->members -= r->members > 0; /* one under notice is still counted as its group forms */
    } else if (!strcmp(e->event, "committed")) {
        committed(r, e->time_s);
    }
}

static int on_line(struct reader *r, const char *text, size_t n_byte, const char *source,
                   unsigned long line, struct spot_err *err)
{
    static const struct spot_field field[] = {
        { "event", SPOT_F_STR, offsetof(struct line, event), NULL, 0, 0, true },
        { "time_s", SPOT_F_REAL, offsetof(struct line, time_s), "s", 0, 1e11, true },
        { "moved_byte", SPOT_F_INT, offsetof(struct line, moved_byte), "byte", 0, 0, false },
        { "restored_byte", SPOT_F_INT, offsetof(struct line, restored_byte), "byte", 0, 0, false },
        { "members", SPOT_F_INT, offsetof(struct line, members), "1", 0, 0, false },
        { "from", SPOT_F_INT, offsetof(struct line, from), "1", 0, 0, false },
        { "to", SPOT_F_INT, offsetof(struct line, to), "1", 0, 0, false },
        { 0 },
    };
    struct line e = { 0 };
    struct spot_json_doc doc;
    int rc;

    if (spot_json_parse_line(&doc, text, n_byte, source, line, err))
        return -1;
    rc = spot_json_expect_schema(&doc, "spot.event", 1, err) ||
         spot_json_read_fields(&doc, doc.root, "", field, &e, err);
    if (!rc && e.time_s < r->time_s)
        rc = spot_json_fail(&doc, "/time_s", err, "time goes back from %g s", r->time_s);
    if (!rc && r->n_change == SPOT_MEASURED_CHANGES_MAX)
        rc = spot_json_fail(&doc, "", err, "more than %d changes", SPOT_MEASURED_CHANGES_MAX);
    if (!rc) {
        r->time_s = e.time_s;
        on_event(r, &e);
    }
    spot_json_release(&doc);
    return rc ? -1 : 0;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double at_least_zero(double x)
{
    return x > 0 ? x : 0;
}

/* Means of x and y by group, and the slope that both groups share. */
struct sums {
    double n[2], x[2], y[2], xx, xy;
};

static void fit(struct reader *r, struct spot_measured_cost *m)
{
    struct sums s = { 0 };
    double level[2], restore = 0;

    if (r->n_step)
        qsort(r->step_s, r->n_step, sizeof(*r->step_s), by_size);
    *m = (struct spot_measured_cost){ .n_change = r->n_change,
                                      .step_s = r->n_step ? r->step_s[r->n_step / 2] : 0 };
    for (int pass = 0; pass < 2; pass++) /* means, then what is left of them */
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
    struct spot_line line = { 0 };
    struct spot_unpack unpack;
    int rc;

    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    while ((rc = spot_line_read(&line, unpack.in, SPOT_MEASURED_LINE_MAX, source, err)) > 0)
        if (line.n && on_line(&r, line.text, line.n, source, line.number, err)) {
            rc = -1;
            break;
        }
    rc = spot_unpack_close(&unpack, rc, err);
    if (!rc && !r.n_change)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no change of the grid between two commits", source);
    if (!rc)
        fit(&r, m);
    spot_line_release(&line);
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
    static const double FAR = 1e9; /* byte: the line goes on beyond it */

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

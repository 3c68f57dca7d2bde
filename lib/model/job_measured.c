/* SPDX-License-Identifier: MIT */
#include "model/job_measured.h"

#include "common/num.h"

/* Squared relative error of a + b x over the points. */
static double error_of(const struct spot_job_link *l, double a, double b)
{
    double sum = 0;

    for (size_t i = 0; i < l->n_point; i++) {
        const double r = (a + b * l->point[i].x) / l->point[i].y - 1;

        sum += r * r;
    }
    return sum;
}

/* With two terms all sets of nonzero terms are tried: both, the first alone, the second alone. */
void spot_job_link_fit(struct spot_job_link *l)
{
    double s00 = 0, s01 = 0, s11 = 0, s0 = 0, s1 = 0, det, a, b, best;

    for (size_t i = 0; i < l->n_point; i++) {
        const double u = 1 / l->point[i].y, v = l->point[i].x / l->point[i].y;

        s00 += u * u;
        s01 += u * v;
        s11 += v * v;
        s0 += u;
        s1 += v;
    }
    det = s00 * s11 - s01 * s01;
    a = s0 / s00;
    b = 0;
    best = error_of(l, a, b);
    if (s11 > 0 && error_of(l, 0, s1 / s11) < best) {
        a = 0;
        b = s1 / s11;
        best = error_of(l, a, b);
    }
    if (det > 1e-12 * s00 * s11) {
        const double both_a = (s0 * s11 - s1 * s01) / det, both_b = (s1 * s00 - s0 * s01) / det;

        if (both_a >= 0 && both_b >= 0 && error_of(l, both_a, both_b) < best) {
            a = both_a;
            b = both_b;
        }
    }
    l->latency_s = a;
    l->byte_per_s = b > 0 ? 1 / b : 0;
}

void spot_job_cell_sum_up(struct spot_job_cell *cell, double *step_s, size_t n)
{
    static const double spread_max = 0.5;

    cell->steps = (int64_t)n;
    cell->low_s = spot_num_quantile(step_s, n, 0.25);
    cell->step_s = spot_num_quantile(step_s, n, 0.5);
    cell->high_s = spot_num_quantile(step_s, n, 0.75);
    cell->is_outlier = cell->high_s - cell->low_s > spread_max * cell->step_s;
}

double spot_job_cell_spread(const struct spot_job_cell *cell)
{
    return (cell->high_s - cell->low_s) / cell->step_s;
}

static void write_cells(struct spot_jw *jw, const struct spot_job_measured *m)
{
    spot_jw_array(jw, "cells");
    for (size_t i = 0; i < m->n_cell; i++) {
        const struct spot_job_cell *c = &m->cell[i];

        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "D", c->grid.D);
        spot_jw_int(jw, "P", c->grid.P);
        spot_jw_int(jw, "M", c->grid.M);
        spot_jw_int(jw, "B", c->micro_batch);
        spot_jw_int(jw, "steps", c->steps);
        spot_jw_int(jw, "runs", c->runs);
        spot_jw_real(jw, "step_s", c->step_s);
        spot_jw_real(jw, "low_s", c->low_s);
        spot_jw_real(jw, "high_s", c->high_s);
        if (c->curve_s > 0)
            spot_jw_real(jw, "law_s", c->curve_s);
        spot_jw_real(jw, "forward_s", c->forward_s);
        spot_jw_real(jw, "backward_s", c->backward_s);
        spot_jw_real(jw, "reduce_s", c->reduce_s);
        spot_jw_real(jw, "read_s", c->read_s);
        spot_jw_bool(jw, "outlier", c->is_outlier);
        spot_jw_array(jw, "stages");
        for (int64_t p = 0; p < c->grid.P; p++) {
            spot_jw_object(jw, NULL);
            spot_jw_real(jw, "planned_byte", c->stage[p].planned_byte);
            spot_jw_real(jw, "resident_byte", c->stage[p].resident_byte);
            spot_jw_end(jw);
        }
        spot_jw_end(jw);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void write_link(struct spot_jw *jw, const char *key, const struct spot_job_link *l)
{
    if (!l->n_point)
        return;
    spot_jw_object(jw, key);
    spot_jw_int(jw, "members", l->members);
    spot_jw_real(jw, "latency_s", l->latency_s);
    if (l->byte_per_s > 0)
        spot_jw_real(jw, "byte_per_s", l->byte_per_s);
    spot_jw_array(jw, "points");
    for (size_t i = 0; i < l->n_point; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_real(jw, "byte", l->point[i].x);
        spot_jw_real(jw, "s", l->point[i].y);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_end(jw);
}

static void write_curve(struct spot_jw *jw, const struct spot_step_curve *curve)
{
    if (!curve->n_point)
        return;
    spot_jw_object(jw, "law");
    spot_jw_real(jw, "pipe", curve->pipe);
    spot_jw_real(jw, "fill_s", curve->fill_s);
    spot_jw_real(jw, "fixed_s", curve->fixed_s);
    spot_jw_int(jw, "points", (int64_t)curve->n_point);
    spot_jw_int(jw, "outliers", (int64_t)curve->n_outlier);
    spot_jw_real(jw, "error_mean", curve->error_mean);
    spot_jw_real(jw, "error_max", curve->error_max);
    spot_jw_end(jw);
}

static void write_stall(struct spot_jw *jw, const struct spot_job_stall *s)
{
    if (!s->steps)
        return;
    spot_jw_object(jw, "stall");
    spot_jw_int(jw, "D", s->D);
    spot_jw_int(jw, "steps", s->steps);
    spot_jw_real(jw, "step_s", s->step_s);
    spot_jw_real(jw, "compute_s", s->compute_s);
    spot_jw_real(jw, "interconnect_s", s->interconnect_s);
    spot_jw_real(jw, "network_s", s->network_s);
    spot_jw_real(jw, "prep_s", s->prep_s);
    spot_jw_real(jw, "fetch_s", s->fetch_s);
    spot_jw_end(jw);
}

static void write_change(struct spot_jw *jw, const struct spot_job_change *c)
{
    if (!c->changes)
        return;
    spot_jw_object(jw, "change");
    spot_jw_int(jw, "changes", c->changes);
    spot_jw_int(jw, "joins", c->joins);
    spot_jw_real(jw, "leave_s", c->leave_s);
    spot_jw_real(jw, "join_s", c->join_s);
    spot_jw_real(jw, "s_per_byte", c->byte_s);
    spot_jw_end(jw);
}

void spot_job_measured_write(struct spot_jw *jw, const struct spot_job_measured *m)
{
    spot_jw_object(jw, "measured");
    spot_jw_int(jw, "workers", m->workers);
    spot_jw_int(jw, "warm_up", m->warm_up);
    write_cells(jw, m);
    write_curve(jw, &m->curve);
    write_link(jw, "p2p", &m->p2p);
    write_link(jw, "sum", &m->sum);
    write_stall(jw, &m->stall);
    write_change(jw, &m->change);
    spot_jw_end(jw);
}

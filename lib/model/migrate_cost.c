/* SPDX-License-Identifier: MIT */
#include "model/migrate_cost.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "model/stage_split.h"

double spot_migrate_p2p_s(const struct spot_job_cost *cost, double byte)
{
    const struct spot_job_xy *t = cost->p2p;
    const size_t n = cost->n_p2p;
    size_t i = 0;

    if (!n)
        return 0;
    if (byte <= t[0].x)
        return t[0].y;
    if (byte >= t[n - 1].x)
        return t[n - 1].y * byte / t[n - 1].x;
    while (byte > t[i + 1].x)
        i++;
    return t[i].y + (t[i + 1].y - t[i].y) * (byte - t[i].x) / (t[i + 1].x - t[i].x);
}

double spot_migrate_regroup_s(const struct spot_job_cost *cost, int d, int p,
                              enum spot_change_kind kind)
{
    const bool add = kind == SPOT_CHANGE_ADD;
    const double group = d + p + 1 + (double)d * p, node = (double)d * p;
    double s = cost->regroup_s;

    s += group * (add ? cost->add_per_group_s : cost->remove_per_group_s);
    s += node * (add ? cost->add_per_node_s : cost->remove_per_node_s);
    for (size_t i = cost->n_regroup; i-- > 0;)
        if (d >= cost->regroup[i].d_from)
            return s + (add ? cost->regroup[i].add_s : cost->regroup[i].remove_s);
    return s;
}

static double build_s(const struct spot_job_cost *cost, int p)
{
    double s = cost->n_build ? cost->build[0].y : 0;

    for (size_t i = 0; i < cost->n_build && cost->build[i].x <= p; i++)
        s = cost->build[i].y;
    return s;
}

double spot_migrate_restart_s(const struct spot_job_cost *cost, int d, int p,
                              enum spot_change_kind kind)
{
    const double join = kind == SPOT_CHANGE_ADD ? cost->rendezvous_s + cost->extra_s : 0;

    if (cost->restart_s > 0)
        return cost->restart_s;
    return join + spot_migrate_regroup_s(cost, d, p, kind) + cost->process_s + build_s(cost, p);
}

double spot_migrate_intra_s(const struct spot_job_cost *cost, int d, int p)
{
    return spot_migrate_regroup_s(cost, d, p, SPOT_CHANGE_REMOVE) + cost->process_s;
}

/* `before` [n_layer + 1]: parameters before each layer; differences of it are equal for equal cuts.
 */
static void fill_stages(struct spot_migrate_cost *c, const double *before, int p)
{
    for (int k = 0; k < p; k++) {
        const struct spot_stage_span span = spot_stage_split((int)c->job->n_layer, p, k);
        const double params = before[span.end] - before[span.first];
        const double s =
            spot_migrate_p2p_s(&c->job->cost, params * c->job->cost.move_byte_per_param);

        c->params[p * c->p_max + k] = params;
        c->stage_s[p * c->p_max + k] = s;
        c->first_param[p * (c->p_max + 1) + k + 1] = before[span.end];
        c->slowest_s[p] = s > c->slowest_s[p] ? s : c->slowest_s[p];
        c->all_s[p] += s;
    }
}

void spot_migrate_cost_init(struct spot_migrate_cost *c, const struct spot_job_doc *job, int p_max)
{
    const size_t n = (size_t)p_max + 1;
    double *before = spot_xcalloc(job->n_layer + 1, sizeof(*before));

    for (size_t i = 0; i < job->n_layer; i++)
        before[i + 1] = before[i] + job->layer[i].params;
    *c = (struct spot_migrate_cost){ .job = job, .p_max = p_max };
    c->params = spot_xcalloc(n * n, sizeof(double));
    c->stage_s = spot_xcalloc(n * n, sizeof(double));
    c->first_param = spot_xcalloc(n * n, sizeof(double));
    c->slowest_s = spot_xcalloc(n, sizeof(double));
    c->all_s = spot_xcalloc(n, sizeof(double));
    for (int p = 1; p <= p_max && p <= (int)job->n_layer; p++)
        fill_stages(c, before, p);
    free(before);
}

void spot_migrate_cost_release(struct spot_migrate_cost *c)
{
    free(c->params);
    free(c->stage_s);
    free(c->first_param);
    free(c->slowest_s);
    free(c->all_s);
    memset(c, 0, sizeof(*c));
}

double spot_migrate_overlap(const struct spot_migrate_cost *c, int p, int k, int p2, int k2)
{
    const double *a = c->first_param + (size_t)p * (size_t)(c->p_max + 1);
    const double *b = c->first_param + (size_t)p2 * (size_t)(c->p_max + 1);
    const double from = a[k] > b[k2] ? a[k] : b[k2];
    const double to = a[k + 1] < b[k2 + 1] ? a[k + 1] : b[k2 + 1];

    return to > from ? to - from : 0;
}

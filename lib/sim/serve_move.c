/* SPDX-License-Identifier: MIT */
#include "sim/serve_move.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/migration.h"

enum { EFFORT = 300, NAME = 24 };

/* Instances as nodes of a migration. */
struct nodes {
    struct spot_cluster cluster;
    char (*name)[NAME]; /* names of nodes and caches: "i0", "i1", ... */
};

static void nodes_init(struct nodes *n, const struct spot_serve_moves *m,
                       const struct spot_serve_change *c, int64_t used)
{
    const int64_t n_node = c->instances + c->gained;
    const size_t n_name = (size_t)(n_node > c->from.D ? n_node : c->from.D);

    *n = (struct nodes){ .cluster = { .n_node = (size_t)n_node, .tensor_groups = "whole" } };
    n->name = spot_xcalloc(n_name, sizeof(*n->name));
    for (size_t i = 0; i < n_name; i++)
        snprintf(n->name[i], NAME, "i%zu", i);
    n->cluster.node = spot_xcalloc(n->cluster.n_node, sizeof(*n->cluster.node));
    for (size_t i = 0; i < n->cluster.n_node; i++) {
        n->cluster.node[i] = (struct spot_cluster_node){ .name = n->name[i],
                                                         .zone = "",
                                                         .out_byte_per_s = m->byte_per_s,
                                                         .in_byte_per_s = m->byte_per_s,
                                                         .slots = m->serve->gpus,
                                                         .deadline_s = 1e9 };
    }
    for (int64_t i = 0; i < c->lost; i++) {
        const int64_t among = used > c->lost ? used : c->instances;

        n->cluster.node[(2 * i + 1) * among / (2 * c->lost)].is_leaving = true;
    }
}

static void grid_of(struct spot_layout *l, const struct spot_serve_moves *m,
                    const struct spot_grid *grid, int64_t replicas, const struct nodes *n)
{
    *l = *m->layout;
    l->d = grid->D, l->p = grid->P, l->m = grid->M;
    l->place = NULL, l->n_place = 0;
    l->n_kv = (size_t)replicas;
    l->kv = spot_xcalloc(l->n_kv, sizeof(*l->kv));
    for (size_t k = 0; k < l->n_kv; k++)
        l->kv[k] = (struct spot_layout_kv){
            .name = n->name[k],
            .d = (int64_t)k % grid->D,
            .n_token = m->serve->max_batch * (m->serve->prompt_token + m->serve->output_token),
            .byte = m->layout->component[0].byte_per_param,
        };
    spot_layout_balance(&l->model, l->p, l->stage_end);
}

static void seat(struct spot_layout *l, const struct nodes *n, int64_t gpus)
{
    l->n_place = (size_t)(l->d * l->p * l->m);
    l->place = spot_xcalloc(l->n_place, sizeof(*l->place));
    for (int64_t r = 0; r < (int64_t)l->n_place; r++)
        l->place[r] = (struct spot_layout_place){
            .node = n->name[r / gpus], .d = r / (l->p * l->m), .p = r / l->m % l->p, .m = r % l->m
        };
}

static double plan(const struct spot_serve_moves *m, const struct spot_serve_change *c)
{
    const int64_t gpus = m->serve->gpus, used = (spot_grid_size(&c->from) + gpus - 1) / gpus;
    struct spot_migration_problem problem = { 0 };
    struct spot_migration_plan plan;
    struct spot_layout *layout = spot_xcalloc(2, sizeof(*layout));
    struct nodes nodes;
    double time_s = m->other_s;

    nodes_init(&nodes, m, c, used);
    grid_of(&layout[0], m, &c->from, c->from.D, &nodes);
    grid_of(&layout[1], m, &c->to, c->from.D, &nodes);
    seat(&layout[0], &nodes, gpus);
    if (!spot_migration_of_layouts(&problem, &layout[0], &layout[1], &nodes.cluster, NULL)) {
        problem.effort = EFFORT;
        if (!spot_migrate(&problem, &plan, NULL)) {
            time_s = plan.makespan_s;
            spot_migration_plan_release(&plan);
        }
    }
    spot_migration_problem_release(&problem);
    free(layout[0].place), free(layout[0].kv), free(layout[1].kv), free(layout);
    free(nodes.cluster.node), free(nodes.name);
    return time_s;
}

double spot_serve_move_s(struct spot_serve_moves *m, const struct spot_serve_change *change)
{
    struct spot_serve_change c;
    double time_s = m->other_s;

    memset(&c, 0, sizeof(c)); /* compared as bytes */
    c.from = change->from, c.to = change->to;
    c.instances = change->instances, c.lost = change->lost, c.gained = change->gained;
    for (size_t i = 0; i < m->n_known; i++)
        if (!memcmp(&m->known[i].change, &c, sizeof(c)))
            return m->known[i].time_s;
    if (c.from.P <= m->layout->model.n_layer && c.to.P <= m->layout->model.n_layer &&
        spot_grid_size(&c.from) <= c.instances * m->serve->gpus &&
        spot_grid_size(&c.to) <= (c.instances + c.gained - c.lost) * m->serve->gpus)
        time_s = plan(m, &c);
    m->known = spot_xgrow(m->known, &m->known_cap, m->n_known + 1, sizeof(*m->known));
    m->known[m->n_known++] = (struct spot_serve_moved){ c, time_s };
    return time_s;
}

void spot_serve_moves_release(struct spot_serve_moves *m)
{
    free(m->known);
    m->known = NULL;
    m->n_known = m->known_cap = 0;
}

/* SPDX-License-Identifier: MIT */
#include "plan_commands.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

int serve_places_load(struct serve_places *s, const char *layout, const char *cluster,
                      struct spot_prov *prov, struct spot_err *err)
{
    if (spot_layout_load(&s->from, layout, err) || spot_cluster_load(&s->cluster, cluster, err))
        return -1;
    spot_prov_add(prov, layout, s->from.json.hash);
    spot_prov_add(prov, cluster, s->cluster.json.hash);
    return 0;
}

/* The wanted layout borrows everything from the current one except the grid and places. A cache
 * stays with its replica; if that no longer exists, its caches go to the others in turn. */
static void want(struct spot_layout *to, const struct spot_layout *from,
                 const struct spot_grid *grid)
{
    *to = *from;
    to->d = grid->D;
    to->p = grid->P;
    to->m = grid->M;
    to->place = NULL;
    to->n_place = 0;
    to->kv = spot_xcalloc(from->n_kv ? from->n_kv : 1, sizeof(*to->kv));
    for (size_t k = 0; k < from->n_kv; k++) {
        to->kv[k] = from->kv[k];
        to->kv[k].d %= grid->D;
    }
    spot_layout_balance(&to->model, to->p, to->stage_end);
}

static void keep_places(struct serve_places *s, const struct spot_grid *grid,
                        const struct spot_migration_plan *plan)
{
    s->n_place = (size_t)(grid->D * grid->P * grid->M);
    s->place = spot_xcalloc(s->n_place, sizeof(*s->place));
    for (size_t k = 0; k < s->n_place; k++) {
        const int64_t at = (int64_t)k;

        s->place[k] = (struct spot_plan_place){ s->cluster.node[plan->node_of_position[k]].name,
                                                at / (grid->P * grid->M), at / grid->M % grid->P,
                                                at % grid->M };
    }
    s->makespan_s = plan->makespan_s;
    s->restart_s = plan->restart_s;
    s->moved_byte = plan->total_byte;
    s->bound_byte = plan->bound_byte;
}

/* The time of the first pass per layer of the layout; for a batch in parts, that of the first part.
 */
static double layer_s(const struct serve_places *s, const struct spot_job_serve *serve,
                      const struct spot_plan_doc *plan)
{
    const bool is_token = s->from.n_kv > 0;
    const int64_t parts = is_token ? plan->decode_parts : plan->prefill_parts;
    const struct spot_serve_shape whole = { 1, plan->next.M, plan->micro_batch / parts, 1, 1 };
    struct spot_serve_time time;

    if (spot_serve_time(serve, &whole, &time))
        return 0;
    return (is_token ? time.decode_s : time.prefill_s) / (double)s->from.model.n_layer;
}

int serve_places_make(struct serve_places *s, const struct spot_job_serve *serve,
                      const struct spot_plan_doc *doc, struct spot_err *err)
{
    const struct spot_grid *grid = &doc->next;
    struct spot_migration_problem problem = { 0 };
    struct spot_migration_plan plan;
    struct spot_layout to;
    int rc = -1;

    free(s->place);
    s->place = NULL;
    s->n_place = 0;
    if (grid->P > s->from.model.n_layer)
        return spot_err_set(err, SPOT_EDATA, "%lld stages of a layout of %lld layers",
                            (long long)grid->P, (long long)s->from.model.n_layer);
    want(&to, &s->from, grid);
    if (spot_migration_of_layouts(&problem, &s->from, &to, &s->cluster, err))
        goto out;
    problem.memory_cap_byte = s->memory_cap_byte;
    problem.restarts = true;
    problem.layer_s = layer_s(s, serve, doc);
    if (spot_migrate(&problem, &plan, err))
        goto out;
    keep_places(s, grid, &plan);
    spot_migration_plan_release(&plan);
    rc = 0;
out:
    spot_migration_problem_release(&problem);
    free(to.kv);
    return rc;
}

void serve_places_release(struct serve_places *s)
{
    free(s->place);
    spot_layout_release(&s->from);
    spot_cluster_release(&s->cluster);
    *s = (struct serve_places){ 0 };
}

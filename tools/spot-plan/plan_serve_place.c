/* SPDX-License-Identifier: MIT */
#include "plan_serve_place.h"

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

/* The wanted layout borrows all of what runs but its grid and places. A cache stays with its
 * replica, and where that is no more goes to the others in turn. */
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
    s->moved_byte = plan->total_byte;
    s->bound_byte = plan->bound_byte;
}

int serve_places_make(struct serve_places *s, const struct spot_grid *grid, struct spot_err *err)
{
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
    if (!spot_migration_of_layouts(&problem, &s->from, &to, &s->cluster, err) &&
        !spot_migrate(&problem, &plan, err)) {
        keep_places(s, grid, &plan);
        spot_migration_plan_release(&plan);
        rc = 0;
    }
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

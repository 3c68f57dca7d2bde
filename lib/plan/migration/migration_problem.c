/* SPDX-License-Identifier: MIT */
/* Builds migration problems from layout documents, or from what the members of a job hold. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/migration.h"

struct named {
    const char *name;
    int node;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* [n_place] the node of each place; -1 if the cluster does not have it. */
static int *find_nodes(const struct spot_layout *layout, const struct spot_cluster *cluster)
{
    int *node = spot_xcalloc(layout->n_place, sizeof(int));
    struct named *named = spot_xcalloc(cluster->n_node, sizeof *named);

    for (size_t i = 0; i < cluster->n_node; i++)
        named[i] = (struct named){ cluster->node[i].name, (int)i };
    qsort(named, cluster->n_node, sizeof *named, by_name);
    for (size_t k = 0; k < layout->n_place; k++) {
        const struct named key = { layout->place[k].node, 0 };
        const struct named *hit = bsearch(&key, named, cluster->n_node, sizeof *named, by_name);

        node[k] = hit ? hit->node : -1;
    }
    free(named);
    return node;
}

static size_t position_of(const struct spot_layout *layout, const struct spot_layout_place *place)
{
    return (size_t)((place->d * layout->p + place->p) * layout->m + place->m);
}

static void read_old_places(struct spot_migration_problem *p, const struct spot_layout *from)
{
    int *node = find_nodes(from, p->cluster);

    p->node_of_old = spot_xcalloc((size_t)p->reshard.n_old, sizeof(int));
    for (int q = 0; q < p->reshard.n_old; q++)
        p->node_of_old[q] = -1;
    for (size_t k = 0; k < from->n_place; k++)
        if (node[k] >= 0 && !from->place[k].is_stale)
            p->node_of_old[position_of(from, &from->place[k])] = node[k];
    free(node);
}

/* The target names all of its nodes, or none. */
static int read_new_places(struct spot_migration_problem *p, const struct spot_layout *to,
                           struct spot_err *err)
{
    int *node, rc = 0;
    char at[64];

    if (!to->n_place)
        return 0;
    if (to->n_place != (size_t)p->reshard.n_new)
        return spot_json_fail(&to->json, "/place", err, "names %zu of %d positions", to->n_place,
                              p->reshard.n_new);
    node = find_nodes(to, p->cluster);
    p->place = spot_xcalloc(to->n_place, sizeof(int));
    for (size_t k = 0; k < to->n_place && !rc; k++) {
        const struct spot_cluster_node *mine = node[k] < 0 ? NULL : &p->cluster->node[node[k]];

        snprintf(at, sizeof at, "/place/%zu/node", k);
        if (!mine || mine->is_leaving || mine->slots < 1)
            rc = spot_json_fail(&to->json, at, err, "the cluster has no node '%s' that stays",
                                to->place[k].node);
        p->place[position_of(to, &to->place[k])] = node[k];
    }
    free(node);
    return rc;
}

/* How many ranks of a tensor-parallel group a node can take: the largest divisor of M that fits
 * into a node. */
static int ranks_together(const struct spot_layout *to, const struct spot_cluster *cluster)
{
    int64_t most = 1, n;

    if (!cluster->tensor_groups || strcmp(cluster->tensor_groups, "whole") != 0)
        return 1;
    for (size_t i = 0; i < cluster->n_node; i++)
        if (!cluster->node[i].is_leaving && cluster->node[i].slots > most)
            most = cluster->node[i].slots;
    for (n = most < to->m ? most : to->m; to->m % n != 0;)
        n--;
    return (int)n;
}

/* Join the places of ranks on one node to one place. */
static int join_ranks(struct spot_migration_problem *p, const struct spot_layout *to,
                      struct spot_err *err)
{
    p->together = ranks_together(to, p->cluster);
    for (int q = 0; p->place && q < p->reshard.n_new; q++) {
        if (p->place[q] != p->place[q - q % p->together])
            return spot_json_fail(&to->json, "/place", err,
                                  "tears a tensor group apart: position %d is not on the node of "
                                  "position %d, and tensor_groups is \"whole\"",
                                  q, q - q % p->together);
        p->place[q / p->together] = p->place[q];
    }
    spot_reshard_join(&p->reshard, p->together);
    return 0;
}

int spot_migration_of_layouts(struct spot_migration_problem *p, const struct spot_layout *from,
                              const struct spot_layout *to, const struct spot_cluster *cluster,
                              struct spot_err *err)
{
    *p = (struct spot_migration_problem){
        .cluster = cluster, .deadline_s = INFINITY, .memory_cap_byte = INFINITY, .together = 1
    };
    p->shares_links = cluster->links && !strcmp(cluster->links, "shared");
    if (spot_reshard_init(&p->reshard, from, to, err))
        return -1;
    read_old_places(p, from);
    return read_new_places(p, to, err) || join_ranks(p, to, err) ? -1 : 0;
}

/* List the numbers i below n whose entry in a column is set. */
static int list_set(const uint8_t *column, int n, int stride, int *list)
{
    int n_set = 0;

    for (int i = 0; i < n; i++)
        if (column[(size_t)i * (size_t)stride])
            list[n_set++] = i;
    return n_set;
}

static void fill_part(const struct spot_migration_bundles *b, int k, struct spot_reshard_part *part)
{
    int *list = spot_xcalloc((size_t)b->n_node + (size_t)b->n_position, sizeof(int));

    *part = (struct spot_reshard_part){ .byte = b->byte[k], .holder = list, .kv = -1 };
    part->n_holder = list_set(b->holds + k, b->n_node, b->n_bundle, list);
    part->want = list + part->n_holder;
    part->n_want = list_set(b->needs + k, b->n_position, b->n_bundle, list + part->n_holder);
    part->n_piece = part->piece_cap = 1;
    part->piece = spot_xcalloc(1, sizeof *part->piece);
    *part->piece = (struct spot_reshard_piece){ .first = k, .last = k, .byte = b->byte[k] };
}

void spot_migration_of_bundles(struct spot_migration_problem *p,
                               const struct spot_migration_bundles *b,
                               const struct spot_cluster *cluster)
{
    struct spot_reshard *r = &p->reshard;

    *p = (struct spot_migration_problem){ .cluster = cluster,
                                          .together = 1,
                                          .deadline_s = INFINITY,
                                          .memory_cap_byte = INFINITY,
                                          .is_whole = true };
    r->n_old = b->n_node;
    r->n_new = b->n_position;
    r->n_bundle = b->n_bundle;
    r->n_part = (size_t)b->n_bundle;
    r->part = spot_xcalloc(r->n_part, sizeof *r->part);
    for (int k = 0; k < b->n_bundle; k++) {
        fill_part(b, k, &r->part[k]);
        r->replica_byte += b->byte[k];
    }
    p->node_of_old = spot_xcalloc((size_t)b->n_node, sizeof(int));
    for (int i = 0; i < b->n_node; i++)
        p->node_of_old[i] = i;
}

void spot_migration_problem_release(struct spot_migration_problem *p)
{
    spot_reshard_release(&p->reshard);
    free(p->node_of_old), free(p->place);
    *p = (struct spot_migration_problem){ 0 };
}

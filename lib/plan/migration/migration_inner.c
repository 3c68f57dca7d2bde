/* SPDX-License-Identifier: MIT */
#include "plan/migration/migration_inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"

/* Returns the number of slots. No node counts for more slots than there are positions. */
static int64_t read_nodes(struct spot_migration *s)
{
    const size_t n = (size_t)s->n_node;
    int64_t n_slot = 0;

    s->out = spot_xcalloc(4 * n, sizeof(double));
    s->in = s->out + n;
    s->limit = s->in + n;
    s->deadline_s = s->limit + n;
    s->can_place = spot_xcalloc(n, 1);
    s->slots = spot_xcalloc(n, sizeof *s->slots);
    s->is_single = true;
    for (size_t i = 0; i < n; i++) {
        const struct spot_cluster_node *node = &s->problem->cluster->node[i];
        const int64_t slots = node->slots / s->problem->together;
        const double deadline_s = s->problem->is_late          ? INFINITY
                                  : isfinite(node->deadline_s) ? node->deadline_s
                                                               : s->problem->deadline_s;

        s->out[i] = node->out_byte_per_s;
        s->in[i] = node->in_byte_per_s;
        s->deadline_s[i] = deadline_s;
        s->limit[i] = node->is_leaving ? node->out_byte_per_s * deadline_s : INFINITY;
        s->can_place[i] = !node->is_leaving && slots > 0;
        s->slots[i] = !s->can_place[i] ? 0 : slots < s->r->n_new ? slots : s->r->n_new;
        s->is_single = s->is_single && s->slots[i] <= 1;
        n_slot += s->slots[i];
    }
    return n_slot;
}

/* Number the zones and read their prices; a single zone if transfers are free. */
static void read_prices(struct spot_migration *s)
{
    const struct spot_cluster *cluster = s->problem->cluster;
    const char **name = spot_xcalloc((size_t)s->n_node, sizeof *name);

    s->zone = spot_xcalloc((size_t)s->n_node, sizeof(int));
    s->n_zone = 1;
    for (int i = 0, n = 0; i < s->n_node && cluster->n_egress; i++) {
        int z = 0;

        while (z < n && strcmp(name[z], cluster->node[i].zone) != 0)
            z++;
        if (z == n)
            name[n++] = cluster->node[i].zone;
        s->zone[i] = z;
        s->n_zone = n;
    }
    if (cluster->n_egress)
        s->price = spot_xcalloc((size_t)s->n_zone * (size_t)s->n_zone, sizeof *s->price);
    for (size_t k = 0; k < cluster->n_egress; k++)
        for (int a = 0; a < s->n_zone; a++)
            for (int b = 0; b < s->n_zone; b++)
                if (!strcmp(name[a], cluster->egress[k].from) &&
                    !strcmp(name[b], cluster->egress[k].to))
                    s->price[a * s->n_zone + b] =
                        llround(cluster->egress[k].usd_per_gb * SPOT_EGRESS_UNIT);
    free(name);
}

static int by_int(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Live nodes that hold the part, ascending, each once; returns their number. */
static int list_holders(const struct spot_reshard_part *part, const int *node_of_old, int *list)
{
    int n = 0, n_distinct = 0;

    for (int h = 0; h < part->n_holder; h++)
        if (node_of_old[part->holder[h]] >= 0)
            list[n++] = node_of_old[part->holder[h]];
    qsort(list, (size_t)n, sizeof(int), by_int);
    for (int h = 0; h < n; h++)
        if (!h || list[h] != list[n_distinct - 1])
            list[n_distinct++] = list[h];
    return n_distinct;
}

static void find_sets(struct spot_migration *s)
{
    const size_t n_part = s->r->n_part, n_table = 4 * n_part + 1;
    int *table = spot_xcalloc(n_table, sizeof(int)); /* set + 1, 0: empty */
    int *list = spot_xcalloc((size_t)s->r->n_old, sizeof(int));
    size_t begin_cap = 0, node_cap = 0;

    s->set_begin = spot_xgrow(NULL, &begin_cap, 1, sizeof(int));
    s->set_begin[0] = 0;
    for (size_t k = 0; k < n_part; k++) {
        const int n = list_holders(&s->r->part[k], s->problem->node_of_old, list);
        size_t at = spot_hash64(list, (size_t)n * sizeof(int)) % n_table;

        for (; table[at]; at = (at + 1) % n_table)
            if (spot_set_size(s, table[at] - 1) == n &&
                !memcmp(s->set_node + s->set_begin[table[at] - 1], list, (size_t)n * sizeof(int)))
                break;
        if (!table[at]) {
            const int begin = s->set_begin[s->n_set];

            s->set_node = spot_xgrow(s->set_node, &node_cap, (size_t)(begin + n) + 1, sizeof(int));
            memcpy(s->set_node + begin, list, (size_t)n * sizeof(int));
            s->set_begin = spot_xgrow(s->set_begin, &begin_cap, (size_t)s->n_set + 2, sizeof(int));
            s->set_begin[++s->n_set] = begin + n;
            table[at] = s->n_set;
        }
        s->set_of[k] = table[at] - 1;
    }
    free(table), free(list);
}

/* Find the parts that have holders, all of which will leave. */
static void find_exclusive(struct spot_migration *s)
{
    for (size_t k = 0; k < s->r->n_part; k++) {
        const int set = s->set_of[k];

        s->is_exclusive[k] = spot_set_size(s, set) > 0;
        for (int h = s->set_begin[set]; h < s->set_begin[set + 1]; h++)
            s->is_exclusive[k] = s->is_exclusive[k] && isfinite(s->limit[s->set_node[h]]);
    }
}

int spot_migration_init(struct spot_migration *s, const struct spot_migration_problem *problem,
                        struct spot_err *err)
{
    const struct spot_reshard *r = &problem->reshard;
    size_t n_group;
    int64_t n_slot;

    *s = (struct spot_migration){ .problem = problem, .r = r };
    s->n_node = (int)problem->cluster->n_node;
    if ((double)s->n_node * r->n_new > 1 << 25)
        return spot_err_set(err, SPOT_EDATA, "%d nodes for %d positions are too many", s->n_node,
                            r->n_new);
    n_slot = read_nodes(s);
    if (problem->together > 1 && !problem->place && n_slot < r->n_new)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "%d times %d ranks of a tensor group have to share a node, and there "
                            "is room for %lld; tensor_groups \"spread\" takes any slots",
                            r->n_new, problem->together, (long long)n_slot);
    if (!problem->place && (double)n_slot * r->n_new > 1 << 25)
        return spot_err_set(
            err, SPOT_EDATA,
            "%lld slots for %d positions are too many to compare; a layout that names "
            "its nodes needs no search",
            (long long)n_slot, r->n_new);
    read_prices(s);
    s->set_of = spot_xcalloc(r->n_part, sizeof(int));
    s->is_out = spot_xcalloc(r->n_part, sizeof(bool));
    s->is_exclusive = spot_xcalloc(r->n_part, sizeof(bool));
    find_sets(s);
    find_exclusive(s);
    n_group = ((size_t)s->n_set + (size_t)s->n_node) * (size_t)s->n_zone;
    s->stamp = spot_xcalloc((size_t)s->n_node, sizeof(int));
    s->in_byte = spot_xcalloc((size_t)s->n_node, sizeof *s->in_byte);
    s->group_of = spot_xcalloc(n_group, sizeof(int));
    s->touched = spot_xcalloc(n_group, sizeof(int));
    s->self = spot_xcalloc((size_t)s->n_node, sizeof(int));
    s->cuts_of = spot_xcalloc((size_t)s->n_set + (size_t)s->n_node, sizeof *s->cuts_of);
    if (problem->shares_links)
        s->taken_s = spot_xcalloc((size_t)s->n_node, sizeof(double));
    for (size_t g = 0; g < n_group; g++)
        s->group_of[g] = -1;
    for (int i = 0; i < s->n_node; i++)
        s->self[i] = i;
    return 0;
}

void spot_migration_release(struct spot_migration *s)
{
    free(s->out), free(s->can_place), free(s->slots), free(s->zone), free(s->price);
    free(s->set_of), free(s->set_begin), free(s->set_node), free(s->is_out);
    free(s->is_exclusive), free(s->stamp), free(s->in_byte), free(s->group_of);
    free(s->touched), free(s->demand), free(s->price_of), free(s->want), free(s->self);
    free(s->cuts_of), free(s->job), free(s->taken_s);
    *s = (struct spot_migration){ 0 };
}

/* SPDX-License-Identifier: MIT */
/* What cannot be moved: it has no live holder, or its only holders leave too soon. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/state_inner.h"

/* Saved together or not at all: one part of state, or all parts of one request group. */
struct item {
    double density; /* seconds of recovery that a byte saves */
    int64_t byte;
    size_t part;
    int kv; /* -1: state */
};

static double recovery_s(const struct spot_state *s, const struct spot_part *part)
{
    const struct spot_cluster *cluster = s->problem->cluster;

    if (part->kv >= 0)
        return cluster->prefill_tokens_per_s > 0
                   ? (double)s->r->to->kv[part->kv].n_token / cluster->prefill_tokens_per_s
                   : NAN;
    if (cluster->rollback_s <= 0 && cluster->restore_byte_per_s <= 0)
        return NAN;
    return cluster->rollback_s +
           (cluster->restore_byte_per_s > 0 ? (double)part->byte / cluster->restore_byte_per_s : 0);
}

static void lose(struct spot_state *s, struct spot_state_plan *plan, size_t k)
{
    const struct spot_part *part = &s->r->part[k];

    if (s->is_out[k] || !part->n_want)
        return;
    s->is_out[k] = true;
    plan->loss[plan->n_loss++] =
        (struct spot_state_loss){ k, part->kv >= 0 ? SPOT_FATE_RECOMPUTE : SPOT_FATE_CHECKPOINT,
                                  false, recovery_s(s, part) };
    plan->lost_byte += part->byte;
}

static void lose_item(struct spot_state *s, struct spot_state_plan *plan, const struct item *item)
{
    if (item->kv < 0)
        lose(s, plan, item->part);
    for (size_t k = 0; item->kv >= 0 && k < s->r->n_part; k++)
        if (s->r->part[k].kv == item->kv)
            lose(s, plan, k);
}

/* Densest first, then larger, then in order. */
static int by_density(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->density != y->density)
        return x->density < y->density ? 1 : -1;
    if (x->byte != y->byte)
        return x->byte < y->byte ? 1 : -1;
    return (x->part > y->part) - (x->part < y->part);
}

static int list_items(const struct spot_state *s, struct item *item)
{
    const struct spot_cluster *cluster = s->problem->cluster;
    int *at = spot_xcalloc(s->r->to->n_kv, sizeof(int)), n = 0;
    double state_byte = 0;

    for (size_t k = 0; k < s->r->n_part; k++) {
        const struct spot_part *part = &s->r->part[k];

        if (!s->is_exclusive[k] || s->is_out[k])
            continue;
        if (part->kv < 0)
            state_byte += (double)part->byte;
        if (part->kv >= 0 && at[part->kv]) {
            item[at[part->kv] - 1].byte += part->byte;
            continue;
        }
        item[n++] = (struct item){ 0, part->byte, k, part->kv };
        if (part->kv >= 0)
            at[part->kv] = n;
    }
    for (int i = 0; i < n; i++) {
        const double rate = cluster->prefill_tokens_per_s;

        /* without figures state comes before caches, and long prompts before short ones */
        if (item[i].kv < 0)
            item[i].density = cluster->rollback_s > 0 ? cluster->rollback_s / state_byte : 1e9;
        else
            item[i].density = (double)s->r->to->kv[item[i].kv].n_token / (rate > 0 ? rate : 1e6) /
                              (double)(item[i].byte + 1);
    }
    qsort(item, (size_t)n, sizeof *item, by_density);
    free(at);
    return n;
}

static void add_demand(const struct spot_state *s, struct spot_fetch *fetch, size_t k)
{
    const int set = s->set_of[k];

    fetch->demand[fetch->n_demand++] = (struct spot_fetch_demand){
        .byte = s->r->part[k].byte,
        .holder = s->set_node + s->set_begin[set],
        .n_holder = spot_set_size(s, set),
    };
}

static void add_item(const struct spot_state *s, struct spot_fetch *fetch, const struct item *item)
{
    if (item->kv < 0)
        add_demand(s, fetch, item->part);
    for (size_t k = 0; item->kv >= 0 && k < s->r->n_part; k++)
        if (s->r->part[k].kv == item->kv && s->is_exclusive[k] && !s->is_out[k])
            add_demand(s, fetch, k);
}

/* One copy of everything that only leaving nodes hold must fit through their links in time. By
 * density while it fits: optimal up to one item, for the sets that fit form a polymatroid. */
static void save_in_time(struct spot_state *s, struct spot_state_plan *plan)
{
    struct item *item = spot_xcalloc(s->r->n_part, sizeof *item);
    struct spot_fetch fetch = {
        .n_node = s->n_node, .out_byte_per_s = s->out, .limit_byte = s->limit, .time_s = INFINITY
    };
    const int n = list_items(s, item);

    fetch.demand = spot_xcalloc(s->r->n_part, sizeof *fetch.demand);
    for (int i = 0; i < n; i++)
        add_item(s, &fetch, &item[i]);
    if (n && spot_fetch_split(&fetch)) {
        fetch.n_demand = 0;
        for (int i = 0; i < n; i++) {
            const int before = fetch.n_demand;

            add_item(s, &fetch, &item[i]);
            if (spot_fetch_split(&fetch)) {
                fetch.n_demand = before;
                lose_item(s, plan, &item[i]);
            }
        }
    }
    free(item), free(fetch.demand);
}

void spot_state_triage(struct spot_state *s, struct spot_state_plan *plan)
{
    plan->loss = spot_xcalloc(s->r->n_part, sizeof *plan->loss);
    for (size_t k = 0; k < s->r->n_part; k++) {
        const int set = s->set_of[k];

        if (!spot_set_size(s, set))
            lose(s, plan, k);
        s->is_exclusive[k] = spot_set_size(s, set) > 0;
        for (int h = s->set_begin[set]; h < s->set_begin[set + 1]; h++)
            s->is_exclusive[k] = s->is_exclusive[k] && isfinite(s->limit[s->set_node[h]]);
    }
    save_in_time(s, plan);
}

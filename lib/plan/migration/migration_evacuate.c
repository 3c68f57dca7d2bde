/* SPDX-License-Identifier: MIT */
/* Parts that cannot be moved: those without a live holder, and those whose only holders leave too
 * soon. Of the latter, some can be saved; they are chosen in groups, each of which recovery needs
 * complete (spot_migration_group, evacuation.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/migration/evacuation.h"
#include "plan/migration/migration_inner.h"

/* Groups are numbered: first the state (one group, or one for each bundle), then the caches. */
struct evacuate {
    struct spot_migration *s;
    struct spot_migration_plan *plan;
    struct spot_migration_gates gates;
    int n_state, n;       /* number of state groups; of all groups */
    bool *is_broken;      /* [n] some of it has no holder at all */
    bool *is_lost;        /* [n] broken, or chosen to be lost */
    int64_t *bundle_byte; /* [n_layer + 2] one copy of all components */
};

static int group_of(const struct evacuate *t, const struct spot_reshard_part *part)
{
    if (part->kv >= 0)
        return t->n_state + part->kv;
    return t->n_state > 1 ? (int)part->piece[0].first : 0;
}

/* Seconds that the loss of a group costs; NAN if the cluster does not say. */
static double recovery_s(const struct evacuate *t, int group)
{
    const struct spot_cluster *cluster = t->s->problem->cluster;
    const double restore = cluster->restore_byte_per_s;

    if (group >= t->n_state)
        return cluster->prefill_tokens_per_s > 0
                   ? (double)t->s->r->kv_token[group - t->n_state] / cluster->prefill_tokens_per_s
                   : NAN;
    if (t->n_state == 1)
        return cluster->rollback_s + (restore > 0 ? (double)t->s->r->replica_byte / restore : 0);
    return restore > 0 ? (double)t->bundle_byte[group] / restore : NAN;
}

/* The value of saving a group; 0 if another part of it is lost anyway. If no costs are given, state
 * comes before caches, large before small, and long prompts before short ones. */
static double value_of(const struct evacuate *t, int group)
{
    const double known_s = recovery_s(t, group);

    if (t->is_broken[group])
        return 0;
    if (!isnan(known_s))
        return known_s;
    return group < t->n_state ? (double)t->bundle_byte[group]
                              : (double)t->s->r->kv_token[group - t->n_state] * 1e-6;
}

static void init(struct evacuate *t, struct spot_migration *s, struct spot_migration_plan *plan)
{
    const size_t n_bundle = (size_t)s->r->n_bundle;

    *t = (struct evacuate){ .s = s, .plan = plan };
    t->n_state = s->problem->cluster->rollback_s > 0 ? 1 : (int)n_bundle;
    t->n = t->n_state + (int)s->r->n_kv;
    t->is_broken = spot_xcalloc((size_t)t->n, sizeof(bool));
    t->is_lost = spot_xcalloc((size_t)t->n, sizeof(bool));
    t->bundle_byte = spot_xcalloc(n_bundle, sizeof *t->bundle_byte);
    for (size_t k = 0; k < s->r->n_part; k++)
        for (size_t i = 0; i < s->r->part[k].n_piece && s->r->part[k].kv < 0; i++) {
            const struct spot_reshard_piece *piece = &s->r->part[k].piece[i];

            for (int64_t b = piece->first; b <= piece->last; b++)
                t->bundle_byte[b] += piece->byte / (piece->last - piece->first + 1);
        }
}

/* --- losses --- */

static void lose(struct evacuate *t, size_t k)
{
    const struct spot_reshard_part *part = &t->s->r->part[k];
    const int group = group_of(t, part);

    t->is_lost[group] = true;
    if (t->s->is_out[k] || !part->n_want)
        return;
    t->s->is_out[k] = true;
    t->plan->loss[t->plan->n_loss++] =
        (struct spot_migration_loss){ k, part->kv >= 0 ? SPOT_FATE_RECOMPUTE : SPOT_FATE_CHECKPOINT,
                                      false, -1, NAN };
    t->plan->lost_byte += part->byte;
}

/* A lost cache loses all its parts, also those that could be saved: it is computed again as a
 * whole. */
static void lose_group(struct evacuate *t, int group)
{
    t->is_lost[group] = true;
    for (size_t k = 0; k < t->s->r->n_part; k++)
        if (group_of(t, &t->s->r->part[k]) == group &&
            (group >= t->n_state || t->s->is_exclusive[k]))
            lose(t, k);
}

/* State without a holder breaks every group that contains it. */
static void lose_unheld(struct evacuate *t)
{
    for (size_t k = 0; k < t->s->r->n_part; k++) {
        const struct spot_reshard_part *part = &t->s->r->part[k];

        if (spot_set_size(t->s, t->s->set_of[k]) || !part->n_want)
            continue;
        lose(t, k);
        t->is_broken[group_of(t, part)] = true;
        for (size_t i = 0; i < part->n_piece && part->kv < 0 && t->n_state > 1; i++)
            for (int64_t b = part->piece[i].first; b <= part->piece[i].last; b++)
                t->is_broken[b] = t->is_lost[b] = true;
    }
    for (int g = t->n_state; g < t->n && t->s->problem->cluster->prefill_tokens_per_s > 0; g++)
        if (t->is_broken[g])
            lose_group(t, g);
}

/* --- choices --- */

/* Parts with the same set of holders and the same receiver form one set of spot_evacuation. */
static int64_t pair_of(const struct evacuate *t, size_t part)
{
    return (int64_t)t->s->set_of[part] * (t->gates.n_in + 1) +
           spot_migration_gate_of(&t->gates, part);
}

/* Number the groups that may be lost, -1 for the others, and list the pairs that hold them. */
static void number(const struct evacuate *t, struct spot_evacuation *evacuation, int *index,
                   int64_t *pair)
{
    int n = 0;

    for (int g = 0; g < t->n; g++)
        index[g] = -1;
    for (size_t k = 0; k < t->s->r->n_part; k++) {
        int *g = &index[group_of(t, &t->s->r->part[k])];

        if (!t->s->is_exclusive[k] || t->s->is_out[k])
            continue;
        *g = *g < 0 ? evacuation->n_group++ : *g;
        pair[n++] = pair_of(t, k);
    }
    evacuation->n_set = spot_migration_set(pair, n);
}

/* Bytes of each group in each pair. */
static void fill(const struct evacuate *t, const int *index, const int64_t *pair, int n_set,
                 struct spot_evacuation_set *set, int64_t *byte)
{
    const struct spot_migration *s = t->s;

    for (size_t k = 0; k < s->r->n_part; k++) {
        size_t at;

        if (!s->is_exclusive[k] || s->is_out[k])
            continue;
        at = (size_t)spot_migration_find(pair, n_set, pair_of(t, k));
        set[at] = (struct spot_evacuation_set){ s->set_node + s->set_begin[s->set_of[k]],
                                                spot_set_size(s, s->set_of[k]),
                                                spot_migration_gate_of(&t->gates, k) };
        byte[(size_t)index[group_of(t, &s->r->part[k])] * (size_t)n_set + at] += s->r->part[k].byte;
    }
}

/* Choose what to save: one copy of everything that only leaving nodes hold must pass their links in
 * time. */
static void save_in_time(struct evacuate *t)
{
    struct spot_migration *s = t->s;
    const struct spot_migration_gates *gates = &t->gates;
    struct spot_evacuation evacuation = { .n_node = s->n_node,
                                          .limit_byte = s->limit,
                                          .in = gates->in,
                                          .n_in = gates->n_in,
                                          .out = gates->out,
                                          .n_out = gates->n_deadline,
                                          .out_gate = gates->out_gate };
    int *index = spot_xcalloc((size_t)t->n, sizeof(int));
    int64_t *pair = spot_xcalloc(s->r->n_part, sizeof *pair);
    struct spot_evacuation_set *set;
    int64_t *byte;
    double *value;

    number(t, &evacuation, index, pair);
    set = spot_xcalloc((size_t)evacuation.n_set, sizeof *set);
    byte = spot_xcalloc((size_t)evacuation.n_set * (size_t)evacuation.n_group, sizeof *byte);
    value = spot_xcalloc((size_t)evacuation.n_group, sizeof *value);
    fill(t, index, pair, evacuation.n_set, set, byte);
    evacuation.set = set, evacuation.byte = byte, evacuation.value = value;
    evacuation.is_saved = spot_xcalloc((size_t)evacuation.n_group, sizeof(bool));
    for (int g = 0; g < t->n; g++)
        if (index[g] >= 0)
            value[index[g]] = value_of(t, g);
    spot_evacuation(&evacuation);
    t->plan->recovery_bound_s = evacuation.saved - evacuation.bound;
    t->plan->n_at_stake = evacuation.n_group;
    for (int g = 0; g < t->n; g++) {
        if (index[g] < 0)
            continue;
        t->plan->n_saved += evacuation.is_saved[index[g]];
        if (!evacuation.is_saved[index[g]])
            lose_group(t, g);
    }
    free(index), free(pair), free(set), free(byte), free(value), free(evacuation.is_saved);
}

/* --- costs --- */

/* Adjacent lost bundles are reported together. */
static void list_groups(struct evacuate *t)
{
    struct spot_migration_plan *plan = t->plan;

    plan->recovery_s = 0;
    for (int g = 0; g < t->n; g++) {
        const bool is_bundle = g < t->n_state && t->n_state > 1;
        struct spot_migration_group *last = plan->n_group ? &plan->group[plan->n_group - 1] : NULL;

        if (!t->is_lost[g])
            continue;
        plan->recovery_s += recovery_s(t, g);
        if (is_bundle && last && last->last == g - 1) {
            last->last = g;
            last->recovery_s += recovery_s(t, g);
            continue;
        }
        plan->group[plan->n_group++] =
            (struct spot_migration_group){ g >= t->n_state ? SPOT_KIND_CACHE
                                           : is_bundle     ? SPOT_KIND_BUNDLES
                                                           : SPOT_KIND_STATE,
                                           g,
                                           g,
                                           g - t->n_state,
                                           0,
                                           recovery_s(t, g) };
    }
    plan->recovery_bound_s += plan->recovery_s;
    if (plan->recovery_bound_s < 0)
        plan->recovery_bound_s = 0;
}

static void count_losses(struct evacuate *t)
{
    struct spot_migration_plan *plan = t->plan;

    for (size_t k = 0; k < plan->n_loss; k++) {
        struct spot_migration_loss *loss = &plan->loss[k];
        const struct spot_reshard_part *part = &t->s->r->part[loss->part];
        const int g = group_of(t, part);

        for (int i = 0; i < (int)plan->n_group && !loss->is_chosen; i++) {
            struct spot_migration_group *group = &plan->group[i];

            if (group->first > g || group->last < g)
                continue;
            loss->group = i;
            loss->recovery_s = group->recovery_s;
            group->byte += part->byte;
        }
    }
}

/* Forget earlier decisions, except caches given up by choice. */
static void forget(struct evacuate *t)
{
    struct spot_migration_plan *plan = t->plan;
    size_t n = 0;

    for (size_t k = 0; k < plan->n_loss; k++) {
        if (plan->loss[k].is_chosen)
            plan->loss[n++] = plan->loss[k];
        else
            t->s->is_out[plan->loss[k].part] = false;
    }
    plan->n_loss = n;
    plan->lost_byte = 0;
    plan->n_group = 0;
    plan->n_at_stake = plan->n_saved = 0;
}

void spot_migration_evacuate(struct spot_migration *s, struct spot_migration_plan *plan,
                             const int *node_of_position)
{
    struct evacuate t;

    init(&t, s, plan);
    spot_migration_gates_init(&t.gates, s, node_of_position);
    if (!plan->loss) {
        plan->loss = spot_xcalloc(s->r->n_part, sizeof *plan->loss);
        plan->group = spot_xcalloc((size_t)t.n, sizeof *plan->group);
    }
    forget(&t);
    lose_unheld(&t);
    save_in_time(&t);
    list_groups(&t);
    count_losses(&t);
    spot_migration_gates_release(&t.gates);
    free(t.is_broken), free(t.is_lost), free(t.bundle_byte);
}

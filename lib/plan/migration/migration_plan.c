/* SPDX-License-Identifier: MIT */
#include "plan/migration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "plan/migration/migration_inner.h"

/* Effort is counted, not timed. With up to SMALL_NODES nodes all distinct placements are compared
 * while the budget lasts; otherwise, or when it is spent, nodes are exchanged. */
enum {
    TINY_NODES = 8,
    TINY_SCORES = 60000,
    SMALL_NODES = 16,
    SMALL_SCORES = 20000,
    SMALL_BOUND_STEPS = 400,
    CLIMB_WORK = 40000, /* placements times parts and positions, in thousands */
};

/* in_byte[q * n_node + i]: what node i would have to receive for position q alone. */
static int64_t *list_in_bytes(const struct spot_migration *s)
{
    const size_t n_node = (size_t)s->n_node;
    int64_t *in = spot_xcalloc((size_t)s->r->n_new * n_node, sizeof *in);

    for (size_t k = 0; k < s->r->n_part; k++) {
        const struct spot_reshard_part *part = &s->r->part[k];
        const int set = s->set_of[k];

        for (int w = 0; w < part->n_want && !s->is_out[k]; w++) {
            int64_t *row = in + (size_t)part->want[w] * n_node;

            for (size_t i = 0; i < n_node; i++)
                row[i] += part->byte;
            for (int h = s->set_begin[set]; h < s->set_begin[set + 1]; h++)
                row[s->set_node[h]] -= part->byte;
        }
    }
    return in;
}

/* A hash for comparison: nodes hold (or positions need) the same if their 128-bit marks are equal.
 */
struct mark {
    uint64_t a, b;
};

static void add_mark(struct mark *mark, size_t k)
{
    mark->a += spot_rng_mix(1, k);
    mark->b += spot_rng_mix(2, k);
}

static bool is_alike(const struct spot_migration *s, int i, int j)
{
    return s->out[i] == s->out[j] && s->in[i] == s->in[j] && s->limit[i] == s->limit[j] &&
           s->slots[i] == s->slots[j] && s->can_place[i] == s->can_place[j] &&
           s->zone[i] == s->zone[j];
}

static void classify(const struct spot_migration *s, int *node_class, int *position_class)
{
    struct mark *node = spot_xcalloc((size_t)s->n_node, sizeof *node);
    struct mark *position = spot_xcalloc((size_t)s->r->n_new, sizeof *position);

    for (size_t k = 0; k < s->r->n_part; k++) {
        const int set = s->set_of[k];

        for (int h = s->set_begin[set]; h < s->set_begin[set + 1] && !s->is_out[k]; h++)
            add_mark(&node[s->set_node[h]], k);
        for (int w = 0; w < s->r->part[k].n_want && !s->is_out[k]; w++)
            add_mark(&position[s->r->part[k].want[w]], k);
    }
    for (int i = 0; i < s->n_node; i++) {
        int j = 0;

        while (j < i && (memcmp(&node[j], &node[i], sizeof *node) != 0 || !is_alike(s, i, j)))
            j++;
        node_class[i] = j;
    }
    for (int q = 0; q < s->r->n_new; q++) {
        int r = 0;

        while (r < q && memcmp(&position[r], &position[q], sizeof *position) != 0)
            r++;
        position_class[q] = r;
    }
    free(node), free(position);
}

/* Bounds that hold for every placement: a part wanted by w positions ends on at least w / slots
 * nodes, and those that do not have it yet fetch it from its holders. Returns the least bytes, and
 * in *floor_s the time that the holders need to send them. */
static int64_t least_bytes(const struct spot_migration *s, double *floor_s)
{
    struct spot_demand *demand = spot_xcalloc((size_t)s->n_set, sizeof *demand);
    struct spot_transport transport = { .n_node = s->n_node,
                                        .n_demand = s->n_set,
                                        .out_byte_per_s = s->out,
                                        .limit_byte = s->limit,
                                        .demand = demand };
    int64_t most_slots = 1, sum = 0;

    for (int i = 0; i < s->n_node; i++)
        most_slots = s->slots[i] > most_slots ? s->slots[i] : most_slots;
    for (int set = 0; set < s->n_set; set++) {
        demand[set].holder = s->set_node + s->set_begin[set];
        demand[set].n_holder = spot_set_size(s, set);
    }
    for (size_t k = 0; k < s->r->n_part; k++) {
        const int set = s->set_of[k];
        int64_t n = (s->r->part[k].n_want + most_slots - 1) / most_slots;

        for (int h = s->set_begin[set]; h < s->set_begin[set + 1]; h++)
            n -= s->can_place[s->set_node[h]];
        n = n < 0 || s->is_out[k] ? 0 : n;
        sum += n * s->r->part[k].byte;
        demand[set].byte += (n > 1 && spot_migration_is_relayed(s, k) ? 1 : n) * s->r->part[k].byte;
    }
    spot_transport_time(&transport);
    *floor_s = isfinite(transport.time_s) ? transport.time_s : 0;
    free(demand);
    return sum;
}

static long climb_budget(const struct spot_migration *s)
{
    const double work = (double)s->r->n_part * s->r->n_new / 64 + s->n_node;
    const double n = CLIMB_WORK * 1e3 / (work + 1);

    return n < 50 ? 50 : n > 4000 ? 4000 : (long)n;
}

static int search(struct spot_migration *s, struct spot_place *place, struct spot_err *err)
{
    int *node_class = spot_xcalloc((size_t)s->n_node, sizeof(int));
    int *position_class = spot_xcalloc((size_t)s->r->n_new, sizeof(int));
    int64_t *in_byte = list_in_bytes(s);
    struct spot_place_problem problem = {
        .n_node = s->n_node,
        .n_position = s->r->n_new,
        .in_byte = in_byte,
        .in_byte_per_s = s->in,
        .can_place = s->can_place,
        .slots = s->is_single ? NULL : s->slots,
        .node_class = node_class,
        .position_class = position_class,
        .score_max = s->n_node <= TINY_NODES    ? TINY_SCORES
                     : s->n_node <= SMALL_NODES ? SMALL_SCORES
                                                : 0,
        .climb_max = climb_budget(s),
        .bound_max = s->n_node <= SMALL_NODES ? SMALL_BOUND_STEPS : 0,
        .score = spot_migration_score,
        .cut = spot_migration_cut,
        .user = s,
    };
    int rc;

    if (s->problem->effort) {
        problem.score_max = problem.climb_max = s->problem->effort;
        problem.bound_max = 0;
    }
    problem.byte_floor = least_bytes(s, &problem.floor_s);
    classify(s, node_class, position_class);
    for (int i = 0; i < s->n_node; i++) /* a byte takes two links where each is shared */
        problem.out_byte_per_s += s->taken_s ? fmax(s->out[i], s->in[i]) / 2 : s->out[i];
    spot_migration_steps_begin(s);
    rc = spot_place_search(&problem, place, err);
    spot_migration_steps_end(s);
    /* scores may be lower than makespans */
    if (!rc && s->problem->is_whole && place->is_exhaustive)
        place->bound_s = fmax(place->bound_s, place->score.makespan_s);
    free(node_class), free(position_class), free(in_byte);
    return rc;
}

/* Give up caches of request groups that are faster to compute again than to move. True if there are
 * any. */
static bool give_up_caches(struct spot_migration *s, struct spot_migration_plan *plan,
                           const int *node_of_position)
{
    const double rate = s->problem->cluster->prefill_tokens_per_s;
    double *in_s = spot_xcalloc((size_t)s->n_node, sizeof *in_s);
    bool is_any = false;

    s->keep_wants = true;
    if (rate > 0 && s->r->n_kv)
        spot_migration_score(s, node_of_position, INFINITY);
    for (size_t g = 0; g < s->r->n_kv && rate > 0; g++) {
        const double again_s = (double)s->r->kv_token[g] / rate;
        double most_s = 0;

        memset(in_s, 0, (size_t)s->n_node * sizeof *in_s);
        for (size_t w = 0; w < s->n_want; w++) {
            const struct spot_reshard_part *part = &s->r->part[s->want[w].part];

            if (part->kv == (int)g)
                in_s[s->want[w].to] += (double)part->byte / s->in[s->want[w].to];
        }
        for (int i = 0; i < s->n_node; i++)
            most_s = fmax(most_s, in_s[i]);
        for (size_t k = 0; k < s->r->n_part && most_s > again_s; k++) {
            if (s->r->part[k].kv != (int)g || s->is_out[k] || !s->r->part[k].n_want)
                continue;
            s->is_out[k] = is_any = true;
            plan->loss[plan->n_loss++] =
                (struct spot_migration_loss){ k, SPOT_FATE_RECOMPUTE, true, -1, again_s };
        }
    }
    free(in_s);
    return is_any;
}

static int place_all(struct spot_migration *s, struct spot_place *place, struct spot_err *err)
{
    const size_t n = (size_t)s->r->n_new;

    spot_place_release(place);
    if (!s->problem->place)
        return search(s, place, err);
    place->node_of_position = spot_xcalloc(n, sizeof(int));
    memcpy(place->node_of_position, s->problem->place, n * sizeof(int));
    return 0;
}

/* Take over the placement if is_taken, and the bounds of all placements in any case. */
static void take(struct spot_place *place, struct spot_migration_plan *plan, bool is_taken)
{
    plan->bound_s = place->bound_s;
    plan->bound_byte = place->bound_byte;
    plan->is_exhaustive = place->is_exhaustive && is_taken;
    plan->n_scored += place->n_scored;
    if (is_taken) {
        free(plan->node_of_position);
        plan->node_of_position = place->node_of_position;
        place->node_of_position = NULL;
    }
}

/* Choose a placement. Caches that are given up leave room on the links of leaving nodes for other
 * parts. */
static int choose(struct spot_migration *s, struct spot_migration_plan *plan, struct spot_err *err)
{
    struct spot_place place = { 0 };
    int rc = place_all(s, &place, err);

    for (int turn = 0; !rc && turn < 2; turn++) {
        if (!give_up_caches(s, plan, place.node_of_position))
            break;
        spot_migration_evacuate(s, plan, NULL);
        rc = place_all(s, &place, err);
    }
    if (!rc)
        take(&place, plan, true);
    spot_place_release(&place);
    return rc;
}

/* With a given placement the bound is that of its own bytes; if every placement was compared it is
 * the optimum. */
static void close_bound(const struct spot_migration *s, struct spot_migration_plan *plan)
{
    if (s->problem->place) {
        plan->bound_s = plan->makespan_s;
        plan->bound_byte = plan->total_byte;
    } else if (plan->is_exhaustive && !s->problem->is_whole) {
        plan->bound_s = plan->makespan_s;
    }
}

/* State can be saved bundle by bundle if losing a bundle does not lose work: then the parts that
 * may be lost are cut at bundles. */
static int cut_bundles(struct spot_migration *s, struct spot_migration_problem *problem,
                       struct spot_err *err)
{
    spot_reshard_cut(&problem->reshard, s->is_exclusive);
    spot_migration_release(s);
    return spot_migration_init(s, problem, err);
}

/* With the placement known, choose again what to save of the parts that its receivers cannot take
 * in before the senders leave. A better placement for the rest is taken if its receivers can take
 * it in. The bound of recovery remains that of any placement. */
static int heed_receivers(struct spot_migration *s, struct spot_migration_plan *plan,
                          struct spot_err *err)
{
    const double bound_s = plan->recovery_bound_s;
    struct spot_place place = { 0 };
    int rc;

    spot_migration_evacuate(s, plan, plan->node_of_position);
    plan->recovery_bound_s = fmin(bound_s, plan->recovery_s);
    rc = place_all(s, &place, err);
    if (!rc && spot_migration_all_fits(s, place.node_of_position)) {
        const int n_saved = plan->n_saved;

        take(&place, plan, true);
        spot_migration_evacuate(s, plan, plan->node_of_position); /* there may be room for more */
        plan->recovery_bound_s = fmin(bound_s, plan->recovery_s);
        plan->is_exhaustive = plan->is_exhaustive && plan->n_saved == n_saved;
    } else if (!rc) {
        take(&place, plan, false);
    }
    spot_place_release(&place);
    return rc;
}

static int plan_moves(struct spot_migration *s, struct spot_migration_problem *problem,
                      struct spot_migration_plan *plan, struct spot_err *err)
{
    const bool can_cut = !(problem->cluster->rollback_s > 0) && !problem->is_whole;
    bool is_cut = can_cut && !spot_migration_all_fits(s, NULL);

    if (is_cut && cut_bundles(s, problem, err))
        return -1;
    spot_migration_evacuate(s, plan, NULL);
    if (choose(s, plan, err))
        return -1;
    if (spot_migration_all_fits(s, plan->node_of_position))
        return 0;
    if (can_cut && !is_cut) { /* everything seemed to fit: keep the placement, with finer parts */
        free(plan->loss), free(plan->group);
        plan->loss = NULL, plan->group = NULL;
        plan->n_loss = plan->n_group = 0;
        if (cut_bundles(s, problem, err))
            return -1;
        spot_migration_evacuate(s, plan, NULL);
        give_up_caches(s, plan, plan->node_of_position);
    }
    return heed_receivers(s, plan, err);
}

/* Split positions of several ranks into one position for each rank. */
static void part_ranks(const struct spot_migration_problem *problem,
                       struct spot_migration_plan *plan)
{
    const int n = problem->reshard.n_new, together = problem->together;
    int *node = spot_xcalloc((size_t)n * (size_t)together, sizeof(int));

    for (int q = 0; q < n * together; q++)
        node[q] = plan->node_of_position[q / together];
    free(plan->node_of_position);
    plan->node_of_position = node;
    plan->n_position = n * together;
}

/* Cut parts by layer: the order of layers is asked for. */
static void cut_layers(struct spot_reshard *r)
{
    bool *is_marked = spot_xcalloc(r->n_part, sizeof *is_marked);

    memset(is_marked, true, r->n_part * sizeof *is_marked);
    spot_reshard_cut(r, is_marked);
    free(is_marked);
}

static int plan_in_time(struct spot_migration_problem *problem, struct spot_migration_plan *plan,
                        struct spot_err *err)
{
    struct spot_migration s = { 0 };
    int rc = -1;

    *plan = (struct spot_migration_plan){ 0 };
    if (problem->restarts)
        cut_layers(&problem->reshard);
    if (spot_migration_init(&s, problem, err) || plan_moves(&s, problem, plan, err))
        goto out;
    spot_migration_order(&s, plan);
    close_bound(&s, plan);
    part_ranks(problem, plan);
    rc = 0;
out:
    spot_migration_release(&s);
    if (rc)
        spot_migration_plan_release(plan);
    return rc;
}

int spot_migrate(struct spot_migration_problem *problem, struct spot_migration_plan *plan,
                 struct spot_err *err)
{
    if (plan_in_time(problem, plan, err))
        return -1;
    if (!problem->is_whole || (plan->n_saved == plan->n_at_stake && isfinite(plan->makespan_s)))
        return 0;
    spot_migration_plan_release(plan);
    problem->is_late = true;
    return plan_in_time(problem, plan, err);
}

void spot_migration_plan_release(struct spot_migration_plan *plan)
{
    free(plan->node_of_position), free(plan->move), free(plan->loss), free(plan->in_cut);
    free(plan->in_s), free(plan->out_s), free(plan->group);
    *plan = (struct spot_migration_plan){ 0 };
}

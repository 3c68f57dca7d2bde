/* SPDX-License-Identifier: MIT */
/* From demands to moves: the sender of every byte, the order of moves, and their times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/migration/migration_inner.h"

enum { LIST_MAX = 4000 }; /* moves up to which free links look past a blocked move */

struct ordered {
    struct spot_migration_move move;
    int64_t rank; /* rank of its part in the order */
    size_t index;
};

/* --- senders ---------- */

static void add_move(struct spot_migration_plan *plan, size_t *cap,
                     const struct spot_migration_move *move)
{
    plan->move = spot_xgrow(plan->move, cap, plan->n_move + 1, sizeof *plan->move);
    plan->move[plan->n_move++] = *move;
}

/* Give each want the next bytes among those that the holders of its group were assigned to send. */
static void split_wants(const struct spot_migration *s, const struct spot_transport *transport,
                        struct spot_migration_plan *plan)
{
    int *at = spot_xcalloc((size_t)transport->n_demand, sizeof(int));
    size_t cap = 0;

    for (size_t w = 0; w < s->n_want; w++) {
        const struct spot_want *want = &s->want[w];
        const struct spot_demand *demand = &transport->demand[want->demand];
        const int64_t byte = s->r->part[want->part].byte;
        int64_t done = 0;

        while (done < byte && at[want->demand] < demand->n_holder) {
            const int h = at[want->demand];
            const int64_t n_byte = demand->sent[h] < byte - done ? demand->sent[h] : byte - done;

            if (n_byte > 0)
                add_move(plan, &cap,
                         &(struct spot_migration_move){ .part = want->part,
                                                        .begin = done,
                                                        .end = done + n_byte,
                                                        .from = demand->holder[h],
                                                        .to = want->to,
                                                        .is_relayed =
                                                            s->is_exclusive[want->part] &&
                                                            isinf(s->limit[demand->holder[h]]) });
            done += n_byte;
            demand->sent[h] -= n_byte;
            at[want->demand] += !demand->sent[h];
        }
    }
    free(at);
}

static void send_split(const struct spot_migration *s, struct spot_transport *transport,
                       struct spot_migration_plan *plan)
{
    int64_t *sent;
    size_t n = 0;

    for (int k = 0; k < transport->n_demand; k++)
        n += (size_t)transport->demand[k].n_holder;
    sent = spot_xcalloc(n, sizeof *sent);
    n = 0;
    for (int k = 0; k < transport->n_demand; k++) {
        transport->demand[k].sent = sent + n;
        n += (size_t)transport->demand[k].n_holder;
    }
    spot_transport_split(transport);
    plan->makespan_s = transport->time_s;
    plan->usd = s->price ? transport->cost / SPOT_EGRESS_UNIT / 1e9 : 0;
    split_wants(s, transport, plan);
    free(sent);
}

/* Every want is one move. */
static void send_whole(const struct spot_migration *s, struct spot_migration_plan *plan)
{
    size_t cap = 0;

    for (size_t w = 0; w < s->n_want; w++)
        add_move(plan, &cap,
                 &(struct spot_migration_move){ .part = s->want[w].part,
                                                .end = s->job[w].byte,
                                                .from = s->job[w].from,
                                                .to = s->want[w].to });
}

static void mark_urgent(const struct spot_migration *s, struct spot_migration_plan *plan)
{
    for (size_t k = 0; k < plan->n_move; k++) {
        const int set = s->set_of[plan->move[k].part];
        bool is_urgent = true;

        for (int h = s->set_begin[set]; h < s->set_begin[set + 1]; h++)
            is_urgent = is_urgent && !s->can_place[s->set_node[h]] &&
                        s->problem->cluster->node[s->set_node[h]].is_leaving;
        plan->move[k].is_urgent = is_urgent && !plan->move[k].is_relayed;
    }
}

/* --- order --- */

static int by_order(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;

    if (x->move.is_urgent != y->move.is_urgent)
        return x->move.is_urgent ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static void sort_moves(struct spot_migration_plan *plan, const int64_t *rank)
{
    struct ordered *ordered = spot_xcalloc(plan->n_move, sizeof *ordered);

    for (size_t k = 0; k < plan->n_move; k++)
        ordered[k] = (struct ordered){ plan->move[k], rank[plan->move[k].part], k };
    qsort(ordered, plan->n_move, sizeof *ordered, by_order);
    for (size_t k = 0; k < plan->n_move; k++)
        plan->move[k] = ordered[k].move;
    free(ordered);
}

/* --- times --- */

/* When a relaying node has the complete part; INFINITY if not all its moves have times yet. */
static double ready_s(const struct spot_migration_plan *plan,
                      const struct spot_migration_move *move)
{
    double at = 0;

    for (size_t k = 0; k < plan->n_move && move->is_relayed; k++)
        if (plan->move[k].part == move->part && plan->move[k].to == move->from)
            at = fmax(at, plan->move[k].end_s);
    return at;
}

static void start(const struct spot_migration *s, struct spot_migration_plan *plan,
                  struct spot_migration_move *move, double now_s, double *out_free, double *in_free)
{
    const double rate = fmin(s->out[move->from], s->in[move->to]);

    move->begin_s = now_s;
    move->end_s = now_s + (double)(move->end - move->begin) / rate;
    out_free[move->from] = in_free[move->to] = move->end_s;
    plan->in_order_s = fmax(plan->in_order_s, move->end_s);
}

/* One transfer at a time in each direction of each link, or in both together where the link is
 * shared; a free pair takes the first move in the order that fits. Long lists go strictly in order.
 */
static void time_moves(const struct spot_migration *s, struct spot_migration_plan *plan)
{
    double *out_free = spot_xcalloc(2 * (size_t)s->n_node, sizeof *out_free);
    double *in_free = s->taken_s ? out_free : out_free + s->n_node, now_s = 0;
    size_t n_left = plan->n_move;

    plan->in_order_s = 0;
    for (size_t k = 0; k < plan->n_move; k++)
        plan->move[k].end_s = INFINITY;
    while (n_left) {
        double next_s = INFINITY;

        for (size_t k = 0; k < plan->n_move; k++) {
            struct spot_migration_move *move = &plan->move[k];
            double at;

            if (isfinite(move->end_s))
                continue;
            at = fmax(fmax(out_free[move->from], in_free[move->to]), ready_s(plan, move));
            if (at <= now_s || (plan->n_move > LIST_MAX && isfinite(at))) {
                start(s, plan, move, fmax(at, now_s), out_free, in_free);
                n_left--;
            } else {
                next_s = fmin(next_s, at);
            }
        }
        now_s = isfinite(next_s) ? next_s : now_s;
    }
    free(out_free);
}

void spot_migration_schedule(const struct spot_migration *s, struct spot_migration_plan *plan,
                             const int64_t *rank)
{
    sort_moves(plan, rank);
    time_moves(s, plan);
}

/* Stage by stage, or as memory requires. */
static void order_by_stage(const struct spot_migration *s, struct spot_migration_plan *plan)
{
    int64_t *rank = spot_xcalloc(s->r->n_part, sizeof *rank);

    /* the first stage can start before the last one is complete */
    for (size_t k = 0; k < s->r->n_part; k++)
        rank[k] = s->r->part[k].n_piece ? s->r->part[k].piece[0].first : 0;
    if (isfinite(s->problem->memory_cap_byte))
        spot_migration_rank(s, plan, rank);
    spot_migration_schedule(s, plan, rank);
    free(rank);
}

static void add_loads(const struct spot_migration *s, struct spot_migration_plan *plan)
{
    int64_t *byte = spot_xcalloc((size_t)s->n_node, sizeof *byte);

    plan->in_s = spot_xcalloc((size_t)s->n_node, sizeof *plan->in_s);
    plan->out_s = spot_xcalloc((size_t)s->n_node, sizeof *plan->out_s);
    for (size_t k = 0; k < plan->n_move; k++) {
        const struct spot_migration_move *move = &plan->move[k];

        plan->total_byte += move->end - move->begin;
        byte[move->from] += move->end - move->begin;
        byte[move->to] += move->end - move->begin;
        plan->out_s[move->from] += (double)(move->end - move->begin) / s->out[move->from];
        plan->in_s[move->to] += (double)(move->end - move->begin) / s->in[move->to];
    }
    plan->busiest_node = -1;
    for (int i = 0; i < s->n_node; i++) {
        plan->n_touched += plan->in_s[i] > 0;
        plan->busiest_byte = byte[i] > plan->busiest_byte ? byte[i] : plan->busiest_byte;
        if (plan->in_s[i] >= plan->makespan_s * (1 - 1e-12) && plan->busiest_node < 0)
            plan->busiest_node = i;
    }
    free(byte);
}

/* The lowest-numbered holder sends everything: the plan without a flow, for comparison. */
static void time_naively(const struct spot_migration *s, struct spot_migration_plan *plan)
{
    double *sent = spot_xcalloc((size_t)s->n_node, sizeof *sent);

    for (size_t w = 0; w < s->n_want; w++) {
        const struct spot_demand *demand = &s->demand[s->want[w].demand];
        const int from = demand->holder[0];

        sent[from] += (double)s->r->part[s->want[w].part].byte;
        plan->naive_s = fmax(plan->naive_s, sent[from] / s->out[from]);
    }
    for (int i = 0; i < s->n_node; i++) {
        const double in_s = (double)s->in_byte[i] / s->in[i];

        plan->naive_s = fmax(plan->naive_s, s->taken_s ? in_s + sent[i] / s->out[i] : in_s);
    }
    free(sent);
}

static void mark_cut(const struct spot_migration *s, struct spot_migration_plan *plan)
{
    plan->in_cut = spot_xcalloc(s->r->n_part, sizeof(bool));
    for (size_t w = 0; w < s->n_want; w++)
        plan->in_cut[s->want[w].part] |= s->demand[s->want[w].demand].in_cut != 0;
}

void spot_migration_order(struct spot_migration *s, struct spot_migration_plan *plan)
{
    struct spot_transport transport;

    s->keep_wants = true;
    spot_migration_score(s, plan->node_of_position, INFINITY);
    spot_migration_transport(s, &transport);
    spot_transport_time(&transport);
    mark_cut(s, plan);
    if (s->problem->is_whole) {
        plan->makespan_s =
            fmax(transport.floor_s, spot_migration_choose_senders(s, transport.time_s, true));
        send_whole(s, plan);
    } else {
        send_split(s, &transport, plan);
    }
    mark_urgent(s, plan);
    if (s->problem->restarts)
        spot_migration_order_restart(s, plan);
    else
        order_by_stage(s, plan);
    add_loads(s, plan);
    time_naively(s, plan);
    plan->peak_extra_byte = spot_migration_peak(s, plan);
}

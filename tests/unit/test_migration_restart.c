/* SPDX-License-Identifier: MIT */
/* Goal: moves are in the order with which serving restarts soonest, within the memory cap where any
 * order keeps it. Oracles: every order of random cases, played and weighed by another program than
 * the planner's; a stage fetched over one link, by hand. */
#include "migration_rig.h"
#include "suite.h"

enum { MOVES = 64, ITEMS = 6 };

/* A case as the oracle sees it: the moves of the plan, in the order that is tried. */
struct bench {
    const struct random_case *c;
    const struct spot_migration_plan *plan;
    double begin_s[MOVES], end_s[MOVES];
    int order[MOVES];   /* of moves */
    size_t item[ITEMS]; /* parts that move */
    int n_item;
};

static double due(const struct bench *b, size_t part)
{
    const struct spot_reshard_part *p = &b->c->problem.reshard.part[part];
    int64_t first = p->piece[0].first;

    for (size_t k = 1; k < p->n_piece; k++)
        first = p->piece[k].first < first ? p->piece[k].first : first;
    return first > 1 ? (double)(first - 1) * b->c->problem.layer_s : 0;
}

/* At each moment the first move in the order whose ends are both free begins. */
static void play(struct bench *b)
{
    const size_t n = b->plan->n_move;
    double out[8] = { 0 }, in[8] = { 0 }, now = 0;
    bool is_begun[MOVES] = { false };
    size_t n_begun = 0;

    while (n_begun < n) {
        double next = INFINITY;

        for (size_t i = 0; i < n; i++) {
            const int k = b->order[i];
            const struct spot_migration_move *m = &b->plan->move[k];
            const struct spot_cluster_node *node = b->c->cluster.node;
            const double rate = fmin(node[m->from].out_byte_per_s, node[m->to].in_byte_per_s);

            if (is_begun[k])
                continue;
            if (out[m->from] > now || in[m->to] > now) {
                next = fmin(next, fmax(out[m->from], in[m->to]));
                continue;
            }
            is_begun[k] = true;
            n_begun++;
            b->begin_s[k] = now;
            b->end_s[k] = out[m->from] = in[m->to] = now + (double)(m->end - m->begin) / rate;
        }
        now = next;
    }
}

static bool needs(const struct bench *b, const struct spot_reshard_part *p, int node)
{
    bool is = false;

    for (int w = 0; w < p->n_want; w++)
        is = is || b->plan->node_of_position[p->want[w]] == node;
    return is;
}

/* What a node has of a part at a moment: to the last reading if it need not keep it, from the first
 * byte on that is on its way. */
static double held(const struct bench *b, size_t part, int node, double at_s)
{
    const struct spot_reshard_part *p = &b->c->problem.reshard.part[part];
    const bool had = holders_of(b->c, p) >> node & 1;
    double read_s = 0, byte = 0;

    for (size_t k = 0; k < b->plan->n_move; k++) {
        const struct spot_migration_move *m = &b->plan->move[k];

        if (m->part != part)
            continue;
        if (m->from == node)
            read_s = fmax(read_s, b->end_s[k]);
        if (m->to == node && b->begin_s[k] <= at_s)
            byte += (double)(m->end - m->begin);
    }
    return had ? needs(b, p, node) || at_s < read_s ? (double)p->byte : 0 : byte;
}

/* The most beyond the larger of old and new, over all nodes and moments. */
static double peak(const struct bench *b)
{
    const struct spot_reshard *r = &b->c->problem.reshard;
    double most = 0;

    for (int i = 0; i < (int)b->c->cluster.n_node; i++) {
        double old = 0, new = 0;

        for (size_t k = 0; k < r->n_part; k++) {
            const bool had = holders_of(b->c, &r->part[k]) >> i & 1;

            old += had ? (double)r->part[k].byte : 0;
            new += needs(b, &r->part[k], i) && (had || holders_of(b->c, &r->part[k]))
                       ? (double)r->part[k].byte
                       : 0;
        }
        for (size_t j = 0; j < b->plan->n_move; j++) {
            double now = 0;

            for (size_t k = 0; k < r->n_part; k++)
                now += held(b, k, i, b->begin_s[j]);
            most = fmax(most, now - fmax(old, new));
        }
    }
    return most;
}

static double restart(const struct bench *b)
{
    double at = 0;

    for (size_t k = 0; k < b->plan->n_move; k++)
        at = fmax(at, b->end_s[k] - due(b, b->plan->move[k].part));
    return at;
}

struct least {
    double over_byte, restart_s;
};

static void weigh(struct bench *b, struct least *least)
{
    size_t n = 0;
    double over, at;

    for (int urgent = 1; urgent >= 0; urgent--)
        for (int i = 0; i < b->n_item; i++)
            for (size_t k = 0; k < b->plan->n_move; k++)
                if (b->plan->move[k].part == b->item[i] && b->plan->move[k].is_urgent == urgent)
                    b->order[n++] = (int)k;
    ck_assert_uint_eq(n, b->plan->n_move);
    play(b);
    over = fmax(0, peak(b) - b->c->problem.memory_cap_byte);
    at = restart(b);
    if (over < least->over_byte || (over == least->over_byte && at < least->restart_s))
        *least = (struct least){ over, at };
}

static void every_order(struct bench *b, int from, struct least *least)
{
    if (from == b->n_item) {
        weigh(b, least);
        return;
    }
    for (int k = from; k < b->n_item; k++) {
        const size_t was = b->item[from], is = b->item[k];

        b->item[from] = is, b->item[k] = was;
        every_order(b, from + 1, least);
        b->item[from] = was, b->item[k] = is;
    }
}

static bool find_items(struct bench *b)
{
    for (size_t k = 0; k < b->plan->n_move; k++) {
        int i = 0;

        while (i < b->n_item && b->item[i] != b->plan->move[k].part)
            i++;
        if (i == ITEMS)
            return false;
        b->item[i] = b->plan->move[k].part;
        b->n_item += i == b->n_item;
    }
    return true;
}

static int by_number(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x > y) - (x < y);
}

/* Returns 1 if every order was compared, and another than that of the layers was better. */
static int check_case(uint64_t seed)
{
    struct random_case c;
    struct spot_migration_plan plan, plain;
    struct least least = { INFINITY, INFINITY }, by_layer = { INFINITY, INFINITY };
    struct bench b = { .c = &c, .plan = &plan };
    struct spot_rng rng;
    struct spot_err err;
    int found = 0;

    spot_rng_init(&rng, 11, seed);
    draw_case(&c, &rng);
    solve(&c.problem, &c.from, &c.to, &c.cluster, &plain);
    spot_migration_problem_release(&c.problem);
    ck_assert_int_eq(spot_migration_of_layouts(&c.problem, &c.from, &c.to, &c.cluster, &err), 0);
    c.problem.restarts = true;
    c.problem.layer_s = below(&rng, 4) * 0.3;
    if (below(&rng, 2))
        c.problem.memory_cap_byte = below(&rng, 2000);
    ck_assert_int_eq(spot_migrate(&c.problem, &plan, &err), 0);
    check_moves(&c, &plan);
    ck_assert_double_eq_tol(plan.makespan_s, plain.makespan_s, 1e-9); /* cut at layers, no slower */
    ck_assert(plan.restart_bound_s <= plan.restart_s * (1 + 1e-12));
    ck_assert(plan.restart_s <= plan.in_order_s);
    if (plan.n_move && plan.n_move <= MOVES && find_items(&b)) {
        ck_assert(plan.is_every_order);
        qsort(b.item, (size_t)b.n_item, sizeof *b.item, by_number);
        weigh(&b, &by_layer);
        every_order(&b, 0, &least);
        ck_assert_double_eq_tol(plan.restart_s, least.restart_s, 1e-9);
        ck_assert_double_eq_tol(fmax(0, plan.peak_extra_byte - c.problem.memory_cap_byte),
                                least.over_byte, 1e-6);
        found = least.restart_s < by_layer.restart_s * (1 - 1e-9) ||
                least.over_byte < by_layer.over_byte;
    }
    spot_migration_plan_release(&plan);
    spot_migration_plan_release(&plain);
    spot_migration_problem_release(&c.problem);
    spot_layout_release(&c.from);
    spot_layout_release(&c.to);
    spot_cluster_release(&c.cluster);
    return found;
}

START_TEST(random_orders_are_the_best_of_all)
{
    const int rounds = is_long() ? 3000 : 300;
    int n_better = 0;

    for (int i = 0; i < rounds; i++)
        n_better += check_case((uint64_t)i);
    ck_assert_int_gt(n_better, rounds / 60); /* the order of the parts is not all there is to it */
}
END_TEST

/* --- by hand --- */

static void read_layout(struct spot_layout *layout, int layers, int P, const char *places)
{
    char text[800];
    struct spot_err err;

    snprintf(text, sizeof text,
             "{\"schema\":\"spot.layout/1\",\"model\":{\"layers\":%d,\"width\":12,\"ffn\":20,"
             "\"heads\":4,\"kv_heads\":4,\"head_dim\":3,\"vocab\":10,\"positions\":0,"
             "\"tied\":true,\"bias\":false,\"gated\":false},\"components\":"
             "[{\"name\":\"w\",\"byte_per_param\":2}],\"grid\":{\"D\":1,\"P\":%d,\"M\":1},"
             "\"partition\":\"equal\",\"place\":[%s]}",
             layers, P, places);
    ck_assert_msg(!spot_layout_parse(layout, text, strlen(text), "layout", &err), "%s", err.msg);
}

/* One node fetches all of a model over one link; layers take longer to come than a pass to go on.
 */
START_TEST(over_one_link_layers_come_in_their_order_and_the_bound_is_met)
{
    enum { LAYERS = 24 };
    static const char cluster_text[] =
        "{\"schema\":\"spot.cluster/1\",\"nodes\":["
        "{\"node\":\"a\",\"out_byte_per_s\":1000,\"in_byte_per_s\":1000,\"leaving\":true},"
        "{\"node\":\"b\",\"out_byte_per_s\":1000,\"in_byte_per_s\":1000}]}";
    struct spot_migration_problem problem;
    struct spot_migration_plan plan;
    struct spot_layout from, to;
    struct spot_cluster cluster;
    struct spot_err err;

    read_layout(&from, LAYERS, 1, "{\"node\":\"a\",\"d\":0,\"p\":0,\"m\":0}");
    read_layout(&to, LAYERS, 1, "");
    ck_assert_int_eq(
        spot_cluster_parse(&cluster, cluster_text, strlen(cluster_text), "cluster", &err), 0);
    for (int quick = 0; quick < 2; quick++) {
        double layer_s, all_s, first_s;

        ck_assert_int_eq(spot_migration_of_layouts(&problem, &from, &to, &cluster, &err), 0);
        problem.restarts = true;
        problem.layer_s = quick ? 0.01 : 100;
        ck_assert_int_eq(spot_migrate(&problem, &plan, &err), 0);
        layer_s = 2e-3 * (double)spot_shape_bundle_params(&to.model, 1);
        all_s = 2e-3 * (double)spot_shape_params(&to.model);
        first_s = 2e-3 * (double)spot_shape_bundle_params(&to.model, 0) + layer_s;
        ck_assert_double_eq_tol(plan.makespan_s, all_s, 1e-9);
        ck_assert_double_eq_tol(
            plan.restart_s,
            quick ? fmax(all_s - 0.01 * LAYERS, first_s + 23 * layer_s - 0.23) : first_s, 1e-9);
        ck_assert_double_eq_tol(plan.restart_bound_s, plan.restart_s, 1e-9);
        spot_migration_plan_release(&plan);
        spot_migration_problem_release(&problem);
    }
    spot_layout_release(&from);
    spot_layout_release(&to);
    spot_cluster_release(&cluster);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("migration_restart");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, random_orders_are_the_best_of_all);
    tcase_add_test(tc, over_one_link_layers_come_in_their_order_and_the_bound_is_met);
    return run_suite("migration_restart", tc);
}

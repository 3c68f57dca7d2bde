/* SPDX-License-Identifier: MIT */
/* Goal: where ranks of a tensor group share a node and links both directions, the plan is the best
 * of every placement that keeps groups together, by enumeration and Hall's condition with what each
 * node receives on its own link; a layout that tears a group apart and a cluster without room for
 * one are refused. */
#include "migration_rig.h"
#include "suite.h"

enum { LEAST_RATE = 500 }; /* bytes per second of a drawn link */

static void release(struct random_case *c)
{
    spot_migration_problem_release(&c->problem);
    spot_layout_release(&c->from), spot_layout_release(&c->to);
    spot_cluster_release(&c->cluster);
}

/* The most ranks that divide M and fit into a node that stays. */
static int ranks_of_a_node(const struct random_case *c)
{
    int most = 1;

    for (size_t i = 0; i < c->cluster.n_node; i++)
        for (int n = 1; n <= c->to.m && n <= c->cluster.node[i].slots; n++)
            if (!c->cluster.node[i].is_leaving && c->to.m % n == 0 && n > most)
                most = n;
    return most;
}

/* Sent and received by the node with most, from the moves. */
static int64_t busiest(const struct spot_migration_plan *plan)
{
    int64_t byte[8] = { 0 }, most = 0;

    for (size_t k = 0; k < plan->n_move; k++) {
        byte[plan->move[k].from] += plan->move[k].end - plan->move[k].begin;
        byte[plan->move[k].to] += plan->move[k].end - plan->move[k].begin;
    }
    for (int i = 0; i < 8; i++)
        most = byte[i] > most ? byte[i] : most;
    return most;
}

static bool has_even_links(const struct random_case *c)
{
    bool is_even = true;

    for (size_t i = 0; i < c->cluster.n_node; i++)
        is_even = is_even && c->cluster.node[i].in_byte_per_s == 1000 &&
                  c->cluster.node[i].out_byte_per_s == 1000;
    return is_even;
}

/* What every plan of these must be: the optimum, with each group on one node. */
static void check_plan(const struct random_case *c, const struct spot_migration_plan *plan, int k)
{
    const int together = c->problem.together;
    int node[32] = { 0 };
    struct spot_reshard r; /* positions one by one: the planner's are joined */
    double least;

    ck_assert_int_eq(spot_reshard_init(&r, &c->from, &c->to, NULL), 0);
    ck_assert_int_eq(plan->n_position, r.n_new);
    least = brute_least(c, &r, together, 0, node);
    /* bytes are whole: each sender may have one more than its time allows */
    ck_assert_msg(fabs(plan->makespan_s - least) <=
                      1e-9 * least + (double)c->cluster.n_node / LEAST_RATE,
                  "case %d: %.12g, best %.12g", k, plan->makespan_s, least);
    ck_assert(plan->is_exhaustive && plan->bound_s <= plan->makespan_s);
    for (int q = 0; q < r.n_new; q++)
        ck_assert_int_eq(plan->node_of_position[q], plan->node_of_position[q - q % together]);
    ck_assert_int_eq(busiest(plan), plan->busiest_byte);
    ck_assert_double_ge(plan->in_order_s, plan->makespan_s * (1 - 1e-9));
    if (c->problem.shares_links && has_even_links(c)) /* rounded up by a byte a sender */
        ck_assert_double_eq_tol((double)plan->busiest_byte, plan->makespan_s * 1000, 2);
    spot_reshard_release(&r);
}

static int play(uint64_t seed, const char *groups, const char *links, int n)
{
    struct spot_rng rng;
    int n_joined = 0;

    spot_rng_init(&rng, seed, 0);
    for (int k = 0; k < n; k++) {
        struct random_case c;
        struct spot_migration_plan plan;

        draw_case(&c, &rng);
        c.cluster.tensor_groups = groups;
        c.cluster.links = links;
        solve(&c.problem, &c.from, &c.to, &c.cluster, &plan);
        ck_assert_int_eq(c.problem.together, strcmp(groups, "whole") ? 1 : ranks_of_a_node(&c));
        n_joined += c.problem.together > 1;
        check_plan(&c, &plan, k);
        spot_migration_plan_release(&plan);
        release(&c);
    }
    return n_joined;
}

START_TEST(shared_links_have_the_least_of_the_busiest_node)
{
    ck_assert_int_eq(play(41, "spread", "shared", 800), 0);
}
END_TEST

START_TEST(whole_groups_have_the_best_of_the_placements_that_keep_them)
{
    ck_assert_int_gt(play(42, "whole", "duplex", 1200), 60);
    ck_assert_int_gt(play(43, "whole", "shared", 1200), 60);
}
END_TEST

#define MODEL                                                                                 \
    "\"schema\":\"spot.layout/1\",\"model\":{\"layers\":2,\"width\":8,\"ffn\":8,\"heads\":2," \
    "\"vocab\":4},\"components\":[{\"name\":\"w\",\"byte_per_param\":4}],"

static void refuse(const char *to_text, const char *cluster_text, int code, const char *says)
{
    static const char from_text[] =
        "{" MODEL
        "\"grid\":{\"D\":1,\"P\":1},\"place\":[{\"node\":\"a\",\"d\":0,\"p\":0,\"m\":0}]}";
    struct random_case c;
    struct spot_migration_plan plan;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_layout_parse(&c.from, from_text, strlen(from_text), "from", &err), 0);
    ck_assert_int_eq(spot_layout_parse(&c.to, to_text, strlen(to_text), "to", &err), 0);
    ck_assert_int_eq(spot_cluster_parse(&c.cluster, cluster_text, strlen(cluster_text), "c", &err),
                     0);
    if (!spot_migration_of_layouts(&c.problem, &c.from, &c.to, &c.cluster, &err))
        ck_assert_int_eq(spot_migrate(&c.problem, &plan, &err), -1);
    ck_assert_int_eq(err.code, code);
    ck_assert_msg(strstr(err.msg, says), "%s", err.msg);
    release(&c);
}

START_TEST(torn_groups_and_no_room_for_them_are_refused)
{
    static const char two[] =
        "{\"schema\":\"spot.cluster/1\",\"tensor_groups\":\"whole\",\"nodes\":["
        "{\"node\":\"a\",\"out_byte_per_s\":1,\"slots\":2},"
        "{\"node\":\"b\",\"out_byte_per_s\":1,\"slots\":1}]}";

    refuse("{" MODEL
           "\"grid\":{\"D\":1,\"P\":1,\"M\":2},\"place\":[{\"node\":\"a\",\"d\":0,\"p\":0,"
           "\"m\":0},{\"node\":\"b\",\"d\":0,\"p\":0,\"m\":1}]}",
           two, SPOT_EDATA, "position 1 is not on the node of position 0");
    refuse("{" MODEL "\"grid\":{\"D\":1,\"P\":2,\"M\":2}}", two, SPOT_EINFEASIBLE,
           "2 times 2 ranks of a tensor group have to share a node, and there is room for 1");
}
END_TEST

int main(void)
{
    TCase *const tcase = tcase_create("groups");

    tcase_set_timeout(tcase, 60);
    add_tests(tcase);
    return run_case("migration_groups", tcase);
}

/* SPDX-License-Identifier: MIT */
/* Goal: plans for whole units are the best there are (checked against every placement and every
 * choice of sources), complete, honest about loss, and the same each time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "plan/migration.h"
#include "suite.h"

enum { NODES = 5, UNITS = 5 };

struct problem {
    int n_node, n_position, n_unit;
    const int64_t *unit_byte;
    const uint8_t *holds, *needs, *can_place;
    const double *out_byte_per_s, *in_byte_per_s; /* NULL: 1 */
    const double *deadline_s;                     /* of nodes that take no place; NULL: none */
};

static double rate(const double *rates, int i)
{
    return rates ? rates[i] : 1;
}

/* As a live job asks. */
static int solve(const struct problem *p, struct spot_migration_plan *plan, struct spot_err *err)
{
    struct spot_cluster_node *node = calloc((size_t)p->n_node, sizeof *node);
    const struct spot_cluster cluster = { .node = node, .n_node = (size_t)p->n_node };
    struct spot_migration_problem problem;
    int rc;

    for (int i = 0; i < p->n_node; i++)
        node[i] = (struct spot_cluster_node){
            .out_byte_per_s = rate(p->out_byte_per_s, i),
            .in_byte_per_s = rate(p->in_byte_per_s, i),
            .slots = 1,
            .is_leaving = !p->can_place[i],
            .deadline_s = !p->can_place[i] && p->deadline_s ? p->deadline_s[i] : INFINITY,
        };
    spot_migration_of_bundles(&problem,
                              &(struct spot_migration_bundles){ p->n_node, p->n_position, p->n_unit,
                                                                p->unit_byte, p->holds, p->needs },
                              &cluster);
    problem.effort = 300;
    rc = spot_migrate(&problem, plan, err);
    spot_migration_problem_release(&problem);
    free(node);
    return rc;
}

struct random_case {
    struct problem p;
    int64_t byte[UNITS];
    uint8_t holds[NODES * UNITS], needs[NODES * UNITS], can_place[NODES];
    double out[NODES], in[NODES];
};

static int below(struct spot_rng *rng, int n)
{
    return (int)spot_rng_below(rng, (uint64_t)n);
}

static void draw(struct random_case *c, struct spot_rng *rng)
{
    const int n = 1 + below(rng, NODES), q = 1 + below(rng, n), u = 1 + below(rng, UNITS);
    const bool is_even = below(rng, 2);

    for (int k = 0; k < u; k++)
        c->byte[k] = is_even ? 100 : below(rng, 1000);
    for (int k = 0; k < n * u; k++)
        c->holds[k] = below(rng, 3) > 0, c->needs[k] = below(rng, 2);
    for (int i = 0; i < n; i++) {
        c->can_place[i] = i < q || below(rng, 2);
        c->out[i] = is_even ? 10 : 1 + below(rng, 20);
        c->in[i] = is_even ? 10 : 1 + below(rng, 20);
    }
    c->p = (struct problem){ n, q, u, c->byte, c->holds, c->needs, c->can_place, NULL, NULL, NULL };
    if (below(rng, 4)) {
        c->p.out_byte_per_s = c->out;
        c->p.in_byte_per_s = c->in;
    }
}

struct best {
    double makespan_s;
    int64_t byte;
    int n_touched;
};

/* The least busiest sender over all choices of sources, jobs (unit, to) from k on. */
static double brute_sources(const struct problem *p, const int (*job)[2], int n_job, int64_t *sent)
{
    double least = INFINITY;

    if (n_job == 0) {
        least = 0;
        for (int i = 0; i < p->n_node; i++)
            least = fmax(least, (double)sent[i] / rate(p->out_byte_per_s, i));
        return least;
    }
    for (int i = 0; i < p->n_node; i++)
        if (p->holds[i * p->n_unit + job[0][0]]) {
            sent[i] += p->unit_byte[job[0][0]];
            least = fmin(least, brute_sources(p, job + 1, n_job - 1, sent));
            sent[i] -= p->unit_byte[job[0][0]];
        }
    return least;
}

static bool is_held(const struct problem *p, int u)
{
    for (int i = 0; i < p->n_node; i++)
        if (p->holds[i * p->n_unit + u])
            return true;
    return false;
}

static void brute_score(const struct problem *p, const int *node, struct best *best)
{
    struct best mine = { 0 };
    int job[NODES * UNITS][2], n_job = 0;
    int64_t sent[NODES] = { 0 };

    for (int q = 0; q < p->n_position; q++) {
        int64_t in = 0;

        for (int u = 0; u < p->n_unit; u++)
            if (p->needs[q * p->n_unit + u] && !p->holds[node[q] * p->n_unit + u] &&
                is_held(p, u)) {
                job[n_job][0] = u, job[n_job++][1] = node[q];
                in += p->unit_byte[u];
            }
        mine.byte += in;
        mine.n_touched += in > 0;
        mine.makespan_s = fmax(mine.makespan_s, (double)in / rate(p->in_byte_per_s, node[q]));
    }
    if (n_job > 7) /* keep it short: such cases are skipped by the caller */
        best->makespan_s = NAN;
    else
        mine.makespan_s =
            fmax(mine.makespan_s, brute_sources(p, (const int(*)[2])job, n_job, sent));
    if (mine.makespan_s < best->makespan_s ||
        (mine.makespan_s == best->makespan_s &&
         (mine.byte < best->byte || (mine.byte == best->byte && mine.n_touched < best->n_touched))))
        *best = mine;
}

static void brute(const struct problem *p, int q, int *node, struct best *best)
{
    if (q == p->n_position) {
        brute_score(p, node, best);
        return;
    }
    for (int i = 0; i < p->n_node; i++) {
        bool is_free = p->can_place[i];

        for (int r = 0; r < q; r++)
            is_free = is_free && node[r] != i;
        if (is_free) {
            node[q] = i;
            brute(p, q + 1, node, best);
        }
    }
}

START_TEST(equals_every_placement_and_every_choice_of_sources)
{
    struct spot_rng rng;
    int n_checked = 0;

    spot_rng_init(&rng, 11, 0);
    for (int k = 0; k < 3000; k++) {
        struct random_case c;
        struct spot_migration_plan plan;
        struct best best = { INFINITY, INT64_MAX, 0 };
        int node[4 * NODES]; /* roomy: the compiler cannot see the depth of the recursion */

        draw(&c, &rng);
        brute(&c.p, 0, node, &best);
        if (isnan(best.makespan_s))
            continue;
        n_checked++;
        ck_assert_int_eq(solve(&c.p, &plan, NULL), 0);
        ck_assert(fabs(plan.makespan_s - best.makespan_s) <= 1e-12 * best.makespan_s);
        ck_assert_int_eq(plan.total_byte, best.byte);
        ck_assert(plan.bound_s <= plan.makespan_s * (1 + 1e-12));
        spot_migration_plan_release(&plan);
    }
    ck_assert_int_gt(n_checked, 1500);
}
END_TEST

/* Every need is met exactly once, from a node that has it; loads give the makespan. */
static void check_plan(const struct problem *p, const struct spot_migration_plan *plan)
{
    int64_t *sent = calloc((size_t)p->n_node, sizeof *sent);
    int64_t *got = calloc((size_t)p->n_node, sizeof *got);
    int *times = calloc((size_t)p->n_node * (size_t)p->n_unit, sizeof *times);
    double busiest = 0;
    int64_t total = 0;

    for (size_t k = 0; k < plan->n_loss; k++) {
        const int u = (int)plan->loss[k].part;

        ck_assert(!is_held(p, u));
        for (int q = 0; q < p->n_position; q++)
            times[plan->node_of_position[q] * p->n_unit + u] += p->needs[q * p->n_unit + u];
    }
    for (size_t k = 0; k < plan->n_move; k++) {
        const struct spot_migration_move *m = &plan->move[k];
        const int u = (int)m->part;

        times[m->to * p->n_unit + u]++;
        ck_assert(p->holds[m->from * p->n_unit + u] && !p->holds[m->to * p->n_unit + u]);
        ck_assert(m->begin == 0 && m->end == p->unit_byte[u] && !m->is_relayed);
        sent[m->from] += p->unit_byte[u];
        got[m->to] += p->unit_byte[u];
        total += p->unit_byte[u];
    }
    for (int q = 0; q < p->n_position; q++)
        for (int u = 0; u < p->n_unit; u++) {
            const int i = plan->node_of_position[q];

            ck_assert(p->can_place[i]);
            ck_assert_int_eq(times[i * p->n_unit + u],
                             p->needs[q * p->n_unit + u] && !p->holds[i * p->n_unit + u]);
        }
    for (int i = 0; i < p->n_node; i++)
        busiest = fmax(busiest, fmax((double)sent[i] / rate(p->out_byte_per_s, i),
                                     (double)got[i] / rate(p->in_byte_per_s, i)));
    ck_assert_double_eq_tol(busiest, plan->makespan_s, 1e-9 * busiest + 1e-12);
    ck_assert_int_eq(total, plan->total_byte);
    free(sent), free(got), free(times);
}

/* L layers on n nodes as D x P pipelines, some nodes gone or leaving: the job runtime's question.
 */
static void draw_grid(struct spot_rng *rng, struct problem *p, uint8_t *holds, uint8_t *needs,
                      uint8_t *can_place, int64_t *byte)
{
    const int d = 1 + below(rng, 4), s = 1 + below(rng, 8), n = d * s + below(rng, 3);
    const int n_unit = 3 + below(rng, 30);
    int s2, d2, n_able = 0;

    memset(holds, 0, (size_t)n * (size_t)n_unit);
    for (int i = 0; i < n; i++) {
        can_place[i] = below(rng, 8) > 0;
        n_able += can_place[i];
        for (int u = 0; u < n_unit && i < d * s; u++)
            holds[i * n_unit + u] = u * s / n_unit == i % s;
    }
    if (!n_able)
        can_place[0] = 1, n_able = 1;
    s2 = 1 + below(rng, n_able < 8 ? n_able : 8);
    d2 = n_able / s2;
    for (int q = 0; q < d2 * s2; q++)
        for (int u = 0; u < n_unit; u++)
            needs[q * n_unit + u] = u * s2 / n_unit == q % s2;
    for (int u = 0; u < n_unit; u++)
        byte[u] = u == 0 || u == n_unit - 1 ? 4000 : 1000;
    *p = (struct problem){ n, d2 * s2, n_unit, byte, holds, needs, can_place, NULL, NULL, NULL };
}

START_TEST(meets_every_need_once_from_a_holder_on_pipeline_grids)
{
    static uint8_t holds[64 * 64], needs[64 * 64], can_place[64];
    static int64_t byte[64];
    struct spot_rng rng;
    int n_at_bound = 0, n_all = 300;

    spot_rng_init(&rng, 12, 0);
    for (int k = 0; k < n_all; k++) {
        struct problem p;
        struct spot_migration_plan plan, again;

        draw_grid(&rng, &p, holds, needs, can_place, byte);
        ck_assert_int_eq(solve(&p, &plan, NULL), 0);
        check_plan(&p, &plan);
        n_at_bound += plan.makespan_s <= plan.bound_s * (1 + 1e-12);
        ck_assert_int_eq(solve(&p, &again, NULL), 0);
        ck_assert_uint_eq(plan.n_move, again.n_move);
        ck_assert(!plan.n_move || !memcmp(plan.move, again.move, plan.n_move * sizeof *plan.move));
        spot_migration_plan_release(&plan);
        spot_migration_plan_release(&again);
    }
    ck_assert_int_gt(n_at_bound, n_all / 4);
}
END_TEST

START_TEST(a_unit_that_nobody_holds_is_reported_and_fetched_from_storage)
{
    const int64_t byte[] = { 10, 20 };
    const uint8_t holds[] = { 1, 0, 1, 0 }, needs[] = { 1, 1, 0, 1 }, can_place[] = { 1, 1 };
    const struct problem p = { 2, 2, 2, byte, holds, needs, can_place, NULL, NULL, NULL };
    struct spot_migration_plan plan;

    ck_assert_int_eq(solve(&p, &plan, NULL), 0);
    ck_assert_int_eq(plan.lost_byte, 20);
    ck_assert_int_eq(plan.total_byte, 0);
    ck_assert(plan.n_move == 0 && plan.n_loss == 1 && plan.loss[0].part == 1);
    spot_migration_plan_release(&plan);
}
END_TEST

START_TEST(what_only_a_leaving_node_holds_travels_first)
{
    const int64_t byte[] = { 1000, 1 };
    const uint8_t holds[] = { 1, 0, 0, 1, 0, 0 }, needs[] = { 1, 1, 1, 1 };
    const uint8_t can_place[] = { 1, 0, 1 };
    const struct problem p = { 3, 2, 2, byte, holds, needs, can_place, NULL, NULL, NULL };
    struct spot_migration_plan plan;

    ck_assert_int_eq(solve(&p, &plan, NULL), 0);
    ck_assert_uint_eq(plan.n_move, 3);
    ck_assert(plan.move[0].from == 1 && plan.move[1].from == 1 && plan.move[2].from == 0);
    spot_migration_plan_release(&plan);
}
END_TEST

/* Two leave, one of them soon; what both have comes from the other, and what the hasty one alone
 * has is sent although it has no time for it. */
START_TEST(who_leaves_soon_sends_what_it_can_and_nothing_is_given_up)
{
    const int64_t byte[] = { 100, 100, 100 };
    const uint8_t holds[] = { 1, 1, 1, 1, 1, 1, 0, 0, 0 }, needs[] = { 1, 1, 1 };
    const uint8_t only[] = { 1, 1, 1, 0, 0, 0, 0, 0, 0 }, can_place[] = { 0, 0, 1 };
    const double deadline_s[] = { 150, 1000 };
    struct problem p = { 3, 1, 3, byte, holds, needs, can_place, NULL, NULL, deadline_s };
    struct spot_migration_plan plan;
    int n_hasty = 0;

    ck_assert_int_eq(solve(&p, &plan, NULL), 0);
    check_plan(&p, &plan);
    for (size_t k = 0; k < plan.n_move; k++)
        n_hasty += plan.move[k].from == 0;
    ck_assert(n_hasty <= 1 && !plan.n_loss);
    spot_migration_plan_release(&plan);
    p.holds = only;
    ck_assert_int_eq(solve(&p, &plan, NULL), 0);
    check_plan(&p, &plan);
    ck_assert(plan.n_move == 3 && !plan.n_loss);
    spot_migration_plan_release(&plan);
}
END_TEST

START_TEST(too_few_nodes_is_infeasible)
{
    const int64_t byte[] = { 1 };
    const uint8_t holds[] = { 1, 1 }, needs[] = { 1, 1 }, can_place[] = { 1, 0 };
    const struct problem p = { 2, 2, 1, byte, holds, needs, can_place, NULL, NULL, NULL };
    struct spot_migration_plan plan;
    struct spot_err err;

    ck_assert_int_eq(solve(&p, &plan, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    ck_assert_str_eq(err.msg, "2 positions but only 1 nodes to take them");
    spot_migration_plan_release(&plan);
}
END_TEST

int main(void)
{
    return run_suite("moves", add_tests(tcase_create("plans")));
}

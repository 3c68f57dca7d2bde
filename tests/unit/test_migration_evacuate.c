/* SPDX-License-Identifier: MIT */
/* Goal: before a deadline that is too short, what is saved is the best choice of whole bundles and
 * whole caches, against every choice there is; nothing is sent that is worth nothing alone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/rng.h"
#include "plan/migration.h"
#include "suite.h"

enum { LAYERS = 4, BUNDLES = LAYERS + 2, CACHES = 2, GROUPS = BUNDLES + CACHES, NODES = 7 };

struct scene {
    struct spot_migration_problem problem;
    struct spot_layout from, to;
    struct spot_cluster cluster;
    int n_old; /* nodes n0.. of the old layout; others are new */
    double limit[NODES], in[NODES];
    unsigned gone;
};

static int below(struct spot_rng *rng, int n)
{
    return (int)spot_rng_below(rng, (uint64_t)n);
}

static void parse_layout(struct spot_layout *layout, const int *grid, bool has_places)
{
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    fprintf(out,
            "{\"schema\":\"spot.layout/1\",\"model\":{\"layers\":%d,\"width\":12,\"ffn\":20,"
            "\"heads\":4,\"kv_heads\":2,\"head_dim\":3,\"vocab\":31},"
            "\"components\":[{\"name\":\"w16\",\"byte_per_param\":2}],"
            "\"grid\":{\"D\":%d,\"P\":%d,\"M\":%d},"
            "\"kv\":[{\"name\":\"a\",\"d\":0,\"tokens\":40},{\"name\":\"b\",\"d\":%d,"
            "\"tokens\":17}],\"place\":[",
            LAYERS, grid[0], grid[1], grid[2], grid[0] - 1);
    for (int q = 0; q < grid[0] * grid[1] * grid[2] && has_places; q++)
        fprintf(out, "%s{\"node\":\"n%d\",\"d\":%d,\"p\":%d,\"m\":%d}", q ? "," : "", q,
                q / grid[2] / grid[1], q / grid[2] % grid[1], q % grid[2]);
    fputs("]}", out);
    fclose(out);
    ck_assert_msg(!spot_layout_parse(layout, text, n_byte, "layout", &err), "%s", err.msg);
    free(text);
}

/* Half of the old nodes leave, some are gone; rates make a deadline of 1 s so many bytes. */
static void draw(struct scene *c, struct spot_rng *rng, bool has_slow_receivers)
{
    const int grid[] = { 1 + below(rng, 2), 1 + below(rng, 2), 1 + below(rng, 2) };
    const int to[] = { 1, 1 + below(rng, 3), 1 };
    const char *sep = "";
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    *c = (struct scene){ .n_old = grid[0] * grid[1] * grid[2] };
    if (c->n_old > NODES - 3)
        c->n_old = NODES - 3;
    parse_layout(&c->from, grid, true);
    parse_layout(&c->to, to, false);
    fputs("{\"schema\":\"spot.cluster/1\",\"nodes\":[", out);
    for (int i = 0; i < NODES; i++) {
        const bool is_leaving = i < c->n_old && below(rng, 4) > 0;
        const int rate = is_leaving ? 1 + below(rng, 8000) : 20000;

        c->limit[i] = is_leaving ? rate : INFINITY;
        c->in[i] = has_slow_receivers ? 1 + below(rng, 3000) : 20000;
        if (i < c->n_old && below(rng, 12) == 0) {
            c->gone |= 1U << i;
            continue;
        }
        fprintf(out,
                "%s{\"node\":\"n%d\",\"out_byte_per_s\":%d,\"in_byte_per_s\":%g,"
                "\"leaving\":%s}",
                sep, i, rate, c->in[i], is_leaving ? "true" : "false");
        sep = ",";
    }
    fprintf(out, "]");
    if (below(rng, 3) == 0)
        fprintf(out, ",\"rollback_s\":%d", 1 + below(rng, 100));
    fprintf(out, ",\"restore_byte_per_s\":%d,\"prefill_tokens_per_s\":%g}", 1 + below(rng, 2000),
            below(rng, 4) ? 0.5 + below(rng, 30) : 1e5);
    fclose(out);
    ck_assert_msg(!spot_cluster_parse(&c->cluster, text, n_byte, "cluster", &err), "%s", err.msg);
    free(text);
}

static void release(struct scene *c)
{
    spot_migration_problem_release(&c->problem);
    spot_layout_release(&c->from), spot_layout_release(&c->to);
    spot_cluster_release(&c->cluster);
}

static unsigned holders_of(const struct scene *c, const struct spot_reshard_part *part)
{
    unsigned set = 0;

    for (int h = 0; h < part->n_holder; h++)
        if (part->holder[h] < NODES)
            set |= 1U << part->holder[h];
    return set & ~c->gone;
}

static unsigned leaving(const struct scene *c)
{
    unsigned set = 0;

    for (int i = 0; i < NODES; i++)
        set |= isfinite(c->limit[i]) ? 1U << i : 0;
    return set & ~c->gone;
}

/* Bit b: bundle b; above them the caches. */
static unsigned groups_of(const struct spot_reshard_part *part)
{
    unsigned set = 0;

    if (part->kv >= 0)
        return 1U << (BUNDLES + part->kv);
    for (size_t i = 0; i < part->n_piece; i++)
        for (int64_t b = part->piece[i].first; b <= part->piece[i].last; b++)
            set |= 1U << b;
    return set;
}

/* What a loss of these groups costs, counted anew from the model. */
static double cost_of(const struct scene *c, unsigned lost)
{
    double state_byte = 0, sum = 0;

    for (int b = 0; b < BUNDLES; b++)
        for (int g = 0; g < SPOT_GROUPS && (lost >> b & 1 || c->cluster.rollback_s > 0); g++) {
            int64_t n_atom;

            state_byte += 2 * (double)spot_shape_elem(&c->to.model, b, g, &n_atom);
        }
    if (lost & ((1U << BUNDLES) - 1))
        sum = c->cluster.rollback_s + state_byte / c->cluster.restore_byte_per_s;
    for (int k = 0; k < CACHES; k++)
        if (lost >> (BUNDLES + k) & 1)
            sum += (double)c->to.kv[k].n_token / c->cluster.prefill_tokens_per_s;
    return sum;
}

/* The node that fetches a part first, -1 if nobody wants it. */
static int receiver_of(const struct scene *c, const struct spot_migration_plan *plan,
                       const struct spot_reshard_part *part)
{
    return part->n_want ? c->cluster.node[plan->node_of_position[part->want[0]]].name[1] - '0' : -1;
}

/* Over the parts that only leaving nodes hold and that belong to the groups kept: is every cut wide
 * enough? A cut takes the links of `nodes`, and of what others hold too for each receiver its link
 * or the bytes, whichever is less. */
static bool can_arrive(const struct scene *c, const struct spot_migration_plan *plan, unsigned lost)
{
    const struct spot_reshard *r = &c->problem.reshard;

    for (unsigned nodes = 0; nodes < 1U << NODES; nodes++) {
        double room = 0, byte = 0, other[NODES] = { 0 };

        if (nodes & ~leaving(c))
            continue;
        for (int i = 0; i < NODES; i++)
            room += nodes >> i & 1 ? c->limit[i] : 0;
        for (size_t k = 0; k < r->n_part; k++) {
            const struct spot_reshard_part *part = &r->part[k];
            const unsigned holders = holders_of(c, part);
            const int to = receiver_of(c, plan, part);

            if (!holders || holders & ~leaving(c) || groups_of(part) & lost)
                continue;
            byte += (double)part->byte;
            if (holders & ~nodes)
                *(to < 0 ? &room : &other[to]) += (double)part->byte;
        }
        for (int i = 0; i < NODES; i++)
            room += fmin(other[i], c->in[i]);
        if (byte > room)
            return false;
    }
    return true;
}

/* The least cost over all sets of groups to lose, given what is lost anyway and what was chosen
 * to be recomputed (its cost is not counted). */
static double least_cost(const struct scene *c, const struct spot_migration_plan *plan,
                         unsigned broken, unsigned chosen)
{
    double least = INFINITY;

    for (unsigned lost = 0; lost < 1U << GROUPS; lost++)
        if ((lost & broken) == broken && !(lost & chosen) && can_arrive(c, plan, lost | chosen) &&
            cost_of(c, lost) < least)
            least = cost_of(c, lost);
    return least;
}

static void check(const struct scene *c, const struct spot_migration_plan *plan)
{
    const struct spot_reshard *r = &c->problem.reshard;
    unsigned broken = 0, chosen = 0, lost = 0, saved = 0;
    double sent[NODES] = { 0 }, got[NODES] = { 0 };

    for (size_t k = 0; k < r->n_part; k++)
        if (!holders_of(c, &r->part[k]))
            broken |= groups_of(&r->part[k]);
    if (c->cluster.rollback_s > 0 && broken & ((1U << BUNDLES) - 1))
        broken |= (1U << BUNDLES) - 1;
    for (size_t k = 0; k < plan->n_loss; k++)
        *(plan->loss[k].is_chosen ? &chosen : &lost) |= groups_of(&r->part[plan->loss[k].part]);
    ck_assert_double_eq_tol(plan->recovery_s, least_cost(c, plan, broken, chosen), 1e-9);
    ck_assert_double_le(plan->recovery_bound_s, plan->recovery_s + 1e-9);
    ck_assert_double_le(plan->bound_s, plan->makespan_s * (1 + 1e-9));
    for (size_t k = 0; k < plan->n_move; k++) {
        const struct spot_migration_move *m = &plan->move[k];
        const char *name = c->cluster.node[m->from].name;
        const unsigned holders = holders_of(c, &r->part[m->part]);

        sent[name[1] - '0'] += (double)(m->end - m->begin);
        if (!(holders & ~leaving(c)) && !m->is_relayed)
            got[c->cluster.node[m->to].name[1] - '0'] += (double)(m->end - m->begin);
        if (!(holders & ~leaving(c)))
            saved |= groups_of(&r->part[m->part]);
        else if (r->part[m->part].kv < 0)
            continue; /* state that others have moves in any case */
        ck_assert_uint_eq(groups_of(&r->part[m->part]) & ((lost & ~broken) | chosen), 0);
    }
    if (c->cluster.rollback_s > 0) /* all of one step, or nothing */
        ck_assert(!(saved & ~broken & ((1U << BUNDLES) - 1)) || !(lost & ((1U << BUNDLES) - 1)));
    for (int i = 0; i < NODES; i++)
        ck_assert(sent[i] <= c->limit[i] && got[i] <= c->in[i]);
}

START_TEST(the_best_whole_groups_are_saved_of_all_choices)
{
    const bool has_slow_receivers = _i;
    struct spot_rng rng;
    int n_lost = 0, n_saved = 0, n_chosen = 0, n_open = 0;

    spot_rng_init(&rng, 71, (uint64_t)_i);
    for (int t = 0; t < (is_long() ? 4000 : 1200); t++) {
        struct scene c;
        struct spot_migration_plan plan;
        struct spot_err err;

        draw(&c, &rng, has_slow_receivers);
        ck_assert_msg(!spot_migration_of_layouts(&c.problem, &c.from, &c.to, &c.cluster, &err),
                      "%s", err.msg);
        c.problem.deadline_s = 1;
        ck_assert_msg(!spot_migrate(&c.problem, &plan, &err), "%s", err.msg);
        check(&c, &plan);
        n_lost += plan.n_saved < plan.n_at_stake;
        n_saved += plan.n_saved > 0 && plan.n_saved < plan.n_at_stake;
        n_open += plan.recovery_bound_s < plan.recovery_s * (1 - 1e-9);
        for (size_t k = 0; k < plan.n_loss; k++)
            n_chosen += plan.loss[k].is_chosen;
        spot_migration_plan_release(&plan);
        release(&c);
    }
    ck_assert_int_gt(n_lost, 100);
    ck_assert_int_gt(n_saved, 50);
    ck_assert_int_gt(n_chosen, 20);
    ck_assert(has_slow_receivers ? n_open > 0
                                 : n_open == 0); /* another placement might save more */
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("migration_evacuate");

    tcase_add_loop_test(tc, the_best_whole_groups_are_saved_of_all_choices, 0, 2);
    return run_suite("migration_evacuate", tc);
}

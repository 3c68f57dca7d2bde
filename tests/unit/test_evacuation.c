/* SPDX-License-Identifier: MIT */
/* Goal: of groups that are saved whole or not at all, the best choice is made wherever all choices
 * can be enumerated, and where they cannot, the bound that is told holds. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/rng.h"
#include "plan/migration/evacuation.h"
#include "suite.h"

enum { NODES = 4, SETS = 5, GROUPS = 64 };

struct instance {
    struct spot_evacuation s;
    double limit[NODES];
    unsigned holders[SETS]; /* bit i: node i */
    int holder[SETS][NODES];
    struct spot_evacuation_set set[SETS];
    int64_t byte[GROUPS * SETS];
    double value[GROUPS];
    bool is_saved[GROUPS];
};

static int below(struct spot_rng *rng, int n)
{
    return (int)spot_rng_below(rng, (uint64_t)n);
}

static void draw(struct instance *c, struct spot_rng *rng, int n_group)
{
    const bool has_twins = below(rng, 3) == 0;

    memset(c, 0, sizeof *c);
    c->s = (struct spot_evacuation){ .n_node = 1 + below(rng, NODES),
                                     .n_set = 1 + below(rng, SETS),
                                     .n_group = n_group,
                                     .limit_byte = c->limit,
                                     .set = c->set,
                                     .byte = c->byte,
                                     .value = c->value,
                                     .is_saved = c->is_saved };
    for (int i = 0; i < c->s.n_node; i++)
        c->limit[i] = below(rng, 20 * n_group);
    for (int k = 0; k < c->s.n_set; k++) {
        c->holders[k] = 1U + (unsigned)below(rng, (1 << c->s.n_node) - 1);
        c->set[k].holder = c->holder[k];
        for (int i = 0; i < c->s.n_node; i++)
            if (c->holders[k] >> i & 1)
                c->holder[k][c->set[k].n_holder++] = i;
    }
    for (int g = 0; g < n_group; g++) {
        const int like = has_twins && g ? below(rng, g) : g;

        for (int k = 0; k < c->s.n_set; k++)
            c->byte[g * c->s.n_set + k] = like < g        ? c->byte[like * c->s.n_set + k]
                                          : below(rng, 2) ? below(rng, 40)
                                                          : 0;
        c->value[g] = like < g ? c->value[like] : below(rng, 8) ? 1 + below(rng, 50) : 0;
    }
}

/* Hall: for every set of nodes, what only they hold must fit through them. */
static bool can_leave(const struct instance *c, const bool *is_in)
{
    for (unsigned nodes = 1; nodes < 1U << c->s.n_node; nodes++) {
        double room = 0, byte = 0;

        for (int i = 0; i < c->s.n_node; i++)
            room += nodes >> i & 1 ? c->limit[i] : 0;
        for (int g = 0; g < c->s.n_group; g++)
            for (int k = 0; k < c->s.n_set && is_in[g]; k++)
                byte += c->holders[k] & ~nodes ? 0 : (double)c->byte[g * c->s.n_set + k];
        if (byte > room)
            return false;
    }
    return true;
}

static double worth(const struct instance *c, const bool *is_in)
{
    double sum = 0;

    for (int g = 0; g < c->s.n_group; g++)
        sum += is_in[g] ? c->value[g] : 0;
    return sum;
}

static double best_of_all(const struct instance *c)
{
    double best = 0;

    for (unsigned mask = 0; mask < 1U << c->s.n_group; mask++) {
        bool is_in[GROUPS];

        for (int g = 0; g < c->s.n_group; g++)
            is_in[g] = mask >> g & 1;
        if (worth(c, is_in) > best && can_leave(c, is_in))
            best = worth(c, is_in);
    }
    return best;
}

static void check_answer(const struct instance *c)
{
    ck_assert(can_leave(c, c->is_saved));
    ck_assert_double_eq(worth(c, c->is_saved), c->s.saved);
    ck_assert_double_le(c->s.saved, c->s.bound);
    for (int g = 0; g < c->s.n_group; g++) { /* nothing more fits, with or without value */
        bool more[GROUPS];

        memcpy(more, c->is_saved, sizeof more);
        more[g] = true;
        ck_assert(c->is_saved[g] || !can_leave(c, more));
    }
}

START_TEST(the_choice_is_the_best_of_all_choices)
{
    struct spot_rng rng;
    int n_cut = 0;

    spot_rng_init(&rng, 61, 0);
    for (int t = 0; t < 3000; t++) {
        struct instance c;

        draw(&c, &rng, 1 + below(&rng, 9));
        spot_evacuation(&c.s);
        check_answer(&c);
        ck_assert(c.s.is_exact && c.s.bound == c.s.saved);
        ck_assert_double_eq(c.s.saved, best_of_all(&c));
        for (int g = 0; g < c.s.n_group; g++)
            n_cut += !c.is_saved[g];
    }
    ck_assert_int_gt(n_cut, 3000); /* there was something to choose */
}
END_TEST

/* The classic knapsack of node i alone, by dynamic programming over its capacity, of the groups
 * with bytes there. */
static double knapsack(const struct instance *c, int i)
{
    static double most[20 * GROUPS + 1];
    const int room = (int)c->limit[i];

    memset(most, 0, sizeof most);
    for (int g = 0; g < c->s.n_group; g++) {
        const int byte = (int)c->byte[g * c->s.n_set + i];

        for (int b = room; b >= byte && (byte || c->s.n_set == 1); b--)
            most[b] = fmax(most[b], most[b - byte] + c->value[g]);
    }
    return most[room];
}

START_TEST(many_groups_of_one_node_are_the_classic_knapsack)
{
    struct spot_rng rng;
    int n_exact = 0;

    spot_rng_init(&rng, 62, 0);
    for (int t = 0; t < 200; t++) {
        struct instance c;

        do
            draw(&c, &rng, GROUPS);
        while (c.s.n_node > 1 || c.s.n_set > 1);
        spot_evacuation(&c.s);
        check_answer(&c);
        n_exact += c.s.is_exact;
        ck_assert_double_le(knapsack(&c, 0), c.s.bound);
        ck_assert_double_le(c.s.saved, knapsack(&c, 0));
        ck_assert(!c.s.is_exact || c.s.saved == knapsack(&c, 0));
        ck_assert_double_ge(c.s.saved, knapsack(&c, 0) / 2);
    }
    ck_assert_int_gt(n_exact, 150);
}
END_TEST

/* Densest first, each that fits: what the answer must not be worse than. */
static double greedy(const struct instance *c)
{
    bool is_in[GROUPS] = { 0 }, is_seen[GROUPS] = { 0 };

    for (int turn = 0; turn < c->s.n_group; turn++) {
        double most = -1;
        int best = 0;

        for (int g = 0; g < c->s.n_group; g++) {
            double byte = 1e-9;

            for (int k = 0; k < c->s.n_set; k++)
                byte += (double)c->byte[g * c->s.n_set + k];
            if (!is_seen[g] && c->value[g] / byte > most) {
                most = c->value[g] / byte;
                best = g;
            }
        }
        is_seen[best] = is_in[best] = true;
        is_in[best] = can_leave(c, is_in);
    }
    return worth(c, is_in);
}

START_TEST(many_groups_on_many_nodes_keep_within_the_bound_that_is_told)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 63, 0);
    for (int t = 0; t < 60; t++) {
        struct instance c, single;

        draw(&c, &rng, GROUPS);
        spot_evacuation(&c.s);
        check_answer(&c);
        ck_assert_double_ge(c.s.saved, 0.9 * greedy(&c)); /* ties in density may be broken so */
        single = c;
        for (int g = 0; g < GROUPS; g++) {
            memset(single.is_saved, 0, sizeof single.is_saved);
            single.is_saved[g] = true;
            if (can_leave(&single, single.is_saved))
                ck_assert_double_ge(c.s.saved, c.value[g]);
        }
    }
}
END_TEST

START_TEST(nodes_that_share_nothing_are_one_knapsack_each)
{
    struct spot_rng rng;
    int n_exact = 0, n = 0;

    spot_rng_init(&rng, 65, 0);
    for (int t = 0; t < 60; t++) {
        struct instance c;
        double best = 0;

        do
            draw(&c, &rng, GROUPS);
        while (c.s.n_set != c.s.n_node);
        for (int i = 0; i < c.s.n_node; i++) {
            c.set[i].n_holder = 1;
            c.holder[i][0] = i;
            c.holders[i] = 1U << i;
        }
        memset(c.byte, 0, sizeof c.byte);
        for (int g = 0; g < GROUPS; g++)
            c.byte[g * c.s.n_set + g % c.s.n_set] = 1 + below(&rng, 40);
        spot_evacuation(&c.s);
        check_answer(&c);
        for (int i = 0; i < c.s.n_node; i++)
            best += knapsack(&c, i);
        ck_assert_double_le(c.s.saved, best);
        ck_assert_double_le(best, c.s.bound * (1 + 1e-12));
        ck_assert(!c.s.is_exact || c.s.saved == best);
        ck_assert_double_ge(c.s.saved, best / 2);
        n_exact += c.s.is_exact;
        n++;
    }
    ck_assert_int_lt(n_exact, n); /* some were cut short: the bound was needed */
}
END_TEST

START_TEST(nothing_to_save_and_no_room_are_answered_too)
{
    struct spot_rng rng;
    struct instance c;

    spot_rng_init(&rng, 64, 0);
    draw(&c, &rng, 3);
    c.s.n_group = 0;
    spot_evacuation(&c.s);
    ck_assert(c.s.is_exact && c.s.saved == 0 && c.s.bound == 0);
    draw(&c, &rng, 3);
    memset(c.limit, 0, sizeof c.limit);
    for (int k = 0; k < 3 * c.s.n_set; k++)
        c.byte[k] = 1;
    spot_evacuation(&c.s);
    ck_assert(c.s.is_exact && c.s.saved == 0);
    c.limit[0] = c.limit[1] = c.limit[2] = c.limit[3] = INFINITY;
    spot_evacuation(&c.s);
    ck_assert(c.is_saved[0] && c.is_saved[1] && c.is_saved[2]);
}
END_TEST

int main(void)
{
    return run_suite("evacuation", add_tests(tcase_create("evacuation")));
}

/* SPDX-License-Identifier: MIT */
/* Goal: the bound on the makespan holds for every placement, counted out one by one, and mostly is
 * the optimum itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "plan/migration/place.h"
#include "suite.h"

enum { NODES = 6, PARTS = 12 };

/* Parts with the nodes that hold them and the positions that want them, as bits. */
struct world {
    int n_node, n_position, n_part;
    int64_t byte[PARTS];
    unsigned holder[PARTS], want[PARTS];
    double in[NODES], out[NODES];
    int last[NODES]; /* the placement scored last */
};

static int64_t in_byte(const struct world *w, int q, int i)
{
    int64_t sum = 0;

    for (int k = 0; k < w->n_part; k++)
        if (w->want[k] >> q & 1 && !(w->holder[k] >> i & 1))
            sum += w->byte[k];
    return sum;
}

/* What only the senders of `set` hold and somebody lacks, over their links. */
static double set_s(const struct world *w, const int *node, unsigned set)
{
    double byte = 0, rate = 0;

    for (int k = 0; k < w->n_part; k++)
        for (int q = 0; q < w->n_position; q++)
            if (!(w->holder[k] & ~set) && w->want[k] >> q & 1 && !(w->holder[k] >> node[q] & 1))
                byte += (double)w->byte[k];
    for (int i = 0; i < w->n_node; i++)
        rate += set >> i & 1 ? w->out[i] : 0;
    return byte / rate;
}

static unsigned worst_set(const struct world *w, const int *node)
{
    unsigned worst = 1;

    for (unsigned set = 2; set < 1U << w->n_node; set++)
        if (set_s(w, node, set) > set_s(w, node, worst))
            worst = set;
    return worst;
}

static struct spot_place_score score(void *user, const int *node, double give_up_s)
{
    struct world *w = user;
    struct spot_place_score s = { 0 };

    (void)give_up_s;
    memcpy(w->last, node, (size_t)w->n_position * sizeof(int));
    s.makespan_s = set_s(w, node, worst_set(w, node));
    for (int q = 0; q < w->n_position; q++) {
        const int64_t byte = in_byte(w, q, node[q]);

        s.makespan_s = fmax(s.makespan_s, (double)byte / w->in[node[q]]);
        s.byte += byte;
        s.n_touched += byte > 0;
    }
    return s;
}

static bool cut(void *user, struct spot_place_cut *cut)
{
    const struct world *w = user;
    const unsigned set = worst_set(w, w->last);

    *cut = (struct spot_place_cut){ .byte = cut->byte };
    memset(cut->byte, 0, (size_t)(w->n_position * w->n_node) * sizeof *cut->byte);
    for (int i = 0; i < w->n_node; i++)
        cut->rate_byte_per_s += set >> i & 1 ? w->out[i] : 0;
    for (int k = 0; k < w->n_part; k++)
        for (int q = 0; q < w->n_position; q++)
            for (int i = 0; i < w->n_node; i++)
                if (!(w->holder[k] & ~set) && w->want[k] >> q & 1 && !(w->holder[k] >> i & 1))
                    cut->byte[q * w->n_node + i] += w->byte[k];
    return true;
}

static double best_of_all(struct world *w, int q, unsigned used, int *node)
{
    double best_s = INFINITY;

    if (q == w->n_position)
        return score(w, node, INFINITY).makespan_s;
    for (int i = 0; i < w->n_node; i++)
        if (!(used >> i & 1)) {
            node[q] = i;
            best_s = fmin(best_s, best_of_all(w, q + 1, used | 1U << i, node));
        }
    return best_s;
}

static void draw(struct world *w, struct spot_rng *rng)
{
    memset(w, 0, sizeof *w);
    w->n_node = 3 + (int)spot_rng_below(rng, NODES - 2);
    w->n_position = 2 + (int)spot_rng_below(rng, (uint64_t)w->n_node - 1);
    w->n_part = 3 + (int)spot_rng_below(rng, PARTS - 2);
    for (int k = 0; k < w->n_part; k++) {
        w->byte[k] = 1 + (int64_t)spot_rng_below(rng, 1000);
        w->holder[k] = 1U << spot_rng_below(rng, (uint64_t)w->n_node);
        if (spot_rng_below(rng, 2))
            w->holder[k] |= 1U << spot_rng_below(rng, (uint64_t)w->n_node);
        w->want[k] = (unsigned)spot_rng_below(rng, UINT64_C(1) << w->n_position);
    }
    for (int i = 0; i < w->n_node; i++) {
        w->in[i] = 1 + (double)spot_rng_below(rng, 3);
        w->out[i] = 1 + (double)spot_rng_below(rng, 3);
    }
}

/* No enumeration: two starts, exchanges and the bound. */
static void search(struct world *w, bool has_cuts, struct spot_place *place)
{
    int64_t in[NODES * NODES];
    const uint8_t can_place[NODES] = { 1, 1, 1, 1, 1, 1 };
    int class[NODES];
    struct spot_place_problem p = { .n_node = w->n_node,
                                    .n_position = w->n_position,
                                    .in_byte = in,
                                    .in_byte_per_s = w->in,
                                    .can_place = can_place,
                                    .node_class = class,
                                    .position_class = class,
                                    .climb_max = 50,
                                    .bound_max = 400,
                                    .score = score,
                                    .cut = has_cuts ? cut : NULL,
                                    .user = w };

    for (int i = 0; i < NODES; i++)
        class[i] = i;
    for (int i = 0; i < w->n_node; i++)
        p.out_byte_per_s += w->out[i];
    for (int q = 0; q < w->n_position; q++)
        for (int i = 0; i < w->n_node; i++)
            in[q * w->n_node + i] = in_byte(w, q, i);
    ck_assert_int_eq(spot_place_search(&p, place, NULL), 0);
}

START_TEST(no_placement_is_faster_than_the_bound)
{
    enum { CASES = 1500 };
    struct spot_rng rng;
    int n_tight = 0, n_tight_before = 0, n_best = 0;

    spot_rng_init(&rng, 71, 0);
    for (int k = 0; k < CASES; k++) {
        struct world w;
        struct spot_place place, plain;
        int node[NODES];
        double best_s;

        draw(&w, &rng);
        search(&w, true, &place);
        search(&w, false, &plain);
        best_s = best_of_all(&w, 0, 0, node);
        ck_assert_msg(place.bound_s <= best_s * (1 + 1e-9), "case %d: bound %.12g, best %.12g", k,
                      place.bound_s, best_s);
        ck_assert(place.bound_s >= plain.bound_s && place.score.makespan_s >= best_s * (1 - 1e-9));
        ck_assert(place.score.makespan_s <= plain.score.makespan_s * (1 + 1e-9));
        n_tight += place.bound_s >= best_s * (1 - 1e-6);
        n_tight_before += plain.bound_s >= best_s * (1 - 1e-6);
        n_best += place.score.makespan_s <= best_s * (1 + 1e-9);
        spot_place_release(&place), spot_place_release(&plain);
    }
    ck_assert_msg(n_tight > n_tight_before + CASES / 10 && n_tight > CASES * 7 / 10,
                  "tight %d, before %d", n_tight, n_tight_before);
    ck_assert_int_gt(n_best, CASES * 95 / 100);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("bound");

    tcase_add_test(tcase, no_placement_is_faster_than_the_bound);
    return run_suite("place_bound", tcase);
}

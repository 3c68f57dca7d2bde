/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/repartition.h"
#include "plan/train/ways.h"

/* State over the stages processed so far: the highest cost of a stage that is short of replicas,
 * and the sum of the costs of those without a holder. */
struct state {
    double slowest, sum;
    struct spot_ways ways;
};

struct states {
    struct state *state;
    size_t n, cap;
};

static void add_state(struct states *all, double slowest, double sum, const struct spot_ways *w)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->state[i].slowest == slowest && all->state[i].sum == sum) {
            for (int j = 0; j < SPOT_WAYS_WIDTH; j++)
                all->state[i].ways.of[j] += w->of[j];
            return;
        }
    all->state = spot_xgrow(all->state, &all->cap, all->n + 1, sizeof(*all->state));
    all->state[all->n++] = (struct state){ slowest, sum, *w };
}

/* n stages of equal cost, of which i are wiped. Stages come in descending order of cost, so the
 * first short one sets `slowest`. */
struct group {
    double cost;
    int n;
    struct spot_ways whole, shorted, wiped;
};

static void extend(const struct states *from, struct states *to, const struct group *g, int j_max)
{
    struct spot_ways some = g->whole;
    const struct spot_ways none = spot_ways_power(&g->whole, g->n, j_max);

    for (int j = 0; j <= j_max; j++)
        some.of[j] += g->shorted.of[j];
    for (int i = 0; i <= g->n; i++) {
        struct spot_ways hit = spot_ways_power(&some, g->n - i, j_max);
        const struct spot_ways gone = spot_ways_power(&g->wiped, i, j_max);
        bool any = false;

        hit = spot_ways_times(&hit, &gone, j_max);
        for (int j = 0; j <= j_max; j++) {
            hit.of[j] = hit.of[j] * spot_ways_choose(g->n, i) - (i ? 0 : none.of[j]);
            any |= hit.of[j] > 0;
        }
        for (size_t s = 0; any && s < from->n; s++) {
            const struct state *x = &from->state[s];
            const struct spot_ways w = spot_ways_times(&x->ways, &hit, j_max);

            add_state(to, x->slowest < 0 ? g->cost : x->slowest, x->sum + i * g->cost, &w);
        }
    }
    for (size_t s = 0; s < from->n; s++) {
        const struct spot_ways w = spot_ways_times(&from->state[s].ways, &none, j_max);

        add_state(to, from->state[s].slowest, from->state[s].sum, &w);
    }
}

static int costliest_first(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return (x->cost < y->cost) - (x->cost > y->cost);
}

/* Group the stages by equal cost, costliest first; the last stage is a group of its own. */
static int make_groups(const struct spot_migrate_cost *cost, int d, int p, int keep, int most,
                       int j_max, struct group *group)
{
    const struct spot_ways whole = spot_ways_stage(d, 0, spot_ways_least(d - keep, most), j_max);
    const int from = d - keep + 1;
    int n = 0;

    for (int k = 0; k < p; k++) {
        const double c = spot_migrate_stage_s(cost, p, k);
        const bool is_last = k == p - 1;
        const int wiped = is_last && keep > 1 ? d - 1 : d; /* there, one replica counts as none */
        int i = 0;

        while (i < n && (group[i].cost != c || is_last))
            i++;
        if (i == n)
            group[n++] = (struct group){
                .cost = c,
                .whole = whole,
                .shorted = spot_ways_stage(d, from, spot_ways_least(wiped - 1, most), j_max),
                .wiped = spot_ways_stage(d, wiped, spot_ways_least(d, most), j_max)
            };
        group[i].n++;
    }
    qsort(group, (size_t)n, sizeof(*group), costliest_first);
    return n;
}

void spot_repartition_same(const struct spot_migrate_cost *cost, int d, int p, int keep, int most,
                           int j_max, double *hold, double *move)
{
    struct group *group = spot_xcalloc((size_t)p, sizeof(*group));
    struct states now = { 0 }, next = { 0 };
    const struct spot_ways one = { { 1 } };
    const int n = make_groups(cost, d, p, keep, most, j_max, group);

    assert(j_max <= SPOT_REPARTITION_VICTIMS_MAX && keep >= 1);
    add_state(&now, -1, 0, &one);
    for (int i = 0; i < n; i++) {
        const struct states swap = now;

        next.n = 0;
        extend(&now, &next, &group[i], j_max);
        now = next;
        next = swap;
    }
    for (int j = 0; j <= j_max; j++) {
        const double all = spot_ways_choose(d * p, j);

        hold[j] = move[j] = 0;
        for (size_t s = 0; s < now.n; s++) {
            const struct state *x = &now.state[s];

            if (x->slowest < 0)
                hold[j] += x->ways.of[j] / all;
            else
                move[j] += fmax(x->slowest, x->sum) * x->ways.of[j] / all;
        }
    }
    free(now.state);
    free(next.state);
    free(group);
}

double spot_repartition_same_drawn(const struct spot_migrate_cost *cost, int d, int p, int keep,
                                   const int *lost, int *holds)
{
    double slowest = 0, sum = 0;

    *holds = 1;
    for (int k = 0; k < p; k++) {
        const int left = d - lost[k];
        const double c = spot_migrate_stage_s(cost, p, k);

        if (left >= keep)
            continue;
        *holds = 0;
        slowest = c > slowest ? c : slowest;
        if (!left || (k == p - 1 && left == 1))
            sum += c;
    }
    return fmax(slowest, sum);
}

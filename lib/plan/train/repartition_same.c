/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/repartition.h"

enum { WIDTH = SPOT_REPARTITION_VICTIMS_MAX + 1 };

/* Number of victim sets by their size: a polynomial in x, cut after x^j_max. */
struct ways {
    double of[WIDTH];
};

static struct ways times(const struct ways *a, const struct ways *b, int j_max)
{
    struct ways out = { { 0 } };

    for (int i = 0; i <= j_max; i++)
        for (int j = 0; a->of[i] > 0 && i + j <= j_max; j++)
            out.of[i + j] += a->of[i] * b->of[j];
    return out;
}

static struct ways power(const struct ways *f, int n, int j_max)
{
    struct ways out = { { 1 } };

    while (n-- > 0)
        out = times(&out, f, j_max);
    return out;
}

static double choose(int n, int k)
{
    double c = k < 0 || k > n ? 0 : 1;

    for (int i = 1; i <= k && c > 0; i++)
        c = c * (n - k + i) / i;
    return c;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Ways that one stage of d replicas loses between low and high. */
static struct ways stage(int d, int low, int high, int j_max)
{
    struct ways f = { { 0 } };

    for (int a = low < 0 ? 0 : low; a <= high && a <= d && a <= j_max; a++)
        f.of[a] = choose(d, a);
    return f;
}

/* What is known of the stages seen so far: the slowest short one, and the sum of wiped ones. */
struct state {
    double slowest, sum;
    struct ways ways;
};

struct states {
    struct state *state;
    size_t n, cap;
};

static void add_state(struct states *all, double slowest, double sum, const struct ways *w)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->state[i].slowest == slowest && all->state[i].sum == sum) {
            for (int j = 0; j < WIDTH; j++)
                all->state[i].ways.of[j] += w->of[j];
            return;
        }
    all->state = spot_xgrow(all->state, &all->cap, all->n + 1, sizeof(*all->state));
    all->state[all->n++] = (struct state){ slowest, sum, *w };
}

/* n stages of equal cost: i of them are wiped. Stages come in order of descending cost, so the
 * first short one sets `slowest`. */
struct group {
    double cost;
    int n;
    struct ways whole, shorted, wiped;
};

static void extend(const struct states *from, struct states *to, const struct group *g, int j_max)
{
    struct ways some = g->whole;
    const struct ways none = power(&g->whole, g->n, j_max);

    for (int j = 0; j <= j_max; j++)
        some.of[j] += g->shorted.of[j];
    for (int i = 0; i <= g->n; i++) {
        struct ways hit = power(&some, g->n - i, j_max);
        const struct ways gone = power(&g->wiped, i, j_max);
        bool any = false;

        hit = times(&hit, &gone, j_max);
        for (int j = 0; j <= j_max; j++) {
            hit.of[j] = hit.of[j] * choose(g->n, i) - (i ? 0 : none.of[j]);
            any |= hit.of[j] > 0;
        }
        for (size_t s = 0; any && s < from->n; s++) {
            const struct state *x = &from->state[s];
            const struct ways w = times(&x->ways, &hit, j_max);

            add_state(to, x->slowest < 0 ? g->cost : x->slowest, x->sum + i * g->cost, &w);
        }
    }
    for (size_t s = 0; s < from->n; s++) {
        const struct ways w = times(&from->state[s].ways, &none, j_max);

        add_state(to, from->state[s].slowest, from->state[s].sum, &w);
    }
}

static int costliest_first(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return (x->cost < y->cost) - (x->cost > y->cost);
}

/* Stages of equal cost in groups, the last stage alone; costliest first. */
static int make_groups(const struct spot_migrate_cost *cost, int d, int p, int keep, int most,
                       int j_max, struct group *group)
{
    const struct ways whole = stage(d, 0, least(d - keep, most), j_max);
    const int from = d - keep + 1;
    int n = 0;

    for (int k = 0; k < p; k++) {
        const double c = spot_migrate_stage_s(cost, p, k);
        const bool is_last = k == p - 1;
        const int wiped = is_last && keep > 1 ? d - 1 : d; /* one replica counts as none */
        int i = 0;

        while (i < n && (group[i].cost != c || is_last))
            i++;
        if (i == n)
            group[n++] = (struct group){ .cost = c,
                                         .whole = whole,
                                         .shorted = stage(d, from, least(wiped - 1, most), j_max),
                                         .wiped = stage(d, wiped, least(d, most), j_max) };
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
    const struct ways one = { { 1 } };
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
        const double all = choose(d * p, j);

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

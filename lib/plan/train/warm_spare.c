/* SPDX-License-Identifier: MIT */
#include "plan/train/warm_spare.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/ways.h"

/* Bytes of a summed gradient (int64); sending the gradients to a spare may take at most this share
 * of a step: trainer_warm.c. */
static const double sum_byte = 8, share_of_step = 0.5;

/* --- assignment of spares ----------------------------------------------------- */

static double sums_s(const struct spot_migrate_cost *cost, int p, int k)
{
    return spot_migrate_p2p_s(&cost->job->cost, sum_byte * cost->params[p * cost->p_max + k]);
}

/* Each stage has its own set of w / p spares, or one more. */
static void cover_all(struct spot_warm_cover *c, const struct spot_migrate_cost *cost, int w,
                      double room_s)
{
    for (int k = 0; k < c->p; k++) {
        if (sums_s(cost, c->p, k) > room_s)
            continue;
        c->set[k] = c->n_set;
        c->spares[c->n_set++] = w / c->p + (k < w % c->p);
    }
}

/* Spare i mirrors stage i; the other stages are assigned in turn. */
static void cover_some(struct spot_warm_cover *c, const struct spot_migrate_cost *cost, int w,
                       double room_s)
{
    double *const room = spot_xcalloc((size_t)w, sizeof(*room));

    for (int i = 0; i < w; i++)
        room[i] = room_s;
    c->n_set = w;
    for (int k = 0; k < c->p; k++) {
        const double s = sums_s(cost, c->p, k);

        if (s > room[k % w])
            continue;
        room[k % w] -= s;
        c->set[k] = k % w;
        c->spares[k % w] = 1;
    }
    free(room);
}

void spot_warm_cover_init(struct spot_warm_cover *c, const struct spot_migrate_cost *cost, int p,
                          int w, double step_s)
{
    const double room_s = share_of_step * step_s;

    *c = (struct spot_warm_cover){ .p = p };
    c->set = spot_xcalloc((size_t)p, sizeof(*c->set));
    c->spares = spot_xcalloc((size_t)p, sizeof(*c->spares));
    for (int k = 0; k < p; k++)
        c->set[k] = -1;
    if (w >= p)
        cover_all(c, cost, w, room_s);
    else if (w > 0)
        cover_some(c, cost, w, room_s);
    for (int i = 0; i < c->n_set; i++)
        c->n_warm += c->spares[i];
}

void spot_warm_cover_release(struct spot_warm_cover *c)
{
    free(c->set);
    free(c->spares);
    memset(c, 0, sizeof(*c));
}

double spot_warm_mirror_s(const struct spot_warm_cover *c, const struct spot_migrate_cost *cost)
{
    double *const in = spot_xcalloc((size_t)c->n_set, sizeof(*in)), most = 0;

    for (int k = 0; k < c->p; k++) {
        const double s = sums_s(cost, c->p, k);

        if (c->set[k] < 0)
            continue;
        in[c->set[k]] += s;
        most = fmax(most, fmax(in[c->set[k]], s * c->spares[c->set[k]]));
    }
    free(in);
    return most;
}

/* --- moves ------------------------------------------------------------------ */

/* State over the stages processed so far: the highest cost of a stage that is short, the sum of the
 * costs of those without a holder, and the spares of the set that have no place yet. */
struct state {
    double slowest, sum;
    int left;
    struct spot_ways ways;
};

struct states {
    struct state *state;
    size_t n, cap;
};

static void add(struct states *all, const struct state *from, double slowest, double sum, int left,
                const struct spot_ways *by, int v_max)
{
    const struct spot_ways w = spot_ways_times(&from->ways, by, v_max);
    bool any = false;

    for (int v = 0; v <= v_max; v++)
        any |= w.of[v] > 0;
    for (size_t i = 0; any && i < all->n; i++) {
        struct state *const s = &all->state[i];

        if (s->left != left || s->slowest != slowest ||
            fabs(s->sum - sum) > 1e-12 * fmax(fabs(sum), 1e-300))
            continue;
        for (int v = 0; v <= v_max; v++)
            s->ways.of[v] += w.of[v];
        return;
    }
    if (!any)
        return;
    all->state = spot_xgrow(all->state, &all->cap, all->n + 1, sizeof(*all->state));
    all->state[all->n++] = (struct state){ slowest, sum, left, w };
}

struct stage {
    double cost;
    int d, keep, most;
    int wiped;       /* from this number of victims on it has no holder */
    bool has_spares; /* a spare of its set survives, whatever happens to the stage */
};

/* Number of ways in which the stage loses between low and high replicas. */
static struct spot_ways ways_of(const struct stage *k, int low, int high, int v_max)
{
    return spot_ways_stage(k->d, low, spot_ways_least(high, k->most), v_max);
}

/* Extend the states by a stage that loses 0, 1, ... replicas. */
static void extend(const struct states *from, struct states *to, const struct stage *k, int v_max)
{
    for (size_t i = 0; i < from->n; i++) {
        const struct state *const s = &from->state[i];
        /* largest number of victims: without a spare, with the spares left */
        const int enough = k->d - k->keep, closed = enough + s->left;
        const int held = k->has_spares ? k->d : k->wiped - 1, low = closed > held ? closed : held;
        struct spot_ways by = ways_of(k, 0, enough, v_max);

        add(to, s, s->slowest, s->sum, s->left, &by, v_max);
        for (int n = 1; n <= s->left; n++) {
            by = ways_of(k, enough + n, enough + n, v_max);
            if (enough + n >= 0)
                add(to, s, s->slowest, s->sum, s->left - n, &by, v_max);
        }
        by = ways_of(k, closed + 1, held, v_max);
        add(to, s, fmax(s->slowest, k->cost), s->sum, s->left, &by, v_max);
        by = ways_of(k, low + 1, k->d, v_max);
        add(to, s, fmax(s->slowest, k->cost), s->sum + k->cost, s->left, &by, v_max);
    }
}

/* List the stages of set i, or the one stage that is not mirrored, costliest first; returns their
 * number. */
static int stages_of(const struct spot_warm_cover *c, const struct spot_migrate_cost *cost, int i,
                     int *stage)
{
    int n = 0;

    for (int k = 0; k < c->p; k++) {
        const double s = spot_migrate_stage_s(cost, c->p, k);
        int at = n;

        if (c->set[k] != i)
            continue;
        for (; at > 0 && spot_migrate_stage_s(cost, c->p, stage[at - 1]) < s; at--)
            stage[at] = stage[at - 1];
        stage[at] = k;
        n++;
    }
    return n;
}

/* Extend the states by some stages and the m spares that they share. */
static void extend_set(struct states *now, const struct spot_warm_cover *c,
                       const struct spot_migrate_cost *cost, const struct stage *like,
                       const int *stage, int n_stage, int m, int v_max)
{
    struct states out = { 0 };

    for (int dead = 0; dead <= m && dead <= v_max; dead++) {
        const struct spot_ways ways = spot_ways_stage(m, dead, dead, v_max);
        struct states a = { 0 }, b = { 0 };

        for (size_t i = 0; i < now->n; i++)
            add(&a, &now->state[i], now->state[i].slowest, now->state[i].sum, m - dead, &ways,
                v_max);
        for (int j = 0; j < n_stage; j++) {
            const struct states swap = a;
            const bool is_last = stage[j] == c->p - 1;
            struct stage k = *like;

            k.cost = spot_migrate_stage_s(cost, c->p, stage[j]);
            k.wiped = is_last && k.keep > 1 ? k.d - 1 : k.d;
            k.has_spares = dead < m;
            b.n = 0;
            extend(&a, &b, &k, v_max);
            a = b;
            b = swap;
        }
        for (size_t i = 0; i < a.n; i++) {
            const struct spot_ways one = { { 1 } };

            add(&out, &a.state[i], a.state[i].slowest, a.state[i].sum, 0, &one, v_max);
        }
        free(a.state);
        free(b.state);
    }
    free(now->state);
    *now = out;
}

/* Number of ways in which each of n stages of d replicas keeps a holder, sharing m spares. */
static struct spot_ways kept_ways(int d, int n_stage, int m, int v_max)
{
    const struct spot_ways any = spot_ways_stage(d, 0, d, v_max);
    const struct spot_ways some = spot_ways_stage(d, 0, d - 1, v_max);
    const struct spot_ways alive = spot_ways_stage(m, 0, m - 1, v_max);
    const struct spot_ways dead = spot_ways_stage(m, m, m, v_max);
    struct spot_ways a = spot_ways_power(&any, n_stage, v_max);
    struct spot_ways b = spot_ways_power(&some, n_stage, v_max);

    a = spot_ways_times(&a, &alive, v_max);
    b = spot_ways_times(&b, &dead, v_max);
    for (int v = 0; v <= v_max; v++)
        a.of[v] += b.of[v];
    return a;
}

void spot_warm_move(const struct spot_warm_cover *c, const struct spot_migrate_cost *cost, int d,
                    int keep, int most, int v_max, double *move, double *lost)
{
    const struct stage like = { .d = d, .keep = keep, .most = most };
    int *const stage = spot_xcalloc((size_t)c->p, sizeof(*stage));
    struct spot_ways kept = { { 1 } }, some;
    struct states now = { 0 };

    assert(v_max <= SPOT_REPARTITION_VICTIMS_MAX && keep >= 1);
    add(&now, &(struct state){ .ways = { { 1 } } }, 0, 0, 0, &(struct spot_ways){ { 1 } }, v_max);
    for (int i = 0; i < c->n_set; i++) {
        const int n = stages_of(c, cost, i, stage);

        extend_set(&now, c, cost, &like, stage, n, c->spares[i], v_max);
        some = kept_ways(d, n, c->spares[i], v_max);
        kept = spot_ways_times(&kept, &some, v_max);
    }
    for (int k = 0; k < c->p; k++)
        if (c->set[k] < 0) {
            extend_set(&now, c, cost, &like, &k, 1, 0, v_max);
            some = kept_ways(d, 1, 0, v_max);
            kept = spot_ways_times(&kept, &some, v_max);
        }
    for (int v = 0; v <= v_max; v++) {
        const double all = spot_ways_choose(d * c->p + c->n_warm, v);

        move[v] = 0;
        lost[v] = all > 0 ? 1 - kept.of[v] / all : 0;
        for (size_t i = 0; all > 0 && i < now.n; i++)
            move[v] += fmax(now.state[i].slowest, now.state[i].sum) * now.state[i].ways.of[v] / all;
    }
    free(now.state);
    free(stage);
}

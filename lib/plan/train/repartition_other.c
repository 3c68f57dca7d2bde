/* SPDX-License-Identifier: MIT */
/* The expected fetch of a repartition, by dynamic programming over new stages.
 *
 * Old stage q has r_q survivors. New stage k takes the unused survivor that lacks least: among the
 * old stages that overlap k (its window) one of the stage with the largest overlap, otherwise the
 * lowest one left. Windows of consecutive new stages share at most one old stage, so the state is:
 * the number of survivors left below the window; that of the shared stage; how many were taken from
 * above the window before it was known whether they exist (a debt that is paid by the next old
 * stages with survivors); and what the last certain choice lacked. Within a window old stages are
 * revealed one by one, and the best choice so far is part of the state: the work grows with the
 * number of stages, not with the ways to lose them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/repartition.h"

enum { WINDOW_MAX = 512 };

/* choice: 0 for none yet; else 1 + k * (P + 1) + q for new stage k and old stage q, with q = P for
 * a survivor that has nothing of k. */
struct key {
    int below, shared, debt, choice;
    int best; /* within a window: what the new stage would take so far */
};

struct state {
    struct key key;
    int low, high; /* least and largest number of victims with ways */
    double ways[]; /* [j_max + 1] ways to choose the victims, by their number */
};

/* All states of one step: a hash table without deletion. */
struct states {
    size_t n, n_slot, size;
    unsigned char *memory; /* [n_slot / 2 * size] */
    int *slot;             /* [n_slot], index + 1 */
};

static struct state *state_at(const struct states *all, size_t i)
{
    return (struct state *)(void *)(all->memory + i * all->size);
}

static void states_init(struct states *all, int j_max, size_t n_slot)
{
    all->n = 0;
    all->n_slot = n_slot;
    all->size = sizeof(struct state) + (size_t)(j_max + 1) * sizeof(double);
    all->memory = spot_xcalloc(n_slot / 2, all->size);
    all->slot = spot_xcalloc(n_slot, sizeof(*all->slot));
}

static void states_release(struct states *all)
{
    free(all->memory);
    free(all->slot);
}

/* Clear the table for the states of another step. */
static void states_clear(struct states *all)
{
    memset(all->memory, 0, all->n * all->size);
    memset(all->slot, 0, all->n_slot * sizeof(*all->slot));
    all->n = 0;
}

static bool same(const struct key *a, const struct key *b)
{
    return a->below == b->below && a->shared == b->shared && a->debt == b->debt &&
           a->choice == b->choice && a->best == b->best;
}

static size_t hash(const struct key *s, size_t n_slot)
{
    size_t h = (size_t)s->below;

    h = h * 1000003 + (size_t)s->shared;
    h = h * 1000003 + (size_t)s->debt;
    h = h * 1000003 + (size_t)s->choice;
    h = h * 1000003 + (size_t)(s->best + 2);
    return (h ^ h >> 17) & (n_slot - 1);
}

static void grow(struct states *all, int j_max)
{
    struct states bigger;

    states_init(&bigger, j_max, all->n_slot * 2);
    memcpy(bigger.memory, all->memory, all->n * all->size);
    bigger.n = all->n;
    for (size_t i = 0; i < all->n; i++) {
        size_t at = hash(&state_at(all, i)->key, bigger.n_slot);

        while (bigger.slot[at])
            at = (at + 1) & (bigger.n_slot - 1);
        bigger.slot[at] = (int)i + 1;
    }
    states_release(all);
    *all = bigger;
}

/* The state equal to `key`; created if it does not exist. */
static struct state *find(struct states *all, const struct key *key, int j_max)
{
    size_t at;

    if (all->n + 1 >= all->n_slot / 2)
        grow(all, j_max);
    at = hash(key, all->n_slot);
    while (all->slot[at]) {
        struct state *s = state_at(all, (size_t)all->slot[at] - 1);

        if (same(&s->key, key))
            return s;
        at = (at + 1) & (all->n_slot - 1);
    }
    all->slot[at] = (int)++all->n;
    state_at(all, all->n - 1)->key = *key;
    state_at(all, all->n - 1)->low = j_max + 1;
    return state_at(all, all->n - 1);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* One computation: the windows of new stages over old ones. */
struct run {
    const struct spot_migrate_cost *cost;
    int d, p, p2, j_max;
    int most;                   /* limit on the victims of a stage */
    const double *choose;       /* [d + 1] ways to lose a of d replicas */
    int k;                      /* the current new stage */
    int low, high;              /* its window of old stages */
    int next_low;               /* low of the next window */
    int revealed;               /* old stages below this have been revealed */
    double overlap[WINDOW_MAX]; /* [high - low + 1] overlap of the window's stages with k */
};

/* Window [low, high] of new stage k: the old stages that it overlaps, and earlier ones not revealed
 * yet. It is empty (low = high + 1) only before any stage is revealed. For k = P2: all stages not
 * revealed yet, to determine which survivors exist. */
static void window(const struct run *r, int k, int *low, int *high)
{
    *low = *high = -1;
    if (k == r->p2) {
        *low = r->revealed;
        *high = r->p - 1;
        return;
    }
    for (int q = 0; q < r->p; q++)
        if (spot_migrate_overlap(r->cost, r->p, q, r->p2, k) > 0) {
            *low = *low < 0 ? q : *low;
            *high = q;
        }
    if (*low < 0) { /* a stage without parameters: the next one may need the last revealed stage */
        *high = r->revealed - 1;
        *low = *high > 0 ? *high : 0;
    }
    if (*low > r->revealed)
        *low = r->revealed;
}

static int code(const struct run *r, int k, int q)
{
    return 1 + k * (r->p + 1) + q;
}

/* What stage k would take from the part of its window seen so far: an old stage, or one of these.
 */
enum { FROM_ABOVE = -1, FROM_BELOW = -2 };

static double overlap_of(const struct run *r, int best)
{
    return best >= 0 ? r->overlap[best - r->low] : best == FROM_BELOW ? 0 : -1;
}

/* Old stage q of the window has `left` survivors to choose from. What stage k takes is subtracted
 * at the end; counts are capped at one more than can ever be taken. */
static void see(const struct run *r, struct key *key, int q, int left)
{
    if (q < r->next_low)
        key->below = least(key->below + left, r->p2 + 1);
    else
        key->shared = left;
    if (r->k < r->p2 && left > 0 && r->overlap[q - r->low] > overlap_of(r, key->best))
        key->best = q;
    if (key->best != FROM_ABOVE) /* the choice is certain now and replaces the one before */
        key->choice = 0;
}

/* Stage k takes the survivor in the window that overlaps most; otherwise the lowest one left, which
 * may be in a stage of the window without overlap; otherwise one above, which may exist. Then drop
 * from the key what no later window uses. */
static struct key settled(const struct run *r, struct key key)
{
    if (r->k == r->p2) /* all stages have chosen: only the last choice still matters */
        return (struct key){ .debt = key.debt, .choice = key.choice };
    if (key.best == FROM_ABOVE)
        key.debt++;
    else
        key.choice = code(r, r->k, overlap_of(r, key.best) > 0 ? key.best : r->p);
    if (key.best >= r->next_low)
        key.shared--;
    else if (key.best != FROM_ABOVE)
        key.below--;
    key.below = least(key.below, r->p2); /* more are never taken */
    key.best = 0;
    return key;
}

/* Add to the state `key` the ways of `from`, with `used` more victims, multiplied by `scale`. */
static void add(struct states *to, int j_max, const struct state *from, const struct key *key,
                int used, double scale)
{
    struct state *s = find(to, key, j_max);
    const int low = from->low + used, high = least(from->high + used, j_max);

    for (int j = low; j <= high; j++)
        s->ways[j] += from->ways[j - used] * scale;
    if (low <= high) {
        s->low = least(s->low, low);
        s->high = s->high > high ? s->high : high;
    }
}

/* Reveal old stage q, for every number of losses. */
static void reveal(const struct run *r, const struct state *from, int q, struct states *to)
{
    for (int a = 0; a <= r->most && from->low + a <= r->j_max; a++) {
        const int alive = r->d - a, pay = least(from->key.debt, alive);
        struct key key = from->key;

        key.debt -= pay;
        if (pay) /* the earliest uncertain choices turn out to exist */
            key.choice = code(r, r->k - 1 - key.debt, r->p);
        see(r, &key, q, alive - pay);
        add(to, r->j_max, from, &key, a, r->choose[a]);
    }
}

static double fetch_of(const struct run *r, int choice)
{
    const int k = (choice - 1) / (r->p + 1), q = (choice - 1) % (r->p + 1);
    double lacks;

    if (!choice)
        return 0;
    lacks = r->cost->params[r->p2 * r->cost->p_max + k];
    if (q < r->p)
        lacks -= spot_migrate_overlap(r->cost, r->p, q, r->p2, k);
    return spot_migrate_p2p_s(&r->cost->job->cost, lacks * r->cost->job->cost.move_byte_per_param);
}

static double choose(int n, int k)
{
    double c = k < 0 || k > n ? 0 : 1;

    for (int i = 1; i <= k && c > 0; i++)
        c = c * (n - k + i) / i;
    return c;
}

/* Continue with the new states; clears the old ones. */
static void take(struct states *now, struct states *next)
{
    struct states swap = *now;

    *now = *next;
    *next = swap;
    states_clear(next);
}

/* Advance every state through new stage r->k: its window is revealed stage by stage, so that a
 * state holds the candidates, not where the losses occurred. */
static void step(struct run *r, struct states *now, struct states *next)
{
    const bool knows = r->low < r->revealed; /* the window starts with a revealed stage */

    for (size_t i = 0; i < now->n; i++) {
        const struct state *s = state_at(now, i);
        struct key key = s->key;

        key.shared = 0;
        key.best = r->k < r->p2 && key.below > 0 ? FROM_BELOW : FROM_ABOVE;
        if (knows)
            see(r, &key, r->low, s->key.shared);
        add(next, r->j_max, s, &key, 0, 1);
    }
    take(now, next);
    for (int q = knows ? r->revealed : r->low; q <= r->high; q++) {
        for (size_t i = 0; i < now->n; i++)
            reveal(r, state_at(now, i), q, next);
        take(now, next);
    }
    for (size_t i = 0; i < now->n; i++) {
        const struct state *s = state_at(now, i);
        const struct key key = settled(r, s->key);

        add(next, r->j_max, s, &key, 0, 1);
    }
    take(now, next);
}

void spot_repartition_other(const struct spot_migrate_cost *cost, int d, int p, int p2, int most,
                            int j_max, double *fetch)
{
    double *lose = spot_xcalloc((size_t)d + 1, sizeof(*lose));
    struct run r = { .cost = cost,
                     .d = d,
                     .p = p,
                     .p2 = p2,
                     .j_max = j_max,
                     .most = most < d ? most : d,
                     .choose = lose };
    struct states now, next;

    assert(j_max <= SPOT_REPARTITION_VICTIMS_MAX && p <= WINDOW_MAX);
    for (int a = 0; a <= d; a++)
        lose[a] = choose(d, a);
    states_init(&now, j_max, 64);
    states_init(&next, j_max, 64);
    find(&now, &(struct key){ 0 }, j_max)->low = 0;
    state_at(&now, 0)->ways[0] = 1;
    for (r.k = 0; r.k <= p2; r.k++) {
        int unused;

        window(&r, r.k, &r.low, &r.high);
        r.next_low = r.high + 1;
        if (r.k + 1 < p2) {
            const int revealed = r.revealed;

            r.revealed = r.high + 1;
            window(&r, r.k + 1, &r.next_low, &unused);
            r.revealed = revealed;
        }
        for (int q = r.low; r.k < p2 && q <= r.high; q++)
            r.overlap[q - r.low] = spot_migrate_overlap(cost, p, q, p2, r.k);
        step(&r, &now, &next);
        r.revealed = r.high + 1 > r.revealed ? r.high + 1 : r.revealed;
    }
    memset(fetch, 0, ((size_t)j_max + 1) * sizeof(*fetch));
    for (size_t i = 0; i < now.n; i++) {
        const struct state *s = state_at(&now, i);
        const double lacks_s = fetch_of(&r, s->key.choice);

        for (int j = s->low; j <= s->high; j++)
            fetch[j] += lacks_s * s->ways[j];
    }
    for (int j = 0; j <= j_max; j++)
        fetch[j] /= choose(d * p, j);
    states_release(&now);
    states_release(&next);
    free(lose);
}

double spot_repartition_other_drawn(const struct spot_migrate_cost *cost, int d, int p, int p2,
                                    const int *lost)
{
    struct run r = { .cost = cost, .d = d, .p = p, .p2 = p2 };
    int *left = spot_xcalloc((size_t)p, sizeof(*left)), choice = 0;
    double got;

    for (int q = 0; q < p; q++)
        left[q] = d - lost[q];
    for (int k = 0; k < p2; k++) {
        int at = -1;
        double best = -1;

        for (int q = 0; q < p; q++) {
            const double o = spot_migrate_overlap(cost, p, q, p2, k);

            if (left[q] > 0 && o > best) {
                best = o;
                at = q;
            }
        }
        if (at < 0)
            break;
        left[at]--;
        choice = code(&r, k, best > 0 ? at : p);
    }
    got = fetch_of(&r, choice);
    free(left);
    return got;
}

/* SPDX-License-Identifier: MIT */
/* The expected fetch of a repartition, by dynamic programming over new stages.
 *
 * Old stage q has r_q survivors. New stage k takes the unused survivor that lacks least: among old
 * stages that overlap k (its window) the one with the largest overlap, else the lowest one left.
 * Windows of consecutive new stages share at most one old stage, so all that matters of the past
 * is: how many survivors are left below the window (only their number), how many of the shared
 * stage, how many were taken from above before it was known whether they exist (a debt that the
 * next revealed stages pay first), and what the last certain choice lacked.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/regrid.h"

enum { WINDOW_MAX = 512 };

/* choice = 0: none yet; else 1 + k * (P + 1) + q, q = P for a survivor with nothing of k. */
struct key {
    int below, shared, debt, choice;
};

struct state {
    struct key key;
    int low, high; /* sizes that there are */
    double ways[]; /* [j_max + 1] victim sets by size */
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

static bool same(const struct key *a, const struct key *b)
{
    return a->below == b->below && a->shared == b->shared && a->debt == b->debt &&
           a->choice == b->choice;
}

static size_t hash(const struct key *s, size_t n_slot)
{
    size_t h = (size_t)s->below;

    h = h * 1000003 + (size_t)s->shared;
    h = h * 1000003 + (size_t)s->debt;
    h = h * 1000003 + (size_t)s->choice;
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

/* The state equal to `key`, made if need be. */
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

/* One run: the windows of new stages over old ones. */
struct run {
    const struct spot_migrate_cost *cost;
    int d, p, p2, j_max;
    int most;                   /* victims of a stage */
    const double *choose;       /* [d + 1] ways to lose a of d */
    int k;                      /* the new stage at work */
    int low, high;              /* its window of old stages */
    int next_low;               /* the next one's */
    int revealed;               /* old stages below this are known */
    double overlap[WINDOW_MAX]; /* [high - low + 1] of the window with k */
    struct states *to;
};

/* Window [low, high] of new stage k: the old stages it overlaps, and those before them that are
 * not known yet. Empty: low = high + 1, only before any is known. For k = P2: all that are left, to
 * learn who exists. */
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
    if (*low < 0) { /* a stage without parameters: the next may want the last known one */
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

/* Stage k takes the survivor in the window that overlaps most, else the lowest one left, which may
 * be one of the window that overlaps nothing, else one that may exist above. Returns the stage of
 * the window that it was taken from, or -1. */
static int choose_from(const struct run *r, struct key *key, int *left)
{
    double best = -1;
    int at = -1;

    for (int q = r->low; q <= r->high; q++) {
        const double o = left[q - r->low] > 0 ? r->overlap[q - r->low] : -1;

        if (o > best) {
            best = o;
            at = q;
        }
    }
    if (best <= 0 && key->below > 0) {
        key->below--;
        at = -1;
    } else if (at < 0) {
        key->debt++;
        return -1;
    } else {
        left[at - r->low]--;
    }
    key->choice = code(r, r->k, best > 0 ? at : r->p);
    return at;
}

/* Choose for stage k < P2, then forget what no later window sees. left[q - low] survivors; the
 * stages just revealed lost `used` in `scale` ways. */
static void settle(struct run *r, const struct state *from, struct key key, int *left, int used,
                   double scale)
{
    struct state *s;
    int low, high;
    const int at = r->k < r->p2 ? choose_from(r, &key, left) : -1; /* all have chosen */

    key.shared = 0;
    for (int q = r->low; q <= r->high; q++) {
        if (q < r->next_low)
            key.below += left[q - r->low];
        else
            key.shared = left[q - r->low];
    }
    if (at >= 0)
        left[at - r->low]++;
    if (key.below > r->p2) /* more are never taken */
        key.below = r->p2;
    s = find(r->to, &key, r->j_max);
    low = from->low + used;
    high = least(from->high + used, r->j_max);
    for (int j = low; j <= high; j++)
        s->ways[j] += from->ways[j - used] * scale;
    if (low <= high) {
        s->low = least(s->low, low);
        s->high = s->high > high ? s->high : high;
    }
}

/* Reveal old stages from q on, each with every number of losses. */
static void reveal(struct run *r, const struct state *from, struct key key, int *left, int q,
                   int used, double scale)
{
    if (q > r->high) {
        settle(r, from, key, left, used, scale);
        return;
    }
    for (int a = 0; a <= r->most && from->low + used + a <= r->j_max; a++) {
        const int alive = r->d - a, pay = key.debt < alive ? key.debt : alive;
        struct key next = key;

        next.debt -= pay;
        if (pay) /* the earliest doubtful choices did exist */
            next.choice = code(r, r->k - 1 - next.debt, r->p);
        left[q - r->low] = alive - pay;
        reveal(r, from, next, left, q + 1, used + a, scale * r->choose[a]);
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

/* Take every state through stage r->k. */
static void step(struct run *r, const struct states *from)
{
    int left[WINDOW_MAX];

    for (size_t i = 0; i < from->n; i++) {
        const struct state *s = state_at(from, i);

        left[0] = s->key.shared; /* where the window starts with a known stage */
        reveal(r, s, s->key, left, r->low < r->revealed ? r->revealed : r->low, 0, 1);
    }
}

void spot_regrid_other(const struct spot_migrate_cost *cost, int d, int p, int p2, int most,
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

    assert(j_max <= SPOT_REGRID_VICTIMS_MAX && p <= WINDOW_MAX);
    for (int a = 0; a <= d; a++)
        lose[a] = choose(d, a);
    states_init(&now, j_max, 64);
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
        states_init(&next, j_max, 64);
        r.to = &next;
        step(&r, &now);
        r.revealed = r.high + 1 > r.revealed ? r.high + 1 : r.revealed;
        states_release(&now);
        now = next;
    }
    for (int j = 0; j <= j_max; j++) {
        fetch[j] = 0;
        for (size_t i = 0; i < now.n; i++)
            fetch[j] += fetch_of(&r, state_at(&now, i)->key.choice) * state_at(&now, i)->ways[j];
        fetch[j] /= choose(d * p, j);
    }
    states_release(&now);
    free(lose);
}

double spot_regrid_other_drawn(const struct spot_migrate_cost *cost, int d, int p, int p2,
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

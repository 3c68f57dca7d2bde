/* SPDX-License-Identifier: MIT */
/* The expected fetch of a repartition in which ties go to the lowest instance, as in Parcae's
 * release.
 *
 * Instance i of a grid is pipeline i / P, stage i % P. A new stage examines instances in the order
 * of what they lack, equal ones by number, and takes the first that is alive. So in every old stage
 * instances are examined by pipeline, and each one examined is either dead or taken. The state is
 * therefore how far every old stage has been examined; the instances not examined may be dead in
 * every way that the number of victims allows. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/repartition.h"

/* A key holds, for each old stage, the number of instances examined and, if `most` is a limit, the
 * dead ones among these. At its end: the old stage that the previous new stage took from, if that
 * may be the last to find an instance. */
struct run {
    const struct spot_migrate_cost *cost;
    int d, p, p2, most, j_max;
    bool is_bound, may_end; /* `most` is a limit; there may be too few survivors */
    size_t size;            /* bytes of a key */
    double *out;            /* [j_max + 1] sums of seconds when all victims are known */
    double *hist;           /* the same when the other victims may be any that were not examined */
};

struct ways {
    size_t n, n_slot;
    unsigned char *key; /* [n_slot / 2 * size] */
    double *count;      /* [n_slot / 2] */
    int *slot;          /* [n_slot], index + 1 */
};

static void ways_init(struct ways *w, size_t size, size_t n_slot)
{
    *w = (struct ways){ .n_slot = n_slot };
    w->key = spot_xcalloc(n_slot / 2, size);
    w->count = spot_xcalloc(n_slot / 2, sizeof(*w->count));
    w->slot = spot_xcalloc(n_slot, sizeof(*w->slot));
}

static void ways_release(struct ways *w)
{
    free(w->key);
    free(w->count);
    free(w->slot);
}

static size_t hash(const unsigned char *key, size_t size, size_t n_slot)
{
    uint64_t h = 1469598103934665603U;

    for (size_t i = 0; i < size; i++)
        h = (h ^ key[i]) * 1099511628211U;
    return (size_t)(h ^ h >> 29) & (n_slot - 1);
}

static void add(struct ways *w, const unsigned char *key, size_t size, double count);

static void grow(struct ways *w, size_t size)
{
    struct ways bigger;

    ways_init(&bigger, size, 2 * w->n_slot);
    for (size_t i = 0; i < w->n; i++)
        add(&bigger, w->key + i * size, size, w->count[i]);
    ways_release(w);
    *w = bigger;
}

static void add(struct ways *w, const unsigned char *key, size_t size, double count)
{
    size_t at;

    if (w->n + 1 >= w->n_slot / 2)
        grow(w, size);
    at = hash(key, size, w->n_slot);
    while (w->slot[at] && memcmp(w->key + (size_t)(w->slot[at] - 1) * size, key, size) != 0)
        at = (at + 1) & (w->n_slot - 1);
    if (!w->slot[at]) {
        memcpy(w->key + w->n * size, key, size);
        w->slot[at] = (int)++w->n;
    }
    w->count[w->slot[at] - 1] += count;
}

/* The old stage whose next instance the new stage examines; -1: all are examined. */
static int next_of(const struct run *r, const unsigned char *key, const double *overlap)
{
    int best = -1;

    for (int q = 0; q < r->p; q++)
        if (key[q] < r->d && (best < 0 || overlap[q] > overlap[best] ||
                              (overlap[q] >= overlap[best] && key[q] < key[best])))
            best = q;
    return best;
}

/* Seconds that new stage k fetches if it took an instance of old stage q. */
static double fetch_s(const struct run *r, int k, int q)
{
    const struct spot_job_cost *cost = &r->cost->job->cost;
    const double lacks = k < 0 ? 0
                               : r->cost->params[r->p2 * r->cost->p_max + k] -
                                     spot_migrate_overlap(r->cost, r->p, q, r->p2, k);

    return spot_migrate_p2p_s(cost, lacks * cost->move_byte_per_param);
}

static double choose(int n, int k)
{
    double c = k < 0 || k > n ? 0 : 1;

    for (int i = 1; i <= k && c > 0; i++)
        c = c * (n - k + i) / i;
    return c;
}

/* Every new stage took an instance, and n_dead dead ones were examined: the other victims are among
 * those not examined. */
static void end(const struct run *r, const unsigned char *key, int n_dead, double seconds)
{
    double ways[SPOT_REPARTITION_VICTIMS_MAX + 1] = { seconds };

    if (!r->is_bound) {
        r->hist[n_dead] += seconds;
        return;
    }
    for (int q = 0; q < r->p; q++) {
        const int left = r->d - key[q], most = r->most - key[r->p + q];

        for (int j = r->j_max - n_dead; j > 0; j--) /* in place: from above */
            for (int a = 1; a <= j && a <= left && a <= most; a++)
                ways[j] += ways[j - a] * choose(left, a);
    }
    for (int j = n_dead; j <= r->j_max; j++)
        r->out[j] += ways[j - n_dead];
}

/* New stage k searches for an instance from the state `key`, which `count` ways lead to. */
static void take(const struct run *r, unsigned char *key, int k, const double *overlap,
                 double count, struct ways *next)
{
    int n_dead = -k, q;

    for (int i = 0; i < r->p; i++)
        n_dead += key[i];
    while ((q = next_of(r, key, overlap)) >= 0) {
        const unsigned char before = key[r->size - 1];

        key[q]++;
        if (k == r->p2 - 1) {
            end(r, key, n_dead, count * fetch_s(r, k, q));
        } else {
            key[r->size - 1] = r->may_end ? (unsigned char)q : 0;
            add(next, key, r->size, count);
            key[r->size - 1] = before;
        }
        if (++n_dead > r->j_max || (r->is_bound && ++key[r->p + q] > r->most))
            return;
    }
    if (r->may_end) /* no instance is left: the previous stage was the last */
        r->out[n_dead] += count * fetch_s(r, k - 1, key[r->size - 1]);
}

static void all_stages(const struct run *r)
{
    double *overlap = spot_xcalloc((size_t)r->p, sizeof(*overlap));
    unsigned char *key = spot_xcalloc(1, r->size);
    struct ways now, next;

    ways_init(&now, r->size, 64);
    add(&now, key, r->size, 1);
    for (int k = 0; k < r->p2; k++) {
        ways_init(&next, r->size, 64);
        for (int q = 0; q < r->p; q++)
            overlap[q] = spot_migrate_overlap(r->cost, r->p, q, r->p2, k);
        for (size_t i = 0; i < now.n; i++) {
            memcpy(key, now.key + i * r->size, r->size);
            take(r, key, k, overlap, now.count[i], &next);
        }
        ways_release(&now);
        now = next;
    }
    ways_release(&now);
    free(overlap);
    free(key);
}

void spot_repartition_by_node(const struct spot_migrate_cost *cost, int d, int p, int p2, int most,
                              int j_max, double *fetch)
{
    const int size = d * p;
    double hist[SPOT_REPARTITION_VICTIMS_MAX + 1] = { 0 };
    struct run r = { .cost = cost,
                     .d = d,
                     .p = p,
                     .p2 = p2,
                     .most = most,
                     .j_max = j_max,
                     .is_bound = most < d && most < j_max,
                     .may_end = size - j_max < p2,
                     .out = fetch,
                     .hist = hist };

    assert(j_max <= SPOT_REPARTITION_VICTIMS_MAX && j_max <= size && d <= UINT8_MAX);
    r.size = (size_t)p * (r.is_bound ? 2 : 1) + 1;
    memset(fetch, 0, ((size_t)j_max + 1) * sizeof(*fetch));
    all_stages(&r);
    for (int j = 0; j <= j_max; j++) {
        for (int b = 0; b <= j; b++)
            fetch[j] += hist[b] * choose(size - p2 - b, j - b);
        fetch[j] /= choose(size, j);
    }
}

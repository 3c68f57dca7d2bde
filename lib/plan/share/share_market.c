/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/share_round.h"

enum { TURNS_MAX = 40, SWEEPS_MAX = 6 };

struct market {
    const struct spot_share_way *way;
    const double *value;
    size_t n_way, n_job, n_type;
    const int64_t *count;
    double *price;  /* [n_type] */
    size_t *first;  /* [n_job + 1] first way of each job */
    int64_t *there; /* [n_type] unassigned workers */
    ptrdiff_t *chosen;
};

static double surplus(const struct market *m, size_t w)
{
    return m->value[w] - m->price[m->way[w].type] * (double)m->way[w].scale;
}

struct bid {
    double per_worker;
    size_t way;
};

static int by_bid(const void *a, const void *b)
{
    const struct bid *x = a, *y = b;

    if (x->per_worker < y->per_worker || x->per_worker > y->per_worker)
        return x->per_worker > y->per_worker ? -1 : 1;
    return (x->way > y->way) - (x->way < y->way);
}

/* The highest price per worker of the type that each job would pay, at the current prices of the
 * other types. Returns the number of bids. */
static size_t bid_for(const struct market *m, size_t type, struct bid *bid)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n_job; i++) {
        double elsewhere = 0;
        struct bid best = { 0, 0 };

        for (size_t w = m->first[i]; w < m->first[i + 1]; w++)
            if (m->way[w].type != type)
                elsewhere = fmax(elsewhere, surplus(m, w));
        for (size_t w = m->first[i]; w < m->first[i + 1]; w++) {
            const double per_worker = (m->value[w] - elsewhere) / (double)m->way[w].scale;

            if (m->way[w].type == type && per_worker > best.per_worker)
                best = (struct bid){ per_worker, w };
        }
        if (best.per_worker > 0)
            bid[n++] = best;
    }
    return n;
}

/* The lowest price at which demand does not exceed the workers of the type. */
static double clear(const struct market *m, struct bid *bid, size_t n, size_t type)
{
    int64_t asked = 0;

    if (n)
        qsort(bid, n, sizeof(*bid), by_bid);
    for (size_t k = 0; k < n; k++) {
        asked += m->way[bid[k].way].scale;
        if (asked > m->count[type])
            return bid[k].per_worker;
    }
    return 0;
}

static void find_prices(struct market *m)
{
    struct bid *bid = spot_xcalloc(m->n_job, sizeof(*bid));
    double moved = 1;

    for (int turn = 0; turn < TURNS_MAX && moved > 1e-6; turn++) {
        double most = 1e-300;

        moved = 0;
        for (size_t t = 0; t < m->n_type; t++) {
            const double price = clear(m, bid, bid_for(m, t, bid), t);

            moved = fmax(moved, fabs(price - m->price[t]));
            most = fmax(most, price);
            m->price[t] = price;
        }
        moved /= most;
    }
    free(bid);
}

/* --- assignment ---- */

static void take(struct market *m, size_t w)
{
    const size_t i = m->way[w].job;

    if (m->chosen[i] >= 0)
        m->there[m->way[m->chosen[i]].type] += m->way[m->chosen[i]].scale;
    m->chosen[i] = (ptrdiff_t)w;
    m->there[m->way[w].type] -= m->way[w].scale;
}

static double worth_of(const struct market *m, size_t job)
{
    return m->chosen[job] >= 0 ? m->value[m->chosen[job]] : 0;
}

/* Assign ways in the order of their gain per worker: after the price, or without a price. */
static void fill(struct market *m, struct bid *bid, bool at_price)
{
    size_t n = 0;

    for (size_t w = 0; w < m->n_way; w++) {
        const double gain = at_price ? surplus(m, w) : m->value[w];

        if (m->value[w] > 0 && (!at_price || gain >= -1e-12 * m->value[w]))
            bid[n++] = (struct bid){ gain / (double)m->way[w].scale, w };
    }
    if (n)
        qsort(bid, n, sizeof(*bid), by_bid);
    for (size_t k = 0; k < n; k++) {
        const size_t w = bid[k].way;

        if (m->chosen[m->way[w].job] < 0 && m->there[m->way[w].type] >= m->way[w].scale)
            take(m, w);
    }
}

/* Improve job i by itself: take a better way for which there are enough workers. */
static bool improve_alone(struct market *m, size_t i)
{
    bool is_better = false;

    for (size_t w = m->first[i]; w < m->first[i + 1]; w++) {
        const struct spot_share_way *way = &m->way[w];
        const struct spot_share_way *now = m->chosen[i] >= 0 ? &m->way[m->chosen[i]] : NULL;
        const int64_t there =
            m->there[way->type] + (now && now->type == way->type ? now->scale : 0);

        if (there >= way->scale && m->value[w] > worth_of(m, i) * (1 + 1e-12)) {
            take(m, w);
            is_better = true;
        }
    }
    return is_better;
}

/* The best way of `job` with the unassigned workers and `more` workers of type `type`. */
static double best_in(const struct market *m, size_t job, size_t type, int64_t more,
                      ptrdiff_t *best)
{
    double most = 0;

    *best = SPOT_SHARE_NO_WAY;
    for (size_t w = m->first[job]; w < m->first[job + 1]; w++) {
        const struct spot_share_way *way = &m->way[w];

        if (m->there[way->type] + (way->type == type ? more : 0) >= way->scale &&
            m->value[w] > most) {
            most = m->value[w];
            *best = (ptrdiff_t)w;
        }
    }
    return most;
}

static void drop(struct market *m, size_t i)
{
    if (m->chosen[i] < 0)
        return;
    m->there[m->way[m->chosen[i]].type] += m->way[m->chosen[i]].scale;
    m->chosen[i] = SPOT_SHARE_NO_WAY;
}

/* Give job its way w in place of the way of `other`, which takes the best that is left for it. True
 * if the sum improves. */
static bool improve_by_swap(struct market *m, size_t w, size_t other)
{
    const size_t i = m->way[w].job;
    const ptrdiff_t was = m->chosen[i], others = m->chosen[other];
    const double before = worth_of(m, i) + worth_of(m, other);
    ptrdiff_t next;

    drop(m, i);
    drop(m, other);
    if (m->there[m->way[w].type] >= m->way[w].scale) {
        take(m, w);
        if (m->value[w] + best_in(m, other, SIZE_MAX, 0, &next) > before * (1 + 1e-9)) {
            if (next >= 0)
                take(m, (size_t)next);
            return true;
        }
        drop(m, i);
    }
    if (was >= 0)
        take(m, (size_t)was);
    if (others >= 0)
        take(m, (size_t)others);
    return false;
}

/* Improve by exchanges; only ways that are nearly worth their price can be part of a better choice.
 */
static void improve(struct market *m)
{
    const bool is_small = m->n_job <= 256;
    bool is_better = true;

    for (int sweep = 0; sweep < SWEEPS_MAX && is_better; sweep++) {
        is_better = false;
        for (size_t i = 0; i < m->n_job; i++)
            is_better |= improve_alone(m, i);
        for (size_t w = 0; is_small && w < m->n_way; w++) {
            if (m->chosen[m->way[w].job] == (ptrdiff_t)w || surplus(m, w) < -0.3 * m->value[w])
                continue;
            for (size_t other = 0; other < m->n_job; other++)
                if (other != m->way[w].job && m->chosen[other] >= 0 &&
                    m->way[m->chosen[other]].type == m->way[w].type &&
                    improve_by_swap(m, w, other)) {
                    is_better = true;
                    break;
                }
        }
    }
}

/* --- small markets: exhaustive search with bounds --- */

struct search {
    struct market *m;
    /* [n_job + 1] rest: upper bound of the value of jobs from here on, at the prices */
    double best, *rest;
    ptrdiff_t *best_way;
    size_t nodes;
};

enum { NODES_MAX = 20000 };

static void search(struct search *s, size_t i, double worth)
{
    struct market *m = s->m;
    double bound = worth + s->rest[i];

    for (size_t t = 0; t < m->n_type; t++)
        bound += m->price[t] * (double)m->there[t];
    if (++s->nodes > NODES_MAX || bound <= s->best * (1 + 1e-12))
        return;
    if (i == m->n_job) {
        if (worth <= s->best) /* the bound includes unassigned workers */
            return;
        s->best = worth;
        memcpy(s->best_way, m->chosen, m->n_job * sizeof(*m->chosen));
        return;
    }
    for (size_t w = m->first[i]; w < m->first[i + 1]; w++)
        if (m->value[w] > 0 && m->there[m->way[w].type] >= m->way[w].scale) {
            take(m, w);
            search(s, i + 1, worth + m->value[w]);
            drop(m, i);
        }
    search(s, i + 1, worth);
}

static void search_small(struct market *m)
{
    struct search s = { .m = m,
                        .rest = spot_xcalloc(m->n_job + 1, sizeof(double)),
                        .best_way = spot_xcalloc(m->n_job, sizeof(ptrdiff_t)) };

    for (size_t i = m->n_job; i-- > 0;) {
        double most = 0;

        for (size_t w = m->first[i]; w < m->first[i + 1]; w++)
            most = fmax(most, surplus(m, w));
        s.rest[i] = s.rest[i + 1] + most;
        s.best += worth_of(m, i);
    }
    memcpy(s.best_way, m->chosen, m->n_job * sizeof(*m->chosen));
    for (size_t i = 0; i < m->n_job; i++)
        drop(m, i);
    search(&s, 0, 0);
    for (size_t i = 0; i < m->n_job; i++)
        if (s.best_way[i] >= 0)
            take(m, (size_t)s.best_way[i]);
    free(s.rest);
    free(s.best_way);
}

static void sum_up(const struct market *m, struct spot_share_choice *choice)
{
    choice->worth = choice->bound = 0;
    for (size_t t = 0; t < m->n_type; t++)
        choice->bound += m->price[t] * (double)m->count[t];
    for (size_t i = 0; i < m->n_job; i++) {
        double most = 0;

        for (size_t w = m->first[i]; w < m->first[i + 1]; w++)
            most = fmax(most, surplus(m, w));
        choice->bound += most;
        choice->worth += worth_of(m, i);
    }
}

void spot_share_market(const struct spot_share_way *way, size_t n_way, size_t n_job,
                       const int64_t *count, size_t n_type, struct spot_share_choice *choice)
{
    struct market m = { .way = way,
                        .value = choice->value,
                        .n_way = n_way,
                        .n_job = n_job,
                        .n_type = n_type,
                        .count = count,
                        .price = choice->price,
                        .first = spot_xcalloc(n_job + 1, sizeof(size_t)),
                        .there = spot_xcalloc(n_type, sizeof(int64_t)),
                        .chosen = choice->way };
    struct bid *bid = spot_xcalloc(n_way, sizeof(*bid));

    for (size_t w = 0; w < n_way; w++)
        m.first[way[w].job + 1] = w + 1;
    for (size_t i = 1; i <= n_job; i++)
        if (m.first[i] < m.first[i - 1])
            m.first[i] = m.first[i - 1];
    memcpy(m.there, count, n_type * sizeof(*count));
    for (size_t i = 0; i < n_job; i++)
        m.chosen[i] = SPOT_SHARE_NO_WAY;
    find_prices(&m);
    fill(&m, bid, true);
    fill(&m, bid, false);
    improve(&m);
    if (n_job <= 64)
        search_small(&m);
    sum_up(&m, choice);
    free(bid);
    free(m.first);
    free(m.there);
}

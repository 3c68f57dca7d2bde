/* SPDX-License-Identifier: MIT */
/* The order of moves with which serving restarts soonest.
 *
 * A pass that begins at time t needs layer l at t + l * layer_s, so it can begin at max(end - l *
 * layer_s) over the moves. With one receiver, sending the layers in order is optimal (Jackson's
 * rule). Links shared by several moves, and memory that is only free once something else has left,
 * may require another order. With few parts every order is tried. Otherwise the orders by layer, by
 * size (a small part that needs two free links at once may wait for many large ones) and by memory
 * are tried; then, starting from the best, the move that decides the restart is brought forward
 * while that helps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/migration/migration_inner.h"

enum { ALL_ORDERS = 6, PLAYS = 3000, WORK = 100000000 };

struct item {
    size_t part;
    double due_s;
    int64_t byte;
};

struct score {
    double over_byte; /* bytes above the memory cap */
    double restart_s, in_order_s;
};

struct search {
    const struct spot_migration *s;
    struct spot_migration_plan *plan;
    struct item *item; /* [n] parts that move, in the order being tried */
    size_t n;
    int64_t *rank; /* [n_part] */
    struct item *best;
    struct score least;
    double bound_s; /* lower bound of the restart for any order */
    long left;      /* orders that may still be tried */
};

/* How long after its begin a pass needs the part; the embedding and the first layer are needed at
 * once. */
static double due_s(const struct spot_migration *s, size_t part)
{
    const struct spot_reshard_part *p = &s->r->part[part];
    int64_t first = INT64_MAX;

    for (size_t k = 0; k < p->n_piece; k++)
        first = p->piece[k].first < first ? p->piece[k].first : first;
    return p->n_piece && first > 0 ? (double)(first - 1) * s->problem->layer_s : 0;
}

/* When the first pass can begin, given the plan's times. */
static double restart_of(const struct spot_migration *s, const struct spot_migration_plan *plan)
{
    double at = 0;

    for (size_t k = 0; k < plan->n_move; k++)
        at = fmax(at, plan->move[k].end_s - due_s(s, plan->move[k].part));
    return at;
}

static bool is_less(const struct score *a, const struct score *b)
{
    if (a->over_byte < b->over_byte || a->over_byte > b->over_byte)
        return a->over_byte < b->over_byte;
    if (a->restart_s < b->restart_s || a->restart_s > b->restart_s)
        return a->restart_s < b->restart_s;
    return a->in_order_s < b->in_order_s;
}

/* Compute the times of the current order. True if it is the best so far. */
static bool play(struct search *x)
{
    struct score now;

    for (size_t k = 0; k < x->n; k++)
        x->rank[x->item[k].part] = (int64_t)k;
    spot_migration_schedule(x->s, x->plan, x->rank);
    now.over_byte = fmax(0, spot_migration_peak(x->s, x->plan) - x->s->problem->memory_cap_byte);
    now.restart_s = restart_of(x->s, x->plan);
    now.in_order_s = x->plan->in_order_s;
    x->left--;
    if (!is_less(&now, &x->least))
        return false;
    x->least = now;
    memcpy(x->best, x->item, x->n * sizeof *x->item);
    return true;
}

static void swap(struct item *a, struct item *b)
{
    const struct item was = *a;

    *a = *b;
    *b = was;
}

/* Try every order of item[from..n). */
static void play_all(struct search *x, size_t from)
{
    if (from + 1 >= x->n) {
        play(x);
        return;
    }
    for (size_t k = from; k < x->n; k++) {
        swap(&x->item[from], &x->item[k]);
        play_all(x, from + 1);
        swap(&x->item[from], &x->item[k]);
    }
}

/* Move item[k] to place `to` and shift those between by one. */
static void shift(struct item *item, size_t k, size_t to)
{
    const struct item it = item[k];

    if (to < k)
        memmove(item + to + 1, item + to, (k - to) * sizeof *item);
    else
        memmove(item + k, item + k + 1, (to - k) * sizeof *item);
    item[to] = it;
}

/* The item for which the pass waits, in the order tried last. */
static size_t deciding_item(const struct search *x)
{
    size_t part = x->item[0].part, k = 0;
    double most = -INFINITY;

    for (size_t i = 0; i < x->plan->n_move; i++) {
        const struct spot_migration_move *m = &x->plan->move[i];

        if (m->end_s - due_s(x->s, m->part) > most)
            most = m->end_s - due_s(x->s, m->part), part = m->part;
    }
    while (x->item[k].part != part)
        k++;
    return k;
}

/* From the best order: move the deciding item to another place, or an item before it to behind it.
 * True if that is better. */
static bool improve(struct search *x)
{
    size_t k;

    memcpy(x->item, x->best, x->n * sizeof *x->item);
    play(x);
    k = deciding_item(x);
    for (size_t to = 0; to < x->n && x->left > 0; to++) {
        if (to == k)
            continue;
        shift(x->item, k, to);
        if (play(x))
            return true;
        shift(x->item, to, k);
        if (to > k)
            continue;
        shift(x->item, to, k);
        if (play(x))
            return true;
        shift(x->item, k, to);
    }
    return false;
}

static int by_due(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->due_s != y->due_s)
        return x->due_s < y->due_s ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

static int by_size(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->byte != y->byte)
        return x->byte < y->byte ? -1 : 1;
    return by_due(a, b);
}

static void list_items(struct search *x)
{
    bool *is_in = spot_xcalloc(x->s->r->n_part, sizeof *is_in);

    x->item = spot_xcalloc(x->plan->n_move, sizeof *x->item);
    x->best = spot_xcalloc(x->plan->n_move, sizeof *x->best);
    for (size_t k = 0; k < x->plan->n_move; k++) {
        const size_t part = x->plan->move[k].part;

        if (!is_in[part])
            x->item[x->n++] = (struct item){ part, due_s(x->s, part), x->s->r->part[part].byte };
        is_in[part] = true;
    }
    free(is_in);
    qsort(x->item, x->n, sizeof *x->item, by_due);
}

/* Try the order by memory; if there is no cap it is that of the parts. */
static void play_by_memory(struct search *x)
{
    int64_t *rank = spot_xcalloc(x->s->r->n_part, sizeof *rank);

    spot_migration_rank(x->s, x->plan, rank);
    for (size_t i = 1; i < x->n; i++) /* insertion sort: few items, nearly in order */
        for (size_t k = i; k && rank[x->item[k].part] < rank[x->item[k - 1].part]; k--)
            swap(&x->item[k], &x->item[k - 1]);
    play(x);
    free(rank);
}

/* A lower bound of the restart: for each due time, the bytes due by then over the links that they
 * use. No order of these moves is sooner. The items must still be sorted by due time. */
static double bound(const struct search *x)
{
    const int n_node = x->s->n_node;
    double *busy = spot_xcalloc(2 * (size_t)n_node, sizeof *busy), least = 0;

    for (size_t k = 0; k < x->n; k++) {
        for (size_t i = 0; i < x->plan->n_move; i++) {
            const struct spot_migration_move *m = &x->plan->move[i];
            const double byte = (double)(m->end - m->begin);
            const bool is_shared = x->s->taken_s;

            if (m->part != x->item[k].part)
                continue;
            busy[m->to] += byte / x->s->in[m->to];
            busy[(is_shared ? 0 : n_node) + m->from] += byte / x->s->out[m->from];
        }
        for (int i = 0; i < 2 * n_node; i++)
            least = fmax(least, busy[i] - x->item[k].due_s);
    }
    free(busy);
    return least;
}

/* True if the order meets the bound and the memory cap. */
static bool is_proved(const struct search *x)
{
    return x->least.over_byte <= 0 && x->least.restart_s <= x->bound_s * (1 + 1e-12);
}

void spot_migration_order_restart(const struct spot_migration *s, struct spot_migration_plan *plan)
{
    struct search x = { .s = s,
                        .plan = plan,
                        .rank = spot_xcalloc(s->r->n_part, sizeof *x.rank),
                        .least = { INFINITY, INFINITY, INFINITY } };
    const double work = (double)plan->n_move * (double)plan->n_move + 1;

    list_items(&x);
    x.bound_s = bound(&x);
    x.left = work * PLAYS > WORK ? (long)(WORK / work) : PLAYS;
    if (x.n && x.n <= ALL_ORDERS) {
        play_all(&x, 0);
        plan->is_every_order = true;
    } else if (x.n) {
        play(&x);
        qsort(x.item, x.n, sizeof *x.item, by_size);
        play(&x);
        if (isfinite(s->problem->memory_cap_byte))
            play_by_memory(&x);
        while (x.left > 0 && !is_proved(&x) && improve(&x))
            ;
    }
    if (x.n) {
        memcpy(x.item, x.best, x.n * sizeof *x.item);
        play(&x);
        plan->restart_s = x.least.restart_s;
        plan->restart_bound_s = x.bound_s;
    }
    free(x.item), free(x.best), free(x.rank);
}

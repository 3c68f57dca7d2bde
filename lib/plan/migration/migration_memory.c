/* SPDX-License-Identifier: MIT */
/* Memory while state moves: parts may arrive before others can be freed. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/migration/migration_inner.h"

/* The changes of memory caused by a part: it is added where it is fetched, and removed where it is
 * no longer needed. */
struct change {
    int node;
    int64_t byte;
};

static int list_changes(const struct spot_migration *s, const struct spot_migration_plan *plan,
                        size_t k, struct change *change)
{
    const struct spot_reshard_part *part = &s->r->part[k];
    const int set = s->set_of[k];
    int n = 0;

    for (int h = s->set_begin[set]; h < s->set_begin[set + 1]; h++)
        change[n++] = (struct change){ s->set_node[h], -part->byte };
    for (int w = 0; w < part->n_want; w++) {
        const int node = plan->node_of_position[part->want[w]];
        int c = 0;

        while (c < n && change[c].node != node)
            c++;
        if (c == n)
            change[n++] = (struct change){ node, part->byte };
        else if (change[c].byte < 0)
            change[c].byte = 0; /* the part stays there */
    }
    return n;
}

/* Repeatedly take the first part that keeps every node under the cap, else the one that exceeds it
 * least (the rule of SpotServe, with bytes instead of layers). rank[k] is the place of part k. */
void spot_migration_rank(const struct spot_migration *s, const struct spot_migration_plan *plan,
                         int64_t *rank)
{
    const size_t n_part = s->r->n_part;
    struct change *change = spot_xcalloc((size_t)s->n_node + (size_t)s->r->n_new, sizeof *change);
    double *extra = spot_xcalloc((size_t)s->n_node, sizeof *extra);
    bool *is_taken = spot_xcalloc(n_part, sizeof(bool));

    for (size_t turn = 0; turn < n_part; turn++) {
        double least = INFINITY;
        size_t best = 0;
        int n;

        for (size_t k = 0; k < n_part; k++) {
            double most = 0;

            if (is_taken[k])
                continue;
            n = list_changes(s, plan, k, change);
            for (int c = 0; c < n; c++)
                most = fmax(most, extra[change[c].node] + (double)change[c].byte);
            if (most < least)
                least = most, best = k;
            if (most <= s->problem->memory_cap_byte)
                break;
        }
        is_taken[best] = true;
        rank[best] = (int64_t)turn;
        n = list_changes(s, plan, best, change);
        for (int c = 0; c < n; c++)
            extra[change[c].node] += (double)change[c].byte;
    }
    free(change), free(extra), free(is_taken);
}

/* --- the peak of an order --- */

/* A change of the bytes that a node holds. Memory is taken when a transfer begins; a part that the
 * node need not keep is freed when the last transfer that reads it there has ended. */
struct event {
    double at_s, byte;
    int node;
    size_t part;
};

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return (x->byte > y->byte) - (x->byte < y->byte); /* what is freed comes first */
}

/* By node and part, the latest reading last. */
static int by_reader(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    if (x->node != y->node)
        return x->node - y->node;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

/* The last reading of each (node, part), [n] readings; returns the number of pairs. */
static size_t list_readings(const struct spot_migration_plan *plan, struct event *last)
{
    size_t n = 0;

    for (size_t k = 0; k < plan->n_move; k++)
        last[k] = (struct event){ plan->move[k].end_s, 0, plan->move[k].from, plan->move[k].part };
    qsort(last, plan->n_move, sizeof *last, by_reader);
    for (size_t k = 0; k < plan->n_move; k++)
        if (k + 1 == plan->n_move || last[k].node != last[k + 1].node ||
            last[k].part != last[k + 1].part)
            last[n++] = last[k];
    return n;
}

static double last_reading(const struct event *last, size_t n, int node, size_t part)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (last[mid].node < node || (last[mid].node == node && last[mid].part < part))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && last[lo].node == node && last[lo].part == part ? last[lo].at_s : 0;
}

double spot_migration_peak(const struct spot_migration *s, const struct spot_migration_plan *plan)
{
    struct change *change = spot_xcalloc((size_t)s->n_node + (size_t)s->r->n_new, sizeof *change);
    struct event *last = spot_xcalloc(plan->n_move, sizeof *last), *event = NULL;
    double *now = spot_xcalloc(2 * (size_t)s->n_node, sizeof *now), *most = now + s->n_node;
    const size_t n_last = list_readings(plan, last);
    size_t n_event = 0, cap = 0;
    double peak = 0;

    for (size_t k = 0; k < s->r->n_part; k++) {
        const int set = s->set_of[k], n = list_changes(s, plan, k, change);
        const int n_holder = spot_set_size(s, set);

        for (int c = 0; c < n; c++) {
            const int node = change[c].node;
            const double byte = (double)s->r->part[k].byte;

            now[node] += c < n_holder ? byte : 0;
            /* parts that are new, for now */
            most[node] += c >= n_holder || !change[c].byte ? byte : 0;
            if (change[c].byte >= 0)
                continue;
            event = spot_xgrow(event, &cap, n_event + 1, sizeof *event);
            event[n_event++] =
                (struct event){ last_reading(last, n_last, node, k), -byte, node, k };
        }
    }
    for (int i = 0; i < s->n_node; i++)
        most[i] = fmax(most[i], now[i]);
    for (size_t k = 0; k < plan->n_move; k++) {
        const struct spot_migration_move *m = &plan->move[k];

        event = spot_xgrow(event, &cap, n_event + 1, sizeof *event);
        event[n_event++] =
            (struct event){ m->begin_s, (double)(m->end - m->begin), m->to, m->part };
    }
    if (n_event)
        qsort(event, n_event, sizeof *event, by_time);
    for (size_t k = 0; k < n_event; k++) {
        now[event[k].node] += event[k].byte;
        peak = fmax(peak, now[event[k].node] - most[event[k].node]);
    }
    free(change), free(last), free(event), free(now);
    return peak;
}

/* SPDX-License-Identifier: MIT */
#include "plan/migration/evacuation.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

struct search {
    struct spot_evacuation *s;
    int *order, n;              /* groups with a value, densest first */
    struct spot_demand *demand; /* [n_set] bytes to send, for the flow */
    /* [n_node] without link limits: only what can leave in time counts */
    double *no_rate;
    bool *is_in;           /* [n_group] groups chosen in the current branch */
    int64_t flow_all;      /* an upper bound of the bytes that any choice sends */
    long n_flow, flow_max; /* effort spent, and its limit */
    bool is_cut_short;
};

static const int64_t *bytes_of(const struct spot_evacuation *s, int group)
{
    return s->byte + (size_t)group * (size_t)s->n_set;
}

static double total_of(const struct spot_evacuation *s, int group)
{
    double total = 0;

    for (int k = 0; k < s->n_set; k++)
        total += (double)bytes_of(s, group)[k];
    return total;
}

static void load(struct search *w, int group, int sign)
{
    for (int k = 0; k < w->s->n_set; k++)
        w->demand[k].byte += sign * bytes_of(w->s, group)[k];
}

/* Bytes of the demands that can leave in time and, with is_received, can also be received. */
static int64_t flow_of(struct search *w, bool is_received)
{
    struct spot_transport transport = { .n_node = w->s->n_node,
                                        .n_demand = w->s->n_set,
                                        .out_byte_per_s = w->no_rate,
                                        .limit_byte = w->s->limit_byte,
                                        .in = w->s->in,
                                        .n_in = w->s->n_in,
                                        .out = w->s->out,
                                        .n_out = w->s->n_out,
                                        .out_gate = w->s->out_gate,
                                        .demand = w->demand,
                                        .time_s = 1 };

    w->n_flow++;
    for (int k = 0; k < w->s->n_set; k++)
        w->demand[k].gate = is_received ? w->s->set[k].gate : 0;
    return spot_transport_most(&transport);
}

static bool fits(struct search *w)
{
    int64_t total = 0;

    for (int k = 0; k < w->s->n_set; k++)
        total += w->demand[k].byte;
    return flow_of(w, true) == total;
}

/* An upper bound on what groups order[at..n) can add: as if they could be cut. The demands hold the
 * groups already chosen. */
static double relax(struct search *w, int at)
{
    const struct spot_evacuation *s = w->s;
    int64_t *before = spot_xcalloc((size_t)s->n_set, sizeof *before), sent = 0;
    double value = 0;

    for (int k = 0; k < s->n_set; k++) {
        before[k] = w->demand[k].byte;
        sent += before[k];
    }
    for (int i = at; i < w->n && sent < w->flow_all; i++) {
        const int g = w->order[i];
        int64_t now;

        load(w, g, 1);
        now = flow_of(w, false);
        value += s->value[g] * ((double)(now - sent) / total_of(s, g));
        sent = now;
    }
    for (int k = 0; k < s->n_set; k++)
        w->demand[k].byte = before[k];
    free(before);
    return value;
}

static bool is_twin(const struct spot_evacuation *s, int a, int b)
{
    return s->value[a] == s->value[b] &&
           !memcmp(bytes_of(s, a), bytes_of(s, b), (size_t)s->n_set * sizeof(int64_t));
}

/* Decide groups order[at..n); the groups chosen so far are worth `value`. Equal groups are taken in
 * order. */
static void branch(struct search *w, int at, double value)
{
    struct spot_evacuation *s = w->s;
    int next = at + 1;

    if (value > s->saved) {
        s->saved = value;
        memcpy(s->is_saved, w->is_in, (size_t)s->n_group * sizeof(bool));
    }
    if (at == w->n)
        return;
    if (w->n_flow >= w->flow_max) {
        w->is_cut_short = true;
        return;
    }
    if (value + relax(w, at) <= s->saved * (1 + 1e-12))
        return;
    load(w, w->order[at], 1);
    if (fits(w)) {
        w->is_in[w->order[at]] = true;
        branch(w, at + 1, value + s->value[w->order[at]]);
        w->is_in[w->order[at]] = false;
    }
    load(w, w->order[at], -1);
    while (next < w->n && is_twin(s, w->order[at], w->order[next]))
        next++;
    branch(w, next, value);
}

struct dense {
    double density, byte;
    int group;
};

static int by_density(const void *a, const void *b)
{
    const struct dense *x = a, *y = b;

    if (x->density != y->density)
        return x->density < y->density ? 1 : -1;
    if (x->byte != y->byte)
        return x->byte < y->byte ? 1 : -1;
    return (x->group > y->group) - (x->group < y->group);
}

/* Sort the groups with bytes: first those with a value, then those without, larger ones first. A
 * group without bytes counts as saved. */
static int sort_groups(struct search *w, struct dense *dense)
{
    struct spot_evacuation *s = w->s;
    int n = 0;

    for (int g = 0; g < s->n_group; g++) {
        const double byte = total_of(s, g);

        s->is_saved[g] = w->is_in[g] = byte == 0;
        if (byte == 0)
            s->saved += s->value[g];
        else
            dense[n++] = (struct dense){ s->value[g] / byte, byte, g };
    }
    qsort(dense, (size_t)n, sizeof *dense, by_density);
    for (int i = 0; i < n; i++) {
        w->order[i] = dense[i].group;
        w->n += dense[i].density > 0;
    }
    return n;
}

/* For each of order[from..to) in turn: add it if it is not saved yet and still fits. */
static void add_greedily(struct search *w, int from, int to)
{
    struct spot_evacuation *s = w->s;

    for (int g = 0; g < s->n_group; g++)
        if (s->is_saved[g])
            load(w, g, 1);
    for (int i = from; i < to; i++) {
        const int g = w->order[i];

        if (s->is_saved[g])
            continue;
        load(w, g, 1);
        s->is_saved[g] = fits(w);
        s->saved += s->is_saved[g] ? s->value[g] : 0;
        load(w, g, s->is_saved[g] ? 0 : -1);
    }
    for (int k = 0; k < s->n_set; k++)
        w->demand[k].byte = 0;
}

/* Try the best single group: greedy by density can miss one that is large and valuable. */
static void try_singles(struct search *w, double free_value)
{
    struct spot_evacuation *s = w->s;

    for (int i = 0; i < w->n; i++) {
        const int g = w->order[i];

        if (free_value + s->value[g] <= s->saved)
            continue;
        load(w, g, 1);
        if (fits(w)) {
            s->saved = free_value + s->value[g];
            memcpy(s->is_saved, w->is_in, (size_t)s->n_group * sizeof(bool));
            s->is_saved[g] = true;
        }
        load(w, g, -1);
    }
}

static void choose(struct search *w, int n)
{
    struct spot_evacuation *s = w->s;
    const double free_value = s->saved;

    for (int i = 0; i < w->n; i++)
        load(w, w->order[i], 1);
    w->flow_all = flow_of(w, false);
    for (int i = 0; i < w->n; i++)
        load(w, w->order[i], -1);
    s->bound = free_value + relax(w, 0);
    add_greedily(w, 0, w->n);
    try_singles(w, free_value);
    w->flow_max = w->n <= SPOT_EVACUATION_EXACT ? LONG_MAX : w->n_flow + SPOT_EVACUATION_FLOWS;
    branch(w, 0, free_value);
    s->is_exact = !w->is_cut_short;
    add_greedily(w, 0, n);
    s->bound = s->is_exact ? s->saved : fmax(s->bound, s->saved);
}

void spot_evacuation(struct spot_evacuation *s)
{
    const size_t n_group = (size_t)s->n_group;
    struct search w = { .s = s };
    struct dense *dense = spot_xcalloc(n_group, sizeof *dense);

    w.order = spot_xcalloc(n_group, sizeof(int));
    w.is_in = spot_xcalloc(n_group, sizeof(bool));
    w.demand = spot_xcalloc((size_t)s->n_set, sizeof *w.demand);
    w.no_rate = spot_xcalloc((size_t)s->n_node, sizeof *w.no_rate);
    for (int k = 0; k < s->n_set; k++)
        w.demand[k] =
            (struct spot_demand){ .holder = s->set[k].holder, .n_holder = s->set[k].n_holder };
    for (int i = 0; i < s->n_node; i++)
        w.no_rate[i] = INFINITY;
    s->saved = 0;
    choose(&w, sort_groups(&w, dense));
    free(dense), free(w.order), free(w.is_in), free(w.demand), free(w.no_rate);
}

/* SPDX-License-Identifier: MIT */
/* How many bytes links can carry until the deadlines of leaving nodes: for each sender, for all
 * receivers together and, with a given placement, for each receiver. Bytes held by a node with
 * deadline d must arrive by d. */
#include <math.h>
#include <stdlib.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "plan/migration/migration_inner.h"

int spot_migration_set(int64_t *x, int n)
{
    int n_set = 0;

    if (n)
        qsort(x, (size_t)n, sizeof *x, spot_num_compare_int64);
    for (int i = 0; i < n; i++)
        if (!i || x[i] != x[n_set - 1])
            x[n_set++] = x[i];
    return n_set;
}

int spot_migration_find(const int64_t *set, int n, int64_t x)
{
    const int64_t *hit = bsearch(&x, set, (size_t)n, sizeof *set, spot_num_compare_int64);

    return (int)(hit - set);
}

/* The distinct deadlines, ascending. */
static void list_deadlines(struct spot_migration_gates *g, const struct spot_migration *s)
{
    int n = 0;

    g->deadline_s = spot_xcalloc((size_t)s->n_node, sizeof(double));
    for (int i = 0; i < s->n_node; i++)
        if (isfinite(s->limit[i]))
            g->deadline_s[n++] = s->deadline_s[i];
    qsort(g->deadline_s, (size_t)n, sizeof(double), spot_num_compare);
    for (int i = 0; i < n; i++)
        if (!i || g->deadline_s[i] != g->deadline_s[g->n_deadline - 1])
            g->deadline_s[g->n_deadline++] = g->deadline_s[i];
}

static int rank_of(const struct spot_migration_gates *g, double deadline_s)
{
    int r = 0;

    while (g->deadline_s[r] < deadline_s)
        r++;
    return r;
}

static void list_out(struct spot_migration_gates *g, const struct spot_migration *s)
{
    double in_byte_per_s = 0;

    g->out = spot_xcalloc((size_t)g->n_deadline, sizeof *g->out);
    g->out_gate = spot_xcalloc((size_t)s->n_node, sizeof(int));
    for (int i = 0; i < s->n_node; i++) {
        in_byte_per_s += s->can_place[i] ? s->in[i] : 0;
        if (isfinite(s->limit[i]))
            g->out_gate[i] = rank_of(g, s->deadline_s[i]) + 1;
    }
    for (int r = 0; r < g->n_deadline; r++)
        g->out[r] = (struct spot_gate){ in_byte_per_s * g->deadline_s[r],
                                        r + 1 < g->n_deadline ? r + 2 : 0 };
}

/* Receiver and deadline of an exclusive part as one number, -1 if no node needs the part. The first
 * node that needs it receives it, as in spot_migration_score; its holders leave and need nothing.
 */
static int64_t key_of(const struct spot_migration_gates *g, size_t part)
{
    const struct spot_migration *s = g->s;
    const struct spot_reshard_part *p = &s->r->part[part];
    const int set = s->set_of[part];
    double last_s = 0;

    if (!p->n_want)
        return -1;
    for (int h = s->set_begin[set]; h < s->set_begin[set + 1]; h++)
        last_s = fmax(last_s, s->deadline_s[s->set_node[h]]);
    return (int64_t)g->node_of_position[p->want[0]] * g->n_deadline + rank_of(g, last_s);
}

/* List the gates of receivers that are used: the bytes of one deadline also pass the gate of the
 * receiver's next deadline. */
static void list_in(struct spot_migration_gates *g, const struct spot_migration *s)
{
    int n = 0;

    g->key = spot_xcalloc(s->r->n_part, sizeof *g->key);
    for (size_t k = 0; k < s->r->n_part; k++)
        if (s->is_exclusive[k] && (g->key[n] = key_of(g, k)) >= 0)
            n++;
    g->n_in = spot_migration_set(g->key, n);
    g->in = spot_xcalloc((size_t)g->n_in, sizeof *g->in);
    for (int i = 0; i < g->n_in; i++) {
        const int64_t node = g->key[i] / g->n_deadline;
        const bool has_next = i + 1 < g->n_in && g->key[i + 1] / g->n_deadline == node;

        g->in[i] = (struct spot_gate){ s->in[node] * g->deadline_s[g->key[i] % g->n_deadline],
                                       has_next ? i + 2 : 0 };
    }
}

void spot_migration_gates_init(struct spot_migration_gates *g, const struct spot_migration *s,
                               const int *node_of_position)
{
    *g = (struct spot_migration_gates){ .s = s, .node_of_position = node_of_position };
    list_deadlines(g, s);
    list_out(g, s);
    if (node_of_position)
        list_in(g, s);
}

void spot_migration_gates_release(struct spot_migration_gates *g)
{
    free(g->deadline_s), free(g->out), free(g->out_gate), free(g->key), free(g->in);
}

int spot_migration_gate_of(const struct spot_migration_gates *g, size_t part)
{
    const int64_t key = g->n_in ? key_of(g, part) : -1;

    return key < 0 ? 0 : spot_migration_find(g->key, g->n_in, key) + 1;
}

bool spot_migration_all_fits(const struct spot_migration *s, const int *node_of_position)
{
    double *no_rate = spot_xcalloc((size_t)s->n_node, sizeof *no_rate);
    struct spot_demand *demand = spot_xcalloc(s->r->n_part, sizeof *demand);
    struct spot_transport transport = { .n_node = s->n_node,
                                        .out_byte_per_s = no_rate,
                                        .limit_byte = s->limit,
                                        .demand = demand,
                                        .time_s = 1 };
    struct spot_migration_gates gates;
    int64_t total = 0;
    bool is_fit;

    spot_migration_gates_init(&gates, s, node_of_position);
    transport.in = gates.in, transport.n_in = gates.n_in;
    transport.out = gates.out, transport.n_out = gates.n_deadline,
    transport.out_gate = gates.out_gate;
    for (int i = 0; i < s->n_node; i++)
        no_rate[i] = INFINITY;
    for (size_t k = 0; k < s->r->n_part; k++) {
        const int set = s->set_of[k];

        if (!s->is_exclusive[k] || s->is_out[k])
            continue;
        demand[transport.n_demand++] =
            (struct spot_demand){ .byte = s->r->part[k].byte,
                                  .gate = spot_migration_gate_of(&gates, k),
                                  .holder = s->set_node + s->set_begin[set],
                                  .n_holder = spot_set_size(s, set) };
        total += s->r->part[k].byte;
    }
    is_fit = !total || spot_transport_most(&transport) == total;
    spot_migration_gates_release(&gates);
    free(no_rate), free(demand);
    return is_fit;
}

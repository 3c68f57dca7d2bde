/* SPDX-License-Identifier: MIT */
/* The cost of a placement: what each node must fetch, the minimum time, and the price. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/migration/migration_inner.h"

/* Limits on effort where parts are sent whole. With more wants than FEW_WANTS, placements are
 * compared by a lower bound of the time, which is usually reached; senders are chosen for the best
 * placement only. */
enum { FEW_WANTS = 24, STEPS = 4000, STEPS_AT_THE_END = 20000, LOOKS = 1000000 };

static void open_demand(struct spot_migration *s, int group)
{
    const int source = group / s->n_zone, zone = group % s->n_zone;
    struct spot_demand *demand;

    s->demand = spot_xgrow(s->demand, &s->demand_cap, (size_t)s->n_demand + 1, sizeof *s->demand);
    demand = &s->demand[s->n_demand];
    *demand = (struct spot_demand){ 0 };
    if (source < s->n_set) {
        demand->holder = s->set_node + s->set_begin[source];
        demand->n_holder = spot_set_size(s, source);
    } else {
        demand->holder = s->self + (source - s->n_set);
        demand->n_holder = 1;
    }
    s->touched[s->n_touched++] = group;
    s->group_of[group] = s->n_demand++;
    if (!s->price)
        return;
    s->price_of = spot_xgrow(s->price_of, &s->price_cap, s->n_price + (size_t)demand->n_holder,
                             sizeof *s->price_of);
    for (int h = 0; h < demand->n_holder; h++)
        s->price_of[s->n_price++] = s->price[s->zone[demand->holder[h]] * s->n_zone + zone];
}

static void add_want(struct spot_migration *s, size_t part, int to, int source)
{
    const int group = source * s->n_zone + s->zone[to];
    const int64_t byte = s->r->part[part].byte;

    if (s->group_of[group] < 0)
        open_demand(s, group);
    s->demand[s->group_of[group]].byte += byte;
    s->in_byte[to] += byte;
    if (!s->keep_wants)
        return;
    s->want = spot_xgrow(s->want, &s->want_cap, s->n_want + 1, sizeof *s->want);
    s->want[s->n_want++] = (struct spot_want){ part, to, s->group_of[group] };
}

static void list_part(struct spot_migration *s, size_t k, const int *node_of_position)
{
    const struct spot_reshard_part *part = &s->r->part[k];
    const int set = s->set_of[k];
    int first = -1;

    s->n_stamp++;
    for (int h = s->set_begin[set]; h < s->set_begin[set + 1]; h++)
        s->stamp[s->set_node[h]] = s->n_stamp;
    for (int w = 0; w < part->n_want; w++) {
        const int to = node_of_position[part->want[w]];

        if (s->stamp[to] == s->n_stamp)
            continue;
        s->stamp[to] = s->n_stamp;
        add_want(s, k, to, first >= 0 ? s->n_set + first : set);
        if (spot_migration_is_relayed(s, k) && first < 0)
            /* the leaving node sends one copy; the node that receives it serves the others */
            first = to;
    }
}

static void reset(struct spot_migration *s)
{
    for (int k = 0; k < s->n_touched; k++)
        s->group_of[s->touched[k]] = -1;
    s->n_touched = s->n_demand = 0;
    s->n_price = s->n_want = 0;
    memset(s->in_byte, 0, (size_t)s->n_node * sizeof *s->in_byte);
}

/* --- incremental scoring --- */

/* begin[] has one extra entry, so that filling moves each entry to its final value. */
static void list_position_parts(const struct spot_migration *s, struct spot_migration_steps *steps)
{
    const struct spot_reshard_part *part = s->r->part;
    const int n = s->r->n_new;

    steps->begin = spot_xcalloc((size_t)n + 2, sizeof(int));
    for (size_t k = 0; k < s->r->n_part; k++)
        for (int w = 0; w < part[k].n_want && !s->is_out[k]; w++)
            steps->begin[part[k].want[w] + 2]++;
    for (int q = 0; q < n; q++)
        steps->begin[q + 2] += steps->begin[q + 1];
    steps->part = spot_xcalloc((size_t)steps->begin[n + 1], sizeof *steps->part);
    for (size_t k = 0; k < s->r->n_part; k++)
        for (int w = 0; w < part[k].n_want && !s->is_out[k]; w++)
            steps->part[steps->begin[part[k].want[w] + 1]++] = k;
}

static void list_holders(const struct spot_migration *s, struct spot_migration_steps *steps)
{
    steps->n_word = ((size_t)s->n_node + 63) / 64;
    steps->holds = spot_xcalloc((size_t)s->n_set * steps->n_word, sizeof *steps->holds);
    for (int set = 0; set < s->n_set; set++)
        for (int h = s->set_begin[set]; h < s->set_begin[set + 1]; h++)
            steps->holds[(size_t)set * steps->n_word + (size_t)s->set_node[h] / 64] |=
                UINT64_C(1) << (s->set_node[h] % 64);
}

/* Only possible if positions are independent: one for each node, and no copy is relayed to others.
 */
void spot_migration_steps_begin(struct spot_migration *s)
{
    bool is_apart = s->is_single && !s->problem->is_whole;

    for (size_t k = 0; k < s->r->n_part; k++)
        is_apart = is_apart && (!s->is_exclusive[k] || s->is_out[k]);
    s->keep_wants = s->problem->is_whole;
    if (!is_apart)
        return;
    s->steps = spot_xcalloc(1, sizeof *s->steps);
    list_position_parts(s, s->steps);
    list_holders(s, s->steps);
    s->steps->last = spot_xcalloc((size_t)s->r->n_new + 1, sizeof(int));
    s->steps->last[0] = -1;
}

void spot_migration_steps_end(struct spot_migration *s)
{
    if (!s->steps)
        return;
    free(s->steps->begin), free(s->steps->part), free(s->steps->holds), free(s->steps->last);
    free(s->steps);
    s->steps = NULL;
}

/* Add (sign 1) or remove (-1) the parts that a node would have to fetch for a position. */
static void add_position(struct spot_migration *s, int q, int to, int sign)
{
    const struct spot_migration_steps *steps = s->steps;

    for (int i = steps->begin[q]; i < steps->begin[q + 1]; i++) {
        const int set = s->set_of[steps->part[i]], group = set * s->n_zone + s->zone[to];
        const int64_t byte = sign * s->r->part[steps->part[i]].byte;

        if (steps->holds[(size_t)set * steps->n_word + (size_t)to / 64] >> (to % 64) & 1)
            continue;
        if (s->group_of[group] < 0)
            open_demand(s, group);
        s->demand[s->group_of[group]].byte += byte;
        s->in_byte[to] += byte;
    }
}

/* Update the demands from the last placement scored. False if there is none, or too much differs.
 */
static bool step_from_last(struct spot_migration *s, const int *node_of_position)
{
    const int n = s->r->n_new;
    int *last = s->steps ? s->steps->last : NULL, n_other = 0;

    if (!last || !n || last[0] < 0)
        return false;
    for (int q = 0; q < n; q++)
        n_other += last[q] != node_of_position[q];
    if (n_other > n / 4)
        return false;
    for (int q = 0; q < n; q++) {
        if (last[q] == node_of_position[q])
            continue;
        add_position(s, q, last[q], -1);
        add_position(s, q, node_of_position[q], 1);
        last[q] = node_of_position[q];
    }
    return true;
}

/* List everything that nodes must fetch, as demands. */
static void list_demands(struct spot_migration *s, const int *node_of_position)
{
    if (step_from_last(s, node_of_position))
        return;
    reset(s);
    for (size_t k = 0; k < s->r->n_part; k++)
        if (!s->is_out[k])
            list_part(s, k, node_of_position);
    if (s->steps)
        memcpy(s->steps->last, node_of_position, (size_t)s->r->n_new * sizeof(int));
}

void spot_migration_transport(struct spot_migration *s, struct spot_transport *transport)
{
    size_t at = 0;

    *transport = (struct spot_transport){ .n_node = s->n_node,
                                          .n_demand = s->n_demand,
                                          .out_byte_per_s = s->out,
                                          .taken_s = s->taken_s,
                                          .limit_byte = s->limit,
                                          .demand = s->demand };
    for (int k = 0; k < s->n_demand && s->price; k++) {
        s->demand[k].cost = s->price_of + at;
        at += (size_t)s->demand[k].n_holder;
    }
    for (int i = 0; i < s->n_node; i++) {
        const double in_s = (double)s->in_byte[i] / s->in[i];

        transport->floor_s = fmax(transport->floor_s, in_s);
        if (s->taken_s)
            s->taken_s[i] = in_s;
    }
}

/* Remember the senders that determined the time of the placement just scored: they may determine
 * that of the next one too. */
static void remember_cut(struct spot_migration *s)
{
    const int c = s->n_cut % SPOT_MIGRATION_CUTS;
    const uint64_t bit = UINT64_C(1) << c;
    double rate = 0;
    bool is_any = false;

    s->n_stamp++;
    for (int k = 0; k < s->n_demand; k++)
        for (int h = 0; h < s->demand[k].n_holder && s->demand[k].in_cut; h++) {
            const int node = s->demand[k].holder[h];

            rate += s->stamp[node] == s->n_stamp ? 0 : s->out[node];
            s->stamp[node] = s->n_stamp;
            is_any = true;
        }
    if (!is_any)
        return;
    for (int source = 0; source < s->n_set + s->n_node; source++) {
        bool is_in = source < s->n_set || s->stamp[source - s->n_set] == s->n_stamp;

        for (int h = 0; source < s->n_set && h < spot_set_size(s, source); h++)
            is_in = is_in && s->stamp[s->set_node[s->set_begin[source] + h]] == s->n_stamp;
        s->cuts_of[source] = is_in ? s->cuts_of[source] | bit : s->cuts_of[source] & ~bit;
    }
    s->cut_rate[c] = rate;
    s->n_cut++;
}

/* A lower bound of the time: what only the senders of a remembered set hold must leave through
 * their links. Limits of leaving nodes could only add to it. */
static double time_of_known_cuts(const struct spot_migration *s)
{
    double byte[SPOT_MIGRATION_CUTS] = { 0 }, most_s = 0;

    for (int k = 0; k < s->n_demand; k++)
        for (uint64_t set = s->cuts_of[s->touched[k] / s->n_zone]; set; set &= set - 1)
            byte[__builtin_ctzll(set)] += (double)s->demand[k].byte;
    for (int c = 0; c < s->n_cut && c < SPOT_MIGRATION_CUTS; c++)
        most_s = fmax(most_s, byte[c] / s->cut_rate[c]);
    return most_s;
}

/* Find the least time, or any time beyond give_up_s. */
static void find_time(struct spot_migration *s, struct spot_transport *transport, double give_up_s)
{
    const double known_s = time_of_known_cuts(s);

    transport->floor_s = transport->time_s = fmax(transport->floor_s, known_s);
    transport->give_up_s = give_up_s * (1 + 2 * SPOT_PLACE_EPSILON);
    if (transport->floor_s > transport->give_up_s)
        return;
    spot_transport_time(transport);
    remember_cut(s);
}

double spot_migration_choose_senders(struct spot_migration *s, double target_s, bool is_last)
{
    const int n = (int)s->n_want;
    struct spot_sources sources = { .n_job = n,
                                    .n_node = s->n_node,
                                    .out_byte_per_s = s->out,
                                    .limit_byte = s->limit,
                                    .target_s = target_s * (1 + SPOT_PLACE_EPSILON),
                                    .look_max = LOOKS,
                                    .step_max = is_last ? STEPS_AT_THE_END : STEPS };

    s->job = spot_xgrow(s->job, &s->job_cap, s->n_want, sizeof *s->job);
    sources.job = s->job;
    for (int w = 0; w < n; w++) {
        const struct spot_demand *demand = &s->demand[s->want[w].demand];

        s->job[w] = (struct spot_source_job){ s->r->part[s->want[w].part].byte, demand->holder,
                                              demand->n_holder, -1 };
    }
    spot_sources_choose(&sources);
    return sources.busiest_s;
}

struct spot_place_score spot_migration_score(void *user, const int *node_of_position,
                                             double give_up_s)
{
    struct spot_migration *s = user;
    struct spot_place_score score = { 0 };
    struct spot_transport transport;
    double receive_s;

    list_demands(s, node_of_position);
    spot_migration_transport(s, &transport);
    for (int i = 0; i < s->n_node; i++) {
        score.byte += s->in_byte[i];
        score.n_touched += s->in_byte[i] > 0;
    }
    receive_s = transport.floor_s;
    find_time(s, &transport, give_up_s);
    score.makespan_s = transport.time_s;
    if (s->problem->is_whole && s->n_want <= FEW_WANTS &&
        !(transport.time_s > give_up_s * (1 + SPOT_PLACE_EPSILON)))
        score.makespan_s =
            fmax(receive_s, spot_migration_choose_senders(s, transport.time_s, false));
    if (s->price && isfinite(transport.time_s) &&
        transport.time_s <= give_up_s * (1 + SPOT_PLACE_EPSILON)) {
        spot_transport_split(&transport);
        score.usd = transport.cost / SPOT_EGRESS_UNIT / 1e9;
    }
    return score;
}

/* The holders of the deciding demands, except a receiver that relays. */
static bool find_senders(struct spot_migration *s, bool *is_in)
{
    struct spot_transport transport;
    bool is_any = false;

    spot_migration_transport(s, &transport);
    transport.floor_s = 0;
    spot_transport_time(&transport);
    for (int k = 0; k < s->n_demand; k++)
        if (s->demand[k].in_cut && s->touched[k] / s->n_zone < s->n_set)
            for (int h = 0; h < s->demand[k].n_holder; h++)
                is_any = is_in[s->demand[k].holder[h]] = true;
    return is_any;
}

bool spot_migration_cut(void *user, struct spot_place_cut *cut)
{
    struct spot_migration *s = user;
    const size_t n_node = (size_t)s->n_node;
    bool *is_in = spot_xcalloc(n_node, sizeof(bool));
    const bool is_any = find_senders(s, is_in);

    memset(cut->byte, 0, (size_t)s->r->n_new * n_node * sizeof *cut->byte);
    cut->fixed_byte = 0;
    cut->rate_byte_per_s = 0;
    for (size_t i = 0; i < n_node; i++)
        cut->rate_byte_per_s += is_in[i] ? s->out[i] : 0;
    for (size_t k = 0; k < s->r->n_part && is_any; k++) {
        const struct spot_reshard_part *part = &s->r->part[k];
        const int *holder = s->set_node + s->set_begin[s->set_of[k]];
        const int n_holder = spot_set_size(s, s->set_of[k]);
        bool is_theirs = !s->is_out[k] && part->n_want;

        for (int h = 0; h < n_holder; h++)
            is_theirs = is_theirs && is_in[holder[h]];
        if (is_theirs && spot_migration_is_relayed(s, k)) /* sent once, to the first receiver */
            cut->fixed_byte += part->byte;
        for (int w = 0; w < part->n_want && is_theirs && !spot_migration_is_relayed(s, k); w++) {
            int64_t *row = cut->byte + (size_t)part->want[w] * n_node;

            for (size_t i = 0; i < n_node; i++)
                row[i] += part->byte;
            for (int h = 0; h < n_holder; h++)
                row[holder[h]] -= part->byte;
        }
    }
    free(is_in);
    return is_any;
}

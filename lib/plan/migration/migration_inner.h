/* SPDX-License-Identifier: MIT */
/* migration_inner.h - shared by the files behind migration.h. */
#ifndef SPOT_PLAN_MIGRATION_MIGRATION_INNER_H
#define SPOT_PLAN_MIGRATION_MIGRATION_INNER_H

#include "plan/migration.h"
#include "plan/migration/place.h"
#include "plan/migration/sources.h"
#include "plan/migration/transport_flow.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Egress prices are integers, millionths of a dollar per 10^9 bytes. */
#define SPOT_EGRESS_UNIT 1e6

/* Sender sets remembered in a state, as bits of a word. */
enum { SPOT_MIGRATION_CUTS = 64 };

/* One part that a node must fetch. */
struct spot_want {
    size_t part;
    int to, demand; /* node; group of demands that contains it */
};

/* Reused between scores while placements are searched, as successive placements differ in few
 * positions. */
struct spot_migration_steps {
    int *begin;      /* [n_new + 1] of a position's parts */
    size_t *part;    /* parts that are wanted and moved */
    uint64_t *holds; /* [n_set * n_word] nodes of each set */
    size_t n_word;
    int *last; /* [n_new] the placement scored last; -1 before the first */
};

struct spot_migration {
    const struct spot_migration_problem *problem;
    const struct spot_reshard *r; /* of the problem */
    int n_node;
    double *out, *in;   /* [n_node] */
    double *taken_s;    /* [n_node] time to receive, if links are shared; else NULL */
    double *limit;      /* [n_node] bytes that it can send before it leaves; INFINITY: it stays */
    double *deadline_s; /* [n_node] of those with a limit */
    uint8_t *can_place; /* [n_node] */
    int64_t *slots;     /* [n_node] */
    bool is_single;     /* no node takes more than one position */

    int n_zone, *zone; /* [n_node] */
    int64_t *price;    /* [n_zone * n_zone], NULL: all free */

    /* Nodes that hold a part now; parts with equal lists share a set. */
    int *set_of;                      /* [n_part] */
    int n_set, *set_begin, *set_node; /* set s: set_node[set_begin[s]..set_begin[s + 1]) */
    bool *is_out;                     /* [n_part] not moved: lost, or recomputed */
    bool *is_exclusive;               /* [n_part] only nodes with a deadline hold it */

    /* State of the last placement scored. A group is (set or relaying node, zone of the receiver).
     */
    int *stamp, n_stamp;     /* [n_node] */
    int64_t *in_byte;        /* [n_node] */
    int *group_of;           /* [(n_set + n_node) * n_zone] index into demand, -1 */
    int *touched, n_touched; /* groups in use */
    struct spot_demand *demand;
    int64_t *price_of; /* costs of demand[..].holder, one after another */
    size_t n_price, price_cap;
    int n_demand;
    size_t demand_cap;
    struct spot_want *want; /* filled if keep_wants */
    size_t n_want, want_cap;
    bool keep_wants;
    struct spot_source_job *job; /* [n_want] if parts are not split: sender of each wanted part */
    size_t job_cap;
    int *self; /* [n_node] 0, 1, 2...: the holder list of a relaying node */

    /* The latest sender sets that determined the time of placements; see migration_score.c. */
    /* [n_set + n_node] those that contain all holders of a set, or a relaying node */
    uint64_t *cuts_of;
    double cut_rate[SPOT_MIGRATION_CUTS]; /* bytes per second that all senders of a cut can send */
    int n_cut;                            /* found so far */
    struct spot_migration_steps *steps;   /* NULL: placements are scored from scratch */
};

int spot_migration_init(struct spot_migration *s, const struct spot_migration_problem *problem,
                        struct spot_err *err);
void spot_migration_release(struct spot_migration *s);

static inline int spot_set_size(const struct spot_migration *s, int set)
{
    return s->set_begin[set + 1] - s->set_begin[set];
}

/* True if one copy is sent to the first node that wants it, which forwards it to the others. */
static inline bool spot_migration_is_relayed(const struct spot_migration *s, size_t part)
{
    return s->is_exclusive[part] && !s->problem->is_whole;
}

/* If parts are not split: choose a sender for each wanted part (s->job), such that the busiest
 * finishes earliest, at the time returned; target_s: a lower bound. */
double spot_migration_choose_senders(struct spot_migration *s, double target_s, bool is_last);

/* spot_place_fn */
struct spot_place_score spot_migration_score(void *user, const int *node_of_position,
                                             double give_up_s);

/* Between this call and `end` is_out must not change, and wants are not recorded. */
void spot_migration_steps_begin(struct spot_migration *s);
void spot_migration_steps_end(struct spot_migration *s);

/* spot_place_cut_fn */
bool spot_migration_cut(void *user, struct spot_place_cut *cut);

/* Fill a spot_transport with the demands of the last placement scored. */
void spot_migration_transport(struct spot_migration *s, struct spot_transport *transport);

/* Bytes that links can carry in time, for spot_transport; see migration_gate.c. */
struct spot_migration_gates {
    const struct spot_migration *s;
    const int *node_of_position; /* borrowed */
    double *deadline_s;          /* [n_deadline] */
    int n_deadline, n_in;
    struct spot_gate *out, *in; /* [n_deadline], [n_in] */
    int64_t *key;               /* [n_in] ascending: receiver * n_deadline + deadline */
    int *out_gate;              /* [n_node] */
};

/* Sort numbers and drop duplicates; returns how many remain. _find: the index of a number in the
 * result. */
int spot_migration_set(int64_t *x, int n);
int spot_migration_find(const int64_t *set, int n, int64_t x);

/* node_of_position NULL: the receivers' links are pooled, for any placement. */
void spot_migration_gates_init(struct spot_migration_gates *g, const struct spot_migration *s,
                               const int *node_of_position);
void spot_migration_gates_release(struct spot_migration_gates *g);

/* The gate of `in` through which an exclusive part is received, index + 1; 0 without placement. */
int spot_migration_gate_of(const struct spot_migration_gates *g, size_t part);

/* True if all parts that only leaving nodes hold can be sent and received in time; if not, a choice
 * is needed. node_of_position as above. */
bool spot_migration_all_fits(const struct spot_migration *s, const int *node_of_position);

/* Choose the parts that are not moved: fills is_out and the plan's losses. Can be called again
 * after caches were given up, to save more in the freed time. node_of_position as above. */
void spot_migration_evacuate(struct spot_migration *s, struct spot_migration_plan *plan,
                             const int *node_of_position);

/* Split the demands of the plan's placement into moves, order them, time them. */
void spot_migration_order(struct spot_migration *s, struct spot_migration_plan *plan);

/* Order the parts so that no node exceeds the cap, if possible: rank[k] is the position of part
 * k. */
void spot_migration_rank(const struct spot_migration *s, const struct spot_migration_plan *plan,
                         int64_t *rank);

/* Sort the moves by the rank of their parts, urgent ones first, and time them. */
void spot_migration_schedule(const struct spot_migration *s, struct spot_migration_plan *plan,
                             const int64_t *rank);

/* Order and time the moves so that serving restarts soonest; see migration_restart.c. */
void spot_migration_order_restart(const struct spot_migration *s, struct spot_migration_plan *plan);

/* The most memory that a node holds beyond max(old, new), with the plan's times. */
double spot_migration_peak(const struct spot_migration *s, const struct spot_migration_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_MIGRATION_INNER_H */

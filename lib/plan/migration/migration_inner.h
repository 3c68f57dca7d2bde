/* SPDX-License-Identifier: MIT */
/* migration_inner.h - what the files behind migration.h share. */
#ifndef SPOT_PLAN_MIGRATION_MIGRATION_INNER_H
#define SPOT_PLAN_MIGRATION_MIGRATION_INNER_H

#include "plan/migration.h"
#include "plan/migration/place.h"
#include "plan/migration/sources.h"
#include "plan/migration/transport_flow.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Egress prices are integers in a millionth of a dollar for 10^9 bytes. */
#define SPOT_EGRESS_UNIT 1e6

/* Sets of senders that a state remembers, as bits of a word. */
enum { SPOT_MIGRATION_CUTS = 64 };

/* One part that a node must fetch. */
struct spot_want {
    size_t part;
    int to, demand; /* node; group of demands that it belongs to */
};

/* While placements are searched: what of one score serves the next, of a placement that differs in
 * few positions. */
struct spot_migration_steps {
    int *begin;      /* [n_new + 1] of a position's parts */
    size_t *part;    /* those that are wanted and moved */
    uint64_t *holds; /* [n_set * n_word] nodes of each set */
    size_t n_word;
    int *last; /* [n_new] the placement scored last; -1 before the first */
};

struct spot_migration {
    const struct spot_migration_problem *problem;
    const struct spot_reshard *r; /* the problem's */
    int n_node;
    double *out, *in;   /* [n_node] */
    double *taken_s;    /* [n_node] to receive, where links are shared; else NULL */
    double *limit;      /* [n_node] what it can send before it is gone; INFINITY: it stays */
    double *deadline_s; /* [n_node] of those with a limit */
    uint8_t *can_place; /* [n_node] */
    int64_t *slots;     /* [n_node] */
    bool is_single;     /* no node takes more than one position */

    int n_zone, *zone; /* [n_node] */
    int64_t *price;    /* [n_zone * n_zone], NULL: all free */

    /* Nodes that hold a part now; parts with equal lists share a set. */
    int *set_of;                      /* [n_part] */
    int n_set, *set_begin, *set_node; /* set s: set_node[set_begin[s]..set_begin[s + 1]) */
    bool *is_out;                     /* [n_part] not moved: lost, or computed again */
    bool *is_exclusive;               /* [n_part] only nodes with a deadline hold it */

    /* Of the placement scored last. A group is (set or relaying node, zone of the receiver). */
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
    struct spot_source_job *job; /* [n_want] where parts go whole: who sends what is wanted */
    size_t job_cap;
    int *self; /* [n_node] 0, 1, 2...: the holder list of a relaying node */

    /* Sets of senders that decided how long placements took, the latest; see migration_score.c. */
    uint64_t *cuts_of; /* [n_set + n_node] in which all holders of a set, or a relaying node, are */
    double cut_rate[SPOT_MIGRATION_CUTS]; /* bytes per second of all of them, out */
    int n_cut;                            /* found so far */
    struct spot_migration_steps *steps;   /* NULL: placements are scored afresh */
};

int spot_migration_init(struct spot_migration *s, const struct spot_migration_problem *problem,
                        struct spot_err *err);
void spot_migration_release(struct spot_migration *s);

static inline int spot_set_size(const struct spot_migration *s, int set)
{
    return s->set_begin[set + 1] - s->set_begin[set];
}

/* One copy is sent to the first node that wants it, which serves the others. */
static inline bool spot_migration_is_relayed(const struct spot_migration *s, size_t part)
{
    return s->is_exclusive[part] && !s->problem->is_whole;
}

/* Where parts go whole: a sender for each that is wanted (s->job), so that the busiest is done
 * first, in the time returned; target_s: none can be done sooner. */
double spot_migration_choose_senders(struct spot_migration *s, double target_s, bool is_last);

/* spot_place_fn */
struct spot_place_score spot_migration_score(void *user, const int *node_of_position,
                                             double give_up_s);

/* From here to `end` is_out stays as it is, and wants are not kept. */
void spot_migration_steps_begin(struct spot_migration *s);
void spot_migration_steps_end(struct spot_migration *s);

/* spot_place_cut_fn */
bool spot_migration_cut(void *user, struct spot_place_cut *cut);

/* Leave a spot_transport for the demands of the placement scored last. */
void spot_migration_transport(struct spot_migration *s, struct spot_transport *transport);

/* What links carry in time, for spot_transport; see migration_gate.c. */
struct spot_migration_gates {
    const struct spot_migration *s;
    const int *node_of_position; /* borrowed */
    double *deadline_s;          /* [n_deadline] */
    int n_deadline, n_in;
    struct spot_gate *out, *in; /* [n_deadline], [n_in] */
    int64_t *key;               /* [n_in] ascending: receiver * n_deadline + deadline */
    int *out_gate;              /* [n_node] */
};

/* Numbers to a set, ascending, each once: returns how many. Where one that is in it lies. */
int spot_migration_set(int64_t *x, int n);
int spot_migration_find(const int64_t *set, int n, int64_t x);

/* node_of_position NULL: the receivers' links count together, for any placement. */
void spot_migration_gates_init(struct spot_migration_gates *g, const struct spot_migration *s,
                               const int *node_of_position);
void spot_migration_gates_release(struct spot_migration_gates *g);

/* The gate of `in` through which an exclusive part is received, index + 1; 0 without placement. */
int spot_migration_gate_of(const struct spot_migration_gates *g, size_t part);

/* Whether what only leaving nodes hold gets out, and in, in time; if not, something must be chosen.
 * node_of_position as above. */
bool spot_migration_all_fits(const struct spot_migration *s, const int *node_of_position);

/* Decide what is not moved: fills is_out and the plan's losses. Can be called again when caches
 * were given up; what they leave room for is then saved. node_of_position as above. */
void spot_migration_evacuate(struct spot_migration *s, struct spot_migration_plan *plan,
                             const int *node_of_position);

/* Split the demands of the plan's placement into moves, order them, time them. */
void spot_migration_order(struct spot_migration *s, struct spot_migration_plan *plan);

/* Order the parts so that no node grows beyond the cap where that is possible: rank[k] is the
 * place of part k. */
void spot_migration_rank(const struct spot_migration *s, const struct spot_migration_plan *plan,
                         int64_t *rank);

/* Sort the moves by the rank of their parts, what is urgent first, and time them. */
void spot_migration_schedule(const struct spot_migration *s, struct spot_migration_plan *plan,
                             const int64_t *rank);

/* Order and time the moves so that serving restarts soonest; see migration_restart.c. */
void spot_migration_order_restart(const struct spot_migration *s, struct spot_migration_plan *plan);

/* The most that a node holds beyond the larger of old and new, with the plan's times. */
double spot_migration_peak(const struct spot_migration *s, const struct spot_migration_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_MIGRATION_INNER_H */

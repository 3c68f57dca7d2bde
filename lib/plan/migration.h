/* SPDX-License-Identifier: MIT */
/* migration.h - the moves from one layout to another on a cluster. Objectives in order: never lose
 * the last copy of anything that can be saved, then time, price, bytes, and few nodes touched.
 *
 * A problem is made from two layout documents, or from what the members of a running job hold;
 * spot_migrate solves both.
 *
 * docs/design/07-moves.md has the objective, the bounds, and which parts are exact and which are
 * searched.
 */
#ifndef SPOT_PLAN_MIGRATION_H
#define SPOT_PLAN_MIGRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/cluster_doc.h"
#include "model/layout_doc.h"
#include "plan/reshard.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_migration_problem {
    struct spot_reshard reshard; /* parts, their old positions and the new ones that need them */
    int *node_of_old;            /* [reshard.n_old] node of the cluster, -1: gone or too old */
    int *place;                  /* [reshard.n_new] node of each position; NULL: to be searched */
    int together; /* positions of the target that form one position of reshard: they share a node */
    const struct spot_cluster *cluster; /* borrowed */
    double deadline_s;      /* for leaving nodes without a deadline of their own; INFINITY: none */
    double memory_cap_byte; /* limit of what a node holds beyond max(old, new); INFINITY: no cap */
    long effort;            /* maximum placements scored in one search; 0: by the number of nodes */
    /* a part is sent by one node that holds it now, whatever the price; parts that cannot be sent
     * before their holders leave are sent anyway */
    bool is_whole;
    /* a link either sends or receives: its time is the sum of both. Not with is_whole */
    bool shares_links;
    bool restarts;  /* moves are cut at layers, and ordered so that serving restarts soonest: */
    double layer_s; /* time of a pass per layer */
    bool is_late;   /* answer, for whole parts: deadlines had to be ignored */
};

/* The state of a running job. */
struct spot_migration_bundles {
    int n_node, n_position, n_bundle;
    const int64_t *byte;  /* [n_bundle] */
    const uint8_t *holds; /* [n_node * n_bundle], 1 if the node has a current copy */
    const uint8_t *needs; /* [n_position * n_bundle], 1 if the position needs it */
};

/* Without deadline and cap. Places of `to` are kept. Tensor groups are whole and links shared if
 * the cluster says so; `together` is then the largest number of ranks that divides M and fits into
 * the slots of a node. Returns 0, or -1 with *err: SPOT_EDATA for incompatible layouts, a place on
 * a node that the cluster lacks, a tensor group that `to` splits. */
int spot_migration_of_layouts(struct spot_migration_problem *problem,
                              const struct spot_layout *from, const struct spot_layout *to,
                              const struct spot_cluster *cluster, struct spot_err *err);
/* Part k is bundle k, not split. Nodes are those of the cluster, whose names are ignored. */
void spot_migration_of_bundles(struct spot_migration_problem *problem,
                               const struct spot_migration_bundles *bundles,
                               const struct spot_cluster *cluster);
void spot_migration_problem_release(struct spot_migration_problem *problem);

/* Bytes [begin, end) of a part, its pieces concatenated. */
struct spot_migration_move {
    size_t part;
    int64_t begin, end;
    int from, to;          /* nodes of the cluster */
    bool is_urgent;        /* no staying node has the part */
    bool is_relayed;       /* sent by the node that received it first */
    double begin_s, end_s; /* one transfer at a time in each direction of each link */
};

enum spot_migration_fate { SPOT_FATE_CHECKPOINT, SPOT_FATE_RECOMPUTE };

/* State that must be recovered together, since a part of it is useless: a cache; a bundle, which is
 * read whole from durable storage; or all state if work is rolled back, since all of it belongs to
 * one step. */
enum spot_migration_kind { SPOT_KIND_STATE, SPOT_KIND_BUNDLES, SPOT_KIND_CACHE };

struct spot_migration_group {
    enum spot_migration_kind kind;
    int64_t first, last; /* bundles, of SPOT_KIND_BUNDLES: adjacent ones are reported together */
    int kv;              /* of SPOT_KIND_CACHE */
    int64_t byte;        /* without a source in time */
    double recovery_s;   /* NAN: not given by the cluster document */
};

/* State that no transfer delivers. */
struct spot_migration_loss {
    size_t part;
    enum spot_migration_fate fate;
    bool is_chosen;    /* because recomputing is faster than moving */
    int group;         /* in group[]; -1 if chosen */
    double recovery_s; /* of the group */
};

struct spot_migration_plan {
    int *node_of_position; /* [n_position] of the target: index into the cluster's nodes */
    int n_position;        /* reshard.n_new x together */
    struct spot_migration_move *move; /* [n_move] in the order in which they should start */
    size_t n_move;
    struct spot_migration_loss *loss; /* [n_loss] */
    size_t n_loss;
    struct spot_migration_group *group; /* [n_group] groups of the losses */
    size_t n_group;
    /* sum over groups; lower bound over all choices; NAN: unknown */
    double recovery_s, recovery_bound_s;
    /* groups that only leaving nodes have; the saved ones among them */
    int n_at_stake, n_saved;
    int64_t total_byte, lost_byte; /* bytes sent over links; bytes without a source in time */
    double makespan_s, bound_s;
    double naive_s;    /* for the same placement if the lowest-numbered holder sends everything */
    double in_order_s; /* end of the last move, one at a time in each direction */
    /* With `restarts`: the earliest start of a pass that finds each layer present when it reaches
     * it (within the memory cap if some order tried keeps it); and a lower bound over the orders of
     * these moves. 0 if nothing moves. */
    double restart_s, restart_bound_s;
    bool is_every_order; /* all orders were compared: the first is the minimum */
    double usd;
    int64_t bound_byte;
    int n_touched;      /* nodes that receive */
    bool is_exhaustive; /* every placement was compared */
    long n_scored;
    /* What determines the time: a receiver, or the holders of the parts in the cut. */
    int busiest_node;       /* -1: the cut does */
    bool *in_cut;           /* [n_part] */
    double *in_s, *out_s;   /* [n_node] busy time of each direction */
    int64_t busiest_byte;   /* sent and received, of the busiest node */
    double peak_extra_byte; /* memory beyond max(old, new) on the worst node, in this order */
};

/* May cut parts of the problem further, at bundles: the plan refers to the resulting parts. Returns
 * 0, or -1 with *err: SPOT_EINFEASIBLE with too few slots, SPOT_EDATA with too many. */
int spot_migrate(struct spot_migration_problem *problem, struct spot_migration_plan *plan,
                 struct spot_err *err);
void spot_migration_plan_release(struct spot_migration_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_H */

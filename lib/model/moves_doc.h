/* SPDX-License-Identifier: MIT */
/* moves_doc.h - the document spot.moves/1: the ordered transfers between two layouts. It is read by
 * other programs.
 */
#ifndef SPOT_MODEL_MOVES_DOC_H
#define SPOT_MODEL_MOVES_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/json.h"
#include "common/prov.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_MOVES_LIST_MAX = 1 << 20 };

/* Elements [lo, hi) along the sharded axis of a tensor group, in each of the bundles first..last
 * (heads and layers for a cache). */
struct spot_moves_piece {
    int64_t first, last, lo, hi, byte;
    const char *tensor, *plane;
};

struct spot_moves_unit {
    int64_t byte;
    const char *kv; /* request group, NULL: state */
    struct spot_moves_piece *piece;
    size_t n_piece;
};

/* Bytes [byte_from, byte_to) of a unit, with its pieces concatenated. */
struct spot_moves_transfer {
    int64_t order, unit, byte_from, byte_to;
    const char *from, *to;
    bool is_replicated; /* a node that stays also has it */
    bool is_relayed;    /* the sender has to receive it first */
    double begin_s, end_s;
};

struct spot_moves_place {
    const char *node;
    int64_t d, p, m;
};

struct spot_moves_lost {
    int64_t unit, byte;
    const char *how;   /* checkpoint or recompute */
    bool is_chosen;    /* because it is faster than moving */
    int64_t group;     /* index in lost_group; -1 if chosen, key left out */
    double recovery_s; /* recovery of the group; negative: unknown, key left out */
};

/* Losses that are recovered together. */
struct spot_moves_group {
    const char *what;          /* state, bundles or cache */
    const char *how;           /* checkpoint or recompute */
    int64_t byte, first, last; /* first and last bundle, of bundles */
    const char *kv;            /* of a cache: its request group */
    double recovery_s;         /* negative: unknown */
};

/* docs/schema/moves.json is made from this. */
extern const struct spot_doc_part spot_moves_part[];

struct spot_moves_doc {
    double makespan_s, bound_s, gap, naive_s, in_order_s, usd, peak_extra_byte;
    double restart_s, restart_bound_s; /* negative: not requested, keys left out */
    int64_t total_byte, bound_byte, busiest_byte, lost_byte, n_touched, n_compared;
    bool is_exhaustive;
    const char *proof;       /* "enumeration", "receiver" or "senders" */
    const char **proof_node; /* [n_proof_node] the busiest receiver, or the holders of the cut */
    size_t n_proof_node;
    int64_t proof_byte;
    struct spot_moves_place *place;
    size_t n_place;
    struct spot_moves_unit *unit;
    size_t n_unit;
    struct spot_moves_transfer *move;
    size_t n_move;
    struct spot_moves_lost *lost;
    size_t n_lost;
    struct spot_moves_group *lost_group;
    size_t n_lost_group;
    double recovery_s,
        recovery_bound_s; /* over all groups; no other choice has less. Negative: unknown */
    const char **why;
    size_t n_why;
};

int spot_moves_write(const struct spot_moves_doc *doc, const struct spot_prov *prov, FILE *out,
                     struct spot_err *err);

/* Frees the arrays and those of pieces, not what they point to. */
void spot_moves_release(struct spot_moves_doc *doc);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_MOVES_DOC_H */

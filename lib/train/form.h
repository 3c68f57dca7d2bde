/* SPDX-License-Identifier: MIT */
/* form.h - the message that starts an epoch: the grid, the placement, and the transfers. */
#ifndef SPOT_TRAIN_FORM_H
#define SPOT_TRAIN_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/mesh.h"
#include "comm/wire.h"
#include "common/err.h"
#include "model/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_origin {
    SPOT_FROM_MEMBER = 0,  /* `from` sends it */
    SPOT_FROM_STORE = 1,   /* durable state: read by the member, or else sent by the coordinator */
    SPOT_FROM_NOTHING = 2, /* step 0: a pure function of the seed */
    SPOT_FROM_WEIGHTS = 3, /* step 0: from the given weights, as from the store */
};

struct spot_transfer {
    uint32_t bundle, origin, from, to; /* member ids */
};

/* A bundle that a member needs in the next grid. The member receives it during the current one,
 * from the first replica of the bundle's stage, and from then on mirrors it as a buddy mirrors a
 * stage. */
struct spot_precopy {
    uint32_t bundle, to;
};

struct spot_form {
    int64_t step;      /* step of the state */
    uint64_t manifest; /* hash of the generation to read the state from; 0: none is durable */
    uint32_t D, P, M;  /* data-parallel pipelines, stages of each, members of each */
    uint32_t *stage;   /* [P + 1], bundle where each stage begins, then the end */
    uint32_t *share;   /* [D + 1], microbatch where each pipeline begins, then the end */
    uint32_t *member;  /* [D * P * M], id at position (d * P + p) * M + m */
    uint32_t *buddy;   /* [P], member that mirrors stage p, 0: none */
    struct spot_mesh_peer *peer; /* [n_peer], all members that take part */
    size_t n_peer;
    struct spot_transfer *transfer; /* [n_transfer] */
    size_t n_transfer;
    struct spot_precopy *precopy; /* [n_precopy] */
    size_t n_precopy;
    size_t n_precopied; /* number already in effect: grows while the epoch runs */
};

void spot_form_put(struct spot_buf *out, const struct spot_form *form);

/* Limits for a valid form. */
struct spot_form_bounds {
    uint32_t n_bundle;
    int64_t n_microbatch, n_shard; /* G, S */
};

/* Returns 0, or -1 with *err (SPOT_EDATA) for a message that exceeds these bounds, such as a
 * pipeline without a microbatch. */
int spot_form_get(struct spot_form *form, const void *data, size_t n_byte,
                  const struct spot_form_bounds *bounds, struct spot_err *err);
void spot_form_release(struct spot_form *form);

struct spot_grid spot_form_grid(const struct spot_form *form);

/* Positions: D * P * M. */
uint32_t spot_form_size(const struct spot_form *form);

/* Coordinates of a position. The members of a stage, (d, p, m) for all d and m, hold the same state
 * and compute the same sums; those of equal d share the work. */
struct spot_form_place {
    uint32_t d, p, m;
};
struct spot_form_place spot_form_place(const struct spot_form *form, int64_t position);

/* Id of the member at these coordinates. */
uint32_t spot_form_member(const struct spot_form *form, uint32_t d, uint32_t p, uint32_t m);

/* Replicas of a stage: D * M; and the i-th of stage p. */
uint32_t spot_form_replicas(const struct spot_form *form);
uint32_t spot_form_replica(const struct spot_form *form, uint32_t p, uint32_t i);

/* Mark the peers with which member `me` exchanges nothing by this plan: no connection to them is
 * needed. Two members mark each other or not alike. */
void spot_form_mark_on_demand(struct spot_form *form, uint32_t me, bool is_nccl);

/* Position of a member in the grid, -1 if it has none. */
int64_t spot_form_position(const struct spot_form *form, uint32_t id);

/* The member that sends the sums of a bundle to those that mirror it, and the bundle to its
 * receivers. */
uint32_t spot_form_sender(const struct spot_form *form, uint32_t bundle);

/* True if the member at a position, -1 for none, computes with the bundle. */
bool spot_form_computes(const struct spot_form *form, int64_t position, uint32_t bundle);

/* True if the member computes with the bundle or mirrors it, so that it votes on its sums. */
bool spot_form_keeps(const struct spot_form *form, uint32_t id, uint32_t bundle);

/* True if the member takes part in every step: it has a place, mirrors a stage, or is to receive a
 * pre-copy. */
bool spot_form_is_active(const struct spot_form *form, uint32_t id);

/* Microbatches [*begin, *end) whose losses the member at a position, or -1, must report: those of
 * its pipeline if it is the first of the last stage, else none. */
void spot_form_losses(const struct spot_form *form, int64_t position, int64_t *begin, int64_t *end);

/* Microbatches [*begin, *end) that pipeline d computes. */
void spot_form_microbatches(const struct spot_form *form, uint32_t d, int64_t *begin, int64_t *end);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_FORM_H */

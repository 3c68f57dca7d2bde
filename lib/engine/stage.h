/* SPDX-License-Identifier: MIT */
/* stage.h - one pipeline stage of a GPT-2 style decoder: forward, backward, exact sums, AdamW.
 *
 * A stage is an interval of bundles. It computes whole microbatches of `micro_batch` sequences; the
 * numbers of a microbatch do not depend on the grid, on the thread count or on which member
 * computes it. Gradients are summed in fixed point (int64, unit 2^-exponent per tensor), so the sum
 * over the microbatches of a step does not depend on its order or on how it was split: losses and
 * weights are bit-identical for every grid and every history of preemptions. Rationale and cost:
 * docs/design/02-exact-sums.md.
 */
#ifndef SPOT_ENGINE_STAGE_H
#define SPOT_ENGINE_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "engine/kernel.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What one member of a tensor group sends to another, or receives from it. */
struct spot_stage_piece {
    bool is_send;
    int peer;   /* 0..M-1, not this member */
    void *data; /* [n_byte], read when sending */
    size_t n_byte;
};

/* The M members that share one stage: each holds all of it, computes an interval of its canonical
 * shards, and forms sums over shards together with the others. All of them make the same calls with
 * the same microbatches. Losses and boundary data are the bits of M = 1, on every member; gradient
 * sums are complete when those of all members are added. */
struct spot_stage_group {
    int m, M;       /* member m of M, which divides the shards; 0, 0: alone */
    bool is_device; /* pieces are in device memory, ordered by its stream */
    /* Exchanges all pieces at once, so that no member waits for a piece that is sent later. Returns
     * 0, or -1 with *err, which spot_stage_status returns from then on. */
    int (*exchange)(void *user, const struct spot_stage_piece *piece, size_t n,
                    struct spot_err *err);
    void *user;
};

struct spot_stage_config {
    struct spot_shape shape;
    int bundle_begin, bundle_end; /* [begin, end) */
    int micro_batch;              /* sequences, 1.. */
    int n_slot;                   /* microbatches in flight at once; 0: only updates from sums */
    int n_microbatch;             /* G, of the whole step: bounds the fixed-point sums */
    int n_thread;                 /* 1.. */
    int recompute;                /* enum spot_recompute */
    bool is_weighted;             /* the loss of each position has a weight; CPUs only */
    bool is_forward;              /* no backward calls; saves the gradient sums on the host */
    const struct spot_kernel *kernel;
    struct spot_stage_group group; /* of a stage with slots */
};

/* 32-bit words of a sequence: T + 1 tokens; with weighted losses they are followed by T floats, the
 * factors of the losses of its positions. */
static inline int64_t spot_stage_words(const struct spot_shape *shape, bool is_weighted)
{
    return shape->seq + 1 + (is_weighted ? shape->seq : 0);
}

/* Bytes that a stage of this configuration needs on the CPU or device that computes it, excluding
 * its bundles' planes in host memory; SIZE_MAX on overflow. */
size_t spot_stage_memory(const struct spot_stage_config *config);

/* Check that the stage and the planes of its bundles fit into `limit_byte` (0: the memory available
 * where it is computed). Returns 0, or -1 with *err (SPOT_ESYS; SPOT_EGPU: a shape that the device
 * cannot compute) and both numbers. */
int spot_stage_check(const struct spot_stage_config *config, size_t limit_byte,
                     struct spot_err *err);

struct spot_stage; /* activations, gradient sums, threads */

/* bundle[i] is bundle number begin + i; borrowed, must outlive the stage. Allocates all memory.
 * NULL with *err (SPOT_ESYS, SPOT_EGPU) when less memory is available. */
struct spot_stage *spot_stage_new(const struct spot_stage_config *config,
                                  struct spot_bundle *const *bundle, struct spot_err *err);
void spot_stage_free(struct spot_stage *stage);

/* Floats that cross a stage boundary per microbatch: b * T * C. */
size_t spot_stage_boundary_elem(const struct spot_stage *stage);

/* Start a step: reset gradients and overflow marks. */
void spot_stage_begin(struct spot_stage *stage);

/* Forward of one microbatch in a slot.
 *   token    [b * spot_stage_words], inputs and shifted targets, each < V, and weights; read by
 *            first and last stage
 *   act_in   [b * T * C], NULL on the first stage
 *   act_out  [b * T * C], NULL on the last stage
 *   loss     mean (weighted) cross-entropy over b * T, written by the last stage only; may be
 * non-finite */
void spot_stage_forward(struct spot_stage *stage, int slot, const uint32_t *token,
                        const float *act_in, float *act_out, double *loss);

/* Cross-entropy of each row, [b * T], of the last forward call of a stage with the head; valid
 * until the next call. NULL if the backend does not provide it. */
const double *spot_stage_row_loss(const struct spot_stage *stage);

/* Backward of the same slot; adds to the gradient sums.
 *   dact_out [b * T * C], NULL on the last stage;  dact_in [b * T * C], NULL on the first */
void spot_stage_backward(struct spot_stage *stage, int slot, const float *dact_out, float *dact_in);

/* Call done(user, bundle) during backward calls, from the last bundle to the first, as soon as the
 * gradients of one are complete; NULL: stop. Devices, whose work is only queued, do not call it. */
void spot_stage_watch(struct spot_stage *stage, void (*done)(void *user, int bundle), void *user);

/* Wall-clock seconds spent on a bundle since spot_stage_begin, over all microbatches; 0 if the
 * backend does not provide it. */
struct spot_stage_times {
    double forward_s, backward_s;
};
struct spot_stage_times spot_stage_times(const struct spot_stage *stage, int bundle);

/* The fixed-point gradient sums of a bundle, [arena.n_elem]; to be summed over replicas. Call it in
 * each step, after the last backward call: elements without a gradient are zeroed here. */
int64_t *spot_stage_sum(struct spot_stage *stage, int bundle);

/* Faults since spot_stage_begin, a bit per tensor of the bundle: values too large for the exponent,
 * and values that are not finite. OR-ed over replicas by the caller. */
struct spot_stage_fault {
    uint32_t overflow, nonfinite;
};
struct spot_stage_fault spot_stage_fault(struct spot_stage *stage, int bundle);

/* Squared norm of a bundle's mean gradient (sum / G) from the complete sums, in a fixed order. */
double spot_stage_norm2(struct spot_stage *stage, int bundle);

struct spot_adamw {
    double lr, beta1, beta2, eps, weight_decay;
};

/* Apply the update of the bundle's step + 1 from the complete sums, gradients times `scale`
 * (global-norm clip; 1 for none): planes, exponents for the next step, step. */
void spot_stage_update(struct spot_stage *stage, int bundle, const struct spot_adamw *adamw,
                       double scale);

/* Lower the exponents of the tensors in `overflow` to redo the step. The same call with the same
 * mask on every holder of the bundle keeps them equal. */
void spot_stage_back_off(struct spot_stage *stage, int bundle, uint32_t overflow);

/* Buffers of a stage on a device for its exchanges, for a communicator that can access the device.
 * Forward and backward calls with NULL boundary arguments leave the data in these buffers. */
enum spot_stage_buffer {
    SPOT_BUFFER_IN,    /* of slot i: must be filled before its forward call */
    SPOT_BUFFER_OUT,   /* written by the last forward call */
    SPOT_BUFFER_DOUT,  /* must be filled before a backward call */
    SPOT_BUFFER_DIN,   /* written by the last backward call */
    SPOT_BUFFER_SUM,   /* of bundle i: instead of spot_stage_sum in the same step */
    SPOT_BUFFER_SPARE, /* spot_stage_rough_elem floats, unused after the last backward call */
};
void *spot_stage_device_buffer(struct spot_stage *stage, enum spot_stage_buffer which, int i);
size_t spot_stage_boundary_byte(
    const struct spot_stage *stage); /* bytes that cross a stage boundary per microbatch */
void *spot_stage_stream(const struct spot_stage *stage); /* the stream of the stage's work */

/* Wait for queued work on the device. */
void spot_stage_wait(struct spot_stage *stage);

/* Convert sums [begin, begin + n) of a bundle to floats, n up to spot_stage_rough_elem, and
 * back. */
size_t spot_stage_rough_elem(const struct spot_stage *stage);
float *spot_stage_rough(struct spot_stage *stage, int bundle, size_t begin, size_t n);
void spot_stage_unrough(struct spot_stage *stage, int bundle, size_t begin, size_t n);

/* Sums [begin, begin + n) of a bundle and the n sums at `other`, also on the device: both are
 * replaced by their sum. */
void spot_stage_join_sums(struct spot_stage *stage, int bundle, size_t begin, int64_t *other,
                          size_t n);

/* Bundles were replaced: bundle[i] is bundle begin + i now. Device copies of the same bundle and
 * step are kept. can_renew is false if this backend computes on the bundles themselves, and a new
 * stage must be created. Returns 0, or -1 with *err (SPOT_EGPU). */
bool spot_stage_can_renew(const struct spot_stage *stage);
int spot_stage_renew(struct spot_stage *stage, struct spot_bundle *const *bundle,
                     struct spot_err *err);
/* A bundle, if the stage has it, is about to be freed; until it is renewed only renewal, sync and
 * free may be called. */
void spot_stage_forget(struct spot_stage *stage, int bundle);

/* Updates may remain on a device; this brings the planes of a bundle, or of all, up to date.
 * Returns 0, or -1 with *err (SPOT_EGPU): the planes then belong to no step. */
enum { SPOT_ALL_BUNDLES = -1 };
int spot_stage_sync(struct spot_stage *stage, int bundle, struct spot_err *err);

/* Returns -1 with *err (SPOT_EGPU, or the error of the exchange) after the device or an exchange
 * with the tensor group failed, otherwise 0. After a failure all results of the stage since
 * spot_stage_begin are invalid, and further calls have no effect. */
int spot_stage_status(const struct spot_stage *stage, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_STAGE_H */

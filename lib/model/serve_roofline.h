/* SPDX-License-Identifier: MIT */
/* serve_roofline.h - a profile of serving from the sizes of a model and of an instance.
 *
 * A layer takes the longer of its arithmetic and its memory traffic (Williams, Waterman, Patterson,
 * "Roofline", CACM 2009), then the sums over its tensor-parallel ranks. With E the elements of a
 * layer on the rank with most, w bytes each, h heads of d and k of keys and values on it, C the
 * width, v the bytes of a value, B requests, F and W the operations and bytes a second reached:
 *
 *   prefill of p tokens = max(B (2 E p + 2 h d p^2) / F, (E w + 2 B p k d v) / W) + 2 sum(B p C v)
 *   decode at context c = max(B (2 E + 4 h d c) / F, (E w + 2 B c k d v) / W) + 2 sum(B C v)
 *   sum(n)              = 2 log2 M latency + 2 (M - 1) / M n / link   (halving and doubling)
 *
 * The head's product is of one position a request; its time is shared out over the layers. What is
 * left out: norms, softmax, sampling, starts of kernels, and that links and memory work beside
 * arithmetic. Attention is counted as half a square, scores are not written to memory.
 */
#ifndef SPOT_MODEL_SERVE_ROOFLINE_H
#define SPOT_MODEL_SERVE_ROOFLINE_H

#include <stdint.h>

#include "common/err.h"
#include "model/job_serve.h"
#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_roofline {
    int64_t gpus;           /* of an instance */
    double gpu_byte;        /* memory of a GPU that weights and cache may take */
    double flop_per_s;      /* of a GPU, a multiply-add is two; reached, not the peak */
    double mem_byte_per_s;  /* of a GPU; reached */
    double link_byte_per_s; /* each way, of a GPU to another of its instance */
    double nic_byte_per_s;  /* each way, of an instance; INFINITY: not told */
    double latency_s;       /* of a message */
    double weight_byte;     /* of an element; of one of the cache and of activations: */
    double value_byte;
    int64_t max_M;                      /* ranks of a tensor group at most; those of all powers */
    int64_t max_batch;                  /* a power of two */
    int64_t prompt_token, output_token; /* what prefill_s and decode_s are written for */
    int64_t context;                    /* tokens of a request that memory is kept for */
};

/* Bytes on the fullest GPU of P stages of M ranks: weights, and the cache of max_batch requests of
 * `context` tokens. The table lies on the first stage and the head on the last, once where P is 1
 * and they are tied. */
double spot_roofline_gpu_byte(const struct spot_roofline *roofline, const struct spot_shape *shape,
                              int64_t P, int64_t M);

/* Cells for M = 1, 2, 4 .. max_M, without those that cannot hold the model with a layer a stage,
 * and B = 1, 2 .. max_batch; hops; the fewest GPUs: every P x M >= gpus_min of the profile fits.
 * Free with spot_job_serve_release. Returns 0, or -1 with *err: SPOT_EDATA for a batch that is no
 * power of two, more ranks than heads, a context below prompt and answer or beyond the model's;
 * SPOT_EINFEASIBLE where no M is left, with the least memory of a GPU that would do. */
int spot_serve_roofline(struct spot_job_serve *serve, const struct spot_shape *shape,
                        const struct spot_roofline *roofline, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SERVE_ROOFLINE_H */

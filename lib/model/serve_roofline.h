/* SPDX-License-Identifier: MIT */
/* serve_roofline.h - estimates a serving profile from the sizes of a model and of an instance.
 *
 * A layer takes the longer of its arithmetic and its memory traffic (Williams, Waterman, Patterson,
 * "Roofline", CACM 2009), plus the sums over its tensor-parallel ranks. With E the elements of a
 * layer on the largest rank, w bytes each, h query heads of width d and k key-value heads on it, C
 * the width, v the bytes of a value, B requests, F and W the attainable operations and bytes per
 * second:
 *
 * prefill of p tokens = max(B (2 E p + 2 h d p^2) / F, (E w + 2 B p k d v) / W) + 2 sum(B p C v)
 *
 * decode at context c = max(B (2 E + 4 h d c) / F, (E w + 2 B c k d v) / W) + 2 sum(B C v)
 *
 * sum(n) = 2 log2 M latency + 2 (M - 1) / M n / link (halving and doubling)
 *
 * With n experts of which a token uses k, the arithmetic counts k / n of E, and the traffic the
 * share of experts that the tokens of a batch use together if each draws its own: 1 - (1 - k /
 * n)^tokens. If layers have a window of w, c is the mean over the layers of c and min(c, w), and a
 * prompt longer than w has 4 h d p w instead of 2 h d p^2. Memory is that of all experts and of a
 * cache without windows, since pages are kept.
 *
 * The head's product is computed for one position per request; its time is divided among the
 * layers. Not modelled: norms, softmax, sampling, kernel launches, and the overlap of links and
 * memory with arithmetic. Attention counts as half a square; scores are not written to memory. */
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
    double gpu_byte;        /* GPU memory available for weights and cache */
    double flop_per_s;      /* of one GPU, a multiply-add counts as two; attainable, not the peak */
    double mem_byte_per_s;  /* of a GPU; attainable */
    double link_byte_per_s; /* each way, between two GPUs of an instance */
    double nic_byte_per_s;  /* each way, of an instance; INFINITY: not given */
    double latency_s;       /* seconds per message */
    double weight_byte;     /* bytes of an element; of one in the cache and in activations: */
    double value_byte;
    int64_t max_M;     /* maximum ranks of a tensor-parallel group; powers of two */
    int64_t max_batch; /* a power of two */
    int64_t prompt_token, output_token; /* lengths that prefill_s and decode_s refer to */
    int64_t context;                    /* tokens of a request for which memory is reserved */
};

/* Bytes on the fullest GPU of P stages of M ranks: weights, and the cache of max_batch requests of
 * `context` tokens. The table is on the first stage and the head on the last, stored once if P is 1
 * and they are tied. */
double spot_roofline_gpu_byte(const struct spot_roofline *roofline, const struct spot_shape *shape,
                              int64_t P, int64_t M);

/* Cells for M = 1, 2, 4 .. max_M, except those that cannot hold the model with a layer per
 * stage, and B = 1, 2 .. max_batch; hops; the minimum number of GPUs: every P x M >= gpus_min of
 * the profile fits. Free with spot_job_serve_release. Returns 0, or -1 with *err: SPOT_EDATA for
 * a batch that is not a power of two, more ranks than heads, a context shorter than prompt and
 * answer or beyond the model's; SPOT_EINFEASIBLE if no M is left, with the least GPU memory that
 * would do. */
int spot_serve_roofline(struct spot_job_serve *serve, const struct spot_shape *shape,
                        const struct spot_roofline *roofline, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SERVE_ROOFLINE_H */

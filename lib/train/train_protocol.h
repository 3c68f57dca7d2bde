/* SPDX-License-Identifier: MIT */
/* train_protocol.h - the messages that training adds to cluster/protocol.h, and its contents of
 * those parts that are left to the workload.
 *
 *   HELLO    kernels, u64 job, held bundles
 *   WELCOME u32 1 if the held bundles are valid, else 0, job config, state_sources.h
 *   REPORT   held bundles
 *   FORM     form.h
 *   ROUND    tag: step; u32 tokens of this member's microbatches, if any
 *   VALIDATE tag: step; as ROUND, of the validation data; its VOTE has only losses
 *   VOTE     tag: step; times, losses, norms: worker_step.c; answering CONFIRM only state:
 *            u32 n, of each u32 bundle, u64 hash of each tensor
 *   COMMIT   tag: step; f64 gradient scale, learning rate, weight decay of the step
 *   FAILED   tag 1: cannot mirror a stage
 */
#ifndef SPOT_TRAIN_TRAIN_PROTOCOL_H
#define SPOT_TRAIN_TRAIN_PROTOCOL_H

#include <stdint.h>

#include "cluster/protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_KERNELS_MAX = 512 }; /* bytes of the list of kernel kinds */

enum spot_train_message {
    /* worker to coordinator */
    SPOT_MSG_SNAPSHOT = 8, /* answer to SAVE; tag: bundle; bytes of bundle_io.h */
    SPOT_MSG_UNREAD = 13,  /* tag: bundle that the worker cannot read itself; answered by RESTORE */
    SPOT_MSG_WRITTEN = 14, /* answer to SAVE; tag: bundle; i64 step, u64 nonce, u64 bytes, u64 u64
                              hash; bytes 0: it is not held here */
    SPOT_MSG_SHOWN = 15,   /* answer to SHOW; tag: bundle; i64 step, u64 hash of the f32 weights
                              that follow */
    SPOT_MSG_PROBED = 9,   /* answer to PROBE; tag: bytes; lists of f64 seconds: p2p, sums */

    /* coordinator to worker */
    /* tag: bundle; bytes of bundle_io.h, from durable storage or the given weights */
    SPOT_MSG_RESTORE = 36,
    SPOT_MSG_REDO = 39, /* tag: step; tensors whose exponent was too large */
    /* tag: step; bundles to write to a directory: text, "" none, in which this u64 is found, else
     * to send as SNAPSHOT */
    SPOT_MSG_SAVE = 40,
    /* tag: step; u32 n, then n times u32 bundle, whose weights a follower wants */
    SPOT_MSG_SHOW = 49,
    SPOT_MSG_PROBE = 41,    /* tag: bytes; u32 count: measure messages of this size */
    SPOT_MSG_VALIDATE = 48, /* tag: step; tokens: forward only, before that step */
    SPOT_MSG_CONFIRM = 50,  /* tag: step; vote on the state, after the last step */
    /* tag: number of the form's pre-copies in effect from this step on */
    SPOT_MSG_PRECOPY = 44,

    /* worker to worker */
    SPOT_MSG_FORWARD = 65,  /* tag: step and microbatch; activations */
    SPOT_MSG_BACKWARD = 66, /* tag: step and microbatch; their gradients */
    /* tag: step and bundle; a part of its sums, in the steps of comm/sum_route.h */
    SPOT_MSG_SCATTER = 67,
    SPOT_MSG_COLLECT = 78,
    SPOT_MSG_SPREAD = 79,
    SPOT_MSG_GATHER = 68,
    SPOT_MSG_MIRROR = 69,  /* tag: step and bundle; all its sums, for the buddy */
    SPOT_MSG_BUNDLE = 70,  /* tag: bundle; bytes of bundle_io.h */
    SPOT_MSG_PROBING = 71, /* tag: round; meaningless bytes */
    SPOT_MSG_COMM = 74,    /* tag: 0 all members, 1 the replicas; NCCL's id of this epoch */
    SPOT_MSG_TIE = 75,     /* tag: step; sums of wte to the last stage, of head.w to the first */
    SPOT_MSG_TENSOR = 76,  /* tag: count of the epoch; partial sums within a tensor group */

    /* client to coordinator */
    /* i64 step to be made durable (0: none); answered by u32 protocol, version, i64 step, i64
     * durable step, tokens, tokenizer, job config */
    SPOT_MSG_EXPORT = SPOT_MSG_CLIENT_FIRST,
    SPOT_MSG_FETCH, /* i64 a durable step, u32 bundle; answered by the bytes of bundle_io.h */
    /* i64 step: its weights, or a later step's, are wanted as soon as it commits (0: none);
     * answered as EXPORT, with the newest step available for LOOK, or -1, in place of the durable
     * one */
    SPOT_MSG_WATCH,
    SPOT_MSG_LOOK, /* i64 step from WATCH, u32 bundle; answered as SHOWN */
};

/* Tag of microbatch, or bundle, j of a step. */
static inline uint64_t spot_tag_microbatch(int64_t step, int64_t j)
{
    return (uint64_t)step << 16 | (uint64_t)j;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAIN_PROTOCOL_H */

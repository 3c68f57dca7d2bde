/* SPDX-License-Identifier: MIT */
/* protocol.h - the messages between a coordinator, its workers and passing clients.
 *
 * A message is a frame (comm/link.h): its type, the epoch it belongs to, a tag, a payload in
 * comm/wire.h form. Version by SPOT_PROTOCOL in the hello; both sides must be equal.
 */
#ifndef SPOT_TRAIN_PROTOCOL_H
#define SPOT_TRAIN_PROTOCOL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_PROTOCOL = 13,
    SPOT_PAYLOAD_MAX = 1 << 30, /* between members */
    SPOT_HELLO_MAX = 1 << 20,   /* from a stranger, before it is a member */
    SPOT_NAME_MAX = 64,
    SPOT_WHY_MAX = 512, /* bytes of a reason given */
    SPOT_VERSION_MAX = 64,
    SPOT_KERNELS_MAX = 512, /* bytes of the list of kernel kinds */
    SPOT_PLAN_MAX = 1 << 20,
    SPOT_MEMBERS_MAX = 512,
};

enum spot_message {
    /* worker to coordinator */
    /* u32 protocol, version, name, address, domain, kernels, u64 job, u64 key of the coordinator
     * that it was with, held bundles */
    SPOT_MSG_HELLO = 1,
    SPOT_MSG_HEARTBEAT, /* tag: progress; the coordinator answers with one */
    SPOT_MSG_NOTICE,    /* this instance will be taken away */
    SPOT_MSG_INVENTORY, /* answer to QUIESCE: bundles held; whom it did not reach: suspect_io.h */
    SPOT_MSG_READY,     /* answer to FORM: everything is in its place */
    SPOT_MSG_VOTE,      /* answer to STEP; tag: step; times, losses, norms: worker_step.c */
    SPOT_MSG_BROKEN,    /* a connection broke: text; whom it did not reach, as above */
    SPOT_MSG_SNAPSHOT,  /* answer to SAVE; tag: bundle; bytes of bundle_io.h */
    SPOT_MSG_PROBED,    /* answer to PROBE; tag: bytes; lists of f64 seconds: p2p, sums */
    SPOT_MSG_FAILED,    /* text: this worker cannot go on; tag 1: cannot mirror a stage */
    SPOT_MSG_REACHED, /* answer to REACH: whom it did not reach, as above; tag 1: was interrupted */

    /* coordinator to worker */
    SPOT_MSG_WELCOME = 32, /* u32 id, u64 key, f64 lease, u32 what was held counts, job config */
    SPOT_MSG_REFUSED,      /* text: why */
    SPOT_MSG_QUIESCE,      /* epochs below this frame's are over; report */
    SPOT_MSG_FORM,         /* the new epoch: see form.h */
    SPOT_MSG_RESTORE,      /* tag: bundle; bytes of bundle_io.h, from durable storage */
    SPOT_MSG_STEP,         /* tag: step; u32 tokens of this member's microbatches, if any */
    SPOT_MSG_COMMIT,       /* tag: step; f64 gradient scale */
    SPOT_MSG_REDO,         /* tag: step; tensors whose exponent was too large */
    SPOT_MSG_SAVE,         /* tag: step; bundles to send as SNAPSHOT */
    SPOT_MSG_PROBE,        /* tag: bytes; u32 how often: measure messages of this size */
    SPOT_MSG_LEAVE,        /* nothing here needs you */
    SPOT_MSG_FINISH,       /* the job is done */
    SPOT_MSG_HAND,         /* tag: so many handovers of the form are in force from this step on */
    SPOT_MSG_REACH,     /* u32 how many, of each u32 id, address: which of them can be reached? */
    SPOT_MSG_ASIDE,     /* text: why this member gets no place; empty: it may have one again */
    SPOT_MSG_DISMISSED, /* text: why it is not waited for any more */

    /* worker to worker */
    SPOT_MSG_PEER = 64, /* first frame of a connection */
    SPOT_MSG_FORWARD,   /* tag: step and microbatch; activations */
    SPOT_MSG_BACKWARD,  /* tag: step and microbatch; their gradients */
    SPOT_MSG_SCATTER,   /* tag: step and bundle; my part of your share of its sums */
    SPOT_MSG_GATHER,    /* tag: step and bundle; my share, summed */
    SPOT_MSG_MIRROR,    /* tag: step and bundle; all its sums, for the buddy */
    SPOT_MSG_BUNDLE,    /* tag: bundle; bytes of bundle_io.h, in as many frames as it takes */
    SPOT_MSG_PROBING,   /* tag: round; bytes without meaning */
    SPOT_MSG_PING,      /* to a peer that is waited for and silent */
    SPOT_MSG_PONG,
    SPOT_MSG_COMM,   /* tag: 0 all members, 1 the replicas; NCCL's id of this epoch */
    SPOT_MSG_TIE,    /* tag: step; sums of wte to the last stage, of head.w to the first */
    SPOT_MSG_TENSOR, /* tag: count of the epoch; partial sums within a tensor group */
    SPOT_MSG_KNOCK,  /* first frame of a connection, to see whether somebody answers */

    /* client to coordinator, and its answer */
    SPOT_MSG_REPLAN = 96,  /* a spot.plan/1 document */
    SPOT_MSG_STATUS,       /* nothing */
    SPOT_MSG_ANSWER,       /* tag: exit status; text or document */
    SPOT_MSG_REPLAN_FORCE, /* as REPLAN, whatever the time of the plan */
    SPOT_MSG_STOP,         /* nothing; the answer comes when the job has stopped */
};

/* Tag of microbatch, or bundle, j of a step. */
static inline uint64_t spot_tag_microbatch(int64_t step, int64_t j)
{
    return (uint64_t)step << 16 | (uint64_t)j;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_PROTOCOL_H */

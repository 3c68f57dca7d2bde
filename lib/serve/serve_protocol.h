/* SPDX-License-Identifier: MIT */
/* serve_protocol.h - the messages that serving adds to cluster/protocol.h, and the workload's part
 * of the messages there.
 *
 * HELLO: text SPOT_SERVE_NAME, text machine: TYPE or TYPE/MARKET, "": not told
 *
 * or, of a worker whose model is in an engine (engine_replica.h): text SPOT_SERVE_ENGINES_NAME,
 * text machine, text kind of engine, u8 whether it takes tokens, text name of its model, u64 its
 * context (0: not known)
 *
 * WELCOME, to such a worker: u8 whether tokens are pieces of text, u32 tokens of the vocabulary,
 * u32 one that ends a choice. To others: text directory of the model that replicas are to use, text
 * its adapters (adapter_list.h), u64 hash of both, u32 shards, u32 type of weights, text CUDA
 * kernel kind ("": CPUs), u32 sequences at once, u64 bytes of the cache, u64 of those that are kept
 * for later requests, u32 stages, u32 members of each, u32 whether these exchange over NCCL
 *
 * FORM: text directory of its model, text its adapters, u64 its hash, u32 shards; relay.h: a view
 * is a replica
 *
 * ROUND, whose tag is the round: no payload. It is answered after a certain number of choices were
 * completed
 *
 * VOTE, whose tag is the round: no payload
 *
 * A sequence is one choice of one request; the coordinator assigns its number, and sends it to the
 * leader of a replica.
 */
#ifndef SPOT_SERVE_SERVE_PROTOCOL_H
#define SPOT_SERVE_SERVE_PROTOCOL_H

#include "cluster/protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_SERVE_NAME         "serve"
#define SPOT_SERVE_ENGINES_NAME "serve engines"

/* Tag of a SPOT_MSG_FAILED: the model of FORM could not be read. No sequence has this number. */
#define SPOT_SERVE_NO_MODEL UINT64_MAX

/* Sequences from this number on are checks, which repeat the computation of another replica. */
#define SPOT_SERVE_CHECK ((uint64_t)1 << 63)

enum spot_serve_message {
    /* worker to coordinator */
    /* u32 cache pages in use, u32 pages kept, u32 all pages, f64 seconds to compute a prompt token,
     * f64 bytes/s at which pages arrived (both 0: not known), u64 tokens received as pages; u32 n,
     * of each u64 sequence, a token (completion.h) */
    SPOT_MSG_TOKENS = 12,
    SPOT_MSG_STATE = 13, /* tag: sequence; u32 prompt tokens that were not computed, f32 [C]: the
                            state of a request with a pool, which ends it */
    /* tag: sequence; u32 assignment, u8: 1 if nothing failed, but the grammar of the rest is
     * needed, text reason: its engine failed, another may continue */
    SPOT_MSG_GIVEN_UP = 14,

    /* coordinator to worker */
    /* tag: sequence; u32 choice, u32 n, u32 token each, the request; then u32 n, u32 member each:
     * senders of its pages, by position, and f64 seconds to wait for them, 0: use pages already
     * received, as from a buddy; n 0: none. To an engine's worker instead: u32 assignment, which is
     * the epoch of its tokens of this sequence, text why its constraint has no grammar, u32 bytes
     * of the grammar, and these */
    SPOT_MSG_CONTINUE = 51,
    SPOT_MSG_FORGET = 52,  /* tag: sequence; it is no longer needed here */
    SPOT_MSG_BUDDY = 54,   /* u32 epoch, relay.h: send that replica each page once it is full */
    SPOT_MSG_DISCARD = 55, /* tag: sequence; its pages are not needed */
    SPOT_MSG_MOVE = 53,    /* tag: sequence; u32 epoch, relay.h: send its pages to that replica */

    /* worker to worker, in a replica of several: relay.c */
    SPOT_MSG_PASS = 80,   /* tag: count of the epoch; an order of the leader */
    SPOT_MSG_HIDDEN = 81, /* tag: pass; f32 [tokens][C], to the next stage */
    SPOT_MSG_LOGIT = 82,  /* tag: pass; f32 [items without a pool][words of the member], then of
                             member 0 [items with one][C], to the leader */
    SPOT_MSG_PART = 83,   /* tag: count of the epoch; sums of a node of the tree of shards */
    SPOT_MSG_PAGES = 84,  /* tag: sequence and layer; u32 tokens, pages; between replicas */
    SPOT_MSG_COPY = 85,   /* tag: sequence and page; a full page of all layers, to a buddy */
    SPOT_MSG_NCCL = 87,   /* NCCL's id of a tensor group in this epoch */
    SPOT_MSG_COPIES = 86, /* tag: count of the epoch; u32 pages of a sequence, to the leader */

    /* client to coordinator */
    SPOT_MSG_ROLL = SPOT_MSG_CLIENT_FIRST + 8, /* text directory of the model to be rolled out */
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SERVE_PROTOCOL_H */

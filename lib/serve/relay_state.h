/* SPDX-License-Identifier: MIT */
/* relay_state.h - shared by the parts of a relay; private to lib/serve/relay*.c. */
#ifndef SPOT_SERVE_RELAY_STATE_H
#define SPOT_SERVE_RELAY_STATE_H

#include <stdbool.h>

#include "comm/comm.h"
#include "model/stage_split.h"
#include "serve/relay.h"
#include "serve/serve_protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Orders of the leader. */
enum spot_relay_told {
    SPOT_TOLD_PASS,
    SPOT_TOLD_GIVE,
    SPOT_TOLD_TAKE,
    SPOT_TOLD_BUDDY,
    SPOT_TOLD_COPY,
    SPOT_TOLD_COUNT,
    SPOT_TOLD_RESTORE,
    SPOT_TOLD_DISCARD,
    SPOT_TOLD_REUSE,
    SPOT_TOLDS
};

/* A sequence with an adapter; other sequences are opened when a pass includes them. */
struct spot_relay_opened {
    uint32_t sequence, adapter;
};

/* Results of a pass: rows of logits, and states. */
struct spot_relay_rows {
    int n_logit, n_state;
};

struct spot_relay {
    struct spot_relay_config config;
    struct spot_relay_form form;
    struct spot_relay_form buddy; /* P 0: none */
    uint32_t buddy_epoch;
    struct spot_mesh *mesh;
    struct spot_infer *infer;
    int n_page;
    uint64_t n_told;          /* orders of this epoch: sent by the leader, received by the others */
    uint64_t n_begun, n_done; /* passes of this epoch */
    uint64_t n_sum;           /* exchanges of this epoch; used as the tag of the next one */
    uint32_t group[SPOT_RELAY_MEMBERS_MAX]; /* [M] of this stage, if they exchange over NCCL */
    struct spot_comm *comm;                 /* NULL: they exchange over the mesh, or not at all */
    struct spot_relay_rows *rows; /* [P] of passes in progress, by their number modulo P */
    uint32_t *closed; /* [n_closed] closed sequences that the other members still have open */
    size_t n_closed, cap_closed;
    struct spot_relay_opened *opened; /* [n_opened] sequences unknown to the other members */
    size_t n_opened, cap_opened;
    int *own; /* [n_sequence], on the others: for the leader's number; -1: not open */
    struct spot_infer_item *item; /* [n_sequence] of a pass */
    float *hidden;                /* [token_max * C]; NULL if there is one stage */
    float *logit;                 /* [n_sequence * V]; NULL if not needed */
    float *state;                 /* [n_sequence * C]; the same */
    uint32_t *token;              /* [token_max] */
};

/* --- relay.c --- */

struct spot_stage_span spot_relay_layers(const struct spot_shape *shape, uint32_t P, uint32_t p);
uint32_t spot_relay_stage(const struct spot_relay *r);
bool spot_relay_is_last(const struct spot_relay *r); /* stage */
uint32_t spot_relay_member(const struct spot_relay *r, uint32_t p, uint32_t m);

/* Send n numbers to a member; receive them, in a frame to be freed. */
int spot_relay_send(struct spot_relay *r, uint32_t to, uint32_t type, uint64_t tag, const float *x,
                    size_t n, struct spot_err *err);
struct spot_frame *spot_relay_recv(struct spot_relay *r, uint32_t from, uint32_t type, uint64_t tag,
                                   size_t n, struct spot_err *err);

/* Begin an order to the other members. */
struct spot_buf spot_relay_begin_to_tell(struct spot_relay *r, enum spot_relay_told what);
int spot_relay_tell(struct spot_relay *r, struct spot_buf *out_take, struct spot_err *err);

/* Tokens in an order: u32 n, u32 each. The tokens read must be freed; NULL: malformed, or fewer
 * than `least`. */
void spot_relay_put_tokens(struct spot_buf *out, const uint32_t *token, int64_t n);
uint32_t *spot_relay_get_tokens(struct spot_wire_in *in, int64_t least);

/* The sources of the members' pages in an order: u32 each. Reading returns that of this member. */
void spot_relay_put_sources(const struct spot_relay *r, const uint32_t *source,
                            struct spot_buf *out);
uint32_t spot_relay_get_source(const struct spot_relay *r, struct spot_wire_in *in);

/* The local sequence for a sequence of the leader, opened if necessary; -1 with *err. */
int spot_relay_own(struct spot_relay *r, uint32_t sequence, struct spot_err *err);

/* Compute this member's layers; the result goes to the next stage. */
int spot_relay_run(struct spot_relay *r, uint64_t pass, const struct spot_infer_item *item,
                   int n_item, struct spot_infer_pick *pick, const float *in, struct spot_err *err);
int64_t spot_relay_tokens(const struct spot_infer_item *item, int n_item);
struct spot_relay_rows spot_relay_rows(const struct spot_infer_item *item, int n_item);
/* Words [*first, *first + n) of the vocabulary belong to member m; returns n. */
int64_t spot_relay_words(const struct spot_relay *r, uint32_t m, int64_t *first);

/* --- relay_group.c: see spot_infer_config --- */

int spot_relay_exchange(void *user, float *sum, size_t n, struct spot_err *err);
int spot_relay_swap(void *user, uint32_t bit, float *sum, float *other, size_t n, void *stream,
                    struct spot_err *err);

/* --- relay_pages.c: this member's part of moved pages, own: its number of the sequence --- */

/* A member that cannot be reached computes the pages again. */
void spot_relay_give_own(struct spot_relay *r, int own, uint64_t number,
                         const struct spot_relay_form *to, uint32_t epoch);
int spot_relay_take_own(struct spot_relay *r, int own, uint64_t number, uint32_t source,
                        const uint32_t *token, int64_t n_most, struct spot_err *err);

/* This member's layers and shards. */
struct spot_relay_part {
    struct spot_stage_span layer;
    int shard_begin, shard_end;
    size_t page_byte;
};
struct spot_relay_part spot_relay_part(const struct spot_relay *r);

/* --- relay_copy.c: orders carried out by the others --- */

int spot_relay_hear_buddy(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err);
int spot_relay_hear_copy(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err);
int spot_relay_hear_count(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err);
int spot_relay_hear_restore(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err);
/* An order that names a sequence, its request and its tokens, for spot_relay_take_own or the like.
 */
typedef int spot_relay_act(struct spot_relay *r, int own, uint64_t number, uint32_t source,
                           const uint32_t *token, int64_t n, struct spot_err *err);
int spot_relay_hear_tokens(struct spot_relay *r, struct spot_wire_in *in, spot_relay_act *act,
                           struct spot_err *err);
int spot_relay_hear_discard(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_RELAY_STATE_H */

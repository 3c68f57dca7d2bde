/* SPDX-License-Identifier: MIT */
/* relay.h - the engine of a replica with P stages of M members: passes go through all of them.
 *
 * A member's position is p * M + m. The leader, at 0, decides what each pass computes; the others
 * do the same with their layers and shards, and results go from stage to stage and back to the
 * leader. Passes keep their order, so that as many as there are stages can be in progress.
 *
 * A relay is used by one thread at a time. Functions that return int return 0, or -1 with *err:
 * SPOT_EPREEMPTED and SPOT_ESYS of a connection (comm/mesh.h), after which only spot_relay_enter
 * may follow, else the engine's error (engine/infer.h).
 */
#ifndef SPOT_SERVE_RELAY_H
#define SPOT_SERVE_RELAY_H

#include <stddef.h>
#include <stdint.h>

#include "comm/mesh.h"
#include "comm/wire.h"
#include "common/buf.h"
#include "common/err.h"
#include "engine/infer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_RELAY_MEMBERS_MAX = 64 };

/* The members by position. */
struct spot_relay_form {
    uint32_t P, M, position;
    struct spot_mesh_peer member[SPOT_RELAY_MEMBERS_MAX]; /* [P * M] by position */
};

void spot_relay_form_put(struct spot_buf *out, const struct spot_relay_form *form);
/* Returns 0, or -1 when it is malformed. */
int spot_relay_form_get(struct spot_wire_in *in, struct spot_relay_form *form);

/* Check that the model can be divided into P stages of M members. Returns 0, or -1 with *err
 * (SPOT_EINFEASIBLE). */
int spot_relay_check(const struct spot_shape *shape, int64_t P, int64_t M, struct spot_err *err);

/* Check that a cache of this size (0: as large as needed) holds one context in every member of P
 * stages of M. Returns 0, or -1 with *err (SPOT_EINFEASIBLE), which has the minimum. */
int spot_relay_check_cache(const struct spot_shape *shape, uint32_t P, uint32_t M, uint64_t kv_byte,
                           struct spot_err *err);

/* Bundles [*begin, *end) that the member at a position needs. */
void spot_relay_bundles(const struct spot_shape *shape, const struct spot_relay_form *form,
                        int *begin, int *end);

struct spot_relay_config {
    const struct spot_shape *shape;
    const void *image; /* borrowed: of the bundles of this position */
    size_t image_byte;
    const struct spot_lora *const *lora; /* [n_lora] borrowed: adapters */
    int n_lora;
    const char *backend; /* see spot_infer_config; NULL: the CPU */
    bool is_nccl;        /* members of a tensor group exchange between devices */
    uint32_t P, M, position;
    int n_sequence;     /* maximum at once */
    uint64_t kv_byte;   /* of a member's cache; 0: for whole contexts of all sequences */
    uint64_t kept_byte; /* part of it for pages that no sequence holds any more */
    int64_t token_max;  /* per pass */
    int n_thread;
};

struct spot_relay;

/* NULL with *err; SPOT_EINFEASIBLE for a cache too small for one context. */
struct spot_relay *spot_relay_new(const struct spot_relay_config *config, struct spot_err *err);
void spot_relay_free(struct spot_relay *relay); /* may be NULL */

/* Enter an epoch: the members and how to reach them; grid and position must be the same as before.
 * No sequence is open; cached pages are kept only by a replica of one member, since members of
 * others may be new. `mesh` may be NULL if the replica has one member. */
void spot_relay_enter(struct spot_relay *relay, const struct spot_relay_form *form,
                      struct spot_mesh *mesh);

/* Connect over NCCL, after the epoch is entered, by all members of a replica; no effect without
 * NCCL. Returns 0, or -1 with *err of comm/comm.h. `disconnect` ends waits for members. */
int spot_relay_connect(struct spot_relay *relay, struct spot_err *err);
void spot_relay_disconnect(struct spot_relay *relay);

/* --- the leader --- */

/* The functions of engine/infer.h, for all members; a sequence is opened with its adapter. */
int spot_relay_open(struct spot_relay *relay, int adapter);
void spot_relay_close(struct spot_relay *relay, int sequence);
int64_t spot_relay_length(const struct spot_relay *relay, int sequence);
/* Take cached pages for a sequence's first n_token tokens, using at most n_page free pages, as
 * spot_infer_find; *n_more: additional tokens. */
int spot_relay_reuse(struct spot_relay *relay, int sequence, const uint32_t *token, int64_t n_token,
                     int64_t n_page, int64_t *n_more, struct spot_err *err);
int spot_relay_free_pages(const struct spot_relay *relay);
int spot_relay_kept_pages(const struct spot_relay *relay); /* of those */
int spot_relay_pages(const struct spot_relay *relay);      /* total */
size_t spot_relay_members(const struct spot_relay *relay);
/* Maximum number of passes in progress. */
int spot_relay_depth(const struct spot_relay *relay);
int spot_relay_under_way(const struct spot_relay *relay);

/* Begin a pass: at most n_sequence items, token_max tokens. The cache has their tokens from now
 * on. A replica of one member may choose of pick[n_item], which is borrowed until the pass ends;
 * see spot_infer_run_picks. */
int spot_relay_begin(struct spot_relay *relay, const struct spot_infer_item *item, int n_item,
                     struct spot_infer_pick *pick, struct spot_err *err);
/* Wait for the oldest pass: logits [V] of its items without a pool, arbitrary where the token was
 * chosen, states [C] of those with one, valid until the next call. */
int spot_relay_finish(struct spot_relay *relay, float **logit, const float **state,
                      struct spot_err *err);

/* Work for the threads of this member's engine, as spot_infer_each; their number. */
void spot_relay_each(struct spot_relay *relay, int n, void (*fn)(void *user, int i, int thread),
                     void *user);
int spot_relay_threads(const struct spot_relay *relay);

/* --- pages that move between replicas: leaders decide, members send to the same position --- */

/* Send the cached pages of a sequence (-1: none) to a replica of the same grid in its own epoch;
 * `number` identifies it there. Messages may be lost. */
int spot_relay_give_pages(struct spot_relay *relay, int sequence, uint64_t number,
                          const struct spot_relay_form *to, uint32_t epoch, struct spot_err *err);

/* True if the leader's pages of `number` have arrived from source[0], or cannot arrive any more.
 * Waits up to limit_s. */
bool spot_relay_pages_came(struct spot_relay *relay, uint64_t number, const uint32_t *source,
                           double limit_s);

/* Load pages received from source[P * M], members by position, into an open sequence: at most
 * token[n_most], *n_token of them. 0 tokens if they did not arrive. */
int spot_relay_take_pages(struct spot_relay *relay, int sequence, uint64_t number,
                          const uint32_t *source, const uint32_t *token, int64_t n_most,
                          int64_t *n_token, struct spot_err *err);

/* Set the replica that gets copies of pages, sent between equal positions; P 0: none. */
int spot_relay_set_buddy(struct spot_relay *relay, const struct spot_relay_form *buddy,
                         uint32_t epoch, struct spot_err *err);
/* Send it the full pages [first, end) of a sequence. */
int spot_relay_copy_pages(struct spot_relay *relay, int sequence, uint64_t number, int64_t first,
                          int64_t end, struct spot_err *err);
/* Bytes of copies queued at the leader. */
size_t spot_relay_copies_queued(const struct spot_relay *relay);
/* Load the received copies, as spot_relay_take_pages. */
int spot_relay_take_copies(struct spot_relay *relay, int sequence, uint64_t number,
                           const uint32_t *source, const uint32_t *token, int64_t n_most,
                           int64_t *n_token, struct spot_err *err);
/* Discard received pages of a sequence. */
int spot_relay_discard(struct spot_relay *relay, uint64_t number, struct spot_err *err);

int64_t spot_relay_page_count(int64_t n_token); /* pages for this many tokens */
/* Bytes per token in the cache, over all members. */
uint64_t spot_relay_token_byte(const struct spot_shape *shape);

/* --- the others --- */

/* Do this member's part of the leader's next order, if one arrives within limit_s. *did: one was
 * carried out. */
int spot_relay_follow(struct spot_relay *relay, double limit_s, bool *did, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_RELAY_H */

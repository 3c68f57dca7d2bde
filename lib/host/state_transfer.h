/* SPDX-License-Identifier: MIT */
/* state_transfer.h - sends a committed state from one member to another: the chunks that it lacks.
 *
 *   giver    OFFER   the record
 *   taker    WANT    u32 how many pieces, u32 each, in the order of the record
 *   giver    DATA    these pieces as a stream (shard/stream.h), each a tensor named by its hash
 *
 * The stream is the format in which bundles of a training job travel (shard/range.h,
 * comm/mesh_port.h), and is verified in the same way; a piece counts only if it has the hash that
 * the record names. Both sides advance in steps that never wait for the other, so that a member
 * sends, receives and carries out orders in one thread.
 */
#ifndef SPOT_HOST_STATE_TRANSFER_H
#define SPOT_HOST_STATE_TRANSFER_H

#include <stdint.h>

#include "comm/mesh.h"
#include "common/err.h"
#include "host/state_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Between members of an epoch. Tag: the serial number of the move. */
enum spot_state_transfer_message {
    SPOT_MSG_STATE_OFFER = 90,
    SPOT_MSG_STATE_WANT = 91,
    SPOT_MSG_STATE_DATA = 92,
};

enum spot_state_step {
    SPOT_STATE_FAILED = -1, /* with *err: SPOT_EPREEMPTED when the epoch is over, SPOT_ESYS when the
                               other one is gone, or there is no space; SPOT_EDATA: damaged */
    SPOT_STATE_WAITS,       /* for the other one, or for room in its queue */
    SPOT_STATE_MOVED,
    SPOT_STATE_COMPLETE,
};

/* What moves: `place` of commit `id`, from or to `peer`. Serial numbers are unique within an epoch,
 * so that late messages of an abandoned move are not mistaken for another's. */
struct spot_state_move {
    struct spot_state_id id;
    uint32_t place, peer;
    uint64_t serial;
};

struct spot_state_giver;
/* The state must be in the store, or the first step fails (SPOT_EDATA). At most rate_byte_per_s, 0:
 * no limit. */
struct spot_state_giver *spot_state_giver_new(struct spot_state_store *store,
                                              struct spot_mesh *mesh,
                                              const struct spot_state_move *move,
                                              double rate_byte_per_s);
enum spot_state_step spot_state_giver_step(struct spot_state_giver *giver, struct spot_err *err);
uint64_t spot_state_giver_sent(const struct spot_state_giver *giver); /* bytes of pieces */
void spot_state_giver_free(struct spot_state_giver *giver);           /* may be NULL */

struct spot_state_taker;
/* When complete, the state is in the store. One at a time per store. */
struct spot_state_taker *spot_state_taker_new(struct spot_state_store *store,
                                              struct spot_mesh *mesh,
                                              const struct spot_state_move *move);
enum spot_state_step spot_state_taker_step(struct spot_state_taker *taker, struct spot_err *err);
uint64_t spot_state_taker_taken(const struct spot_state_taker *taker); /* bytes of pieces */
void spot_state_taker_free(struct spot_state_taker *taker);            /* may be NULL */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_TRANSFER_H */

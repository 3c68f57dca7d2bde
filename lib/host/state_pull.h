/* SPDX-License-Identifier: MIT */
/* state_pull.h - transfers a state from or to the coordinator, which is not a member of the mesh:
 * the receiver requests pieces, a few at a time, and the other side answers.
 *
 *   puller   FETCH                        server   RECORD
 *   puller   WANT a run that it lacks     server   PIECES     ... until complete
 *
 * Only the answer to the current request is in flight, so neither side fills the other's memory.
 */
#ifndef SPOT_HOST_STATE_PULL_H
#define SPOT_HOST_STATE_PULL_H

#include "comm/link.h"
#include "common/err.h"
#include "host/exec_protocol.h"
#include "host/state_store.h"
#include "host/state_transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_STATE_PULL_BYTE = 2 << 20 }; /* bytes of pieces in one answer */

/* Send to the other side; the buffer is released. Returns 0, or -1 with *err. */
typedef int (*spot_state_say_fn)(void *user, uint32_t type, uint64_t tag, struct spot_buf *out_take,
                                 struct spot_err *err);

struct spot_state_pull;
/* Sends nothing yet. No taker may use the store meanwhile. */
struct spot_state_pull *spot_state_pull_new(struct spot_state_store *store,
                                            const struct spot_exec_move *move,
                                            spot_state_say_fn say, void *user);
int spot_state_pull_begin(struct spot_state_pull *pull, struct spot_err *err);
/* A RECORD or PIECES with its serial was received. */
enum spot_state_step spot_state_pull_take(struct spot_state_pull *pull,
                                          const struct spot_frame *frame, struct spot_err *err);
uint64_t spot_state_pull_taken(const struct spot_state_pull *pull); /* bytes of pieces */
void spot_state_pull_free(struct spot_state_pull *pull);            /* may be NULL */

/* Answer a FETCH or WANT. Returns 0, or -1 with *err when it cannot be sent, or (SPOT_EDATA) is
 * malformed. */
int spot_state_serve(struct spot_state_store *store, const struct spot_frame *frame,
                     spot_state_say_fn say, void *user, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_PULL_H */

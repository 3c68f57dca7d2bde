/* SPDX-License-Identifier: MIT */
/* state_pull.h - moves a committed state: the receiver asks for the pieces that it lacks, a few at
 * a time, and the other side answers.
 *
 *   puller   FETCH                        server   RECORD
 *   puller   WANT a run that it lacks     server   PIECES     ... until complete
 *   puller   WANT none: it has all
 *
 * At most SPOT_STATE_PULL_RUNS answers are on their way, so neither side fills the other's memory.
 * A piece counts only if it has the hash that the record names. Members of an epoch exchange these
 * messages over the mesh, a member and its coordinator over their connection.
 */
#ifndef SPOT_HOST_STATE_PULL_H
#define SPOT_HOST_STATE_PULL_H

#include <stdint.h>

#include "comm/link.h"
#include "comm/mesh.h"
#include "common/err.h"
#include "host/exec_protocol.h"
#include "host/state_store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_STATE_PULL_BYTE = 2 << 20, /* bytes of pieces in one answer */
    SPOT_STATE_PULL_RUNS = 2,
};

enum spot_state_step {
    SPOT_STATE_FAILED = -1, /* with *err: SPOT_EPREEMPTED when the epoch is over, SPOT_ESYS when the
                               other side has left or there is no space, SPOT_EDATA when damaged */
    SPOT_STATE_WAITS,       /* waits for the other side */
    SPOT_STATE_MOVED,
    SPOT_STATE_COMPLETE,
};

/* Send to the other side; the buffer is released. Returns 0, or -1 with *err. */
typedef int (*spot_state_say_fn)(void *user, uint32_t type, uint64_t tag, struct spot_buf *out_take,
                                 struct spot_err *err);

/* --- receiver ----------------------------------------------------------------------------- */

struct spot_state_pull;
/* Sends nothing yet. No other pull may use the store meanwhile. */
struct spot_state_pull *spot_state_pull_new(struct spot_state_store *store,
                                            const struct spot_exec_move *move,
                                            spot_state_say_fn say, void *user);
/* From member move->from, at most rate_byte_per_s; 0: no limit. */
struct spot_state_pull *spot_state_pull_over_mesh(struct spot_state_store *store,
                                                  const struct spot_exec_move *move,
                                                  struct spot_mesh *mesh, double rate_byte_per_s);
int spot_state_pull_begin(struct spot_state_pull *pull, struct spot_err *err);
/* A RECORD or PIECES with its serial was received. When complete, the state is in the store. */
enum spot_state_step spot_state_pull_take(struct spot_state_pull *pull,
                                          const struct spot_frame *frame, struct spot_err *err);
/* The same for messages that the mesh has received. */
enum spot_state_step spot_state_pull_step(struct spot_state_pull *pull, struct spot_err *err);
uint64_t spot_state_pull_taken(const struct spot_state_pull *pull); /* bytes of pieces */
void spot_state_pull_free(struct spot_state_pull *pull);            /* may be NULL */

/* --- sender --------------------------------------------------------------------------------- */

/* Answer a FETCH or WANT. Returns 0, or -1 with *err when it cannot be sent, or (SPOT_EDATA) is
 * malformed. */
int spot_state_serve(struct spot_state_store *store, const struct spot_frame *frame,
                     spot_state_say_fn say, void *user, struct spot_err *err);
/* Answer the next request of member `peer` that the mesh has received. Complete when that member
 * has everything. */
enum spot_state_step spot_state_serve_step(struct spot_state_store *store, struct spot_mesh *mesh,
                                           uint32_t peer, uint64_t serial, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_PULL_H */

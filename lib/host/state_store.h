/* SPDX-License-Identifier: MIT */
/* state_store.h - committed states as files: DIR/chunk/HASH, and a record of each in DIR/held.
 *
 * A chunk is stored once, however many states have it: a second commit needs space, and transfers,
 * only for what changed. Every chunk's hash is verified when it is read. Not thread-safe, except
 * for spot_state_store_read; one process at a time uses a store.
 */
#ifndef SPOT_HOST_STATE_STORE_H
#define SPOT_HOST_STATE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "host/state_record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_STATE_PLACES "place" /* below a program's directory: commits of other places */

struct spot_state_store;

/* Open a store in the directory dir_fd, called DIR in messages; damaged states of an existing store
 * are removed. limit_byte: maximum bytes of chunks. With is_durable, additions are synced. NULL
 * with *err. */
struct spot_state_store *spot_state_store_open(int dir_fd, const char *dir, uint64_t limit_byte,
                                               bool is_durable, struct spot_err *err);
void spot_state_store_free(struct spot_state_store *store); /* the files stay; may be NULL */

uint64_t spot_state_store_used(const struct spot_state_store *store);

/* --- states ------------------------------------------------------------------------ */

size_t spot_state_store_count(const struct spot_state_store *store);
/* Number of states that were damaged, as by a power failure, and removed when the store was
 * opened. */
size_t spot_state_store_damaged(const struct spot_state_store *store);
const struct spot_state_record *spot_state_store_at(const struct spot_state_store *store, size_t i);
/* NULL: not held */
const struct spot_state_record *spot_state_store_find(const struct spot_state_store *store,
                                                      const struct spot_state_id *id,
                                                      uint32_t place);

/* Add a state, all of whose chunks must be in the store. The record is taken over in any case; a
 * held one of the same id is replaced. Returns 0, or -1 with *err: SPOT_EDATA for a missing chunk,
 * SPOT_ESYS. */
int spot_state_store_add(struct spot_state_store *store, struct spot_state_record *record_take,
                         struct spot_err *err);
/* Its chunks are kept until the sweep. */
void spot_state_store_drop(struct spot_state_store *store, size_t i);
/* Remove chunks that belong neither to a held state nor to one being received (at most one). */
void spot_state_store_expect(struct spot_state_store *store,
                             const struct spot_state_record *coming); /* borrowed; NULL: none */
void spot_state_store_sweep(struct spot_state_store *store);

/* --- chunks ------------------------------------------------------------------------- */

bool spot_state_store_has(const struct spot_state_store *store, struct spot_hash128 hash);
/* Store own bytes; *hash gets the name of the chunk. Returns 0, or -1 with *err: SPOT_ESYS when
 * there is no space. */
int spot_state_store_keep(struct spot_state_store *store, const void *data, size_t n_byte,
                          struct spot_hash128 *hash, struct spot_err *err);
/* Store received bytes. Returns 0, or -1 with *err: SPOT_EDATA when they do not match the piece,
 * SPOT_ESYS when there is no space. */
int spot_state_store_put(struct spot_state_store *store, const struct spot_state_piece *piece,
                         const void *data, struct spot_err *err);
/* Read into data [piece->n_byte]. Returns 0, or -1 with *err (SPOT_EDATA) when it is missing or
 * damaged: a damaged one is removed, and so is every state that contains it. */
int spot_state_store_get(struct spot_state_store *store, const struct spot_state_piece *piece,
                         void *data, struct spot_err *err);
/* The same from another thread, while the store's thread drops no state with the chunk. A damaged
 * chunk is kept. */
int spot_state_store_read(const struct spot_state_store *store,
                          const struct spot_state_piece *piece, void *data, struct spot_err *err);

/* --- the directory of a program, open as dir_fd ----------------------------------------- */

/* Store the files below it as they are: those in `only` [n_only], or NULL: all of them except
 * SPOT_STATE_PLACES at its top. *record has run_id, id, place and world, and gets files and chunks,
 * which are then stored; add it afterwards. No link is followed and no mount entered. A link is an
 * error, or, if the caller has checked its target, stored as a link. Returns 0, or -1 with *err:
 * SPOT_EDATA for something that is not a file or changes meanwhile, SPOT_ESYS when there is no
 * space. */
int spot_state_take(struct spot_state_store *store, int dir_fd, const char *const *only,
                    size_t n_only, bool with_links, struct spot_state_record *record,
                    struct spot_err *err);

/* Make the directory contain the files of a record and nothing else; NULL: empty it. Returns 0, or
 * -1 with *err: SPOT_EDATA when the state is damaged, after which it is no longer held;
 * SPOT_ESYS. */
int spot_state_lay_out(struct spot_state_store *store, int dir_fd,
                       const struct spot_state_record *record, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_STORE_H */

/* SPDX-License-Identifier: MIT */
/* state_store.h - committed states as files: DIR/chunk/HASH, and a record of each in DIR/held.
 *
 * A chunk is there once, however many states have it: of two commits only what changed takes room,
 * and is sent. Every chunk is hashed again when it is read. Not thread-safe, but
 * for spot_state_store_read; one process has a store at a time.
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

#define SPOT_STATE_PLACES "place" /* below a program's directory: what other places committed */

struct spot_state_store;

/* At DIR, which is there; what is there of a store is found again, but for what is damaged. At most
 * limit_byte of chunks. With is_durable what is added is synced. NULL with *err. */
struct spot_state_store *spot_state_store_open(const char *dir, uint64_t limit_byte,
                                               bool is_durable, struct spot_err *err);
void spot_state_store_free(struct spot_state_store *store); /* the files stay; may be NULL */

uint64_t spot_state_store_used(const struct spot_state_store *store);

/* --- states ------------------------------------------------------------------------ */

size_t spot_state_store_count(const struct spot_state_store *store);
const struct spot_state_record *spot_state_store_at(const struct spot_state_store *store, size_t i);
/* NULL: it is not held. */
const struct spot_state_record *spot_state_store_find(const struct spot_state_store *store,
                                                      const struct spot_state_id *id,
                                                      uint32_t place);

/* All chunks of it are here. The record is taken over in any case; one that is held is replaced.
 * Returns 0, or -1 with *err: SPOT_EDATA for a chunk that is missing, SPOT_ESYS. */
int spot_state_store_add(struct spot_state_store *store, struct spot_state_record *record_take,
                         struct spot_err *err);
/* Chunks stay until the sweep. */
void spot_state_store_drop(struct spot_state_store *store, size_t i);
/* Remove chunks that no state has which is held, or is coming (at most one is). */
void spot_state_store_expect(struct spot_state_store *store,
                             const struct spot_state_record *coming); /* borrowed; NULL: none */
void spot_state_store_sweep(struct spot_state_store *store);

/* --- chunks ------------------------------------------------------------------------- */

bool spot_state_store_has(const struct spot_state_store *store, struct spot_hash128 hash);
/* Bytes of one's own; *hash gets the name of the chunk. Returns 0, or -1 with *err: SPOT_ESYS when
 * there is no room. */
int spot_state_store_keep(struct spot_state_store *store, const void *data, size_t n_byte,
                          struct spot_hash128 *hash, struct spot_err *err);
/* Bytes that came from elsewhere. Returns 0, or -1 with *err: SPOT_EDATA when they are not those of
 * the piece, SPOT_ESYS when there is no room. */
int spot_state_store_put(struct spot_state_store *store, const struct spot_state_piece *piece,
                         const void *data, struct spot_err *err);
/* Into data [piece->n_byte]. Returns 0, or -1 with *err (SPOT_EDATA) when it is missing or damaged:
 * a damaged one is removed, and so is every state that has it. */
int spot_state_store_get(struct spot_state_store *store, const struct spot_state_piece *piece,
                         void *data, struct spot_err *err);
/* The same of a thread beside the one that has the store, while that one drops no state that has
 * the chunk: a damaged one stays. */
int spot_state_store_read(const struct spot_state_store *store,
                          const struct spot_state_piece *piece, void *data, struct spot_err *err);

/* --- the directory of a program ------------------------------------------------------- */

/* Take the files below DIR as they are: those of `only` [n_only], NULL: all of them, but for names
 * that begin with "manifest", and SPOT_STATE_PLACES, at its top. *record has run_id, id, place and
 * world, and gets files and chunks, which are then here; add it. Returns 0, or -1 with *err:
 * SPOT_EDATA for what is no file or changes meanwhile, SPOT_ESYS when there is no room. */
int spot_state_take(struct spot_state_store *store, const char *dir, const char *const *only,
                    size_t n_only, struct spot_state_record *record, struct spot_err *err);

/* Make DIR hold these files and nothing else; NULL: nothing. Returns 0, or -1 with *err:
 * SPOT_EDATA when the state is damaged, and no more held then; SPOT_ESYS. */
int spot_state_lay_out(struct spot_state_store *store, const char *dir,
                       const struct spot_state_record *record, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_STORE_H */

/* SPDX-License-Identifier: MIT */
/* state_pack.h - the distinct chunks of a commit, and how they are packed into objects. */
#ifndef SPOT_HOST_STATE_PACK_H
#define SPOT_HOST_STATE_PACK_H

#include <stddef.h>

#include "host/state_record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero it first; free(piece) in the end. */
struct spot_state_chunks {
    struct spot_state_piece *piece; /* [n] */
    size_t n;
};

/* Append those of a record. */
void spot_state_chunks_add(struct spot_state_chunks *chunks,
                           const struct spot_state_record *record);
/* Drop duplicates, keeping the first. Cost: O(n log n). */
void spot_state_chunks_unite(struct spot_state_chunks *chunks);

/* Index of the chunk that begins the next object after the one that begins at `first`, which ends
 * as soon as it has pack_byte. *n_byte gets its size. */
size_t spot_state_pack_end(const struct spot_state_chunks *chunks, size_t pack_byte, size_t first,
                           size_t *n_byte);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_PACK_H */

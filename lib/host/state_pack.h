/* SPDX-License-Identifier: MIT */
/* state_pack.h - the chunks of a commit, each once, and how they are cut into objects. */
#ifndef SPOT_HOST_STATE_PACK_H
#define SPOT_HOST_STATE_PACK_H

#include <stddef.h>

#include "host/state_record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All zero at the start; free(piece) in the end. */
struct spot_state_chunks {
    struct spot_state_piece *piece; /* [n] */
    size_t n;
};

/* Those of a record, behind the others. */
void spot_state_chunks_add(struct spot_state_chunks *chunks,
                           const struct spot_state_record *record);
/* Each once, where it came first. Cost: O(n log n). */
void spot_state_chunks_unite(struct spot_state_chunks *chunks);

/* The object that begins with the chunk at `first` ends before the one that is returned: as soon as
 * it has pack_byte. *n_byte gets its size. */
size_t spot_state_pack_end(const struct spot_state_chunks *chunks, size_t pack_byte, size_t first,
                           size_t *n_byte);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_STATE_PACK_H */

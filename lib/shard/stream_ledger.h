/* SPDX-License-Identifier: MIT */
/* stream_ledger.h - computes the end of a stream (TAIL and TABLE) while its chunks pass in order.
 *
 * Writer and reader keep the same record; the writer appends it, the reader compares.
 */
#ifndef SPOT_SHARD_STREAM_LEDGER_H
#define SPOT_SHARD_STREAM_LEDGER_H

#include "common/buf.h"
#include "common/hash.h"
#include "shard/chunk.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_ledger {
    const struct spot_chunk_map *map;
    uint64_t stream_id, next; /* next: number of the chunk expected */
    size_t tensor;            /* whose chunks are being processed */
    struct spot_hash_stream *hashing;
    struct spot_hash128 *hash; /* [n_tensor], final below `tensor` */
    struct spot_buf table;     /* entries: u32 coded, u32 plain bytes */
};

/* head_byte: of HEAD and its frame; plain_byte: content of that frame. */
void spot_ledger_init(struct spot_ledger *ledger, const struct spot_chunk_map *map,
                      uint64_t stream_id, size_t head_byte, size_t plain_byte);
void spot_ledger_release(struct spot_ledger *ledger);

/* Account for the next chunk, coded or decoded. */
void spot_ledger_note(struct spot_ledger *ledger, const struct spot_chunk *chunk);

/* After the last chunk: append TAIL and TABLE. Call once. */
void spot_ledger_close(struct spot_ledger *ledger, struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_STREAM_LEDGER_H */

/* SPDX-License-Identifier: MIT */
/* part_journal.h - records which chunks of a file being received are safely on disk.
 *
 *   u8[8] "SPOTJRN1" | u64 stream id | u64 chunks | u64 xxh3 of these 24 bytes
 *   { u32 chunk | u32 low half of xxh3 of (stream id, chunk, hash) | u64 hash of its raw bytes }
 * ...
 *
 * A record is written only after its data were synced. Reading stops at the first truncated or
 * invalid record; later chunks are received again.
 */
#ifndef SPOT_SHARD_PART_JOURNAL_H
#define SPOT_SHARD_PART_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_PART_JOURNAL_HEAD = 32, SPOT_PART_JOURNAL_RECORD = 16 };

struct spot_part_journal_entry {
    uint32_t seq;
    uint64_t hash;
};

void spot_part_journal_head(uint64_t stream_id, uint64_t n_chunk,
                            unsigned char head[SPOT_PART_JOURNAL_HEAD]);
void spot_part_journal_record(uint64_t stream_id, struct spot_part_journal_entry entry,
                              unsigned char record[SPOT_PART_JOURNAL_RECORD]);

/* Read a journal's bytes [n_byte]: valid entries go to `entry` [(n_byte - 32) / 16]. Returns the
 * length of the valid part: 0 if the head is damaged or of another stream. */
size_t spot_part_journal_replay(const void *bytes, size_t n_byte, uint64_t stream_id,
                                uint64_t n_chunk, struct spot_part_journal_entry *entry,
                                size_t *n_entry);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_PART_JOURNAL_H */

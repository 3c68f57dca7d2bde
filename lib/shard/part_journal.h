/* SPDX-License-Identifier: MIT */
/* part_journal.h - which chunks of a file that is being received are safely on the disk.
 *
 *   u8[8] "SPOTJRN1" | u64 stream id | u64 chunks | u64 xxh3 of these 24 bytes
 *   { u32 chunk | u32 low half of xxh3 of (stream id, chunk, hash) | u64 hash of its raw bytes }
 * ...
 *
 * A record is written only after the data it speaks of was synced. Reading stops at the first
 * record that is cut or wrong; what follows is forgotten and received again.
 */
#ifndef SPOT_SHARD_PART_JOURNAL_H
#define SPOT_SHARD_PART_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

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

/* Read a journal's bytes [n_byte]: entries that are good go to `entry` [(n_byte - 32) / 16], and
 * the length of the good part is returned: 0 if the head is damaged or of another stream. */
size_t spot_part_journal_replay(const void *bytes, size_t n_byte, uint64_t stream_id,
                                uint64_t n_chunk, struct spot_part_journal_entry *entry,
                                size_t *n_entry);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_PART_JOURNAL_H */

/* SPDX-License-Identifier: MIT */
#include "shard/part_journal.h"

#include <string.h>

#include "common/hash.h"
#include "common/le.h"

static const char magic[8] = { 'S', 'P', 'O', 'T', 'J', 'R', 'N', '1' };

void spot_part_journal_head(uint64_t stream_id, uint64_t n_chunk,
                            unsigned char head[SPOT_PART_JOURNAL_HEAD])
{
    memcpy(head, magic, 8);
    spot_le_put(head + 8, stream_id, 8);
    spot_le_put(head + 16, n_chunk, 8);
    spot_le_put(head + 24, spot_hash64(head, 24), 8);
}

void spot_part_journal_record(uint64_t stream_id, struct spot_part_journal_entry entry,
                              unsigned char record[SPOT_PART_JOURNAL_RECORD])
{
    unsigned char covered[20];

    spot_le_put(covered, stream_id, 8);
    spot_le_put(covered + 8, entry.seq, 4);
    spot_le_put(covered + 12, entry.hash, 8);
    spot_le_put(record, entry.seq, 4);
    spot_le_put(record + 4, spot_hash64(covered, sizeof(covered)), 4);
    spot_le_put(record + 8, entry.hash, 8);
}

size_t spot_part_journal_replay(const void *bytes, size_t n_byte, uint64_t stream_id,
                                uint64_t n_chunk, struct spot_part_journal_entry *entry,
                                size_t *n_entry)
{
    unsigned char want[SPOT_PART_JOURNAL_HEAD];
    const unsigned char *at = bytes;
    size_t n = 0;

    *n_entry = 0;
    spot_part_journal_head(stream_id, n_chunk, want);
    if (n_byte < SPOT_PART_JOURNAL_HEAD || memcmp(at, want, SPOT_PART_JOURNAL_HEAD) != 0)
        return 0;
    n = SPOT_PART_JOURNAL_HEAD;
    for (; n_byte - n >= SPOT_PART_JOURNAL_RECORD; n += SPOT_PART_JOURNAL_RECORD) {
        const struct spot_part_journal_entry e = { (uint32_t)spot_le_get(at + n, 4),
                                                   spot_le_get(at + n + 8, 8) };

        spot_part_journal_record(stream_id, e, want);
        if (e.seq >= n_chunk || memcmp(at + n, want, SPOT_PART_JOURNAL_RECORD) != 0)
            break;
        entry[(*n_entry)++] = e;
    }
    return n;
}

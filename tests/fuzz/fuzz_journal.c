/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shard/part_journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: a journal gives entries of its own stream only, up to the first bad record. The head, and
 * the checks of the records that the input asks for, are made good. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CHUNKS = 100 };
    const size_t n = SPOT_PART_JOURNAL_HEAD + size;
    unsigned char *bytes = malloc(n);
    struct spot_part_journal_entry *entry =
        calloc(n / SPOT_PART_JOURNAL_RECORD + 1, sizeof(*entry));
    size_t n_entry = 0, n_good;

    if (!bytes || !entry)
        abort();
    spot_part_journal_head(7, CHUNKS, bytes);
    if (size)
        memcpy(bytes + SPOT_PART_JOURNAL_HEAD, data, size);
    for (size_t i = 0; i + SPOT_PART_JOURNAL_RECORD <= size; i += SPOT_PART_JOURNAL_RECORD)
        if (data[i + 4] & 1)
            spot_part_journal_record(
                7, (struct spot_part_journal_entry){ data[i] % (CHUNKS + 10), data[i + 8] },
                bytes + SPOT_PART_JOURNAL_HEAD + i);
    n_good = spot_part_journal_replay(bytes, n, 7, CHUNKS, entry, &n_entry);
    if (n_good > n || n_good != SPOT_PART_JOURNAL_HEAD + n_entry * SPOT_PART_JOURNAL_RECORD)
        abort();
    for (size_t i = 0; i < n_entry; i++)
        if (entry[i].seq >= CHUNKS)
            abort();
    if (spot_part_journal_replay(data, size, 7, CHUNKS, entry, &n_entry) > size)
        abort();
    free(entry);
    free(bytes);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "shard/stream_ledger.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/le.h"
#include "common/xalloc.h"

enum {
    TAIL_MAGIC = 0x184D2A52,
    TABLE_MAGIC = 0x184D2A5E,
    TAIL_FIXED = 8 + 8 + 8 + 4 + 4, /* id, chunks, raw bytes, tensors, 0 */
    TAIL_END = 16,                  /* end mark, hash */
};
#define SEEKABLE_MAGIC UINT64_C(0x8F92EAB1)

static const char end_mark[8] = { 'S', 'P', 'O', 'T', 'E', 'N', 'D', '1' };

static void put(struct spot_buf *out, uint64_t value, int n_byte)
{
    spot_le_put(spot_buf_more(out, (size_t)n_byte), value, n_byte);
    out->n += (size_t)n_byte;
}

static void add_entry(struct spot_ledger *l, uint64_t coded, uint64_t plain)
{
    put(&l->table, coded, 4);
    put(&l->table, plain, 4);
}

void spot_ledger_init(struct spot_ledger *l, const struct spot_chunk_map *map, uint64_t stream_id,
                      size_t head_byte, size_t plain_byte)
{
    memset(l, 0, sizeof(*l));
    l->map = map;
    l->stream_id = stream_id;
    l->hash = spot_xcalloc(map->st->n_tensor, sizeof(*l->hash));
    l->hashing = spot_hash_stream_new();
    add_entry(l, head_byte, plain_byte);
}

void spot_ledger_release(struct spot_ledger *l)
{
    spot_hash_stream_free(l->hashing);
    free(l->hash);
    spot_buf_release(&l->table);
    memset(l, 0, sizeof(*l));
}

/* Finish the hashes of the tensors before `tensor`; most often there is one, or none. */
static void advance(struct spot_ledger *l, size_t tensor)
{
    for (; l->tensor < tensor; l->tensor++) {
        l->hash[l->tensor] = spot_hash_stream_128(l->hashing);
        spot_hash_stream_free(l->hashing);
        l->hashing = spot_hash_stream_new();
    }
}

void spot_ledger_note(struct spot_ledger *l, const struct spot_chunk *chunk)
{
    unsigned char hash[8];

    assert(chunk->seq == l->next);
    l->next++;
    advance(l, chunk->tensor);
    spot_le_put(hash, chunk->hash, 8);
    spot_hash_stream_add(l->hashing, hash, 8);
    add_entry(l, (uint64_t)SPOT_CHUNK_HEAD_BYTE + chunk->stored_byte, chunk->raw_byte);
}

static void put_tail(const struct spot_ledger *l, struct spot_buf *out)
{
    const struct spot_st *st = l->map->st;
    size_t payload;

    put(out, (uint64_t)TAIL_MAGIC, 4);
    put(out, TAIL_FIXED + 16 * st->n_tensor + TAIL_END, 4);
    payload = out->n;
    put(out, l->stream_id, 8);
    put(out, l->next, 8);
    put(out, st->data_byte, 8);
    put(out, st->n_tensor, 4);
    put(out, 0, 4);
    for (size_t i = 0; i < st->n_tensor; i++) {
        put(out, l->hash[i].low, 8);
        put(out, l->hash[i].high, 8);
    }
    spot_buf_add(out, end_mark, sizeof(end_mark));
    put(out, spot_hash64(out->data + payload, out->n - payload), 8);
}

void spot_ledger_close(struct spot_ledger *l, struct spot_buf *out)
{
    const size_t start = out->n;

    assert(l->next == spot_chunk_map_count(l->map));
    advance(l, l->map->st->n_tensor);
    put_tail(l, out);
    add_entry(l, out->n - start, 0);
    put(out, (uint64_t)TABLE_MAGIC, 4);
    put(out, l->table.n + 9, 4);
    spot_buf_add(out, l->table.data, l->table.n);
    put(out, l->table.n / 8, 4);
    put(out, 0, 1);
    put(out, SEEKABLE_MAGIC, 4);
}

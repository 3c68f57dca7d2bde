/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>

#include "shard/chunk.h"
#include "shard/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no header crashes the reader, and one that is taken covers its data without hole or overlap
 * and is written in a form that means the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_st st, again;
    struct spot_buf out = { 0 };
    struct spot_chunk_map map;
    uint64_t at = 0;

    if (spot_st_parse(&st, (const char *)data, size, "fuzz", NULL))
        return 0;
    for (size_t i = 0; i < st.n_tensor; i++) {
        if (st.tensor[i].begin != at || st.tensor[i].end < at)
            abort();
        at = st.tensor[i].end;
    }
    if (at != st.data_byte || spot_st_write(st.tensor, st.n_tensor, &out) != at)
        abort();
    if (spot_st_parse(&again, (const char *)out.data + SPOT_ST_PREFIX_BYTE,
                      out.n - SPOT_ST_PREFIX_BYTE, "again", NULL) ||
        again.n_tensor != st.n_tensor || again.data_byte != st.data_byte)
        abort();
    if (!spot_chunk_map_init(&map, &st, 4096, NULL)) {
        struct spot_chunk chunk;

        if (spot_chunk_map_count(&map))
            spot_chunk_map_get(&map, spot_chunk_map_count(&map) - 1, &chunk);
        spot_chunk_map_release(&map);
    }
    spot_st_release(&again);
    spot_st_release(&st);
    spot_buf_release(&out);
    return 0;
}

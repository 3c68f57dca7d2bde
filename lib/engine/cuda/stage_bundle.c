/* SPDX-License-Identifier: MIT */
/* The copy of a bundle on the device, and its planes on the host. */
#include <assert.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "engine/cuda/stage_cuda.h"

void spot_cuda_part_chunks(struct spot_stage *st, const struct spot_cuda_part *part)
{
    const struct spot_arena *const arena = &part->arena;
    struct spot_cuda_chunk *const chunk = spot_xcalloc((size_t)part->on.n_chunk, sizeof(*chunk));
    int n = 0;

    for (int t = 0; t < arena->n_tensor; t++) {
        const int64_t elem = arena->tensor[t].rows * arena->tensor[t].cols;

        for (int s = 0; s < spot_cuda_shards_of(arena, t); s++)
            for (int64_t at = 0; at < elem; at += SPOT_EXACT_CHUNK, n++)
                chunk[n] = (struct spot_cuda_chunk){
                    .arena = (int64_t)spot_arena_offset(arena, t, s) + at,
                    .weight = part->weight_at[t] + s * elem + at,
                    .n = (int32_t)(elem - at < SPOT_EXACT_CHUNK ? elem - at : SPOT_EXACT_CHUNK),
                    .tensor = t
                };
    }
    assert(n == part->on.n_chunk);
    spot_device_upload(st->dev, (void *)(uintptr_t)part->on.chunk, chunk,
                       (size_t)n * sizeof(*chunk));
    spot_device_wait(st->dev);
    free(chunk);
}

/* Page-locked memory is copied at the full speed of the bus. If the planes cannot be locked, or
 * another stage has locked them, they are copied more slowly. */
static void lock_planes(struct spot_cuda_part *part)
{
    int p = 0;

    while (p < SPOT_PLANES &&
           spot_device_host_lock(part->bundle->plane[p], part->arena.n_elem * sizeof(float)))
        p++;
    part->is_locked = p == SPOT_PLANES;
    while (!part->is_locked && p > 0)
        spot_device_host_unlock(part->bundle->plane[--p]);
}

void spot_cuda_part_forget(struct spot_stage *st, struct spot_cuda_part *part)
{
    if (st->dev)
        spot_device_wait(st->dev); /* wait for reads of the planes */
    for (int p = 0; part->is_locked && p < SPOT_PLANES; p++)
        spot_device_host_unlock(part->bundle->plane[p]);
    part->is_locked = false;
    part->is_ahead = false;
    part->bundle = NULL;
}

void spot_cuda_part_renew(struct spot_stage *st, int i, struct spot_bundle *bundle)
{
    struct spot_cuda_part *const part = &st->part[i];
    const bool is_other = part->bundle != bundle;

    if (is_other && part->bundle)
        spot_cuda_part_forget(st, part);
    part->bundle = bundle;
    if (!part->is_locked)
        lock_planes(part);
    if (part->step == bundle->step)
        return;
    assert(!part->is_ahead);
    for (int p = 0; p < SPOT_PLANES; p++)
        spot_device_upload(st->dev, part->on.plane[p], bundle->plane[p],
                           part->arena.n_elem * sizeof(float));
    spot_cuda_gather(st->real, &part->on, st->stream);
    part->step = bundle->step;
}

/* SPDX-License-Identifier: MIT */
#include "shard/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/xalloc.h"

size_t spot_bundle_memory(const struct spot_arena *arena)
{
    return SPOT_PLANES * arena->n_elem * sizeof(float);
}

static int init(struct spot_bundle *bundle, const struct spot_shape *shape, int index, int n_plane,
                struct spot_err *err)
{
    char what[32];

    memset(bundle, 0, sizeof(*bundle));
    bundle->index = index;
    spot_arena_of(shape, index, &bundle->arena);
    snprintf(what, sizeof(what), "bundle %d", index);
    if (spot_memory_check(what, bundle->arena.n_elem * sizeof(float) * (size_t)n_plane, 0, err))
        return -1;
    for (int p = 0; p < n_plane; p++) {
        bundle->plane[p] = spot_alloc_aligned(bundle->arena.n_elem, sizeof(float));
        if (!bundle->plane[p]) {
            spot_err_sys(err, "bundle %d: cannot allocate %d planes of %zu byte", index, n_plane,
                         bundle->arena.n_elem * sizeof(float));
            spot_bundle_release(bundle);
            return -1;
        }
    }
    for (int t = 0; t < SPOT_TENSORS_MAX; t++)
        bundle->exponent[t] = SPOT_EXPONENT_START;
    return 0;
}

int spot_bundle_init(struct spot_bundle *bundle, const struct spot_shape *shape, int index,
                     struct spot_err *err)
{
    return init(bundle, shape, index, SPOT_PLANES, err);
}

int spot_bundle_init_weights(struct spot_bundle *bundle, const struct spot_shape *shape, int index,
                             struct spot_err *err)
{
    return init(bundle, shape, index, SPOT_PLANE_MASTER + 1, err);
}

void spot_bundle_release(struct spot_bundle *bundle)
{
    for (int p = 0; p < SPOT_PLANES; p++) {
        spot_free_aligned(bundle->plane[p]);
        bundle->plane[p] = NULL;
    }
    spot_bundle_drop_sum(bundle);
}

struct spot_bundle *spot_bundle_new(const struct spot_shape *shape, int index, struct spot_err *err)
{
    struct spot_bundle *const bundle = spot_xcalloc(1, sizeof(*bundle));

    if (!spot_bundle_init(bundle, shape, index, err))
        return bundle;
    free(bundle);
    return NULL;
}

void spot_bundle_free(struct spot_bundle *bundle)
{
    if (!bundle)
        return;
    spot_bundle_release(bundle);
    free(bundle);
}

size_t spot_bundle_sum_memory(const struct spot_arena *arena)
{
    return arena->n_elem * sizeof(int64_t);
}

int64_t *spot_bundle_take_sum(struct spot_bundle *bundle)
{
    int64_t *const spare = bundle->spare_sum;

    bundle->spare_sum = NULL;
    return spare ? spare : spot_alloc_aligned(bundle->arena.n_elem, sizeof(*spare));
}

void spot_bundle_leave_sum(struct spot_bundle *bundle, int64_t *sum)
{
    spot_free_aligned(bundle->spare_sum);
    bundle->spare_sum = sum;
}

void spot_bundle_drop_sum(struct spot_bundle *bundle)
{
    spot_bundle_leave_sum(bundle, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "train/model_wire.h"

#include "shard/arena.h"

uint32_t spot_get_bundle(struct spot_wire_in *in, uint32_t n_bundle)
{
    const uint32_t bundle = spot_get_u32(in);

    in->bad |= bundle >= n_bundle;
    return in->bad ? 0 : bundle;
}

uint32_t spot_get_tensors(struct spot_wire_in *in, const struct spot_shape *shape, uint32_t bundle)
{
    const uint32_t set = spot_get_u32(in);
    struct spot_arena arena;

    spot_arena_of(shape, (int)bundle, &arena);
    in->bad |= set >> arena.n_tensor != 0;
    return in->bad ? 0 : set;
}

double spot_get_duration(struct spot_wire_in *in)
{
    const double s = spot_get_f64(in);

    in->bad |= !(s >= 0 && s < 1e6);
    return in->bad ? 0 : s;
}

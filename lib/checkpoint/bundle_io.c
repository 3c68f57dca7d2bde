/* SPDX-License-Identifier: MIT */
#include "checkpoint/bundle_io.h"

#include <stdlib.h>
#include <string.h>

#include "comm/wire.h"
#include "common/xalloc.h"
#include "shard/shard_mem.h"

enum { HEAD_BYTE = 16, PARTS = SPOT_PLANES + 1 };

static const char *const part_name[PARTS] = { "master", "m", "v", "exponent" };

static size_t part_elem(const struct spot_bundle *bundle, int part)
{
    return part < SPOT_PLANES ? bundle->arena.n_elem : SPOT_TENSORS_MAX;
}

uint8_t *spot_bundle_pack(const struct spot_bundle *bundle, size_t *n_byte, struct spot_err *err)
{
    struct spot_shard_part part[PARTS];
    struct spot_buf head = { 0 };
    struct spot_buf out = { 0 };

    for (int i = 0; i < PARTS; i++)
        part[i] = (struct spot_shard_part){
            .name = part_name[i],
            .dtype = i < SPOT_PLANES ? SPOT_DT_F32 : SPOT_DT_I32,
            .n_elem = part_elem(bundle, i),
            .data = i < SPOT_PLANES ? (const void *)bundle->plane[i] : bundle->exponent,
        };
    spot_put_i64(&head, bundle->step);
    spot_put_i64(&head, bundle->index);
    spot_buf_add(&out, head.data, head.n);
    spot_buf_release(&head);
    if (spot_shard_encode(part, PARTS, SPOT_CODEC_RAW, &out, err)) {
        spot_buf_release(&out);
        return NULL;
    }
    *n_byte = out.n;
    return out.data;
}

static void name_places(struct spot_bundle *bundle, struct spot_shard_place place[PARTS])
{
    for (int i = 0; i < PARTS; i++)
        place[i] = (struct spot_shard_place){
            .name = part_name[i],
            .dtype = i < SPOT_PLANES ? SPOT_DT_F32 : SPOT_DT_I32,
            .n_elem = part_elem(bundle, i),
            .data = i < SPOT_PLANES ? (void *)bundle->plane[i] : bundle->exponent,
        };
}

int spot_bundle_check_head(int index, int64_t step, const void *data, size_t n_byte,
                           struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(data, n_byte);
    const int64_t got_step = spot_get_i64(&in), got_index = spot_get_i64(&in);

    if (!in.bad && got_step == step && got_index == index)
        return 0;
    return spot_err_set(err, SPOT_EDATA,
                        "expected bundle %d of step %lld, got bundle %lld of step %lld", index,
                        (long long)step, (long long)got_index, (long long)got_step);
}

struct spot_bundle *spot_bundle_unpack(const struct spot_shape *shape, int index, int64_t step,
                                       const void *data, size_t n_byte, struct spot_err *err)
{
    struct spot_shard_place place[PARTS];
    struct spot_bundle *bundle;

    if (spot_bundle_check_head(index, step, data, n_byte, err))
        return NULL;
    bundle = spot_xcalloc(1, sizeof(*bundle));
    if (spot_bundle_init(bundle, shape, index, err)) {
        free(bundle);
        return NULL;
    }
    name_places(bundle, place);
    if (spot_shard_decode((const uint8_t *)data + HEAD_BYTE, n_byte - HEAD_BYTE, place, PARTS,
                          err)) {
        spot_bundle_free(bundle);
        return NULL;
    }
    bundle->step = step;
    return bundle;
}

int spot_bundle_check(const struct spot_shape *shape, int index, int64_t step, const void *data,
                      size_t n_byte, struct spot_err *err)
{
    struct spot_bundle bundle = { .index = index };
    struct spot_shard_place place[PARTS];

    if (spot_bundle_check_head(index, step, data, n_byte, err))
        return -1;
    spot_arena_of(shape, index, &bundle.arena);
    name_places(&bundle, place);
    return spot_shard_check((const uint8_t *)data + HEAD_BYTE, n_byte - HEAD_BYTE, place, PARTS,
                            err);
}

void spot_bundle_free(struct spot_bundle *bundle)
{
    if (!bundle)
        return;
    spot_bundle_release(bundle);
    free(bundle);
}

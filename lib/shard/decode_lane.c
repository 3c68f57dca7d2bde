/* SPDX-License-Identifier: MIT */
#include "shard/decode_lane.h"

#include <stdlib.h>

#include "common/xalloc.h"
#include "shard/lane.h"

struct slot {
    struct spot_decode_lane *lane;
    struct spot_coder coder;
    struct spot_chunk chunk;
    struct spot_buf unit, room;
    const void *raw;
};

struct spot_decode_lane {
    struct spot_lane *lane;
    const struct spot_sink *sink;
    struct slot *slot; /* [n_slot] */
    size_t n_slot;
};

static int decode(void *user, struct spot_err *err)
{
    struct slot *s = user;

    return spot_sink_take(s->lane->sink, &s->coder, &s->chunk, s->unit.data + SPOT_CHUNK_HEAD_BYTE,
                          &s->room, &s->raw, err);
}

struct spot_decode_lane *spot_decode_lane_new(uint64_t n_job, uint64_t chunk_byte,
                                              const struct spot_sink *sink, struct spot_err *err)
{
    struct spot_decode_lane *lane = spot_xcalloc(1, sizeof(*lane));
    void **list;
    int n_worker;

    lane->sink = sink;
    spot_lane_size(n_job, 3 * chunk_byte, &n_worker, &lane->n_slot); /* raw, coded, planes */
    lane->slot = spot_xcalloc(lane->n_slot, sizeof(*lane->slot));
    list = spot_xcalloc(lane->n_slot, sizeof(*list));
    for (size_t i = 0; i < lane->n_slot; i++) {
        lane->slot[i].lane = lane;
        spot_coder_init(&lane->slot[i].coder);
        list[i] = &lane->slot[i];
    }
    lane->lane = spot_lane_new(n_worker, list, lane->n_slot, decode, err);
    free(list);
    if (lane->lane)
        return lane;
    spot_decode_lane_free(lane);
    return NULL;
}

void spot_decode_lane_free(struct spot_decode_lane *lane)
{
    if (!lane)
        return;
    spot_lane_free(lane->lane);
    for (size_t i = 0; i < lane->n_slot; i++) {
        spot_coder_release(&lane->slot[i].coder);
        spot_buf_release(&lane->slot[i].unit);
        spot_buf_release(&lane->slot[i].room);
    }
    free(lane->slot);
    free(lane);
}

bool spot_decode_lane_submit(struct spot_decode_lane *lane, const struct spot_chunk *chunk,
                             struct spot_buf *unit)
{
    const size_t n_unit = SPOT_CHUNK_HEAD_BYTE + (size_t)chunk->stored_byte;
    struct slot *s = spot_lane_free_slot(lane->lane);
    struct spot_buf given;

    if (!s)
        return false;
    given = *unit;
    *unit = s->unit;
    s->unit = given;
    unit->n = 0;
    spot_buf_add(unit, given.data + n_unit, given.n - n_unit);
    s->chunk = *chunk;
    spot_lane_submit(lane->lane);
    return true;
}

int spot_decode_lane_reap(struct spot_decode_lane *lane, const struct spot_chunk **chunk,
                          const void **raw, struct spot_err *err)
{
    int rc;
    const struct slot *s = spot_lane_reap(lane->lane, &rc, err);

    if (!s)
        return 0;
    *chunk = &s->chunk;
    *raw = s->raw;
    return rc ? -1 : 1;
}

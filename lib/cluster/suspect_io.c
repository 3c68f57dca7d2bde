/* SPDX-License-Identifier: MIT */
#include "cluster/suspect_io.h"

#include <string.h>

void spot_suspect_io_put(struct spot_buf *out, const struct spot_mesh_suspect *suspect, size_t n)
{
    uint32_t n_reported = 0;

    for (size_t i = 0; i < n; i++)
        n_reported += suspect[i].id != 0;
    spot_put_u32(out, n_reported);
    for (size_t i = 0; i < n; i++)
        if (suspect[i].id) {
            spot_put_u32(out, suspect[i].id);
            spot_put_u32(out, suspect[i].has_answered);
            spot_put_text(out, suspect[i].why);
        }
}

uint32_t spot_suspect_io_count(struct spot_wire_in *in)
{
    const uint32_t n = spot_get_count(in, 12);

    in->bad |= n > SPOT_SUSPECTS_MAX;
    return n;
}

bool spot_suspect_io_get(struct spot_wire_in *in, uint32_t *left, struct spot_mesh_suspect *suspect)
{
    if (in->bad || !*left)
        return false;
    --*left;
    memset(suspect, 0, sizeof(*suspect));
    suspect->id = spot_get_u32(in);
    suspect->has_answered = spot_get_u32(in) != 0;
    spot_get_plain(in, suspect->why, sizeof(suspect->why));
    return !in->bad;
}

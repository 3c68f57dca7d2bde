/* SPDX-License-Identifier: MIT */
#include "comm/nccl_id.h"

#include <stdlib.h>
#include <string.h>

int spot_nccl_share_id(const struct spot_nccl *nccl, struct spot_mesh *mesh, uint32_t me,
                       const uint32_t *member, size_t n, uint32_t type, uint64_t tag,
                       uint8_t id[SPOT_NCCL_ID_BYTE], struct spot_err *err)
{
    struct spot_frame *frame;

    if (member[0] == me) {
        if (nccl->new_id(id, err))
            return -1;
        for (size_t i = 1; i < n; i++)
            if (spot_mesh_send(mesh, member[i], type, tag, id, SPOT_NCCL_ID_BYTE, err))
                return -1;
        return 0;
    }
    frame = spot_mesh_recv(mesh, member[0], type, tag, err);
    if (!frame)
        return -1;
    if (frame->n_byte == SPOT_NCCL_ID_BYTE)
        memcpy(id, frame->data, SPOT_NCCL_ID_BYTE);
    else
        spot_err_set(err, SPOT_ESYS, "member %u sent %zu bytes for NCCL's id of %d",
                     (unsigned)member[0], frame->n_byte, SPOT_NCCL_ID_BYTE);
    n = frame->n_byte;
    free(frame);
    return n == SPOT_NCCL_ID_BYTE ? 0 : -1;
}

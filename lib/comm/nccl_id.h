/* SPDX-License-Identifier: MIT */
/* nccl_id.h - how members that connect by NCCL agree on a communicator. */
#ifndef SPOT_COMM_NCCL_ID_H
#define SPOT_COMM_NCCL_ID_H

#include "comm/comm_nccl.h"
#include "comm/mesh.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first of member[n] creates the id and sends it to the others, in frames of this type and tag;
 * all of them call this. Returns 0, or -1 with *err of comm.h. */
int spot_nccl_share_id(const struct spot_nccl *nccl, struct spot_mesh *mesh, uint32_t me,
                       const uint32_t *member, size_t n, uint32_t type, uint64_t tag,
                       uint8_t id[SPOT_NCCL_ID_BYTE], struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_NCCL_ID_H */

/* SPDX-License-Identifier: MIT */
/* comm_socket.h - the communicator over the mesh's connections, for host memory and int64 sums. */
#ifndef SPOT_COMM_COMM_SOCKET_H
#define SPOT_COMM_COMM_SOCKET_H

#include "comm/comm.h"
#include "comm/mesh.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Types of the frames of a sum, by the steps of sum_route.h. */
struct spot_comm_socket_types {
    uint32_t scatter, collect, spread, gather;
};

/* Create a communicator for the mesh's current epoch; the mesh is borrowed. */
struct spot_comm *spot_comm_socket_open(struct spot_mesh *mesh, const struct spot_comm_place *place,
                                        const struct spot_comm_socket_types *types);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_COMM_SOCKET_H */

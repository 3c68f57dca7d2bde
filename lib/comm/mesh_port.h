/* SPDX-License-Identifier: MIT */
/* mesh_port.h - a port whose bytes travel as frames of a mesh, between two members of an epoch.
 *
 * The mesh's threads at both ends move frames independently of the callers, so two members that
 * both write before they read do not deadlock. Waits end as all waits of a mesh do; the end of the
 * epoch gives SPOT_EPREEMPTED.
 */
#ifndef SPOT_COMM_MESH_PORT_H
#define SPOT_COMM_MESH_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "comm/mesh.h"
#include "common/port.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Uses frames of this type and tag to and from `peer` only. A write waits while more than
 * queue_byte are queued for the peer; 0: it never waits for room. */
struct spot_port *spot_mesh_port(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                                 size_t queue_byte);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_MESH_PORT_H */

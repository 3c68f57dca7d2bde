/* SPDX-License-Identifier: MIT */
/* suspect_io.h - how a worker reports to the coordinator which peers it cannot reach. */
#ifndef SPOT_CLUSTER_SUSPECT_IO_H
#define SPOT_CLUSTER_SUSPECT_IO_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/mesh.h"
#include "comm/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SUSPECTS_MAX = 512 };

/* u32 count, then for each u32 id, u32 has answered, text why. Entries of id 0 are left out. */
void spot_suspect_io_put(struct spot_buf *out, const struct spot_mesh_suspect *suspect, size_t n);

/* Read the next of the *left entries announced; its `why` is made safe to print. False at the end,
 * or when in->bad. */
bool spot_suspect_io_get(struct spot_wire_in *in, uint32_t *left,
                         struct spot_mesh_suspect *suspect);
/* Read how many entries follow. */
uint32_t spot_suspect_io_count(struct spot_wire_in *in);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_SUSPECT_IO_H */

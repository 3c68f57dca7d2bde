/* SPDX-License-Identifier: MIT */
/* probe.h - finds out which workers can be reached from here: connects to all of them, and verifies
 * that the right worker answers. */
#ifndef SPOT_COMM_PROBE_H
#define SPOT_COMM_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/mesh.h"
#include "comm/tls.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_probe_config {
    const struct spot_tls_context *tls; /* the job's key; NULL: local connections only */
    uint64_t key;                       /* the job's secret for peers */
    uint32_t type_probe, type_pong;     /* see struct spot_mesh_config */
    double limit_s;                     /* time limit for an answer */
    bool (*is_over)(void *user);        /* true when the thread is needed elsewhere; NULL: never */
    void *user;
};

/* (*found)[i].id becomes 0 if peer[i] answered, otherwise the id of peer[i], or `me` if this
 * process is out of descriptors, with the reason in `why`. Returns 0, or 1 when interrupted, with
 * no result. Silent peers are waited for in groups of sixteen, limit_s each. */
int spot_probe(const struct spot_probe_config *config, uint32_t me,
               const struct spot_mesh_peer *peer, size_t n, struct spot_mesh_suspect *found);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_PROBE_H */

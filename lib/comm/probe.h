/* SPDX-License-Identifier: MIT */
/* probe.h - which workers can be reached from here: dials them all, and hears whether it is they
 * who answer. */
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
    const struct spot_tls_context *tls; /* the job's key, NULL: nothing leaves this machine */
    uint64_t key;                       /* the job's secret for peers */
    uint32_t type_probe, type_pong;     /* see struct spot_mesh_config */
    double limit_s;                     /* who has not answered by then is not reached */
    bool (*is_over)(void *user);        /* somebody wants this thread; NULL: never */
    void *user;
};

/* (*found)[i].id becomes 0 where peer[i] answered, else its own, or `me` where it is this process
 * that has no descriptor left, and `why` says what was wrong. Returns 0, or 1 when it was
 * interrupted and nothing is known. Waits for limit_s, for each sixteen of those who are silent. */
int spot_probe(const struct spot_probe_config *config, uint32_t me,
               const struct spot_mesh_peer *peer, size_t n, struct spot_mesh_suspect *found);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_PROBE_H */

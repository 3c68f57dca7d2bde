/* SPDX-License-Identifier: MIT */
/* comm_nccl.h - the communicator over NCCL, between devices.
 *
 * Part of spot_cuda.so, which opens libnccl.so.2 (or the file in SPOT_NCCL_LIBRARY) on demand: the
 * module works without it. NCCL does not tell survivors that a member died; their kernels spin. So
 * no function here blocks in NCCL: communicators are non-blocking, and every wait polls the stream,
 * the communicator and `check`. If one of them fails the communicator is aborted at once, which
 * ends its kernels.
 */
#ifndef SPOT_COMM_COMM_NCCL_H
#define SPOT_COMM_COMM_NCCL_H

#include "comm/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_NCCL_ID_BYTE = 128 };

struct spot_nccl_open {
    struct spot_comm_place place;
    const uint8_t *member_id;  /* [SPOT_NCCL_ID_BYTE] of this epoch, the same for all members */
    const uint8_t *replica_id; /* the same for all replicas; NULL if n_replica < 2 */
    /* Returns -1 with *err if the current wait must end, else 0; called about every millisecond. */
    int (*check)(void *user, struct spot_err *err);
    void *user;
    double timeout_s;    /* > 0, for connecting all members */
    double call_limit_s; /* > 0, for one call of NCCL that should not block */
};

struct spot_nccl {
    /* Check that NCCL is present and new enough. Returns 0, or -1 with *err (SPOT_EGPU) that names
     * both versions. */
    int (*probe)(struct spot_err *err);
    /* Create the id of a future communicator; this process must live until all are connected.
     * Returns 0, or -1 with *err (SPOT_EGPU). */
    int (*new_id)(uint8_t id[SPOT_NCCL_ID_BYTE], struct spot_err *err);
    /* Connects; returns when all members are connected. NULL with *err as in comm.h. */
    struct spot_comm *(*open)(const struct spot_nccl_open *how, struct spot_err *err);
    /* True if a call did not return within its limit. NCCL's kernels may then block the device: no
     * thread may wait for it, and the process must end. */
    bool (*is_held)(void);
};

extern const struct spot_nccl spot_nccl;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_COMM_NCCL_H */

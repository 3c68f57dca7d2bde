/* SPDX-License-Identifier: MIT */
/* comm_nccl.h - the communicator over NCCL, between devices.
 *
 * Part of spot_cuda.so, which opens libnccl.so.2 (or the file in SPOT_NCCL_LIBRARY) when it is
 * asked for: the module runs where there is none. NCCL does not tell survivors that a member died;
 * their kernels spin. So nothing here blocks in NCCL: communicators are non-blocking, every wait
 * polls the stream, the communicator and `check`, and when one of them says no the communicator is
 * aborted at once, which ends its kernels.
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
    const uint8_t *replica_id; /* the same for all replicas; NULL where n_replica < 2 */
    /* Must this wait end? Returns 0, or -1 with *err; called about every millisecond. */
    int (*check)(void *user, struct spot_err *err);
    void *user;
    double timeout_s; /* > 0, until all are connected */
};

struct spot_nccl {
    /* Is NCCL here and new enough? Returns 0, or -1 with *err (SPOT_EGPU) that names both. */
    int (*probe)(struct spot_err *err);
    /* Names a communicator that is to be; this process must live until all are connected. Returns
     * 0, or -1 with *err (SPOT_EGPU). */
    int (*new_id)(uint8_t id[SPOT_NCCL_ID_BYTE], struct spot_err *err);
    /* Comes back when all members are connected. NULL with *err of comm.h. */
    struct spot_comm *(*open)(const struct spot_nccl_open *how, struct spot_err *err);
    /* Has a call not come back within 5 s? NCCL's kernels may hold the device then: nothing may
     * wait for it, and the process has to end. */
    bool (*is_held)(void);
};

extern const struct spot_nccl spot_nccl;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_COMM_NCCL_H */

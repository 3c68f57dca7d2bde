/* SPDX-License-Identifier: MIT */
/* comm.h - how the members of an epoch exchange activations and sum gradients.
 *
 * A table of functions, created anew for every epoch: over the mesh's sockets with host memory
 * (comm_socket.h), or over NCCL with device memory (comm_nccl.h). Calls return when everything is
 * done, or with an error as soon as the epoch is over or a member is lost: SPOT_EPREEMPTED for a
 * revoked epoch, SPOT_ESYS for a lost member, SPOT_EGPU for a device or library failure. After an
 * error the object can only be closed.
 */
#ifndef SPOT_COMM_COMM_H
#define SPOT_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A message that one member sends to or receives from another. Both sides give the same type, tag
 * and size; between two members pieces are matched in the order in which they are given. */
struct spot_comm_piece {
    bool is_send;
    uint32_t peer; /* member id, not this member's own */
    uint32_t type;
    uint64_t tag;
    void *data; /* [n_byte], read when sending */
    size_t n_byte;
    bool is_lent; /* the data sent stay unchanged until spot_mesh_keep */
};

enum spot_comm_number { SPOT_COMM_I64, SPOT_COMM_F32 };

/* Numbers to be replaced by their sum over the replicas; host memory must then stay unchanged until
 * spot_mesh_keep. */
struct spot_comm_sum {
    uint64_t tag; /* the same on all replicas, distinct for distinct sums */
    void *data;   /* [n] */
    size_t n;
    bool is_started; /* `start` was called, and the data are unchanged since */
};

/* The participants; borrowed until the object is closed. */
struct spot_comm_place {
    uint32_t me;
    const uint32_t *member; /* [n_member], all ids, in the same order everywhere */
    size_t n_member;
    const uint32_t *replica; /* [n_replica], those that share these sums, self included; 0: none */
    size_t n_replica;
};

struct spot_comm;

struct spot_comm_kind {
    const char *name; /* "sockets", "nccl" */
    bool is_device;   /* data are on the device; `stream`, if any, has queued the work that produces
                         them */
    /* Exchange all pieces at once, so that no member waits for a piece that is sent later. In host
     * memory, a call that only sends does not wait at all. */
    int (*exchange)(struct spot_comm *comm, const struct spot_comm_piece *piece, size_t n,
                    void *stream, struct spot_err *err);
    /* Begin to send the data for an int64 sum that will follow; does not wait. NULL: not
     * supported. */
    int (*start)(struct spot_comm *comm, const struct spot_comm_sum *sum, struct spot_err *err);
    /* int64 sums are exact, hence bit-identical for any number of replicas; sums of floats are
     * equal on all replicas. */
    int (*sum)(struct spot_comm *comm, enum spot_comm_number number,
               const struct spot_comm_sum *sum, size_t n, void *stream, struct spot_err *err);
    void (*close)(struct spot_comm *comm);
};

/* Every kind of communicator begins with this. */
struct spot_comm {
    const struct spot_comm_kind *kind;
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_COMM_H */

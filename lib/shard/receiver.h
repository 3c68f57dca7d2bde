/* SPDX-License-Identifier: MIT */
/* receiver.h - the receiver of a transfer: one file, pulled over any number of ports at once.
 *
 * Ports may lead to one sender or to several holders of the same file. Each requests the next
 * chunks that no port has requested; when none are left, those that other ports are slow to
 * deliver. The chunks of a port that fails are requested again. Chunks are written to a partial
 * file. The sender's hashes of all tensors are requested before the file is renamed into place, and
 * COMMIT is sent afterwards.
 */
#ifndef SPOT_SHARD_RECEIVER_H
#define SPOT_SHARD_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/port.h"
#include "shard/partial_file.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_receiver_options {
    const char *path;
    struct spot_partial_options partial;
    uint64_t window_byte; /* requested and not yet received, per port, default 8 MiB when 0 */
    double silence_s;     /* a sender silent for this long is dead, default 10 when 0 */
};

struct spot_receiver;

struct spot_receiver *spot_receiver_new(const struct spot_receiver_options *options);

/* Waits for all ports to end. */
void spot_receiver_free(struct spot_receiver *receiver);

/* Pull over one more port, in a thread of its own, until the file is complete or the port fails.
 * Returns 0, or -1 with *err (SPOT_ESYS) when no thread can be created; the port is closed in any
 * case. */
int spot_receiver_add(struct spot_receiver *receiver, struct spot_port *port_take,
                      struct spot_err *err);

struct spot_receiver_state {
    bool is_committed;
    bool is_fatal; /* more ports would not help: disk full, source changed, ... */
    int n_port;    /* alive */
    uint64_t have_byte, total_byte, wire_byte;
    struct spot_err err; /* of the last port that failed */
};

/* Wait until one of the first three changes, at most limit_s. */
void spot_receiver_wait(struct spot_receiver *receiver, double limit_s,
                        struct spot_receiver_state *state);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_RECEIVER_H */

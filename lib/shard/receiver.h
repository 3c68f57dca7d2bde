/* SPDX-License-Identifier: MIT */
/* receiver.h - the receiving end of a move: one file, pulled over any number of ports at once.
 *
 * Ports may lead to one sender or to several holders of the same file. Each asks for the next
 * chunks nobody asked for; when none are left, for those that others are slow to bring. A port that
 * dies gives its chunks back. What arrives goes to a partial file. The sender's word on all
 * tensors is asked for before the file is put in its place, and COMMIT is said after.
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
    uint64_t window_byte; /* on their way to one port at once, default 8 MiB when 0 */
    double silence_s;     /* a sender that says nothing for so long is dead, default 10 when 0 */
};

struct spot_receiver;

struct spot_receiver *spot_receiver_new(const struct spot_receiver_options *options);

/* Waits for all ports to end. */
void spot_receiver_free(struct spot_receiver *receiver);

/* Pull over one more port, in a thread of its own, until the file is whole or the port fails.
 * Returns 0, or -1 with *err (SPOT_ESYS) when there is no thread; the port is closed in any case.
 */
int spot_receiver_add(struct spot_receiver *receiver, struct spot_port *port_take,
                      struct spot_err *err);

struct spot_receiver_state {
    bool is_committed;
    bool is_fatal; /* more ports would not help: disk full, source changed, ... */
    int n_port;    /* alive */
    uint64_t have_byte, total_byte, wire_byte;
    struct spot_err err; /* of the last port that failed */
};

/* Wait until something of the first three changes, at most limit_s. */
void spot_receiver_wait(struct spot_receiver *receiver, double limit_s,
                        struct spot_receiver_state *state);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_RECEIVER_H */

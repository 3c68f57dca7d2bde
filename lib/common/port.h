/* SPDX-License-Identifier: MIT */
/* port.h - a two-way byte channel over pipes, a socket, TLS or a test double.
 *
 * Every wait is bounded: a peer that is silent for the port's time limit is an error.
 */
#ifndef SPOT_COMMON_PORT_H
#define SPOT_COMMON_PORT_H

#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A peer that is slower than this, bytes per second, in the middle of a message counts as dead,
 * too. */
enum { SPOT_PORT_RATE_MIN = 4096 };

/* First member of each kind of port. Used by one thread at a time. */
struct spot_port {
    /* Read at least one byte and at most n_byte; *got 0 at the end of the channel. Returns 0, or -1
     * with *err (SPOT_ESYS) when the peer is gone or silent. */
    int (*read)(struct spot_port *port, void *data, size_t n_byte, size_t *got,
                struct spot_err *err);

    /* Write all of it. Returns 0, or -1 with *err (SPOT_ESYS). */
    int (*write)(struct spot_port *port, const void *data, size_t n_byte, struct spot_err *err);

    /* Returns 1 if a read would not block, 0 if nothing arrived for limit_s. */
    int (*wait)(struct spot_port *port, double limit_s);

    void (*close)(struct spot_port *port); /* and free */

    double limit_s; /* limit on silence; 0: none */
};

/* Read exactly n_byte bytes; an earlier end is an error, and so is a peer that is too slow
 * (SPOT_PORT_RATE_MIN, after limit_s). */
int spot_port_read_all(struct spot_port *port, void *data, size_t n_byte, struct spot_err *err);

/* Read and discard until the peer closes or is silent, or has sent for 10 limits at less than
 * SPOT_PORT_RATE_MIN. */
void spot_port_drain(struct spot_port *port);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_PORT_H */

/* SPDX-License-Identifier: MIT */
/* port.h - a two-way byte channel, whatever it is made of: pipes, a socket, TLS, a test.
 *
 * Every wait has an end: a peer that is silent for the port's time limit is an error.
 */
#ifndef SPOT_COMMON_PORT_H
#define SPOT_COMMON_PORT_H

#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes per second below which a peer in the middle of a message is dead, too. */
enum { SPOT_PORT_RATE_MIN = 4096 };

/* First member of each kind of port. Used by one thread at a time. */
struct spot_port {
    /* At least one byte, at most n_byte; *got 0 at the end of the channel. -1 with *err
     * (SPOT_ESYS) when the peer is gone or silent. */
    int (*read)(struct spot_port *port, void *data, size_t n_byte, size_t *got,
                struct spot_err *err);

    /* All of it, or -1 with *err (SPOT_ESYS). */
    int (*write)(struct spot_port *port, const void *data, size_t n_byte, struct spot_err *err);

    /* 1 if a read would not wait, 0 if nothing came for limit_s. */
    int (*wait)(struct spot_port *port, double limit_s);

    void (*close)(struct spot_port *port); /* and free */

    double limit_s; /* of a silence; 0: none */
};

/* Exactly n_byte bytes; an end before is an error, and so is a peer that hands them out one by one
 * (SPOT_PORT_RATE_MIN, after limit_s). */
int spot_port_read_all(struct spot_port *port, void *data, size_t n_byte, struct spot_err *err);

/* Take what comes off a peer's hands until it leaves or is silent, or goes on for 10 limits at
 * less than SPOT_PORT_RATE_MIN. */
void spot_port_drain(struct spot_port *port);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_PORT_H */

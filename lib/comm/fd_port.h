/* SPDX-License-Identifier: MIT */
/* fd_port.h - a port (common/port.h) over file descriptors: pipes, a socket. */
#ifndef SPOT_COMM_FD_PORT_H
#define SPOT_COMM_FD_PORT_H

#include "common/port.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two descriptors, which may be equal; both are closed with the port. A silence of limit_s is an
 * error. The descriptors are made non-blocking. */
struct spot_port *spot_port_fd(int in, int out, double limit_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_FD_PORT_H */

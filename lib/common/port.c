/* SPDX-License-Identifier: MIT */
#include "common/port.h"

#include <stdbool.h>

#include "common/clock.h"

/* Silence limits within which a busy peer should have read everything and closed. */
enum { DRAIN_LIMITS = 10 };

/* True for a peer that is never silent for limit_s, but too slow. */
static bool is_too_slow(double limit_s, double start_s, size_t n_byte)
{
    return limit_s > 0 && spot_clock_s() - start_s > limit_s + (double)n_byte / SPOT_PORT_RATE_MIN;
}

int spot_port_read_all(struct spot_port *port, void *data, size_t n_byte, struct spot_err *err)
{
    const double start_s = spot_clock_s();
    size_t done = 0, got;

    while (done < n_byte) {
        if (port->read(port, (char *)data + done, n_byte - done, &got, err))
            return -1;
        if (!got)
            return spot_err_set(err, SPOT_ESYS, "the peer has closed the connection");
        done += got;
        if (done < n_byte && is_too_slow(port->limit_s, start_s, done))
            return spot_err_set(err, SPOT_ESYS, "the peer sent only %zu bytes in %.3g s", done,
                                spot_clock_s() - start_s);
    }
    return 0;
}

void spot_port_drain(struct spot_port *port)
{
    const double start_s = spot_clock_s();
    char waste[4096];
    size_t done = 0, got;

    while (!is_too_slow(DRAIN_LIMITS * port->limit_s, start_s, done) &&
           !port->read(port, waste, sizeof(waste), &got, NULL) && got)
        done += got;
}

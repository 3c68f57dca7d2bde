/* SPDX-License-Identifier: MIT */
/* mhd_state.h - libmicrohttpd, opened by the first server that needs it. */
#ifndef SPOT_COMM_MHD_STATE_H
#define SPOT_COMM_MHD_STATE_H

#include <microhttpd.h>

#include "common/late_library.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_MHD_EACH_FUNCTION(x)                                                              \
    x(add_response_header) x(create_response_from_buffer) x(create_response_from_callback)     \
        x(destroy_response) x(get_connection_info) x(get_connection_values) x(get_daemon_info) \
            x(get_timeout) x(lookup_connection_value) x(queue_response) x(resume_connection)   \
                x(run) x(start_daemon) x(stop_daemon) x(suspend_connection)
#define SPOT_MHD_FIELD(name) __typeof__(&(MHD_##name)) name;

/* Its functions MHD_..., once spot_mhd_need returned 0. */
extern struct spot_mhd {
    SPOT_MHD_EACH_FUNCTION(SPOT_MHD_FIELD)
} spot_mhd;

/* Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_mhd_need(struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_MHD_STATE_H */

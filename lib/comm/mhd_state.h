/* SPDX-License-Identifier: MIT */
/* mhd_state.h - libmicrohttpd, opened by the first server that needs it. */
#ifndef SPOT_COMM_MHD_STATE_H
#define SPOT_COMM_MHD_STATE_H

#include <microhttpd.h>

#include "common/late_library.h"

#define SPOT_MHD_EACH_FUNCTION(x)                                                               \
    x(MHD_add_response_header) x(MHD_create_response_from_buffer)                               \
        x(MHD_create_response_from_callback) x(MHD_destroy_response) x(MHD_get_connection_info) \
            x(MHD_get_connection_values) x(MHD_get_daemon_info) x(MHD_get_timeout)              \
                x(MHD_lookup_connection_value) x(MHD_queue_response) x(MHD_resume_connection)   \
                    x(MHD_run) x(MHD_start_daemon) x(MHD_stop_daemon) x(MHD_suspend_connection)

/* Its functions, once spot_mhd_need returned 0. */
extern struct spot_mhd {
    SPOT_MHD_EACH_FUNCTION(SPOT_LATE_FIELD)
} spot_mhd;

/* Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_mhd_need(struct spot_err *err);

#endif /* SPOT_COMM_MHD_STATE_H */

/* SPDX-License-Identifier: MIT */
/* http_host.h - calls that a web page makes behind the back of who looks at it.
 *
 * A server without keys that listens on this machine alone is in reach of each page in a browser
 * here. A page whose name was made to lead here (DNS rebinding) names itself in Host; who connects
 * to an address does not. Any other page is told by the browser in Origin.
 */
#ifndef SPOT_COMM_HTTP_HOST_H
#define SPOT_COMM_HTTP_HOST_H

#include <stdbool.h>

#include "comm/http.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The call names localhost or an IP address as its host, or none. */
bool spot_http_host_is_address(const struct spot_http_call *call);
/* The call comes from no page, or from one of this very server. */
bool spot_http_origin_is_own(const struct spot_http_call *call);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_HOST_H */

/* SPDX-License-Identifier: MIT */
/* http_host.h - detects requests that a web page makes without its user's knowledge.
 *
 * A server without keys that listens on this machine only can be reached by every page in a browser
 * here. A page whose name was made to resolve to this machine (DNS rebinding) puts its name in
 * Host; a client that connects to an address does not. Other pages are identified by the browser in
 * Origin. */
#ifndef SPOT_COMM_HTTP_HOST_H
#define SPOT_COMM_HTTP_HOST_H

#include <stdbool.h>

#include "comm/http.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The host asked is localhost, an IP address, or absent. */
bool spot_http_host_is_address(const struct spot_http_call *call);
/* Origin is absent, or names this server. */
bool spot_http_origin_is_own(const struct spot_http_call *call);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_HOST_H */

/* SPDX-License-Identifier: MIT */
/* http_framing.h - the body length of a request according to its headers (RFC 9112, 6.3); private
 * to lib/comm/http*.c.
 *
 * If a proxy in front reads them differently, the end of one request becomes the start of another
 * (request smuggling): ambiguous headers are rejected.
 */
#ifndef SPOT_COMM_HTTP_FRAMING_H
#define SPOT_COMM_HTTP_FRAMING_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct MHD_Connection; /* libmicrohttpd's */

/* *n_byte: 0, no body; SIZE_MAX: chunked. False: Content-Length is repeated or combined with
 * Transfer-Encoding, or the latter is not "chunked". libmicrohttpd itself rejects a length that is
 * not a number. */
bool spot_http_framing(struct MHD_Connection *connection, size_t *n_byte);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_FRAMING_H */

/* SPDX-License-Identifier: MIT */
/* http_framing.h - how long a body is, as the headers of its call say (RFC 9112, 6.3); private to
 * lib/comm/http*.c.
 *
 * Who reads them differently from a proxy in front takes the end of one call for the start of
 * another: what can be read in two ways is refused.
 */
#ifndef SPOT_COMM_HTTP_FRAMING_H
#define SPOT_COMM_HTTP_FRAMING_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct MHD_Connection; /* libmicrohttpd's */

/* *n_byte: 0, no body; SIZE_MAX: it comes in chunks. False: Content-Length is there twice or beside
 * Transfer-Encoding, or that is another than "chunked". libmicrohttpd itself refuses a length that
 * is no number. */
bool spot_http_framing(struct MHD_Connection *connection, size_t *n_byte);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_FRAMING_H */

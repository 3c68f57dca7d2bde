/* SPDX-License-Identifier: MIT */
/* rank_ask.h - the client side of rank_socket.h: a rank's requests to its agent. */
#ifndef SPOT_HOST_RANK_ASK_H
#define SPOT_HOST_RANK_ASK_H

#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_RANK_ANSWER_MAX = 1 << 20 }; /* bytes of an answer */

/* Send a request, one line without its newline, to the socket at `path`, and wait for the answer,
 * which may depend on other ranks. *answer gets the line without its newline. Returns 0, or -1 with
 * *err: SPOT_ESYS when the socket does not accept connections, or the agent exits or does not
 * answer within limit_s, SPOT_EDATA for an answer that is too long. The caller must ignore
 * SIGPIPE. */
int spot_rank_ask(const char *path, const char *request, size_t n_byte, double limit_s,
                  struct spot_buf *answer, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_ASK_H */

/* SPDX-License-Identifier: MIT */
/* serve_follow.h - the weights of a running job, as directories of models in memory for a server.
 */
#ifndef SPOT_RUN_SERVE_FOLLOW_H
#define SPOT_RUN_SERVE_FOLLOW_H

#include "serve/server.h"

/* "ADDR" or "ADDR,N": weights of the job there, every N commits (1). Sets `follow` and `drop` of
 * the server, whose model and key file it uses. Returns 0, or -1 with *err. */
int serve_follow_begin(const char *text, struct spot_server_options *server, struct spot_err *err);
void serve_follow_end(void); /* also when nothing is followed */

#endif /* SPOT_RUN_SERVE_FOLLOW_H */

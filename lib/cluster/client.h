/* SPDX-License-Identifier: MIT */
/* client.h - sends one question to a running job. */
#ifndef SPOT_CLUSTER_CLIENT_H
#define SPOT_CLUSTER_CLIENT_H

#include "cluster/protocol.h"
#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Send a client message and wait for the answer; its text is appended to `answer`. key_file is the
 * job's, or NULL. For wait_s > 0, connecting is retried for this time while nothing listens or the
 * listener is not a job; 0: one attempt. In both cases the answer may take 10 s after the question
 * was sent, 120 s if the workload answers (from SPOT_MSG_CLIENT_FIRST on), and a day for
 * SPOT_MSG_STOP, which the job answers when it has stopped. Returns the exit status that the job
 * sent, or -1 with *err (SPOT_EUSAGE, SPOT_ESYS, SPOT_EINFEASIBLE for a job with another key). */
int spot_client_ask(const char *join, const char *key_file, double wait_s, enum spot_message type,
                    const void *data, size_t n_byte, struct spot_buf *answer, struct spot_err *err);

/* The same for long answers: *answer is the received frame, to be freed; NULL on -1. If
 * silence_s > 0, a job of which nothing arrives for this time is given up: a frozen one does not
 * hold the caller for the whole time of an answer. */
struct spot_frame;
int spot_client_take(const char *join, const char *key_file, double wait_s, double silence_s,
                     enum spot_message type, const void *data, size_t n_byte,
                     struct spot_frame **answer, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_CLIENT_H */

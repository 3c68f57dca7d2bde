/* SPDX-License-Identifier: MIT */
/* transfer_protocol.h - the messages between sender and receiver of a transfer.
 *
 * 24 bytes: u32 magic | u32 type | u32 payload bytes | u32 check | u64 argument; then the payload.
 * The check covers the header and the payload, except for chunks, which carry their own.
 *
 *   both      HELLO   argument: version; payload: "send" or "recv"
 *             BEAT    keepalive
 *             FAIL    payload: why; the last message
 *   sender    HEAD    HEAD of the stream, as in a file
 *             CHUNK   header and frames, as in a file
 *             SUMS    16 bytes for each tensor: low and high half of its hash
 *   receiver  WANT    runs of chunks, u32 first, u32 count each, wanted in this order
 *             CREDIT  argument: how many more bytes of CHUNK messages may be in flight
 *             ASK     send SUMS
 *             COMMIT  the file is complete, verified and durable: the source may be released
 */
#ifndef SPOT_SHARD_TRANSFER_PROTOCOL_H
#define SPOT_SHARD_TRANSFER_PROTOCOL_H

#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/port.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_TRANSFER_VERSION = 1, SPOT_TRANSFER_HEAD = 24, SPOT_TRANSFER_PAYLOAD_MAX = 104 << 20 };

enum spot_transfer_type {
    SPOT_TRANSFER_MSG_HELLO = 1,
    SPOT_TRANSFER_MSG_BEAT,
    SPOT_TRANSFER_MSG_FAIL,
    SPOT_TRANSFER_MSG_HEAD,
    SPOT_TRANSFER_MSG_CHUNK,
    SPOT_TRANSFER_MSG_SUMS,
    SPOT_TRANSFER_MSG_WANT,
    SPOT_TRANSFER_MSG_CREDIT,
    SPOT_TRANSFER_MSG_ASK,
    SPOT_TRANSFER_MSG_COMMIT,
    SPOT_TRANSFER_MSG_TYPES,
};

struct spot_transfer_message {
    enum spot_transfer_type type;
    uint64_t argument;
    struct spot_buf payload; /* reused from message to message */
};

/* Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_transfer_send(struct spot_port *port, enum spot_transfer_type type, uint64_t argument,
                       const void *payload, size_t n_byte, struct spot_err *err);

/* The next message. Returns 0, or -1 with *err: SPOT_ESYS when the connection is closed or silent,
 * SPOT_EDATA for an invalid message, the peer's reason for FAIL. */
int spot_transfer_receive(struct spot_port *port, struct spot_transfer_message *message,
                          struct spot_err *err);

/* Seconds between two BEATs of a side that works without sending, for a peer that presumes it dead
 * after silence_s: a second at most. */
double spot_transfer_beat_s(double silence_s);

/* Exchange HELLO. `role` is "send" or "recv"; the peer must have the other role and the same
 * version. */
int spot_transfer_meet(struct spot_port *port, const char *role, struct spot_err *err);

/* Send FAIL with the reason; errors of sending are ignored. */
void spot_transfer_fail(struct spot_port *port, const struct spot_err *why);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_TRANSFER_PROTOCOL_H */

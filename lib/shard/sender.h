/* SPDX-License-Identifier: MIT */
/* sender.h - the sender of a transfer: one file, served to any number of ports at once.
 *
 * The receiver says which chunks to send and how many bytes may be in flight; the sender codes and
 * sends, and is done when one receiver has committed. Memory is two chunks per port.
 */
#ifndef SPOT_SHARD_SENDER_H
#define SPOT_SHARD_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/port.h"
#include "shard/range.h"
#include "shard/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_sender_options {
    enum spot_codec codec; /* AUTO: chosen for each chunk, see adapt.h */
    uint32_t chunk_byte;   /* SPOT_CHUNK_BYTE when 0 */
    const char *source;
    double silence_s;  /* a receiver silent for this long is dead; default 30 when 0 */
    double deadline_s; /* on spot_clock_s: sends nothing after it; 0 for none */
};

struct spot_sender;

/* What `source` points to must outlive the sender. NULL with *err. */
struct spot_sender *spot_sender_new(const struct spot_sender_options *options,
                                    const struct spot_source *source, struct spot_err *err);
void spot_sender_free(struct spot_sender *sender);

/* Serve one receiver until it commits. Thread-safe over ports; `port` stays the caller's. Returns 0
 * when it committed; else -1 with *err: SPOT_ESYS when it is closed or silent, SPOT_EDATA for a
 * malformed message, SPOT_EPREEMPTED when the deadline came first. */
int spot_sender_serve(struct spot_sender *sender, struct spot_port *port, struct spot_err *err);

/* Total sent so far, over all ports: raw bytes, and bytes on the wire. */
void spot_sender_progress(struct spot_sender *sender, uint64_t *raw_byte, uint64_t *wire_byte);
uint64_t spot_sender_total(const struct spot_sender *sender); /* raw bytes of the file's data */
bool spot_sender_is_committed(struct spot_sender *sender);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_SENDER_H */

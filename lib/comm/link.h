/* SPDX-License-Identifier: MIT */
/* link.h - framed messages over one non-blocking stream socket.
 *
 * A frame is 32 bytes of header (magic, type, epoch, 0, tag, length; little endian) and a payload.
 * The length is checked against the link's limit before anything is allocated. Not thread-safe.
 */
#ifndef SPOT_COMM_LINK_H
#define SPOT_COMM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/tls.h"
#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_FRAME_HEADER = 32,
    SPOT_LINK_TURN = 8 << 20, /* bytes after which a call of read, send or flush returns */
};

struct spot_frame {
    struct spot_frame *next; /* next frame of the list */
    uint32_t type, epoch;
    uint64_t tag;
    size_t n_byte;
    uint8_t header[SPOT_FRAME_HEADER];
    const uint8_t *lent; /* NULL, or the payload, which is then not in `data` */
    void *given;         /* NULL, or the payload's memory, which the link frees with the frame */
    uint8_t data[];      /* [n_byte] */
};

/* A frame with room for n_byte of payload; freed with free(). NULL when out of memory. */
struct spot_frame *spot_frame_new(uint32_t type, uint32_t epoch, uint64_t tag, size_t n_byte);

struct spot_frame_list {
    struct spot_frame *head, *tail;
};

void spot_frame_push(struct spot_frame_list *list, struct spot_frame *frame_take);
struct spot_frame *spot_frame_pop(struct spot_frame_list *list); /* NULL if the list is empty */
void spot_frame_list_release(struct spot_frame_list *list);

struct spot_link {
    int fd;               /* -1: closed */
    struct spot_tls *tls; /* NULL: no TLS */
    bool is_stranger;     /* read one frame at a time, until the caller has identified the peer */
    size_t payload_max;
    uint8_t header[SPOT_FRAME_HEADER];
    size_t n_header, n_payload;
    struct spot_frame *arriving;
    struct spot_frame_list sending;
    size_t n_sent; /* bytes of the first queued frame already sent, header included */
};

void spot_link_init(struct spot_link *link, int fd_take, size_t payload_max);
void spot_link_release(struct spot_link *link);

/* Use TLS with this key from the first byte on; NULL: no TLS. Returns 0, or -1 with *err and the
 * link closed. The handshake happens during later calls: if the other side does not have the key,
 * read or flush gives SPOT_EINFEASIBLE before any frame is exchanged. */
int spot_link_secure(struct spot_link *link, const struct spot_tls_context *key, bool is_server,
                     struct spot_err *err);

/* Close the connection, and keep what was received. */
void spot_link_close(struct spot_link *link);

/* Shut both directions down and keep the descriptor, so that the owner's poll() sees the end. Used
 * after a partly sent frame, which nothing may follow. */
void spot_link_shutdown(struct spot_link *link);

/* Read what is available, at most about SPOT_LINK_TURN bytes, and append whole frames to `in`;
 * poll() tells whether there is more. Returns 0, or -1 with *err: SPOT_ESYS when the connection is
 * closed, SPOT_EDATA for a bad frame, SPOT_EINFEASIBLE when the peer has another key, or requires
 * one. */
int spot_link_read(struct spot_link *link, struct spot_frame_list *in, struct spot_err *err);

/* Send a payload: as much as the socket accepts now, SPOT_LINK_TURN at most; the rest is copied and
 * queued. */
int spot_link_send(struct spot_link *link, uint32_t type, uint32_t epoch, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err);

/* The same without a copy: queued bytes must not change before spot_link_keep. */
int spot_link_lend(struct spot_link *link, uint32_t type, uint32_t epoch, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err);

/* The same, transferring ownership of the memory to the link, also on failure: *data is empty
 * afterwards. */
int spot_link_submit(struct spot_link *link, uint32_t type, uint32_t epoch, uint64_t tag,
                     struct spot_buf *data_take, struct spot_err *err);

/* Copy lent bytes that are still queued; a frame of an epoch below over_below whose sending has not
 * begun is dropped instead, as it is no longer needed. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_link_keep(struct spot_link *link, uint32_t over_below, struct spot_err *err);

/* Send more of what is queued, for one turn. Returns 0 or -1 with *err (SPOT_ESYS). */
int spot_link_flush(struct spot_link *link, struct spot_err *err);

/* Payload bytes that are queued; the same without those of the first frame already sent. */
size_t spot_link_queued(const struct spot_link *link);
size_t spot_link_left(const struct spot_link *link);

bool spot_link_wants_write(const struct spot_link *link);

/* The shortest round trip that the kernel has measured in the last minutes, in seconds, without
 * delays of acknowledgements; 0: not a network connection, or not known.
 */
double spot_link_round_trip_s(const struct spot_link *link);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_LINK_H */

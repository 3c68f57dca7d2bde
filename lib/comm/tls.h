/* SPDX-License-Identifier: MIT */
/* tls.h - TLS 1.3 with a shared key, required for TCP to other machines; and HTTPS.
 *
 * Both ends prove that they have the key (PSK with an ephemeral Diffie-Hellman exchange: a recorded
 * connection stays secret if the key leaks, a replayed one fails). No certificates, no tickets, no
 * early data, no older protocol. RFC 8446, section 4.2.11. HTTPS uses a certificate instead
 * (spot_tls_context_of_certificate).
 */
#ifndef SPOT_COMM_TLS_H
#define SPOT_COMM_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_TLS_KEY_BYTE = 32 };

/* Read a key: 32 bytes, or 64 hex digits and a newline. Returns 0, or -1 with *err: SPOT_EUSAGE if
 * others than its owner may read the file or the content is not a key, SPOT_ESYS. */
int spot_tls_key_load(const char *path, unsigned char key[SPOT_TLS_KEY_BYTE], struct spot_err *err);

/* A key ready for use by any number of connections, which it must outlive. From a key or a key
 * file; NULL with *err. */
struct spot_tls_context;
struct spot_tls_context *spot_tls_context_new(const unsigned char key[SPOT_TLS_KEY_BYTE],
                                              struct spot_err *err);
struct spot_tls_context *spot_tls_context_load(const char *path, struct spot_err *err);
/* Create a context for servers whose clients do not have the key, from a certificate and its key
 * (PEM files). TLS 1.2 and 1.3 only. NULL with *err: SPOT_ESYS, SPOT_EDATA (the files are not such
 * a pair). */
struct spot_tls_context *spot_tls_context_of_certificate(const char *cert, const char *key,
                                                         struct spot_err *err);
void spot_tls_context_free(struct spot_tls_context *context);

/* One connection; used by one thread at a time. */
struct spot_tls;

/* Perform the handshake over a connected socket, which is closed with the connection, or on
 * failure. limit_s bounds this and every later wait. NULL with *err (SPOT_ESYS): wrong key,
 * silence. */
struct spot_tls *spot_tls_open(int fd_take, bool is_server,
                               const unsigned char key[SPOT_TLS_KEY_BYTE], double limit_s,
                               struct spot_err *err);
void spot_tls_free(struct spot_tls *tls);

/* Like the functions of struct spot_port (common/port.h). */
int spot_tls_read(struct spot_tls *tls, void *data, size_t n_byte, size_t *got,
                  struct spot_err *err);
int spot_tls_write(struct spot_tls *tls, const void *data, size_t n_byte, struct spot_err *err);
int spot_tls_wait(struct spot_tls *tls, double limit_s);

/* Create a connection for event loops, whose handshake continues with each call below; the socket
 * may still be connecting. NULL with *err, the socket closed. */
struct spot_tls *spot_tls_start(int fd_take, bool is_server, const struct spot_tls_context *context,
                                struct spot_err *err);

/* Bytes transferred, 0 if nothing can be done now, -1 with *err: SPOT_EINFEASIBLE if the other side
 * does not have the same key, SPOT_ESYS when the connection is closed. A send that returned 0 must
 * be repeated with the same bytes. Nothing is sent or returned before both sides have proved their
 * key. */
ssize_t spot_tls_recv(struct spot_tls *tls, void *data, size_t n_byte, struct spot_err *err);
ssize_t spot_tls_send(struct spot_tls *tls, const void *data, size_t n_byte, struct spot_err *err);

/* Continue the handshake, if it is not complete. Returns 0, or -1 with *err as above. */
int spot_tls_shake(struct spot_tls *tls, struct spot_err *err);

/* Bytes taken from the socket and not read yet; poll() does not report them. */
size_t spot_tls_pending(const struct spot_tls *tls);

/* Send the end of the TLS stream (close_notify). False: the socket has no room for it now. */
bool spot_tls_end(struct spot_tls *tls);

/* True if the socket must be polled for writing; has_more: there is more to send. */
bool spot_tls_wants_write(const struct spot_tls *tls, bool has_more);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_TLS_H */

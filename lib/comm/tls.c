/* SPDX-License-Identifier: MIT */
#include "comm/tls.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/xalloc.h"

enum { PEM_MAX = 1 << 20 };

static const char identity[] = "spot";

struct spot_tls_context {
    unsigned char key[SPOT_TLS_KEY_BYTE];
    SSL_CTX *side[2]; /* client, server */
};

struct spot_tls {
    int fd;
    double limit_s;                        /* limit of a wait; unused in event loops */
    const struct spot_tls_context *shared; /* the context with its key */
    struct spot_tls_context *own; /* NULL, or the same context if it is freed with the connection */
    SSL *ssl;
};

/* --- the key --- */

static int from_hex(const char *text, size_t n, unsigned char key[SPOT_TLS_KEY_BYTE])
{
    while (n > 2 * SPOT_TLS_KEY_BYTE && isspace((unsigned char)text[n - 1]))
        n--;
    if (n != 2 * SPOT_TLS_KEY_BYTE)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const char *digits = "0123456789abcdef", *d;

        d = text[i] ? strchr(digits, tolower((unsigned char)text[i])) : NULL;
        if (!d)
            return -1;
        key[i / 2] = (unsigned char)(i % 2 ? key[i / 2] | (d - digits) : (d - digits) << 4);
    }
    return 0;
}

int spot_tls_key_load(const char *path, unsigned char key[SPOT_TLS_KEY_BYTE], struct spot_err *err)
{
    char text[2 * SPOT_TLS_KEY_BYTE + 8];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    ssize_t n;
    int rc = -1;

    if (fd < 0)
        return spot_err_sys(err, "cannot open the key file '%s'", path);
    if (fstat(fd, &st) || (n = read(fd, text, sizeof(text))) < 0) {
        rc = spot_err_sys(err, "cannot read the key file '%s'", path);
    } else if (!S_ISREG(st.st_mode) || st.st_mode & 077) {
        rc = spot_err_set(err, SPOT_EUSAGE,
                          "key file '%s': others may read it (mode %04o); chmod 600 it", path,
                          (unsigned)(st.st_mode & 07777));
    } else if (n == SPOT_TLS_KEY_BYTE) {
        memcpy(key, text, SPOT_TLS_KEY_BYTE);
        rc = 0;
    } else {
        rc = from_hex(text, (size_t)n, key);
        if (rc)
            spot_err_set(err, SPOT_EUSAGE, "key file '%s': expected %d bytes or %d hex digits",
                         path, SPOT_TLS_KEY_BYTE, 2 * SPOT_TLS_KEY_BYTE);
    }
    OPENSSL_cleanse(text, sizeof(text));
    close(fd);
    return rc;
}

/* --- shared-key sessions --- */

/* OpenSSL expires sessions after minutes of wall clock time, which may jump; the shared key must
 * not expire. */
static const long session_s = 0x7FFFFFFF;

static int fail(struct spot_err *err, const char *what)
{
    const unsigned long code = ERR_get_error();
    char text[160] = "the connection was closed";

    if (code)
        ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    return spot_err_set(err, SPOT_ESYS, "%s: %s", what, text);
}

static SSL_SESSION *make_session(SSL *ssl)
{
    static const unsigned char aes_128_gcm_sha256[2] = { 0x13, 0x01 };
    const struct spot_tls *tls = SSL_get_app_data(ssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    SSL_SESSION *session = SSL_SESSION_new();

    if (cipher && session &&
        SSL_SESSION_set1_master_key(session, tls->shared->key, SPOT_TLS_KEY_BYTE) &&
        SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_timeout(session, session_s) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *n_id,
                       SSL_SESSION **session)
{
    (void)md;
    *id = (const unsigned char *)identity;
    *n_id = sizeof(identity) - 1;
    *session = make_session(ssl);
    return *session != NULL;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t n_id, SSL_SESSION **session)
{
    *session = NULL;
    if (n_id == sizeof(identity) - 1 && !memcmp(id, identity, n_id))
        *session = make_session(ssl);
    return 1;
}

static SSL_CTX *make_side(bool is_server)
{
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());

    if (!context)
        return NULL;
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* Without a certificate a handshake is possible only with the key. */
    SSL_CTX_set_verify(context, is_server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_psk_find_session_callback(context, find_session);
    SSL_CTX_set_psk_use_session_callback(context, use_session);
    return context;
}

struct spot_tls_context *spot_tls_context_new(const unsigned char key[SPOT_TLS_KEY_BYTE],
                                              struct spot_err *err)
{
    struct spot_tls_context *context = spot_xcalloc(1, sizeof(*context));

    memcpy(context->key, key, SPOT_TLS_KEY_BYTE);
    for (int i = 0; i < 2; i++)
        context->side[i] = make_side(i);
    if (context->side[0] && context->side[1])
        return context;
    fail(err, "TLS");
    spot_tls_context_free(context);
    return NULL;
}

struct spot_tls_context *spot_tls_context_load(const char *path, struct spot_err *err)
{
    unsigned char key[SPOT_TLS_KEY_BYTE];
    struct spot_tls_context *context =
        spot_tls_key_load(path, key, err) ? NULL : spot_tls_context_new(key, err);

    OPENSSL_cleanse(key, sizeof(key));
    return context;
}

/* --- certificates --- */

/* A key with a passphrase is refused, because nobody can be asked for it. */
static int no_passphrase(char *text, int n, int is_writing, void *user)
{
    (void)text;
    (void)n;
    (void)is_writing;
    (void)user;
    return -1;
}

static int use_pair(SSL_CTX *side, const char *cert, const char *key, struct spot_err *err)
{
    const bool is_pair = SSL_CTX_use_certificate_chain_file(side, cert) == 1 &&
                         SSL_CTX_use_PrivateKey_file(side, key, SSL_FILETYPE_PEM) == 1;

    ERR_clear_error();
    if (is_pair)
        return 0;
    return spot_err_set(err, SPOT_EDATA, "%s and %s are not a certificate and key", cert, key);
}

static SSL_CTX *make_certified(const char *cert, const char *key, struct spot_err *err)
{
    SSL_CTX *const side = SSL_CTX_new(TLS_server_method());

    if (!side) {
        fail(err, "TLS");
        return NULL;
    }
    SSL_CTX_set_min_proto_version(side, TLS1_2_VERSION);
    SSL_CTX_set_options(side, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(side, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(side, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(side, no_passphrase);
    if (!use_pair(side, cert, key, err))
        return side;
    SSL_CTX_free(side);
    return NULL;
}

/* Checks a file beforehand: OpenSSL's messages do not say what is wrong with it, and it would block
 * on a pipe. */
static int check_file(const char *path, struct spot_err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *const text = spot_xcalloc(PEM_MAX + 1, 1);
    struct stat st;
    int rc = 0;

    if (fd < 0 || fstat(fd, &st) || (S_ISREG(st.st_mode) && read(fd, text, PEM_MAX) < 0))
        rc = spot_err_sys(err, "%s", path);
    else if (!strstr(text, "-----BEGIN "))
        rc = spot_err_set(err, SPOT_EDATA, "%s: not a PEM file", path);
    if (fd >= 0)
        close(fd);
    free(text);
    return rc;
}

struct spot_tls_context *spot_tls_context_of_certificate(const char *cert, const char *key,
                                                         struct spot_err *err)
{
    struct spot_tls_context *context;

    if (check_file(cert, err) || check_file(key, err))
        return NULL;
    context = spot_xcalloc(1, sizeof(*context));
    context->side[1] = make_certified(cert, key, err);
    if (context->side[1])
        return context;
    spot_tls_context_free(context);
    return NULL;
}

void spot_tls_context_free(struct spot_tls_context *context)
{
    if (!context)
        return;
    for (int i = 0; i < 2; i++)
        SSL_CTX_free(context->side[i]);
    OPENSSL_cleanse(context->key, sizeof(context->key));
    free(context);
}

/* After a call that returned `result`: waits until the call can be repeated. Returns 0: repeat it,
 * 1: clean end, -1 with *err. */
static int settle(struct spot_tls *tls, int result, const char *what, struct spot_err *err)
{
    const int why = SSL_get_error(tls->ssl, result);
    const double end_s = spot_clock_s() + tls->limit_s;
    struct pollfd p = { .fd = tls->fd, .events = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN };

    if (why == SSL_ERROR_ZERO_RETURN)
        return 1;
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        return fail(err, what);
    for (;;) {
        const double left_s = end_s - spot_clock_s();
        const int n = poll(&p, 1, left_s > 0 ? (int)(left_s * 1000) + 1 : 0);

        if (n > 0)
            return 0;
        if (n == 0)
            return spot_err_set(err, SPOT_ESYS, "%s: the peer was silent for %g s", what,
                                tls->limit_s);
        if (errno != EINTR)
            return spot_err_sys(err, "%s", what);
    }
}

/* --- a socket without SIGPIPE --- */

static int bio_done(BIO *bio, ssize_t n, int flag)
{
    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        BIO_set_flags(bio, flag | BIO_FLAGS_SHOULD_RETRY);
    return (int)n;
}

static int bio_fd(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_write(BIO *bio, const char *data, int n)
{
    return bio_done(bio, send(bio_fd(bio), data, (size_t)n, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static int bio_read(BIO *bio, char *data, int n)
{
    return bio_done(bio, recv(bio_fd(bio), data, (size_t)n, 0), BIO_FLAGS_READ);
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "spot socket");
    if (bio_method) {
        BIO_meth_set_write(bio_method, bio_write);
        BIO_meth_set_read(bio_method, bio_read);
        BIO_meth_set_ctrl(bio_method, bio_ctrl);
    }
}

/* OpenSSL's socket BIO uses write(), which raises SIGPIPE when the peer has closed. */
static BIO *make_bio(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    BIO *bio;

    pthread_once(&once, make_bio_method);
    bio = bio_method ? BIO_new(bio_method) : NULL;
    if (bio) {
        BIO_set_data(bio, (void *)(intptr_t)fd);
        BIO_set_init(bio, 1);
    }
    return bio;
}

static int shake_hands(struct spot_tls *tls, bool is_server, struct spot_err *err)
{
    const double end_s = spot_clock_s() + tls->limit_s;

    for (;;) {
        int n, rc;

        ERR_clear_error();
        n = is_server ? SSL_accept(tls->ssl) : SSL_connect(tls->ssl);
        if (n == 1)
            return 0;
        if (spot_clock_s() > end_s)
            return spot_err_set(err, SPOT_ESYS, "TLS handshake: took longer than %g s",
                                tls->limit_s);
        rc = settle(tls, n, "TLS handshake (is the key the same?)", err);
        if (rc)
            return rc < 0 ? -1 : fail(err, "TLS handshake");
    }
}

struct spot_tls *spot_tls_start(int fd_take, bool is_server, const struct spot_tls_context *context,
                                struct spot_err *err)
{
    struct spot_tls *tls = spot_xcalloc(1, sizeof(*tls));
    const int flags = fcntl(fd_take, F_GETFL);
    BIO *bio = make_bio(fd_take);

    tls->fd = fd_take;
    tls->shared = context;
    if (flags >= 0)
        fcntl(fd_take, F_SETFL, flags | O_NONBLOCK);
    tls->ssl = SSL_new(context->side[is_server]);
    if (!tls->ssl || !bio || !SSL_set_app_data(tls->ssl, tls)) {
        BIO_free(bio);
        fail(err, "TLS");
        spot_tls_free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, bio, bio);
    if (is_server)
        SSL_set_accept_state(tls->ssl);
    else
        SSL_set_connect_state(tls->ssl);
    return tls;
}

struct spot_tls *spot_tls_open(int fd_take, bool is_server,
                               const unsigned char key[SPOT_TLS_KEY_BYTE], double limit_s,
                               struct spot_err *err)
{
    struct spot_tls_context *context = spot_tls_context_new(key, err);
    struct spot_tls *tls = context ? spot_tls_start(fd_take, is_server, context, err) : NULL;

    if (!context)
        close(fd_take);
    if (!tls) {
        spot_tls_context_free(context);
        return NULL;
    }
    tls->own = context;
    tls->limit_s = limit_s;
    if (!shake_hands(tls, is_server, err))
        return tls;
    spot_tls_free(tls);
    return NULL;
}

/* Sends close_notify, which shows that nothing was cut off. The socket may have no room for it yet.
 * The other side's is not awaited. */
static void send_end(struct spot_tls *tls)
{
    struct spot_err err = { 0 };
    int rc;

    do {
        ERR_clear_error();
        rc = SSL_shutdown(tls->ssl);
    } while (rc < 0 && tls->limit_s > 0 && !settle(tls, rc, "cannot end", &err));
}

bool spot_tls_end(struct spot_tls *tls)
{
    int rc;

    if (!SSL_is_init_finished(tls->ssl))
        return true;
    ERR_clear_error();
    rc = SSL_shutdown(tls->ssl);
    return rc >= 0 || SSL_get_error(tls->ssl, rc) != SSL_ERROR_WANT_WRITE;
}

void spot_tls_free(struct spot_tls *tls)
{
    if (!tls)
        return;
    if (tls->ssl && SSL_is_init_finished(tls->ssl))
        send_end(tls);
    ERR_clear_error();
    SSL_free(tls->ssl);
    spot_tls_context_free(tls->own);
    close(tls->fd);
    free(tls);
}

int spot_tls_read(struct spot_tls *tls, void *data, size_t n_byte, size_t *got,
                  struct spot_err *err)
{
    for (;;) {
        int rc;

        ERR_clear_error();
        rc = SSL_read_ex(tls->ssl, data, n_byte, got);
        if (rc == 1)
            return 0;
        *got = 0;
        rc = settle(tls, rc, "cannot read from the peer", err);
        if (rc)
            return rc < 0 ? -1 : 0;
    }
}

int spot_tls_write(struct spot_tls *tls, const void *data, size_t n_byte, struct spot_err *err)
{
    const char *at = data;

    while (n_byte) {
        size_t done = 0;
        int rc;

        ERR_clear_error();
        rc = SSL_write_ex(tls->ssl, at, n_byte, &done);
        at += done;
        n_byte -= done;
        if (rc == 1)
            continue;
        rc = settle(tls, rc, "cannot write to the peer", err);
        if (rc)
            return rc < 0 ? -1 : spot_err_set(err, SPOT_ESYS, "the peer has closed the connection");
    }
    return 0;
}

/* OpenSSL does not answer a client that does not use TLS; an alert gives it a clear error. */
static void refuse_plain(const struct spot_tls *tls)
{
    static const unsigned char alert[] = { 21, 3, 3, 0, 2, 2, 70 }; /* fatal, protocol_version */

    if (SSL_is_server(tls->ssl) && ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER)
        (void)!send(tls->fd, alert, sizeof(alert), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* After a call that does not wait. Returns 0 if nothing can be done now, -1 with *err. */
static ssize_t settle_now(struct spot_tls *tls, struct spot_err *err)
{
    const int why = SSL_get_error(tls->ssl, 0);

    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return 0;
    refuse_plain(tls);
    ERR_clear_error();
    if (why == SSL_ERROR_SSL && !SSL_is_init_finished(tls->ssl))
        return spot_err_set(err, SPOT_EINFEASIBLE, "the other side has another key, or none");
    if (!SSL_is_init_finished(tls->ssl))
        return spot_err_set(err, SPOT_ESYS,
                            "the peer closed the connection when TLS began; does it have a key?");
    return spot_err_set(err, SPOT_ESYS, "the peer has closed the connection");
}

ssize_t spot_tls_recv(struct spot_tls *tls, void *data, size_t n_byte, struct spot_err *err)
{
    size_t got = 0;

    ERR_clear_error();
    return SSL_read_ex(tls->ssl, data, n_byte, &got) == 1 ? (ssize_t)got : settle_now(tls, err);
}

ssize_t spot_tls_send(struct spot_tls *tls, const void *data, size_t n_byte, struct spot_err *err)
{
    size_t done = 0;

    ERR_clear_error();
    return SSL_write_ex(tls->ssl, data, n_byte, &done) == 1 ? (ssize_t)done : settle_now(tls, err);
}

size_t spot_tls_pending(const struct spot_tls *tls)
{
    return (size_t)SSL_pending(tls->ssl);
}

int spot_tls_shake(struct spot_tls *tls, struct spot_err *err)
{
    if (SSL_is_init_finished(tls->ssl))
        return 0;
    ERR_clear_error();
    return SSL_do_handshake(tls->ssl) == 1 ? 0 : (int)settle_now(tls, err);
}

bool spot_tls_wants_write(const struct spot_tls *tls, bool has_more)
{
    return SSL_is_init_finished(tls->ssl) ? has_more : SSL_want_write(tls->ssl);
}

int spot_tls_wait(struct spot_tls *tls, double limit_s)
{
    struct pollfd p = { .fd = tls->fd, .events = POLLIN };

    return SSL_pending(tls->ssl) > 0 || poll(&p, 1, (int)(limit_s * 1000)) > 0;
}

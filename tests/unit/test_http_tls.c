/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/http.h"
#include "identity_rig.h"
#include "suite.h"

/* Goal: HTTPS is TLS 1.2 or 1.3, and says what HTTP would; who speaks something else, or ends in
 * the middle, harms nobody. */

enum { LARGE = 300000, TURNS = 20000 };

static struct identity identity = { "/tmp/spot-cert-XXXXXX", "/tmp/spot-key-XXXXXX" };
static struct spot_http *http;
static char large[LARGE + 1];
static size_t n_called;

static void called(void *user, struct spot_http_call *call)
{
    (void)user;
    n_called++;
    if (!strcmp(spot_http_path(call), "/large"))
        spot_http_answer(call, 200, "text/plain", large, LARGE);
    else
        spot_http_answer(call, 200, "text/plain", spot_http_body(call)->data,
                         spot_http_body(call)->n);
}

static void gone(void *user, struct spot_http_call *call)
{
    (void)user;
    (void)call;
}

static void setup(void)
{
    const struct spot_http_options options = { .address = "127.0.0.1:0",
                                               .tls_cert = identity.cert,
                                               .tls_key = identity.key,
                                               .body_max_byte = LARGE,
                                               .bodies_max_byte = LARGE,
                                               .n_connection_max = 4,
                                               .idle_s = 60,
                                               .called = called,
                                               .gone = gone };
    struct spot_err err = { 0 };

    n_called = 0;
    strcpy(identity.cert, "/tmp/spot-cert-XXXXXX");
    strcpy(identity.key, "/tmp/spot-key-XXXXXX");
    make_identity(&identity, "IP:127.0.0.1");
    memset(large, 'l', LARGE);
    http = spot_http_new(&options, &err);
    ck_assert_msg(http != NULL, "%s", err.msg);
    ck_assert(!strncmp(spot_http_url(http), "https://127.0.0.1:", 18));
}

static void teardown(void)
{
    spot_http_free(http);
    drop_identity(&identity);
}

static int dial(void)
{
    struct spot_endpoint at;
    char text[64];
    int fd;

    snprintf(text, sizeof(text), "127.0.0.1:%d", spot_http_port(http));
    ck_assert_int_eq(spot_endpoint_parse(text, &at, NULL), 0);
    fd = spot_endpoint_connect(&at, NULL);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void turn(void)
{
    struct pollfd set = { .fd = spot_http_fd(http), .events = POLLIN };

    (void)poll(&set, 1, 1);
    spot_http_run(http);
}

/* Whatever a call of OpenSSL's waits for; false: it failed. */
static bool again(SSL *ssl, int result)
{
    const int why = SSL_get_error(ssl, result);

    turn();
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

/* One question and all of its answer, over this version of TLS alone; NULL: it is not spoken. */
static const char *ask(int version, const char *said, size_t n_said)
{
    static char text[2 * LARGE];
    SSL_CTX *const context = SSL_CTX_new(TLS_client_method());
    SSL *ssl;
    size_t n = 0;
    int rc;

    SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0");
    SSL_CTX_set_min_proto_version(context, version);
    SSL_CTX_set_max_proto_version(context, version);
    ssl = SSL_new(context);
    SSL_set_fd(ssl, dial());
    while ((rc = SSL_connect(ssl)) != 1 && again(ssl, rc))
        ;
    if (rc == 1) {
        ck_assert_int_eq(SSL_version(ssl), version);
        while ((rc = SSL_write(ssl, said, (int)n_said)) <= 0 && again(ssl, rc))
            ;
        do {
            rc = SSL_read(ssl, text + n, (int)(sizeof(text) - 1 - n));
            n += rc > 0 ? (size_t)rc : 0;
        } while (rc > 0 || again(ssl, rc));
        ck_assert_int_eq(SSL_get_error(ssl, rc), SSL_ERROR_ZERO_RETURN); /* not cut off */
    }
    text[n] = '\0';
    close(SSL_get_fd(ssl));
    SSL_free(ssl);
    SSL_CTX_free(context);
    return n ? text : NULL;
}

static const char get[] = "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

START_TEST(old_versions_are_not_spoken)
{
    static const int old[] = { TLS1_VERSION, TLS1_1_VERSION };

    ck_assert_ptr_null(ask(old[_i], get, sizeof(get) - 1));
    ck_assert_uint_eq(n_called, 0);
    ck_assert_ptr_nonnull(ask(TLS1_3_VERSION, get, sizeof(get) - 1));
}
END_TEST

START_TEST(what_is_said_is_whole)
{
    static const int version[] = { TLS1_2_VERSION, TLS1_3_VERSION };
    static char post[LARGE + 256];
    const int n = snprintf(post, sizeof(post),
                           "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", LARGE / 2);
    const char *said = ask(version[_i], get, sizeof(get) - 1);

    ck_assert_ptr_nonnull(said);
    ck_assert_str_eq(strstr(said, "\r\n\r\n") + 4, large);
    memset(post + n, 'l', LARGE / 2);
    memcpy(post + n + LARGE / 2, get, sizeof(get));
    said = ask(version[_i], post, strlen(post)); /* two calls, one behind the other */
    ck_assert_ptr_nonnull(said);
    ck_assert_uint_eq(strspn(strstr(said, "\r\n\r\n") + 4, "l"), LARGE / 2);
    ck_assert_uint_eq(n_called, 3);
}
END_TEST

START_TEST(who_does_not_speak_tls_harms_nobody)
{
    static const char *const noise[] = { "", "\x16\x03\x01", get, "\x16\x03\x01\xff\xff" };
    int fd[4];

    for (int i = 0; i < 4; i++) { /* as many as there may be */
        fd[i] = dial();
        (void)!write(fd[i], noise[i], strlen(noise[i]));
        turn();
    }
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    for (int i = 0; i < TURNS && !n_called; i++)
        (void)ask(TLS1_3_VERSION, get, sizeof(get) - 1);
    ck_assert_uint_eq(n_called, 1);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("http_tls");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, old_versions_are_not_spoken, 0, 2);
    tcase_add_loop_test(tc, what_is_said_is_whole, 0, 2);
    tcase_add_test(tc, who_does_not_speak_tls_harms_nobody);
    return run_suite("http_tls", tc);
}

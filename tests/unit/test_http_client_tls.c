/* SPDX-License-Identifier: MIT */
/* Goal: over TLS a question reaches only the server that was named and that the given authority
 * vouches for; it sees the certificate that was given, if one was. */
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "comm/endpoint.h"
#include "comm/http_client.h"
#include "common/clock.h"
#include "identity_rig.h"

/* --- a server of one connection --- */

static struct server {
    const struct identity *id;
    int listener, port, n_question;
    bool saw_client; /* it showed a certificate */
    pthread_t thread;
} s;

static int take_any(int is_known, X509_STORE_CTX *store)
{
    (void)is_known, (void)store;
    return 1;
}

static void answer(SSL *ssl)
{
    static const char said[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    char question[1024];
    int n = SSL_read(ssl, question, sizeof(question) - 1);

    if (n <= 0)
        return;
    s.n_question++;
    SSL_write(ssl, said, sizeof(said) - 1);
    SSL_shutdown(ssl);
}

static void *serve(void *arg)
{
    SSL_CTX *const context = SSL_CTX_new(TLS_server_method());
    X509 *shown;
    SSL *ssl;
    int fd;

    (void)arg;
    SSL_CTX_use_certificate_file(context, s.id->cert, SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context, s.id->key, SSL_FILETYPE_PEM);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, take_any);
    fd = poll(&(struct pollfd){ .fd = s.listener, .events = POLLIN }, 1, 20000) == 1
             ? accept(s.listener, NULL, NULL)
             : -1;
    ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    if (fd >= 0 && SSL_accept(ssl) == 1) {
        shown = SSL_get1_peer_certificate(ssl);
        s.saw_client = shown != NULL;
        X509_free(shown);
        answer(ssl);
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static struct answer {
    int n;
    long status;
    char why[256];
} got;

static void done(void *user, const struct spot_http_reply *reply)
{
    (void)user;
    got.n++;
    got.status = reply->status;
    snprintf(got.why, sizeof(got.why), "%s", reply->why ? reply->why : "");
}

static void ask(const struct spot_http_tls *tls, const char *scheme)
{
    char url[96];
    const struct spot_http_ask question = {
        .method = "GET", .url = url, .connect_s = 10, .limit_s = 20
    };
    struct spot_http_client *const client = spot_http_client_new_tls(tls, NULL);
    const double until_s = spot_clock_s() + 60;

    ck_assert_ptr_nonnull(client);
    got = (struct answer){ .n = 0 };
    snprintf(url, sizeof(url), "%s://127.0.0.1:%d/x", scheme, s.port);
    ck_assert_int_eq(spot_http_client_ask(client, &question, done, NULL, NULL), 0);
    while (!got.n && spot_clock_s() < until_s)
        ck_assert_int_eq(spot_http_client_wait(client, NULL, 0, 1, NULL), 0);
    ck_assert_int_eq(got.n, 1);
    spot_http_client_free(client);
}

/* Ask a server that has `id` and see whether the question came. */
static void ask_server(const struct identity *id, const struct spot_http_tls *tls)
{
    struct spot_endpoint at;

    signal(SIGPIPE, SIG_IGN);
    s = (struct server){ .id = id };
    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &at, NULL), 0);
    s.listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(s.listener, 0);
    s.port = at.port;
    pthread_create(&s.thread, NULL, serve, NULL);
    ask(tls, "https");
    pthread_join(s.thread, NULL);
    close(s.listener);
}

START_TEST(a_server_that_the_authority_vouches_for_answers)
{
    struct identity server, client;
    struct spot_http_tls tls;

    make_identity(&server, "IP:127.0.0.1");
    make_identity(&client, "DNS:client");
    tls = (struct spot_http_tls){ .ca = server.cert };
    ask_server(&server, &tls);
    ck_assert_msg(got.status == 200, "%s", got.why);
    ck_assert(s.n_question == 1 && !s.saw_client);
    tls.cert = client.cert;
    tls.key = client.key;
    ask_server(&server, &tls);
    ck_assert_msg(got.status == 200, "%s", got.why);
    ck_assert(s.saw_client);
    drop_identity(&server);
    drop_identity(&client);
}
END_TEST

/* _i: of another authority; of the right one, for another name. */
START_TEST(another_server_does_not_hear_the_question)
{
    struct identity server, known;
    struct spot_http_tls tls;

    make_identity(&server, _i ? "DNS:other.example" : "IP:127.0.0.1");
    make_identity(&known, "IP:127.0.0.1");
    tls = (struct spot_http_tls){ .ca = _i ? server.cert : known.cert };
    ask_server(&server, &tls);
    ck_assert_int_eq(got.status, 0);
    ck_assert_msg(strstr(got.why, _i ? "127.0.0.1" : "certificate") != NULL, "%s", got.why);
    ck_assert_int_eq(s.n_question, 0);
    drop_identity(&server);
    drop_identity(&known);
}
END_TEST

START_TEST(a_client_of_tls_asks_nothing_in_the_clear)
{
    struct identity server;

    make_identity(&server, "IP:127.0.0.1");
    s = (struct server){ .port = 1 };
    ask(&(struct spot_http_tls){ .ca = server.cert }, "http");
    ck_assert_int_eq(got.status, 0);
    ck_assert_msg(strstr(got.why, "rotocol") != NULL, "%s", got.why);
    drop_identity(&server);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, a_server_that_the_authority_vouches_for_answers);
    tcase_add_loop_test(tc, another_server_does_not_hear_the_question, 0, 2);
    tcase_add_test(tc, a_client_of_tls_asks_nothing_in_the_clear);
    return run_suite("http_client_tls", tc);
}

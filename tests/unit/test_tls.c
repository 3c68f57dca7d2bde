/* SPDX-License-Identifier: MIT */
/* Goal: only who has the key speaks; what was recorded is of no use; silence has an end. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/tls.h"
#include "suite.h"

static const unsigned char key[2][SPOT_TLS_KEY_BYTE] = { "0123456789abcdef0123456789abcde",
                                                         "0123456789abcdef0123456789abcdE" };

struct end {
    int fd;
    bool is_server;
    const unsigned char *key;
    struct spot_tls *tls;
    struct spot_err err;
    pthread_t thread;
};

static void *open_end(void *user)
{
    struct end *e = user;

    e->tls = spot_tls_open(e->fd, e->is_server, e->key, 30, &e->err);
    return NULL;
}

/* Both ends of a socket pair shake hands. */
static void meet(struct end end[2], const unsigned char *server_key,
                 const unsigned char *client_key)
{
    int fd[2];

    memset(end, 0, 2 * sizeof(*end));
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    for (int i = 0; i < 2; i++) {
        end[i].fd = fd[i];
        end[i].is_server = !i;
        end[i].key = i ? client_key : server_key;
        ck_assert_int_eq(pthread_create(&end[i].thread, NULL, open_end, &end[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(end[i].thread, NULL);
}

enum { BIG = 3 << 20 };

static void *write_big(void *user)
{
    struct end *e = user;
    char *data = malloc(BIG);

    for (int i = 0; i < BIG; i++)
        data[i] = (char)(i * 7 + i / 1000);
    spot_tls_write(e->tls, data, BIG, &e->err);
    spot_tls_free(e->tls);
    free(data);
    return NULL;
}

START_TEST(with_the_same_key_bytes_arrive_and_the_end_is_seen)
{
    struct end end[2];
    char part[10000];
    size_t got, total = 0;
    bool is_same = true;

    meet(end, key[0], key[0]);
    ck_assert_msg(end[0].tls && end[1].tls, "%s / %s", end[0].err.msg, end[1].err.msg);
    ck_assert_int_eq(spot_tls_wait(end[0].tls, 0), 0);
    ck_assert_int_eq(pthread_create(&end[1].thread, NULL, write_big, &end[1]), 0);
    ck_assert_int_eq(spot_tls_wait(end[0].tls, 30), 1);
    for (;;) {
        ck_assert_msg(!spot_tls_read(end[0].tls, part, sizeof(part), &got, &end[0].err), "%s",
                      end[0].err.msg);
        if (!got)
            break;
        for (size_t i = 0; i < got; i++, total++)
            is_same &= part[i] == (char)((int)total * 7 + (int)total / 1000);
    }
    ck_assert(is_same);
    ck_assert_uint_eq(total, BIG);
    pthread_join(end[1].thread, NULL);
    spot_tls_free(end[0].tls);
}
END_TEST

START_TEST(with_another_key_neither_end_opens)
{
    struct end end[2];

    meet(end, key[0], key[1]);
    ck_assert_ptr_null(end[0].tls);
    ck_assert_ptr_null(end[1].tls);
    ck_assert_int_eq(end[0].err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(end[0].err.msg, "TLS handshake"));
}
END_TEST

START_TEST(plain_text_and_silence_do_not_open)
{
    static const char hello[] = "SPM1 hello, I am in the clear and long enough to be a record";
    struct spot_err err = { 0 };
    int fd[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    ck_assert_int_eq(write(fd[1], hello, sizeof(hello)), sizeof(hello));
    ck_assert_ptr_null(spot_tls_open(fd[0], true, key[0], 2, &err));
    close(fd[1]);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    ck_assert_ptr_null(spot_tls_open(fd[0], true, key[0], 0.1, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "silent"));
    close(fd[1]);
}
END_TEST

/* A man in the middle keeps what the client said. */
struct relay {
    int from, to;
    unsigned char kept[1 << 16];
    size_t n;
};

static void *run_relay(void *user)
{
    struct relay *r = user;
    ssize_t n;

    while ((n = read(r->from, r->kept + r->n, sizeof(r->kept) - r->n)) > 0) {
        if (write(r->to, r->kept + r->n, (size_t)n) != n)
            break;
        r->n += (size_t)n;
    }
    shutdown(r->to, SHUT_WR);
    return NULL;
}

START_TEST(a_recorded_connection_played_again_is_refused)
{
    static struct relay up, down;
    struct end end[2] = { { 0 }, { 0 } };
    struct spot_err err = { 0 };
    pthread_t thread[2];
    int server[2], client[2];
    char word[8];
    size_t got;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, server), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, client), 0);
    up = (struct relay){ .from = client[1], .to = server[1] };
    down = (struct relay){ .from = server[1], .to = client[1] };
    pthread_create(&thread[0], NULL, run_relay, &up);
    pthread_create(&thread[1], NULL, run_relay, &down);
    end[0] = (struct end){ .fd = server[0], .is_server = true, .key = key[0] };
    end[1] = (struct end){ .fd = client[0], .key = key[0] };
    pthread_create(&end[0].thread, NULL, open_end, &end[0]);
    open_end(&end[1]);
    pthread_join(end[0].thread, NULL);
    ck_assert(end[0].tls && end[1].tls);
    ck_assert_int_eq(spot_tls_write(end[1].tls, "secret", 6, &err), 0);
    ck_assert_int_eq(spot_tls_read(end[0].tls, word, sizeof(word), &got, &err), 0);
    ck_assert_uint_eq(got, 6);
    spot_tls_free(end[1].tls);
    spot_tls_free(end[0].tls);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    close(server[1]);
    close(client[1]);
    for (size_t i = 0; i + 6 <= up.n; i++)
        ck_assert_int_ne(memcmp(up.kept + i, "secret", 6), 0);

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, server), 0);
    ck_assert_int_eq(write(server[1], up.kept, up.n), (ssize_t)up.n);
    shutdown(server[1], SHUT_WR);
    ck_assert_ptr_null(spot_tls_open(server[0], true, key[0], 2, &err));
    close(server[1]);
}
END_TEST

static int load(const char *text, size_t n, mode_t mode, unsigned char out[SPOT_TLS_KEY_BYTE],
                struct spot_err *err)
{
    char path[] = "/tmp/spot-key-XXXXXX";
    const int fd = mkstemp(path);
    int rc;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
    fchmod(fd, mode);
    close(fd);
    rc = spot_tls_key_load(path, out, err);
    unlink(path);
    return rc;
}

START_TEST(a_key_file_is_32_bytes_or_hex_and_for_its_owner_alone)
{
    static const char hex[] = "000102030405060708090a0b0c0d0e0fF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF\n";
    unsigned char out[SPOT_TLS_KEY_BYTE];
    struct spot_err err = { 0 };

    ck_assert_int_eq(load((const char *)key[0], 32, 0600, out, &err), 0);
    ck_assert_mem_eq(out, key[0], 32);
    ck_assert_int_eq(load(hex, sizeof(hex) - 1, 0400, out, &err), 0);
    ck_assert_uint_eq(out[1], 1);
    ck_assert_uint_eq(out[31], 0xff);
    ck_assert_int_eq(load((const char *)key[0], 32, 0640, out, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "others may read it (mode 0640)"));
    ck_assert_int_eq(load((const char *)key[0], 32, 0604, out, &err), -1);
    ck_assert_int_eq(load((const char *)key[0], 31, 0600, out, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_int_eq(load(hex + 1, sizeof(hex) - 2, 0600, out, &err), -1);
    ck_assert_int_eq(spot_tls_key_load("/nonexistent/key", out, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    signal(SIGPIPE, SIG_IGN);
    add_tests(tc);
    return run_suite("tls", tc);
}

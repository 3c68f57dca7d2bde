/* SPDX-License-Identifier: MIT */
/* rude.c - connections that misbehave where a job listens.
 *
 *   rude ADDRESS KEY-FILE HOW N
 *
 * Opens N of them, says "held" and keeps them until it is killed. HOW:
 *
 *   silent    not a word
 *   half      the first half of a TLS handshake's first message, and no more
 *   stalled   all of that message; the answer is not read
 *   garbage   the handshake, then records whose content is no frame
 *   raw       the handshake, then bytes that are no record
 *   deaf      the handshake and a question, whose answer is not read
 *   drip      the handshake and a question, a byte a record; the answer is printed, and that is all
 *   old       the handshake and the hello of a worker of protocol N; the answer is printed likewise
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/link.h"
#include "comm/tls.h"
#include "comm/wire.h"
#include "common/clock.h"
#include "common/le.h"
#include "train/train_protocol.h"

enum { HELLO_MAX = 4096, NOISE_BYTE = 1 << 16, PATIENCE_MS = 20000 };

static _Noreturn void fail(const char *what, const struct spot_err *err)
{
    fprintf(stderr, "rude: %s: %s\n", what, err->msg);
    exit(1);
}

static int dial(const char *address)
{
    struct spot_err err = { 0 };
    const int fd = spot_endpoint_dial(address, SPOT_REACH_NUMERIC, NULL, &err);

    if (fd < 0)
        fail("connect", &err);
    return fd;
}

static void say(int fd, const void *data, size_t n_byte)
{
    (void)!send(fd, data, n_byte, MSG_NOSIGNAL); /* who hangs up on us is right */
}

/* What a client that has the key says first. */
static size_t first_message(const struct spot_tls_context *key, uint8_t hello[HELLO_MAX])
{
    struct spot_err err = { 0 };
    struct spot_tls *tls;
    ssize_t n;
    int end[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, end))
        exit(1);
    tls = spot_tls_start(end[0], false, key, &err);
    if (!tls || spot_tls_shake(tls, &err))
        fail("hello", &err);
    n = recv(end[1], hello, HELLO_MAX, 0);
    close(end[1]);
    spot_tls_free(tls);
    if (n <= 0)
        exit(1);
    return (size_t)n;
}

/* A connection with the handshake behind it; the socket too, in *fd. */
static struct spot_tls *greet(const char *address, const char *key_file, int *fd)
{
    unsigned char key[SPOT_TLS_KEY_BYTE];
    struct spot_err err = { 0 };
    struct spot_tls *tls = NULL;

    *fd = dial(address);
    if (!spot_tls_key_load(key_file, key, &err))
        tls = spot_tls_open(*fd, false, key, 20, &err);
    if (!tls)
        fail("handshake", &err);
    return tls;
}

static void make_noise(uint8_t noise[NOISE_BYTE])
{
    uint32_t x = 1;

    for (size_t i = 0; i < NOISE_BYTE; i++) {
        x = x * 1664525 + 1013904223;
        noise[i] = (uint8_t)(x >> 24);
    }
}

/* As lib/comm/link.h has it: no payload. */
static void make_question(uint8_t frame[SPOT_FRAME_HEADER])
{
    memset(frame, 0, SPOT_FRAME_HEADER);
    memcpy(frame, "POT1", 4);
    spot_le_put(frame + 4, SPOT_MSG_STATUS, 4);
}

static void print_answer(struct spot_tls *tls)
{
    struct spot_err err = { 0 };
    char answer[4096];
    size_t got, skip = SPOT_FRAME_HEADER;

    for (;;) {
        if (spot_tls_read(tls, answer, skip ? skip : sizeof(answer), &got, &err) || !got)
            break; /* answered, the job hangs up */
        if (skip)
            skip -= got;
        else
            fwrite(answer, 1, got, stdout);
    }
    spot_tls_free(tls);
}

static void drip(struct spot_tls *tls)
{
    uint8_t frame[SPOT_FRAME_HEADER];
    struct spot_err err = { 0 };

    make_question(frame);
    for (size_t i = 0; i < sizeof(frame); i++)
        if (spot_tls_write(tls, frame + i, 1, &err))
            fail("drip", &err);
    print_answer(tls);
}

/* What every protocol begins its hello with, and then something that no other one knows. */
static void say_old_hello(struct spot_tls *tls, uint32_t protocol)
{
    uint8_t frame[SPOT_FRAME_HEADER];
    struct spot_buf hello = { 0 };
    struct spot_err err = { 0 };

    spot_put_u32(&hello, protocol);
    spot_put_text(&hello, "0.0.9\nx");
    spot_put_text(&hello, "ancient");
    spot_put_u64(&hello, UINT64_MAX);
    make_question(frame);
    spot_le_put(frame + 4, SPOT_MSG_HELLO, 4);
    spot_le_put(frame + SPOT_FRAME_HEADER - 8, hello.n, 8);
    if (spot_tls_write(tls, frame, sizeof(frame), &err) ||
        spot_tls_write(tls, hello.data, hello.n, &err))
        fail("old", &err);
    spot_buf_release(&hello);
    print_answer(tls);
}

static void meet(const char *address, const char *key_file, const struct spot_tls_context *key,
                 const char *how)
{
    static uint8_t noise[NOISE_BYTE];
    uint8_t hello[HELLO_MAX], question[SPOT_FRAME_HEADER];
    struct spot_err err = { 0 };
    struct spot_tls *tls;
    int fd;

    if (!strcmp(how, "silent")) {
        dial(address);
    } else if (!strcmp(how, "half") || !strcmp(how, "stalled")) {
        const size_t n = first_message(key, hello);

        say(dial(address), hello, *how == 'h' ? n / 2 : n);
    } else {
        tls = greet(address, key_file, &fd);
        make_noise(noise);
        make_question(question);
        if (!strcmp(how, "garbage")) {
            (void)spot_tls_write(tls, noise, sizeof(noise), &err);
        } else if (!strcmp(how, "raw")) {
            say(fd, noise, sizeof(noise));
        } else if (!strcmp(how, "deaf")) {
            (void)spot_tls_write(tls, question, sizeof(question), &err);
        } else {
            drip(tls);
        }
    }
}

int main(int argc, char **argv)
{
    struct spot_tls_context *key;
    struct spot_err err = { 0 };

    if (argc != 5)
        return 2;
    key = spot_tls_context_load(argv[2], &err);
    if (!key)
        fail("key", &err);
    if (!strcmp(argv[3], "old")) {
        int fd;

        say_old_hello(greet(argv[1], argv[2], &fd), (uint32_t)atoi(argv[4]));
        spot_tls_context_free(key);
        return 0;
    }
    for (int i = 0; i < atoi(argv[4]); i++)
        meet(argv[1], argv[2], key, argv[3]);
    if (!strcmp(argv[3], "drip")) {
        spot_tls_context_free(key);
        return 0;
    }
    puts("held");
    fflush(stdout);
    pause();
    return 0;
}

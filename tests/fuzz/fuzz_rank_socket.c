/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "host/rank_socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: whatever ranks send, each whole line is answered by one line of JSON, and nothing else is.
 * The first byte says in which pieces it comes; an op "later" is answered when it has all come. */

static uint64_t waits;
static size_t n_served;

static int now(void *user, const struct spot_rank_request *request, struct spot_jw *answer,
               struct spot_err *err)
{
    (void)user;
    n_served++;
    if (request->rank > 99)
        return spot_err_set(err, SPOT_EDATA, "too many");
    spot_jw_int(answer, "step", request->step);
    return 0;
}

static int later(void *user, const struct spot_rank_request *request, struct spot_jw *answer,
                 struct spot_err *err)
{
    (void)user, (void)answer, (void)err;
    waits = request->ticket;
    return 1;
}

static void gone(void *user, uint64_t ticket)
{
    (void)user;
    if (ticket != waits)
        abort();
    waits = 0;
}

static const struct spot_rank_op table[] = { { "now", now, NULL, NULL },
                                             { "later", later, gone, NULL },
                                             { 0 } };

static void answer_late(struct spot_rank_socket *s)
{
    while (waits) {
        const uint64_t ticket = waits;

        waits = 0;
        spot_rank_socket_refuse(s, ticket, "late");
        spot_rank_socket_turn(s);
    }
}

/* Answers may wait for room, and requests for their answers. */
static size_t count_lines(struct spot_rank_socket *s, int fd)
{
    static char text[1 << 20];
    size_t n = 0, lines = 0;
    ssize_t got;

    while (n < sizeof(text) && (got = read(fd, text + n, sizeof(text) - n)) > 0) {
        n += (size_t)got;
        spot_rank_socket_turn(s);
        answer_late(s);
    }
    for (size_t i = 0, from = 0; i < n; i++)
        if (text[i] == '\n') {
            struct spot_json_doc doc;

            if (spot_json_parse(&doc, text + from, i - from, "answer", NULL))
                abort();
            spot_json_release(&doc);
            from = i + 1;
            lines++;
        }
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_endpoint at = { .kind = SPOT_ENDPOINT_UNIX };
    struct spot_rank_socket *s;
    size_t want = 0, piece;
    int fd;

    if (!size || size > 4096)
        return 0;
    signal(SIGPIPE, SIG_IGN);
    snprintf(at.path, sizeof(at.path), "/tmp/spot-fuzz-rank-%ld", (long)getpid());
    waits = 0;
    s = spot_rank_socket_new(at.path, table, NULL);
    if (!s)
        return 0;
    spot_rank_socket_set_round(s, data[0] % 3);
    fd = spot_endpoint_connect(&at, NULL);
    piece = 1 + data[0] / 3 * 16;
    for (size_t i = 1; fd >= 0 && i < size; i += piece) {
        const size_t n = size - i < piece ? size - i : piece;

        if (write(fd, data + i, n) != (ssize_t)n)
            abort();
        spot_rank_socket_turn(s);
        answer_late(s);
    }
    for (size_t i = 1; i < size; i++)
        want += data[i] == '\n';
    spot_rank_socket_turn(s);
    answer_late(s);
    if (fd >= 0 && count_lines(s, fd) != want)
        abort();
    close(fd);
    spot_rank_socket_turn(s);
    spot_rank_socket_free(s);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/link.h"
#include "common/buf.h"
#include "common/rng.h"
#include "suite.h"

/* Goal: frames arrive as sent however the stream is cut; a header that is not ours or claims more
 * than the limit is refused before a byte is allocated for it; the end of a peer is an error. */

static void open_pair(int fd[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fcntl(fd[i], F_SETFL, O_NONBLOCK), 0);
}

/* The bytes of some frames, as a link sends them. */
static size_t record(uint8_t *bytes, size_t cap)
{
    struct spot_link out;
    ssize_t n;
    int fd[2];

    open_pair(fd);
    spot_link_init(&out, fd[0], 1000);
    ck_assert_int_eq(spot_link_send(&out, 7, 3, UINT64_MAX, "hello", 5, NULL), 0);
    ck_assert_int_eq(spot_link_send(&out, 8, UINT32_MAX, 0, NULL, 0, NULL), 0);
    ck_assert_int_eq(spot_link_send(&out, 9, 1, 2, "x", 1, NULL), 0);
    n = read(fd[1], bytes, cap);
    ck_assert_int_eq(n, 3 * SPOT_FRAME_HEADER + 6);
    spot_link_release(&out);
    close(fd[1]);
    return (size_t)n;
}

static void check_frames(struct spot_frame_list *in)
{
    static const struct {
        uint32_t type, epoch;
        uint64_t tag;
        const char *data;
    } want[] = { { 7, 3, UINT64_MAX, "hello" }, { 8, UINT32_MAX, 0, "" }, { 9, 1, 2, "x" } };

    for (size_t i = 0; i < 3; i++) {
        struct spot_frame *f = spot_frame_pop(in);

        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(f->type, want[i].type);
        ck_assert_uint_eq(f->epoch, want[i].epoch);
        ck_assert_uint_eq(f->tag, want[i].tag);
        ck_assert_uint_eq(f->n_byte, strlen(want[i].data));
        ck_assert_mem_eq(f->data, want[i].data, f->n_byte);
        free(f);
    }
    ck_assert_ptr_null(spot_frame_pop(in));
}

START_TEST(frames_cut_at_every_byte_arrive_whole)
{
    uint8_t bytes[1024];
    const size_t n = record(bytes, sizeof(bytes));

    for (size_t cut = 0; cut <= n; cut++) {
        struct spot_frame_list in = { NULL, NULL };
        struct spot_link link;
        int fd[2];

        open_pair(fd);
        spot_link_init(&link, fd[0], 1000);
        ck_assert_int_eq(write(fd[1], bytes, cut), (ssize_t)cut);
        ck_assert_int_eq(spot_link_read(&link, &in, NULL), 0);
        ck_assert_int_eq(write(fd[1], bytes + cut, n - cut), (ssize_t)(n - cut));
        ck_assert_int_eq(spot_link_read(&link, &in, NULL), 0);
        check_frames(&in);
        spot_link_release(&link);
        close(fd[1]);
    }
}
END_TEST

START_TEST(frames_that_arrive_byte_by_byte_are_whole)
{
    uint8_t bytes[1024];
    const size_t n = record(bytes, sizeof(bytes));
    struct spot_frame_list in = { NULL, NULL };
    struct spot_link link;
    int fd[2];

    open_pair(fd);
    spot_link_init(&link, fd[0], 1000);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(write(fd[1], bytes + i, 1), 1);
        ck_assert_int_eq(spot_link_read(&link, &in, NULL), 0);
    }
    check_frames(&in);
    spot_link_release(&link);
    close(fd[1]);
}
END_TEST

START_TEST(a_hostile_header_is_refused_before_allocation)
{
    static const struct {
        size_t at;
        uint8_t byte;
    } change[] = { { 0, 'Q' }, { 3, 0 }, { 12, 1 }, { 15, 0x80 }, { 26, 1 }, { 31, 0xFF } };
    uint8_t bytes[1024];

    record(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
        struct spot_frame_list in = { NULL, NULL };
        struct spot_err err = { 0 };
        uint8_t header[SPOT_FRAME_HEADER];
        struct spot_link link;
        int fd[2];

        memcpy(header, bytes, sizeof(header));
        header[change[i].at] = change[i].byte;
        open_pair(fd);
        spot_link_init(&link, fd[0], 1000);
        ck_assert_int_eq(write(fd[1], header, sizeof(header)), sizeof(header));
        ck_assert_int_eq(spot_link_read(&link, &in, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_ptr_null(link.arriving);
        ck_assert_ptr_null(in.head);
        spot_link_release(&link);
        close(fd[1]);
    }
}
END_TEST

START_TEST(the_limit_itself_is_allowed_and_one_more_is_not)
{
    for (size_t extra = 0; extra < 2; extra++) {
        struct spot_frame_list in = { NULL, NULL };
        struct spot_link link, out;
        uint8_t data[101] = { 0 };
        int fd[2];

        open_pair(fd);
        spot_link_init(&link, fd[0], 100);
        spot_link_init(&out, fd[1], 0);
        ck_assert_int_eq(spot_link_send(&out, 1, 1, 1, data, 100 + extra, NULL), 0);
        ck_assert_int_eq(spot_link_read(&link, &in, NULL), extra ? -1 : 0);
        ck_assert(extra ? !in.head : in.head->n_byte == 100);
        spot_frame_list_release(&in);
        spot_link_release(&link);
        spot_link_release(&out);
    }
}
END_TEST

START_TEST(the_end_of_the_peer_is_an_error_after_what_it_said)
{
    uint8_t bytes[1024];
    const size_t n = record(bytes, sizeof(bytes));
    struct spot_frame_list in = { NULL, NULL };
    struct spot_err err = { 0 };
    struct spot_link link;
    int fd[2];

    open_pair(fd);
    spot_link_init(&link, fd[0], 1000);
    ck_assert_int_eq(write(fd[1], bytes, n), (ssize_t)n);
    close(fd[1]);
    ck_assert_int_eq(spot_link_read(&link, &in, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    check_frames(&in);
    ck_assert_int_eq(spot_link_send(&link, 1, 1, 1, "x", 1, &err), -1); /* and no SIGPIPE */
    spot_link_release(&link);
}
END_TEST

/* More than a socket takes: the rest is queued, copied, and goes in order with flushes. */
START_TEST(what_the_socket_does_not_take_is_queued_in_order)
{
    enum { FRAMES = 300, BYTES = 20000 };
    struct spot_frame_list in = { NULL, NULL };
    uint8_t *data = malloc(BYTES);
    struct spot_link link, out;
    struct spot_rng rng;
    size_t n_got = 0;
    int fd[2];

    open_pair(fd);
    spot_link_init(&link, fd[0], BYTES);
    spot_link_init(&out, fd[1], BYTES);
    spot_rng_init(&rng, 1, 0);
    for (uint64_t i = 0; i < FRAMES; i++) {
        const size_t n = (size_t)spot_rng_below(&rng, BYTES);

        memset(data, (int)i, n);
        ck_assert_int_eq(spot_link_send(&out, 1, 0, i, data, n, NULL), 0);
        memset(data, 0xEE, n); /* ours again */
    }
    ck_assert(spot_link_wants_write(&out));
    while (n_got < FRAMES) {
        struct spot_frame *f;

        ck_assert_int_eq(spot_link_read(&link, &in, NULL), 0);
        ck_assert_int_eq(spot_link_flush(&out, NULL), 0);
        while ((f = spot_frame_pop(&in))) {
            ck_assert_uint_eq(f->tag, n_got++);
            for (size_t i = 0; i < f->n_byte; i++)
                if (f->data[i] != (uint8_t)f->tag)
                    ck_abort_msg("frame %zu is wrong at %zu", (size_t)f->tag, i);
            free(f);
        }
    }
    ck_assert(!spot_link_wants_write(&out));
    spot_link_release(&link);
    spot_link_release(&out);
    free(data);
}
END_TEST

/* --- with a key ------------------------------------------------------------ */

static const unsigned char key[2][SPOT_TLS_KEY_BYTE] = { "0123456789abcdef0123456789abcde",
                                                         "0123456789abcdef0123456789abcdE" };

/* Two ends with a man between them who keeps what each said. */
struct wire {
    struct spot_link end[2]; /* 0: client, 1: server */
    struct spot_tls_context *context[2];
    int middle[2];
    struct spot_buf said[2];
};

static void open_wire(struct wire *w, const unsigned char *client, const unsigned char *server)
{
    const unsigned char *const of[2] = { client, server };

    memset(w, 0, sizeof(*w));
    for (int i = 0; i < 2; i++) {
        int fd[2];

        open_pair(fd);
        w->middle[i] = fd[1];
        spot_link_init(&w->end[i], fd[0], 1 << 20);
        if (of[i]) {
            w->context[i] = spot_tls_context_new(of[i], NULL);
            ck_assert_ptr_nonnull(w->context[i]);
            ck_assert_int_eq(spot_link_secure(&w->end[i], w->context[i], i, NULL), 0);
        }
    }
}

static void close_wire(struct wire *w)
{
    for (int i = 0; i < 2; i++) {
        spot_link_release(&w->end[i]);
        spot_tls_context_free(w->context[i]);
        close(w->middle[i]);
        spot_buf_release(&w->said[i]);
    }
}

/* No more at once than the other socket takes. */
static void carry(struct wire *w, int from)
{
    uint8_t bytes[4096];
    ssize_t n;

    for (int k = 0; k < 16; k++) {
        n = recv(w->middle[from], bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n <= 0)
            return;
        spot_buf_add(&w->said[from], bytes, (size_t)n);
        (void)!send(w->middle[!from], bytes, (size_t)n, MSG_NOSIGNAL);
    }
}

/* Both ends and the middle take turns until nothing moves; -1 when an end gave up, which is hung
 * up as its owner would. */
static int run_wire(struct wire *w, struct spot_frame_list in[2], struct spot_err err[2])
{
    int rc = 0;

    for (int turn = 0; turn < 50; turn++)
        for (int i = 0; i < 2; i++) {
            if (w->end[i].fd >= 0 && (spot_link_flush(&w->end[i], &err[i]) ||
                                      spot_link_read(&w->end[i], &in[i], &err[i]))) {
                carry(w, i);
                spot_link_close(&w->end[i]);
                shutdown(w->middle[!i], SHUT_WR);
                rc = -1;
            }
            carry(w, i);
        }
    return rc;
}

static bool holds(const struct spot_buf *said, const char *text)
{
    return memmem(said->data, said->n, text, strlen(text)) != NULL;
}

START_TEST(with_the_key_frames_of_any_size_go_both_ways_unreadable_on_the_way)
{
    struct spot_frame_list in[2] = { { NULL, NULL }, { NULL, NULL } };
    struct spot_err err[2] = { { 0 }, { 0 } };
    static uint8_t big[100000];
    struct wire w;

    open_wire(&w, key[0], key[0]);
    memset(big, 'b', sizeof(big));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(spot_link_send(&w.end[i], 1, 2, 3, "secret", 6, NULL), 0);
        ck_assert_int_eq(spot_link_send(&w.end[i], 1, 2, 4, big, sizeof(big), NULL), 0);
        ck_assert_int_eq(spot_link_send(&w.end[i], 1, 2, 5, NULL, 0, NULL), 0);
    }
    ck_assert_int_eq(run_wire(&w, in, err), 0);
    for (int i = 0; i < 2; i++) {
        static const size_t want[] = { 6, sizeof(big), 0 };

        for (uint64_t k = 0; k < 3; k++) {
            struct spot_frame *f = spot_frame_pop(&in[i]);

            ck_assert_ptr_nonnull(f);
            ck_assert_uint_eq(f->tag, 3 + k);
            ck_assert_uint_eq(f->n_byte, want[k]);
            ck_assert_int_eq(k == 0 ? memcmp(f->data, "secret", 6) : memcmp(f->data, big, want[k]),
                             0);
            free(f);
        }
        ck_assert(!spot_link_wants_write(&w.end[i]));
        ck_assert(!holds(&w.said[i], "secret") && !holds(&w.said[i], "POT1"));
    }
    close_wire(&w);
}
END_TEST

static void check_lent(struct spot_frame_list *in, uint64_t tag, size_t n_byte)
{
    struct spot_frame *const f = spot_frame_pop(in);

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(f->tag, tag);
    ck_assert_uint_eq(f->n_byte, n_byte);
    for (size_t k = 0; k < n_byte; k++)
        if (f->data[k] != (uint8_t)tag)
            ck_abort_msg("frame %d is wrong at %zu", (int)tag, k);
    free(f);
}

static void give(struct spot_link *link, uint32_t epoch, uint64_t tag, size_t n_byte)
{
    struct spot_buf data = { 0 };

    memset(spot_buf_more(&data, n_byte), (int)tag, n_byte);
    data.n = n_byte;
    ck_assert_int_eq(spot_link_submit(link, 1, epoch, tag, &data, NULL), 0);
    ck_assert_ptr_null(data.data);
}

/* The other side has gone: what cannot be sent is not kept. */
static void give_to_nobody(void)
{
    struct spot_link gone;
    struct spot_buf data = { 0 };
    int fd[2];

    open_pair(fd);
    spot_link_init(&gone, fd[0], 1000);
    close(fd[1]);
    spot_buf_add(&data, "lost", 4);
    ck_assert_int_eq(spot_link_submit(&gone, 1, 1, 1, &data, NULL), -1);
    ck_assert_ptr_null(data.data);
    spot_link_release(&gone);
}

/* Lent bytes are free again after keep, at whatever byte of them the socket had stopped; all come,
 * or of an epoch that is over those that were on their way. Given ones are the link's. */
static void lend_and_overwrite(const unsigned char *with, uint32_t over_below, bool gives)
{
    enum { FRAMES = 8, BYTES = 100000, EPOCH = 2 };
    struct spot_frame_list in[2] = { { NULL, NULL }, { NULL, NULL } };
    struct spot_err err[2] = { { 0 }, { 0 } };
    uint8_t *const data = malloc(FRAMES * BYTES);
    size_t n_queued, n_come = FRAMES;
    struct wire w;

    open_wire(&w, with, with);
    ck_assert_int_eq(run_wire(&w, in, err), 0); /* shake hands */
    for (uint64_t i = 0; i < FRAMES; i++) {
        memset(data + i * BYTES, (int)i, BYTES);
        if (gives)
            give(&w.end[0], EPOCH, i, BYTES);
        else
            ck_assert_int_eq(spot_link_lend(&w.end[0], 1, EPOCH, i, data + i * BYTES, BYTES, NULL),
                             0);
    }
    n_queued = spot_link_queued(&w.end[0]) / BYTES;
    ck_assert_uint_gt(n_queued, 1);
    ck_assert_int_eq(spot_link_keep(&w.end[0], over_below, NULL), 0);
    if (over_below > EPOCH)
        n_come -= n_queued - 1;
    ck_assert_uint_eq(spot_link_queued(&w.end[0]), (n_queued - (FRAMES - n_come)) * BYTES);
    memset(data, 0xEE, FRAMES * BYTES);
    free(data);
    ck_assert_int_eq(spot_link_send(&w.end[0], 1, EPOCH, FRAMES, NULL, 0, NULL), 0);
    for (int turn = 0; turn < 10; turn++)
        ck_assert_msg(run_wire(&w, in, err) == 0, "%s; %s", err[0].msg, err[1].msg);
    for (uint64_t i = 0; i < n_come; i++)
        check_lent(&in[1], i, BYTES);
    check_lent(&in[1], FRAMES, 0);
    ck_assert_ptr_null(in[1].head);
    close_wire(&w);
}

START_TEST(what_was_lent_is_sent_as_it_was_when_it_was_kept)
{
    lend_and_overwrite(_i % 2 ? key[0] : NULL, _i / 2 % 2 ? 3 : 2, _i / 4);
}
END_TEST

/* By whoever looks for leaks. */
START_TEST(what_was_given_goes_with_its_link)
{
    struct spot_frame_list in[2] = { { NULL, NULL }, { NULL, NULL } };
    struct spot_err err[2] = { { 0 }, { 0 } };
    struct spot_buf nothing = { 0 };
    struct wire w;

    open_wire(&w, NULL, NULL);
    for (uint64_t i = 0; i < 20; i++)
        give(&w.end[0], 1, i, 100000);
    ck_assert_uint_gt(spot_link_queued(&w.end[0]), 0);
    ck_assert_int_eq(spot_link_submit(&w.end[0], 1, 1, 20, &nothing, NULL), 0);
    for (int turn = 0; turn < 10; turn++)
        ck_assert_int_eq(run_wire(&w, in, err), 0);
    for (uint64_t i = 0; i < 20; i++)
        check_lent(&in[1], i, 100000);
    check_lent(&in[1], 20, 0);
    for (uint64_t i = 0; i < 20; i++)
        give(&w.end[0], 1, i, 100000);
    spot_link_close(&w.end[1]);
    (void)spot_link_flush(&w.end[0], NULL);
    give_to_nobody();
    close_wire(&w);
}
END_TEST

/* What the server has to say is queued from the start: none of it may leave. */
START_TEST(without_the_key_nothing_is_learnt_and_nothing_is_heard)
{
    for (int k = 0; k < 2; k++) { /* another key, and none */
        struct spot_frame_list in[2] = { { NULL, NULL }, { NULL, NULL } };
        struct spot_err err[2] = { { 0 }, { 0 } };
        static uint8_t big[100000];
        struct wire w;

        open_wire(&w, k ? NULL : key[1], key[0]);
        memset(big, 's', sizeof(big));
        ck_assert_int_eq(spot_link_send(&w.end[1], 1, 2, 3, big, sizeof(big), NULL), 0);
        ck_assert_int_eq(spot_link_send(&w.end[0], 1, 2, 3, "listen to me", 12, NULL), 0);
        ck_assert_int_eq(run_wire(&w, in, err), -1);
        for (int i = 0; i < 2; i++) {
            ck_assert_ptr_null(in[i].head);
            ck_assert_int_eq(err[i].code, SPOT_EINFEASIBLE);
        }
        ck_assert_uint_le(w.said[1].n, 7); /* one alert */
        ck_assert(!holds(&w.said[1], "ss"));
        ck_assert_ptr_nonnull(strstr(err[0].msg, k ? "requires a key" : "another key"));
        close_wire(&w);
    }
}
END_TEST

START_TEST(a_client_with_a_key_does_not_talk_to_a_server_without)
{
    struct spot_frame_list in[2] = { { NULL, NULL }, { NULL, NULL } };
    struct spot_err err[2] = { { 0 }, { 0 } };
    struct wire w;

    open_wire(&w, key[0], NULL);
    ck_assert_int_eq(spot_link_send(&w.end[0], 1, 2, 3, "secret", 6, NULL), 0);
    ck_assert_int_eq(run_wire(&w, in, err), -1);
    ck_assert_int_eq(err[0].code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(err[0].msg, "does it have a key?"));
    ck_assert(!holds(&w.said[0], "secret"));
    close_wire(&w);
}
END_TEST

START_TEST(a_stranger_is_read_one_frame_at_a_time)
{
    struct spot_frame_list in = { NULL, NULL };
    struct spot_link link, out;
    int fd[2];

    open_pair(fd);
    spot_link_init(&link, fd[0], 8);
    spot_link_init(&out, fd[1], 0);
    link.is_stranger = true;
    ck_assert_int_eq(spot_link_send(&out, 1, 0, 0, "hello", 5, NULL), 0);
    ck_assert_int_eq(spot_link_send(&out, 2, 0, 0, "far too long", 12, NULL), 0);
    ck_assert_int_eq(spot_link_read(&link, &in, NULL), 0);
    ck_assert_ptr_eq(in.head, in.tail);
    ck_assert_uint_eq(in.head->type, 1);
    link.is_stranger = false;
    link.payload_max = 12; /* known now */
    ck_assert_int_eq(spot_link_read(&link, &in, NULL), 0);
    ck_assert_uint_eq(in.tail->type, 2);
    spot_frame_list_release(&in);
    spot_link_release(&link);
    spot_link_release(&out);
}
END_TEST

/* Writes frames for as long as anyone reads. */
static void *be_endless(void *fd)
{
    static uint8_t frame[1 << 20];
    struct spot_frame_list none = { NULL, NULL };
    struct spot_link link;

    spot_link_init(&link, *(int *)fd, 1 << 20);
    while (!spot_link_send(&link, 1, 0, 0, frame, sizeof(frame) - SPOT_FRAME_HEADER, NULL) &&
           !spot_link_read(&link, &none, NULL))
        while (spot_link_wants_write(&link) && !spot_link_flush(&link, NULL))
            poll(&(struct pollfd){ .fd = link.fd, .events = POLLOUT }, 1, 1000);
    spot_link_release(&link);
    return NULL;
}

START_TEST(a_peer_as_fast_as_we_are_has_its_turn_and_no_more)
{
    struct spot_frame_list in = { NULL, NULL };
    struct spot_link link;
    pthread_t thread;
    int fd[2];

    open_pair(fd);
    spot_link_init(&link, fd[0], 1 << 20);
    pthread_create(&thread, NULL, be_endless, &fd[1]);
    for (int turn = 0; turn < 40; turn++) {
        size_t n = 0;

        ck_assert_int_eq(spot_link_read(&link, &in, NULL), 0);
        for (struct spot_frame *f; (f = spot_frame_pop(&in)); free(f))
            n += f->n_byte;
        ck_assert_uint_le(n, SPOT_LINK_TURN + (1 << 20));
    }
    spot_link_release(&link);
    pthread_join(thread, NULL);
}
END_TEST

/* What TLS has taken from the socket when a turn ends is not forgotten: poll() alone drives both.
 */
START_TEST(with_a_key_turns_end_where_poll_tells_of_the_rest)
{
    enum { MANY = 6, BYTE = 5 << 20 };
    struct spot_tls_context *const tls = spot_tls_context_new(key[0], NULL);
    struct spot_frame_list in = { NULL, NULL }, none = { NULL, NULL };
    uint8_t *big = calloc(1, BYTE);
    struct spot_link from, to;
    size_t n_frame = 0;
    int fd[2];

    open_pair(fd);
    spot_link_init(&from, fd[0], 0);
    spot_link_init(&to, fd[1], BYTE);
    ck_assert_int_eq(spot_link_secure(&from, tls, false, NULL), 0);
    ck_assert_int_eq(spot_link_secure(&to, tls, true, NULL), 0);
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(spot_link_send(&from, 1, 0, (uint64_t)i, big, BYTE, NULL), 0);
    while (n_frame < MANY) {
        struct pollfd set[2] = {
            { .fd = fd[0],
              .events = (short)(POLLIN | (spot_link_wants_write(&from) ? POLLOUT : 0)) },
            { .fd = fd[1], .events = (short)(POLLIN | (spot_link_wants_write(&to) ? POLLOUT : 0)) },
        };

        ck_assert_int_gt(poll(set, 2, 60000), 0);
        if (set[0].revents & POLLIN)
            ck_assert_int_eq(spot_link_read(&from, &none, NULL), 0);
        if (set[0].revents & POLLOUT)
            ck_assert_int_eq(spot_link_flush(&from, NULL), 0);
        if (set[1].revents & POLLOUT)
            ck_assert_int_eq(spot_link_flush(&to, NULL), 0);
        if (set[1].revents & POLLIN)
            ck_assert_int_eq(spot_link_read(&to, &in, NULL), 0);
        for (struct spot_frame *f; (f = spot_frame_pop(&in)); free(f))
            ck_assert_uint_eq(f->tag, n_frame++);
    }
    free(big);
    spot_link_release(&from);
    spot_link_release(&to);
    spot_tls_context_free(tls);
}
END_TEST

/* By the system: of a connection over the loopback a moment, of another socket nothing. */
START_TEST(a_network_has_a_round_trip_and_another_socket_has_none)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof(at);
    struct spot_link link;
    int fd[2], listener = socket(AF_INET, SOCK_STREAM, 0), near, far;

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, n), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &n), 0);
    near = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(near, (struct sockaddr *)&at, n), 0);
    far = accept(listener, NULL, NULL);
    spot_link_init(&link, near, 100);
    ck_assert_double_gt(spot_link_round_trip_s(&link), 0);
    ck_assert_double_lt(spot_link_round_trip_s(&link), 60);
    spot_link_close(&link);
    ck_assert_double_eq(spot_link_round_trip_s(&link), 0);
    close(far);
    close(listener);
    open_pair(fd);
    spot_link_init(&link, fd[0], 100);
    ck_assert_double_eq(spot_link_round_trip_s(&link), 0);
    spot_link_close(&link);
    close(fd[1]);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_was_lent_is_sent_as_it_was_when_it_was_kept, 0, 8);
    tcase_add_test(tc, what_was_given_goes_with_its_link);
    add_tests(tc);
    return run_suite("link", tc);
}

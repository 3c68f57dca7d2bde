/* SPDX-License-Identifier: MIT */
/* Goal: chunks come over any ports from any holders, and who does not play by the rules is out. */
#include <signal.h>

#include "common/clock.h"
#include "common/le.h"
#include "move_rig.h"
#include "shard/transfer_protocol.h"
#include "suite.h"

START_TEST(a_file_moves_over_any_number_of_ports)
{
    struct file f;
    struct spot_sender *sender;
    struct spot_receiver *receiver;
    struct spot_receiver_state state;
    struct serving serving[8];
    const int n_port = 1 + _i;

    set_up();
    make_file(&f, 300000, 70001, 1);
    sender = sender_of(&f, 4096, 0);
    receiver = receiver_of(64 << 10);
    for (int i = 0; i < n_port; i++) {
        struct spot_port *end[2];

        make_pair(5, end);
        start_serving(&serving[i], sender, end[0]);
        ck_assert_int_eq(spot_receiver_add(receiver, end[1], NULL), 0);
    }
    ck_assert_msg(wait_for(receiver, &state), "%s", state.err.msg);
    ck_assert_uint_eq(state.have_byte, state.total_byte);
    spot_receiver_free(receiver);
    for (int i = 0; i < n_port; i++) {
        pthread_join(serving[i].thread, NULL);
        ck_assert_msg(!serving[i].rc, "%s", serving[i].err.msg);
    }
    ck_assert(spot_sender_is_committed(sender));
    ck_assert_int_eq(target_is(&f), 1);
    ck_assert_int_ne(access(part, F_OK), 0);
    ck_assert_int_ne(access(journal, F_OK), 0);
    spot_sender_free(sender);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

/* The stream of bytes to the receiver, and the one from it, are cut after every byte. */
/* kill -9: the receiver is a process that ends at byte n, without a word. */
/* The header is the same, the data is that of a later step: never a mixture. */
/* One holder dies in the middle, one stalls without a word, one is fine. */
START_TEST(the_chunks_of_dead_and_stalled_holders_come_from_another)
{
    struct file f;
    struct spot_sender *sender;
    struct spot_receiver *receiver;
    struct spot_receiver_state state;
    struct serving good, dying;
    struct spot_port *end[2], *stalled[2];

    set_up();
    make_file(&f, 100000, 20000, 8);
    sender = sender_of(&f, 4096, 0);
    receiver = receiver_of(64 << 10);
    make_pair(5, end);
    start_serving(&dying, sender, cut_after(end[0], SIZE_MAX, 3000, false));
    ck_assert_int_eq(spot_receiver_add(receiver, end[1], NULL), 0);
    make_pair(5, stalled);
    ck_assert_int_eq(spot_receiver_add(receiver, stalled[1], NULL), 0);
    ck_assert_int_eq(spot_transfer_meet(stalled[0], "send", NULL), 0);
    pthread_join(dying.thread, NULL); /* it could not but die: nobody else brings chunks */
    ck_assert_int_ne(dying.rc, 0);
    make_pair(5, end);
    start_serving(&good, sender, end[0]);
    ck_assert_int_eq(spot_receiver_add(receiver, end[1], NULL), 0);
    ck_assert_msg(wait_for(receiver, &state), "%s", state.err.msg);
    stalled[0]->close(stalled[0]);
    spot_receiver_free(receiver);
    pthread_join(good.thread, NULL);
    ck_assert_int_eq(good.rc, 0);
    ck_assert_int_eq(target_is(&f), 1);
    spot_sender_free(sender);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

START_TEST(a_silent_sender_is_given_up)
{
    struct spot_receiver *receiver;
    struct spot_receiver_state state;
    struct spot_port *end[2];

    set_up();
    receiver = receiver_of(1);
    make_pair(0.2, end);
    ck_assert_int_eq(spot_receiver_add(receiver, end[1], NULL), 0);
    ck_assert(!wait_for(receiver, &state));
    ck_assert_int_eq(state.err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(state.err.msg, "silent"));
    spot_receiver_free(receiver);
    end[0]->close(end[0]);
    tear_down();
}
END_TEST

/* One byte after another, until the other end leaves. */
static void *drip(void *user)
{
    struct spot_port *port = user;

    while (!port->write(port, "", 1, NULL))
        spot_clock_sleep(0.02);
    return NULL;
}

/* Such a peer is never silent. _i: in its greeting, in a message of its own, after the end. */
START_TEST(a_peer_that_hands_out_bytes_one_by_one_is_given_up)
{
    const double limit_s = 0.3, start_s = spot_clock_s();
    struct spot_transfer_message message = { 0 };
    unsigned char bytes[SPOT_TRANSFER_HEAD + 60] = { 0 };
    struct spot_port *end[2], *kept[2];
    struct spot_err err = { 0 };
    pthread_t thread;

    make_pair(limit_s, end);
    if (_i == 1) { /* the head of a message, all of it, and a little of what it announces */
        make_pair(limit_s, kept);
        ck_assert_int_eq(spot_transfer_send(kept[0], SPOT_TRANSFER_MSG_SUMS, 0, bytes, 60, NULL),
                         0);
        ck_assert_int_eq(spot_port_read_all(kept[1], bytes, sizeof(bytes), NULL), 0);
        ck_assert_int_eq(end[0]->write(end[0], bytes, sizeof(bytes) - 50, NULL), 0);
        kept[0]->close(kept[0]), kept[1]->close(kept[1]);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, drip, end[0]), 0);
    if (_i == 0)
        ck_assert_int_eq(spot_transfer_meet(end[1], "recv", &err), -1);
    else if (_i == 1)
        ck_assert_int_eq(spot_transfer_receive(end[1], &message, &err), -1);
    else
        spot_port_drain(end[1]);
    ck_assert_double_ge(spot_clock_s() - start_s, limit_s);
    ck_assert_double_lt(spot_clock_s() - start_s, 20);
    if (_i < 2)
        ck_assert_msg(!strncmp(err.msg, "the peer sent only ", 19), "%s", err.msg);
    end[1]->close(end[1]);
    pthread_join(thread, NULL);
    end[0]->close(end[0]);
    spot_buf_release(&message.payload);
}
END_TEST

START_TEST(a_long_greeting_is_refused)
{
    const char text[4096] = "send";
    struct spot_port *end[2];
    struct spot_err err = { 0 };

    make_pair(1, end);
    ck_assert_int_eq(spot_transfer_send(end[0], SPOT_TRANSFER_MSG_HELLO, SPOT_TRANSFER_VERSION,
                                        text, sizeof(text), NULL),
                     0);
    ck_assert_int_eq(spot_transfer_meet(end[1], "recv", &err), -1);
    ck_assert_str_eq(err.msg, "the peer does not use this protocol");
    end[0]->close(end[0]);
    end[1]->close(end[1]);
}
END_TEST

static int read_slowly(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err)
{
    spot_clock_sleep(0.15);
    return read_file(user, at, data, n_byte, err);
}

/* What came before is hashed at both ends at once, which for a big file takes longer than the other
 * end's patience. */
START_TEST(a_sender_that_hashes_what_it_did_not_send_is_heard)
{
    const struct spot_sender_options options = { .chunk_byte = 4096,
                                                 .source = "test",
                                                 .silence_s = 12 };
    struct spot_source source = { .read = read_slowly };
    struct file f;
    struct spot_sender *sender;
    struct spot_receiver *receiver = NULL;
    struct spot_receiver_state state;
    struct spot_port *end[2];
    struct serving serving;
    uint64_t first;

    set_up();
    make_file(&f, 40000, 10, 11);
    ck_assert(!attempt(&f, 4096, f.bytes.n - 8192, SIZE_MAX, &first));
    ck_assert_uint_ge(first, 35 * 4096); /* at least 35 reads of 150 ms, and a limit of 4 s */
    source.header = f.bytes.data;
    source.n_header = f.n_header;
    source.user = &f;
    sender = spot_sender_new(&options, &source, NULL);
    receiver = receiver_of(1);
    make_pair(4, end);
    start_serving(&serving, sender, end[0]);
    ck_assert_int_eq(spot_receiver_add(receiver, end[1], NULL), 0);
    ck_assert_msg(wait_for(receiver, &state), "%s", state.err.msg);
    spot_receiver_free(receiver);
    pthread_join(serving.thread, NULL);
    ck_assert_int_eq(target_is(&f), 1);
    spot_sender_free(sender);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

/* A receiver's port that keeps what was said first after HELLO. A BEAT said first waits until the
 * other port, too, has said something: what comes first is told by order, not by time. */
struct spies {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t first[2]; /* message type */
};

struct spy_port {
    struct spot_port port;
    struct spot_port *inner;
    struct spies *all;
    int at;
};

static void note_first(struct spies *s, int at, uint64_t type)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 5;
    pthread_mutex_lock(&s->lock);
    if (!s->first[at]) {
        s->first[at] = type;
        pthread_cond_broadcast(&s->changed);
        while (type == SPOT_TRANSFER_MSG_BEAT && !s->first[!at] &&
               !pthread_cond_timedwait(&s->changed, &s->lock, &end))
            ;
    }
    pthread_mutex_unlock(&s->lock);
}

static int spy_write(struct spot_port *port, const void *data, size_t n_byte, struct spot_err *err)
{
    struct spy_port *p = (struct spy_port *)port;

    if (n_byte == SPOT_TRANSFER_HEAD && spot_le_get((const unsigned char *)data + 4, 4) > 1)
        note_first(p->all, p->at, spot_le_get((const unsigned char *)data + 4, 4));
    return p->inner->write(p->inner, data, n_byte, err);
}

static int spy_read(struct spot_port *port, void *data, size_t n_byte, size_t *got,
                    struct spot_err *err)
{
    struct spy_port *p = (struct spy_port *)port;

    return p->inner->read(p->inner, data, n_byte, got, err);
}

static int spy_wait(struct spot_port *port, double limit_s)
{
    struct spy_port *p = (struct spy_port *)port;

    return p->inner->wait(p->inner, limit_s);
}

static void spy_close(struct spot_port *port)
{
    struct spy_port *p = (struct spy_port *)port;

    p->inner->close(p->inner);
}

START_TEST(a_receiver_that_reads_again_what_it_has_is_heard_over_every_port)
{
    const struct spot_receiver_options options = { .path = target, .silence_s = 0.001 };
    struct spies spies = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, { 0 } };
    struct spy_port spy[2];
    struct serving serving[2];
    struct spot_sender *sender;
    struct spot_receiver *receiver;
    struct spot_receiver_state state;
    struct file f;
    uint64_t first;

    set_up();
    make_file(&f, 100000, 10, 12);
    ck_assert(!attempt(&f, 64, f.bytes.n, SIZE_MAX, &first)); /* thousands to read again */
    sender = sender_of(&f, 64, 0);
    receiver = spot_receiver_new(&options);
    for (int i = 0; i < 2; i++) {
        struct spot_port *end[2];

        make_pair(5, end);
        spy[i] =
            (struct spy_port){ { spy_read, spy_write, spy_wait, spy_close, 0 }, end[1], &spies, i };
        start_serving(&serving[i], sender, end[0]);
        ck_assert_int_eq(spot_receiver_add(receiver, &spy[i].port, NULL), 0);
    }
    wait_for(receiver, &state); /* it may find a sender of a loaded machine too slow */
    spot_receiver_free(receiver);
    for (int i = 0; i < 2; i++) {
        pthread_join(serving[i].thread, NULL);
        ck_assert_uint_eq(spies.first[i], SPOT_TRANSFER_MSG_BEAT);
    }
    spot_sender_free(sender);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

static void send_head(struct spot_port *port, const struct file *f)
{
    struct spot_stream_info info = { .chunk_byte = 4096 };
    struct spot_buf head = { 0 };
    struct spot_coder coder;

    spot_coder_init(&coder);
    ck_assert_int_eq(spot_stream_put_head(&coder, &info, f->bytes.data, f->n_header, &head, NULL),
                     0);
    ck_assert_int_eq(spot_transfer_send(port, SPOT_TRANSFER_MSG_HEAD, 0, head.data, head.n, NULL),
                     0);
    spot_coder_release(&coder);
    spot_buf_release(&head);
}

/* The sender says why it leaves and closes; the receiver's next word meets a closed door. */
START_TEST(a_reason_is_told_though_the_port_can_no_longer_be_written_to)
{
    const struct spot_err why = { .code = SPOT_EPREEMPTED, .msg = "time is \033[2Jup\n" };
    const unsigned char want[8] = { 0, 0, 0, 0, 90 }; /* first, count */
    struct file f;
    struct spot_sender *sender;
    struct spot_receiver *receiver;
    struct spot_receiver_state state;
    struct spot_port *end[2];
    struct spot_transfer_message m = { 0 };
    struct serving serving;

    set_up();
    make_file(&f, 100000, 10, 15);
    sender = sender_of(&f, 4096, 0);
    make_pair(2, end); /* of a receiver that leaves */
    start_serving(&serving, sender, end[0]);
    ck_assert_int_eq(spot_transfer_meet(end[1], "recv", NULL), 0);
    ck_assert_int_eq(spot_transfer_receive(end[1], &m, NULL), 0);
    /* more than the socket takes: the sender is writing when the end comes */
    ck_assert_int_eq(spot_transfer_send(end[1], SPOT_TRANSFER_MSG_WANT, 0, want, 8, NULL), 0);
    ck_assert_int_eq(spot_transfer_send(end[1], SPOT_TRANSFER_MSG_CREDIT, 1 << 30, NULL, 0, NULL),
                     0);
    spot_clock_sleep(0.1);
    spot_transfer_fail(end[1], &why);
    end[1]->close(end[1]);
    pthread_join(serving.thread, NULL);
    ck_assert_str_eq(serving.err.msg, "the peer reports: time is ?[2Jup?");
    spot_buf_release(&m.payload);
    spot_sender_free(sender);

    receiver = receiver_of(1);
    make_pair(2, end); /* of a sender that leaves: after HELLO nothing can be written */
    ck_assert_int_eq(
        spot_transfer_send(end[0], SPOT_TRANSFER_MSG_HELLO, SPOT_TRANSFER_VERSION, "send", 4, NULL),
        0);
    send_head(end[0], &f);
    spot_transfer_fail(end[0], &why);
    ck_assert_int_eq(spot_receiver_add(receiver,
                                       cut_after(end[1], SIZE_MAX, SPOT_TRANSFER_HEAD + 4, false),
                                       NULL),
                     0);
    ck_assert(!wait_for(receiver, &state));
    ck_assert_str_eq(state.err.msg, "the peer reports: time is ?[2Jup?");
    end[0]->close(end[0]);
    spot_receiver_free(receiver);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

START_TEST(holders_of_different_files_are_not_mixed)
{
    struct file f[2];
    struct spot_sender *sender[2];
    struct spot_receiver *receiver;
    struct spot_receiver_state state;
    struct serving serving[2];

    set_up();
    receiver = receiver_of(1 << 20);
    for (int i = 0; i < 2; i++) {
        struct spot_port *end[2];

        make_file(&f[i], 200000, 10000 + (uint64_t)i, 9);
        sender[i] = sender_of(&f[i], 4096, 0);
        make_pair(5, end);
        start_serving(&serving[i], sender[i], end[0]);
        ck_assert_int_eq(spot_receiver_add(receiver, end[1], NULL), 0);
    }
    ck_assert_msg(wait_for(receiver, &state), "%s", state.err.msg);
    spot_receiver_free(receiver);
    for (int i = 0; i < 2; i++)
        pthread_join(serving[i].thread, NULL);
    ck_assert_int_ne(!serving[0].rc, !serving[1].rc); /* one was refused */
    ck_assert_int_eq(target_is(&f[serving[0].rc ? 1 : 0]), 1);
    for (int i = 0; i < 2; i++) {
        spot_sender_free(sender[i]);
        spot_buf_release(&f[i].bytes);
    }
    tear_down();
}
END_TEST

START_TEST(another_version_and_the_same_role_are_refused_by_name)
{
    struct spot_port *end[2];
    struct spot_err err = { 0 };

    make_pair(1, end);
    ck_assert_int_eq(spot_transfer_send(end[0], SPOT_TRANSFER_MSG_HELLO, 2, "send", 4, NULL), 0);
    ck_assert_int_eq(spot_transfer_meet(end[1], "recv", &err), -1);
    ck_assert_str_eq(err.msg, "the peer has protocol version 2, this program 1");
    end[0]->close(end[0]);
    end[1]->close(end[1]);
    make_pair(1, end);
    ck_assert_int_eq(spot_transfer_send(end[0], SPOT_TRANSFER_MSG_HELLO, 1, "recv", 4, NULL), 0);
    ck_assert_int_eq(spot_transfer_meet(end[1], "recv", &err), -1);
    ck_assert_str_eq(err.msg, "the peer does not send");
    end[0]->close(end[0]);
    end[1]->close(end[1]);
    make_pair(1, end);
    ck_assert_int_eq(end[0]->write(end[0], "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, NULL), 0);
    ck_assert_int_eq(spot_transfer_meet(end[1], "recv", &err), -1);
    ck_assert_str_eq(err.msg, "the peer does not use this protocol");
    end[0]->close(end[0]);
    end[1]->close(end[1]);
}
END_TEST

START_TEST(a_passed_deadline_ends_the_sender_and_keeps_the_rest)
{
    struct file f;
    struct spot_sender *sender;
    struct spot_receiver *receiver;
    struct spot_receiver_state state;
    struct spot_port *end[2];
    struct serving serving;

    set_up();
    make_file(&f, 1000, 10, 10);
    sender = sender_of(&f, 64, spot_clock_s() - 1);
    receiver = receiver_of(1);
    make_pair(2, end);
    start_serving(&serving, sender, end[0]);
    ck_assert_int_eq(spot_receiver_add(receiver, end[1], NULL), 0);
    ck_assert(!wait_for(receiver, &state));
    spot_receiver_free(receiver);
    pthread_join(serving.thread, NULL);
    ck_assert_int_eq(serving.rc, -1);
    ck_assert_int_eq(serving.err.code, SPOT_EPREEMPTED);
    ck_assert_int_eq(target_is(&f), 0);
    spot_sender_free(sender);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

/* A limit on the size of files stands in for a full disk: writes fail in the middle. */
/* Found by fuzz_transfer_protocol: an empty HEAD was taken for one that was used up, and an
 * assertion fell. */
START_TEST(an_empty_head_is_refused)
{
    struct spot_receiver *receiver;
    struct spot_receiver_state state;
    struct spot_port *end[2];

    set_up();
    receiver = receiver_of(64 << 10);
    make_pair(2, end);
    ck_assert_int_eq(spot_receiver_add(receiver, end[1], NULL), 0);
    ck_assert_int_eq(
        spot_transfer_send(end[0], SPOT_TRANSFER_MSG_HELLO, SPOT_TRANSFER_VERSION, "send", 4, NULL),
        0);
    ck_assert_int_eq(spot_transfer_send(end[0], SPOT_TRANSFER_MSG_HEAD, 0, NULL, 0, NULL), 0);
    ck_assert(!wait_for(receiver, &state));
    ck_assert_ptr_nonnull(strstr(state.err.msg, "head of the stream is cut short"));
    spot_receiver_free(receiver);
    end[0]->close(end[0]);
    ck_assert_int_ne(access(target, F_OK), 0);
    tear_down();
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    signal(SIGPIPE, SIG_IGN);
    tcase_add_loop_test(tc, a_file_moves_over_any_number_of_ports, 0, 4);
    tcase_add_loop_test(tc, a_peer_that_hands_out_bytes_one_by_one_is_given_up, 0, 3);
    add_tests(tc);
    return run_suite("move", tc);
}

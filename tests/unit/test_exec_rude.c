/* SPDX-License-Identifier: MIT */
/* lane: wait */
/* Goal: neither side of a hosted job trusts the other: a coordinator drops who says what makes no
 * sense, and says what it was; a node ends with an error that names the message; what is of no use
 * now is left alone.
 */
#define _GNU_SOURCE /* accept4. NOLINT(bugprone-reserved-identifier) */
#include <poll.h>
#include <sys/socket.h>

#include "cluster/protocol.h"
#include "comm/endpoint.h"
#include "comm/link.h"
#include "common/version.h"
#include "exec_rig.h"

static int waits(void)
{
    put(in_dir("begun"), "");
    wait_for(in_dir("finish"));
    put(in_dir("ends"), "");
    return 0;
}

static const struct rank_story story[] = { { "waits", waits }, { 0 } };

static char *const *command;
static struct spot_link link_;
static struct spot_frame_list arrived;
static struct spot_err err;
static uint32_t epoch;

static void set_up_peer(void)
{
    set_up();
    command = rank_command("waits");
    link_ = (struct spot_link){ .fd = -1 };
    arrived = (struct spot_frame_list){ 0 };
    epoch = 0;
}

static void hang_up(void)
{
    spot_link_release(&link_);
    spot_frame_list_release(&arrived);
    link_.fd = -1;
}

static void tear_down_peer(void)
{
    hang_up();
    tear_down();
}

/* --- the other side of a link -------------------------------------------------------------------
 */

static void send_frame(uint32_t type, uint64_t tag, const struct spot_buf *out)
{
    ck_assert_msg(
        !spot_link_send(&link_, type, epoch, tag, out ? out->data : NULL, out ? out->n : 0, &err),
        "%s", err.msg);
}

/* The next frame of that type; NULL when the other side has hung up. To be freed. */
static struct spot_frame *await(uint32_t type)
{
    for (int look = 0; look < PATIENCE; look++) {
        struct pollfd set = { .fd = link_.fd, .events = POLLIN };
        struct spot_frame *frame;

        while ((frame = spot_frame_pop(&arrived))) {
            if (frame->type == type)
                return frame;
            free(frame);
        }
        (void)poll(&set, 1, 10);
        if (set.revents && spot_link_read(&link_, &arrived, &err) && !arrived.head)
            return NULL;
    }
    ck_abort_msg("no message of type %u came", (unsigned)type);
}

static void expect(uint32_t type)
{
    struct spot_frame *const frame = await(type);

    ck_assert_msg(frame, "it hung up before it said %u", (unsigned)type);
    epoch = frame->epoch;
    free(frame);
}

/* --- who joins is rude --------------------------------------------------------------------------
 */

static void dial(void)
{
    struct spot_endpoint at;
    int fd = -1;

    ck_assert_int_eq(spot_endpoint_parse(address, &at, &err), 0);
    until((fd = spot_endpoint_connect(&at, &err)) >= 0);
    spot_link_init(&link_, fd, SPOT_PAYLOAD_MAX);
    epoch = 0;
}

/* Bytes up to what the workload wants to know. */
static void put_hello(struct spot_buf *out)
{
    spot_put_u32(out, SPOT_PROTOCOL);
    spot_put_text(out, spot_version());
    spot_put_text(out, "rude");
    spot_put_text(out, "unix:/nowhere/at/all");
    spot_put_text(out, "");
    spot_put_u64(out, 0);
    spot_put_text(out, SPOT_EXEC_NAME);
    spot_put_u64(out, spot_exec_hash(command, 1, NULL));
    spot_put_u32(out, 1);
}

static void put_report(struct spot_buf *out, const struct spot_exec_held *held)
{
    spot_exec_put_held(out, held);
    spot_exec_put_holdings(out, &(struct spot_exec_holdings){ 0 });
}

static void say_hello(const struct spot_exec_held *held)
{
    struct spot_buf out = { 0 };

    put_hello(&out);
    put_report(&out, held);
    send_frame(SPOT_MSG_HELLO, 0, &out);
    spot_buf_release(&out);
}

/* A member whose ranks run. */
static void join_and_run(void)
{
    struct spot_buf out = { 0 };

    dial();
    say_hello(&(struct spot_exec_held){ 0 });
    expect(SPOT_MSG_WELCOME);
    expect(SPOT_MSG_QUIESCE);
    put_report(&out, &(struct spot_exec_held){ 0 });
    spot_put_u32(&out, 0);
    send_frame(SPOT_MSG_REPORT, 0, &out);
    spot_buf_release(&out);
    expect(SPOT_MSG_FORM);
    send_frame(SPOT_MSG_READY, 0, NULL);
    expect(SPOT_MSG_ROUND);
}

START_TEST(a_hello_that_makes_no_sense_is_refused)
{
    const struct spot_exec_options o = job_of(command, 1, 1, 1);
    const struct spot_exec_held bad[] = {
        { .state = SPOT_EXEC_STATES },
        { .port = UINT16_MAX + 1 },
        { .run_id = "r", .group_rank = 1, .group_world = 1 },
    };
    const size_t job = coordinate(&o);

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct spot_frame *frame;

        dial();
        say_hello(&bad[i]);
        frame = await(SPOT_MSG_REFUSED);
        ck_assert(frame && memmem(frame->data, frame->n_byte, "malformed HELLO", 15));
        free(frame);
        hang_up();
    }
    notice(job);
    ck_failed(job, SPOT_EPREEMPTED, "stopped in round 0");
    ck_assert_uint_eq(events("joined"), 0);
}
END_TEST

START_TEST(a_member_whose_words_make_no_sense_is_dropped)
{
    static const struct {
        uint32_t type;
        const char *what;
    } rude[] = {
        { SPOT_MSG_EXEC_ENDED, "the end of a rank" },
        { SPOT_MSG_EXEC_TOOK, "a commit" },
        { SPOT_MSG_EXEC_OFFER, "an offer of a commit" },
        { SPOT_MSG_EXEC_PACE, "the pace of its ranks" },
        { SPOT_MSG_EXEC_MOVED, "the end of a move" },
        { SPOT_MSG_EXEC_LEDGER, "the plan of samples" },
        { SPOT_MSG_EXEC_FETCH, "a request for a state" },
    };
    struct spot_exec_options o = job_of(command, 1, 1, 1);
    const struct spot_buf one_byte = { .data = (unsigned char[]){ 7 }, .n = 1 };
    char state[96], want[128];
    size_t job;

    snprintf(state, sizeof(state), "%s/disk", dir);
    o.state = state;
    job = coordinate(&o);
    for (size_t i = 0; i < sizeof(rude) / sizeof(*rude); i++) {
        join_and_run();
        send_frame(rude[i].type, 0, &one_byte);
        ck_assert_ptr_null(await(UINT32_MAX)); /* it hangs up */
        hang_up();
        snprintf(want, sizeof(want), "malformed message from worker rude (%s): it is dropped",
                 rude[i].what);
        ck_warned(want);
    }
    notice(job);
    ck_failed(job, SPOT_EPREEMPTED, "stopped");
}
END_TEST

START_TEST(what_is_of_no_use_now_is_left_alone)
{
    const struct spot_exec_options o = job_of(command, 1, 1, 1);
    const size_t job = coordinate(&o);
    struct spot_buf out = { 0 };

    join_and_run();
    send_frame(SPOT_MSG_EXEC_WARM, SPOT_EXEC_WARMTHS, NULL);
    send_frame(SPOT_MSG_EXEC_FETCH, 0, NULL);                    /* there is no disk */
    spot_state_id_put(&out, &(struct spot_state_id){ 0, 1, 2 }); /* of another round */
    spot_put_u64(&out, 3);
    spot_put_text(&out, "");
    spot_put_u8(&out, SPOT_EXEC_OF_ONE);
    spot_state_saved_put(&out, &(struct spot_state_saved){ 0 });
    send_frame(SPOT_MSG_EXEC_TOOK, 0, &out);
    out.n = 0;
    spot_put_text(&out, "nobody asked");
    spot_put_u64(&out, 0);
    send_frame(SPOT_MSG_EXEC_MOVED, 77, &out);
    spot_buf_release(&out);
    epoch--;
    send_frame(SPOT_MSG_EXEC_DONE, 0, NULL); /* of an epoch that is over */
    epoch++;
    send_frame(SPOT_MSG_EXEC_DONE, 0, NULL);
    expect(SPOT_MSG_FINISH);
    ck_done(job);
    ck_assert_uint_eq(events("committed"), 0);
    ck_assert(!is_file(in_dir("warned")));
}
END_TEST

/* --- the coordinator is rude --------------------------------------------------------------------
 */

/* Where the member is found. */
static char member_address[SPOT_ADDRESS_MAX + 8];

static int listen_at(void)
{
    struct spot_endpoint at;
    int fd;

    ck_assert_int_eq(spot_endpoint_parse(address, &at, &err), 0);
    fd = spot_endpoint_listen(&at, &err);
    ck_assert_msg(fd >= 0, "%s", err.msg);
    return fd;
}

/* Take a node in as member 1. */
static void take_in(int listen_fd)
{
    struct spot_buf out = { 0 };
    struct spot_frame *hello;
    struct spot_wire_in in;
    char text[256];
    int fd = -1;

    until((fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    spot_link_init(&link_, fd, SPOT_PAYLOAD_MAX);
    hello = await(SPOT_MSG_HELLO);
    ck_assert_ptr_nonnull(hello);
    in = spot_wire_in(hello->data, hello->n_byte);
    ck_assert_uint_eq(spot_get_u32(&in), SPOT_PROTOCOL);
    spot_get_text(&in, text, sizeof(text));
    spot_get_text(&in, text, sizeof(text));
    spot_get_text(&in, member_address, sizeof(member_address));
    ck_assert(!in.bad);
    free(hello);
    spot_put_u32(&out, 1);
    spot_put_u64(&out, 5);
    spot_put_f64(&out, 60);
    send_frame(SPOT_MSG_WELCOME, 0, &out);
    spot_buf_release(&out);
    epoch = 1;
    send_frame(SPOT_MSG_QUIESCE, 0, NULL);
    expect(SPOT_MSG_REPORT);
}

/* The node alone has a place, but for what the test changes. */
static struct spot_exec_form form_of(struct spot_mesh_peer *peer)
{
    struct spot_exec_form form = {
        .has_place = true,
        .env = { .group_world = 1, .world = 1, .local_world = 1, .run_id = "r" },
        .key = 9,
        .peer = peer,
        .n_peer = 1,
    };

    *peer = (struct spot_mesh_peer){ .id = 1 };
    snprintf(peer->address, sizeof(peer->address), "%s", member_address);
    return form;
}

static void send_form(const struct spot_exec_form *form)
{
    struct spot_buf out = { 0 };

    spot_exec_put_form(&out, form);
    send_frame(SPOT_MSG_FORM, 0, &out);
    spot_buf_release(&out);
}

START_TEST(a_form_that_makes_no_sense_ends_the_node)
{
    const int listen_fd = listen_at();
    struct spot_exec_move move = { .serial = 1, .from = 5, .to = 6 };
    struct spot_mesh_peer peer;

    for (int i = 0; i < 5; i++) {
        const size_t node = join_job("a", command);
        struct spot_exec_form form;

        take_in(listen_fd);
        form = form_of(&peer);
        form.env.local_world = i == 0 ? 2 : 1; /* it has one rank */
        form.env.group_rank = i == 1;          /* of one */
        form.env.has_state = i == 2;           /* of a commit of no places */
        peer.id = i == 3 ? 0 : 1;              /* nobody's */
        form.move = i == 4 ? &move : NULL;     /* between others */
        form.n_move = i == 4;
        send_form(&form);
        ck_failed(node, SPOT_ESYS,
                  i == 4 ? "the coordinator ordered a move between others"
                         : "the coordinator sent a malformed FORM");
        hang_up();
    }
    close(listen_fd);
}
END_TEST

START_TEST(an_order_that_makes_no_sense_ends_the_node_and_its_ranks)
{
    static const struct {
        uint32_t type;
        const char *what;
    } rude[] = { { SPOT_MSG_EXEC_MOVE, "malformed MOVE" },
                 { SPOT_MSG_EXEC_PEERS, "malformed PEERS" },
                 { SPOT_MSG_EXEC_ANSWER, "malformed ANSWER" },
                 { SPOT_MSG_EXEC_HOLD, "malformed HOLD" },
                 { SPOT_MSG_EXEC_PLAN, "a malformed plan of samples" } };
    const struct spot_buf two_bytes = { .data = (unsigned char[]){ 7, 7 }, .n = 2 };
    const int listen_fd = listen_at();
    struct spot_mesh_peer peer;

    for (size_t i = 0; i < sizeof(rude) / sizeof(*rude); i++) {
        const size_t node = join_job("a", command);
        struct spot_exec_form form;

        take_in(listen_fd);
        form = form_of(&peer);
        send_form(&form);
        expect(SPOT_MSG_READY);
        send_frame(SPOT_MSG_ROUND, 0, NULL);
        until(is_file(in_dir("begun")));
        send_frame(SPOT_MSG_EXEC_CANCEL, 99, NULL); /* there is none */
        send_frame(99, 0, NULL);                    /* of a later version */
        send_frame(rude[i].type, 0, &two_bytes);
        ck_failed(node, SPOT_ESYS, rude[i].what);
        ck_assert_int_eq(unlink(in_dir("begun")), 0);
        hang_up();
    }
    close(listen_fd);
}
END_TEST

/* Of both what comes first: a coordinator that is done does not wait for who tells it something. */
START_TEST(a_node_hears_of_the_end_whatever_it_was_about_to_say)
{
    const int listen_fd = listen_at();
    struct spot_mesh_peer peer;

    for (int i = 0; i < 10; i++) {
        const size_t node = join_job("a", command);
        struct spot_exec_form form;

        take_in(listen_fd);
        form = form_of(&peer);
        send_form(&form);
        expect(SPOT_MSG_READY);
        send_frame(SPOT_MSG_ROUND, 0, NULL);
        until(is_file(in_dir("begun")));
        ck_assert_int_eq(kill(process[node], SIGSTOP), 0);
        put(in_dir("finish"), "");
        until(is_file(in_dir("ends")));
        send_frame(SPOT_MSG_FINISH, 0, NULL);
        hang_up();
        ck_assert_int_eq(kill(process[node], SIGCONT), 0);
        ck_done(node);
        for (size_t k = 0; k < 3; k++)
            ck_assert_int_eq(unlink(in_dir("%s", (const char *[]){ "begun", "finish", "ends" }[k])),
                             0);
    }
    close(listen_fd);
}
END_TEST

/* A state that is ordered but not there is told of, and asked for elsewhere. */
START_TEST(a_node_that_lacks_what_it_is_to_begin_with_says_so)
{
    const int listen_fd = listen_at();
    const size_t node = join_job("a", command);
    struct spot_mesh_peer peer;
    struct spot_exec_form form;
    struct spot_frame *frame;

    take_in(listen_fd);
    form = form_of(&peer);
    form.env.has_state = true;
    form.env.state_world = 1;
    send_form(&form);
    frame = await(SPOT_MSG_EXEC_MOVED);
    ck_assert(frame && memmem(frame->data, frame->n_byte, "the state of place 0 is not here", 32));
    free(frame);
    send_frame(SPOT_MSG_FINISH, 0, NULL);
    ck_done(node);
    close(listen_fd);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("exec_rude");

    be_rank(argc, argv, story);
    tcase_add_checked_fixture(tc, set_up_peer, tear_down_peer);
    tcase_add_test(tc, a_hello_that_makes_no_sense_is_refused);
    tcase_add_test(tc, a_member_whose_words_make_no_sense_is_dropped);
    tcase_add_test(tc, what_is_of_no_use_now_is_left_alone);
    tcase_add_test(tc, a_form_that_makes_no_sense_ends_the_node);
    tcase_add_test(tc, an_order_that_makes_no_sense_ends_the_node_and_its_ranks);
    tcase_add_test(tc, a_node_hears_of_the_end_whatever_it_was_about_to_say);
    tcase_add_test(tc, a_node_that_lacks_what_it_is_to_begin_with_says_so);
    return run_suite("exec_rude", tc);
}

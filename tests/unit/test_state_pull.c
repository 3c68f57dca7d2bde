/* SPDX-License-Identifier: MIT */
/* Goal: a state that is asked for piece by piece arrives to the byte, with no more on its way than
 * two answers; what is not held, damaged, cut or of another state is never taken for it. And what
 * an exec job says of states is read as it was written, and refused where it is cut.
 */
#define _XOPEN_SOURCE 700
#include <string.h>

#include "host/state_pull.h"
#include "state_rig.h"

static struct spot_err err;
static struct spot_state_store *from, *to;
static const struct spot_state_id id = { 3, 11, 40 };

/* What is on its way, requests and answers apart, each in order. */
static struct {
    struct spot_frame *frame[8];
    size_t n;
} asked, answered;

static int say(void *user, uint32_t type, uint64_t tag, struct spot_buf *out_take,
               struct spot_err *why)
{
    const bool is_asked = type == SPOT_MSG_EXEC_FETCH || type == SPOT_MSG_EXEC_WANT;
    struct spot_frame *const frame = spot_frame_new(type, 1, tag, out_take->n);

    (void)user, (void)why;
    if (out_take->n)
        memcpy(frame->data, out_take->data, out_take->n);
    spot_buf_release(out_take);
    ck_assert_uint_le(asked.n, SPOT_STATE_PULL_RUNS);
    if (is_asked)
        asked.frame[asked.n++] = frame;
    else
        answered.frame[answered.n++] = frame;
    return 0;
}

static struct spot_frame *first_asked(void)
{
    struct spot_frame *const frame = asked.frame[0];

    ck_assert_uint_gt(asked.n, 0);
    memmove(asked.frame, asked.frame + 1, --asked.n * sizeof(asked.frame[0]));
    return frame;
}

/* The answer to the first request. */
static struct spot_frame *serve_first(void)
{
    struct spot_frame *const frame = first_asked();

    ck_assert_int_eq(spot_state_serve(from, frame, say, NULL, &err), 0);
    free(frame);
    ck_assert_uint_eq(answered.n, 1);
    answered.n = 0;
    ck_assert_uint_eq(answered.frame[0]->tag, 9);
    return answered.frame[0];
}

static void forget_asked(void)
{
    while (asked.n)
        free(first_asked());
}

static void set_up(void)
{
    struct spot_state_record r = { .id = id, .place = 1, .world = 2, .run_id = "run" };

    make_root();
    shell("mkdir live a b && head -c 7000000 /dev/urandom >live/big && echo 1 >live/step");
    from = spot_state_store_open(dir_in_root("a"), "a", UINT64_MAX, false, &err);
    to = spot_state_store_open(dir_in_root("b"), "b", UINT64_MAX, false, &err);
    ck_assert_int_eq(spot_state_take(from, dir_in_root("live"), NULL, 0, false, &r, &err), 0);
    ck_assert_int_eq(spot_state_store_add(from, &r, &err), 0);
}

static void tear_down(void)
{
    spot_state_store_free(from);
    spot_state_store_free(to);
    forget_asked();
    shell("rm -rf live a b");
    ck_assert_int_eq(rmdir(root), 0);
}

/* Serve what was asked, and hand the answer over; `most` gets the largest answer. */
static enum spot_state_step serve_one(struct spot_state_pull *pull, size_t *most)
{
    struct spot_frame *const frame = serve_first();
    enum spot_state_step step;

    *most = frame->n_byte > *most ? frame->n_byte : *most;
    step = spot_state_pull_take(pull, frame, &err);
    free(frame);
    return step;
}

static struct spot_state_pull *begin(uint32_t place)
{
    const struct spot_exec_move move = { 9, id, place, 4, 0 };
    struct spot_state_pull *const pull = spot_state_pull_new(to, &move, say, NULL);

    ck_assert_int_eq(spot_state_pull_begin(pull, &err), 0);
    return pull;
}

START_TEST(it_arrives_to_the_byte_and_in_small_answers)
{
    struct spot_state_pull *pull = begin(1);
    enum spot_state_step step;
    size_t most = 0;

    do
        step = serve_one(pull, &most);
    while (step == SPOT_STATE_MOVED);
    ck_assert_int_eq(step, SPOT_STATE_COMPLETE);
    ck_assert_uint_eq(spot_state_pull_taken(pull), 7000002);
    ck_assert_uint_le(most, SPOT_STATE_PULL_BYTE + SPOT_STATE_CHUNK_BYTE);
    spot_state_pull_free(pull);
    shell("cp -r live want && rm -r live/*");
    ck_assert_int_eq(
        spot_state_lay_out(to, dir_in_root("live"), spot_state_store_find(to, &id, 1), &err), 0);
    shell("diff -r live want && rm -r want");
    ck_assert_uint_eq(asked.n, 1); /* for nothing more */
    forget_asked();
    pull = begin(1); /* again: nothing is lacking */
    ck_assert_int_eq(serve_one(pull, &most), SPOT_STATE_COMPLETE);
    ck_assert_uint_eq(spot_state_pull_taken(pull), 0);
    spot_state_pull_free(pull);
}
END_TEST

START_TEST(what_is_not_held_is_an_error)
{
    struct spot_state_pull *const pull = begin(0);
    size_t most = 0;

    ck_assert_int_eq(serve_one(pull, &most), SPOT_STATE_FAILED);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    spot_state_pull_free(pull);
}
END_TEST

START_TEST(a_piece_that_is_damaged_is_not_given)
{
    struct spot_state_pull *const pull = begin(1);
    size_t most = 0;

    ck_assert_int_eq(serve_one(pull, &most), SPOT_STATE_MOVED); /* the record */
    shell("for f in a/chunk/*; do printf x | dd of=$f bs=1 seek=1 conv=notrunc status=none; done");
    ck_assert_int_eq(serve_one(pull, &most), SPOT_STATE_FAILED);
    ck_assert_uint_eq(spot_state_store_count(from), 0);
    spot_state_pull_free(pull);
    ck_assert_uint_eq(spot_state_store_count(to), 0);
}
END_TEST

START_TEST(answers_that_are_cut_changed_or_of_another_state_are_refused)
{
    for (int how = 0; how < 5; how++) {
        struct spot_state_pull *const pull = begin(1);
        struct spot_frame *frame;
        size_t most = 0;

        if (how)
            ck_assert_int_eq(serve_one(pull, &most), SPOT_STATE_MOVED);
        frame = serve_first();
        if (how == 0) /* a record of another step: behind its run and round */
            frame->data[4 + 3 + 4 + 8] ^= 1;
        else if (how == 1)
            frame->data[5] ^= 1;
        else if (how == 2)
            frame->n_byte--;
        else if (how == 3)
            frame->n_byte = 0;
        else
            frame->type = SPOT_MSG_EXEC_RECORD; /* a second one */
        ck_assert_int_eq(spot_state_pull_take(pull, frame, &err), SPOT_STATE_FAILED);
        free(frame);
        spot_state_pull_free(pull);
        forget_asked();
        ck_assert_uint_eq(spot_state_store_count(to), 0);
    }
}
END_TEST

START_TEST(a_malformed_wish_is_refused)
{
    struct spot_frame *const frame = spot_frame_new(SPOT_MSG_EXEC_WANT, 1, 9, 7);

    memset(frame->data, 0, 7);
    ck_assert_int_eq(spot_state_serve(from, frame, say, NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    free(frame);
}
END_TEST

/* --- what is said of states --------------------------------------------------------------------
 */

static struct spot_exec_form some_form(void)
{
    static struct spot_mesh_peer peer[2] = { { 1, "unix:/a", false }, { 7, "10.0.0.1:4", false } };
    static struct spot_exec_move move[1] = { { 5, { 1, 2, 3 }, 0, 1, 7 } };
    struct spot_exec_form form = { .has_place = true,
                                   .n_failed = 2,
                                   .env = { .group_world = 2,
                                            .world = 4,
                                            .local_world = 2,
                                            .has_state = true,
                                            .state_step = 99,
                                            .state_world = 3 },
                                   .key = 17,
                                   .state = { 1, 2, 99 },
                                   .has_all = true,
                                   .peer = peer,
                                   .n_peer = 2,
                                   .move = move,
                                   .n_move = 1 };

    strcpy(form.env.run_id, "run");
    strcpy(form.env.master_address, "h");
    return form;
}

START_TEST(a_form_is_read_as_written_and_refused_where_it_is_cut)
{
    const struct spot_exec_form want = some_form();
    struct spot_exec_form got;
    struct spot_buf out = { 0 };
    struct spot_wire_in in;

    spot_exec_put_form(&out, &want);
    in = spot_wire_in(out.data, out.n);
    spot_exec_get_form(&in, &got);
    ck_assert(spot_wire_in_done(&in));
    ck_assert(!got.is_kept && got.has_place && got.has_all && got.key == 17 && got.n_failed == 2);
    ck_assert(got.env.has_state && got.env.state_step == 99 && got.env.state_world == 3);
    ck_assert_int_eq(spot_state_id_compare(&got.state, &want.state), 0);
    ck_assert(got.n_peer == 2 && got.peer[1].id == 7 && !strcmp(got.peer[1].address, "10.0.0.1:4"));
    ck_assert(got.n_move == 1 && got.move[0].serial == 5 && got.move[0].to == 7);
    spot_exec_form_release(&got);
    for (size_t n = 0; n < out.n; n++) {
        in = spot_wire_in(out.data, n);
        spot_exec_get_form(&in, &got);
        ck_assert_msg(!spot_wire_in_done(&in), "%zu bytes", n);
        spot_exec_form_release(&got);
    }
    spot_buf_release(&out);
}
END_TEST

START_TEST(holdings_are_read_as_written_and_refused_where_they_make_no_sense)
{
    struct spot_exec_holding h[2] = {
        { "run", { 1, 2, 3 }, 0, 2, { 5, "ckpt.pt" } },
        { "run", { 1, 2, 4 }, 1, 2, { 0, "" } },
    };
    const struct spot_exec_holdings want = { h, 2, 2 };
    struct spot_exec_holdings got;
    struct spot_buf out = { 0 };
    struct spot_wire_in in;

    spot_exec_put_holdings(&out, &want);
    in = spot_wire_in(out.data, out.n);
    spot_exec_get_holdings(&in, &got);
    ck_assert(spot_wire_in_done(&in) && got.n == 2 && got.of[1].place == 1 &&
              got.of[1].id.step == 4 && !strcmp(got.of[0].run_id, "run"));
    spot_exec_holdings_release(&got);
    in = spot_wire_in(out.data, out.n - 1);
    spot_exec_get_holdings(&in, &got);
    ck_assert(in.bad && !got.of && !got.n);
    out.n = 0;
    h[1].place = 2; /* of 2 */
    spot_exec_put_holdings(&out, &want);
    in = spot_wire_in(out.data, out.n);
    spot_exec_get_holdings(&in, &got);
    ck_assert(in.bad && !got.of);
    spot_buf_release(&out);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("state_pull", tc);
}

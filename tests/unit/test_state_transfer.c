/* SPDX-License-Identifier: MIT */
/* Goal: a state arrives at another member to the byte, of the next one only what changed is sent;
 * a piece that is damaged where it lies is never taken for a state; whoever loses the other one, or
 * has no room, is told, and keeps what it held.
 */
#define _XOPEN_SOURCE 700
#include <sys/stat.h>

#include "host/state_pull.h"
#include "mesh_rig.h"
#include "state_rig.h"

enum { STEPS_MAX = 20000 };

static struct spot_err err;
static struct spot_state_store *store[2]; /* of the sender, of the receiver */
static struct spot_state_pull *pull;
static struct spot_err why[2];
static uint64_t n_move;

static void set_up(void)
{
    make_root();
    shell("mkdir live a b && head -c 5000000 /dev/urandom >live/big && echo 1 >live/step && : "
          ">live/empty");
    store[0] = spot_state_store_open(dir_in_root("a"), "a", 64 << 20, false, &err);
    store[1] = spot_state_store_open(dir_in_root("b"), "b", 8 << 20, false, &err);
    ck_assert(store[0] && store[1]);
    open_meshes();
    enter(0, 5);
    enter(1, 5);
}

static void end_move(void)
{
    spot_state_pull_free(pull);
    pull = NULL;
}

static void tear_down(void)
{
    end_move();
    close_meshes();
    spot_state_store_free(store[0]);
    spot_state_store_free(store[1]);
    shell("rm -rf live a b");
    ck_assert_int_eq(rmdir(root), 0);
}

/* What is live now, at place 2 of 3, into the sender's store. */
static struct spot_state_id take(uint64_t step)
{
    const struct spot_state_id id = { 1, 9, step };
    struct spot_state_record r = { .id = id, .place = 2, .world = 3, .run_id = "run" };

    ck_assert_msg(!spot_state_take(store[0], dir_in_root("live"), NULL, 0, false, &r, &err), "%s",
                  err.msg);
    ck_assert_int_eq(spot_state_store_add(store[0], &r, &err), 0);
    return id;
}

static void begin_move(const struct spot_state_id *id)
{
    const struct spot_exec_move from = { ++n_move, *id, 2, 1, 2 };

    memset(why, 0, sizeof(why));
    pull = spot_state_pull_over_mesh(store[1], &from, mesh[1], 0);
    ck_assert_int_eq(spot_state_pull_begin(pull, &err), 0);
}

static enum spot_state_step serve(void)
{
    return spot_state_serve_step(store[0], mesh[0], 2, n_move, &why[0]);
}

/* Until both have ended, or one failed. */
static void move(enum spot_state_step end[2])
{
    end[0] = end[1] = SPOT_STATE_WAITS;
    for (int i = 0; i < STEPS_MAX; i++) {
        if (end[0] == SPOT_STATE_WAITS || end[0] == SPOT_STATE_MOVED)
            end[0] = serve();
        if (end[1] == SPOT_STATE_WAITS || end[1] == SPOT_STATE_MOVED)
            end[1] = spot_state_pull_step(pull, &why[1]);
        if ((end[0] == SPOT_STATE_COMPLETE && end[1] == SPOT_STATE_COMPLETE) ||
            end[0] == SPOT_STATE_FAILED || end[1] == SPOT_STATE_FAILED)
            return;
        if (end[0] != SPOT_STATE_MOVED && end[1] != SPOT_STATE_MOVED)
            spot_clock_sleep(0.001);
    }
    ck_abort_msg("it never ends");
}

static uint64_t moved(const struct spot_state_id *id)
{
    enum spot_state_step end[2];
    uint64_t n;

    begin_move(id);
    move(end);
    ck_assert_msg(end[0] == SPOT_STATE_COMPLETE && end[1] == SPOT_STATE_COMPLETE, "%s %s",
                  why[0].msg, why[1].msg);
    n = spot_state_pull_taken(pull);
    end_move();
    return n;
}

START_TEST(a_state_arrives_and_of_the_next_one_what_changed)
{
    struct spot_state_id id = take(1);

    ck_assert_uint_eq(moved(&id), 5000002);
    shell("echo 2 >live/step && printf x | dd of=live/big bs=1 seek=2000000 conv=notrunc "
          "status=none && rm live/empty && cp -r live want");
    id = take(2);
    ck_assert_uint_eq(moved(&id), (1 << 20) + 2);
    id = take(3); /* the same bytes */
    ck_assert_uint_eq(moved(&id), 0);
    ck_assert_uint_eq(spot_state_store_count(store[1]), 3);
    shell("rm -r live/* && echo 7 >live/other");
    ck_assert_int_eq(spot_state_lay_out(store[1], dir_in_root("live"),
                                        spot_state_store_find(store[1], &id, 2), &err),
                     0);
    shell("diff -r live want && rm -r want");
}
END_TEST

START_TEST(a_piece_that_is_damaged_where_it_lies_is_never_sent)
{
    const struct spot_state_id id = take(1);
    enum spot_state_step end[2];

    shell("f=$(ls -S a/chunk/* | head -n 1) && b=$(od -An -tu1 -j77 -N1 $f) && "
          "printf \"\\\\$(printf %o $((255 - b)))\" | dd of=$f bs=1 seek=77 conv=notrunc "
          "status=none");
    begin_move(&id);
    move(end);
    ck_assert_int_eq(end[0], SPOT_STATE_FAILED);
    ck_assert_int_eq(why[0].code, SPOT_EDATA);
    ck_assert_uint_eq(spot_state_store_count(store[0]), 0);
    ck_assert_uint_eq(spot_state_store_count(store[1]), 0);
}
END_TEST

START_TEST(one_that_has_no_room_says_so_and_keeps_what_it_held)
{
    struct spot_state_id id = take(1);
    enum spot_state_step end[2];

    (void)moved(&id);
    shell("head -c 5000000 /dev/urandom >live/big");
    id = take(2);
    begin_move(&id);
    move(end);
    ck_assert_int_eq(end[1], SPOT_STATE_FAILED);
    ck_assert_int_eq(why[1].code, SPOT_ESYS);
    end_move();
    spot_state_store_sweep(store[1]);
    ck_assert_uint_eq(spot_state_store_count(store[1]), 1);
    ck_assert_uint_eq(spot_state_store_used(store[1]), 5000002);
}
END_TEST

START_TEST(one_that_dies_while_it_receives_fails_the_sender)
{
    const struct spot_state_id id = take(1);
    enum spot_state_step end;

    begin_move(&id);
    for (int i = 0; i < STEPS_MAX && spot_state_pull_taken(pull) == 0; i++) {
        (void)serve();
        (void)spot_state_pull_step(pull, &why[1]);
        spot_clock_sleep(0.001);
    }
    ck_assert_uint_gt(spot_state_pull_taken(pull), 0); /* in the midst */
    end_move();
    spot_mesh_close(mesh[1]);
    mesh[1] = NULL;
    do {
        end = serve();
        if (end == SPOT_STATE_WAITS)
            spot_clock_sleep(0.001);
    } while (end == SPOT_STATE_MOVED || end == SPOT_STATE_WAITS);
    ck_assert_int_eq(end, SPOT_STATE_FAILED);
    ck_assert_int_eq(why[0].code, SPOT_ESYS);
    ck_assert_uint_eq(spot_state_store_count(store[0]), 1);
    ck_assert_uint_eq(spot_state_store_count(store[1]), 0);
}
END_TEST

START_TEST(the_end_of_the_epoch_ends_both)
{
    const struct spot_state_id id = take(1);
    enum spot_state_step end = SPOT_STATE_WAITS;

    begin_move(&id);
    (void)later((void *)(uintptr_t) "revoke");
    for (int i = 0; i < STEPS_MAX && end != SPOT_STATE_FAILED; i++) {
        end = serve();
        spot_clock_sleep(0.001);
    }
    ck_assert_int_eq(end, SPOT_STATE_FAILED);
    ck_assert_int_eq(why[0].code, SPOT_EPREEMPTED);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("state_transfer", tc);
}

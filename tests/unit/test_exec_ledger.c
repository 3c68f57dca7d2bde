/* SPDX-License-Identifier: MIT */
/* lane: wait */
/* Goal: ranks of all nodes get their samples by one plan, the first that the coordinator was told:
 * who asks before it is known waits, who declares another is refused, then and later, on whatever
 * node; a coordinator that comes back is told; a state brings its plan along.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "host/exec_ledger.h"
#include "host/rank_ask.h"
#include "state_rig.h"

static struct spot_err err;
static struct spot_exec_ledger ledger;
static struct spot_rank_socket *s;

static const struct spot_rank_op table[] = {
    { "samples", spot_exec_ledger_serve, spot_exec_ledger_gone, &ledger }, { 0 }
};

static void set_up(void)
{
    signal(SIGPIPE, SIG_IGN);
    make_root();
    spot_exec_ledger_init(&ledger);
    spot_exec_ledger_begin(&ledger, 2, 4, -1);
    s = spot_rank_socket_new(in_root("s"), table, &err);
    ck_assert_msg(s != NULL, "%s", err.msg);
    spot_rank_socket_set_round(s, 0);
}

static void tear_down(void)
{
    spot_rank_socket_free(s);
    spot_exec_ledger_release(&ledger);
    (void)unlink(in_root(SPOT_EXEC_LEDGER_FILE));
    ck_assert_int_eq(rmdir(root), 0);
}

static int dial(void)
{
    struct spot_endpoint at = { .kind = SPOT_ENDPOINT_UNIX };
    int fd;

    strcpy(at.path, in_root("s"));
    fd = spot_endpoint_connect(&at, &err);
    ck_assert_msg(fd >= 0, "%s", err.msg);
    return fd;
}

/* A rank asks for step 0 of a set, and hears what there is to hear. */
static void ask(int fd, int rank, int size)
{
    char text[256];
    const int n =
        snprintf(text, sizeof(text),
                 "{\"op\":\"samples\",\"step\":0,\"rank\":%d,\"world\":4,\"dataset_size\":"
                 "%d,\"global_batch\":4,\"order\":\"sequential\"}\n",
                 rank, size);

    ck_assert_int_eq(write(fd, text, (size_t)n), n);
    spot_rank_socket_turn(s);
}

static const char *heard(int fd)
{
    static char text[4096];
    ssize_t n;

    spot_rank_socket_turn(s);
    n = read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void agree(int64_t size)
{
    spot_exec_ledger_agreed(
        &ledger, s,
        &(struct spot_ledger_plan){ .n_sample = size, .batch = 4, .is_sequential = true });
}

START_TEST(who_asks_before_the_plan_is_known_waits_for_it)
{
    const int a = dial(), b = dial();

    ck_assert_ptr_null(spot_exec_ledger_news(&ledger));
    ask(a, 0, 20);
    ask(b, 1, 20);
    ck_assert_str_eq(heard(a), "");
    ck_assert_int_eq(spot_exec_ledger_news(&ledger)->n_sample, 20);
    ck_assert_ptr_null(spot_exec_ledger_news(&ledger)); /* once */
    agree(20);
    ck_assert_str_eq(heard(b), "{\"ok\":true,\"step\":0,\"epoch\":0,\"rank\":1,\"world\":4,"
                               "\"total\":4,\"ranges\":[{\"epoch\":0,\"from\":1,\"to\":2}],"
                               "\"samples\":[1]}\n");
    ck_assert_ptr_nonnull(strstr(heard(a), "\"samples\":[0]"));
    ask(a, 0, 20); /* at once from now on */
    ck_assert_ptr_nonnull(strstr(heard(a), "\"samples\":[0]"));
    close(a);
    close(b);
}
END_TEST

START_TEST(another_plan_is_refused_on_the_node_that_was_second)
{
    const int a = dial(), b = dial();

    ask(a, 0, 20);
    ask(b, 1, 21);
    agree(20);
    ck_assert_ptr_nonnull(strstr(heard(a), "\"ok\":true"));
    ck_assert_str_eq(heard(b), "{\"error\":\"dataset_size: it was declared as 20 before, and is 21 "
                               "now\"}\n");
    close(a);
    close(b);
}
END_TEST

START_TEST(a_job_that_has_another_plan_refuses_all_ranks_of_a_node)
{
    const int a = dial();

    ask(a, 0, 20);
    agree(30); /* another node was first */
    ck_assert_ptr_nonnull(strstr(heard(a), "declared as 30 before, and is 20 now"));
    ask(a, 0, 30);
    ck_assert_ptr_nonnull(strstr(heard(a), "\"ok\":true"));
    agree(31); /* and a coordinator that is of another job */
    ask(a, 0, 30);
    ck_assert_ptr_nonnull(strstr(heard(a), "the job has another plan: dataset_size"));
    close(a);
}
END_TEST

START_TEST(who_hangs_up_does_not_wait_and_a_new_round_starts_anew)
{
    const int a = dial(), b = dial();

    ask(a, 0, 20);
    ask(b, 1, 20);
    ck_assert_uint_eq(ledger.n_asker, 2);
    close(a);
    spot_rank_socket_turn(s);
    ck_assert_uint_eq(ledger.n_asker, 1);
    spot_rank_socket_set_round(s, 1);
    ck_assert_uint_eq(ledger.n_asker, 0);
    ck_assert_ptr_nonnull(strstr(heard(b), "the round is over"));
    agree(20);
    close(b);
}
END_TEST

START_TEST(another_coordinator_is_told_the_plan_of_the_job)
{
    const int a = dial();

    ask(a, 0, 20);
    ck_assert_ptr_nonnull(spot_exec_ledger_news(&ledger));
    spot_exec_ledger_tell_again(&ledger); /* it went away before it had answered */
    ck_assert_int_eq(spot_exec_ledger_news(&ledger)->n_sample, 20);
    agree(20);
    spot_exec_ledger_tell_again(&ledger);
    ck_assert_int_eq(spot_exec_ledger_news(&ledger)->n_sample, 20);
    close(a);
}
END_TEST

START_TEST(a_state_brings_its_plan_along)
{
    struct spot_exec_ledger other;
    const int a = dial();

    ck_assert_int_eq(spot_exec_ledger_save(&ledger, dir_in_root(""), &err), 0); /* there is none */
    ck_assert_int_eq(access(in_root(SPOT_EXEC_LEDGER_FILE), F_OK), -1);
    spot_exec_ledger_load(&ledger, dir_in_root(""));
    ck_assert_ptr_null(spot_ledger_plan(ledger.ledger));

    spot_exec_ledger_init(&other);
    spot_exec_ledger_agreed(&other, s,
                            &(struct spot_ledger_plan){ .n_sample = 20, .batch = 4, .seed = 3 });
    ck_assert_int_eq(spot_exec_ledger_save(&other, dir_in_root(""), &err), 0);
    ck_assert_int_eq(spot_exec_ledger_save(&other, dir_in_root(""), &err), 0);
    spot_exec_ledger_load(&ledger, dir_in_root(""));
    ck_assert(
        spot_ledger_plan_equal(spot_ledger_plan(ledger.ledger), spot_ledger_plan(other.ledger)));
    ck_assert_int_eq(spot_exec_ledger_news(&ledger)->seed, 3); /* the coordinator is to know it */
    ask(a, 0, 20); /* at once, and not with this order */
    ck_assert_ptr_nonnull(strstr(heard(a), "order: it was declared as shuffled before"));
    close(a);
    spot_exec_ledger_release(&other);
}
END_TEST

START_TEST(a_state_whose_plan_is_another_or_none_is_refused)
{
    const int a = dial();

    ask(a, 0, 20);
    agree(20);
    (void)heard(a);
    shell("echo '{\"dataset_size\":50,\"global_batch\":4}' >" SPOT_EXEC_LEDGER_FILE);
    spot_exec_ledger_load(&ledger, dir_in_root(""));
    ask(a, 0, 20);
    ck_assert_ptr_nonnull(strstr(heard(a), "goes on from has another plan: dataset_size"));
    *ledger.conflict = '\0';
    shell("echo '{' >" SPOT_EXEC_LEDGER_FILE);
    spot_exec_ledger_load(&ledger, dir_in_root(""));
    ask(a, 0, 20);
    ck_assert_ptr_nonnull(strstr(heard(a), "error"));
    close(a);
}
END_TEST

START_TEST(a_plan_goes_over_the_wire_and_none_is_refused)
{
    const struct spot_ledger_plan p = { .n_sample = 9, .batch = 2, .seed = 5, .rest = 2 };
    struct spot_ledger_plan got;
    struct spot_buf out = { 0 };
    struct spot_wire_in in;

    spot_exec_put_plan(&out, &p);
    in = spot_wire_in(out.data, out.n);
    spot_exec_get_plan(&in, &got);
    ck_assert(spot_wire_in_done(&in) && spot_ledger_plan_equal(&p, &got));
    for (size_t n = 0; n < out.n; n++) {
        in = spot_wire_in(out.data, n);
        spot_exec_get_plan(&in, &got);
        ck_assert(!spot_wire_in_done(&in));
    }
    for (size_t i = 0; i < out.n; i++) { /* a byte that is wrong is no plan, or another one */
        out.data[i] ^= 0xff;
        in = spot_wire_in(out.data, out.n);
        spot_exec_get_plan(&in, &got);
        ck_assert(!spot_wire_in_done(&in) || !spot_ledger_plan_check(&got, NULL));
        out.data[i] ^= 0xff;
    }
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_rank_that_asks_nobody_is_told_so)
{
    struct spot_buf answer = { 0 };

    ck_assert_int_eq(spot_rank_ask(in_root("nobody"), "{}", 2, 1, &answer, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_int_eq(spot_rank_ask(in_root("s"), "{}", 2, 0.1, &answer, &err), -1);
    ck_assert_str_eq(err.msg, "no answer within 0.1 s"); /* nobody turns the socket */
    spot_buf_release(&answer);
    spot_rank_socket_turn(s);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("exec_ledger");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("exec_ledger", tc);
}

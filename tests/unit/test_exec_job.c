/* SPDX-License-Identifier: MIT */
/* lane: wait */
/* Goal: ranks of a foreign trainer run on nodes that come and go: each knows its place, a round
 * begins anew after each loss, failure and notice and is not disturbed by anything else, the job
 * ends when all ranks have, gives up after too many failures, and is found again by a coordinator
 * that comes back.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS. NOLINT(bugprone-reserved-identifier) */
#include "exec_rig.h"

/* --- ranks: each says in ROUND.RANK who it is ---------------------------------------------------
 */

static void say_here(void)
{
    char text[160];

    snprintf(text, sizeof(text), "world %d group %d of %d at %s port %d local %d pid %ld\n",
             of_env("WORLD_SIZE"), of_env("GROUP_RANK"), of_env("GROUP_WORLD_SIZE"),
             getenv("MASTER_ADDR"), of_env("MASTER_PORT"), of_env("LOCAL_RANK"), (long)getpid());
    put(in_dir("%d.%d", my_round(), my_rank()), text);
}

/* Until the test says that it is over. */
static int stays(void)
{
    say_here();
    wait_for(in_dir("finish"));
    return 0;
}

/* Rank 1 has nothing to do. */
static int stays_but_one(void)
{
    return my_rank() == 1 ? 0 : stays();
}

/* As many times as the file says. */
static int fails(void)
{
    say_here();
    return my_round() < strtol(text_of(in_dir("failures")), NULL, 10) ? 40 + my_rank() : 0;
}

static volatile sig_atomic_t is_told;

static void on_usr1(int number)
{
    (void)number;
    is_told = 1;
}

/* On SIGUSR1 it saves and goes. */
static int saves(void)
{
    signal(SIGUSR1, on_usr1);
    say_here();
    while (!is_told && !is_file(in_dir("finish")))
        spot_clock_sleep(0.01);
    if (is_told)
        put(in_dir("saved.%d.%d", my_round(), my_rank()), "");
    return 0;
}

/* Ignores SIGTERM, as does what it starts in a session of its own. */
static int stubborn(void)
{
    signal(SIGTERM, SIG_IGN);
    if (!my_round() && !fork()) {
        char text[16];

        setsid();
        snprintf(text, sizeof(text), "%ld\n", (long)getpid());
        put(in_dir("stray"), text);
        for (;;)
            pause();
    }
    return stays();
}

static const struct rank_story story[] = {
    { "stays", stays }, { "stays_but_one", stays_but_one }, { "fails", fails },
    { "saves", saves }, { "stubborn", stubborn },           { 0 }
};

/* --- what the test sees of them -----------------------------------------------------------------
 */

static void until_round(int round, int world)
{
    for (int rank = 0; rank < world; rank++)
        until(is_file(in_dir("%d.%d", round, rank)));
}

/* What the rank said of itself. */
static long number_of(int round, int rank, const char *key)
{
    const char *const text = text_of(in_dir("%d.%d", round, rank)), *const at = strstr(text, key);

    ck_assert_msg(at, "no %s in %s", key, text);
    return strtol(at + strlen(key), NULL, 10);
}

static bool is_gone(pid_t pid)
{
    return kill(pid, 0) != 0;
}

static void finish(void)
{
    put(in_dir("finish"), "");
}

/* A job of two nodes whose ranks have begun. */
struct pair {
    size_t job, a, b;
};

static struct pair begin_pair(const struct spot_exec_options *o, char *const *command)
{
    struct pair p;

    p.job = coordinate(o);
    p.a = join_job("a", command);
    until(events("joined") == 1);
    p.b = join_job("b", command);
    until_round(0, 2 * (int)o->n_rank);
    return p;
}

/* --- rounds -------------------------------------------------------------------------------------
 */

START_TEST(each_rank_knows_its_place_and_the_job_ends_with_the_last)
{
    char *const *const command = rank_command("stays");
    const struct spot_exec_options o = job_of(command, 2, 2, 2);
    struct node n = node_of("a", command);
    size_t job, a, b;

    job = coordinate(&o);
    n.n_rank = 2;
    a = join_as(&n);
    until(events("joined") == 1);
    n.name = "b";
    b = join_as(&n);
    until_round(0, 4);
    for (int rank = 0; rank < 4; rank++) {
        ck_assert_int_eq(number_of(0, rank, "world "), 4);
        ck_assert_int_eq(number_of(0, rank, "group "), rank / 2);
        ck_assert_int_eq(number_of(0, rank, "of "), 2);
        ck_assert_int_eq(number_of(0, rank, "local "), rank % 2);
        ck_assert_int_eq(number_of(0, rank, "port "), number_of(0, 0, "port "));
    }
    ck_assert_int_gt(number_of(0, 0, "port "), 0);
    finish();
    ck_done(job);
    ck_done(a);
    ck_done(b);
    ck_assert_uint_eq(events("exec"), 1);
    ck_event("exec", "\"ranks\":2,\"nodes_min\":2,\"nodes_max\":2");
    ck_assert_uint_eq(events("formed"), 1);
    ck_event("formed", "\"D\":2,\"P\":1,\"members\":2,\"world\":4,\"restart\":0,\"kept\":false,"
                       "\"place\":[\"a\",\"b\"]");
    ck_event("finished", "\"started\":1,\"failures\":0");
}
END_TEST

START_TEST(survivors_begin_anew_with_another_rendezvous_and_a_newcomer_gets_a_place)
{
    char *const *const command = rank_command("stays");
    const struct spot_exec_options o = job_of(command, 1, 1, 2);
    const size_t job = coordinate(&o), a = join_job("a", command);
    size_t b, c;

    until_round(0, 1);
    b = join_job("b", command);
    until_round(1, 2);
    ck_event("formed", "\"place\":[\"a\",\"b\"]");
    lose(a);
    until_round(2, 1);
    ck_event("formed", "\"restart\":2,\"kept\":false,\"place\":[\"b\"]");
    ck_assert_int_ne(number_of(2, 0, "port "), number_of(1, 0, "port "));
    until(is_gone((pid_t)number_of(1, 0, "pid ")) && is_gone((pid_t)number_of(1, 1, "pid ")));
    c = join_job("c", command);
    until_round(3, 2);
    ck_event("formed", "\"place\":[\"b\",\"c\"]");
    finish();
    ck_done(job);
    ck_done(b);
    ck_done(c);
    ck_assert_uint_eq(events("failed"), 0);
}
END_TEST

START_TEST(fewer_nodes_than_wanted_run_nothing_and_one_too_many_waits_for_a_place)
{
    char *const *const command = rank_command("stays");
    const struct spot_exec_options o = job_of(command, 1, 2, 2);
    const struct pair p = begin_pair(&o, command);
    const pid_t left = (pid_t)number_of(0, 0, "pid ");
    size_t c, d;

    lose(p.b);
    until(is_gone(left));
    ck_assert_uint_eq(events("formed"), 1);
    c = join_job("c", command);
    until_round(1, 2);
    d = join_job("d", command); /* it gets none, and nobody is disturbed */
    until(events("joined") == 4);
    lose(c);
    until_round(2, 2);
    ck_event("formed", "\"restart\":2,\"kept\":false,\"place\":[\"a\",\"d\"]");
    ck_assert_uint_eq(events("formed"), 3);
    finish();
    ck_done(p.job);
    ck_done(p.a);
    ck_done(d);
}
END_TEST

START_TEST(who_is_done_may_be_lost_and_the_others_go_on_as_they_are)
{
    char *const *const command = rank_command("stays_but_one");
    const struct spot_exec_options o = job_of(command, 1, 2, 2);
    const size_t job = coordinate(&o), a = join_job("a", command);
    size_t b;
    pid_t rank;

    until(events("joined") == 1);
    b = join_job("b", command);
    until_round(0, 1);
    rank = (pid_t)number_of(0, 0, "pid ");
    until(status_has("\"done\": 1"));
    ck_assert(status_has("\"nodes\": 2") && status_has("\"world\": 2"));
    ck_assert(status_has("\"started\": 1") && status_has("\"failures\": 0"));
    lose(b);
    until(events("formed") == 2);
    ck_event("formed", "\"restart\":0,\"kept\":true,\"place\":[\"a\"]");
    ck_assert(!is_gone(rank));
    finish();
    ck_done(job);
    ck_done(a);
    ck_assert(!is_file(in_dir("1.0")));
}
END_TEST

static void tell_listening(void *user, const char *at)
{
    (void)user;
    put(in_dir("listens"), at);
}

START_TEST(over_the_network_ranks_meet_where_rank_0_is)
{
    char *const *const command = rank_command("stays");
    struct spot_exec_options o = job_of(command, 1, 2, 2);
    struct node n = node_of("a", command);
    size_t job, a, b;

    o.group.listen = "127.0.0.1:0";
    o.group.listening = tell_listening;
    job = coordinate(&o);
    until(is_file(in_dir("listens")));
    snprintf(address, sizeof(address), "%.90s", text_of(in_dir("listens")));
    a = join_as(&n);
    until(events("joined") == 1);
    n.name = "b";
    b = join_as(&n);
    until_round(0, 2);
    for (int rank = 0; rank < 2; rank++)
        ck_assert_ptr_nonnull(strstr(text_of(in_dir("0.%d", rank)), "at 127.0.0.1 "));
    finish();
    ck_done(job);
    ck_done(a);
    ck_done(b);
}
END_TEST

/* --- failures -----------------------------------------------------------------------------------
 */

START_TEST(a_rank_that_fails_begins_anew_and_one_that_is_killed_too)
{
    char *const *const command = rank_command("stays");
    const struct spot_exec_options o = job_of(command, 1, 2, 2);
    const struct pair p = begin_pair(&o, command);

    ck_assert_int_eq(kill((pid_t)number_of(0, 1, "pid "), SIGKILL), 0);
    until_round(1, 2);
    ck_assert_uint_eq(events("failed"), 1);
    ck_event("failed", "\"name\":\"b\",\"rank\":1,\"signal\":9,\"failures\":1");
    ck_warned("rank 1 on b ended by signal 9 (failure 1, at most 3 are tolerated)");
    finish();
    ck_done(p.job);
    ck_done(p.a);
    ck_done(p.b);
    ck_event("finished", "\"started\":2,\"failures\":1");
}
END_TEST

START_TEST(after_too_many_failures_the_job_gives_up_and_all_hear_why)
{
    char *const *const command = rank_command("fails");
    struct spot_exec_options o = job_of(command, 1, 1, 1);
    const char *const why = "rank 0 on a exited with status 40; 1 failures were tolerated before";
    size_t job, a, b;

    put(in_dir("failures"), "9\n");
    o.max_restarts = 1;
    o.group.lease_s = 3; /* whether a node was lost is known after that */
    job = coordinate(&o);
    a = join_job("a", command);
    until(events("joined") == 1);
    b = join_job("b", command);
    ck_failed(job, SPOT_EINFEASIBLE, why);
    ck_failed(a, SPOT_EINFEASIBLE, why);
    ck_failed(b, SPOT_EINFEASIBLE, why);
    ck_assert_uint_eq(events("failed"), 2);
    ck_event("given_up", "\"started\":2,\"failures\":2");
    ck_assert_uint_eq(events("finished"), 0);
}
END_TEST

START_TEST(a_command_that_cannot_be_run_is_a_rank_that_fails)
{
    static char *const command[] = { TEXT("/nowhere/at/all"), NULL };
    struct spot_exec_options o = job_of(command, 1, 1, 1);
    size_t job, a;

    o.max_restarts = 0;
    o.group.lease_s = 3;
    job = coordinate(&o);
    a = join_job("a", command);
    ck_failed(job, SPOT_EINFEASIBLE, "rank 0 on a exited with status 127");
    ck_failed(a, SPOT_EINFEASIBLE, "rank 0 on a exited with status 127");
}
END_TEST

/* The connections of ranks end before the coordinator knows that a node is gone. */
START_TEST(a_failure_that_a_lost_node_caused_is_not_counted)
{
    char *const *const command = rank_command("stays");
    struct spot_exec_options o = job_of(command, 1, 2, 2);
    struct pair p;
    size_t c;

    o.max_restarts = 0;
    p = begin_pair(&o, command);
    ck_assert_int_eq(kill(process[p.b], SIGSTOP), 0); /* it tells of nothing, */
    ck_assert_int_eq(kill((pid_t)number_of(0, 0, "pid "), SIGKILL), 0);
    until(events("failed") == 1);
    lose(p.b); /* and then it is gone */
    c = join_job("c", command);
    until_round(1, 2);
    finish();
    ck_done(p.job);
    ck_done(p.a);
    ck_done(c);
    ck_event("finished", "\"failures\":0");
}
END_TEST

/* --- notices ------------------------------------------------------------------------------------
 */

START_TEST(before_a_leaver_goes_all_ranks_may_save_and_that_is_no_failure)
{
    char *const *const command = rank_command("saves");
    const struct spot_exec_options o = job_of(command, 1, 2, 2);
    const struct pair p = begin_pair(&o, command);
    const size_t c = join_job("c", command);

    until(events("joined") == 3);
    notice(p.b);
    ck_failed(p.b, SPOT_EPREEMPTED, "");
    until_round(1, 2);
    ck_assert(is_file(in_dir("saved.0.0")) && is_file(in_dir("saved.0.1")));
    ck_event("formed", "\"place\":[\"a\",\"c\"]");
    finish();
    ck_done(p.job);
    ck_done(p.a);
    ck_done(c);
    ck_assert_uint_eq(events("failed"), 0);
    ck_assert_uint_eq(events("lost"), 0);
}
END_TEST

START_TEST(ranks_that_do_not_end_are_ended_with_all_they_started)
{
    char *const *const command = rank_command("stubborn");
    struct spot_exec_options o = job_of(command, 1, 1, 1);
    struct node n = node_of("a", command);
    size_t job, a;
    pid_t stray;

    n.stop_s = 0.1;
    o.save_s = 0.2;
    job = coordinate(&o);
    a = join_as(&n);
    until_round(0, 1);
    until(is_file(in_dir("stray")));
    stray = (pid_t)strtol(text_of(in_dir("stray")), NULL, 10);
    notice(a);
    ck_failed(a, SPOT_EPREEMPTED, "");
    ck_assert(is_gone((pid_t)number_of(0, 0, "pid ")));
    ck_assert(is_gone(stray));
    notice(job);
    ck_failed(job, SPOT_EPREEMPTED, "stopped in round 1");
}
END_TEST

/* --- coordinators -------------------------------------------------------------------------------
 */

/* Ranks, failures and who is done are known to the nodes. */
START_TEST(one_that_comes_back_finds_all_as_it_was)
{
    char *const *const command = rank_command("stays_but_one");
    struct spot_exec_options o = job_of(command, 1, 2, 2);
    size_t job = coordinate(&o), a = join_job("a", command), b;
    pid_t rank;

    until(events("joined") == 1);
    b = join_job("b", command);
    until_round(0, 1);
    ck_assert_int_eq(kill((pid_t)number_of(0, 0, "pid "), SIGKILL), 0);
    until_round(1, 1);
    rank = (pid_t)number_of(1, 0, "pid ");
    until(status_has("\"done\": 1"));
    lose(job);
    o.group.resume = true;
    job = coordinate(&o);
    until(events("formed") == 3);
    ck_event("formed", "\"restart\":1,\"kept\":true");
    ck_assert(!is_gone(rank));
    until(status_has("\"done\": 1"));
    finish();
    ck_done(job);
    ck_done(a);
    ck_done(b);
    ck_event("finished", "\"started\":2,\"failures\":1");
    ck_assert_uint_eq(events("exec"), 2);
}
END_TEST

START_TEST(one_that_is_told_to_stop_lets_ranks_save_and_can_go_on)
{
    char *const *const command = rank_command("saves");
    struct spot_exec_options o = job_of(command, 1, 2, 2);
    struct pair p = begin_pair(&o, command);

    notice(p.job);
    ck_failed(p.job, SPOT_EPREEMPTED, "stopped in round 1");
    ck_assert(is_file(in_dir("saved.0.0")) && is_file(in_dir("saved.0.1")));
    o.group.resume = true;
    p.job = coordinate(&o); /* the nodes are still there, their ranks are not */
    until_round(1, 2);
    finish();
    ck_done(p.job);
    ck_done(p.a);
    ck_done(p.b);
    ck_assert_uint_eq(events("failed"), 0);
}
END_TEST

START_TEST(a_node_with_another_command_or_number_of_ranks_is_refused)
{
    char *const *const command = rank_command("stays"), *const *const other = rank_command("fails");
    const struct spot_exec_options o = job_of(command, 1, 1, 1);
    const size_t job = coordinate(&o), a = join_job("a", command);
    struct node n = node_of("b", command);

    n.n_rank = 2;
    ck_failed(join_as(&n), SPOT_EINFEASIBLE, "it has 2 ranks on a node, the job 1");
    ck_failed(join_job("c", other), SPOT_EINFEASIBLE, "its COMMAND is not the one of the job");
    until_round(0, 1);
    finish();
    ck_done(job);
    ck_done(a);
    ck_assert_uint_eq(events("joined"), 1);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("exec_job");

    be_rank(argc, argv, story);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, each_rank_knows_its_place_and_the_job_ends_with_the_last);
    tcase_add_test(tc, survivors_begin_anew_with_another_rendezvous_and_a_newcomer_gets_a_place);
    tcase_add_test(tc, fewer_nodes_than_wanted_run_nothing_and_one_too_many_waits_for_a_place);
    tcase_add_test(tc, who_is_done_may_be_lost_and_the_others_go_on_as_they_are);
    tcase_add_test(tc, over_the_network_ranks_meet_where_rank_0_is);
    tcase_add_test(tc, a_command_that_cannot_be_run_is_a_rank_that_fails);
    tcase_add_test(tc, a_rank_that_fails_begins_anew_and_one_that_is_killed_too);
    tcase_add_test(tc, after_too_many_failures_the_job_gives_up_and_all_hear_why);
    tcase_add_test(tc, a_failure_that_a_lost_node_caused_is_not_counted);
    tcase_add_test(tc, before_a_leaver_goes_all_ranks_may_save_and_that_is_no_failure);
    tcase_add_test(tc, ranks_that_do_not_end_are_ended_with_all_they_started);
    tcase_add_test(tc, one_that_comes_back_finds_all_as_it_was);
    tcase_add_test(tc, one_that_is_told_to_stop_lets_ranks_save_and_can_go_on);
    tcase_add_test(tc, a_node_with_another_command_or_number_of_ranks_is_refused);
    return run_suite("exec_job", tc);
}

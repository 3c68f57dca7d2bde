/* SPDX-License-Identifier: MIT */
/* lane: wait */
/* Goal: a round begins with the newest commit that all of its places have, whoever was lost: nodes
 * that lack a part get it from those that hold a copy, copies lie in other domains and on spares,
 * and what only the lost one had is rolled back, in the log too.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS. NOLINT(bugprone-reserved-identifier) */
#include <fcntl.h>
#include <sys/file.h>

#include "puppet_rig.h"

static char *const *command;

static void set_up_job(void)
{
    begin_puppets();
    command = rank_command("puppet");
}

/* Nodes named a, b, ... at [n_node] join one after the other; then their ranks have begun. */
static void join_all(size_t *at, int n_node, int round)
{
    for (int i = 0; i < n_node; i++) {
        const char name[] = { (char)('a' + i), '\0' };
        const size_t n = events("joined");

        at[i] = join_job(name, command);
        until(events("joined") > n);
    }
    until_begun(round, n_node);
}

static void end_job(int round, int world, size_t job)
{
    tell_all(round, world, "exit 0");
    ck_done(job);
    for (size_t i = 0; i < n_process; i++)
        if (process[i])
            ck_done(i);
}

#define ck_begun(round, rank, want) \
    ck_assert_msg(strstr(begun(round, rank), want), "%d.%d has %s", round, rank, begun(round, rank))

START_TEST(a_newcomer_begins_with_what_the_lost_node_had_committed)
{
    const struct spot_exec_options o = job_of(command, 1, 2, 2);
    const size_t job = coordinate(&o);
    size_t at[2];

    join_all(at, 2, 0);
    write_own(0, 2);
    tell_all(0, 2, "fill large 2500000"); /* of three pieces */
    ck_all_said(0, 2, "");
    tell_all(0, 2, "commit 5 ,\"durable\":true");
    ck_all_said(0, 2, DURABLE(5));
    ck_event("durable", "\"step\":5,\"where\":\"memory\"");
    ck_assert(status_has("\"committed\": 5") && status_has("\"durable\": 5"));
    tell_all(0, 2, "file own of no step\n"); /* not committed */
    ck_all_said(0, 2, "");
    lose(at[0]);
    (void)join_job("c", command);
    until_begun(1, 2);
    for (int rank = 0; rank < 2; rank++) {
        ck_begun(1, rank, "step 5 of 2");
        ck_own(1, rank, "own", rank);
        tell(1, rank, "commit 6");
    }
    ck_all_said(1, 2, COMMITTED(6));
    ck_event("restored", "\"step\":5,\"from\":5,\"restart\":1,\"nodes\":2");
    ck_assert_uint_eq(events("rolled_back"), 0);
    end_job(1, 2, job);
}
END_TEST

START_TEST(without_a_commit_a_round_begins_with_nothing)
{
    const struct spot_exec_options o = job_of(command, 1, 2, 2);
    const size_t job = coordinate(&o);
    size_t at[2];

    join_all(at, 2, 0);
    write_own(0, 2);
    tell(0, 0, "exit 3");
    until_begun(1, 2);
    for (int rank = 0; rank < 2; rank++) {
        ck_begun(1, rank, "step -1 of -1");
        tell(1, rank, "cat own");
        ck_said(1, rank, "");
    }
    end_job(1, 2, job);
}
END_TEST

START_TEST(fewer_nodes_get_the_files_of_all_places)
{
    const struct spot_exec_options o = job_of(command, 1, 2, 3);
    const size_t job = coordinate(&o);
    size_t at[3];
    int round;

    join_all(at, 2, 0);
    at[2] = join_job("c", command);
    until_begun(round = 1, 3);
    write_own(round, 3);
    tell_all(round, 3, "commit 2 ,\"durable\":true");
    ck_all_said(round, 3, DURABLE(2));
    lose(at[1]);
    until_begun(++round, 2);
    ck_event("formed", "\"place\":[\"a\",\"c\"]");
    for (int rank = 0; rank < 2; rank++) {
        ck_begun(round, rank, "step 2 of 3");
        ck_own(round, rank, "own", rank);
        for (int place = 0; place < 3; place++) {
            char name[32];

            snprintf(name, sizeof(name), "place/%d/own", place);
            ck_own(round, rank, name, place);
        }
    }
    tell_all(round, 2, "commit 3 ,\"durable\":true"); /* without what lies below place */
    ck_all_said(round, 2, DURABLE(3));
    end_job(round, 2, job);
}
END_TEST

START_TEST(with_all_places_asked_for_as_many_nodes_have_them_as_well)
{
    struct spot_exec_options o = job_of(command, 1, 2, 2);
    size_t at[2], job;

    o.places_all = true;
    job = coordinate(&o);
    join_all(at, 2, 0);
    write_own(0, 2);
    tell_all(0, 2, "commit 1 ,\"durable\":true");
    ck_all_said(0, 2, DURABLE(1));
    tell(0, 0, "exit 1");
    until_begun(1, 2);
    ck_own(1, 0, "place/1/own", 1);
    ck_own(1, 1, "place/0/own", 0);
    end_job(1, 2, job);
}
END_TEST

START_TEST(copies_lie_in_another_domain)
{
    const struct spot_exec_options o = job_of(command, 1, 2, 4);
    const char *const name[] = { "a", "b", "c", "d" };
    const size_t job = coordinate(&o);
    struct node n = node_of("", command);
    size_t at[4];
    int round = 0;

    for (int i = 0; i < 4; i++) {
        n.name = name[i];
        n.domain = i < 2 ? "x" : "y";
        at[i] = join_as(&n);
        until(events("joined") == (size_t)i + 1);
    }
    until(strstr(last_event("formed"), "\"D\":4"));
    round = (int)events("formed") - 1;
    until_begun(round, 4);
    write_own(round, 4);
    tell_all(round, 4, "commit 3 ,\"durable\":true");
    ck_all_said(round, 4, DURABLE(3));
    ck_assert_int_eq(kill(process[at[0]], SIGSTOP), 0); /* both at once */
    lose(at[1]);
    lose(at[0]);
    until(strstr(last_event("formed"), "\"D\":2"));
    round = (int)strtol(strstr(last_event("formed"), "\"restart\":") + 10, NULL, 10);
    until_begun(round, 2);
    for (int place = 0; place < 4; place++) {
        char file[32];

        snprintf(file, sizeof(file), "place/%d/own", place);
        ck_own(round, 1, file, place);
    }
    end_job(round, 2, job);
}
END_TEST

START_TEST(a_spare_holds_the_commits_of_the_only_node_and_goes_on_from_them)
{
    const struct spot_exec_options o = job_of(command, 1, 1, 1);
    const size_t job = coordinate(&o);
    size_t at[1];

    join_all(at, 1, 0);
    write_own(0, 1);
    tell(0, 0, "commit 1");
    ck_said(0, 0, COMMITTED(1));
    ck_assert_uint_eq(events("durable"), 0);
    (void)join_job("b", command); /* it is invited to the epoch that runs */
    until(events("durable") == 1);
    tell(0, 0, "commit 2 ,\"durable\":true");
    ck_said(0, 0, DURABLE(2));
    lose(at[0]);
    until_begun(1, 1);
    ck_begun(1, 0, "step 2 of 1");
    ck_own(1, 0, "own", 0);
    end_job(1, 1, job);
}
END_TEST

START_TEST(what_only_the_lost_node_had_is_rolled_back_to_the_commit_before)
{
    struct spot_exec_options o = job_of(command, 1, 2, 2);
    size_t at[2], job;

    o.mirror_byte_per_s = 10000; /* four minutes for the second commit */
    job = coordinate(&o);
    join_all(at, 2, 0);
    write_own(0, 2);
    tell_all(0, 2, "commit 1 ,\"durable\":true");
    ck_all_said(0, 2, DURABLE(1));
    tell_all(0, 2, "fill large 2500000");
    ck_all_said(0, 2, "");
    tell_all(0, 2, "commit 2 ,\"durable\":true,\"wait_s\":5"); /* enough for both to agree */
    ck_refused(0, 0, "step 2 is committed, and not held twice yet");
    ck_refused(0, 1, "step 2 is committed, and not held twice yet");
    lose(at[1]);
    (void)join_job("c", command);
    until_begun(1, 2);
    ck_begun(1, 0, "step 1 of 2");
    ck_begun(1, 1, "step 1 of 2");
    ck_own(1, 1, "own", 1);
    ck_event("rolled_back", "\"step\":1,\"from\":2,\"to\":1");
    ck_event("restored", "\"step\":1,\"from\":1,");
    end_job(1, 2, job);
}
END_TEST

/* Its ranks end; what it holds is taken from it before it goes. */
START_TEST(a_leaver_gives_what_only_it_has)
{
    struct spot_exec_options o = job_of(command, 1, 1, 1);
    size_t at[1], b, job;

    o.save_s = 0;
    job = coordinate(&o);
    join_all(at, 1, 0);
    write_own(0, 1);
    tell(0, 0, "fill large 2500000");
    ck_said(0, 0, "");
    tell(0, 0, "commit 4");
    ck_said(0, 0, COMMITTED(4));
    ck_assert_int_eq(kill(process[at[0]], SIGSTOP), 0);
    b = join_job("b", command);
    until(events("joined") == 2);
    notice(at[0]);
    ck_assert_int_eq(kill(process[at[0]], SIGCONT), 0);
    ck_failed(at[0], SPOT_EPREEMPTED, "");
    until_begun(1, 1);
    ck_begun(1, 0, "step 4 of 1");
    ck_own(1, 0, "own", 0);
    tell(1, 0, "exit 0");
    ck_done(job);
    ck_done(b);
}
END_TEST

START_TEST(a_copy_that_cannot_be_made_is_told_of)
{
    const struct spot_exec_options o = job_of(command, 1, 1, 1);
    const size_t job = coordinate(&o);
    size_t at[1];

    join_all(at, 1, 0);
    tell(0, 0, "fill large 1100000");
    ck_said(0, 0, "");
    tell(0, 0, "commit 1");
    ck_said(0, 0, COMMITTED(1));
    damage_commits_of("a");
    (void)join_job("b", command);
    until(count_in(in_dir("warned"), "a commit does not have two copies yet"));
    ck_assert_uint_eq(events("durable"), 0);
    end_job(0, 1, job);
}
END_TEST

START_TEST(a_commit_that_is_damaged_everywhere_is_given_up_for_the_one_before)
{
    struct spot_exec_options o = job_of(command, 1, 2, 2);
    size_t at[2], job;

    job = coordinate(&o);
    join_all(at, 2, 0);
    write_own(0, 2);
    tell_all(0, 2, "commit 1 ,\"durable\":true");
    ck_all_said(0, 2, DURABLE(1));
    tell(0, 1, "fill large 1100000");
    ck_said(0, 1, "");
    tell_all(0, 2, "commit 2 ,\"durable\":true");
    ck_all_said(0, 2, DURABLE(2));
    damage_commits_of("a");
    damage_commits_of("b");
    tell(0, 0, "exit 1");
    until_begun(1, 2);
    ck_warned("the round cannot begin with its state");
    ck_assert_int_eq(strstr(begun(1, 0), "step 2") != NULL, false);
    ck_begun(1, 0, "group 0");
    end_job(1, 2, job);
}
END_TEST

/* The guard of a node that was killed has its lock until it has ended the ranks. */
static void until_free(const char *node)
{
    const int fd = open(in_dir("node-%s/0/lock", node), O_RDWR | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    until(!flock(fd, LOCK_EX | LOCK_NB));
    close(fd);
}

START_TEST(nodes_whose_directories_stay_go_on_where_they_were)
{
    struct spot_exec_options o = job_of(command, 1, 2, 2);
    size_t at[2], job;

    job = coordinate(&o);
    join_all(at, 2, 0);
    write_own(0, 2);
    tell_all(0, 2, "commit 8");
    ck_all_said(0, 2, COMMITTED(8));
    notice(job);
    ck_failed(job, SPOT_EPREEMPTED, "stopped in round 1");
    lose(at[0]);
    lose(at[1]);
    until_free("a");
    until_free("b");
    o.group.resume = true;
    job = coordinate(&o);
    join_all(at, 2, 1); /* no round has the number of one that committed */
    ck_begun(1, 0, "step 8 of 2");
    ck_own(1, 0, "own", 0);
    ck_own(1, 1, "own", 1);
    end_job(1, 2, job);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("exec_state");

    be_rank(argc, argv, puppets);
    tcase_add_checked_fixture(tc, set_up_job, tear_down);
    tcase_add_test(tc, a_newcomer_begins_with_what_the_lost_node_had_committed);
    tcase_add_test(tc, without_a_commit_a_round_begins_with_nothing);
    tcase_add_test(tc, fewer_nodes_get_the_files_of_all_places);
    tcase_add_test(tc, with_all_places_asked_for_as_many_nodes_have_them_as_well);
    tcase_add_test(tc, copies_lie_in_another_domain);
    tcase_add_test(tc, a_spare_holds_the_commits_of_the_only_node_and_goes_on_from_them);
    tcase_add_test(tc, what_only_the_lost_node_had_is_rolled_back_to_the_commit_before);
    tcase_add_test(tc, a_leaver_gives_what_only_it_has);
    tcase_add_test(tc, a_copy_that_cannot_be_made_is_told_of);
    tcase_add_test(tc, a_commit_that_is_damaged_everywhere_is_given_up_for_the_one_before);
    tcase_add_test(tc, nodes_whose_directories_stay_go_on_where_they_were);
    return run_suite("exec_state", tc);
}

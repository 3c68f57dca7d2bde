/* SPDX-License-Identifier: MIT */
/* lane: wait */
/* Goal: a step is committed once, by all ranks of all nodes or by none; who commits another one,
 * twice, late or what does not fit is told why, and the next commit counts; while the coordinator
 * is away commits are taken and count when it is back; all nodes have one plan of samples.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS. NOLINT(bugprone-reserved-identifier) */
#include "puppet_rig.h"

static char *const *command;

/* Two nodes, a and b. */
static size_t job, a, b;

static void begin_job(const struct spot_exec_options *o, uint64_t limit_byte)
{
    struct node n = node_of("a", command);

    n.n_rank = o->n_rank;
    n.late_s = o->late_s;
    n.limit_byte = limit_byte;
    job = coordinate(o);
    a = join_as(&n);
    until(events("joined") == 1);
    n.name = "b";
    n.limit_byte = 0;
    b = join_as(&n);
    until_begun(0, 2 * (int)o->n_rank);
}

static void set_up_job(void)
{
    begin_puppets();
    command = rank_command("puppet");
}

static void end_job(int round, int world)
{
    tell_all(round, world, "exit 0");
    ck_done(job);
    ck_done(a);
    ck_done(b);
}

START_TEST(a_step_is_committed_once_by_all_nodes_or_by_none)
{
    const struct spot_exec_options o = job_of(command, 1, 2, 2);

    begin_job(&o, 0);
    write_own(0, 2);
    tell(0, 0, "commit 5");
    tell(0, 1, "commit 5");
    ck_all_said(0, 2, COMMITTED(5));
    tell_all(0, 2, "commit 5");
    ck_refused(0, 0, "step 5: steps up to 5 are decided in this round");
    ck_refused(0, 1, "step 5: steps up to 5 are decided in this round");
    tell(0, 0, "commit 6");
    tell(0, 1, "commit 7");
    ck_refused(0, 0, "nodes commit steps 6 and 7");
    ck_refused(0, 1, "nodes commit steps 6 and 7");
    ck_warned("step 7 is not committed: nodes commit steps 6 and 7");
    tell_all(0, 2, "commit 6");
    ck_refused(0, 0, "decided");
    ck_refused(0, 1, "decided");
    tell_all(0, 2, "commit 7"); /* it was refused, for good */
    ck_refused(0, 0, "nodes commit steps 6 and 7");
    ck_refused(0, 1, "nodes commit steps 6 and 7");
    tell_all(0, 2, "commit 8");
    ck_all_said(0, 2, COMMITTED(8));
    ck_assert_uint_eq(events("committed"), 2);
    ck_event("committed", "\"step\":8,\"restart\":0,\"nodes\":2,\"byte\":16");
    end_job(0, 2);
}
END_TEST

START_TEST(ranks_of_a_node_commit_the_same_step)
{
    const struct spot_exec_options o = job_of(command, 2, 2, 2);

    begin_job(&o, 0);
    for (int rank = 0; rank < 4; rank++)
        tell(0, rank, "ask {\"op\":\"commit\",\"rank\":%d}", rank); /* the next one */
    ck_all_said(0, 4, COMMITTED(1));
    tell(0, 0, "commit 10");
    tell(0, 1, "commit 11");
    tell(0, 2, "commit 11");
    tell(0, 3, "commit 11");
    for (int rank = 0; rank < 4; rank++)
        ck_refused(0, rank, "ranks of one node commit steps 10 and 11");
    tell(0, 0, "ask {\"op\":\"commit\"}");
    ck_refused(0, 0, "this node has 2 ranks: which one is asking?");
    tell(0, 0, "ask {\"op\":\"commit\",\"rank\":2}");
    ck_refused(0, 0, "rank 2 is not on this node");
    tell(0, 0, "ask {\"op\":\"commit\",\"rank\":0,\"wait_s\":-1}");
    ck_refused(0, 0, "/wait_s");
    tell(0, 0, "commit 12");
    tell(0, 1, "exit 0"); /* who has ended is not waited for, */
    tell(0, 2, "commit 12");
    tell(0, 3, "commit 12");
    ck_said(0, 2, COMMITTED(12));
    ck_said(0, 3, COMMITTED(12));
    ck_assert_str_eq(said(0, 0), COMMITTED(12));
    tell(0, 0, "exit 0"); /* but when all of a node have, there is nothing to agree on */
    tell(0, 2, "commit 13");
    tell(0, 3, "commit 13");
    ck_refused(0, 2, "the ranks of node 0 have ended");
    ck_refused(0, 3, "the ranks of node 0 have ended");
    tell(0, 2, "exit 0");
    tell(0, 3, "exit 0");
    ck_done(job);
    ck_done(a);
    ck_done(b);
}
END_TEST

START_TEST(who_waits_for_others_hears_at_its_time_limit_for_whom)
{
    const struct spot_exec_options o = job_of(command, 2, 2, 2);

    begin_job(&o, 0);
    tell(0, 0, "commit 1 ,\"wait_s\":0.01");
    ck_refused(0, 0, "step 1 was not taken: other ranks of this node have not committed it");
    tell(0, 1, "commit 1");
    do /* until that is heard, the other rank is waited for */
        tell(0, 0, "commit 1 ,\"wait_s\":0.01");
    while (strstr(said(0, 0), "other ranks of this node have not committed it"));
    ck_refused(0, 0, "step 1 was taken, and is committed when all nodes have taken it");
    tell(0, 2, "commit 1"); /* the others need not say it again */
    tell(0, 3, "commit 1");
    for (int rank = 1; rank < 4; rank++)
        ck_said(0, rank, COMMITTED(1));
    end_job(0, 4);
}
END_TEST

START_TEST(a_commit_that_waits_long_is_told_of_with_whom_it_waits_for)
{
    struct spot_exec_options o = job_of(command, 2, 2, 2);

    o.late_s = 0.2;
    begin_job(&o, 0);
    tell(0, 3, "commit 1");
    until(count_in(in_dir("warned"), "step 1: rank 3 has waited 0.2 s to commit it, for rank 2 of "
                                     "this node: every rank must commit"));
    until(count_in(in_dir("warned"), "step 1: rank 3 has waited 0.4 s")); /* ever more rarely */
    tell(0, 2, "commit 1");
    until(count_in(in_dir("warned"), "step 1: b has waited 0.2 s to commit it, for ranks 0 to 1 on "
                                     "a: every rank must commit"));
    tell(0, 0, "commit 1");
    tell(0, 1, "commit 1");
    ck_all_said(0, 4, COMMITTED(1));
    ck_assert_uint_eq(count_in(in_dir("warned"), "rank 3 has waited 0.2 s"), 1);
    end_job(0, 4);
}
END_TEST

START_TEST(who_commits_twice_is_refused_and_who_hangs_up_commits_nothing)
{
    const struct spot_exec_options o = job_of(command, 2, 2, 2);

    begin_job(&o, 0);
    tell(0, 0, "twice 3");
    ck_refused(0, 0, "this rank commits already");
    do
        tell(0, 0, "commit 3 ,\"wait_s\":0.01");
    while (strstr(said(0, 0), "this rank commits already"));
    ck_refused(0, 0, "step 3 was not taken: other ranks of this node have not committed it");
    ck_assert_uint_eq(events("committed"), 0);
    end_job(0, 4);
}
END_TEST

START_TEST(a_state_that_does_not_fit_is_refused_and_the_one_before_stays)
{
    const struct spot_exec_options o = job_of(command, 1, 2, 2);

    begin_job(&o, 300000);
    write_own(0, 2);
    tell_all(0, 2, "commit 1");
    ck_all_said(0, 2, COMMITTED(1));
    tell_all(0, 2, "fill large 400000");
    ck_all_said(0, 2, "");
    tell_all(0, 2, "commit 2");
    ck_refused(0, 0, "a: committed states would need more than 300000 bytes");
    ck_refused(0, 1, "a: committed states would need more than 300000 bytes");
    tell(0, 0, "exit 3");
    until_begun(1, 2);
    for (int rank = 0; rank < 2; rank++) {
        ck_assert_ptr_nonnull(strstr(begun(1, rank), "step 1 of 2"));
        ck_own(1, rank, "own", rank);
    }
    end_job(1, 2);
}
END_TEST

START_TEST(where_nobody_else_is_a_commit_is_not_durable_and_says_so)
{
    const struct spot_exec_options o = job_of(command, 1, 1, 1);

    job = coordinate(&o);
    a = join_job("a", command);
    until_begun(0, 1);
    tell(0, 0, "commit 7 ,\"durable\":true");
    ck_said(0, 0, "{\"ok\":true,\"step\":7,\"durable\":false}");
    ck_assert_uint_eq(events("durable"), 0);
    tell(0, 0, "exit 0");
    ck_done(job);
    ck_done(a);
}
END_TEST

START_TEST(while_the_coordinator_is_away_four_commits_are_taken_and_count_when_it_is_back)
{
    const int step[] = { 2, 3, 4, 6 };
    struct spot_exec_options o = job_of(command, 1, 2, 2);
    size_t c;

    begin_job(&o, 0);
    write_own(0, 2);
    tell_all(0, 2, "commit 1");
    ck_all_said(0, 2, COMMITTED(1));
    lose(job);
    for (size_t i = 0; i < 4; i++)
        for (int rank = 0; rank < 2; rank++) {
            /* until the node knows that it is alone it says something else */
            do {
                tell(0, rank, "commit %d ,\"wait_s\":0.02", step[i]);
            } while (!strstr(said(0, rank), "is committed when the coordinator is back"));
        }
    tell_all(0, 2, "commit 7 ,\"wait_s\":0.02");
    ck_refused(0, 0, "step 7: 4 commits of this node wait for an answer already");
    ck_refused(0, 1, "step 7: 4 commits of this node wait for an answer already");
    tell(0, 0, "commit 5");
    ck_refused(0, 0, "step 5: step 6 was taken already");
    tell_all(0, 2, "commit 3 ,\"wait_s\":60"); /* again, and now they wait */
    o.group.resume = true;
    job = coordinate(&o);
    ck_all_said(0, 2, COMMITTED(3));
    tell_all(0, 2, "commit 7 ,\"durable\":true");
    ck_all_said(0, 2, DURABLE(7));
    lose(b);
    c = join_job("c", command);
    until_begun(1, 2);
    ck_assert_ptr_nonnull(strstr(begun(1, 0), "step 7 of 2"));
    ck_assert_ptr_nonnull(strstr(begun(1, 1), "step 7 of 2"));
    ck_own(1, 1, "own", 1);
    tell_all(1, 2, "exit 0");
    ck_done(job);
    ck_done(a);
    ck_done(c);
}
END_TEST

#define SAMPLES(size)                                                                     \
    "ask {\"op\":\"samples\",\"step\":%d,\"rank\":%d,\"world\":2,\"dataset_size\":" #size \
    ",\"global_batch\":4,\"order\":\"sequential\"}"

START_TEST(all_nodes_have_the_plan_of_samples_that_was_first_and_a_round_goes_on_with_it)
{
    const struct spot_exec_options o = job_of(command, 1, 2, 2);

    begin_job(&o, 0);
    tell(0, 0, SAMPLES(20), 0, 0);
    ck_assert_ptr_nonnull(strstr(said(0, 0), "\"samples\":[0,1]"));
    ck_event("ledger", "\"dataset_size\":20,\"global_batch\":4,\"seed\":0");
    tell(0, 1, SAMPLES(21), 0, 1);
    ck_refused(0, 1, "dataset_size: it was declared as 20 before, and is 21 now");
    tell(0, 1, SAMPLES(20), 0, 1);
    ck_assert_ptr_nonnull(strstr(said(0, 1), "\"samples\":[2,3]"));
    ck_assert_uint_eq(events("ledger"), 1);
    tell(0, 0, "ask {\"op\":\"commit\",\"rank\":0}");
    ck_refused(0, 0, "a state whose samples come from the ledger must say how many steps");
    write_own(0, 2);
    tell_all(0, 2, "commit 1"); /* the plan goes along */
    ck_all_said(0, 2, COMMITTED(1));
    tell(0, 0, "exit 1");
    until_begun(1, 2);
    for (int rank = 0; rank < 2; rank++) {
        tell(1, rank, SAMPLES(20), 1, rank);
        ck_assert_ptr_nonnull(
            strstr(said(1, rank), rank ? "\"samples\":[6,7]" : "\"samples\":[4,5]"));
    }
    end_job(1, 2);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("exec_commit");

    be_rank(argc, argv, puppets);
    tcase_add_checked_fixture(tc, set_up_job, tear_down);
    tcase_add_test(tc, a_step_is_committed_once_by_all_nodes_or_by_none);
    tcase_add_test(tc, ranks_of_a_node_commit_the_same_step);
    tcase_add_test(tc, who_waits_for_others_hears_at_its_time_limit_for_whom);
    tcase_add_test(tc, a_commit_that_waits_long_is_told_of_with_whom_it_waits_for);
    tcase_add_test(tc, who_commits_twice_is_refused_and_who_hangs_up_commits_nothing);
    tcase_add_test(tc, a_state_that_does_not_fit_is_refused_and_the_one_before_stays);
    tcase_add_test(tc, where_nobody_else_is_a_commit_is_not_durable_and_says_so);
    tcase_add_test(tc,
                   while_the_coordinator_is_away_four_commits_are_taken_and_count_when_it_is_back);
    tcase_add_test(tc,
                   all_nodes_have_the_plan_of_samples_that_was_first_and_a_round_goes_on_with_it);
    return run_suite("exec_commit", tc);
}

/* SPDX-License-Identifier: MIT */
/* lane: wait */
/* Goal: a rank that says how long it works for a step is shown with that, one that others wait for
 * is warned of, and its node gets no place any more where that was asked for and enough others are
 * there.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS. NOLINT(bugprone-reserved-identifier) */
#include "puppet_rig.h"

static char *const *command;
static size_t job, node[3];

static void begin_job(const struct spot_exec_options *o)
{
    static const char *const name[] = { "a", "b", "c" };

    job = coordinate(o);
    for (size_t i = 0; i < 3; i++) {
        node[i] = join_job(name[i], command);
        until(events("joined") == i + 1);
    }
    until_begun(0, 3);
}

static void set_up_job(void)
{
    begin_puppets();
    command = rank_command("puppet");
}

static void beat(int round, int rank, int step, const char *more)
{
    tell(round, rank, "ask {\"op\":\"beat\",\"rank\":%d,\"step\":%d%s}", rank, step, more);
    ck_said(round, rank, "{\"ok\":true}");
}

static void end_all(int round, int world)
{
    tell_all(round, world, "exit 0");
    ck_done(job);
    for (size_t i = 0; i < 3; i++)
        ck_done(node[i]);
}

START_TEST(the_slowest_are_shown_first_and_one_that_others_wait_for_is_warned_of)
{
    struct spot_exec_options o = job_of(command, 1, 3, 3);

    o.slow_after_s = 0.01;
    begin_job(&o);
    for (int step = 1; step <= 3; step++)
        for (int rank = 0; rank < 3; rank++)
            beat(0, rank, 2 * step, rank == 1 ? ",\"busy_s\":1" : ",\"busy_s\":0.5");
    until(status_has("\"rank\": 1,\n      \"name\": \"b\",\n      \"step\": 6,\n"
                     "      \"step_s\": 0.5,\n      \"slow\": true"));
    until(count_in(in_dir("warned"),
                   "rank 1 on b takes 0.5 s for a step, half of all ranks at most 0.25 s"));
    ck_assert_uint_eq(count_in(in_dir("warned"), "gets no place"), 0);
    tell(0, 0, "ask {\"op\":\"beat\",\"rank\":0}");
    ck_refused(0, 0, "step");
    tell(0, 0, "ask {\"op\":\"beat\",\"rank\":2,\"step\":7}");
    ck_refused(0, 0, "rank 2 is not on this node");
    end_all(0, 3);
    ck_assert_uint_eq(events("formed"), 1);
}
END_TEST

START_TEST(a_node_that_is_too_slow_gets_no_place_where_that_is_asked_for)
{
    struct spot_exec_options o = job_of(command, 1, 2, 3);

    o.slow_after_s = 0.01;
    o.slow_factor = 3;
    begin_job(&o);
    for (int step = 1; step <= 2; step++)
        for (int rank = 0; rank < 3; rank++)
            beat(0, rank, step, rank == 1 ? ",\"busy_s\":2" : ",\"busy_s\":0.5");
    until(count_in(in_dir("warned"), "rank 1 on b takes 2 s for a step"));
    until_begun(1, 2);
    ck_event("formed", "\"place\":[\"a\",\"c\"]");
    for (int step = 1; step <= 2; step++) /* now two, of which one is slow: it is needed */
        for (int rank = 0; rank < 2; rank++)
            beat(1, rank, step, rank == 1 ? ",\"busy_s\":2" : ",\"busy_s\":0.5");
    until(count_in(in_dir("warned"), "rank 1 on c takes 2 s for a step"));
    end_all(1, 2);
    ck_assert_uint_eq(events("formed"), 2);
}
END_TEST

/* Ranks that wait for each other go at one pace: nobody is slow by that. */
START_TEST(commits_and_requests_of_samples_tell_a_pace_as_well)
{
    const struct spot_exec_options o = job_of(command, 1, 3, 3);

    begin_job(&o);
    for (int step = 1; step <= 2; step++) {
        tell(0, 0, "commit %d ,\"alone\":true", step);
        ck_assert_ptr_nonnull(strstr(said(0, 0), "\"ok\":true"));
    }
    until(status_has("\"rank\": 0,\n      \"name\": \"a\",\n      \"step\": 2,\n"));
    end_all(0, 3);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("exec_pace");

    be_rank(argc, argv, puppets);
    tcase_add_checked_fixture(tc, set_up_job, tear_down);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, the_slowest_are_shown_first_and_one_that_others_wait_for_is_warned_of);
    tcase_add_test(tc, a_node_that_is_too_slow_gets_no_place_where_that_is_asked_for);
    tcase_add_test(tc, commits_and_requests_of_samples_tell_a_pace_as_well);
    return run_suite("exec_pace", tc);
}

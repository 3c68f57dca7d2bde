/* SPDX-License-Identifier: MIT */
/* lane: wait */
/* Goal: commits are copied beside the coordinator and behind the user's command; when all nodes and
 * the disk are gone a job goes on from there, with the newest commit that is whole; the job does
 * not end before its last commit is there; a command that fails is told of and stops nothing;
 * nobody takes what belongs to another job.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS. NOLINT(bugprone-reserved-identifier) */
#include "puppet_rig.h"

static char *const *command;
static char state[96], elsewhere[96], store_command[1536];
static struct spot_exec_options o;

/* A command that fails while there is a file of that name. */
static void set_up_job(void)
{
    begin_puppets();
    command = rank_command("puppet");
    o = job_of(command, 1, 2, 2);
    snprintf(state, sizeof(state), "%s/disk", dir);
    snprintf(elsewhere, sizeof(elsewhere), "%s/no/such", dir);
    o.state = state;
    snprintf(store_command, sizeof(store_command),
             "f() { cd '%s' && mkdir -p store && cd store || exit 1; "
             "[ ! -e ../fails ] || { echo full of rain >&2; exit 1; }; "
             "[ ! -e ../once ] || { rm ../once; echo but once >&2; exit 1; }; "
             "[ ! -e ../dies ] || [ $1 != put ] || kill -9 $$; "
             "[ ! -e ../lies ] || [ $1 != put ] || { cat >/dev/null; exit 0; }; "
             "mkdir -p \"$(dirname \"$2\")\" && case $1 in put) cat >\"$2\" ;; get) cat \"$2\" ;; "
             "delete) rm -f \"$2\" ;; list) find . -type f -printf '%%s %%P\\n' "
             "| grep -F \" $2\" || true ;; esac; }; f",
             dir);
    o.state_every_s = 0.05;
    o.state_timeout_s = 20;
}

static size_t job, a, b;

static void begin_job(int round)
{
    const size_t n = events("joined");

    job = coordinate(&o);
    a = join_job("a", command);
    until(events("joined") == n + 1);
    b = join_job("b", command);
    until_begun(round, 2);
}

static void commit_all(int round, int step)
{
    for (int rank = 0; rank < 2; rank++)
        tell(round, rank, "commit %d", step);
    for (int rank = 0; rank < 2; rank++)
        ck_assert_ptr_nonnull(strstr(said(round, rank), "{\"ok\":true"));
}

static void until_durable(const char *where, int step)
{
    char text[64];

    snprintf(text, sizeof(text), "\"step\":%d,\"where\":\"%s\"", step, where);
    until(count_in(in_dir("log"), text));
}

static void remove_in_dir(const char *what)
{
    char shell[256];

    snprintf(shell, sizeof(shell), "cd '%s' && rm -rf %s", dir, what);
    until(!system(shell));
}

/* All machines, with what they held. */
static void lose_all(void)
{
    lose(job);
    lose(a);
    lose(b);
    remove_in_dir("node-*");
}

static void end_job(int round)
{
    tell_all(round, 2, "exit 0");
    ck_done(job);
    ck_done(a);
    ck_done(b);
}

#define ck_begun(round, rank, want) \
    ck_assert_msg(strstr(begun(round, rank), want), "%d.%d has %s", round, rank, begun(round, rank))

/* Both places, as step `step` left them. */
static void ck_restored(int round, int step)
{
    char text[32];

    snprintf(text, sizeof(text), "step %d of 2", step);
    for (int rank = 0; rank < 2; rank++) {
        ck_begun(round, rank, text);
        ck_own(round, rank, "own", rank);
    }
}

/* --- beside the coordinator ---------------------------------------------------------------------
 */

START_TEST(when_all_nodes_are_gone_the_job_goes_on_from_the_disk)
{
    struct spot_exec_options other = o;

    begin_job(0);
    write_own(0, 2);
    tell_all(0, 2, "fill large 1500000");
    ck_all_said(0, 2, "");
    commit_all(0, 1);
    commit_all(0, 2);
    until_durable("disk", 2);
    other.group.listen = NULL;
    other.group.events = NULL;
    other.group.n_local = 0;
    ck_failed(coordinate(&other), SPOT_ESYS, "in use by another job");
    lose_all();
    ck_failed(coordinate(&other), SPOT_EUSAGE, "has the commits of a job: --resume continues it");
    o.group.resume = true;
    begin_job(1);
    ck_restored(1, 2);
    end_job(1);
    ck_event("restored", "\"step\":2,\"restart\":1,\"nodes\":2");
}
END_TEST

START_TEST(the_job_does_not_end_before_its_last_commit_is_on_the_disk)
{
    o.state_every_s = 1000;
    begin_job(0);
    write_own(0, 2);
    commit_all(0, 1);
    until_durable("disk", 1);
    commit_all(0, 2);
    end_job(0);
    ck_event("durable", "\"step\":2,\"where\":\"disk\"");
}
END_TEST

START_TEST(a_copy_to_the_disk_that_fails_is_told_of_and_does_not_keep_the_job)
{
    o.state_every_s = 1000;
    begin_job(0);
    write_own(0, 2);
    commit_all(0, 1);
    until_durable("disk", 1);
    tell_all(0, 2, "fill large 1100000");
    ck_all_said(0, 2, "");
    commit_all(0, 2);
    until_durable("memory", 2);
    damage_commits_of("a");
    damage_commits_of("b");
    end_job(0);
    ck_warned("a commit cannot be copied to");
    ck_event("durable", "\"step\":2,\"where\":\"memory\"");
}
END_TEST

START_TEST(a_directory_that_cannot_be_is_said_before_anything_runs)
{
    put(in_dir("disk"), "a file");
    ck_failed(coordinate(&o), SPOT_ESYS, "cannot use");
    o.state = elsewhere;
    ck_failed(coordinate(&o), SPOT_ESYS, "cannot make");
}
END_TEST

/* --- behind the command -------------------------------------------------------------------------
 */

START_TEST(when_the_disk_is_gone_too_the_job_goes_on_from_the_store)
{
    o.state_command = store_command;
    begin_job(0);
    write_own(0, 2);
    commit_all(0, 1);
    until_durable("store", 1);
    commit_all(0, 2);
    until_durable("store", 2);
    ck_assert_uint_eq(count_in(in_dir("log"), "\"where\":\"disk\""), 0);
    lose_all();
    remove_in_dir("disk");
    o.group.resume = true;
    begin_job(1);
    ck_restored(1, 2);
    end_job(1);
}
END_TEST

START_TEST(a_disk_that_has_the_newest_commit_is_not_filled_again)
{
    o.state_command = store_command;
    begin_job(0);
    write_own(0, 2);
    commit_all(0, 1);
    until_durable("store", 1);
    lose_all();
    remove_in_dir("store/gen-*/bundle*"); /* it could not */
    o.group.resume = true;
    begin_job(1);
    ck_restored(1, 1);
    end_job(1);
}
END_TEST

START_TEST(a_command_that_fails_is_told_of_and_the_job_goes_on)
{
    o.state_command = store_command;
    begin_job(0);
    write_own(0, 2);
    commit_all(0, 1);
    until_durable("store", 1);
    put(in_dir("fails"), "");
    commit_all(0, 2);
    until(count_in(in_dir("warned"), "full of rain"));
    ck_warned("step 2 cannot be stored: ");
    ck_warned("; the job continues without it");
    commit_all(0, 3);
    remove_in_dir("fails");
    end_job(0); /* and tries once more at its end */
    ck_event("durable", "\"step\":3,\"where\":\"store\"");
}
END_TEST

START_TEST(a_command_that_lies_or_is_killed_is_found_out)
{
    static const char *const fault[][2] = { { "lies", "bytes of bundle" },
                                            { "dies", "killed by signal 9" } };

    o.state_command = store_command;
    for (int i = 0; i < 2; i++) {
        begin_job(0);
        write_own(0, 2);
        commit_all(0, 1);
        until_durable("store", 1);
        put(in_dir("%s", fault[i][0]), "");
        commit_all(0, 2);
        until(count_in(in_dir("warned"), "step 2 cannot be stored: "));
        ck_warned(fault[i][1]);
        ck_event("durable", "\"step\":2,\"where\":\"memory\"");
        remove_in_dir(fault[i][0]);
        end_job(0);
        ck_event("durable", "\"step\":2,\"where\":\"store\"");
        memset(n_order, 0, sizeof(n_order));
        remove_in_dir("do.* said.* begun.* log warned node-* disk store");
    }
}
END_TEST

START_TEST(a_command_that_fails_once_is_tried_again_and_nobody_hears_of_it)
{
    o.state_command = store_command;
    begin_job(0);
    commit_all(0, 1);
    until_durable("store", 1);
    put(in_dir("once"), "");
    commit_all(0, 2);
    until_durable("store", 2);
    ck_assert(!is_file(in_dir("once")) && !is_file(in_dir("warned")));
    end_job(0);
}
END_TEST

START_TEST(a_commit_that_is_damaged_in_the_store_is_given_up_for_the_one_before)
{
    o.state_command = store_command;
    begin_job(0);
    for (int step = 1; step <= 2; step++) {
        write_own(0, 2);
        commit_all(0, step);
        until_durable("store", step);
    }
    lose_all();
    remove_in_dir("disk \"$(ls -d store/gen-*/bundle-0001 | tail -n 1)\"");
    o.group.resume = true;
    begin_job(1);
    ck_warned("a commit in the store is damaged and set aside");
    ck_restored(1, 1);
    end_job(1);
}
END_TEST

START_TEST(where_no_commit_in_the_store_can_be_read_the_job_begins_anew_and_says_so)
{
    o.state_command = store_command;
    begin_job(0);
    commit_all(0, 1);
    until_durable("store", 1);
    lose_all();
    remove_in_dir("disk store/gen-*/bundle*");
    o.group.resume = true;
    job = coordinate(&o);
    until(count_in(in_dir("warned"), "no commit in the store can be read"));
    notice(job);
    ck_failed(job, SPOT_EPREEMPTED, "stopped");
}
END_TEST

START_TEST(nobody_takes_a_store_that_has_another_job)
{
    struct spot_exec_options other = o;

    o.state_command = store_command;
    begin_job(0);
    commit_all(0, 1);
    until_durable("store", 1);
    other.state_command = store_command;
    snprintf(elsewhere, sizeof(elsewhere), "%s/other", dir);
    other.state = elsewhere;
    other.group.listen = other.group.events = NULL;
    ck_failed(coordinate(&other), SPOT_EUSAGE, "belongs to another job");
    end_job(0);
    /* one with commits of its own */
    memset(n_order, 0, sizeof(n_order));
    remove_in_dir("do.* said.* begun.* log node-*");
    o.state = elsewhere;
    o.state_command = NULL;
    begin_job(0);
    commit_all(0, 1);
    until_durable("disk", 1);
    end_job(0);
    other.state = o.state;
    other.group.resume = true;
    ck_failed(coordinate(&other), SPOT_EUSAGE, "has commits of run");
}
END_TEST

START_TEST(a_command_that_fails_at_once_lets_no_job_begin)
{
    o.state_command = store_command;
    put(in_dir("fails"), "");
    ck_failed(coordinate(&o), SPOT_ESYS, "full of rain");
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("exec_durable");

    be_rank(argc, argv, puppets);
    tcase_add_checked_fixture(tc, set_up_job, tear_down);
    tcase_add_test(tc, when_all_nodes_are_gone_the_job_goes_on_from_the_disk);
    tcase_add_test(tc, the_job_does_not_end_before_its_last_commit_is_on_the_disk);
    tcase_add_test(tc, a_copy_to_the_disk_that_fails_is_told_of_and_does_not_keep_the_job);
    tcase_add_test(tc, a_directory_that_cannot_be_is_said_before_anything_runs);
    tcase_add_test(tc, when_the_disk_is_gone_too_the_job_goes_on_from_the_store);
    tcase_add_test(tc, a_disk_that_has_the_newest_commit_is_not_filled_again);
    tcase_add_test(tc, a_command_that_fails_is_told_of_and_the_job_goes_on);
    tcase_add_test(tc, a_command_that_lies_or_is_killed_is_found_out);
    tcase_add_test(tc, a_command_that_fails_once_is_tried_again_and_nobody_hears_of_it);
    tcase_add_test(tc, a_commit_that_is_damaged_in_the_store_is_given_up_for_the_one_before);
    tcase_add_test(tc, where_no_commit_in_the_store_can_be_read_the_job_begins_anew_and_says_so);
    tcase_add_test(tc, nobody_takes_a_store_that_has_another_job);
    tcase_add_test(tc, a_command_that_fails_at_once_lets_no_job_begin);
    return run_suite("exec_durable", tc);
}

/* SPDX-License-Identifier: MIT */
/* lane: wait */
/* Goal: where the command can wait for its round, survivors and newcomers go on in processes that
 * waited, a newcomer gets its place when it is ready and the others go on until then; a node that
 * is to be cold is not waited for; a copy that a rank makes of itself is its twin.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS. NOLINT(bugprone-reserved-identifier) */
#include <fcntl.h>

#include "exec_rig.h"

/* --- a rank that waits, as spot.hold() has it --------------------------------------------------
 */

enum { HOLD_WORDS = 3 }; /* where to ask, where the answer is, a token */

/* Wait for what the guard says by these words. Returns false when there is no round any more. */
static bool hold(char *words, bool is_copy)
{
    char *word[HOLD_WORDS], *line = NULL;
    bool has_round = false;
    size_t cap = 0;
    FILE *answer;
    int fd;

    for (int i = 0; i < HOLD_WORDS; i++)
        word[i] = strsep(&words, " ");
    if (!word[HOLD_WORDS - 1])
        return false;
    answer = fopen(word[1], "re");
    fd = open(word[0], O_WRONLY | O_CLOEXEC);
    if (!answer || fd < 0)
        return false;
    if (is_copy)
        dprintf(fd, "%s %ld\n", word[2], (long)getpid());
    else
        dprintf(fd, "%s\n", word[2]);
    close(fd);
    while (getline(&line, &cap, answer) > 0) {
        line[strcspn(line, "\n")] = '\0';
        has_round = !putenv(strdup(line));
    }
    fclose(answer);
    free(line);
    return has_round;
}

/* NULL where it is not told. Freed by the caller. */
static char *take_env(const char *name)
{
    const char *const text = getenv(name);
    char *const copy = text ? strdup(text) : NULL;

    unsetenv(name);
    return copy;
}

static int work_a_round(void)
{
    char text[64];

    snprintf(text, sizeof(text), "world %d pid %ld\n", of_env("WORLD_SIZE"), (long)getpid());
    put(in_dir("%d.%d", my_round(), my_rank()), text);
    wait_for(in_dir("finish"));
    return 0;
}

/* A process that waited has left `waited.PID`. */
static int holds(void)
{
    char *const words = take_env("SPOT_HOLD");
    bool has_round = true;

    if (words && !getenv("RANK")) {
        while (is_file(in_dir("slow")))
            spot_clock_sleep(0.01);
        put(in_dir("waited.%ld", (long)getpid()), "");
    }
    if (words)
        has_round = hold(words, false);
    free(words);
    return has_round ? work_a_round() : 0;
}

/* It has a copy wait for the next round, which does the same; `began.PID` is of who began here. */
static int copies(void)
{
    char *words = take_env("SPOT_HOLD");
    bool has_round;

    put(in_dir("began.%ld", (long)getpid()), "");
    has_round = words && hold(words, false);
    while (has_round) {
        pid_t child, between;

        free(words);
        words = take_env("SPOT_HOLD_NEXT");
        child = words ? fork() : 1;
        if (child) {
            if (words)
                waitpid(child, NULL, 0);
            break;
        }
        between = getpid();
        if (fork())
            _Exit(0);
        setsid();
        while (getppid() == between) /* the copy is a child of the guard */
            spot_clock_sleep(0.001);
        has_round = hold(words, true);
    }
    free(words);
    return has_round ? work_a_round() : 0;
}

static const struct rank_story story[] = { { "holds", holds }, { "copies", copies }, { 0 } };

/* --- what the test sees -------------------------------------------------------------------------
 */

static void until_round(int round, int world)
{
    for (int rank = 0; rank < world; rank++)
        until(is_file(in_dir("%d.%d", round, rank)));
}

static pid_t pid_of(int round, int rank)
{
    return (pid_t)strtol(strstr(text_of(in_dir("%d.%d", round, rank)), "pid ") + 4, NULL, 10);
}

static bool has_waited(int round, int rank)
{
    return is_file(in_dir("waited.%ld", (long)pid_of(round, rank)));
}

static void finish(void)
{
    put(in_dir("finish"), "");
}

START_TEST(a_newcomer_gets_its_place_when_it_is_ready_and_all_go_on_in_what_waited)
{
    char *const *const command = rank_command("holds");
    const struct spot_exec_options o = job_of(command, 1, 1, 2);
    const size_t job = coordinate(&o), a = join_job("a", command);
    size_t b;

    until_round(0, 1);
    until(status_has("\"warm\": 1"));
    put(in_dir("slow"), "");
    b = join_job("b", command);
    until(events("joined") == 2);
    until(status_has("\"role\": \"spare\""));
    ck_assert(!is_file(in_dir("1.0")));
    ck_assert_int_eq(unlink(in_dir("slow")), 0);
    until_round(1, 2);
    ck_assert(has_waited(1, 0) && has_waited(1, 1));
    finish();
    ck_done(job);
    ck_done(a);
    ck_done(b);
}
END_TEST

START_TEST(where_too_few_are_ready_a_newcomer_is_not_waited_for)
{
    char *const *const command = rank_command("holds");
    const struct spot_exec_options o = job_of(command, 1, 1, 1);
    const size_t job = coordinate(&o), a = join_job("a", command);
    size_t b;

    until_round(0, 1);
    until(status_has("\"warm\": 1"));
    put(in_dir("slow"), "");
    lose(a);
    b = join_job("b", command);
    until(events("formed") == 2);
    ck_event("formed", "\"place\":[\"b\"]");
    ck_assert_int_eq(unlink(in_dir("slow")), 0);
    until_round(1, 1);
    finish();
    ck_done(job);
    ck_done(b);
}
END_TEST

START_TEST(a_cold_node_gets_its_place_at_once)
{
    char *const *const command = rank_command("holds");
    const struct spot_exec_options o = job_of(command, 1, 1, 2);
    const size_t job = coordinate(&o), a = join_job("a", command);
    struct node n = node_of("b", command);
    size_t b;

    n.is_cold = true;
    until_round(0, 1);
    until(status_has("\"warm\": 1"));
    b = join_as(&n);
    until_round(1, 2);
    ck_assert(has_waited(1, 0) && !has_waited(1, 1));
    finish();
    ck_done(job);
    ck_done(a);
    ck_done(b);
}
END_TEST

START_TEST(a_copy_of_a_rank_is_its_twin_and_begins_nothing_again)
{
    char *const *const command = rank_command("copies");
    const struct spot_exec_options o = job_of(command, 1, 1, 1);
    const size_t job = coordinate(&o), a = join_job("a", command);
    char shell[128];

    for (int round = 0; round < 2; round++) {
        until_round(round, 1);
        until(status_has("\"warm\": 1"));
        ck_assert_int_eq(kill(pid_of(round, 0), SIGKILL), 0);
    }
    until_round(2, 1);
    ck_assert_int_ne(pid_of(2, 0), pid_of(1, 0));
    snprintf(shell, sizeof(shell), "[ $(ls %s | grep -c began) = 1 ]", dir);
    ck_assert_int_eq(system(shell), 0);
    finish();
    ck_done(job);
    ck_done(a);
    ck_event("finished", "\"started\":3,\"failures\":2");
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("exec_warm");

    be_rank(argc, argv, story);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_newcomer_gets_its_place_when_it_is_ready_and_all_go_on_in_what_waited);
    tcase_add_test(tc, where_too_few_are_ready_a_newcomer_is_not_waited_for);
    tcase_add_test(tc, a_cold_node_gets_its_place_at_once);
    tcase_add_test(tc, a_copy_of_a_rank_is_its_twin_and_begins_nothing_again);
    return run_suite("exec_warm", tc);
}

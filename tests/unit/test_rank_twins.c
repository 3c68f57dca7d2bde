/* SPDX-License-Identifier: MIT */
/* Goal: a process of the command that waits becomes the rank of the next round and knows it, to the
 * value; nothing of it is left behind; a command that does not wait is never started but for a
 * round.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include <sys/resource.h>
#include <sys/wait.h>

#include "rank_rig.h"

/* What spot.hold() does, in the words of sh: who comes by is in $D/all, who waits in
 * $D/waits.LOCAL, who has a round in $D/round.RESTART.LOCAL. */
#define HOLD                                                                                       \
    "echo $$ >>$D/all; "                                                                           \
    "if [ \"$SPOT_HOLD\" ]; then "                                                                 \
    "  set -- $SPOT_HOLD; unset SPOT_HOLD; exec 3<$2; "                                            \
    "  [ \"$RANK\" ] || echo $$ \"${LOCAL_RANK-none} ${WORLD_SIZE-none}\" >$D/waits.$LOCAL_RANK; " \
    "  echo $3 >$1; said=; "                                                                       \
    "  while IFS= read -r line; do export \"$line\"; said=1; done <&3; exec 3<&-; "                \
    "  [ $said ] || { : >$D/unneeded; exit 0; }; "                                                 \
    "fi; "                                                                                         \
    "echo $$ >$D/round.$TORCHELASTIC_RESTART_COUNT.$LOCAL_RANK.new; "                              \
    "mv $D/round.$TORCHELASTIC_RESTART_COUNT.$LOCAL_RANK.new "                                     \
    "$D/round.$TORCHELASTIC_RESTART_COUNT.$LOCAL_RANK; "
#define LAST "while :; do sleep 0.05; done"

static size_t lines_in(const char *name)
{
    size_t n = 0;

    for (const char *at = text_of(name); (at = strchr(at, '\n')); at++)
        n++;
    return n;
}

static void touch(const char *name)
{
    FILE *const out = fopen(in_dir(name), "w");

    ck_assert_ptr_nonnull(out);
    fclose(out);
}

static struct spot_rank_env env_of(uint32_t round)
{
    return (struct spot_rank_env){ .restart_count = round,
                                   .group_rank = round % 3,
                                   .group_world = 3,
                                   .first_rank = 2 * (round % 3),
                                   .world = 6,
                                   .local_world = 2,
                                   .max_restarts = 5,
                                   .master_port = 29500 + round,
                                   .master_address = "127.0.0.1",
                                   .run_id = "r" };
}

static struct spot_ranks *open_ranks(uint32_t n, const char *script, bool is_cold)
{
    static char *command[4];
    const struct spot_ranks_options o = { .command = command,
                                          .n = n,
                                          .stop_s = 60,
                                          .is_cold = is_cold,
                                          .out_fd = -1,
                                          .err_fd = -1,
                                          .log_dir = dir };
    struct spot_ranks *r;

    command[0] = TEXT("sh");
    command[1] = TEXT("-c");
    command[2] = TEXT(script);
    r = spot_ranks_new(&o, &err);
    ck_assert_msg(r, "%s", err.msg);
    return r;
}

static void start(struct spot_ranks *r, uint32_t round)
{
    const struct spot_rank_env env = env_of(round);

    ck_assert_msg(!spot_ranks_start(r, &env, &err), "%s", err.msg);
}

/* Until one of that kind. */
static struct spot_rank_event await(struct spot_ranks *r, enum spot_rank_event_kind kind)
{
    struct spot_rank_event event;

    for (int look = 0; look < PATIENCE; look++) {
        const int rc = spot_ranks_next(r, 0.01, &event, &err);

        ck_assert_msg(rc >= 0, "%s", err.msg);
        if (rc && event.kind == kind)
            return event;
    }
    ck_abort_msg("no event");
}

static void await_warm(struct spot_ranks *r)
{
    while (!await(r, SPOT_RANK_WARM).status)
        ;
}

static void stop(struct spot_ranks *r)
{
    ck_assert_int_eq(spot_ranks_stop(r, &err), 0);
    (void)await(r, SPOT_RANK_STOPPED);
}

START_TEST(who_waits_becomes_the_rank_of_the_next_round)
{
    struct spot_ranks *const r =
        open_ranks(2,
                   HOLD "env | grep -E '^(RANK|.*_RANK|.*WORLD_SIZE|MASTER_.*|TORCHELASTIC_.*)=' "
                        "| sort; " LAST,
                   false);
    pid_t first[2], twin[2];

    start(r, 7);
    first[0] = pid_in("round.7.0");
    first[1] = pid_in("round.7.1");
    (void)await(r, SPOT_RANK_HOLDS);
    await_warm(r);
    twin[0] = pid_in("waits.0");
    twin[1] = pid_in("waits.1");
    ck_assert(!is_gone(first[0]) && !is_gone(first[1]));
    stop(r);
    ck_assert(is_gone(first[0]) && is_gone(first[1]));
    ck_assert(!is_gone(twin[0]) && !is_gone(twin[1]));
    start(r, 8);
    ck_assert_int_eq(pid_in("round.8.0"), twin[0]);
    ck_assert_int_eq(pid_in("round.8.1"), twin[1]);
    ck_assert_int_eq(getpriority(PRIO_PROCESS, (id_t)twin[0]), getpriority(PRIO_PROCESS, 0));
    await_warm(r); /* and the next ones wait */
    stop(r);
    spot_ranks_free(r);
    ck_assert(is_gone(twin[0]) && is_gone(twin[1]));
    ck_assert(is_gone(pid_in("waits.0")) && is_gone(pid_in("waits.1")));
    ck_assert_str_eq(text_of("8/5.out"),
                     "GROUP_RANK=2\nGROUP_WORLD_SIZE=3\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\n"
                     "MASTER_ADDR=127.0.0.1\nMASTER_PORT=29508\nRANK=5\nROLE_RANK=5\n"
                     "ROLE_WORLD_SIZE=6\nTORCHELASTIC_MAX_RESTARTS=5\n"
                     "TORCHELASTIC_RESTART_COUNT=8\nTORCHELASTIC_RUN_ID=r\n"
                     "TORCHELASTIC_USE_AGENT_STORE=False\nWORLD_SIZE=6\n");
}
END_TEST

START_TEST(one_that_has_not_got_so_far_becomes_it_all_the_same)
{
    struct spot_ranks *const r = open_ranks(
        1,
        "[ \"$RANK\" ] || { echo $$ >$D/begun; until [ -e $D/go ]; do sleep 0.01; done; }; " HOLD
            LAST,
        false);
    pid_t twin;

    start(r, 7);
    twin = pid_in("begun");
    stop(r);
    start(r, 8);
    touch("go");
    ck_assert_int_eq(pid_in("round.8.0"), twin);
    spot_ranks_free(r);
    ck_assert(is_gone(twin));
}
END_TEST

START_TEST(a_command_that_never_asks_is_started_for_rounds_alone)
{
    struct spot_ranks *const r = open_ranks(1, "echo $$ >>$D/all; " LAST, false);
    struct spot_rank_event event;

    for (uint32_t round = 1; round <= 3; round++) {
        start(r, round);
        for (int look = 0; look < 250; look++) { /* longer than a twin takes to come */
            if (spot_ranks_next(r, 0.01, &event, &err))
                ck_abort_msg("an event of kind %d", event.kind);
        }
        stop(r);
    }
    spot_ranks_free(r);
    ck_assert_uint_eq(lines_in("all"), 3);
}
END_TEST

START_TEST(who_is_to_be_cold_has_no_twin)
{
    struct spot_ranks *const r = open_ranks(1, "echo ${SPOT_HOLD-none}; " HOLD LAST, true);

    ck_assert_int_eq(spot_ranks_keep_twins(r, &err), 0);
    start(r, 1);
    (void)pid_in("round.1.0");
    stop(r);
    spot_ranks_free(r);
    ck_assert_uint_eq(lines_in("all"), 1);
    ck_assert_str_eq(text_of("1/2.out"), "none\n");
}
END_TEST

START_TEST(a_spare_waits_before_its_first_round)
{
    struct spot_ranks *const r = open_ranks(2, HOLD LAST, false);

    setenv("WORLD_SIZE", "77", 1); /* of something around us */
    ck_assert_int_eq(spot_ranks_keep_twins(r, &err), 0);
    await_warm(r);
    ck_assert_ptr_nonnull(strstr(text_of("waits.0"), " 0 "));
    ck_assert_ptr_nonnull(strstr(text_of("waits.1"), " 1 "));
    start(r, 1);
    ck_assert_int_eq(pid_in("round.1.0"), pid_in("waits.0"));
    ck_assert_int_eq(pid_in("round.1.1"), pid_in("waits.1"));
    spot_ranks_free(r);
}
END_TEST

START_TEST(one_that_dies_is_started_again)
{
    struct spot_ranks *const r = open_ranks(1, HOLD LAST, false);
    pid_t twin, next;

    start(r, 1);
    await_warm(r);
    twin = pid_in("waits.0");
    ck_assert_int_eq(kill(twin, SIGKILL), 0);
    ck_assert_int_eq(await(r, SPOT_RANK_WARM).status, 0);
    await_warm(r);
    next = pid_in("waits.0");
    ck_assert_int_ne(next, twin);
    stop(r);
    start(r, 2);
    ck_assert_int_eq(pid_in("round.2.0"), next);
    spot_ranks_free(r);
}
END_TEST

/* With one below it that ignores SIGTERM. */
#define DEEP "sh -c 'trap \"\" TERM; echo $$ >>$D/deep; while :; do sleep 0.05; done' & "

START_TEST(what_a_twin_started_goes_with_it)
{
    struct spot_ranks *const r = open_ranks(1, "[ \"$RANK\" ] || " DEEP HOLD LAST, false);
    pid_t deep;

    start(r, 1);
    await_warm(r);
    deep = pid_in("deep");
    ck_assert_int_eq(kill(pid_in("waits.0"), SIGKILL), 0);
    until_gone(deep);
    spot_ranks_free(r);
}
END_TEST

START_TEST(twins_go_when_we_are_killed)
{
    const pid_t child = fork();
    pid_t twin, deep;

    if (!child) {
        struct spot_ranks *const r = open_ranks(1, "[ \"$RANK\" ] || " DEEP HOLD LAST, false);

        start(r, 1);
        for (;;)
            pause();
    }
    twin = pid_in("waits.0");
    deep = pid_in("deep");
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    until_gone(twin);
    until_gone(deep);
}
END_TEST

START_TEST(twins_go_when_the_guard_is_killed)
{
    struct spot_ranks *const r =
        open_ranks(1, "[ \"$RANK\" ] || { echo $PPID >$D/guard; " DEEP "}; " HOLD LAST, false);
    struct spot_rank_event event;
    pid_t twin, deep;
    int rc = 0;

    start(r, 1);
    await_warm(r);
    twin = pid_in("waits.0");
    deep = pid_in("deep");
    stop(r);
    ck_assert_int_eq(kill(pid_in("guard"), SIGKILL), 0);
    for (int look = 0; look < PATIENCE && rc >= 0; look++)
        rc = spot_ranks_next(r, 0.01, &event, &err);
    ck_assert_int_eq(rc, -1);
    spot_ranks_free(r);
    ck_assert(is_gone(twin) && is_gone(deep));
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("rank_twins");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("rank_twins", tc);
}

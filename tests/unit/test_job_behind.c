/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <stdlib.h>

#include "checkpoint/store.h"
#include "live_rig.h"
#include "train/job_note.h"
#include "train/saved_model.h"

/* Goal: a state behind a command of the user is as good as files: members write and read it by
 * themselves, or by way of the coordinator where they do not have the command; another machine goes
 * on from it alone; what is damaged there is set aside; and the store of another job, or of another
 * coordinator, is not written to. The command is a shell, its store a directory. */

static char command[512]; /* of the state */

/* "cmd DIR VERB KEY"; where DIR/lies is there, what is put is cut. */
static const char script[] =
    "cd $1 && case $2 in\n"
    "put) f=store/$3 && mkdir -p ${f%/*} && if [ -e lies ]; then head -c 50 >$f.tmp; cat "
    ">/dev/null\n"
    "  else cat >$f.tmp; fi && mv $f.tmp $f;;\n"
    "get) exec cat store/$3;;\n"
    "list) [ ! -d store ] || { cd store && find . -type f ! -name '*.tmp' -printf '%s %P\\n' |\n"
    "  grep \" $3\" || :; };;\n"
    "delete) rm -f store/$3;;\n"
    "esac\n";

static void shell(const char *text)
{
    char line[512];

    snprintf(line, sizeof(line), "cd '%s' && %s", dir, text);
    ck_assert_msg(!system(line), "%s", text);
}

static void set_up(void)
{
    FILE *const out = fopen(in_dir("", "cmd"), "w");

    ck_assert_ptr_nonnull(out);
    fputs(script, out);
    fclose(out);
    snprintf(command, sizeof(command), "sh '%s/cmd' '%s'", dir, dir);
    unsetenv(STATE_COMMAND_ENV);
}

/* What the case left. */
static void tear_down(void)
{
    shell("rm -rf store st cmd lies *.log");
}

static struct spot_trainer_options behind(uint64_t n_local, uint32_t D, uint32_t P)
{
    struct spot_trainer_options o = job(n_local, D, P, 1);

    o.state = in_dir("", "st");
    o.state_command = command;
    o.state_timeout_s = 10;
    o.durable_every_s = 3600; /* the last state alone */
    return o;
}

static char alone[40]; /* of one worker that nobody disturbed */

static void run_alone(void)
{
    const struct spot_trainer_options o = job(1, 1, 1, 1);
    const struct outcome got = run_job(&o);

    ck_assert_msg(!got.rc, "%s", got.err.msg);
    memcpy(alone, got.result.state_hex, sizeof(alone));
}

/* Half of the job, then the rest of it on another machine: all but the store is gone. */
static void run_in_two_parts(bool members_have_it)
{
    struct spot_trainer_options o = behind(2, 1, 2);
    struct outcome got;

    if (members_have_it)
        ck_assert_int_eq(setenv(STATE_COMMAND_ENV, command, 1), 0);
    o.config.n_step = STEPS / 2;
    got = run_job(&o);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    shell("[ $(ls store/gen-*/manifest.json | wc -l) -ge 1 ] && [ -e store/job.json ] && "
          "[ -e st/behind-command ] && rm -rf st && mkdir st");
    o = behind(2, 2, 1);
    got = run_job(&o); /* what is there is not overwritten unasked */
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "the store of --state-command holds the state of step 6; "
                                      "--resume continues it") != NULL,
                  "%s", got.err.msg);
    o.resume = true;
    o.events = in_dir("", "parts.log");
    o.save = in_dir("", "parts.safetensors");
    expect_state(&o, alone);
    shell(members_have_it ? "! grep -q relayed_byte parts.log" : "grep -q relayed_byte parts.log");
    if (members_have_it)
        expect_state(&o, alone); /* nothing is left to do */
}

START_TEST(members_write_and_read_by_themselves)
{
    run_in_two_parts(true);
}
END_TEST

START_TEST(a_member_without_the_command_is_served_by_the_coordinator)
{
    run_in_two_parts(false);
}
END_TEST

/* Weights are asked for in the same way, of a file that members do not see. */
START_TEST(the_state_is_found_without_its_directory)
{
    struct spot_trainer_options o = behind(1, 1, 1);
    const struct spot_saved_place place = { .command = command, .timeout_s = 10 };
    struct spot_saved_model m;
    struct spot_err err = { 0 };
    struct outcome got;

    got = run_job(&o);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    ck_assert_str_eq(got.result.state_hex, alone);
    ck_assert_msg(!spot_saved_model_read(&m, &place, SPOT_NEWEST_STEP, NULL, &err), "%s", err.msg);
    ck_assert_int_eq(m.step, STEPS);
    ck_assert_int_eq(m.shape.width, 16);
    spot_saved_model_release(&m);
    o = job(1, 1, 1, 1); /* the directory alone is not a job that begins */
    o.state = in_dir("", "st");
    o.resume = true;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "is behind a command: --state-command") != NULL, "%s",
                  got.err.msg);
}
END_TEST

/* --- what is wrong with a store --- */

/* A bundle of the newest generation is other than its manifest says. */
START_TEST(a_damaged_generation_is_set_aside_and_the_one_before_goes_on)
{
    struct spot_trainer_options o = behind(1, 1, 1);
    struct outcome got;

    if (_i)
        ck_assert_int_eq(setenv(STATE_COMMAND_ENV, command, 1), 0);
    o.config.n_step = STEPS / 2;
    ck_assert_int_eq(run_job(&o).rc, 0);
    o.resume = true;
    o.config.n_step = STEPS - 2;
    ck_assert_int_eq(run_job(&o).rc, 0);
    shell("f=$(ls -d store/gen-*/manifest.json | sort | tail -n 1) && f=${f%/*} && "
          "n=$(stat -c %s $f/bundle-0001) && head -c $n /dev/zero >$f/bundle-0001");
    o.config.n_step = STEPS;
    got = run_job(&o);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    ck_assert_str_eq(got.result.state_hex, alone);
    ck_assert_msg(strstr(got.warned, "that generation is set aside, continuing from step ") != NULL,
                  "%s", got.warned);
    shell("[ -e store/gen-*/bad ]");
}
END_TEST

/* The size is looked up before anything is read. */
START_TEST(a_generation_that_was_cut_is_set_aside)
{
    struct spot_trainer_options o = behind(1, 1, 1);
    struct outcome got;

    o.config.n_step = STEPS / 2;
    ck_assert_int_eq(run_job(&o).rc, 0);
    shell("for f in store/gen-*/bundle-0002; do head -c 100 $f >x && mv x $f; done");
    o.resume = true;
    o.config.n_step = STEPS;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "no valid generation is left in the store of "
                                      "--state-command") != NULL,
                  "%s", got.err.msg);
    got = run_job(&o); /* the second try begins anew */
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    ck_assert_str_eq(got.result.state_hex, alone);
}
END_TEST

START_TEST(a_command_that_cuts_what_it_is_given_makes_nothing_durable)
{
    struct spot_trainer_options o = behind(1, 1, 1);
    struct outcome got;

    ck_assert_int_eq(setenv(STATE_COMMAND_ENV, command, 1), 0);
    shell(": >lies");
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "the store has 50 bytes of bundle 0 of generation 12") !=
                      NULL,
                  "%s", got.err.msg);
    shell("[ -z \"$(ls store/gen-*/manifest.json 2>/dev/null)\" ]");
}
END_TEST

START_TEST(the_store_of_another_job_is_refused)
{
    struct spot_trainer_options o = behind(1, 1, 1);
    struct outcome got;

    o.config.n_step = 2;
    ck_assert_int_eq(run_job(&o).rc, 0);
    shell("rm -rf st");
    o.config.seed = 2;
    o.resume = true;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EUSAGE);
    ck_assert_msg(strstr(got.err.msg, "another job") != NULL, "%s", got.err.msg);
}
END_TEST

/* --- the store alone --- */

static struct spot_store *open_store(uint64_t job_id)
{
    struct spot_err err = { 0 };
    struct spot_store *const s =
        spot_store_open_behind(in_dir("", "st"), command, 10, NULL, job_id, 1, &err);

    ck_assert_msg(s != NULL, "%s", err.msg);
    return s;
}

enum { BYTES = 20 };

/* A bundle begins with its step and index. */
static void fill(uint8_t data_of_step[BYTES], int64_t step)
{
    memset(data_of_step, 'x', BYTES);
    for (int i = 0; i < 16; i++)
        data_of_step[i] = (uint8_t)(i < 8 ? step >> 8 * i : 0);
}

/* Put bundle 0 of a step and wait: 1, or -1 with *err. */
static int save(struct spot_store *s, int64_t step, struct spot_err *err)
{
    uint8_t *const copy = malloc(BYTES);
    char where[SPOT_STORE_PATH];
    uint64_t nonce;
    int64_t got;
    int rc;

    fill(copy, step);
    spot_store_begin(s, step, "");
    ck_assert(spot_store_share(s, where, &nonce));
    ck_assert_int_eq(strncmp(where, "command:", 8), 0);
    spot_store_put(s, step, 0, copy, BYTES);
    while (!(rc = spot_store_result(s, &got, err)))
        spot_clock_sleep(0.002);
    return rc;
}

START_TEST(what_is_put_comes_back_and_who_lost_the_store_writes_no_more)
{
    struct spot_store *const first = open_store(7);
    struct spot_store *second;
    struct spot_err err = { 0 };
    uint8_t want[BYTES], *got;
    size_t n;

    ck_assert(spot_store_is_behind(first));
    ck_assert_str_eq(spot_store_place(first), "the store of --state-command");
    ck_assert_int_eq(spot_store_newest(first), -1);
    ck_assert_int_eq(spot_store_claim(first, &err), 0);
    ck_assert_int_eq(save(first, 3, &err), 1);
    ck_assert_int_eq(save(first, 5, &err), 1);
    ck_assert_int_eq(spot_store_newest(first), 5);
    got = spot_store_read(first, 5, 0, &n, &err);
    ck_assert_msg(got != NULL, "%s", err.msg);
    fill(want, 5);
    ck_assert_uint_eq(n, BYTES);
    ck_assert_mem_eq(got, want, BYTES);
    free(got);
    ck_assert_ptr_null(spot_store_read(first, 4, 0, &n, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);

    shell("rm -rf st"); /* another machine */
    second = open_store(7);
    ck_assert_int_eq(spot_store_newest(second), 5);
    ck_assert_int_eq(spot_store_claim(second, &err), 0);
    ck_assert_int_eq(save(second, 7, &err), 1);
    ck_assert_int_eq(save(first, 9, &err), -1);
    ck_assert_msg(strstr(err.msg, "another") != NULL, "%s", err.msg);
    ck_assert_int_eq(spot_store_put_note(first, "{}", &err), -1);
    ck_assert_int_eq(spot_store_put_note(second, "{}", &err), 0);
    spot_store_set_aside_newest(second);
    ck_assert_int_eq(spot_store_newest(second), 5);
    spot_store_close(second);
    spot_store_close(first);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    be_worker(argc, argv);
    make_dir();
    tcase_add_unchecked_fixture(tc, run_alone, NULL);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, members_write_and_read_by_themselves);
    tcase_add_test(tc, a_member_without_the_command_is_served_by_the_coordinator);
    tcase_add_test(tc, the_state_is_found_without_its_directory);
    tcase_add_loop_test(tc, a_damaged_generation_is_set_aside_and_the_one_before_goes_on, 0, 2);
    tcase_add_test(tc, a_generation_that_was_cut_is_set_aside);
    tcase_add_test(tc, a_command_that_cuts_what_it_is_given_makes_nothing_durable);
    tcase_add_test(tc, the_store_of_another_job_is_refused);
    tcase_add_test(tc, what_is_put_comes_back_and_who_lost_the_store_writes_no_more);
    return run_job_suite("job_behind", tc);
}

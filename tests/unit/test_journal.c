/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* O_CLOEXEC. NOLINT(bugprone-reserved-identifier) */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/journal.h"
#include "common/clock.h"
#include "common/threads.h"
#include "suite.h"

/* Goal: a log cut at any byte is continued behind its last whole line, with the newest step and
 * epoch that those lines tell, and those who held that step; time goes on; a whole line that is no
 * event is named and nothing is cut; a full disk is an error, and so are events that nobody read.
 */

#define HASH "0123456789abcdef0123456789abcdef"

static char path[] = "/tmp/spot-journal-XXXXXX";

static void write_event(struct spot_journal *j, const char *event, uint32_t epoch, int64_t step)
{
    struct spot_jw *jw = spot_journal_begin(j, event, epoch, step);

    ck_assert_ptr_nonnull(jw);
    if (!strcmp(event, "rolled_back")) {
        spot_jw_int(jw, "from", step + 1);
        spot_jw_int(jw, "to", step);
    }
    if (!strcmp(event, "formed"))
        for (int i = 0; i < 3; i++)
            spot_jw_int(jw, (const char *[]){ "D", "P", "members" }[i], 1);
    if (!strcmp(event, "committed")) {
        spot_jw_real(jw, "loss", 0.5 + (double)step);
        spot_jw_str(jw, "loss_hex", "3f000000");
        spot_jw_ints(jw, "samples", NULL, 0);
    }
    if (!strcmp(event, "done"))
        spot_jw_str(jw, "state_xxh3_128", HASH);
    ck_assert_int_eq(spot_journal_end(j, NULL), 0);
}

static size_t record(char *text, size_t cap)
{
    struct spot_journal j;
    uint32_t epoch;
    int64_t step;
    FILE *in;
    size_t n;

    unlink(path);
    ck_assert_int_eq(spot_journal_open(&j, path, false, &step, &epoch, NULL), 0);
    ck_assert_int_eq(step, -1);
    write_event(&j, "formed", 1, 0);
    write_event(&j, "committed", 1, 1);
    write_event(&j, "committed", 1, 2);
    write_event(&j, "rolled_back", 2, 1);
    write_event(&j, "formed", 3, 1);
    write_event(&j, "committed", 3, 2);
    ck_assert_int_eq(spot_journal_close(&j, NULL), 0);
    in = fopen(path, "r");
    n = fread(text, 1, cap, in);
    fclose(in);
    return n;
}

static size_t file_size(void)
{
    FILE *in = fopen(path, "r");
    long n;

    fseek(in, 0, SEEK_END);
    n = ftell(in);
    fclose(in);
    return (size_t)n;
}

START_TEST(a_log_cut_at_any_byte_goes_on_behind_its_last_whole_line)
{
    static const int64_t step_after[] = { -1, -1, 1, 2, 1, 1, 2 };
    static const uint32_t epoch_after[] = { 0, 1, 1, 1, 2, 3, 3 };
    char text[4096];
    const size_t n = record(text, sizeof(text));

    for (size_t cut = 0; cut <= n; cut++) {
        struct spot_journal j;
        size_t n_line = 0, whole = 0;
        uint32_t epoch;
        int64_t step;
        FILE *out = fopen(path, "w");

        fwrite(text, 1, cut, out);
        fclose(out);
        for (size_t i = 0; i < cut; i++)
            if (text[i] == '\n') {
                n_line++;
                whole = i + 1;
            }
        ck_assert_int_eq(spot_journal_open(&j, path, true, &step, &epoch, NULL), 0);
        ck_assert_int_eq(step, step_after[n_line]);
        ck_assert_uint_eq(epoch, epoch_after[n_line]);
        ck_assert_int_eq(spot_journal_close(&j, NULL), 0);
        ck_assert_uint_eq(file_size(), whole);
    }
}
END_TEST

START_TEST(time_goes_on_where_the_log_stopped)
{
    struct spot_journal j;
    uint32_t epoch;
    int64_t step;
    FILE *out = fopen(path, "w");

    fputs("{\"schema\":\"spot.event/1\",\"event\":\"committed\",\"time_s\":1234.5,\"epoch\":7,"
          "\"step\":70,\"loss\":2.5,\"loss_hex\":\"40200000\",\"samples\":[69]}\n",
          out);
    fclose(out);
    ck_assert_int_eq(spot_journal_open(&j, path, true, &step, &epoch, NULL), 0);
    ck_assert_int_eq(step, 70);
    ck_assert_uint_eq(epoch, 7);
    ck_assert_double_eq(j.loss, 2.5);
    ck_assert_double_ge(spot_journal_time(&j), 1234.5);
    spot_journal_close(&j, NULL);
}
END_TEST

START_TEST(of_epochs_that_go_on_at_once_the_newest_is_gone_on_from)
{
    struct spot_journal j;
    uint32_t epoch;
    int64_t step;
    FILE *out = fopen(path, "w");

    fputs("{\"schema\":\"spot.event/1\",\"event\":\"quiesce\",\"time_s\":1,\"epoch\":5,\"step\":0,"
          "\"view\":1}\n{\"schema\":\"spot.event/1\",\"event\":\"notice\",\"time_s\":2,\"epoch\":4,"
          "\"step\":3,\"member\":1,\"name\":\"a\"}\n",
          out);
    fclose(out);
    ck_assert_int_eq(spot_journal_open(&j, path, true, &step, &epoch, NULL), 0);
    ck_assert_uint_eq(epoch, 5);
    spot_journal_close(&j, NULL);
}
END_TEST

START_TEST(a_whole_line_that_is_no_event_is_named_and_nothing_is_cut)
{
    static const char *const bad[] = { "garbage\n", "{}\n",
                                       "{\"event\":\"committed\",\"step\":2}\n" };
    char text[4096];
    const size_t n = record(text, sizeof(text));
    const size_t second = (size_t)((char *)memchr(text, '\n', n) - text) + 1;

    for (size_t i = 0; i < 2 * sizeof(bad) / sizeof(bad[0]); i++) {
        const size_t at = i % 2 ? n : second; /* in the middle and at the end */
        struct spot_journal j;
        struct spot_err err = { 0 };
        uint32_t epoch;
        int64_t step;
        FILE *out = fopen(path, "w");
        char want[80];

        fwrite(text, 1, at, out);
        fputs(bad[i / 2], out);
        fwrite(text + at, 1, n - at, out);
        fclose(out);
        ck_assert_int_eq(spot_journal_open(&j, path, true, &step, &epoch, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        snprintf(want, sizeof(want), "%s:%d:", path, i % 2 ? 7 : 2);
        ck_assert_msg(!strncmp(err.msg, want, strlen(want)), "%s", err.msg);
        spot_journal_close(&j, NULL);
        ck_assert_uint_eq(file_size(), n + strlen(bad[i / 2]));
    }
}
END_TEST

START_TEST(the_end_of_a_log_is_known_until_a_commit_or_a_roll_back)
{
    struct spot_journal j;
    uint32_t epoch;
    int64_t step;

    for (int i = 0; i < 2; i++) {
        unlink(path);
        ck_assert_int_eq(spot_journal_open(&j, path, false, &step, &epoch, NULL), 0);
        ck_assert(isnan(j.loss));
        write_event(&j, "committed", 1, 4);
        write_event(&j, "done", 1, 4);
        spot_journal_close(&j, NULL);
        ck_assert_int_eq(spot_journal_open(&j, path, true, &step, &epoch, NULL), 0);
        ck_assert_double_eq(j.loss, 4.5);
        write_event(&j, "formed", 2, 4);
        ck_assert(spot_journal_ends_done(&j, 4, HASH));
        ck_assert(!spot_journal_ends_done(&j, 5, HASH));
        ck_assert(!spot_journal_ends_done(&j, 4, "another"));
        write_event(&j, i ? "rolled_back" : "committed", 2, 5 - 2 * i);
        ck_assert(!spot_journal_ends_done(&j, 4, HASH));
        spot_journal_close(&j, NULL);
        ck_assert_int_eq(spot_journal_open(&j, path, true, &step, &epoch, NULL), 0);
        ck_assert(!spot_journal_ends_done(&j, 4, HASH));
        ck_assert(i ? isnan(j.loss) : j.loss == 5.5);
        spot_journal_close(&j, NULL);
    }
}
END_TEST

static void write_lines(const char *text)
{
    FILE *out = fopen(path, "w");

    fputs(text, out);
    fclose(out);
}

static void expect_holders(const char *lines, int64_t want_step, const char *want)
{
    struct spot_journal j;
    char got[256] = "";
    uint32_t epoch;
    int64_t step;

    write_lines(lines);
    ck_assert_int_eq(spot_journal_open(&j, path, true, &step, &epoch, NULL), 0);
    for (size_t i = 0; i < j.n_holder; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s ", j.holder[i]);
    ck_assert_str_eq(got, want);
    ck_assert_int_eq(step, want_step);
    spot_journal_close(&j, NULL);
}

#define OF(event, step)                                                              \
    "{\"schema\":\"spot.event/1\",\"event\":\"" event "\",\"time_s\":1,\"epoch\":1," \
    "\"step\":" #step
#define FORMED OF("formed", 0) ",\"D\":1,\"P\":1,\"members\":1"

START_TEST(the_log_tells_who_held_the_newest_step)
{
    expect_holders(FORMED ",\"place\":[\"a\",\"b\"],\"buddies\":[\"\",\"c\"]}\n", -1, "a b c ");
    expect_holders(FORMED ",\"place\":[\"a\",\"b\"],\"buddies\":[\"b\",\"a\"]}\n", -1, "b a ");
    /* of the newest grid, and not of who is known to be gone */
    expect_holders(
        FORMED ",\"place\":[\"a\"]}\n" FORMED ",\"place\":[\"b\",\"c\",\"d\"]}\n" OF(
            "lost", 0) ",\"member\":2,\"name\":\"b\",\"why\":\"x\"}\n" OF("left",
                                                                          0) ",\"member\":3,"
                                                                             "\"name\":\"c\"}\n",
        -1, "d ");
    /* one who joins holds nothing of it; a restart changes nothing */
    expect_holders(FORMED ",\"place\":[\"a\"]}\n" OF("resumed", 0) "}\n" OF(
                       "joined", 0) ",\"member\":1,\"name\":\"z\",\"members\":1}\n",
                   0, "a ");
    /* older logs, and edited ones */
    expect_holders(FORMED "}\n", -1, "");
    expect_holders(FORMED ",\"place\":[1,null,\"a\"],\"buddies\":7}\n", -1, "a ");
}
END_TEST

START_TEST(what_was_found_again_is_where_the_job_stands)
{
    expect_holders(
        OF("rolled_back", 5) ",\"from\":9,\"to\":5}\n" OF("restored", 9) ",\"from\":5}\n", 9, "");
    expect_holders(OF("resumed", 7) "}\n", 7, "");
}
END_TEST

START_TEST(without_resume_a_file_with_content_is_kept_and_nobody_needs_a_log)
{
    char text[4096];
    struct spot_journal j;
    uint32_t epoch;
    int64_t step;
    const size_t n = record(text, sizeof(text));
    struct spot_err err = { 0 };
    FILE *out;

    ck_assert_int_eq(spot_journal_open(&j, path, false, &step, &epoch, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    spot_journal_close(&j, NULL);
    ck_assert_uint_eq(file_size(), n);
    out = fopen(path, "w");
    fputs("notes of mine\n", out);
    fclose(out);
    ck_assert_int_eq(spot_journal_open(&j, path, false, &step, &epoch, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    spot_journal_close(&j, NULL);
    ck_assert_uint_eq(file_size(), 14);
    out = fopen(path, "w");
    fputs("{\"schema\":\"spot.event/1\",\"event\":\"comm", out);
    fclose(out);
    ck_assert_int_eq(spot_journal_open(&j, path, false, &step, &epoch, NULL), 0);
    ck_assert_int_eq(step, -1);
    ck_assert_int_eq(spot_journal_close(&j, NULL), 0);
    ck_assert_uint_eq(file_size(), 0);
    ck_assert_int_eq(spot_journal_open(&j, NULL, true, &step, &epoch, NULL), 0);
    ck_assert_ptr_null(spot_journal_begin(&j, "step", 1, 1));
    ck_assert_int_eq(spot_journal_end(&j, NULL), 0);
    ck_assert_int_eq(spot_journal_close(&j, NULL), 0);
}
END_TEST

START_TEST(a_full_disk_and_a_missing_folder_are_errors)
{
    struct spot_journal j;
    struct spot_err err = { 0 };
    uint32_t epoch;
    int64_t step;

    ck_assert_int_eq(spot_journal_open(&j, "/tmp/no/such/folder/log", true, &step, &epoch, &err),
                     -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_int_eq(spot_journal_open(&j, "/dev/full", false, &step, &epoch, NULL), 0);
    spot_journal_begin(&j, "step", 1, 1);
    ck_assert_int_eq(spot_journal_end(&j, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    spot_journal_close(&j, NULL);
}
END_TEST

static int n_warned;

static void warn(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void warn(const char *fmt, ...)
{
    ck_assert_ptr_nonnull(strstr(fmt, "the reader of the events is blocked"));
    n_warned++;
}

/* All that is there, whole lines of steps that ascend. Returns how many. */
static int count_lines(int fd)
{
    FILE *const in = fdopen(fd, "r");
    long long step, newest = 0;
    char line[512];
    int n = 0;

    while (fgets(line, sizeof(line), in)) {
        const char *const at = strstr(line, "\"step\":");

        ck_assert_msg(at && sscanf(at, "\"step\":%lld", &step) == 1 && strstr(line, "}\n"), "%s",
                      line);
        ck_assert_int_gt(step, newest);
        newest = step;
        n++;
    }
    fclose(in);
    return n;
}

START_TEST(who_does_not_read_a_pipe_holds_up_nothing_and_misses_some_which_is_told)
{
    enum { EVENTS = 200000 };
    struct spot_err err = { 0 };
    struct spot_journal j;
    uint32_t epoch;
    int64_t step;
    int fd;

    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(spot_journal_open(&j, path, false, &step, &epoch, NULL), 0);
    j.patience_s = 0.1;
    j.warn = warn;
    for (int i = 1; i <= EVENTS; i++)
        write_event(&j, "committed", 1, i);
    ck_assert_int_eq(n_warned, 1);
    ck_assert_int_eq(spot_journal_close(&j, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(err.msg, "the reader of the events was blocked: "));
    ck_assert_int_gt(count_lines(fd), 0); /* what the pipe held */
}
END_TEST

START_TEST(the_chain_of_the_step_before_and_who_was_convicted_are_kept)
{
    static const char *const chain[] = { "", "11111111111111111111111111111111",
                                         "22222222222222222222222222222222" };
    struct spot_journal j;
    struct spot_jw *jw;
    uint32_t epoch;
    int64_t step;

    unlink(path);
    ck_assert_int_eq(spot_journal_open(&j, path, false, &step, &epoch, NULL), 0);
    for (int i = 1; i <= 2; i++) {
        jw = spot_journal_begin(&j, "committed", 1, i);
        spot_jw_real(jw, "loss", 1);
        spot_jw_str(jw, "loss_hex", "3f800000");
        spot_jw_ints(jw, "samples", NULL, 0);
        spot_jw_str(jw, "chain", chain[i]);
        ck_assert_int_eq(spot_journal_end(&j, NULL), 0);
    }
    jw = spot_journal_begin(&j, "corrupt", 1, 2);
    spot_jw_int(jw, "member", 7);
    spot_jw_str(jw, "name", "bad");
    spot_jw_str(jw, "what", "sum");
    ck_assert_int_eq(spot_journal_end(&j, NULL), 0);
    ck_assert_int_eq(spot_journal_close(&j, NULL), 0);
    ck_assert_int_eq(spot_journal_open(&j, path, true, &step, &epoch, NULL), 0);
    ck_assert_int_eq(step, 2);
    ck_assert_str_eq(j.chain, chain[2]);
    ck_assert_str_eq(j.chain_before, chain[1]);
    ck_assert_uint_eq(j.n_convicted, 1);
    ck_assert_str_eq(j.convicted[0], "bad");
    jw = spot_journal_begin(&j, "rolled_back", 2, 1);
    spot_jw_int(jw, "from", 2);
    spot_jw_int(jw, "to", 1);
    ck_assert_int_eq(spot_journal_end(&j, NULL), 0);
    ck_assert_int_eq(spot_journal_close(&j, NULL), 0);
    ck_assert_int_eq(spot_journal_open(&j, path, true, &step, &epoch, NULL), 0);
    ck_assert_int_eq(step, 1);
    ck_assert_str_eq(j.chain, chain[1]);
    ck_assert_str_eq(j.chain_before, "");
    ck_assert_int_eq(spot_journal_close(&j, NULL), 0);
}
END_TEST

static void *read_slowly(void *fd)
{
    static int n;

    spot_clock_sleep(0.3);
    n = count_lines(*(const int *)fd);
    return &n;
}

START_TEST(who_reads_a_pipe_late_misses_nothing)
{
    enum { EVENTS = 2000 };
    struct spot_journal j;
    pthread_t reader;
    uint32_t epoch;
    int64_t step;
    void *n;
    int fd;

    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(spot_journal_open(&j, path, false, &step, &epoch, NULL), 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
    for (int i = 1; i <= EVENTS; i++)
        write_event(&j, "committed", 1, i);
    ck_assert_int_eq(spot_thread_start(&reader, read_slowly, &fd, NULL), 0);
    ck_assert_int_eq(spot_journal_close(&j, NULL), 0);
    ck_assert_int_eq(pthread_join(reader, &n), 0);
    ck_assert_int_eq(*(const int *)n, EVENTS);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    const int fd = mkstemp(path);
    int status;

    close(fd);
    add_tests(tc);
    status = run_suite("journal", tc);
    unlink(path);
    return status;
}

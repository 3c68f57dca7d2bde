/* SPDX-License-Identifier: MIT */
/* lane: wait */
#define _GNU_SOURCE /* mkdtemp, strndup, syscall */
#include <fcntl.h>

#include "serve_rig.h"

/* Goal: each line of a batch has an answer in the output, once, by its id, however often the same
 * command goes on with what was stopped; what cannot be asked is told in its answer, what cannot be
 * read ends the batch by file and line. */

enum { LINES = 6, WORDS = 12 };

static const char *const said[LINES] = { "One", "Two", "Three of them", "4", "V", "half a dozen" };

static struct spot_server_options batch(const char *in, const char *out)
{
    struct spot_server_options o = serving();

    o.http = NULL;
    o.batch = in_dir(in);
    o.batch_out = in_dir(out);
    o.group.listen = NULL;
    o.group.n_local = 1;
    o.group.become_worker = become_worker;
    return o;
}

/* Lines r0, r1, ... */
static void write_lines(const char *name)
{
    FILE *const out = fopen(in_dir(name), "w");

    for (int i = 0; i < LINES; i++)
        fprintf(out,
                "{\"custom_id\": \"r%d\", \"url\": \"/v1/completions\", \"body\": {\"model\": "
                "\"model\", \"prompt\": \"%s\", \"max_tokens\": %d, \"temperature\": 0}}\n",
                i, said[i], WORDS);
    fclose(out);
}

/* The line of an id in the output, in a text of its own; there is one at most. */
static char *line_of(const char *name, const char *id)
{
    char key[64];
    const char *const text = read_text(in_dir(name)), *at;

    snprintf(key, sizeof(key), "{\"custom_id\":\"%s\"", id);
    at = strstr(text, key);
    if (!at)
        return NULL;
    ck_assert_msg(!strstr(at + 1, key), "two answers to %s in: %s", id, text);
    return strndup(at, strcspn(at, "\n"));
}

static void expect_line(const char *name, int i)
{
    char *const want = wanted("model", said[i], WORDS), id[8], *line;

    snprintf(id, sizeof(id), "r%d", i);
    line = line_of(name, id);
    ck_assert_msg(line, "no answer to %s", id);
    EXPECT_TEXT(line, "response.body.choices.0.text", want);
    ck_assert(number_in(line, "response.status_code") == 200);
    free(line);
    free(want);
}

static void run_well(const struct spot_server_options *o)
{
    struct outcome got;

    start_server(o);
    got = end_server(0);
    ck_assert_msg(!got.rc, "%s; %s", got.err.msg, why());
}

START_TEST(each_line_has_an_answer_though_the_queue_is_shorter)
{
    struct spot_server_options o = batch("in", "out");

    o.n_queue = 2;
    o.n_sequence = 2;
    write_lines("in");
    run_well(&o);
    for (int i = 0; i < LINES; i++)
        expect_line("out", i);
}
END_TEST

START_TEST(what_was_answered_before_is_left_as_it_is)
{
    static const char before[] =
        "{\"custom_id\":\"r1\",\"response\":\"as it was \\u0000\\\\u0000\"}\n\r\n"
        "{\"custom_id\":\"r2\",\"response\":{\"status_code\":200,\"body\":{\"cho";
    const struct spot_server_options o = batch("again", "half");
    char *line;

    write_lines("again");
    write_text(in_dir("half"), before);
    run_well(&o);
    for (int i = 0; i < LINES; i++)
        if (i != 1)
            expect_line("half", i); /* the second line was not whole */
    line = line_of("half", "r1");
    ck_assert_str_eq(line, "{\"custom_id\":\"r1\",\"response\":\"as it was \\u0000\\\\u0000\"}");
    free(line);
}
END_TEST

/* Stopped in the middle by a signal, then the same command once more. */
START_TEST(a_batch_that_was_stopped_goes_on)
{
    struct spot_server_options o = batch("stopped", "rest");
    struct outcome got;

    o.n_queue = 1;
    o.n_sequence = 1;
    write_lines("stopped");
    set_pace(100);
    start_server(&o);
    UNTIL(strchr(read_text(in_dir("rest")), '\n'));
    got = end_server(SIGTERM);
    set_pace(0);
    ck_assert_int_eq(got.err.code, SPOT_EPREEMPTED);
    ck_assert_msg(strstr(got.err.msg, "stopped with "), "%s", got.err.msg);
    run_well(&o);
    for (int i = 0; i < LINES; i++)
        expect_line("rest", i);
}
END_TEST

START_TEST(what_cannot_be_asked_is_told_in_its_answer)
{
    static const struct {
        const char *id, *more;
        int status;
        const char *text;
    } asked_for[] = {
        { "none", "", 400, "'url' must be a text" },
        { "other", "\"url\": \"/v1/audio/speech\", ", 404,
          "The url '/v1/audio/speech' is not supported by this server" },
        { "longer", "\"url\": \"/v1/completions/\", ", 404,
          "The url '/v1/completions/' is not supported by this server" },
        { "number", "\"url\": 7, ", 400, "'url' must be a text" },
        { "read", "\"url\": \"/v1/completions\", \"method\": \"GET\", ", 400,
          "'method' must be POST." },
        { "three", "\"url\": \"/v1/completions\", ", 400,
          "3 choices: this server takes 2 at most" },
        { "chat", "\"url\": \"/v1/chat/completions\", ", 400,
          "Unrecognized request argument supplied: prompt" },
    };
    const size_t n = sizeof(asked_for) / sizeof(*asked_for);
    struct spot_server_options o = batch("odd", "told");
    FILE *const in = fopen(in_dir("odd"), "w");

    for (size_t i = 0; i < n; i++)
        fprintf(in,
                "{\"custom_id\": \"%s\", %s\"body\": {\"model\": \"model\", \"prompt\": \"a\", "
                "\"n\": %d}}\n",
                asked_for[i].id, asked_for[i].more, strcmp(asked_for[i].id, "three") ? 1 : 3);
    fclose(in);
    o.n_queue = 2;
    run_well(&o);
    for (size_t i = 0; i < n; i++) {
        char *const line = line_of("told", asked_for[i].id);

        ck_assert_ptr_nonnull(line);
        ck_assert_int_eq((int)number_in(line, "response.status_code"), asked_for[i].status);
        ck_assert_msg(strstr(line, asked_for[i].text), "no '%s' in %s", asked_for[i].text, line);
        free(line);
    }
}
END_TEST

START_TEST(empty_lines_ask_nothing)
{
    struct spot_server_options o = batch("gaps", "filled");
    char *line;

    write_text(in_dir("gaps"),
               "\n{\"custom_id\": \"a\", \"url\": \"/v1/completions\", \"body\": {\"model\": "
               "\"model\", \"prompt\": \"a\", \"max_tokens\": 2}}\r\n \t\r\n\n");
    run_well(&o);
    line = line_of("filled", "a");
    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq((int)number_in(line, "response.status_code"), 200);
    free(line);
}
END_TEST

static const char *const bad[][3] = {
    { "", "{\"custom_id\": 1, \"body\": {}}", "bad:1:15: /custom_id: must be a text" },
    { "", "{\"custom_id\": \"a\",}", "bad:1:" },
    { "", "{\"custom_id\": \"a\"}", "body" },
    { "",
      "{\"custom_id\": \"a\", \"url\": \"/v1/completions\", \"method\": \"POST\", \"body\": "
      "{\"model\": "
      "\"model\", \"prompt\": \"a\", \"max_tokens\": 1}}\n\n"
      "{\"custom_id\": \"a\", \"url\": \"/v1/chat/completions\", \"body\": {}}",
      "bad:3:15: /custom_id: 'a' is already in line 1" },
    { "{\"custom_id\": \"a\"}\n",
      "{\"custom_id\": \"a\", \"body\": {}}\n{\"custom_id\": \"a\", \"body\": {}}",
      "bad:2:15: /custom_id: 'a' is already in line 1" },
    { "no answer\n", "{\"custom_id\": \"a\", \"body\": {}}", "worse:1" },
};

START_TEST(a_line_that_cannot_be_read_ends_it_by_its_place)
{
    struct spot_server_options o = batch("bad", "worse");
    struct outcome got;

    write_text(in_dir("worse"), bad[_i][0]);
    write_text(in_dir("bad"), bad[_i][1]);
    start_server(&o);
    got = end_server(0);
    ck_assert_int_eq(got.err.code, SPOT_EDATA);
    ck_assert_msg(strstr(got.err.msg, bad[_i][2]), "%s", got.err.msg);
}
END_TEST

/* The answers go to a file, and not to that of the requests whatever its name. */
START_TEST(answers_go_to_a_file_that_is_not_the_requests)
{
    static const char *const to[] = { "in", "hard", "soft", "./in", "pipe", "folder" };
    struct spot_server_options o = batch("in", to[_i]);
    struct outcome got;
    char *before;

    write_lines("in");
    unlink(in_dir("hard"));
    unlink(in_dir("soft"));
    unlink(in_dir("pipe"));
    mkdir(in_dir("folder"), 0700);
    ck_assert_int_eq(link(in_dir("in"), in_dir("hard")) || symlink("in", in_dir("soft")) ||
                         mkfifo(in_dir("pipe"), 0600),
                     0);
    before = strdup(read_text(in_dir("in")));
    start_server(&o);
    got = end_server(0);
    ck_assert_int_eq(got.err.code, SPOT_EUSAGE);
    ck_assert_msg(strstr(got.err.msg, _i < 4 ? "would be appended to the requests, "
                                             : "must be a regular file, which "),
                  "%s", got.err.msg);
    ck_assert_str_eq(read_text(in_dir("in")), before);
    free(before);
}
END_TEST

/* Its client takes its time; the loop goes on meanwhile, and with what has come. */
START_TEST(requests_that_come_slowly_are_answered_as_they_come)
{
    static const char line[] = "{\"custom_id\": \"%s\", \"url\": \"/v1/completions\", \"body\": "
                               "{\"model\": \"model\", \"prompt\": \"a\", \"max_tokens\": 2}}\n";
    struct spot_server_options o = batch("slow", "slowly");
    struct outcome got;
    char second[256], *answer;
    int fd;

    ck_assert_int_eq(mkfifo(in_dir("slow"), 0600), 0);
    start_server(&o);
    fd = open(in_dir("slow"), O_WRONLY); /* once the server reads */
    ck_assert_int_ge(fd, 0);
    dprintf(fd, line, "first");
    snprintf(second, sizeof(second), line, "second");
    ck_assert_int_eq(write(fd, second, 20), 20);
    UNTIL(strstr(read_text(in_dir("slowly")), "\"first\""));
    dprintf(fd, "%s", second + 20);
    close(fd);
    got = end_server(0);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    answer = line_of("slowly", "second");
    ck_assert_ptr_nonnull(answer);
    free(answer);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("server_batch");

    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, each_line_has_an_answer_though_the_queue_is_shorter);
    tcase_add_test(tc, what_was_answered_before_is_left_as_it_is);
    tcase_add_test(tc, a_batch_that_was_stopped_goes_on);
    tcase_add_test(tc, what_cannot_be_asked_is_told_in_its_answer);
    tcase_add_test(tc, empty_lines_ask_nothing);
    tcase_add_loop_test(tc, a_line_that_cannot_be_read_ends_it_by_its_place, 0,
                        (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_loop_test(tc, answers_go_to_a_file_that_is_not_the_requests, 0, 6);
    tcase_add_test(tc, requests_that_come_slowly_are_answered_as_they_come);
    return run_server_suite("server_batch", tc);
}

/* SPDX-License-Identifier: MIT */
/* lane: wait */
#define _GNU_SOURCE /* mkdtemp, strndup, syscall */
#include "serve/relay.h"
#include "serve_rig.h"

/* Goal: a replica that computes wrong answers is found by those that compute them again, it alone
 * is named and set aside, and what was to be checked before it is told is right; where nobody can
 * be accused, nobody is. */

/* --- a worker with a fault: the linker puts this before the library's (tests.mk) --- */

static const char *fault = ""; /* its name: "lasting", "once", or none */
static int n_pass;

int __real_spot_relay_finish(struct spot_relay *relay, float **logit, const float **state,
                             struct spot_err *err);
int __wrap_spot_relay_finish(struct spot_relay *relay, float **logit, const float **state,
                             struct spot_err *err);
int __wrap_spot_relay_finish(struct spot_relay *relay, float **logit, const float **state,
                             struct spot_err *err)
{
    const int rc = __real_spot_relay_finish(relay, logit, state, err);
    uint32_t bits;
    int most = 0;

    if (rc || (strcmp(fault, "lasting") != 0 && (strcmp(fault, "once") != 0 || n_pass++ != 20)))
        return rc;
    for (int v = 1; v < (int)shape.vocab; v++)
        most = (*logit)[v] > (*logit)[most] ? v : most;
    memcpy(&bits, &(*logit)[most], sizeof(bits));
    bits ^= 1U << 16; /* less than a hundredth of it */
    memcpy(&(*logit)[most], &bits, sizeof(bits));
    return rc;
}

static void start_named(int i, const char *name)
{
    rig.worker[i] = fork();
    if (rig.worker[i])
        return;
    execl("/proc/self/exe", "test-replica", dir, at_dir("join"), name, "z", (char *)NULL);
    _exit(127);
}

static void begin(struct spot_server_options *o, const char *a, const char *b, const char *c)
{
    const char *const name[] = { a, b, c };
    int n = 0;

    o->group.events = in_dir("log");
    unlink(in_dir("log"));
    start_server(o);
    for (int i = 0; i < 3; i++)
        if (name[i]) {
            start_named(i, name[i]);
            n++;
        }
    UNTIL(metric("spot_serve_replicas") == n);
}

static void end_quietly(void)
{
    const struct outcome got = end_server(SIGTERM);

    ck_assert_msg(!got.rc, "%s", got.err.msg);
    end_all();
}

/* --- answers --- */

static const char *body_of(int i, const char *more)
{
    static char text[512];

    snprintf(text, sizeof(text),
             "{\"model\": \"model\", \"prompt\": \"%s\", \"max_tokens\": 40, \"seed\": %d, "
             "\"logprobs\": 1%s}",
             question[i % ASKED], i, more);
    return text;
}

/* Of an answer, its tokens and their log probabilities; the caller's. */
static char *numbers_of(const struct talk *k)
{
    const char *const begin = strstr(talk_body(k), "\"logprobs\":");
    const char *const end = begin ? strchr(begin, '}') : NULL;

    ck_assert_msg(begin && end, "%s; %s", talk_body(k), why());
    return strndup(begin, (size_t)(end - begin));
}

enum { MANY = 12 };
static char *calm[MANY];

static void answer_undisturbed(void)
{
    struct spot_server_options o = serving();

    begin(&o, "w0", NULL, NULL);
    for (int i = 0; i < MANY; i++) {
        free(calm[i]); /* tests may share a process */
        calm[i] = numbers_of(ask("POST", "/v1/completions", body_of(i, "")));
    }
    end_quietly();
}

/* Together, so that all replicas have some. */
static void expect_checked_answers(void)
{
    struct talk k[MANY];

    for (int i = 0; i < MANY; i++)
        talk_ask(&k[i], "POST", "/v1/completions", "", body_of(i, ", \"verify\": true"));
    for (int i = 0; i < MANY; i++) {
        char *got;

        talk_hear(&k[i], NULL);
        got = numbers_of(&k[i]);
        ck_assert_msg(!strcmp(got, calm[i]), "%d: %s, not %s; %s", i, got, calm[i], why());
        free(got);
        talk_close(&k[i]);
    }
}

/* So many are in the log, of this name and with this key. */
static int logged(const char *event, const char *name)
{
    char line[64], want[64];
    int n = 0;

    snprintf(line, sizeof(line), "\"event\":\"%s\"", event);
    snprintf(want, sizeof(want), "\"name\":\"%s\"", name);
    for (const char *at = read_text(in_dir("log")); (at = strstr(at, line)); at++) {
        const char *const key = strstr(at, want);

        n += !*name || (key && key < at + strcspn(at, "\n"));
    }
    return n;
}

START_TEST(all_are_checked_and_there_is_no_false_alarm)
{
    struct spot_server_options o = serving();

    answer_undisturbed();
    o.verify = 1;
    begin(&o, "w0", "w1", NULL);
    for (int i = 0; i < MANY; i++) {
        char *const got =
            numbers_of(ask("POST", "/v1/completions", body_of(i, i % 2 ? "" : ", \"n\": 2")));

        ck_assert_str_eq(got, calm[i]);
        free(got);
    }
    (void)ask("POST", "/v1/completions", /* whose log probabilities nobody asks for */
              "{\"model\": \"model\", \"prompt\": \"x\", \"max_tokens\": 9, \"echo\": true}");
    UNTIL(metric("spot_serve_checked_total") == MANY + MANY / 2 + 1);
    ck_assert(metric("spot_serve_unchecked_total") == 0);
    ck_assert(metric("spot_serve_corrupt_members_total") == 0);
    end_quietly();
    ck_assert_int_eq(logged("corrupt", "") + logged("differs", ""), 0);
}
END_TEST

START_TEST(a_replica_that_errs_is_set_aside_and_checked_answers_are_right)
{
    struct spot_server_options o = serving();

    answer_undisturbed();
    o.verify = 0; /* what clients ask for alone */
    begin(&o, "lasting", "w1", "w2");
    expect_checked_answers();
    ck_assert(metric("spot_serve_corrupt_members_total") == 1);
    UNTIL(metric("spot_serve_replicas") == 2);
    expect_checked_answers();
    end_quietly();
    ck_assert_int_ge(logged("corrupt", "lasting"), 1);
    ck_assert_int_eq(logged("corrupt", "lasting"), logged("corrupt", ""));
}
END_TEST

START_TEST(a_share_finds_it_too_behind_what_was_told)
{
    struct spot_server_options o = serving();
    int i = 0;

    o.verify = 0.5;
    begin(&o, "w0", "lasting", "w2");
    while (metric("spot_serve_corrupt_members_total") < 1 && i < 500) {
        (void)ask("POST", "/v1/completions", body_of(i, ", \"n\": 3"));
        i++;
    }
    end_quietly();
    ck_assert_int_ge(logged("corrupt", "lasting"), 1);
    ck_assert_int_eq(logged("corrupt", "lasting"), logged("corrupt", ""));
}
END_TEST

/* It contradicts itself. */
START_TEST(an_error_that_passes_names_its_author_among_two)
{
    struct spot_server_options o = serving();
    struct talk k;

    answer_undisturbed();
    o.verify = 0;
    begin(&o, "once", "w1", NULL);
    talk_ask(&k, "POST", "/v1/completions", "", body_of(0, ", \"verify\": true"));
    UNTIL(metric("spot_serve_corrupt_members_total") == 1);
    start_named(2, "w2"); /* who is right is not shown by one alone */
    talk_hear(&k, NULL);
    end_quietly();
    {
        char *const got = numbers_of(&k);

        ck_assert_str_eq(got, calm[0]);
        free(got);
    }
    talk_close(&k);
    ck_assert_int_eq(logged("corrupt", "once"), 1);
    ck_assert_int_eq(logged("corrupt", ""), 1);
}
END_TEST

START_TEST(of_two_that_differ_for_good_nobody_is_accused_and_nothing_is_told)
{
    struct spot_server_options o = serving();
    struct talk k;

    o.verify = 0;
    begin(&o, "lasting", "w1", NULL);
    talk_ask(&k, "POST", "/v1/completions", "", body_of(0, ", \"verify\": true"));
    UNTIL(metric("spot_serve_requests_total") == 1);
    end_quietly();
    talk_hear(&k, NULL);
    ck_assert_int_ge(talk_status(&k), 500);
    talk_close(&k);
    ck_assert_int_eq(logged("corrupt", ""), 0);
    ck_assert_int_eq(logged("differs", ""), 1);
}
END_TEST

START_TEST(a_server_that_checks_nothing_refuses_who_asks_for_it)
{
    struct spot_server_options o = serving();

    o.verify = -1;
    begin(&o, "w0", NULL, NULL);
    ck_assert_int_eq(talk_status(ask("POST", "/v1/completions", body_of(0, ", \"verify\": true"))),
                     400);
    end_quietly();
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("verify");

    if (argc > 3 && !strcmp(argv[0], "test-replica"))
        fault = argv[3];
    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, all_are_checked_and_there_is_no_false_alarm);
    tcase_add_test(tc, a_replica_that_errs_is_set_aside_and_checked_answers_are_right);
    tcase_add_test(tc, a_share_finds_it_too_behind_what_was_told);
    tcase_add_test(tc, an_error_that_passes_names_its_author_among_two);
    tcase_add_test(tc, of_two_that_differ_for_good_nobody_is_accused_and_nothing_is_told);
    tcase_add_test(tc, a_server_that_checks_nothing_refuses_who_asks_for_it);
    return run_server_suite("server_verify", tc);
}

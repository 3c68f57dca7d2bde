/* SPDX-License-Identifier: MIT */
/* lane: wait */
#define _GNU_SOURCE /* mkdtemp, strndup, syscall */
#include "serve_rig.h"

/* Goal: a server changes to another version of its model replica by replica: an answer ends on the
 * version that it began on, new ones begin on the new one, what cannot be served changes nothing;
 * and a coordinator that is killed, at any time, goes on from its journal without a gap. */

/* Ask for what a client may ask; its answer, until the next. */
static const char *client(uint32_t type, const char *dir_or_nothing, int *status)
{
    static struct spot_buf answer;
    struct spot_buf asks = { 0 };
    struct spot_err err = { 0 };

    spot_put_text(&asks, dir_or_nothing);
    spot_buf_release(&answer);
    *status = spot_client_ask(at_dir("join"), NULL, 20, (enum spot_message)type, asks.data, asks.n,
                              &answer, &err);
    ck_assert_msg(*status >= 0, "%s", err.msg);
    spot_buf_release(&asks);
    spot_buf_add(&answer, "", 1);
    return (const char *)answer.data;
}

static void roll(const char *name)
{
    int status;
    const char *const answer = client(SPOT_MSG_ROLL, in_dir(name), &status);

    ck_assert_msg(!status, "%s", answer);
}

static void expect_refused(uint32_t type, const char *name, const char *text)
{
    int status;
    const char *const answer = client(type, name, &status);

    ck_assert_int_ne(status, 0);
    ck_assert_msg(strstr(answer, text), "no '%s' in: %s", text, answer);
}

static bool is_rollout(const char *state)
{
    char *const text = status(), *const got = text ? text_in(text, "rollout.state") : NULL;
    const bool is = got && !strcmp(got, state);

    free(text);
    free(got);
    return is;
}

static void expect_why(const char *want)
{
    char *const text = status(), *const got = text_in(text, "rollout.why");

    ck_assert_msg(got && strstr(got, want), "no '%s' in: %s", want, got ? got : "(nothing)");
    free(text);
    free(got);
}

static const char fresh[] = "{\"model\": \"model\", \"prompt\": \"A new one\", \"max_tokens\": 20, "
                            "\"temperature\": 0}";

static void expect_fresh(const struct talk *k, const char *model)
{
    char *const want = wanted(model, "A new one", 20);

    EXPECT_TEXT(talk_body(k), "choices.0.text", want);
    free(want);
}

static void begin(int n_worker, struct spot_server_options *o)
{
    start_server(o);
    start_workers(n_worker, n_worker);
    ask_in_the_middle("");
    set_pace(200); /* they end when the test lets them, not before the roll is seen */
}

/* --- versions --- */

START_TEST(answers_end_on_the_version_they_began_on)
{
    struct spot_server_options o = serving();

    begin(2, &o);
    roll("other");
    UNTIL(status_number("rollout.replicas") == 1); /* of the new version; one of the old is left */
    ck_assert(status_number("rollout.requests_left") == ASKED);
    expect_fresh(ask("POST", "/v1/completions", fresh), "other");
    expect_refused(SPOT_MSG_ROLL, in_dir("model"), "still being rolled out: ");
    set_pace(0);
    expect_all("model");
    UNTIL(is_rollout("done"));
    UNTIL(metric("spot_serve_replicas") == 2);
    ask_all("");
    expect_all("other");
    end_well();
}
END_TEST

/* The sanitizer sees it: what was told of the old version's tokens came from freed memory. */
START_TEST(a_client_that_reads_on_after_the_roll_hears_the_old_version)
{
    static const char body[] =
        "{\"model\": \"model\", \"prompt\": \"Slowly\", \"max_tokens\": 500, "
        "\"n\": 8, \"stream\": true, \"logprobs\": 5, \"ignore_eos\": true}";
    struct spot_server_options o = serving();
    struct talk k;
    size_t n_event = 0;

    start_server(&o); /* which does not linger */
    start_workers(1, 1);
    talk_ask(&k, "POST", "/v1/completions", "", body);
    UNTIL(metric("spot_serve_tokens_total") == 4000); /* more than sockets hold */
    UNTIL(metric("spot_serve_choices_running") == 0);
    roll("other");
    UNTIL(is_rollout("done"));
    expect_fresh(ask("POST", "/v1/completions", fresh), "other");
    talk_hear(&k, NULL);
    for (const char *at = talk_text(&k); (at = strstr(at, "\ndata: {")); at++)
        n_event++;
    ck_assert_uint_eq(n_event, 4000);
    ck_assert_ptr_nonnull(strstr(talk_text(&k), "data: [DONE]"));
    talk_close(&k);
    end_well();
}
END_TEST

START_TEST(with_one_replica_new_requests_wait_for_the_old_ones)
{
    struct spot_server_options o = serving();
    struct talk k;

    begin(1, &o);
    roll("other");
    UNTIL(is_rollout("rolling"));
    talk_ask(&k, "POST", "/v1/completions", "", fresh);
    UNTIL(metric("spot_serve_choices_queued") == 1);
    set_pace(0);
    expect_all("model");
    talk_hear(&k, NULL);
    expect_fresh(&k, "other");
    talk_close(&k);
    UNTIL(is_rollout("done"));
    end_well();
}
END_TEST

/* The only one that has the old version is killed: who is left is formed with it once more. */
START_TEST(a_replica_that_is_killed_meanwhile_leaves_its_answers_to_who_can)
{
    struct spot_server_options o = serving();

    o.has_buddies = true;
    begin(2, &o);
    roll("other");
    UNTIL(status_number("rollout.replicas") == 1);
    for (int i = 0; i < 2; i++) { /* one of them has the old version */
        strike(i, SIGKILL);
        start_worker(i + 2);
        UNTIL(metric("spot_joins_total") == i + 3);
    }
    set_pace(0);
    expect_all("model");
    UNTIL(is_rollout("done"));
    expect_fresh(ask("POST", "/v1/completions", fresh), "other");
    end_well();
}
END_TEST

START_TEST(what_cannot_be_served_is_refused_and_nothing_changes)
{
    struct spot_server_options o = serving();

    start_server(&o);
    start_workers(1, 1);
    expect_refused(SPOT_MSG_ROLL, "", "the directory of a model is missing or too long");
    expect_refused(SPOT_MSG_ROLL + 1, "", "unknown request to this job");
    roll("nowhere");
    UNTIL(is_rollout("refused"));
    expect_why("nowhere/config.json");
    roll("model");
    UNTIL(is_rollout("done"));
    expect_why("it is the model already served");
    expect_fresh(ask("POST", "/v1/completions", fresh), "model");
    end_well();
}
END_TEST

START_TEST(a_version_that_a_worker_cannot_read_is_taken_back)
{
    struct spot_server_options o = serving();

    make_model("lost", 3);
    begin(1, &o);
    roll("lost");
    UNTIL(is_rollout("rolling"));
    rename(in_dir("lost/model.safetensors"),
           in_dir("safe")); /* the worker has what it began with until it ends */
    set_pace(0);
    expect_all("model");
    UNTIL(is_rollout("taken back"));
    expect_why("worker w0: ");
    expect_fresh(ask("POST", "/v1/completions", fresh), "model");
    ck_assert_ptr_nonnull(strstr(why(), "worker w0 cannot read the model: "));
    rename(in_dir("safe"), in_dir("lost/model.safetensors"));
    roll("lost");
    UNTIL(is_rollout("done"));
    expect_fresh(ask("POST", "/v1/completions", fresh), "lost");
    end_well();
}
END_TEST

/* Whoever had the version is gone, and so is the directory: there is no other answer to give. */
START_TEST(answers_of_a_version_that_nobody_can_read_end_as_errors)
{
    struct spot_server_options o = serving();

    mkdir(in_dir("gone"), 0700);
    make_model("gone/model", 5);
    o.model = in_dir("gone/model");
    begin(1, &o);
    roll("other");
    UNTIL(is_rollout("rolling"));
    unlink(in_dir("gone/model/model.safetensors"));
    ck_assert_int_eq(strike(0, SIGKILL), -SIGKILL);
    set_pace(0);
    start_worker(1);
    for (int i = 0; i < ASKED; i++) {
        talk_hear(&asked[i], NULL);
        ck_assert_int_eq(talk_status(&asked[i]), 500);
        talk_close(&asked[i]);
    }
    ck_assert_ptr_nonnull(strstr(why(), "its version of the model cannot be read"));
    expect_fresh(ask("POST", "/v1/completions", fresh), "other");
    UNTIL(is_rollout("done"));
    end_well();
}
END_TEST

/* --- the journal --- */

static struct spot_server_options with_journal(const char *name)
{
    struct spot_server_options o = serving();

    o.state = in_dir(name);
    o.linger_s = 100;
    return o;
}

static char *id[ASKED];

/* Streams begin, and their coordinator is killed in the middle of them. */
static void begin_streams(const struct spot_server_options *o, int n_worker)
{
    start_server(o);
    start_workers(n_worker, n_worker);
    ask_in_the_middle(", \"stream\": true");
    for (int i = 0; i < ASKED; i++) {
        talk_hear(&asked[i], "id: 0:2\n");
        id[i] = stream_id(&asked[i]);
    }
    set_pace(200);
}

static void kill_server(void)
{
    end_server(SIGKILL);
    for (int i = 0; i < ASKED; i++)
        talk_close(&asked[i]);
    set_pace(0);
}

/* From the first word on: what the coordinator before has told is in the journal. */
static void expect_streams(const char *model, int but)
{
    char path[96];
    struct talk k;

    for (int i = 0; i < ASKED; i++) {
        char *const want = wanted(model, question[i], LONG), *got;

        snprintf(path, sizeof(path), "/v1/streams/%s", id[i]);
        talk_ask(&k, "GET", path, "", "");
        talk_hear(&k, NULL);
        ck_assert_int_eq(talk_status(&k), i == but ? 404 : 200);
        got = streamed(&k, 0, "text");
        if (i != but)
            ck_assert_str_eq(got, want);
        talk_close(&k);
        free(got);
        free(want);
    }
}

/* All have been read, perhaps from the journal alone: workers come back in their own time, and one
 * that finds nobody is not dismissed. */
static void end_streams(void)
{
    int n_worker = 0;

    for (int i = 0; i < WORKERS; i++)
        n_worker += rig.worker[i] != 0;
    UNTIL(metric("spot_serve_replicas") == n_worker);
    end_well();
    for (int i = 0; i < ASKED; i++)
        free(id[i]);
}

START_TEST(a_coordinator_that_is_killed_goes_on_with_its_streams)
{
    struct spot_server_options o = with_journal("killed");

    begin_streams(&o, 2);
    kill_server();
    o.group.resume = true;
    start_server(&o);
    expect_streams("model", -1);
    end_streams();
}
END_TEST

/* Metrics ask for a key too: what is waited for is told by the stream. */
START_TEST(a_coordinator_that_is_killed_knows_whose_stream_it_was)
{
    static const char *const key[] = { "Authorization: Bearer two\r\n",
                                       "Authorization: Bearer one\r\n" };
    struct spot_server_options o = with_journal("owned");
    struct talk k;
    char path[96], *name;

    write_text(in_dir("keys"), "one\ntwo\n");
    o.api_key_file = in_dir("keys");
    start_server(&o);
    start_worker(0);
    talk_ask(&k, "POST", "/v1/completions", key[1],
             "{\"model\": \"model\", \"prompt\": \"Mine\", \"max_tokens\": 9, \"stream\": true}");
    talk_hear(&k, "id: 0:2\n");
    name = stream_id(&k);
    end_server(SIGKILL);
    talk_close(&k);
    o.group.resume = true;
    start_server(&o);
    snprintf(path, sizeof(path), "/v1/streams/%s", name);
    for (int i = 0; i < 2; i++) {
        talk_ask(&k, "GET", path, key[i], "");
        talk_hear(&k, NULL);
        ck_assert_int_eq(talk_status(&k), i ? 200 : 404);
        talk_close(&k);
    }
    free(name);
    end_server(SIGTERM);
    strike(0, SIGKILL); /* it may not have come back */
}
END_TEST

START_TEST(a_coordinator_that_is_killed_while_it_rolls_goes_on_with_both_versions)
{
    struct spot_server_options o = with_journal("both");

    begin_streams(&o, 2);
    roll("other");
    UNTIL(status_number("rollout.replicas") == 1);
    kill_server();
    o.group.resume = true;
    start_server(&o);
    expect_streams("model", -1);
    expect_fresh(ask("POST", "/v1/completions", fresh), "other");
    ck_assert_ptr_nonnull(strstr(why(), "other was rolled out before and is served"));
    end_streams();
}
END_TEST

/* The version that streams began on is not what it was: their words would be others. */
START_TEST(streams_of_a_version_that_has_changed_are_not_gone_on_with)
{
    struct spot_server_options o = with_journal("changed");
    struct outcome got;

    make_model("third", 3);
    o.model = in_dir("model");
    start_server(&o);
    start_workers(1, 1);
    roll("third");
    UNTIL(is_rollout("done"));
    ck_assert_int_eq(talk_status(ask("POST", "/v1/completions", fresh)), 200);
    end_server(SIGKILL);
    strike(0, SIGKILL);
    make_model("third", 4);
    o.group.resume = true;
    start_server(&o);
    got = end_server(0);
    ck_assert_int_eq(got.err.code, SPOT_EDATA);
    ck_assert_msg(strstr(got.err.msg, "third is not the model any more that the journal's requests "
                                      "began on"),
                  "%s", got.err.msg);
}
END_TEST

/* Change a byte in the middle of the first record that fits; DIR/state/tokens.log */
static void damage(const char *name, bool (*fits)(const uint8_t *record, size_t n))
{
    char path[128];
    static uint8_t data[1 << 20];
    size_t n_byte, at = 64, n = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/tokens.log", in_dir(name));
    file = fopen(path, "r+");
    n_byte = fread(data, 1, sizeof(data), file);
    for (; at < n_byte; at += 12 + n) {
        n = data[at] | (size_t)data[at + 1] << 8 | (size_t)data[at + 2] << 16;
        if (fits(data + at + 12, n))
            break;
    }
    ck_assert_uint_lt(at, n_byte);
    fseek(file, (long)(at + 12 + n / 2), SEEK_SET);
    fputc(data[at + 12 + n / 2] ^ 1, file);
    fclose(file);
}

static bool is_second_request(const uint8_t *record, size_t n)
{
    return n > strlen(id[1]) && memmem(record, n, id[1], strlen(id[1])) != NULL;
}

START_TEST(of_a_damaged_journal_the_others_go_on_and_what_is_lost_is_said)
{
    struct spot_server_options o = with_journal("damaged");
    FILE *file;

    begin_streams(&o, 1);
    kill_server();
    damage("damaged", is_second_request);
    o.group.resume = true;
    start_server(&o);
    expect_streams("model", 1);
    ck_assert_ptr_nonnull(strstr(why(), "1 records of the journal were damaged"));
    ck_assert_ptr_nonnull(strstr(why(), "kept as tokens.log.bad"));
    end_server(SIGKILL);
    file = fopen(in_dir("damaged/tokens.log"), "a");
    fputs("half a record", file);
    fclose(file);
    start_server(&o);
    expect_streams("model", 1);
    ck_assert_ptr_nonnull(
        strstr(why(), "the end of the journal was damaged: 13 bytes are cut off"));
    end_streams();
}
END_TEST

START_TEST(a_journal_that_is_none_or_of_other_numbers_is_refused_by_name)
{
    struct spot_server_options o = with_journal("numbers");
    struct outcome got;

    start_server(&o);
    UNTIL(talk_status(ask("GET", "/health", "")) == 503);
    end_well();
    start_server(&o);
    got = end_server(0);
    ck_assert_int_eq(got.err.code, SPOT_EUSAGE);
    ck_assert_ptr_nonnull(strstr(got.err.msg, "tokens.log exists: --resume continues"));
    o.group.resume = true;
    o.type = SPOT_INFER_BF16;
    start_server(&o);
    got = end_server(0);
    ck_assert_int_eq(got.err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(got.err.msg, "continued with bf16 weights and inputs on CPUs"));
    write_text(in_dir("numbers/tokens.log"), "this is no journal at all");
    start_server(&o);
    got = end_server(0);
    ck_assert_ptr_nonnull(strstr(got.err.msg, "not the journal of a server"));
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("server_roll");

    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, answers_end_on_the_version_they_began_on);
    tcase_add_test(tc, a_client_that_reads_on_after_the_roll_hears_the_old_version);
    tcase_add_test(tc, with_one_replica_new_requests_wait_for_the_old_ones);
    tcase_add_test(tc, a_replica_that_is_killed_meanwhile_leaves_its_answers_to_who_can);
    tcase_add_test(tc, what_cannot_be_served_is_refused_and_nothing_changes);
    tcase_add_test(tc, a_version_that_a_worker_cannot_read_is_taken_back);
    tcase_add_test(tc, answers_of_a_version_that_nobody_can_read_end_as_errors);
    tcase_add_test(tc, a_coordinator_that_is_killed_goes_on_with_its_streams);
    tcase_add_test(tc, a_coordinator_that_is_killed_knows_whose_stream_it_was);
    tcase_add_test(tc, a_coordinator_that_is_killed_while_it_rolls_goes_on_with_both_versions);
    tcase_add_test(tc, streams_of_a_version_that_has_changed_are_not_gone_on_with);
    tcase_add_test(tc, of_a_damaged_journal_the_others_go_on_and_what_is_lost_is_said);
    tcase_add_test(tc, a_journal_that_is_none_or_of_other_numbers_is_refused_by_name);
    return run_server_suite("server_roll", tc);
}

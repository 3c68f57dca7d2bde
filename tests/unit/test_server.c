/* SPDX-License-Identifier: MIT */
/* lane: wait */
#define _GNU_SOURCE /* mkdtemp, strndup, syscall */
#include "serve_rig.h"
#include "train/worker.h"

/* Goal: what a server of several replicas answers is what one engine says alone, whole or as a
 * stream, as a completion, a chat or what a schema allows; what it tells of itself is what was; and
 * whoever asks for what cannot be, or joins and cannot help, is told so and harms nobody. */

enum { LENGTH = 48 };

static const char *const prompts[] = { "The first", "a", "Once more, and longer than a page.",
                                       "{\\\"x\\\": 3", "zzzz" };
enum { PROMPTS = sizeof(prompts) / sizeof(prompts[0]) };
static const char quoted[] = "{\"x\": 3"; /* the fourth one, read */

static const char *prompt_of(int i)
{
    return i == 3 ? quoted : prompts[i];
}

static const char *body_of(int i, const char *more)
{
    static char text[4][1024];
    static int at;
    char *const here = text[at++ % 4];

    snprintf(here, sizeof(text[0]),
             "{\"model\": \"model\", \"prompt\": \"%s\", \"max_tokens\": %d%s}", prompts[i], LENGTH,
             more);
    return here;
}

static const struct talk *complete(const char *body)
{
    return ask("POST", "/v1/completions", body);
}

static void expect_error(const char *body, int status, const char *text)
{
    const struct talk *const k = complete(body);

    ck_assert_int_eq(talk_status(k), status);
    ck_assert_msg(strstr(talk_body(k), text), "no '%s' in %s", text, talk_body(k));
}

/* --- answers --- */

/* Log probabilities [from, to) of an answer, summed. */
static double sum_of(const char *answer, int from, int to)
{
    double sum = 0;
    char path[64];

    for (int t = from; t < to; t++) {
        snprintf(path, sizeof(path), "choices.0.logprobs.token_logprobs.%d", t);
        sum += number_in(answer, path);
    }
    return sum;
}

START_TEST(answers_are_those_of_one_engine_in_any_company)
{
    struct spot_server_options o = serving();
    struct talk k[PROMPTS];

    start_server(&o);
    start_workers(2, 2);
    for (int i = 0; i < PROMPTS; i++)
        talk_ask(&k[i], "POST", "/v1/completions", "",
                 body_of(i, ", \"temperature\": 0, \"logprobs\": 3"));
    for (int i = 0; i < PROMPTS; i++) {
        double logprob = 0;
        char *const want = wanted_with("model", prompt_of(i), LENGTH, 0, &logprob);

        talk_hear(&k[i], NULL);
        EXPECT_TEXT(talk_body(&k[i]), "choices.0.text", want);
        EXPECT_TEXT(talk_body(&k[i]), "choices.0.finish_reason", "length");
        ck_assert(number_in(talk_body(&k[i]), "usage.completion_tokens") == LENGTH);
        ck_assert_double_eq_tol(sum_of(talk_body(&k[i]), 0, LENGTH), logprob, 1e-3);
        talk_close(&k[i]);
        free(want);
    }
    ck_assert(metric("spot_serve_tokens_total") == PROMPTS * LENGTH);
    end_well();
}
END_TEST

START_TEST(penalties_and_biases_count_what_was_said)
{
    struct spot_server_options o = serving();
    char *want;

    start_server(&o);
    start_workers(1, 1);
    want = wanted_with("model", prompts[0], LENGTH, 1.5, NULL);
    EXPECT_TEXT(talk_body(complete(body_of(0, ", \"temperature\": 0, \"frequency_penalty\": 1.5"))),
                "choices.0.text", want);
    free(want);
    EXPECT_TEXT(talk_body(complete(body_of(0, ", \"logit_bias\": {\"65\": 100}"))),
                "choices.0.text", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    expect_error(body_of(0, ", \"logit_bias\": {\"256\": 1}"), 400, "logit_bias");
    end_well();
}
END_TEST

/* The tokens of a prompt that is echoed have the probabilities that they had as an answer. */
START_TEST(an_echoed_prompt_is_told_with_its_log_probabilities)
{
    struct spot_server_options o = serving();
    char *const text = wanted("model", prompts[1], 20);
    char escaped[64] = "", body[256];
    double told;

    for (size_t i = 0; text[i]; i++)
        snprintf(escaped + strlen(escaped), 3, strchr("\"\\", text[i]) ? "\\%c" : "%c", text[i]);
    start_server(&o);
    start_workers(1, 1);
    snprintf(body, sizeof(body), "%s", body_of(1, ", \"temperature\": 0, \"logprobs\": 0"));
    told = sum_of(talk_body(complete(body)), 0, 20);
    snprintf(body, sizeof(body),
             "{\"model\": \"model\", \"prompt\": \"%s%s\", \"max_tokens\": 0, \"echo\": true, "
             "\"logprobs\": 0}",
             prompts[1], escaped);
    ck_assert_double_eq_tol(sum_of(talk_body(complete(body)), 1, 21), told, 1e-4);
    free(text);
    end_well();
}
END_TEST

static const char drawn[] = ", \"n\": 2, \"seed\": 5, \"temperature\": 0.8";

START_TEST(a_stream_says_what_the_whole_answer_says)
{
    struct spot_server_options o = serving();
    const char *whole;
    char *text[2];
    struct talk k;

    start_server(&o);
    start_workers(1, 1);
    whole = talk_body(complete(body_of(0, drawn)));
    text[0] = text_in(whole, "choices.0.text");
    text[1] = text_in(whole, "choices.1.text");
    ck_assert_str_ne(text[0], text[1]);
    talk_ask(&k, "POST", "/v1/completions", "",
             body_of(0, ", \"n\": 2, \"seed\": 5, \"temperature\": 0.8, \"stream\": true, "
                        "\"stream_options\": {\"include_usage\": true}"));
    talk_hear(&k, NULL);
    for (int i = 0; i < 2; i++) {
        char *const got = streamed(&k, i, "text");

        ck_assert_str_eq(got, text[i]);
        free(got);
        free(text[i]);
    }
    ck_assert_ptr_nonnull(strstr(talk_text(&k), "data: [DONE]"));
    ck_assert_ptr_nonnull(strstr(talk_text(&k), "\"completion_tokens\":96"));
    talk_close(&k);
    end_well();
}
END_TEST

/* What was told before the client hung up, and what it gets for the rest. */
START_TEST(a_stream_goes_on_where_its_client_left_it)
{
    struct spot_server_options o = serving();
    char *const want = wanted("model", prompts[0], LENGTH);
    char path[96], *id, *head, *rest;
    struct talk k;

    o.linger_s = 60;
    start_server(&o);
    start_workers(1, 1);
    set_pace(100);
    talk_ask(&k, "POST", "/v1/completions", "",
             body_of(0, ", \"temperature\": 0, \"stream\": true"));
    talk_hear(&k, "id: 0:3\n");
    id = stream_id(&k);
    head = streamed(&k, 0, "text");
    head[4] = '\0'; /* tokens 0 to 3, a letter each */
    talk_close(&k);
    snprintf(path, sizeof(path), "/v1/streams/%s", id);
    set_pace(0);
    talk_ask(&k, "GET", path, "Last-Event-ID: 0:3\r\n", "");
    talk_hear(&k, NULL);
    rest = streamed(&k, 0, "text");
    ck_assert_int_eq(strncmp(want, head, 4), 0);
    ck_assert_str_eq(rest, want + 4);
    talk_close(&k);
    ck_assert_int_eq(talk_status(ask("GET", "/v1/streams/cmpl-none", "")), 404);
    free(head);
    free(rest);
    free(id);
    free(want);
    end_server(SIGTERM);
    end_all();
}
END_TEST

START_TEST(a_chat_is_the_completion_of_what_its_template_makes_of_it)
{
    struct spot_server_options o = serving();
    static const char body[] =
        "{\"model\": \"chatty\", \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
        "\"text\", \"text\": \"Hi\"}]}], "
        "\"max_tokens\": 20, \"temperature\": 0, \"logprobs\": true, \"top_logprobs\": 2%s}";
    const struct talk *k;
    char text[512], *got, *want;

    make_model("chatty", 3);
    want = wanted("chatty", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", 20);
    write_text(in_dir("chatty/tokenizer_config.json"),
               "{\"bos_token\": \"<bos>\", \"eos_token\": \"</s>\", \"chat_template\": \"{% for "
               "message in messages %}{{'<|im_start|>' + message['role'] + '\\\\n' + "
               "message['content'] + '<|im_end|>' + '\\\\n'}}{% endfor %}{% if "
               "add_generation_prompt %}{{ '<|im_start|>assistant\\\\n' }}{% endif %}\"}");
    o.model = in_dir("chatty");
    start_server(&o);
    start_workers(1, 1);
    snprintf(text, sizeof(text), body, "");
    k = ask("POST", "/v1/chat/completions", text);
    EXPECT_TEXT(talk_body(k), "choices.0.message.content", want);
    EXPECT_TEXT(talk_body(k), "choices.0.message.role", "assistant");
    text[0] = *want;
    text[1] = '\0';
    EXPECT_TEXT(talk_body(k), "choices.0.logprobs.content.0.token", text);
    EXPECT_TEXT(talk_body(k), "choices.0.logprobs.content.0.top_logprobs.0.token", text);
    ck_assert(number_in(talk_body(k), "choices.0.logprobs.content.0.bytes.0") == *want);
    snprintf(text, sizeof(text), body, ", \"stream\": true");
    k = ask("POST", "/v1/chat/completions", text);
    got = streamed(k, 0, "delta.content");
    ck_assert_str_eq(got, want);
    free(got);
    free(want);
    end_well();
}
END_TEST

START_TEST(an_answer_is_what_its_schema_allows)
{
    struct spot_server_options o = serving();
    char *text, *word;
    double n;

    start_server(&o);
    start_workers(2, 2);
    text = text_in(
        talk_body(complete(body_of(
            0, ", \"temperature\": 1, \"seed\": 4, \"response_format\": {\"type\": "
               "\"json_schema\", \"json_schema\": {\"name\": \"s\", \"schema\": {\"type\": "
               "\"object\", \"properties\": {\"word\": {\"enum\": [\"yes\", \"no\"]}, \"n\": "
               "{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 9}}, \"required\": [\"word\", "
               "\"n\"], \"additionalProperties\": false}}}"))),
        "choices.0.text");
    ck_assert_ptr_nonnull(text);
    word = text_in(text, "word");
    n = number_in(text, "n");
    ck_assert_msg(word && (!strcmp(word, "yes") || !strcmp(word, "no")), "%s", text);
    ck_assert_msg(n >= 1 && n <= 9, "%s", text);
    free(word);
    free(text);
    end_well();
}
END_TEST

/* --- what it tells of itself --- */

START_TEST(status_metrics_and_log_say_what_was)
{
    struct spot_server_options o = serving();
    struct talk k[3];
    const char *log;
    char *text;

    o.group.events = in_dir("events");
    start_server(&o);
    start_workers(2, 2);
    set_pace(200); /* or one is done with all of them before the other has any */
    for (int i = 0; i < 3; i++)
        talk_ask(&k[i], "POST", "/v1/completions", "", body_of(i, ""));
    UNTIL(metric("spot_serve_choices_running") == 3);
    set_pace(0);
    for (int i = 0; i < 3; i++) {
        talk_hear(&k[i], NULL);
        talk_close(&k[i]);
    }
    UNTIL(metric("spot_serve_choices_running") == 0);
    ck_assert(metric("spot_serve_requests_total") == 3);
    ck_assert(metric("spot_serve_tokens_total") == 3 * LENGTH);
    ck_assert(metric("spot_serve_first_token_seconds_count") == 3);
    ck_assert(metric("spot_serve_request_seconds_count") == 3);
    UNTIL(metric("spot_serve_kv_pages") == 2 * 4 * CONTEXT / SPOT_INFER_PAGE); /* both are there */
    ck_assert(metric("spot_serve_preemptions_total") == 0);
    text = spot_xstrdup(talk_body(ask("GET", "/status", "")));
    ck_assert(number_in(text, "requests") == 3 && number_in(text, "replicas") == 2);
    ck_assert(number_in(text, "ttft_mean_s") > 0 && number_in(text, "between_p50_s") > 0);
    ck_assert(strstr(text, "\"name\":\"w0\"") && strstr(text, "\"name\":\"w1\""));
    free(text);
    text = status();
    EXPECT_TEXT(text, "model", in_dir("model"));
    ck_assert(number_in(text, "tokens") == 3 * LENGTH);
    free(text);
    ck_assert_ptr_nonnull(strstr(talk_body(ask("GET", "/", "")), "<html"));
    ck_assert_int_eq(talk_status(ask("GET", "/health", "")), 200);
    ck_assert_int_eq(talk_status(ask("HEAD", "/status", "")), 200);
    end_well();
    log = read_text(in_dir("events"));
    ck_assert_ptr_nonnull(strstr(log, "\"event\":\"serving\""));
    ck_assert_ptr_nonnull(strstr(log, "\"place\":[\"w0\"]"));
    ck_assert_ptr_nonnull(strstr(log, "\"place\":[\"w1\"]"));
    for (int i = 0; i < 3; i++) {
        log = strstr(log, "\"event\":\"request\"");
        ck_assert_ptr_nonnull(log);
        ck_assert_ptr_nonnull(
            strstr(log++, "\"output_tokens\":48,\"choices\":1,\"finish\":\"done\""));
    }
    ck_assert_ptr_nonnull(strstr(log, "\"event\":\"token\""));
}
END_TEST

/* --- who asks for what cannot be, or goes away --- */

START_TEST(a_full_queue_says_so_and_who_hung_up_makes_room)
{
    struct spot_server_options o = serving();
    char *want = wanted("model", prompts[0], LENGTH);
    struct talk k[3];

    o.n_queue = 2;
    o.n_sequence = 1;
    o.group.events = in_dir("gone");
    start_server(&o);
    start_workers(1, 1);
    set_pace(200);
    for (int i = 0; i < 3; i++) { /* one is computed, two wait */
        talk_ask(&k[i], "POST", "/v1/completions", "", body_of(i, i ? "" : ", \"stream\": true"));
        UNTIL(metric("spot_serve_requests_total") == i + 1);
        if (!i)
            UNTIL(metric("spot_serve_choices_running") == 1);
    }
    UNTIL(metric("spot_serve_kv_pages_used") > 0);
    expect_error(body_of(0, ""), 429, "");
    ck_assert(status_number("queued") == 2);
    for (int i = 0; i < 3; i++)
        talk_close(&k[i]); /* the stream has no --linger, the others nobody who could come back */
    UNTIL(metric("spot_serve_choices_running") + metric("spot_serve_choices_queued") == 0);
    ck_assert(metric("spot_serve_kv_pages_used") == 0); /* nothing tells of them any more */
    ck_assert(number_in(talk_body(ask("GET", "/status", "")), "kv_use") == 0);
    set_pace(0);
    EXPECT_TEXT(talk_body(complete(body_of(0, ", \"temperature\": 0"))), "choices.0.text", want);
    free(want);
    end_well();
    ck_assert_ptr_nonnull(strstr(read_text(in_dir("gone")), "\"finish\":\"cancelled\""));
}
END_TEST

START_TEST(without_workers_there_is_no_health)
{
    struct spot_server_options o = serving();
    struct talk k;
    struct outcome got;

    start_server(&o);
    ck_assert_int_eq(talk_status(ask("GET", "/health", "")), 503);
    talk_ask(&k, "POST", "/v1/completions", "", body_of(0, ", \"stream\": true"));
    UNTIL(metric("spot_serve_choices_queued") == 1);
    got = end_server(SIGTERM); /* nobody is there who could end it */
    ck_assert_int_eq(got.err.code, SPOT_EPREEMPTED);
    ck_assert_str_eq(got.err.msg, "stopped with 1 unfinished choices");
    talk_hear(&k, NULL);
    ck_assert_ptr_nonnull(
        strstr(talk_text(&k), "The server stopped before the end of this request."));
    talk_close(&k);
}
END_TEST

START_TEST(a_server_that_ends_answers_what_it_took)
{
    struct spot_server_options o = serving();
    char *const want = wanted("model", prompts[2], LENGTH);
    struct talk k;
    struct outcome got;

    start_server(&o);
    start_workers(1, 1);
    set_pace(100);
    talk_ask(&k, "POST", "/v1/completions", "", body_of(2, ", \"temperature\": 0"));
    UNTIL(metric("spot_serve_choices_running") == 1);
    kill(rig.server, SIGTERM);
    UNTIL(talk_status(ask("GET", "/health", "")) == 503);
    expect_error(body_of(0, ""), 503, "");
    set_pace(0);
    talk_hear(&k, NULL);
    EXPECT_TEXT(talk_body(&k), "choices.0.text", want);
    talk_close(&k);
    got = end_server(0);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    dismissed(0);
    free(want);
}
END_TEST

/* --- what cannot be served, and who cannot serve --- */

static void expect_no_server(const struct spot_server_options *o, const char *text)
{
    struct outcome got;

    start_server(o);
    got = end_server(0);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, text), "no '%s' in: %s", text, got.err.msg);
}

START_TEST(what_cannot_be_served_is_refused_at_the_start)
{
    /* the first of 3 stages has 2 of 4 layers, that of 2 has 3; of 2 members each has half of a
     * layer */
    static const struct {
        uint32_t P, M, kv_byte;
    } least[] = { { 1, 1, 327680 }, { 3, 1, 163840 }, { 1, 2, 163840 }, { 2, 2, 122880 } };
    char text[256];
    struct spot_server_options o = serving();

    o.model = in_dir("nowhere");
    expect_no_server(&o, "nowhere/config.json");
    o = serving();
    o.P = 5;
    expect_no_server(&o, "5 stages of a model of 4 layers");
    o.P = 1;
    o.M = 3;
    expect_no_server(
        &o, "a tensor group of 3: must be a power of two that divides the model's 2 shards");
    o.M = 1;
    for (size_t i = 0; i < sizeof(least) / sizeof(*least); i++) { /* 40 pages of a context */
        o.P = least[i].P;
        o.M = least[i].M;
        o.kv_byte = least[i].kv_byte - 1;
        snprintf(text, sizeof(text),
                 "a worker's cache of %u bytes does not hold the model's context of 640 tokens: at "
                 "P = %u and M = %u it needs at least %u bytes",
                 (unsigned)o.kv_byte, (unsigned)o.P, (unsigned)o.M, (unsigned)least[i].kv_byte);
        expect_no_server(&o, text);
    }
    o.P = o.M = 1;
    o.kv_byte = 0;
    o.batch = in_dir("nothing.jsonl");
    expect_no_server(&o, "cannot open");
    o.batch = NULL;
    o.tls_cert = in_dir("model/config.json");
    expect_no_server(&o, "--tls-cert and --tls-key must go together");
}
END_TEST

/* What one worker cannot compute with, no other must miss. */
START_TEST(a_worker_with_another_model_is_refused_and_the_others_serve)
{
    struct spot_server_options o = serving();

    mkdir(in_dir("changed"), 0700);
    make_model("changed/model", 1);
    o.model = in_dir("changed/model");
    start_server(&o);
    start_workers(1, 1);
    make_model("changed/model", 2);
    start_worker(1);
    ck_assert_int_ne(end_of(&rig.worker[1]), 0);
    ck_assert_ptr_nonnull(
        strstr(why(), "changed/model is not the model that is served: its hash is "));
    ck_assert(metric("spot_serve_replicas") == 1);
    ck_assert_int_eq(talk_status(complete(body_of(0, ""))), 200);
    end_well();
}
END_TEST

START_TEST(a_worker_that_came_to_train_hears_that_this_is_a_server)
{
    const struct spot_server_options o = serving();
    struct spot_worker_options w = {
        .n_thread = 1, .join_timeout_s = 60, .backend = "auto", .name = "trainer", .warn = warn
    };
    struct spot_err err = { 0 };

    start_server(&o);
    w.join = at_dir("join");
    ck_assert_int_eq(spot_worker_run(&w, &err), -1);
    ck_assert(spot_worker_is_for_serving());
    end_well();
}
END_TEST

/* Started by the server itself, which listens nowhere else: a private directory. */
START_TEST(local_workers_are_kept_and_leave_nothing_behind)
{
    struct spot_server_options o = serving();
    char *want = wanted("model", prompts[1], LENGTH);

    o.group.listen = NULL;
    o.group.n_local = 2;
    o.group.become_worker = become_worker;
    setenv("TMPDIR", in_dir("private"), 1);
    mkdir(in_dir("private"), 0700);
    start_server(&o);
    UNTIL(metric("spot_serve_replicas") == 2);
    EXPECT_TEXT(talk_body(complete(body_of(1, ", \"temperature\": 0"))), "choices.0.text", want);
    end_well();
    ck_assert_int_eq(rmdir(in_dir("private")), 0); /* it is empty */
    free(want);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *const tc = tcase_create("server");

    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, answers_are_those_of_one_engine_in_any_company);
    tcase_add_test(tc, penalties_and_biases_count_what_was_said);
    tcase_add_test(tc, an_echoed_prompt_is_told_with_its_log_probabilities);
    tcase_add_test(tc, a_stream_says_what_the_whole_answer_says);
    tcase_add_test(tc, a_stream_goes_on_where_its_client_left_it);
    tcase_add_test(tc, a_chat_is_the_completion_of_what_its_template_makes_of_it);
    tcase_add_test(tc, an_answer_is_what_its_schema_allows);
    tcase_add_test(tc, status_metrics_and_log_say_what_was);
    tcase_add_test(tc, a_full_queue_says_so_and_who_hung_up_makes_room);
    tcase_add_test(tc, without_workers_there_is_no_health);
    tcase_add_test(tc, a_server_that_ends_answers_what_it_took);
    tcase_add_test(tc, what_cannot_be_served_is_refused_at_the_start);
    tcase_add_test(tc, a_worker_with_another_model_is_refused_and_the_others_serve);
    tcase_add_test(tc, a_worker_that_came_to_train_hears_that_this_is_a_server);
    tcase_add_test(tc, local_workers_are_kept_and_leave_nothing_behind);
    return run_server_suite("server", tc);
}

/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "front_rig.h"

/* Goal: each client gets all tokens of its completion once, in order, as they are committed, from
 * wherever it says that it has been, at its own speed; the server hears of the clients that go and
 * that nobody replaced. */

static const char stream[] = "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":8,\"stream\":true}";
static const char two[] = "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":5,\"n\":2,"
                          "\"stream\":true,\"stream_options\":{\"include_usage\":true}}";
static const char whole[] = "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":3,\"n\":2}";

static void setup(void)
{
    rig_begin();
    rig_open();
}

/* --- answers and streams ------------------------------------------------------------ */

START_TEST(a_whole_answer_waits_for_the_end_of_all_choices)
{
    struct client k;
    struct spot_completion *const c = rig_take(&k, whole);
    struct spot_buf want = { 0 };

    for (int i = 0; i < 5; i++) {
        rig_commit(c, i % 2, (uint32_t)('a' + i));
        rig_turn();
        client_read(&k);
        ck_assert_uint_eq(k.said.n, 1);
        ck_assert(!spot_front_is_idle(rig_front));
    }
    rig_commit(c, 1, 'E'); /* the other has its three */
    client_hear(&k, "\"usage\"");
    spot_openai_answer(&rig_options, c, &want);
    spot_buf_add(&want, "", 1);
    ck_assert_int_eq(client_status(&k), 200);
    ck_assert_str_eq(client_body(&k), (char *)want.data);
    client_close(&k);
    for (int i = 0; i < RIG_LOOKS && !spot_front_is_idle(rig_front); i++)
        rig_turn();
    ck_assert(spot_front_is_idle(rig_front));
    ck_assert_uint_eq(rig.n_abandoned, 0);
    spot_buf_release(&want);
}
END_TEST

/* The event of a token, as it must be told. */
static void add_event(struct spot_buf *out, const struct spot_completion *c, uint32_t choice,
                      size_t position)
{
    char id[64];

    spot_buf_add(out, id, (size_t)snprintf(id, sizeof(id), "id: %u:%zu\ndata: ", choice, position));
    spot_openai_chunk(&rig_options, c, choice, position, false, NULL, out);
    spot_buf_add(out, "\n\n", 2);
}

static void add_rest(struct spot_buf *out, const struct spot_completion *c, const size_t from[2])
{
    static const char done[] = "data: [DONE]\n\n";

    for (uint32_t i = 0; i < c->request.n_choice; i++)
        for (size_t p = from[i]; p < c->choice[i].n_token; p++)
            add_event(out, c, i, p);
    if (c->request.wants_usage) {
        spot_buf_add(out, "data: ", 6);
        spot_openai_usage_chunk(&rig_options, c, out);
        spot_buf_add(out, "\n\n", 2);
    }
    spot_buf_add(out, done, sizeof(done)); /* with its '\0' */
}

static void check_stream(const struct client *k, const struct spot_buf *want)
{
    struct spot_buf got = client_stream(k);

    ck_assert_str_eq((char *)got.data, (char *)want->data);
    spot_buf_release(&got);
}

START_TEST(a_stream_tells_each_token_when_it_is_committed)
{
    struct client k;
    struct spot_completion *const c = rig_take(&k, two);
    struct spot_buf want = { 0 };

    for (int i = 0; i < 10; i++) {
        const uint32_t choice = (uint32_t)(i < 3 ? 1 : i % 2 && c->choice[1].n_token < 5);
        char id[32];

        snprintf(id, sizeof(id), "id: %u:%zu\n", choice, c->choice[choice].n_token);
        ck_assert_ptr_null(strstr(client_text(&k), id));
        rig_commit(c, choice, (uint32_t)('a' + i));
        client_hear(&k, id); /* before the next one is there */
        add_event(&want, c, choice, c->choice[choice].n_token - 1);
    }
    add_rest(&want, c, (const size_t[2]){ 5, 5 });
    client_hear(&k, "\r\n0\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(client_text(&k), "Content-Type: text/event-stream"));
    check_stream(&k, &want);
    client_close(&k);
    ck_assert_uint_eq(rig.n_abandoned, 0);
    spot_buf_release(&want);
}
END_TEST

static void ask_rest(struct client *k, const struct spot_completion *c, const char *last)
{
    char path[128], header[128] = "";

    snprintf(path, sizeof(path), "/v1/streams/%s", c->request.id);
    if (last)
        snprintf(header, sizeof(header), "Last-Event-ID: %s\r\n", last);
    client_ask(k, "GET", path, header, "");
}

/* `has` tokens of each choice were heard; the completion is at its end. */
static void check_rest(const struct spot_completion *c, const size_t has[2])
{
    struct spot_buf want = { 0 };
    struct client k;
    char last[64] = "";

    for (int i = 0; i < 2; i++)
        if (has[i]) {
            const size_t n = strlen(last);

            snprintf(last + n, sizeof(last) - n, "%s%d:%d", n ? "," : "", i, (int)has[i] - 1);
        }
    ask_rest(&k, c, *last ? last : NULL);
    client_hear(&k, "\r\n0\r\n\r\n");
    add_rest(&want, c, has);
    check_stream(&k, &want);
    spot_buf_release(&want);
    client_close(&k);
}

START_TEST(a_client_that_comes_back_gets_the_rest_and_nothing_else)
{
    struct client k, again;
    struct spot_completion *const c = rig_take(&k, two);
    struct spot_buf want = { 0 };

    for (uint32_t i = 0; i < 4; i++)
        rig_commit(c, i % 2, 'a' + i);
    client_hear(&k, "id: 1:1");
    client_close(&k);
    ask_rest(&again, c, "0:1,1:0");
    client_hear(&again, "id: 1:1");
    for (uint32_t i = 4; i < 10; i++) /* and what comes after */
        rig_commit(c, i % 2, 'a' + i);
    client_hear(&again, "\r\n0\r\n\r\n");
    add_event(&want, c, 1, 1);
    add_rest(&want, c, (const size_t[2]){ 2, 2 });
    check_stream(&again, &want);
    client_close(&again);
    for (size_t i = 0; i <= 5; i++)
        for (size_t j = 0; j <= 5; j++)
            check_rest(c, (const size_t[2]){ i, j });
    spot_buf_release(&want);
}
END_TEST

START_TEST(where_a_client_says_it_was_is_a_token_that_was_told)
{
    static const char *const bad[] = { "2:0", "0",    "0:",      "0:x",  ":1",  "x:1",
                                       "0:2", "0:-1", "0:0;1:0", "-1:0", "0:0x" };
    struct client k, other;
    struct spot_completion *const c = rig_take(&k, two);

    rig_commit(c, 0, 'a');
    rig_commit(c, 0, 'b');
    client_hear(&k, "id: 0:1");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ask_rest(&other, c, bad[i]);
        client_hear(&other, "Last-Event-ID must be");
        ck_assert_int_eq(client_status(&other), 400);
        client_close(&other);
    }
    ck_assert_uint_eq(rig.n_abandoned, 0); /* k reads on */
    rig_commit(c, 0, 'c');
    client_hear(&k, "id: 0:2");
    client_close(&k);
}
END_TEST

/* What no token says any more is said by an event of its own. */
START_TEST(what_the_server_gave_up_is_an_error_and_not_an_end)
{
    static const char *const body[] = { stream, whole };
    struct client k;
    struct spot_completion *const c = rig_take(&k, body[_i]);

    rig_commit(c, 0, 'a');
    if (!_i)
        client_hear(&k, "id: 0:0");
    c->why = strdup("it cannot be computed");
    for (uint32_t i = 0; i < c->request.n_choice; i++)
        spot_completion_finish(c, i, SPOT_FINISH_CANCELLED);
    spot_front_progress(rig_front, c);
    client_hear(&k, _i ? "server_error" : "data: [DONE]");
    ck_assert_int_eq(client_status(&k), _i ? 500 : 200);
    ck_assert_ptr_nonnull(strstr(client_text(&k), "\"error\""));
    ck_assert_ptr_nonnull(strstr(client_text(&k), "aborted this request: it cannot be computed."));
    client_close(&k);
}
END_TEST

/* --- clients that go ------------------------------------------------------------------ */

static void await_abandoned(size_t n)
{
    for (int i = 0; i < RIG_TURNS && rig.n_abandoned < n; i++)
        rig_turn();
    ck_assert_uint_eq(rig.n_abandoned, n);
}

/* Nobody is given up in the time in which those who go are noticed. */
static void await_nothing(size_t n)
{
    for (int i = 0; i < RIG_LOOKS; i++)
        rig_turn();
    ck_assert_uint_eq(rig.n_abandoned, n);
}

enum { GO_AT_ONCE = 1, GO_AFTER_A_TOKEN = 2, SAY_MORE = 4, RESET = 8, GO_WAYS = 16 };

/* Whatever it asked for, heard, or said behind its question. */
START_TEST(a_client_that_goes_is_told_to_the_server)
{
    struct client k;
    struct spot_completion *const c = rig_take(&k, _i & GO_AT_ONCE ? whole : stream);

    if (_i & GO_AFTER_A_TOKEN)
        rig_commit(c, 0, 'a');
    rig_turn();
    if (_i & SAY_MORE)
        client_send(&k, "\r\n", 2);
    if (_i & RESET)
        setsockopt(k.fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
    client_close(&k);
    await_abandoned(1);
    ck_assert_ptr_eq(rig.abandoned, c);
    await_nothing(1); /* once */
}
END_TEST

static void setup_tcp(void)
{
    rig_begin();
    rig_options.address = "127.0.0.1:0";
    rig_open();
    ck_assert_int_gt(spot_front_port(rig_front), 0);
}

static void check_once(const char *method, const char *id, int status, const char *says)
{
    struct client k;
    char path[128];

    snprintf(path, sizeof(path), "/v1/streams/%s/proof", id);
    client_once(&k, method, path, "", "");
    ck_assert_int_eq(client_status(&k), status);
    ck_assert_msg(strstr(client_body(&k), says) != NULL, "%s", client_body(&k));
    client_close(&k);
}

START_TEST(a_proof_is_asked_for_beside_the_stream)
{
    struct client reader;
    struct spot_completion *const c = rig_take(&reader, stream);

    rig_commit(c, 0, 'a');
    check_once("GET", c->request.id, 409, "stream_not_ended");
    ck_assert_uint_eq(rig.n_abandoned, 0); /* the other reads it */
    client_close(&reader);
    await_abandoned(1);
    check_once("GET", c->request.id, 409, "stream_not_ended");
    await_abandoned(2); /* it still waits for its client */
    while (c->n_open)
        rig_commit(c, 0, 'b');
    check_once("GET", c->request.id, 200, c->request.id);
    ck_assert_uint_eq(rig.n_abandoned, 2);
    c->choice[0].finish = SPOT_FINISH_CANCELLED;
    check_once("GET", c->request.id, 500, "error");
    check_once("GET", "cmpl-none", 404, "stream_not_found");
    check_once("DELETE", "cmpl-none", 405, "not allowed");
}
END_TEST

START_TEST(of_two_readers_the_last_one_counts)
{
    struct client first, second, wrong;
    struct spot_completion *const c = rig_take(&first, stream);

    rig_commit(c, 0, 'a');
    client_hear(&first, "id: 0:0");
    ask_rest(&second, c, NULL);
    client_hear(&second, "id: 0:0");
    client_close(&first);
    await_nothing(0);
    ask_rest(&wrong, c, "7:7");
    client_hear(&wrong, "400");
    client_close(&wrong);
    client_close(&second);
    await_abandoned(1);
    while (c->n_open)
        rig_commit(c, 0, 'b'); /* its client has gone: nobody is woken */
    rig_turn();
}
END_TEST

START_TEST(a_front_that_ends_takes_its_clients_along)
{
    struct client k[3];

    (void)rig_take(&k[0], stream);
    (void)rig_take(&k[1], whole);
    client_open(&k[2]);
    client_send(&k[2], "POST /v1/comp", 13);
    rig_commit(rig.c[0], 0, 'a');
    client_hear(&k[0], "id: 0:0");
    rig_close();
    for (int i = 0; i < 3; i++) {
        client_read(&k[i]);
        ck_assert(k[i].is_ended);
        client_close(&k[i]);
    }
    ck_assert_uint_eq(rig.n_abandoned, 2);
}
END_TEST

enum { MANY = 20000 };

START_TEST(a_slow_client_costs_one_chunk_and_no_other_client)
{
    static const char body[] = "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":20000,"
                               "\"stream\":true}";
    struct client k;
    struct spot_completion *const c = rig_take(&k, body);
    struct spot_buf want = { 0 };
    size_t n_told;

    for (uint32_t i = 0; i < MANY; i++)
        rig_commit(c, 0, 'a' + i % 26);
    for (int i = 0; i < RIG_LOOKS; i++)
        rig_turn();
    n_told = rig.n_told; /* what the kernel's buffers hold */
    ck_assert_uint_lt(n_told, MANY / 2);
    rig_check_served();
    for (int i = 0; i < RIG_LOOKS; i++)
        rig_turn();
    ck_assert_uint_eq(rig.n_told, n_told);
    client_hear(&k, "data: [DONE]");
    client_hear(&k, "\r\n0\r\n\r\n");
    add_rest(&want, c, (const size_t[2]){ 0 });
    check_stream(&k, &want);
    ck_assert_uint_eq(rig.n_told, MANY);
    client_close(&k);
    spot_buf_release(&want);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("front");
    TCase *tc = rig_case(s, "unix", setup, rig_end_all);

    tcase_add_test(tc, a_whole_answer_waits_for_the_end_of_all_choices);
    tcase_add_test(tc, a_stream_tells_each_token_when_it_is_committed);
    tcase_add_test(tc, a_client_that_comes_back_gets_the_rest_and_nothing_else);
    tcase_add_test(tc, where_a_client_says_it_was_is_a_token_that_was_told);
    tcase_add_loop_test(tc, what_the_server_gave_up_is_an_error_and_not_an_end, 0, 2);
    tcase_add_loop_test(tc, a_client_that_goes_is_told_to_the_server, 0, RESET);
    tcase_add_test(tc, a_proof_is_asked_for_beside_the_stream);
    tcase_add_test(tc, of_two_readers_the_last_one_counts);
    tcase_add_test(tc, a_front_that_ends_takes_its_clients_along);
    tcase_add_test(tc, a_slow_client_costs_one_chunk_and_no_other_client);
    tc = rig_case(s, "tcp", setup_tcp, rig_end_all);
    tcase_add_loop_test(tc, a_client_that_goes_is_told_to_the_server, 0, GO_WAYS);
    tcase_add_test(tc, a_stream_tells_each_token_when_it_is_committed);
    return rig_run(s);
}

/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "common/xalloc.h"
#include "front_rig.h"
#include "growth.h"

/* Goal: a large body is read, and a large answer is written, by a thread beside the loop, while the
 * streams of others go on; whoever goes meanwhile, and whatever changes, the answer is right or
 * nobody's. */

enum { LARGE = 1 << 16, WORST = 1 << 20 };

static void setup(void)
{
    rig_begin();
    rig_options.body_max_byte = 2 * WORST;
    rig_open();
}

/* A prompt of n letters. */
static char *body_of(size_t n, const char *rest)
{
    char *const body = spot_xcalloc(n + strlen(rest) + 64, 1);
    char *at = body + sprintf(body, "{\"model\":\"m\",\"prompt\":\"");

    memset(at, 'a', n);
    sprintf(at + n, "\"%s}", rest);
    return body;
}

static void ask_large(struct client *k, size_t n, const char *rest)
{
    char *const body = body_of(n, rest);

    client_ask(k, "POST", "/v1/completions", "", body);
    free(body);
}

static void await_taken(size_t n)
{
    for (int i = 0; i < RIG_TURNS && rig.n < n; i++)
        rig_turn();
    ck_assert_uint_eq(rig.n, n);
}

static void await_idle(void)
{
    for (int i = 0; i < RIG_TURNS && !spot_front_is_idle(rig_front); i++)
        rig_turn();
    ck_assert(spot_front_is_idle(rig_front));
}

START_TEST(a_large_body_becomes_the_same_request)
{
    static const char *const rest[] = { ",\"max_tokens\":1", ",\"max_tokens\":1,\"stream\":true" };
    struct client k;

    ask_large(&k, LARGE, rest[_i]);
    await_taken(1);
    ck_assert_uint_eq(rig.c[0]->request.n_prompt, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        ck_assert_uint_eq(rig.c[0]->request.prompt[i], 'a');
    rig_commit(rig.c[0], 0, 'b');
    client_hear(&k, "\"finish_reason\":\"length\"");
    ck_assert_int_eq(client_status(&k), 200);
    client_close(&k);
    await_idle();
}
END_TEST

START_TEST(a_large_body_that_is_wrong_is_named)
{
    struct client k;

    ask_large(&k, LARGE, ",\"max_tokens\":-1");
    client_hear(&k, "max_tokens");
    ck_assert_int_eq(client_status(&k), 400);
    client_close(&k);
    await_idle();
    ck_assert_uint_eq(rig.n, 0);
}
END_TEST

START_TEST(a_large_answer_is_the_same_answer)
{
    char rest[64];
    struct spot_buf want = { 0 };
    struct client k;

    snprintf(rest, sizeof(rest), ",\"max_tokens\":%d,\"logprobs\":0", 2000);
    ask_large(&k, 10, rest);
    await_taken(1);
    for (int i = 0; i < 2000; i++)
        rig_commit(rig.c[0], 0, (uint32_t)('a' + i % 26) == 'E' ? 'e' : (uint32_t)('a' + i % 26));
    client_hear(&k, "\"usage\"");
    spot_openai_answer(&rig_options, rig.c[0], &want);
    spot_buf_add(&want, "", 1);
    for (int i = 0; i < RIG_TURNS && strlen(client_body(&k)) < want.n - 1; i++) {
        rig_turn();
        client_read(&k);
    }
    ck_assert_str_eq(client_body(&k), (char *)want.data);
    client_close(&k);
    await_idle();
    ck_assert_uint_eq(rig.n_abandoned, 0);
    spot_buf_release(&want);
}
END_TEST

/* At whatever moment: while bodies come, are read, and answers are written. */
START_TEST(clients_that_go_meanwhile_leave_nothing_behind)
{
    struct client k[8];

    for (int i = 0; i < 8; i++)
        ask_large(&k[i], LARGE / 2, ",\"max_tokens\":600");
    for (int i = 0; i < _i; i++)
        rig_turn();
    for (int i = 0; i < 8; i += 2)
        client_close(&k[i]);
    for (int i = 0; i < RIG_TURNS && rig.n < 4; i++)
        rig_turn();
    for (size_t c = 0; c < rig.n; c++)
        for (int t = 0; t < 600; t++)
            rig_commit(rig.c[c], 0, 'b');
    for (int i = 1; i < 8; i += 2)
        client_close(&k[i]);
    if (_i % 2)
        rig_close(); /* with jobs at the desk */
    else
        await_idle();
}
END_TEST

/* Bodies that were read with one vocabulary, when another is served: they are read again. */
START_TEST(a_body_is_read_with_the_vocabulary_that_is_served)
{
    enum { N = 12 };
    static const uint32_t begin[] = { 7 };
    struct spot_vocabulary other = rig_vocabulary;
    struct spot_front_options options = rig_options;
    struct client k[N];
    size_t before;

    other.begin = begin;
    other.n_begin = 1;
    options.vocabulary = &other;
    for (int i = 0; i < N; i++)
        ask_large(&k[i], LARGE, ",\"max_tokens\":1");
    for (int i = 0; i < _i; i++)
        rig_turn();
    before = rig.n;
    spot_front_set_model(rig_front, &options);
    await_taken(N);
    ck_assert(!spot_front_is_reading(rig_front, &rig_vocabulary));
    ck_assert(!spot_front_is_reading(rig_front, &other));
    for (size_t i = 0; i < N; i++)
        ck_assert_uint_eq(rig.c[i]->request.n_prompt, LARGE + (i >= before));
    for (int i = 0; i < N; i++)
        client_close(&k[i]);
    rig_close();
}
END_TEST

/* Each is taken, or refused; one that is refused while it is sent may be hung up on. */
START_TEST(bodies_that_wait_are_bounded)
{
    enum { N = 24 };
    struct client k[N];
    size_t n_refused = 0;

    for (int i = 0; i < N; i++)
        ask_large(&k[i], WORST - 100, ",\"max_tokens\":1");
    for (int i = 0; i < RIG_TURNS && rig.n + n_refused < N; i++) {
        rig_turn();
        n_refused = 0;
        for (int j = 0; j < N; j++) {
            client_read(&k[j]);
            n_refused += k[j].is_ended || client_status(&k[j]) > 0;
        }
    }
    ck_assert_uint_eq(rig.n + n_refused, N);
    ck_assert_uint_gt(rig.n, 0);
    for (int i = 0; i < N; i++)
        client_close(&k[i]);
}
END_TEST

/* Small requests are answered while the thread has a large one. */
START_TEST(a_stream_goes_on_beside_large_bodies)
{
    struct client s, k[8];

    client_ask(&s, "POST", "/v1/completions", "",
               "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":100,\"stream\":true}");
    await_taken(1);
    for (int i = 0; i < 8; i++)
        ask_large(&k[i], LARGE, ",\"max_tokens\":1");
    for (int i = 0; i < 100; i++) {
        char id[32];

        rig_commit(rig.c[0], 0, 'b');
        snprintf(id, sizeof(id), "id: 0:%d\n", i);
        client_hear(&s, id);
    }
    await_taken(9);
    client_close(&s);
    for (int i = 0; i < 8; i++)
        client_close(&k[i]);
}
END_TEST

/* --- the turns of the loop ------------------------------------------------------------ */

/* What costs most to read, each of a megabyte: ids, members, texts, and an answer. */
static char *worst_body(int kind)
{
    char *const body = spot_xcalloc(WORST + 16384, 1);
    char *at = body + sprintf(body, "{\"model\":\"m\",\"max_tokens\":1,");

    at += sprintf(at, kind == 1 ? "\"prompt\":\"a\",\"metadata\":{\"k\":0" : "\"prompt\":[");
    for (int i = 0; at < body + WORST; i++)
        at += kind == 1   ? sprintf(at, ",\"%d\":1", i)
              : kind == 0 ? sprintf(at, "%s1", i ? "," : "")
                          : sprintf(at, "%s\"%8192d\"", i ? "," : "", i);
    sprintf(at, kind == 1 ? "}}" : "]}");
    return body;
}

/* The most that a turn of this thread takes until n more requests are taken. */
static double worst_turn_s(size_t n)
{
    double worst_s = 0;

    for (int i = 0; i < RIG_TURNS && rig.n < n; i++) {
        struct pollfd set = { .fd = spot_front_fd(rig_front), .events = POLLIN };
        double begun_s;

        (void)poll(&set, 1, 1);
        begun_s = growth_cpu_s();
        spot_front_run(rig_front);
        worst_s = fmax(worst_s, growth_cpu_s() - begun_s);
    }
    ck_assert_uint_eq(rig.n, n);
    return worst_s;
}

START_TEST(a_turn_of_the_loop_costs_a_small_part_of_a_large_body)
{
    struct spot_buf error = { 0 };
    struct spot_request request;
    char *const body = worst_body(_i);
    const double begun_s = growth_cpu_s();
    const int status = spot_openai_parse(&rig_options, false, body, strlen(body), &request, &error);
    const double read_s = growth_cpu_s() - begun_s;
    double turn_s;
    struct client k;

    spot_buf_add(&error, "", 1);
    ck_assert_msg(!status, "%s", (char *)error.data);
    spot_request_release(&request);
    spot_buf_release(&error);
    client_ask(&k, "POST", "/v1/completions", "", body);
    turn_s = worst_turn_s(1);
    ck_assert_msg(turn_s < read_s / 2, "a turn of %.6f s, reading takes %.6f s", turn_s, read_s);
    client_close(&k);
    free(body);
}
END_TEST

/* Which templates take long with a short body is known when one did. */
START_TEST(a_template_that_took_long_once_is_rendered_beside)
{
    static const char config[] =
        "{\"chat_template\":\"{% if messages[0].content == 'slow' %}{% for i in range(3000) %}"
        "{% for j in range(1000) %}{% endfor %}{% endfor %}{% endif %}a\"}";
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"slow\"}],"
                               "\"max_tokens\":1}";
    struct spot_chat *const chat = spot_chat_parse(config, sizeof(config) - 1, "c", NULL);
    struct spot_front_options options = rig_options;
    struct client k[2];

    ck_assert_ptr_nonnull(chat);
    options.chat = chat;
    spot_front_set_model(rig_front, &options);
    for (size_t i = 0; i < 2; i++) {
        client_ask(&k[i], "POST", "/v1/chat/completions", "", body);
        for (int turns = 0; i && turns < RIG_TURNS; turns++) {
            if (spot_front_is_reading(rig_front, &rig_vocabulary))
                break;
            ck_assert_uint_eq(rig.n, 1);
            rig_turn();
        }
        await_taken(i + 1);
    }
    for (size_t i = 0; i < 2; i++)
        client_close(&k[i]);
    rig_close();
    spot_chat_free(chat);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("front_beside");

    tcase_add_checked_fixture(c, setup, rig_end_all);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, a_large_body_becomes_the_same_request, 0, 2);
    tcase_add_loop_test(c, clients_that_go_meanwhile_leave_nothing_behind, 0, 12);
    tcase_add_loop_test(c, a_body_is_read_with_the_vocabulary_that_is_served, 0, 8);
    tcase_add_loop_test(c, a_turn_of_the_loop_costs_a_small_part_of_a_large_body, 0, 3);
    add_tests(c);
    return run_case("front_beside", c);
}
